"""Fitted transformers of scikit-learn as steps of an exported file, or as a matrix."""

import warnings
from itertools import groupby
from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder
from sklearn.utils.validation import check_is_fitted

from skboost.serving import (
    Affine,
    Before,
    Category,
    Chain,
    Columns,
    Encoded,
    Imputed,
    Scaled,
    is_na,
)

# So long that what columns are shifted by costs their slopes no digits.
_STEP = 2.0**30
_NOT_AFFINE = (
    "preprocessor must be an affine map of columns of numbers, such as scalers, "
    "projections and selections of columns; this one is not. Apply it before the call, "
    "and export without it."
)


def steps_before(preprocessor, n_features):
    """A fitted transformer as steps on NumPy alone; None for None."""
    if preprocessor is None:
        return None
    check_is_fitted(preprocessor)
    step = _step(preprocessor)
    _check_width(step.width, n_features)
    return Before(preprocessor.n_features_in_, step)


def numbers_step(numbers, labels):
    """The step to numbers of `Columns`, of a regression with groups, and its labels."""
    pairs = []
    columns = dict.fromkeys(i for i, _ in numbers)
    for labelled, run in groupby(columns, labels.__contains__):
        places = [*run]
        if labelled:
            pairs += [([k], _indicators(labels[k])) for k in places]
        else:
            pairs.append((places, _whole(places)))
    return Columns(tuple((np.array(places), step) for places, step in pairs))


def _indicators(labels):
    """For every label but the first, whether it stands in a row."""
    n = len(labels) - 1
    table = np.eye(n + 1, n, -1, dtype=np.int8)
    kind = None if isinstance(labels[0], str) else object
    column = Category(np.array(labels, dtype=kind), table, np.arange(n), -1, -1)
    return Encoded(np.zeros(n), (column,))


def affine_map(preprocessor, n_features):
    """Matrix and shift of a fitted transformer, by trying it; None for None."""
    if preprocessor is None:
        return None
    check_is_fitted(preprocessor)
    found = _affine(preprocessor)
    if found is None:
        raise ValueError(_NOT_AFFINE)
    _check_width(len(found[1]), n_features)
    return found


def _check_width(width, n_features):
    if width != n_features:
        raise ValueError(
            "preprocessor must give the columns of the model; got "
            f"{width} for {n_features}. Pass the steps that it was fitted after, "
            "pipeline[:-1]."
        )


def _step(transformer):
    """The step of any fitted transformer; a ValueError that names it where none is."""
    for kind, read in _READERS.items():
        if isinstance(transformer, kind):
            return read(transformer)
    return _affine_step(transformer)


def _affine_step(transformer):
    found = _affine(transformer)
    if found is None:
        raise _refused(transformer, "it is no affine map of columns of numbers")
    if _fills_gaps(transformer, len(found[0])):
        raise _refused(transformer, "it gives missing values others")
    matrix, shift = found
    used = matrix != 0.0
    if np.any(used.sum(axis=0) > 1):
        return Affine(matrix, shift)
    columns = used.argmax(axis=0)
    return Scaled(columns, matrix[columns, np.arange(len(shift))], shift)


def _fills_gaps(transformer, n_raw):
    """Whether numbers come out where none went in: imputers are affine elsewhere."""
    try:
        out = _transformed(transformer, np.full((1, n_raw), np.nan))
    except (AttributeError, TypeError, ValueError):
        return False
    return bool(np.isfinite(out).any())


def _refused(transformer, why):
    name = type(transformer).__name__
    return ValueError(
        f"preprocessor has a step that cannot be exported, {name}: {why}. Steps that "
        "can are SimpleImputer, OneHotEncoder, OrdinalEncoder, TargetEncoder, scalers, "
        "projections and selections of columns, in a Pipeline and a ColumnTransformer. "
        f"Apply {name} before the call, and export without it."
    )


def _affine(transformer):
    """Matrix and shift, by trying; None where the transformer is no affine map."""
    # Of all sizes: a map that clips is constant in places.
    n_raw = getattr(transformer, "n_features_in_", 0)
    others = np.random.default_rng(0).standard_normal((64, n_raw))
    others *= np.geomspace(1e-3, 1e9, 64)[:, None]
    try:
        with np.errstate(all="ignore"):
            shift = _transformed(transformer, np.zeros((1, n_raw)))
            steps = _transformed(transformer, _STEP * np.eye(n_raw))
            images = _transformed(transformer, others)
    except (AttributeError, TypeError, ValueError):
        return None
    matrix = (steps - shift) / _STEP
    size = 1.0 + np.abs(shift) + np.abs(others) @ np.abs(matrix)
    if not np.all(np.abs(images - others @ matrix - shift) <= 1e-9 * size):
        return None
    return matrix, shift[0]


