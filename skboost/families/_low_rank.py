"""Diagonal plus low rank: params = (m, log sigma, B), covariance S + B B^T.

With U = B / sigma and M = I + U^T U, Woodbury's identity gives every inverse and
determinant from rank x rank matrices. Affinities and root products are linear in dim:
with the QR decomposition of U over the identity, ``(U; I) = (Q; V) R``, the identity
reads

    covariance^-1 = (I - Q Q^T) / sigma^2,   covariance^-1 B = Q V^T / sigma

row by row, I - Q^T Q = V^T V, and V = R^-1: no inverse, no product of U with itself.
"""

from math import log, pi, sqrt
from numbers import Integral

import numpy as np
from scipy.linalg import block_diag, eigh, solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.special import expit

from skboost._math import log_cosh
from skboost.families._base import GaussianFamily
from skboost.families._component import Component, Evaluation
from skboost.families._moments import checked_moments, checked_size, narrowed, whitened


class _Root:
    """Q, V and half the log determinant of a stack of whitened factors."""

    def __init__(self, whitened):
        *stack, dim, rank = whitened.shape
        below = np.broadcast_to(np.eye(rank), (*stack, rank, rank))
        both, r = np.linalg.qr(np.concatenate([whitened, below], axis=-2))
        self.q, self.v = both[..., :dim, :], both[..., dim:, :]
        diagonal = np.diagonal(r, axis1=-2, axis2=-1)
        self.log_root_determinant = np.log(np.abs(diagonal)).sum(axis=-1)
        self.precision_times_factor = self.q @ np.swapaxes(self.v, -1, -2)
        self.rest = 1.0 - np.square(self.q).sum(axis=-1)


class _Average:
    """The Gaussian of the average covariance, by half the sum and half the
    difference."""

    def __init__(self, a, b):
        (mean_a, log_a, factor_a), (mean_b, log_b, factor_b) = a, b
        self.scale = np.exp(0.5 * (np.logaddexp(2 * log_a, 2 * log_b) - np.log(2)))
        factor = np.concatenate(
            [0.5 * (factor_a + factor_b), 0.5 * (factor_a - factor_b)], axis=-1
        )
        self.root = _Root(factor / self.scale[..., None])
        whitened = (mean_a - mean_b) / self.scale
        latent = np.einsum("...dk,...d->...k", self.root.q, whitened)
        rest = whitened - np.einsum("...dk,...k->...d", self.root.q, latent)
        # covariance^-1 of the difference in means, and the factor times it.
        self.pulled = rest / self.scale
        self.explained = np.einsum("...jk,...k->...j", self.root.v, latent)
        self.squared = np.square(rest).sum(-1) + np.square(self.explained).sum(-1)

    def halves(self, columns):
        """What belongs to either factor, of what belongs to the average's."""
        half, other = np.split(columns, 2, axis=-1)
        return half + other, half - other


_SMALLEST_NOISE = 1e-10


class _Woodbury:
    """The inner rank x rank problem of one component."""

    def __init__(self, log_scale, factor):
        self.scale = np.exp(log_scale)
        self.whitened = factor / self.scale[:, None]
        inner = self.whitened.T @ self.whitened
        inner[np.diag_indices_from(inner)] += 1.0
        root = dpotrf(inner, lower=1)[0]
        inverse_root = dtrtri(root, lower=1)[0]
        self.log_root_determinant = log_scale.sum() + np.log(np.diagonal(root)).sum()
        self.projection = self.whitened @ inverse_root.T @ inverse_root
        self.leverage = np.einsum("ij,ij->i", self.projection, self.whitened)


def _rooted(whitened, *blocks):
    """Blocks of columns times (I + U U^T)^(1/2) = I + U K U^T, with K rank x rank.

    Moving the mean by scale * root keeps its Fisher information at the identity; moving
    the factor so lets a long axis stretch in proportion to its length.
    """
    values, vectors = np.linalg.eigh(whitened.T @ whitened)
    # (sqrt(1 + s) - 1) / s without its cancellation at s = 0.
    inner = 1 / (1 + np.sqrt(1 + np.maximum(values, 0.0)))
    left = whitened @ ((vectors * inner) @ vectors.T)
    return [block + left @ (whitened.T @ block) for block in blocks]


