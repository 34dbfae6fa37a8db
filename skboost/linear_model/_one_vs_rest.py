"""Predictions of logistic models that are independent, one for each class."""

import numpy as np
from scipy.special import expit, ndtri

from skboost._math import log_sum_exp
from skboost.linear_model._predictive import entropy_of
from skboost.targets import (
    entropy_expectation,
    log_sigmoid_expectation,
    sigmoid_expectation,
)

# Draws of the linear predictors where no quadrature serves.
_N_DRAWS = 1024
_BLOCK_ROWS = 256


class IndependentPredictive:
    """Predictive quantities of Gaussian linear predictors, one for each output.

    With one output there are two classes and every quantity is exact. With more, the
    probabilities are those of each class against the rest, over their sum.

    Parameters
    ----------
    latent : callable
        Mean and standard deviation of the linear predictors of rows, (n, n_outputs).
    n_outputs : int
    """

    def __init__(self, latent, n_outputs):
        self._latent = latent
        self.binary = n_outputs == 1

    def latent(self, X):
        """Mean and standard deviation, (n,) with two classes, else (n, n_classes)."""
        mean, std = self._latent(X)
        return (mean[:, 0], std[:, 0]) if self.binary else (mean, std)

    def proba(self, X):
        """Predictive probabilities of all classes, (n, n_classes)."""
        mean, std = self._latent(X)
        if self.binary:
            return np.hstack([sigmoid_expectation(s * mean, std) for s in (-1.0, 1.0)])
        return shares(sigmoid_expectation(mean, std))

    def log_proba(self, X):
        """Logarithms of the probabilities, (n, n_classes), however small they are."""
        mean, std = self._latent(X)
        if self.binary:
            logs = [log_sigmoid_expectation(s * mean, std) for s in (-1.0, 1.0)]
            return np.hstack(logs)
        logs = log_sigmoid_expectation(mean, std)
        return logs - log_sum_exp(logs)[:, None]

    def interval(self, X, level):
        """Central intervals, (n, 2) with two classes, else (n, n_classes, 2)."""
        tails = np.array([0.5 * (1.0 - level), 0.5 * (1.0 + level)])
        mean, std = self._latent(X)
        if self.binary:
            return expit(mean + std * ndtri(tails))
        out = np.empty((*mean.shape, 2))
        for rows, p in self._draws(mean, std):
            out[rows] = np.moveaxis(np.quantile(p, tails, axis=0), 0, -1)
        return out

    def uncertainty(self, X):
        """Total, aleatoric and epistemic entropy of every row, nats, (n,) each."""
        total = entropy_of(self.proba(X))
        mean, std = self._latent(X)
        if self.binary:
            aleatoric = entropy_expectation(mean[:, 0], std[:, 0])
        else:
            aleatoric = np.empty(len(mean))
            for rows, p in self._draws(mean, std):
                parts = [entropy_of(draw) for draw in p]
                aleatoric[rows] = np.mean(parts, axis=0)
        return total, aleatoric, np.maximum(total - aleatoric, 0.0)

    @staticmethod
    def _draws(mean, std):
        """Blocks of rows with fixed draws of their probabilities."""
        z = np.random.default_rng(0).standard_normal((_N_DRAWS, 1, mean.shape[1]))
        for begin in range(0, len(mean), _BLOCK_ROWS):
            rows = slice(begin, begin + _BLOCK_ROWS)
            yield rows, shares(expit(mean[rows] + std[rows] * z))


def shares(positive):
    """Each over the sum of the last axis."""
    positive = np.maximum(positive, np.finfo(float).tiny)
    return positive / positive.sum(axis=-1, keepdims=True)
