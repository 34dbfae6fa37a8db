"""Columns of X that say groups: which there are, their levels, and rows by them."""

from functools import cache, partial
from itertools import combinations
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from skboost._columns import (
    GAPS,
    column_of,
    declared_order,
    gap_in,
    holds_labels,
    missing_in,
    refuse_dates,
    validate_any,
)
from skboost._math import as_floats
from skboost._row_blocks import Table
from skboost._rows import canonical_rows
from skboost.fitting import in_cross_validation, row_weights, warn_where_called
from skboost.hierarchy import Factor, GroupedRows
from skboost.linear_model._group_columns import Columns, resolve
from skboost.linear_model._model import feature_names
from skboost.linear_model._summary import check_offsets, check_spread, column_moments
from skboost.serving import GroupedFactor


class ReadOnce:
    """Rows X, of which each column is looked at once, however many ask for it.

    `place` says where those of the fit stand; None is where they stood.
    """

    def __init__(self, X, place=None):
        self.X, at = X, (lambda i: i) if place is None else place.get
        self.values = cache(lambda i: column_of(X, at(i)))
        self.holds_labels = cache(lambda i: holds_labels(X, at(i)))
        self.labels = cache(partial(_labels_of, self.values))


def numbers_of(read, columns):
    """Numbers of rows as floats, all finite: columns, and 1 for a category."""
    parts = []
    for i, label in columns.numbers:
        if label is None:
            parts.append(_column_of_numbers(read, i, columns.names[i]))
        elif label == columns.labels[i][1]:
            parts += _indicators(read, i, columns)
    table = np.column_stack(parts) if parts else np.empty((len(read.X), 0))
    for what in GAPS:
        said = gap_in(what, table, lambda k: columns.name_of(*columns.numbers[k]))
        if said:
            raise ValueError(said)
    return check_array(table, dtype=np.float64, input_name="X", ensure_min_features=0)


def _column_of_numbers(read, i, name):
    refuse_dates(read.values(i), "X", name)
    try:
        if read.holds_labels(i):
            raise ValueError("fit had numbers there, and these are labels")
        return as_floats(read.values(i))
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"X must have numbers in column {name!r}: {error}."
        ) from error


def _indicators(read, i, columns):
    """For each label of a column but the first, whether it stands in a row."""
    values = np.array(read.labels(i, columns.names[i], "").tolist(), dtype=object)
    known = columns.labels[i]
    unknown = sorted(set(values) - set(known), key=str)
    if unknown:
        raise ValueError(
            f"X must have labels that fit has seen in column {columns.names[i]!r}: "
            f"{', '.join(map(repr, known[:8]))}{', ...' * (len(known) > 8)}; got "
            f"{unknown[0]!r}. Only columns of groups may have new ones."
        )
    return [values == label for label in known[1:]]


def categories_at(read, i, name):
    """Labels of a column of X, in their order; None of a column of numbers."""
    X = read.X
    if not read.holds_labels(i):
        return None
    if isinstance(X, np.ndarray) and X.dtype.kind != "O":
        raise ValueError(
            f"X must be a DataFrame or an array of objects where column {name!r} is to "
            "be a feature: in an array of strings numbers are strings, too."
        )
    refuse_dates(read.values(i), "X", name)
    values = read.labels(i, name, "")
    found = np.unique(values).tolist()
    if not 1 < len(found) < max(len(values), 3):
        raise ValueError(
            f"X must have two labels or more in column {name!r}, and rows that share "
            f"them; got {len(found)} for n_rows={len(values)}. Drop the column, or "
            "name it in groups."
        )
    order = declared_order(X, i) or ()
    order = [str(one) if isinstance(found[0], str) else one for one in order]
    return tuple(sorted(found, key=order.index) if order else found)


