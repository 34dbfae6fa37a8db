"""Stacks of Wishart distributions; in one dimension they are Gamma distributions."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import multigammaln, psi

_LOG_2 = np.log(2.0)
_ROUNDING = 16.0 * np.finfo(float).eps


def log_det_of_root(root):
    """ln |A A'| for triangular A, over a stack."""
    return 2.0 * np.log(np.abs(np.diagonal(root, axis1=-2, axis2=-1))).sum(-1)


@dataclass(frozen=True)
class Wishart:
    """Independent precision matrices, each Wishart with a mean of ``dof / rate``.

    The density is ``|P|^((dof - p - 1)/2) exp(-tr(rate P)/2)`` over its normaliser;
    with p = 1 it is Gamma(dof/2, rate/2).

    Parameters
    ----------
    dof : ndarray of shape (\\*group)
        Above p - 1.
    rate : ndarray of shape (\\*group, p, p)
        Positive definite: the inverse of what is usually called the scale.
    """

    dof: np.ndarray
    rate: np.ndarray

    @property
    def dim(self):
        """Size p of the matrices."""
        return self.rate.shape[-1]

    @cached_property
    def inverse_root(self):
        """Upper triangular U with inverse(rate) = U U', shape (\\*group, p, p)."""
        lower = np.linalg.inv(np.linalg.cholesky(self.rate))
        return np.swapaxes(np.tril(lower), -1, -2)

    @cached_property
    def log_det_rate(self):
        """ln |rate|, shape (\\*group)."""
        return -log_det_of_root(self.inverse_root)

    @property
    def root(self):
        """Upper triangular square root of the mean: E[P] = root root'."""
        return np.sqrt(self.dof)[..., None, None] * self.inverse_root

    @property
    def mean(self):
        """E[P], shape (\\*group, p, p)."""
        return self.root @ np.swapaxes(self.root, -1, -2)

    @property
    def variance(self):
        """Variances of the entries of P, shape (\\*group, p, p)."""
        unit = self.mean / self.dof[..., None, None]
        return self.dof[..., None, None] * _squares_and_products(unit, 1.0, 1.0)

    @property
    def inverse_mean(self):
        """E[inverse(P)]; where there is none, inf on the diagonal and NaN beside it."""
        excess = (self.dof - self.dim - 1.0)[..., None, None]
        return self._where(excess > 0, self.rate / np.where(excess > 0, excess, 1.0))

    @property
    def inverse_variance(self):
        """Variances of the entries of inverse(P); as `inverse_mean` where none is."""
        excess = (self.dof - self.dim)[..., None, None]
        known = excess > 3.0
        excess = np.where(known, excess, 4.0)
        products = _squares_and_products(self.rate, excess + 1.0, excess - 1.0)
        variance = products / (excess * (excess - 1.0) ** 2 * (excess - 3.0))
        return self._where(known, variance)

    def _where(self, known, values):
        none = np.where(np.eye(self.dim) > 0, np.inf, np.nan)
        return np.where(known, values, none)

    @cached_property
    def expected_log_det(self):
        """E[ln |P|], shape (\\*group)."""
        halves = (self.dof[..., None] - np.arange(self.dim)) / 2.0
        return psi(halves).sum(-1) + self.dim * _LOG_2 - self.log_det_rate

    @cached_property
    def log_normaliser(self):
        """Logarithm of the normaliser of the density, shape (\\*group)."""
        half = self.dof / 2.0
        gamma = multigammaln(half, self.dim) if self.dof.size else half
        return half * (self.dim * _LOG_2 - self.log_det_rate) + gamma

    def kl(self, other):
        """KL divergence from `other` of the same shape, summed over the stack."""
        # tr(other.rate E[P]) without forming the product twice.
        trace = np.einsum("...ij,...ji->...", other.rate, self.mean)
        gain = (self.dof - other.dof) * self.expected_log_det
        gain = gain - self.dof * self.dim + trace
        return float(np.sum(gain / 2.0 - self.log_normaliser + other.log_normaliser))

    def entropy(self):
        """Differential entropy, nats, shape (\\*group)."""
        excess = (self.dof - self.dim - 1.0) * self.expected_log_det
        return self.log_normaliser - excess / 2.0 + self.dof * self.dim / 2.0

    def log_density(self, precisions):
        """Log densities of stacks (n, \\*group, p, p), summed over each stack."""
        root = np.linalg.cholesky(precisions)
        trace = np.einsum("...ij,...ji->...", self.rate, precisions)
        log_density = (self.dof - self.dim - 1.0) * log_det_of_root(root) - trace
        each = log_density / 2.0 - self.log_normaliser
        return each.reshape(len(precisions), -1).sum(axis=1)

    def sample(self, n, rng):
        """Draws of shape (n, \\*group, p, p), by Bartlett's decomposition."""
        p, shape = self.dim, (n, *self.dof.shape)
        root = np.tril(rng.standard_normal((*shape, p, p)), -1)
        chi2 = rng.chisquare(self.dof[..., None] - np.arange(p), (*shape, p))
        # A draw of exactly zero has no logarithm.
        chi2 = np.maximum(chi2, np.finfo(float).tiny)
        root += np.sqrt(chi2)[..., None] * np.eye(p)
        root = self.inverse_root @ root
        precisions = root @ np.swapaxes(root, -1, -2)
        # Rounding leaves some products without a Cholesky factor; this is above it.
        precisions[..., range(p), range(p)] *= 1.0 + _ROUNDING * p
        return precisions


def _squares_and_products(matrices, a, b):
    """``a M_ij^2 + b M_ii M_jj`` over a stack."""
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    products = diagonal[..., :, None] * diagonal[..., None, :]
    return a * matrices**2 + b * products
