"""Diagonal covariance: params = (m, log sigma)."""

from math import log, pi, sqrt

import numpy as np
from scipy.special import expit

from skboost.families._affinity import log_cosh
from skboost.families._evaluation import Evaluation
from skboost.families._location_scale import LocationScale


class DiagonalEvaluation(Evaluation):
    """Gaussian with independent coordinates at points."""

    def __init__(self, mean, log_scale, scale, theta):
        self._scale = scale
        self._z = (theta - mean) / scale
        constant = -0.5 * mean.size * log(2 * pi) - log_scale.sum()
        self.squared = np.einsum("ij,ij->i", self._z, self._z)
        self.log_density = constant - 0.5 * self.squared

    def score(self, rows=slice(None)):
        return self._z[rows] / -self._scale

    def pull(self, cotangent):
        g_mean = (cotangent @ self._z) / self._scale
        g_log_scale = cotangent @ np.square(self._z) - cotangent.sum()
        return np.concatenate([g_mean, g_log_scale])


class DiagonalCovariance(LocationScale):
    """Covariance diag(sigma^2)."""

    unit_variance = 1.0
    unit_entropy = 0.5 * (1 + log(2 * pi))
    log_scale_step = sqrt(0.5)

    def at(self, params, theta):
        return DiagonalEvaluation(*self.split(params), theta)

    def structure(self, params):
        mean, _, scale = self.split(params)
        return mean, scale**2, None

    def pull_structure(self, params, g_mean, g_variance, g_factor):
        _, _, scale = self.split(params)
        return np.concatenate([g_mean, 2 * scale**2 * g_variance])

    def log_affinity(self, a, b):
        (mean_a, log_a), (mean_b, log_b) = (np.hsplit(params, 2) for params in (a, b))
        apart, u = mean_a - mean_b, log_a - log_b
        slope = apart / (np.exp(2 * log_a) + np.exp(2 * log_b))
        squared = apart * slope
        value = -0.5 * log_cosh(u).sum(axis=1) - 0.25 * squared.sum(axis=1)
        gradients = (
            np.hstack(
                [
                    -0.5 * sign * slope,
                    0.5 * (squared * expit(2 * sign * u) - np.tanh(sign * u)),
                ]
            )
            for sign in (1, -1)
        )
        return value, *gradients

    def root_product(self, a, b):
        mean_a, log_a, _ = self.split(a)
        mean_b, log_b, _ = self.split(b)
        u = log_a - log_b
        mean = mean_a + expit(2 * u) * (mean_b - mean_a)
        return np.concatenate([mean, 0.5 * (log_a + log_b - log_cosh(u))])