class LowRankEvaluation(Evaluation):
    """Gaussian with covariance S + B B^T; residuals split into U v and the rest e,
    |e|^2 + |v|^2."""

    def __init__(self, mean, woodbury, theta):
        self._woodbury = woodbury
        rest = (theta - mean) / woodbury.scale
        self._latent = rest @ woodbury.projection
        rest -= self._latent @ woodbury.whitened.T
        self._rest = rest
        squared = np.einsum("ij,ij->i", rest, rest)
        squared += np.einsum("ij,ij->i", self._latent, self._latent)
        constant = -0.5 * mean.size * log(2 * pi) - woodbury.log_root_determinant
        self.log_density = constant - 0.5 * squared

    def score(self, rows=slice(None)):
        return self._rest[rows] / -self._woodbury.scale

    def pull(self, cotangent):
        woodbury = self._woodbury
        scale, total = woodbury.scale, cotangent.sum()
        g_mean = (cotangent @ self._rest) / scale
        g_log_scale = cotangent @ np.square(self._rest)
        g_log_scale -= total * (1 - woodbury.leverage)
        second = self._rest.T @ (self._latent * cotangent[:, None])
        g_factor = (second - total * woodbury.projection) / scale[:, None]
        return _packed(g_mean, g_log_scale, g_factor)


