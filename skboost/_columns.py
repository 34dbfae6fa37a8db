"""Columns of X as users pass them, and which hold strings, categories or dates."""

from contextlib import contextmanager
from datetime import date, time, timedelta

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data as check_data


def column_of(X, i):
    """A column of an array or a data frame, as an array."""
    if hasattr(X, "iloc"):
        column, order = X.iloc[:, i], declared_order(X, i)
        if order and type(order[0]).__name__ == "Interval":
            # Of ``pandas.cut``.
            column = column.cat.rename_categories(str)
        return column.to_numpy()
    if hasattr(X, "columns"):
        return X[X.columns[i]].to_numpy()
    return X[:, i]


def missing_in(values):
    """Which entries of an array are missing: NaN, None, NaT and NA, not infinity."""
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    # Nothing else is not itself; NA is neither.
    flat = [
        one is None
        or type(one).__name__ in ("NAType", "NaTType")
        or (isinstance(one, float | np.floating | np.datetime64) and bool(one != one))
        for one in values.ravel()
    ]
    return np.array(flat, dtype=bool).reshape(values.shape)


def declared_order(X, i):
    """Labels of a column in the order that its type says, None where it says none."""
    if not hasattr(X, "dtypes"):
        return None
    dtype = X.dtypes.iloc[i] if hasattr(X, "iloc") else X.dtypes[i]
    labels = getattr(dtype, "categories", None)
    return labels.to_list() if hasattr(labels, "to_list") else None


def holds_labels(X, i):
    """Whether a column holds strings or categories."""
    if declared_order(X, i) is not None:
        return True
    values = column_of(X, i)
    if values.dtype.kind != "O":
        return values.dtype.kind in "UST"
    return any(isinstance(value, str) for value in values)


_DATES = (date, time, timedelta, np.datetime64, np.timedelta64)


def is_dated(values):
    """Whether an array, or any of its objects, holds dates, periods or durations."""
    values = np.asarray(values)
    if values.dtype.kind != "O":
        return values.dtype.kind in "mM"
    return any(
        isinstance(one, _DATES) or type(one).__name__ == "Period"
        for one in values.ravel()
    )


def refuse_dates(values, name, column=None):
    """A ValueError where an array of what users pass as `name` holds dates.

    As a number a date would count from its library's origin in its column's unit, and
    nothing says that both are those of the rows before.
    """
    if is_dated(values):
        where = "" if column is None else f" in column {column!r}"
        raise ValueError(
            f"{name} must have numbers{where}; got dates, periods or durations. "
            "Convert them to one unit from one origin: days are (dates - "
            "np.datetime64('2020-01-01')) / np.timedelta64(1, 'D'), and durations / "
            "np.timedelta64(1, 'D')."
        )


def check_responses(y, name="y", advice="Convert them; for classes use a classifier."):
    """A ValueError where responses that must be numbers are dates or strings."""
    refuse_dates(y, name)
    values, column = np.asarray(y).ravel(), getattr(y, "name", None)
    if values.dtype.kind in "OUST":
        for one in values:
            if isinstance(one, str | bytes):
                where = "" if column is None else f" in column {column!r}"
                raise ValueError(
                    f"{name} must be numbers; got strings such as {str(one)!r}{where}. "
                    f"{advice}"
                )


def _suspects(X):
    """Positions of the columns that may hold what is no number."""
    if isinstance(X, list | tuple):
        # Of lists the first row alone: NumPy reads them all later.
        X = np.array([*X[:1]], dtype=object)
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
    elif isinstance(X, np.ndarray) and X.ndim == 2:
        kinds = X.dtype.kind * X.shape[1]
    else:
        if not hasattr(X, "shape"):
            # `RowBlocks` are no array: their own error comes before one of missing y.
            np.asarray(X)
        return X, []
    return X, [i for i, kind in enumerate(kinds) if kind in "OUSTmM"]


def validate_any(estimator, X, *args, **kwargs):
    """scikit-learn's check, after one that no two columns have the same name."""
    names = list(getattr(X, "columns", ()))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"X must have columns of different names; got {names.count(twice)} of the "
            f"name {twice!r}. Rename or drop them."
        )
    return check_data(estimator, X, *args, **kwargs)


def validate_data(estimator, X, *args, advice=None, **kwargs):
    """scikit-learn's check, after one that refuses strings, categories and dates.

    Without it strings such as "1" and dates would be numbers in silence. Where `advice`
    is None, strings are to be encoded.
    """
    rows, suspects = _suspects(X)
    labels = [i for i in suspects if holds_labels(rows, i)]
    if labels:
        some = [X.columns[i] if hasattr(X, "columns") else i for i in labels]
        names = ", ".join(map(repr, some[:8])) + ", ..." * (len(some) > 8)
        encode = (
            "Encode them before, for example with sklearn.compose.ColumnTransformer(["
            f"('labels', OneHotEncoder(drop='first'), {some[:8]!r})], "
            "remainder='passthrough')."
        )
        raise ValueError(
            "X must have numbers in all columns; got strings or categories in "
            f"{names}. {advice or encode}"
        )
    for i in suspects:
        column = rows.columns[i] if hasattr(rows, "columns") else i
        refuse_dates(column_of(rows, i), "X", column)
    if kwargs.get("y_numeric"):
        check_responses(args[0])
    with gaps_named(X):
        return validate_any(estimator, X, *args, **kwargs)


GAPS = {"NaN": np.isnan, "infinity": np.isinf}


@contextmanager
def gaps_named(X, where=""):
    """Around scikit-learn's check of X: its error says where X is not finite."""
    try:
        yield
    except ValueError as error:
        what = next((w for w in GAPS if f"Input X contains {w}" in str(error)), None)
        if what is None:
            raise
        rows = check_array(
            X, accept_sparse="coo", dtype=np.float64, ensure_all_finite=False
        )
        names = getattr(X, "columns", None)
        name_of = "x{}".format if names is None else names.__getitem__
        raise ValueError(gap_in(what, rows, name_of, where) or error) from None


def gap_in(what, rows, name_of, where=""):
    """What to say of the first entry of one of the `GAPS`; None where there is none."""
    if sparse.issparse(rows):
        bad = np.column_stack([rows.row, rows.col])[GAPS[what](rows.data)]
    else:
        bad = np.argwhere(GAPS[what](rows))
    if not len(bad):
        return None
    row, place = bad[0].tolist()
    return (
        f"X contains {what} in column {name_of(place)!r}, row {row}{where} ({len(bad)} "
        "such entries in all). Impute them, for example with "
        "sklearn.impute.SimpleImputer, or drop the rows."
    )