def _labels_of(values_at, i, name, kind="group "):
    """Labels in a column of groups, or of a `kind` of its own; none may be missing."""
    values = values_at(i)
    missing = missing_in(values)
    if missing.any():
        first = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"X must have a label in every row of the {kind}column {name!r}; got "
            f"{values[first]} in row {first} ({missing.sum()} missing in "
            "all). Fill them, for example with a label of their own, or drop the rows."
        )
    if values.dtype.kind == "O":
        kinds = {next((k for k in _KINDS if isinstance(v, k)), type(v)) for v in values}
        if str in kinds and len(kinds) > 1:
            raise ValueError(
                f"X must have labels of one kind in the {kind}column {name!r}; got "
                "strings and other values. Convert them to strings."
            )
        if not kinds <= set(_KINDS):
            (other, *_) = sorted(kind.__name__ for kind in kinds - set(_KINDS))
            raise ValueError(
                f"X must have strings or numbers in the {kind}column {name!r}; got "
                f"{other}. Convert them to strings."
            )
        # Whole numbers above 2^53 are no floats.
        values = np.array(values.tolist(), dtype=str if str in kinds else None)
        if values.dtype.kind == "O":
            raise ValueError(
                f"X must have numbers below 2^63 in the {kind}column {name!r}. Convert "
                "them to strings."
            )
    return values.astype(str) if values.dtype.kind == "T" else values


# Of what an array of objects may be labels: a float beside whole numbers is one more.
_KINDS = str, Integral, Real


def factors_of(read, columns):
    """Plain factors with the labels of some rows, without effects yet, and the groups
    of these rows by factor.
    """
    every = sorted({i for group in columns.factors.values() for i in group})
    labels = {i: read.labels(i, columns.names[i]) for i in every}
    coded = {i: np.unique(labels[i], return_inverse=True) for i in every}
    factors, groups = [], []
    for name, group in columns.factors.items():
        labels, codes = zip(*(coded[i] for i in group), strict=True)
        codes = np.ravel_multi_index(codes, list(map(len, labels)))
        present, codes = np.unique(codes, return_inverse=True)
        groups.append(codes)
        if len(present) < 2:
            raise ValueError(
                "groups must name columns with two groups or more; got one group in "
                f"{name!r}. Drop the column: its effect is the intercept's."
            )
        slopes = np.array(columns.slopes[name], dtype=int)
        parts = group, labels, present, slopes, columns.intercepts[name]
        factors.append(GroupedFactor(name, *parts))
    return tuple(factors), groups


def warn_of_unidentified(factors, groups, numbers, row_noise):
    """Warn of parts of a model that only the prior can tell from each other.

    `groups` are those of rows, by factor.
    """
    for (one, own), (other, others) in combinations(
        zip(factors, groups, strict=True), 2
    ):
        shared = one.intercept and other.intercept or {*one.slopes} & {*other.slopes}
        n = len(one.present)
        # Of as many groups the pairs are as many where these are the same.
        if shared and n == len(other.present) == len(np.unique(own * n + others)):
            warn_where_called(
                f"{one.name!r} and {other.name!r} have the same groups, so the data "
                "cannot tell their effects from each other: the prior alone divides "
                "them. Drop one of the two.",
                UserWarning,
            )
    for factor in factors:
        if row_noise and len(factor.present) == len(numbers):
            warn_where_called(
                f"Every group of {factor.name!r} has one row, so the data cannot tell "
                f"the spread between groups from {row_noise}: the prior alone divides "
                "them. Drop the column from groups.",
                UserWarning,
            )
        elif len(factor.present) == len(numbers) and _are_fractions(factor.labels):
            warn_where_called(
                f"Every group of {factor.name!r} has one row, and a fraction as its "
                "label, as features have. Drop the column from groups if it is one.",
                UserWarning,
            )
        constant = np.ptp(numbers[:, factor.slopes], axis=0) == 0.0
        for i in factor.slopes[constant & factor.intercept]:
            warn_where_called(
                f"A slope of {factor.name!r} has the same value in all rows (column "
                f"{i} of the numeric columns, counted from 0), so the data cannot "
                "tell it from the groups' intercepts: the prior alone divides them. "
                "Drop the column from slopes.",
                UserWarning,
            )


