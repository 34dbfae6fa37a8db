"""Laplace densities with independent coordinates."""

from math import log

import numpy as np

from skboost._parallel import scratch
from skboost.families._base import VariationalFamily
from skboost.families._component import Evaluation
from skboost.families._diagonal import LocationScale
from skboost.families._moments import symmetric


class LaplaceEvaluation(Evaluation):
    """Product of Laplace densities at points."""

    def __init__(self, location, log_scale, scale, theta):
        self._scale = scale
        # One array is kept: every other one would have to be paged in anew.
        self._z = theta - location
        self._z /= scale
        constant = -location.size * log(2) - log_scale.sum()
        self.log_density = constant - np.einsum("ij->i", self._of_z(np.abs))

    def _of_z(self, function):
        return function(self._z, out=scratch("of_z", self._z.shape))

    def score(self, rows=slice(None)):
        score = np.sign(self._z[rows])
        score /= -self._scale
        return score

    def pull(self, cotangent):
        g_location = (cotangent @ self._of_z(np.sign)) / self._scale
        g_log_scale = cotangent @ self._of_z(np.abs) - cotangent.sum()
        return np.concatenate([g_location, g_log_scale])


class Laplace(LocationScale, VariationalFamily):
    """Products of Laplace densities, ``exp(-|theta_j - m_j| / b_j) / (2 b_j)``.

    The base family of the experiments of Dresdner et al. and Locatello et al. 2018.
    ``params = (m, log b)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import Laplace
    >>> family = Laplace()
    >>> params = np.array([1.0, -1.0, 0.0, 0.0])  # locations, then logarithms of scales
    >>> family.log_density(np.zeros((1, 2)), params).round(2)
    array([-3.39])
    """

    distribution = "laplace"
    maps_to_cube = True
    tail_power = 1.0
    unit_variance = 2.0
    unit_entropy = 1 + log(2)
    log_scale_step = 1.0

    def matched_draws(self, n, dim, rng):
        return symmetric(self.base_draws(n, dim, rng), self.unit_variance)

    def _quantile(self, u):
        # Both branches measure the distance to the nearer end, where it is small.
        return np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))

    def uniform(self, z):
        tail = 0.5 * np.exp(-np.sqrt(2.0) * np.abs(z))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def from_uniform(self, u):
        return self._quantile(u) / np.sqrt(2.0)

    def at(self, params, theta):
        return LaplaceEvaluation(*self.split(params), theta)

    def std(self, params):
        return np.sqrt(self.unit_variance) * self.split(params)[2]

    def mean_exponential(self, params, i, power):
        square = 0.5 * (power * self.std(params)[i]) ** 2
        if square >= 1:
            return np.inf
        return np.exp(power * self.mean(params)[i]) / (1.0 - square)

    def moments(self, params):
        return self.mean(params), np.diag(self.std(params) ** 2)

    def _residual(self, params, i, x):
        location, log_scale, scale = self.split(params)
        return (x - location[i]) / scale[i], log_scale[i]

    def marginal_cdf(self, params, i, x):
        z, _ = self._residual(params, i, x)
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1 - tail)

    def marginal_log_density(self, params, i, x):
        z, log_scale = self._residual(params, i, x)
        return -np.abs(z) - log_scale - log(2)