class LowRankGaussian(GaussianFamily):
    """Gaussians of covariance diag(sigma^2) + B B^T, ``params = (m, log sigma, B)``.

    Parameters
    ----------
    rank : int, default=None
        B has ``min(rank, dim)`` columns. None lets a fit choose it for each component;
        a component made otherwise has ``min(10, dim)``.

    Examples
    --------
    >>> from skboost.families import LowRankGaussian
    >>> LowRankGaussian(rank=1).n_params(4)  # mean, log sigma and one column
    12
    """

    low_rank = True
    default_rank = 10

    def __init__(self, rank=None):
        self.rank = rank

    @property
    def rank_is_open(self):
        return self.rank is None

    def with_rank(self, rank=None):
        if not self.rank_is_open:
            return self
        return LowRankGaussian(self.default_rank if rank is None else rank)

    def convert(self, params, dim):
        if params.size == self.n_params(dim):
            return params
        own = LowRankGaussian(rank_of(params, dim)).structure(params)
        return self.from_structure(*with_columns(*own, self.rank)).params

    @classmethod
    def from_structure(cls, mean, variance, factor):
        """The component that has a structure: the inverse of `structure`."""
        params = _packed(mean, 0.5 * np.log(variance), factor)
        return Component(cls(rank=factor.shape[1]), params)

    @property
    def _rank(self):
        if self.rank is None:
            return self.default_rank
        if not (isinstance(self.rank, Integral) and self.rank >= 1):
            raise ValueError(
                f"rank must be a positive integer or None; got {self.rank!r}. "
                "Use covariance='diag' for no factor at all."
            )
        return self.rank

    def n_columns(self, dim):
        """Columns of the factor."""
        return min(self._rank, dim)

    def n_params(self, dim):
        return dim * (2 + self.n_columns(dim))

    def dim_of(self, params):
        # Below the rank the length is D (D + 2), above it D (rank + 2).
        size = params.shape[0]
        rank = self._rank
        dim = size // (2 + rank)
        if dim < rank:
            dim = int(sqrt(size + 1)) - 1
        return checked_size(params.shape, dim, self.n_params(dim))

    def base_dim(self, dim):
        return dim + self.n_columns(dim)

    def _balanced(self, eps, dim):
        if len(eps) >= 4 * (eps.shape[1] - dim):
            return partly_whitened(eps, dim)
        return super()._balanced(eps, dim)

    def scale_mask(self, dim):
        return np.repeat([False, True, False], [dim, dim, dim * self.n_columns(dim)])

    def split(self, params):
        """Mean, log sigma and factor of a component, or of each row of parameters."""
        rows = params.shape[:-1]
        dim = self.dim_of(params[0] if rows else params)
        factor = params[..., 2 * dim :].reshape(*rows, dim, self.n_columns(dim))
        return params[..., :dim], params[..., dim : 2 * dim], factor

    def transport(self, params, eps):
        mean, log_scale, factor = self.split(params)
        dim = mean.size
        theta = eps[:, dim:] @ factor.T
        theta += np.exp(log_scale) * eps[:, :dim]
        theta += mean
        return theta

    def pull_transport(self, params, eps, cotangent):
        _, log_scale, _ = self.split(params)
        dim = log_scale.size
        slope = np.einsum("ij,ij->j", cotangent, eps[:, :dim])
        g_factor = cotangent.T @ eps[:, dim:]
        return _packed(cotangent.sum(axis=0), np.exp(log_scale) * slope, g_factor)

    def at(self, params, theta):
        mean, log_scale, factor = self.split(params)
        return LowRankEvaluation(mean, _Woodbury(log_scale, factor), theta)

    def entropy(self, params):
        mean, log_scale, factor = self.split(params)
        woodbury = _Woodbury(log_scale, factor)
        constant = 0.5 * mean.size * (1 + log(2 * pi))
        return float(constant + woodbury.log_root_determinant)

    def entropy_gradient(self, params):
        mean, log_scale, factor = self.split(params)
        woodbury = _Woodbury(log_scale, factor)
        # The factor's is covariance^-1 B.
        g_factor = woodbury.projection / woodbury.scale[:, None]
        return _packed(np.zeros(mean.size), 1 - woodbury.leverage, g_factor)

    def from_moments(self, mean, covariance):
        mean, covariance, variance = checked_moments(mean, covariance)
        scale, rank = np.sqrt(variance), self.n_columns(mean.size)
        if covariance.ndim == 1:
            # Smooth orthogonal axes for an identity, which has none of its own.
            phase = np.pi * (np.arange(mean.size)[:, None] + 0.5) / mean.size
            axes = np.cos(phase * np.arange(rank))
            noise, excess, axes = 1.0, 0.0, axes / np.linalg.norm(axes, axis=0)
        else:
            correlation = covariance / np.outer(scale, scale)
            noise, excess, axes = _principal(correlation, rank)
        # Ranks that the moments do not ask for get this share of the noise variance: at
        # a factor of exactly zero its own gradient vanishes, and no search would leave
        # it.
        symmetry_breaking = 1e-3
        excess = np.maximum(excess, symmetry_breaking * noise)
        factor = axes * np.sqrt(excess)
        # What the factor leaves of each unit variance, so that marginals are kept.
        rest = np.maximum(1 - np.square(factor).sum(axis=1), _SMALLEST_NOISE)
        log_scale = np.log(scale) + 0.5 * np.log(rest)
        return _packed(mean, log_scale, scale[:, None] * factor)

    def widen(self, params, width):
        mean, log_scale, factor = self.split(params)
        width = np.broadcast_to(width, mean.shape)
        return _packed(mean, log_scale + np.log(width), width[:, None] * factor)

    def move(self, params, x):
        mean, log_scale, factor = self.split(params)
        x_mean, x_scale, x_factor = self.split(x)
        scale = np.exp(log_scale)[:, None]
        x_mean, x_factor = _rooted(factor / scale, x_mean[:, None], x_factor)
        mean = mean + (scale * x_mean)[:, 0]
        factor = factor + scale * x_factor
        return _packed(mean, log_scale + sqrt(0.5) * x_scale, factor)

    def pull_move(self, params, x, gradient):
        _, log_scale, factor = self.split(params)
        g_mean, g_log_scale, g_factor = self.split(gradient)
        scale = np.exp(log_scale)[:, None]
        moved = scale * g_mean[:, None], scale * g_factor
        g_mean, g_factor = _rooted(factor / scale, *moved)
        return _packed(g_mean[:, 0], sqrt(0.5) * g_log_scale, g_factor)

    def _log_affinity(self, a, b):
        a, b = self.split(a), self.split(b)
        u, average = a[1] - b[1], _Average(a, b)
        roots = [_Root(factor / np.exp(log)[..., None]) for _, log, factor in (a, b)]
        squeezed = 0.5 * log_cosh(u).sum(axis=1) + average.root.log_root_determinant
        squeezed -= 0.5 * sum(root.log_root_determinant for root in roots)
        # A log determinant is concave, so this is never negative; its rounding may be.
        value = -np.maximum(squeezed, 0.0) - 0.125 * average.squared
        slopes = average.halves(average.root.precision_times_factor)
        explained = average.halves(average.explained)
        gradients = []
        for k, (sign, (_, log_scale, _)) in enumerate(
            zip((1, -1), (a, b), strict=True)
        ):
            scale, y = np.exp(log_scale), average.pulled
            g_log_scale = 0.5 * roots[k].rest + 0.125 * np.square(scale * y)
            g_log_scale -= expit(2 * sign * u) * average.root.rest
            g_factor = 0.5 * roots[k].precision_times_factor / scale[..., None]
            g_factor -= 0.5 * slopes[k] / average.scale[..., None]
            g_factor += 0.125 * y[..., None] * explained[k][:, None, :]
            gradients.append(_packed(-0.25 * sign * y, g_log_scale, g_factor))
        return value, *gradients

    def root_product(self, a, b):
        params = self.root_params(a, b)
        return Component(LowRankGaussian(rank_of(params, self.dim_of(a))), params)

    def root_params(self, a, b):
        """Parameters of the density ~ sqrt(s_a s_b), of as many columns as it needs.

        The average precision is ``D - F F^T`` with F of both ranks; its inverse by K =
        I - F^T D^-1 F = Z^T Z, a sum of squares, has no cancellation however long the
        axes are.
        """
        a, b = self.split(a), self.split(b)
        (mean_a, log_a, factor_a), (mean_b, log_b, factor_b) = a, b
        u = log_a - log_b
        log_scale = 0.5 * (log_a + log_b - log_cosh(u))
        # Shares of either precision in their sum.
        share_a, share_b = (np.sqrt(expit(s * 2 * u))[:, None] for s in (-1, 1))
        root_a, root_b = (_Root(f / np.exp(log)[:, None]) for _, log, f in (a, b))
        columns = np.hstack([share_a * root_a.q, share_b * root_b.q])
        across = np.hstack([share_b * root_a.q, -share_a * root_b.q])
        z = np.vstack([block_diag(root_a.v, root_b.v), across])
        triangle = np.linalg.qr(z, mode="r")
        factor = solve_triangular(triangle, columns.T, trans="T").T
        factor = narrowed(factor * np.exp(log_scale)[:, None])
        average = _Average(a, b)
        explained_a, explained_b = average.halves(average.explained)
        shift = (np.exp(2 * log_b) - np.exp(2 * log_a)) * average.pulled
        shift += factor_b @ explained_b - factor_a @ explained_a
        return _packed(0.5 * (mean_a + mean_b) + 0.25 * shift, log_scale, factor)

    def structure(self, params):
        mean, log_scale, factor = self.split(params)
        return mean, np.exp(2 * log_scale), factor

    def pull_structure(self, params, g_mean, g_variance, g_factor):
        _, log_scale, _ = self.split(params)
        return _packed(g_mean, 2 * np.exp(2 * log_scale) * g_variance, g_factor)


