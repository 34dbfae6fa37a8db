"""Successes of counted trials as rows of two classes, for logistic regressions."""

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, column_or_1d

from skboost._row_blocks import RowBlocks
from skboost._sklearn import check_sample_weight, rows_of


def binomial_rows(X, y, trials, sample_weight=None):
    """Rows, labels and weights of successes and failures, of counted trials.

    Every row stands twice: with label 1 and the number of successes as its weight, and
    with label 0 and that of failures. Without `trials` all is as it came.
    """
    if trials is None:
        return X, y, sample_weight
    if isinstance(X, RowBlocks) or y is None:
        raise ValueError(
            "trials needs X as an array or a data frame, and y, the number of "
            f"successes of every row; got X as a {type(X).__name__}. Pass rows of "
            "single trials with sample_weight instead."
        )
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
    if not (np.isfinite(values).all() and np.all((values >= 0) & (values % 1 == 0))):
        strange = values[~(np.isfinite(values) & (values >= 0) & (values % 1 == 0))][0]
        raise ValueError(
            f"{name} must hold whole numbers from 0 on where trials are given; got "
            f"{strange:g}."
        )
    return values


def score_of_trials(self, X, y, sample_weight=None, trials=None):
    """Accuracy: the share of rows, or of trials, whose class is the predicted one.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Labels, or the number of successes among `trials`.
    sample_weight : array-like of shape (n_samples,), default=None
    trials : array-like of shape (n_samples,), default=None
        As in `fit`.

    Returns
    -------
    float
    """
    X, y, sample_weight = binomial_rows(X, y, trials, sample_weight)
    return accuracy_score(y, self.predict(X), sample_weight=sample_weight)
