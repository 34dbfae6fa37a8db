"""Full covariance: params = (m, packed lower Cholesky factor, log diagonal)."""

from functools import lru_cache
from math import isqrt, log, pi, sqrt

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dtrtri

from skboost.families._base import GaussianFamily
from skboost.families._component import Evaluation
from skboost.families._moments import checked_moments, checked_size

# A log diagonal entry of the factor has Fisher information 2, the others 1.
_DIAGONAL_STEP = sqrt(0.5)


@lru_cache(maxsize=32)
def _packing(dim):
    """Flat positions of the lower triangle and of its diagonal, and what a unit of
    `move` is."""
    rows, columns = np.tril_indices(dim)
    diagonal = np.flatnonzero(rows == columns)
    flat, steps = rows * dim + columns, np.ones(dim + rows.size)
    steps[dim + diagonal] = _DIAGONAL_STEP
    flat.flags.writeable = diagonal.flags.writeable = steps.flags.writeable = False
    return flat, diagonal, steps


@lru_cache(maxsize=256)
def _dim_of(shape):
    """The dimension that parameters of this shape are of: asked at every density."""
    dim = (isqrt(9 + 8 * shape[0]) - 3) // 2
    return checked_size(shape, dim, dim * (dim + 3) // 2)


def _packed(mean, factor):
    """Parameters (..., n_params) of means (..., dim) and Cholesky factors."""
    flat, diagonal, _ = _packing(mean.shape[-1])
    packed = factor.reshape(*mean.shape[:-1], -1)[..., flat]
    packed[..., diagonal] = np.log(packed[..., diagonal])
    return np.concatenate([mean, packed], axis=-1)


def _triangular(root):
    """The Cholesky factor of ``root root^T``."""
    triangle = np.linalg.qr(root.T, mode="r").T
    return triangle * np.sign(np.diagonal(triangle))


class FullEvaluation(Evaluation):
    """Gaussian with a Cholesky factor at points; z = L^-1 (theta - m)."""

    def __init__(self, mean, factor, theta):
        # One triangular inverse turns everything that follows into GEMMs.
        inverse, info = dtrtri(factor, lower=1)
        if info:
            raise FloatingPointError(
                "a Cholesky factor is singular: a log scale in params underflows."
            )
        self._diagonal = np.diagonal(factor)
        self._inverse = inverse
        self._z = (theta - mean) @ inverse.T
        constant = -0.5 * mean.size * log(2 * pi) - np.log(self._diagonal).sum()
        self.squared = np.einsum("ij,ij->i", self._z, self._z)
        self.log_density = constant - 0.5 * self.squared

    def score(self, rows=slice(None)):
        return self._z[rows] @ -self._inverse

    def pull(self, cotangent):
        weighted = cotangent @ self._z
        second = (self._z * cotangent[:, None]).T @ self._z
        flat, diagonal, _ = _packing(weighted.size)
        slope = (self._inverse.T @ second).ravel()[flat]
        slope[diagonal] = slope[diagonal] * self._diagonal - cotangent.sum()
        return np.concatenate([weighted @ self._inverse, slope])


class _Pair:
    """Two components in the axes (singular vectors of L_a^-1 L_b) that make both
    diagonal."""

    def __init__(self, mean_a, factor_a, mean_b, factor_b):
        self.whiten = np.linalg.inv(factor_a)
        left, ratio, right = np.linalg.svd(self.whiten @ factor_b)
        # Scales that underflow against the others are no shorter than this.
        self.left, self.ratio = left, np.maximum(ratio, np.finfo(float).tiny)
        self.right = right
        apart = np.einsum("...ij,...j->...i", self.whiten, mean_a - mean_b)
        self.apart = np.einsum("...ji,...j->...i", left, apart)
        # Along the axes: covariance^-1 (m_a - m_b) of the average covariance.
        self.slope = 2.0 * self.apart / (1.0 + self.ratio**2)

    def log_affinity(self):
        gap = self.ratio - 1.0
        squeezed = np.log1p(0.5 * gap * (gap / self.ratio)).sum(axis=-1)
        return -0.5 * squeezed - 0.125 * (self.apart * self.slope).sum(axis=-1)

    def gradients(self):
        """Gradients in the mean of a, and in the factors of a and of b."""
        # d / d factor_a = whiten^T left (diagonal + slope slope^T / 8) left^T.
        gap = (self.ratio - 1.0) * (self.ratio + 1.0) / (1.0 + self.ratio**2)
        axes = np.swapaxes(self.whiten, -1, -2) @ self.left
        outer = self.slope[..., :, None] * self.slope[..., None, :]
        along = 0.125 * outer
        along[..., range(gap.shape[-1]), range(gap.shape[-1])] += 0.5 * gap
        factor_a = axes @ along @ np.swapaxes(self.left, -1, -2)
        along = 0.125 * outer * self.ratio[..., None, :]
        along[..., range(gap.shape[-1]), range(gap.shape[-1])] -= 0.5 * gap / self.ratio
        factor_b = axes @ along @ self.right
        mean = -0.25 * np.einsum("...ij,...j->...i", axes, self.slope)
        return mean, factor_a, factor_b


class FullGaussian(GaussianFamily):
    """Gaussians of any covariance L L^T, ``params = (m, packed L, log diagonal)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import FullGaussian
    >>> family = FullGaussian()
    >>> params = family.from_moments(np.zeros(2), np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> family.log_density(np.zeros((1, 2)), params).round(2)
    array([-1.69])
    """

    full_covariance = True

    def n_params(self, dim):
        return dim * (dim + 3) // 2

    def dim_of(self, params):
        return _dim_of(params.shape)

    def scale_mask(self, dim):
        mask = np.zeros(self.n_params(dim), dtype=bool)
        mask[dim + _packing(dim)[1]] = True
        return mask

    def structure(self, params):
        """Mean, None and Cholesky factor of a component, or of each row of several."""
        rows = params.shape[:-1]
        dim = self.dim_of(params[0] if rows else params)
        flat, diagonal, _ = _packing(dim)
        packed = params[..., dim:].copy()
        packed[..., diagonal] = np.exp(packed[..., diagonal])
        factor = np.zeros((*rows, dim * dim))
        factor[..., flat] = packed
        return params[..., :dim], None, factor.reshape(*rows, dim, dim)

    def pull_structure(self, params, g_mean, g_variance, g_factor):
        flat, diagonal, _ = _packing(g_mean.size)
        slope = g_factor.ravel()[flat]
        slope[diagonal] *= np.exp(params[g_mean.size + diagonal])
        return np.concatenate([g_mean, slope])

    def transport(self, params, eps):
        mean, _, factor = self.structure(params)
        return eps @ factor.T + mean

    def pull_transport(self, params, eps, cotangent):
        g_mean, g_factor = cotangent.sum(axis=0), cotangent.T @ eps
        return self.pull_structure(params, g_mean, None, g_factor)

    def at(self, params, theta):
        mean, _, factor = self.structure(params)
        return FullEvaluation(mean, factor, theta)

    def entropy(self, params):
        dim = self.dim_of(params)
        log_diagonal = params[dim + _packing(dim)[1]]
        return float(0.5 * dim * (1 + log(2 * pi)) + log_diagonal.sum())

    def from_moments(self, mean, covariance):
        mean, covariance, variance = checked_moments(mean, covariance)
        if covariance.ndim == 1:
            return _packed(mean, np.diag(np.sqrt(variance)))
        try:
            return _packed(mean, cholesky(covariance, lower=True))
        except LinAlgError as error:
            raise ValueError(
                "covariance must be positive definite for covariance='full'; got "
                "a matrix without a Cholesky factor. Add a small multiple of the "
                "identity, or pass variances of shape (dim,)."
            ) from error

    def from_factor(self, mean, factor):
        """Member with a mean and a lower Cholesky factor, or rows of several."""
        return _packed(mean, factor)

    def widen(self, params, width):
        dim = self.dim_of(params)
        width = np.broadcast_to(width, dim)
        diagonal = dim + _packing(dim)[1]
        scale = np.concatenate([np.ones(dim), width[np.tril_indices(dim)[0]]])
        scale[diagonal] = 1.0
        widened = params * scale
        widened[diagonal] += np.log(width)
        return widened

    def move(self, params, x):
        mean, _, factor = self.structure(params)
        dim = mean.size
        flat, diagonal, steps = _packing(dim)
        # The component of these moves in the coordinates that `params` whitens.
        inner = steps * x
        x_mean, _, x_factor = self.structure(inner)
        packed = (factor @ x_factor).ravel()[flat]
        # Added in logarithms: the product would underflow where the sum does not.
        packed[diagonal] = params[dim + diagonal] + inner[dim + diagonal]
        return np.concatenate([mean + factor @ x_mean, packed])

    def pull_move(self, params, x, gradient):
        _, _, factor = self.structure(params)
        dim = factor.shape[0]
        flat, diagonal, steps = _packing(dim)
        below = np.zeros(dim * dim)
        below[flat] = gradient[dim:]
        below = below.reshape(dim, dim)
        # The diagonals add in logarithms and are passed on as they are.
        np.fill_diagonal(below, 0.0)
        below = factor.T @ below
        scale = np.exp((steps * x)[dim + diagonal])
        d_log = np.diagonal(below) * scale + gradient[dim + diagonal]
        packed = below.ravel()[flat]
        packed[diagonal] = _DIAGONAL_STEP * d_log
        return np.concatenate([gradient[:dim] @ factor, packed])

    def _log_affinity(self, a, b):
        pair = self._pair(a, b)
        mean, *factors = pair.gradients()
        dim = mean.shape[1]
        flat, diagonal, _ = _packing(dim)
        gradients = []
        for sign, params, factor in zip((1, -1), (a, b), factors, strict=True):
            packed = factor.reshape(len(a), -1)[:, flat]
            packed[:, diagonal] *= np.exp(params[:, dim + diagonal])
            gradients.append(np.hstack([sign * mean, packed]))
        return pair.log_affinity(), *gradients

    def _pair(self, a, b):
        (mean_a, _, factor_a), (mean_b, _, factor_b) = map(self.structure, (a, b))
        return _Pair(mean_a, factor_a, mean_b, factor_b)

    def root_params(self, a, b):
        """Parameters of the density ~ sqrt(s_a s_b)."""
        pair, (mean, _, factor) = self._pair(a, b), self.structure(a)
        axes = factor @ pair.left
        # Covariance 2 ratio^2 / (1 + ratio^2) along the axes.
        root = axes * (sqrt(2) * pair.ratio / np.hypot(1.0, pair.ratio))
        return _packed(mean - 0.5 * axes @ pair.slope, _triangular(root))
