"""Moments of rows, merged from those of their blocks."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skboost._parallel import row_blocks

# A column whose deviation is at most so much of its mean counts as constant, and one
# up to which only rounding makes it differ.
_CONSTANT, _ROUNDING = 1e-7, 1e-12


class Summary(NamedTuple):
    """What a pass over rows has found, which can be merged with that over others.

    `level` and `spread` are mean and variance of responses that are numbers,
    `log_exposure` is ``ln sum_i w_i exp(offset_i)``, and `labels` are the weights of
    responses that are labels.
    """

    n_rows: int
    weight: float
    mean: np.ndarray
    variance: np.ndarray
    level: float
    spread: float
    log_exposure: float
    labels: dict

    @classmethod
    def of(cls, table):
        """Of all rows of a `Table`."""
        blocks = row_blocks(len(table), table.n_features)
        return merged(cls._of_block(table.block(rows)) for rows in blocks)

    @classmethod
    def _of_block(cls, block):
        weight = block.weight
        if isinstance(weight, float):
            weight = np.full(len(block), weight)
        total = float(weight.sum())
        share = weight / (total or 1.0)
        X, y = block.X, block.y
        mean = X.T @ share
        if sparse.issparse(X):
            squares = sparse.csr_matrix((X.data**2, X.indices, X.indptr), shape=X.shape)
            variance = squares.T @ share - mean**2
            # What is left of a constant column is rounding: its squares cancel.
            variance[variance <= (_CONSTANT * mean) ** 2] = 0.0
        else:
            # Squares that overflow are refused by `check_spread`.
            with np.errstate(over="ignore"):
                variance = ((X - mean) ** 2).T @ share
        numbers = y is not None and np.issubdtype(y.dtype, np.number)
        level = float(y @ share) if numbers else 0.0
        spread = float((y - level) ** 2 @ share) if numbers else 0.0
        log_exposure = np.log(total) if total else -np.inf
        if block.offset is not None and total:
            top = block.offset.max()
            log_exposure = top + np.log(weight @ np.exp(block.offset - top))
        moments = (total, mean, variance, level, spread, float(log_exposure))
        return cls(len(block), *moments, labels={})


def merged(summaries):
    """One `Summary` of the rows of several, in their order."""
    total = None
    for other in summaries:
        total = other if total is None else _both(total, other)
    return total


def _both(one, two):
    weight = one.weight + two.weight
    share = two.weight / (weight or 1.0)

    def pooled(mean, variance, more, spread):
        away = more - mean
        within = variance + share * (spread - variance)
        return mean + share * away, within + share * (1.0 - share) * away**2

    labels = dict(one.labels)
    for label, more in two.labels.items():
        labels[label] = labels.get(label, 0.0) + more
    return Summary(
        one.n_rows + two.n_rows,
        weight,
        *pooled(one.mean, one.variance, two.mean, two.variance),
        *pooled(one.level, one.spread, two.level, two.spread),
        float(np.logaddexp(one.log_exposure, two.log_exposure)),
        labels,
    )


def summary_of(rows):
    """The `Summary` of any rows, computed once."""
    if rows.summary is None:
        rows.summary = merged(rows.map(Summary.of))
    return rows.summary


def column_moments(rows):
    """Weighted means of the columns and their standard deviations, never zero.

    A constant column has its absolute value as deviation, one of zeros 1.
    """
    summary = summary_of(rows)
    return summary.mean, _deviation(summary.mean, summary.variance, _CONSTANT)


def column_covariance(rows):
    """Weighted covariance matrix of the columns."""
    summary = summary_of(rows)
    products = partial(_products, summary.mean)
    (total,) = rows.sum(products, rows.n_features, rows.n_features**2)
    return total / summary.weight


def _products(mean, block):
    """Sum over rows of products of columns less their means."""
    X = block.X.toarray() if sparse.issparse(block.X) else block.X
    away = X - mean
    return (away.T @ (away * np.broadcast_to(block.weight, len(block))[:, None]),)


def check_spread(rows, names):
    """Refuse columns whose spread is lost in rounding errors or overflows."""
    summary = summary_of(rows)
    endless = np.flatnonzero(~np.isfinite(summary.variance))
    if endless.size:
        raise ValueError(
            f"X must have columns whose squares are finite; those of "
            f"{names[endless[0]]!r} overflow. Divide them by their "
            "largest value, for example with sklearn.preprocessing.MaxAbsScaler."
        )
    std, size = np.sqrt(summary.variance), np.abs(summary.mean)
    lost = np.flatnonzero((std > _ROUNDING * size) & (std <= _CONSTANT * size))
    if lost.size:
        first = lost[0]
        others = f" (first of {lost.size})" if lost.size > 1 else ""
        raise ValueError(
            "X must have columns whose spread is above 1e-7 of their distance from "
            f"zero, or constant ones; got {names[first]!r} with mean "
            f"{summary.mean[first]:.3g} and standard deviation {std[first]:.3g}"
            f"{others}. Centre them, for example with "
            "sklearn.preprocessing.StandardScaler."
        )


def level_and_spread(rows):
    """Weighted mean of a response and its standard deviation, never zero."""
    summary = summary_of(rows)
    # Responses may lie far from zero: moments of dense columns cancel nothing.
    spread = float(_deviation(summary.level, summary.spread, _ROUNDING))
    # Squares of smaller ones than that leave the range of floating point.
    return summary.level, spread if spread > 1e-150 else 1.0


def sizes(rows, fit_intercept, centred):
    """Sizes of the columns, about their centre or zero, that of the intercept last,
    none zero.
    """
    mean, std = column_moments(rows)
    size = std if centred else np.hypot(mean, std)
    return np.append(size, 1.0) if fit_intercept else size


def check_offsets(offset, counted):
    """Refuse offsets beside which columns are lost in rounding errors."""
    furthest = np.abs(offset).max(initial=0.0)
    if furthest > 300.0:
        what = (
            "Scale the exposure: offsets are its logarithms."
            if counted
            else "Offsets of classes are logits."
        )
        raise ValueError(
            "offset must lie between -300 and 300; got one as far as "
            f"{furthest:.3g}. {what}"
        )


def has_offsets(rows):
    """Whether rows have offsets, wherever they are."""
    summary = summary_of(rows)
    return not np.isclose(summary.log_exposure, np.log(summary.weight))


def log_rate(rows):
    """Logarithm of the counts over the exposures, with half a count more."""
    summary = summary_of(rows)
    return np.log(summary.weight * summary.level + 0.5) - summary.log_exposure


def _deviation(mean, variance, rounding):
    """A column whose deviation is at most so much of its mean is constant."""
    std, size = np.sqrt(np.maximum(variance, 0.0)), np.abs(mean)
    std = np.where(std <= rounding * size, size, std)
    return np.where(std == 0.0, 1.0, std)
