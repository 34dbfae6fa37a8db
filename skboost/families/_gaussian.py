"""Gaussian family, with a full, diagonal or low-rank covariance."""

from math import log, pi

import numpy as np
from scipy.special import ndtr, ndtri

from skboost.families._component import Component
from skboost.families._diagonal import DiagonalCovariance
from skboost.families._full import FullCovariance
from skboost.families._low_rank import (
    LowRankCovariance,
    partly_whitened,
    rank_of,
    with_columns,
)
from skboost.families._moments import symmetric, whitened
from skboost.families._structure import Structured

# Up to here a full covariance (some 45,000 numbers per component) is affordable.
MAX_FULL_DIM = 300


class Gaussian(Structured):
    """Gaussian densities.

    Parameters
    ----------
    covariance : {"full", "diag", "low_rank"}, default="full"
        Structure of the covariance: lower Cholesky factor, independent
        coordinates, or diagonal plus low rank.
    rank : int, default=None
        Columns of the low-rank factor, at most the dimension. None lets a fit choose
        it for each component, which grows while its ELBO rises; a component made
        otherwise, and a root under ``objective="hellinger"``, has ``min(10, dim)``.
        Used by ``covariance="low_rank"`` only.

    Raises
    ------
    ValueError
        When first used, if `covariance` or `rank` is none of these.
    """

    root_products = True
    tail_power = 2.0
    distribution = "gaussian"
    exact_expectations = True
    title = "Gaussian"
    structures = {
        "full": FullCovariance,
        "diag": DiagonalCovariance,
        "low_rank": LowRankCovariance,
    }
    default_rank = 10
    _quantile = staticmethod(ndtri)

    def __init__(self, covariance="full", rank=None):
        self.covariance = covariance
        self.rank = rank

    @property
    def rank_is_open(self):
        return self.low_rank and self.rank is None

    def with_rank(self, rank=None):
        if not self.rank_is_open:
            return self
        rank = self.default_rank if rank is None else rank
        return self.constructor("low_rank", rank)

    def convert(self, params, dim):
        if params.size == self.n_params(dim):
            return params
        own = self.constructor("low_rank", rank_of(params, dim)).structure(params)
        return self.from_structure(*with_columns(*own, self.rank)).params

    def matched_draws(self, n, dim, rng):
        eps = self.base_draws(n, dim, rng)
        # Fewer draws leave directions of hardly any variance, which would be blown up.
        if n >= 2 * eps.shape[1]:
            return whitened(eps)
        if self.low_rank and n >= 4 * (eps.shape[1] - dim):
            return partly_whitened(eps, dim)
        return symmetric(eps, 1.0)

    def root_product(self, a, b):
        params = self.root_params(a, b)
        if not self.low_rank:
            return Component(self, params)
        rank = rank_of(params, self.dim_of(a))
        return Component(self.constructor("low_rank", rank), params)

    @classmethod
    def from_structure(cls, mean, variance, factor):
        """The low-rank component that has a structure: the inverse of `structure`."""
        params = np.concatenate([mean, 0.5 * np.log(variance), factor.ravel()])
        return Component(cls("low_rank", rank=factor.shape[1]), params)

    def mean_exponential(self, params, i, power):
        variance = self.std(params)[i] ** 2
        return np.exp(power * (self.mean(params)[i] + 0.5 * power * variance))

    def marginal_cdf(self, params, i, x):
        return ndtr((x - self.mean(params)[i]) / self.std(params)[i])

    def marginal_log_density(self, params, i, x):
        std = self.std(params)[i]
        z = (x - self.mean(params)[i]) / std
        return -0.5 * z**2 - np.log(std) - 0.5 * log(2 * pi)
