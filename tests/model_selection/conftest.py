"""Estimators whose evidence is known, and some that do what estimators may do."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

N_ROWS = 12


class NormalMean(DensityMixin, BaseEstimator):
    """x ~ N(m, noise²), m ~ N(0, scale²), with the evidence by the chain rule.

    A fit loses `loss` at most, at random, and fails where `scale` is `fail_at`.
    """

    def __init__(
        self, scale=1.0, noise=1.0, temperature=1.0, loss=0.0, fail_at=None,
        random_state=None,
    ):  # fmt: skip
        self.scale = scale
        self.noise = noise
        self.temperature = temperature
        self.loss = loss
        self.fail_at = fail_at
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        X = validate_data(self, X, dtype=float)
        if self.scale == self.fail_at:
            raise FloatingPointError(f"scale {self.scale} fails")
        rng = np.random.default_rng(self.random_state)
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        tight = self._log_evidence(np.repeat(X[:, 0], np.asarray(weight, int)))
        self.elbo_ = tight - self.loss * rng.uniform()
        return self

    def _log_evidence(self, x):
        """Sum of the log predictive densities of one row after the other."""
        mean, variance, total = 0.0, self.scale**2, 0.0
        noise = self.noise**2 / self.temperature
        constant = -0.5 * self.temperature * np.log(2 * np.pi * self.noise**2)
        constant += 0.5 * np.log(2 * np.pi * noise)
        for value in x:
            total += stats.norm.logpdf(value, mean, np.sqrt(variance + noise))
            gain = variance / (variance + noise)
            mean, variance = mean + gain * (value - mean), (1.0 - gain) * variance
            total += constant
        self.mean_, self.variance_ = mean, variance
        return total

    def score_samples(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=float)
        sd = np.sqrt(self.variance_ + self.noise**2)
        return stats.norm.logpdf(X[:, 0], self.mean_, sd)

    def score(self, X, y=None):
        return float(np.mean(self.score_samples(X)))

    def transform(self, X):
        return np.asarray(X) - self.mean_

    def inverse_transform(self, X):
        return np.asarray(X) + self.mean_


def log_evidence(x, scale, noise=1.0):
    """The same in one piece: x is Normal with covariance noise² I + scale² 1 1ᵀ."""
    n = len(x)
    covariance = noise**2 * np.eye(n) + scale**2 * np.ones((n, n))
    return stats.multivariate_normal.logpdf(np.ravel(x), np.zeros(n), covariance)


@pytest.fixture
def rows():
    """Twelve rows around 0.7."""
    return 0.7 + np.random.default_rng(0).standard_normal((N_ROWS, 1))
