"""Independent coordinates m + scale * epsilon: params = (m, log scale)."""

from math import log, pi, sqrt

import numpy as np
from scipy.special import expit

from skboost._math import log_cosh
from skboost.families._base import GaussianFamily
from skboost.families._component import Evaluation
from skboost.families._moments import checked_moments, checked_size


class LocationScale:
    """Reparameterisation and moves of params = (m, log scale)."""

    # Variance and entropy (nats) of one base variable, and the inverse root of the
    # Fisher information of the log scale.
    unit_variance: float
    unit_entropy: float
    log_scale_step: float

    def n_params(self, dim):
        return 2 * dim

    def dim_of(self, params):
        dim = params.shape[0] // 2
        return checked_size(params.shape, dim, 2 * dim)

    def scale_mask(self, dim):
        return np.repeat([False, True], dim)

    def split(self, params):
        """Location, log scale and scale."""
        location, log_scale = params.reshape(2, self.dim_of(params))
        return location, log_scale, np.exp(log_scale)

    def transport(self, params, eps):
        location, _, scale = self.split(params)
        return location + scale * eps

    def pull_transport(self, params, eps, cotangent):
        _, _, scale = self.split(params)
        slope = np.einsum("ij,ij->j", cotangent, eps)
        return np.concatenate([cotangent.sum(axis=0), scale * slope])

    def entropy(self, params):
        _, log_scale, _ = self.split(params)
        return float(log_scale.sum() + log_scale.size * self.unit_entropy)

    def from_moments(self, mean, covariance):
        mean, _, variance = checked_moments(mean, covariance)
        return np.concatenate([mean, 0.5 * np.log(variance / self.unit_variance)])

    def widen(self, params, width):
        dim = self.dim_of(params)
        return params + np.append(np.zeros(dim), np.broadcast_to(np.log(width), dim))

    def move(self, params, x):
        return params + self._steps(params) * x

    def pull_move(self, params, x, gradient):
        return self._steps(params) * gradient

    def _steps(self, params):
        """How far every parameter goes for a unit of `move`."""
        _, _, scale = self.split(params)
        return np.append(scale, np.full(scale.size, self.log_scale_step))


class DiagonalEvaluation(Evaluation):
    """Gaussian with independent coordinates at points."""

    def __init__(self, mean, log_scale, scale, theta):
        self._scale = scale
        self._z = theta - mean
        self._z /= scale
        constant = -0.5 * mean.size * log(2 * pi) - log_scale.sum()
        self.squared = np.einsum("ij,ij->i", self._z, self._z)
        self.log_density = constant - 0.5 * self.squared

    def score(self, rows=slice(None)):
        return self._z[rows] / -self._scale

    def pull(self, cotangent):
        g_mean = (cotangent @ self._z) / self._scale
        g_log_scale = cotangent @ np.square(self._z) - cotangent.sum()
        return np.concatenate([g_mean, g_log_scale])


class DiagonalGaussian(LocationScale, GaussianFamily):
    """Gaussians with independent coordinates, ``params = (m, log sigma)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import DiagonalGaussian
    >>> family = DiagonalGaussian()
    >>> params = np.array([1.0, -1.0, 0.0, 0.0])  # means, then logarithms of deviations
    >>> family.log_density(np.zeros((1, 2)), params).round(2)
    array([-2.84])
    """

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

    def _log_affinity(self, a, b):
        (mean_a, log_a), (mean_b, log_b) = (np.hsplit(params, 2) for params in (a, b))
        apart, u = mean_a - mean_b, log_a - log_b
        slope = apart / (np.exp(2 * log_a) + np.exp(2 * log_b))
        squared = apart * slope
        value = -0.5 * log_cosh(u).sum(axis=1) - 0.25 * squared.sum(axis=1)
        gradients = []
        for sign in (1, -1):
            by_scale = 0.5 * (squared * expit(2 * sign * u) - np.tanh(sign * u))
            gradients.append(np.hstack([-0.5 * sign * slope, by_scale]))
        return value, *gradients

    def root_params(self, a, b):
        """Parameters of the density ~ sqrt(s_a s_b)."""
        mean_a, log_a, _ = self.split(a)
        mean_b, log_b, _ = self.split(b)
        u = log_a - log_b
        mean = mean_a + expit(2 * u) * (mean_b - mean_a)
        return np.concatenate([mean, 0.5 * (log_a + log_b - log_cosh(u))])
