"""Gaussian family, with a full, diagonal or low-rank covariance."""

from math import log, pi
from numbers import Integral

import numpy as np
from scipy.special import ndtr, ndtri

from skboost.families._affinity import by_blocks
from skboost.families._base import VariationalFamily
from skboost.families._diagonal import DiagonalCovariance
from skboost.families._full import FullCovariance
from skboost.families._low_rank import (
    LowRankCovariance,
    partly_whitened,
    with_columns,
)
from skboost.families._moments import linear_moments, symmetric, whitened

COVARIANCES = {
    "full": FullCovariance,
    "diag": DiagonalCovariance,
    "low_rank": LowRankCovariance,
}

# Up to here a full covariance (some 45,000 numbers per component) is affordable.
MAX_FULL_DIM = 300


class Gaussian(VariationalFamily):
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
    default_rank = LowRankCovariance.default_rank

    def __init__(self, covariance="full", rank=None):
        self.covariance = covariance
        self.rank = rank

    @property
    def full_covariance(self):
        return self.covariance == "full"

    @property
    def low_rank(self):
        return self.covariance == "low_rank"

    @property
    def rank_is_open(self):
        return self.low_rank and self.rank is None

    def with_rank(self, rank=None):
        if not self.rank_is_open:
            return self
        return type(self)("low_rank", self.default_rank if rank is None else rank)

    def convert(self, params, dim):
        if params.size == self.n_params(dim):
            return params
        converted = with_columns(params, dim, self.rank)
        return self.from_structure(*converted)[1]

    @property
    def _kind(self):
        if self.covariance not in COVARIANCES:
            raise ValueError(
                f"covariance must be one of {list(COVARIANCES)}; "
                f"got {self.covariance!r}."
            )
        if self.covariance != "low_rank":
            return COVARIANCES[self.covariance]()
        if self.rank is not None and not (
            isinstance(self.rank, Integral) and self.rank >= 1
        ):
            raise ValueError(
                f"rank must be a positive integer or None; got {self.rank!r}. "
                "Use covariance='diag' for no factor at all."
            )
        return LowRankCovariance(self.rank)

    def n_params(self, dim):
        return self._kind.n_params(dim)

    def dim_of(self, params):
        return self._kind.dim_of(params)

    def base_dim(self, dim):
        return self._kind.base_dim(dim)

    def scale_mask(self, dim):
        return self._kind.scale_mask(dim)

    def matched_draws(self, n, dim, rng):
        eps = self.base_draws(n, dim, rng)
        # Fewer draws leave directions of hardly any variance, which would be blown up.
        if n >= 2 * eps.shape[1]:
            return whitened(eps)
        if self.covariance == "low_rank" and n >= 4 * (eps.shape[1] - dim):
            return partly_whitened(eps, dim)
        return symmetric(eps, 1.0)

    def _quantile(self, u):
        return ndtri(u)

    def transport(self, params, eps):
        return self._kind.transport(params, eps)

    def pull_transport(self, params, eps, cotangent):
        return self._kind.pull_transport(params, eps, cotangent)

    def at(self, params, theta):
        return self._kind.at(params, theta)

    def entropy(self, params):
        return self._kind.entropy(params)

    def entropy_gradient(self, params):
        return self._kind.entropy_gradient(params)

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

    def from_moments(self, mean, covariance):
        return self._kind.from_moments(mean, covariance)

    def widen(self, params, width):
        return self._kind.widen(params, width)

    def move(self, params, x):
        return self._kind.move(params, x)

    def pull_move(self, params, x, gradient):
        return self._kind.pull_move(params, x, gradient)

    def spread(self, params):
        return self.structure(params)

    def structure(self, params):
        """Covariance as diag(variance) + factor factor^T.

        Parameters
        ----------
        params : ndarray of shape (n_params,)

        Returns
        -------
        mean : ndarray of shape (dim,)
        variance : ndarray of shape (dim,) or None
            None for a full covariance.
        factor : ndarray of shape (dim, rank) or None
            The Cholesky factor for a full covariance; None for a diagonal one.
        """
        return self._kind.structure(params)

    def pull_structure(self, params, g_mean, g_variance, g_factor):
        """Gradient in `params` from gradients in what `structure` returns.

        Parameters
        ----------
        params : ndarray of shape (n_params,)
        g_mean : ndarray of shape (dim,)
        g_variance : ndarray of shape (dim,) or None
        g_factor : ndarray of shape (dim, rank) or None
            None where `structure` returns None.

        Returns
        -------
        ndarray of shape (n_params,)
        """
        return self._kind.pull_structure(params, g_mean, g_variance, g_factor)

    def log_affinity(self, a, b):
        return by_blocks(self._kind.log_affinity, a, b)

    def root_product(self, a, b):
        params = self._kind.root_product(a, b)
        if self.covariance != "low_rank":
            return self, params
        return type(self)("low_rank", params.size // self.dim_of(a) - 2), params

    @classmethod
    def from_structure(cls, mean, variance, factor):
        """The low-rank Gaussian that has a structure: the inverse of `structure`.

        Parameters
        ----------
        mean, variance : ndarray of shape (dim,)
        factor : ndarray of shape (dim, rank)

        Returns
        -------
        family : Gaussian
            Of the factor's rank.
        params : ndarray of shape (n_params,)
        """
        params = np.concatenate([mean, 0.5 * np.log(variance), factor.ravel()])
        return cls("low_rank", rank=factor.shape[1]), params

    def linear_moments(self, params, X):
        return linear_moments(X, *self.structure(params))

    def marginal(self, params, indices):
        return self._kind.marginal(params, indices)

    def marginal_cdf(self, params, i, x):
        return ndtr((x - self.mean(params)[i]) / self.std(params)[i])

    def marginal_log_density(self, params, i, x):
        std = self.std(params)[i]
        z = (x - self.mean(params)[i]) / std
        return -0.5 * z**2 - np.log(std) - 0.5 * log(2 * pi)