def _transformed(transformer, X):
    """What a transformer gives for columns, as a dense array of floats."""
    names = getattr(transformer, "feature_names_in_", None)
    columns = X if isinstance(X, list) else list(X.T)
    if names is not None:
        import pandas as pd

        X = pd.DataFrame(dict(zip(names, columns, strict=True)))
    elif isinstance(X, list):
        X = np.column_stack([np.asarray(c, dtype=object) for c in columns])
    out = transformer.transform(X)
    return np.asarray(out.toarray() if sparse.issparse(out) else out, dtype=float)


def _chain(pipeline):
    steps = [step for _, step in pipeline.steps if step not in (None, "passthrough")]
    return Chain(tuple(map(_step, steps)))


def _columns(transformer):
    if transformer.transformer_weights:
        return _affine_step(transformer)
    n, pairs = transformer.n_features_in_, []
    names = list(getattr(transformer, "feature_names_in_", ()))
    for _, step, columns in transformer.transformers_:
        places = _places(columns, names, n)
        if not places.size or step == "drop":
            continue
        pairs.append((places, _whole(places) if step == "passthrough" else _step(step)))
    return Columns(tuple(pairs))


def _whole(places):
    """All columns as they are."""
    n = len(places)
    return Scaled(np.arange(n), np.ones(n), np.zeros(n))


def _places(columns, names, n):
    """Positions of columns that were given in any of scikit-learn's ways."""
    if isinstance(columns, slice):
        ends = [columns.start, columns.stop]
        start, stop = (names.index(e) if isinstance(e, str) else e for e in ends)
        if isinstance(columns.stop, str):  # the last name is inside
            stop += 1
        return np.arange(n)[start : stop : columns.step]
    columns = np.atleast_1d(np.asarray(columns))
    if columns.dtype.kind in "OU":
        return np.array([names.index(name) for name in columns], dtype=int)
    return np.arange(n)[columns if columns.size else slice(0)]


def _imputed(imputer):
    marker, values = imputer.missing_values, imputer.statistics_
    if is_na(np.array([marker], dtype=object))[0]:  # rows have NaN in its place
        marker = np.nan
    if marker is not None and not isinstance(marker, str | Real):
        raise _refused(imputer, f"missing_values={marker!r} has no text of its own")
    numeric = all(isinstance(value, Real) for value in values.tolist())
    # A column without a value in `fit` is dropped; the names say which are left.
    places = [f"x{j}" for j in range(len(values))]
    places = list(getattr(imputer, "feature_names_in_", places))
    out = imputer.get_feature_names_out()
    indicator = imputer.indicator_
    flagged = np.array([], int) if indicator is None else indicator.features_
    kept = [places.index(name) for name in out[: len(out) - len(flagged)]]
    values = values[kept].astype(float if numeric else object)
    return Imputed(marker, numeric, np.array(kept, dtype=int), values, flagged)


def _encoded(encoder):
    categories = [np.asarray(labels) for labels in encoder.categories_]
    base = [labels[:1] for labels in categories]
    columns = [_category(encoder, base, j) for j in range(len(base))]
    return Encoded(_transformed(encoder, base)[0], tuple(columns))


def _category(encoder, base, j):
    """One column of an encoder, by trying all its labels and one that is none."""
    labels = np.asarray(encoder.categories_[j])
    if any(label is None for label in labels.tolist()):
        raise _refused(encoder, "None is one of its categories")
    table, unknown = _tried(encoder, base, j, labels), -1
    try:
        other = _tried(encoder, base, j, _unseen(labels))
    except ValueError:
        pass
    else:
        table, unknown = np.vstack([table, other]), len(labels)
    places = np.flatnonzero(np.any(table != table[0], axis=0))
    table = table[:, places]
    if np.isin(table, (0.0, 1.0)).all():  # few bytes where there are many labels
        table = table.astype(np.int8)
    # NaN is the last of the labels where it is one.
    nan = labels[-1] != labels[-1]
    missing = len(labels) - 1 if nan else unknown
    return Category(labels[:-1] if nan else labels, table, places, missing, unknown)


def _tried(encoder, base, j, labels):
    columns = [np.repeat(value, len(labels)) for value in base]
    columns[j] = labels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _transformed(encoder, columns)


def _unseen(labels):
    """A value that is none of the labels, of their kind, as an array of one."""
    if labels.dtype.kind in "biuf":
        finite = labels[np.isfinite(labels)]
        return np.array([finite.max(initial=0) + 1])
    name = "unseen"
    while name in labels.tolist():
        name += "_"
    return np.array([name], dtype=object)


_READERS = {
    Pipeline: _chain,
    ColumnTransformer: _columns,
    SimpleImputer: _imputed,
    OneHotEncoder: _encoded,
    OrdinalEncoder: _encoded,
    TargetEncoder: _encoded,
}
