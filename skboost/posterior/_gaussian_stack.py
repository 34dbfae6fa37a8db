"""Densities of many full-covariance Gaussians by one matrix product."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dtrtri

from skboost._parallel import row_blocks


def _inverse_lower(factor):
    inverse, info = dtrtri(factor, lower=1)
    if info != 0:
        raise ValueError(
            "params of a full-covariance Gaussian must have a Cholesky factor with a "
            "positive diagonal; got a zero scale. Bound the log scales."
        )
    return np.tril(inverse)


@dataclass(frozen=True)
class GaussianStack:
    """Inverse Cholesky factors of K Gaussians, one below the other.

    Parameters
    ----------
    center : ndarray of shape (dim,)
        Subtracted from every point first: far from the origin the difference of
        two large products would cost digits.
    whiten : ndarray of shape (K * dim, dim)
    shift : ndarray of shape (K * dim,)
        Whitened means.
    constant : ndarray of shape (K,)
        Log densities at the means, nats.
    """

    center: np.ndarray
    whiten: np.ndarray
    shift: np.ndarray
    constant: np.ndarray

    @classmethod
    def of(cls, structures):
        """Stack of (mean, factor) pairs."""
        means = np.array([mean for mean, _ in structures])
        center = means.mean(axis=0)
        inverses = [_inverse_lower(factor) for _, factor in structures]
        log_scales = [np.log(np.diag(factor)).sum() for _, factor in structures]
        return cls(
            center=center,
            whiten=np.concatenate(inverses),
            shift=np.concatenate(
                [w @ (m - center) for w, m in zip(inverses, means, strict=True)]
            ),
            constant=-0.5 * center.size * np.log(2.0 * np.pi) - np.array(log_scales),
        )

    @property
    def n_components(self):
        """Number of Gaussians."""
        return self.constant.size

    def residuals(self, theta):
        """Whitened residuals, shape (n, K, dim)."""
        z = (theta - self.center) @ self.whiten.T
        z -= self.shift
        return z.reshape(len(theta), self.n_components, self.center.size)

    def log_density(self, residuals):
        """Log densities from whitened residuals, shape (n, K), nats."""
        return self.constant - 0.5 * np.einsum("nkd,nkd->nk", residuals, residuals)

    def score(self, residuals, shares):
        """``sum_k shares_nk * d ln s_k / d theta``, shape (n, dim)."""
        pulled = residuals * -shares[:, :, None]
        return pulled.reshape(len(residuals), -1) @ self.whiten

    def blocks(self, n):
        """Row blocks whose residuals stay in cache."""
        return row_blocks(n, self.shift.size)