def _are_fractions(labels):
    return any(one.dtype.kind == "f" and np.any(one % 1.0) for one in labels)


def _check_correlations(factors, columns, n_rows):
    """Refuse more variances and correlations of slopes than rows: no fit would end."""
    for factor in factors:
        q = factor.n_effects
        if q > 10 and q * (q + 1) > 2 * n_rows and columns.correlated[factor.name]:
            raise ValueError(
                f"Slopes of {factor.name!r} must leave fewer variances and "
                f"correlations than rows; got {q * (q + 1) // 2} of {q} effects for "
                f"n_rows={n_rows}. A column of labels has a slope for each: make "
                "numbers of it, name fewer slopes, or set correlated=False."
            )


def codes_of(read, factor, columns, unknown):
    """Groups of rows, -1 for those of no row of the fit, by what `unknown` says."""
    values = [read.labels(i, columns.names[i]) for i in factor.columns]
    for i, labels, column in zip(factor.columns, factor.labels, values, strict=True):
        # Strings say what numbers are called, and nothing else is called like another.
        kinds = [_kind(table.dtype) for table in (labels, column)]
        if kinds[0] != kinds[1] and kinds != ["strings", "numbers"]:
            raise ValueError(
                f"X must have {kinds[0]} in the group column {columns.names[i]!r}, as "
                f"in fit; got {kinds[1]} such as {column.tolist()[0]!r}. Convert them."
            )
    codes = factor.codes(values)
    if unknown == "error" and (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        label = ", ".join(repr(column.tolist()[row]) for column in values)
        raise ValueError(
            f"X must have groups that fit has seen in {factor.name!r}; got {label} in "
            f"row {row}. handle_unknown='population' predicts them from the population."
        )
    # Groups are held out there on purpose.
    if unknown == "warn" and (codes < 0).any() and not in_cross_validation():
        _warn_of_unseen(factor, values, codes < 0)
    return codes


def _warn_of_unseen(factor, values, new):
    parts = zip(*(column[new].tolist() for column in values), strict=True)
    some = [":".join(map(str, label)) for label in dict.fromkeys(parts)]
    known = [":".join(map(str, np.atleast_1d(one))) for one in levels_of(factor)[:3]]
    warn_where_called(
        f"X has groups in {factor.name!r} that fit has not seen ({len(some)}): "
        f"{', '.join(map(repr, some[:5]))}{', ...' * (len(some) > 5)}, where fit had "
        f"such as {', '.join(map(repr, known))}. They are predicted from the "
        "population; handle_unknown='population' or population=True says that this is "
        "meant.",
        UserWarning,
    )


def _kind(dtype):
    """What labels of a type are."""
    return {"U": "strings", "T": "strings", "M": "dates"}.get(dtype.kind, "numbers")


def levels_of(factor):
    """Labels of the groups of a factor: (n_groups,), or one column for each part."""
    codes = np.unravel_index(factor.present, list(map(len, factor.labels)))
    parts = [labels[code] for labels, code in zip(factor.labels, codes, strict=True)]
    if len(parts) == 1:
        return parts[0]
    return np.column_stack([part.astype(object) for part in parts])


# --- rows


class GroupedData(NamedTuple):
    """Rows in canonical form, the same for their moments, and what the columns say;
    factors have labels, and no effects.
    """

    rows: GroupedRows
    table: Table
    columns: Columns
    factors: tuple


def read_groups(estimator, X, y, sample_weight, response, offset=None):
    """`GroupedData` of what ``fit`` is given, for a response of some kind."""
    X = seen(estimator, X, reset=True)
    names, read = feature_names(estimator), ReadOnce(X)
    columns = resolve(
        names, estimator._said, lambda i: categories_at(read, i, names[i])
    )
    numbers, (factors, codes) = numbers_of(read, columns), factors_of(read, columns)
    warn_of_unidentified(factors, codes, numbers, response.row_noise)
    _check_correlations(factors, columns, len(y))
    weight = row_weights(numbers, sample_weight)
    if weight.sum() > 1e10:
        # Beyond it integrals over groups lose priors and roots in rounding.
        raise ValueError(
            "sample_weight must add up to 1e10 rows at most beside groups; got "
            f"{weight.sum():.3g}. Divide it by a number: a weight counts rows."
        )
    offset = np.zeros(len(y)) if offset is None else offset
    keys = np.column_stack([y, offset, *codes])
    numbers, keys, weight = canonical_rows(numbers, keys, weight)
    y, offset, codes = keys[:, 0], keys[:, 1], keys[:, 2:].T.astype(int)
    table = Table(numbers, y, weight, offset)
    named = [columns.name_of(*number) for number in columns.numbers]
    check_spread(table, named)
    _check_sizes(table, named, response)
    grouped = tuple(
        Factor(
            code,
            len(factor.present),
            factor.columns_of(numbers),
            columns.correlated[factor.name] is not None,
        )
        for factor, code in zip(factors, codes, strict=True)
    )
    ones = np.ones((len(y), int(estimator._said.fit_intercept)))
    numbers = numbers[:, columns.fixed]
    rows = GroupedRows(np.column_stack([numbers, ones]), y, weight, grouped, offset)
    return GroupedData(rows, table, columns, factors)


def _check_sizes(table, names, response):
    """Refuse numbers whose posterior is lost in rounding errors."""
    exact = response.likelihood is None
    most, (_, spread) = 1e12 if exact else 1e6, column_moments(table)
    for name, size in zip(names, spread, strict=True):
        if not 1.0 / most <= size <= most:
            raise ValueError(
                f"X must have columns with standard deviations between {1.0 / most:g} "
                f"and {most:g}; that of {name!r} is {size:.3g}. Scale it, for example "
                "with sklearn.preprocessing.StandardScaler."
            )
    largest = np.abs(table.y).max()
    if response.counted and largest > 1e8:
        raise ValueError(
            f"y must hold counts of 1e8 at most; got {largest:.3g}. Count in larger "
            "units, or fit their logarithms by BoostedHierarchicalLinearRegression."
        )
    check_offsets(table.offset, response.counted)


def seen(estimator, X, reset):
    """X as an array of any type, or the data frame that it is; checks its width."""
    if sparse.issparse(X):
        raise ValueError(
            "X must be dense: hierarchical regressions take no sparse matrix. "
            "Pass X.toarray()."
        )
    if not hasattr(X, "columns"):
        # Beside strings in a list numbers would become strings.
        X = np.array(X, dtype=object) if isinstance(X, list | tuple) else X
        X = check_array(X, dtype=None, ensure_all_finite=False, input_name="X")
    validate_any(estimator, X, skip_check_array=True, reset=reset)
    return X


def counted_factors(groups, factors):
    """Factors whose effects count in a prediction, as a user says it."""
    names = [factor.name for factor in factors]
    if isinstance(groups, str) and groups in ("all", "none"):
        return factors if groups == "all" else ()
    chosen = [groups] if isinstance(groups, str) else groups
    known = isinstance(chosen, list | tuple | np.ndarray)
    wrong = [one for one in chosen if one not in names] if known else [groups]
    if wrong:
        raise ValueError(
            f"groups must be 'all', 'none', or a list of factors, which are {names}; "
            f"got {wrong[0]!r}."
        )
    return tuple(factor for factor in factors if factor.name in chosen)


def narrowed(X, columns, factors):
    """Rows without the columns of other factors than these, where some are missing,
    and where the rest stand by their positions before; else None.
    """
    numbers = {i for i, _ in columns.numbers}
    kept = sorted(numbers.union(*(factor.columns for factor in factors)))
    wanted = [columns.names[i] for i in kept]
    if hasattr(X, "columns"):
        held = set(map(str, X.columns))
        if held >= set(columns.names) or not held >= set(wanted):
            return X, None
        X = X[wanted]
    elif np.ndim(X) != 2 or np.shape(X)[1] != len(wanted):
        return X, None
    return X, {i: k for k, i in enumerate(kept)}