def _packed(mean, log_scale, factor):
    """Parameters from their parts, of a component or of rows of them."""
    columns = factor.reshape(*mean.shape[:-1], -1)
    return np.concatenate([mean, log_scale, columns], axis=-1)


def rank_of(params, dim):
    """Columns of the factor of a component, from the length of its parameters."""
    return params.size // dim - 2


def with_columns(mean, variance, factor, rank):
    """Structure of so many columns: lacking ones are zero, the shortest go to the
    diagonal."""
    left, lengths, _ = np.linalg.svd(
        factor / np.sqrt(variance)[:, None], full_matrices=False
    )
    columns = np.sqrt(variance)[:, None] * left * lengths
    kept, lost = columns[:, :rank], columns[:, rank:]
    lacking = np.zeros((mean.size, rank - kept.shape[1]))
    variance = variance + np.square(lost).sum(axis=1)
    return mean, variance, np.hstack([kept, lacking])


def partly_whitened(eps, dim):
    """Base draws with every moment but the correlations of pairs of noise variables."""
    latent = whitened(eps[:, dim:])
    noise = eps[:, :dim] - eps[:, :dim].mean(axis=0)
    noise -= latent @ (latent.T @ noise / len(eps))
    noise /= np.sqrt(np.einsum("ij,ij->j", noise, noise) / len(eps))
    return np.concatenate([noise, latent], axis=1)


def _principal(correlation, rank):
    """Noise level, variance above it and axes of the leading directions."""
    dim = correlation.shape[0]
    values, vectors = eigh(correlation, subset_by_index=[dim - rank, dim - 1])
    if rank < dim:
        noise = (np.trace(correlation) - values.sum()) / (dim - rank)
    else:
        # Any level below the smallest eigenvalue represents the matrix exactly.
        noise = 0.5 * values[0]
    noise = max(noise, _SMALLEST_NOISE)
    return noise, values - noise, vectors
