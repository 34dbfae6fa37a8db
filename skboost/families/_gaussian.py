"""What Gaussians of any covariance have in common."""

from math import log, pi

import numpy as np
from scipy.special import ndtr, ndtri

from skboost.families._base import VariationalFamily
from skboost.families._component import Component
from skboost.families._moments import symmetric, whitened


class GaussianFamily(VariationalFamily):
    """Gaussians with a `structure` whose covariance is diag(variance) + factor
    factor^T."""

    root_products = True
    tail_power = 2.0
    distribution = "gaussian"
    exact_expectations = True
    maps_to_cube = True
    _quantile = staticmethod(ndtri)
    uniform, from_uniform = staticmethod(ndtr), staticmethod(ndtri)

    def matched_draws(self, n, dim, rng):
        eps = self.base_draws(n, dim, rng)
        # Fewer draws leave directions of hardly any variance, which would be blown up.
        return whitened(eps) if n >= 2 * eps.shape[1] else self._balanced(eps, dim)

    def _balanced(self, eps, dim):
        """Base draws with the moments that so few can have."""
        return symmetric(eps, 1.0)

    def spread(self, params):
        return self.structure(params)

    def std(self, params):
        _, variance, factor = self.structure(params)
        total = 0.0 if variance is None else variance
        if factor is not None:
            total = total + np.einsum("ij,ij->i", factor, factor)
        return np.sqrt(total)

    def moments(self, params):
        mean, variance, factor = self.structure(params)
        if factor is None:
            return mean, np.diag(variance)
        covariance = factor @ factor.T
        if variance is not None:
            covariance[np.diag_indices_from(covariance)] += variance
        return mean, covariance

    def root_product(self, a, b):
        return Component(self, self.root_params(a, b))

    def mean_exponential(self, params, i, power):
        variance = self.std(params)[i] ** 2
        return np.exp(power * (self.mean(params)[i] + 0.5 * power * variance))

    def marginal_cdf(self, params, i, x):
        return ndtr((x - self.mean(params)[i]) / self.std(params)[i])

    def marginal_log_density(self, params, i, x):
        std = self.std(params)[i]
        z = (x - self.mean(params)[i]) / std
        return -0.5 * z**2 - np.log(std) - 0.5 * log(2 * pi)
