"""What rows come with beside X and y: trials of counts, and columns by name."""

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, column_or_1d

from skboost._row_blocks import RowBlocks
from skboost._sklearn import check_sample_weight, num_samples, rows_of


def binomial_rows(X, y, trials, sample_weight=None):
    """Rows, labels and weights of successes and failures, of counted trials.

    Every row stands twice: with label 1 and the number of successes as its weight, and
    with label 0 and that of failures. Without `trials` all is as it came.
    """
    if trials is None:
        return X, y, sample_weight
    if isinstance(X, RowBlocks) or hasattr(X, "dask") or y is None:
        raise ValueError(
            "trials needs X as an array or a data frame, and y, the number of "
            f"successes of every row; got X as a {type(X).__name__}. Pass rows of "
            "single trials with sample_weight instead."
        )
    if np.ndim(trials) == 0:
        trials = np.full(num_samples(X), trials)
    successes, trials = _whole("y", y), _whole("trials", trials)
    check_consistent_length(X, successes, trials)
    strange = np.flatnonzero(successes > trials)
    if strange.size:
        row = strange[0]
        raise ValueError(
            "y must not exceed trials, of which it counts the successes; got "
            f"{successes[row]:g} of {trials[row]:g} in row {row}."
        )
    weight = check_sample_weight(sample_weight, X, dtype=np.float64)
    both = np.tile(np.arange(len(trials)), 2)
    counted = np.concatenate([trials - successes, successes])
    labels = np.repeat([0, 1], len(trials))
    return rows_of(X, both), labels, weight[both] * counted


def _whole(name, values):
    """Counts as floats, (n,); a ValueError for what is none."""
    values = column_or_1d(values, dtype=np.float64)
    # A proportion times its trials is a whole number but for rounding.
    whole = np.rint(values)
    with np.errstate(invalid="ignore"):
        good = (whole >= 0) & (np.abs(values - whole) <= 1e-9 * np.maximum(whole, 1))
    if not good.all():
        raise ValueError(
            f"{name} must hold whole numbers from 0 on where trials are given; got "
            f"{values[~good][0]:g}. Multiply proportions by their trials."
        )
    return whole


def score_of_trials(self, X, y, sample_weight=None, trials=None):
    """Accuracy: the share of rows, or of trials, whose class is the predicted one.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Labels, or the number of successes among `trials`.
    sample_weight : array-like of shape (n_samples,), default=None
    trials : int, array-like of shape (n_samples,) or str, default=None
        As in `fit`.

    Returns
    -------
    float
    """
    (trials,) = of_columns(X, trials=trials)
    X, y, sample_weight = binomial_rows(X, y, trials, sample_weight)
    return accuracy_score(y, self.predict(X), sample_weight=sample_weight)


def of_columns(X, **keywords):
    """Keywords of rows as arrays; a string is the name of a column of X."""
    return [_column(X, *item) for item in keywords.items()]


def _column(X, name, value):
    if not isinstance(value, str):
        return value
    if value not in getattr(X, "columns", ()):
        raise ValueError(
            f"{name} must be numbers, or the name of a column where X is a data "
            f"frame; got {value!r}, which is none."
        )
    return np.asarray(X[value])
