"""Log densities and scores of all components of a mixture at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dtrtri

from skboost._math import LOG_2PI, responsibilities
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
            constant=-0.5 * center.size * LOG_2PI - np.array(log_scales),
        )

    def residuals(self, theta):
        """Whitened residuals, shape (n, K, dim)."""
        z = (theta - self.center) @ self.whiten.T
        z -= self.shift
        return z.reshape(len(theta), self.constant.size, self.center.size)

    def log_density(self, residuals):
        """Log densities from whitened residuals, shape (n, K), nats."""
        return self.constant - 0.5 * np.einsum("nkd,nkd->nk", residuals, residuals)

    def score(self, residuals, responsibilities):
        """``sum_k responsibilities_nk * d ln s_k / d theta``, shape (n, dim)."""
        pulled = residuals * -responsibilities[:, :, None]
        return pulled.reshape(len(residuals), -1) @ self.whiten


def checked_points(theta, dim):
    """Points as an array of shape (n, dim); a ValueError where they have another."""
    theta = np.asarray(theta, dtype=float)
    if theta.ndim != 2 or theta.shape[1] != dim:
        raise ValueError(
            f"theta must have shape (n, {dim}); got {theta.shape}. Pass one draw per "
            "row."
        )
    return theta


@dataclass(eq=False)
class ComponentDensities:
    """Components of a mixture, without weights, ready for evaluation.

    Full-covariance Gaussians are stacked into one matrix; the others are asked one
    by one.

    Parameters
    ----------
    components : tuple of (VariationalFamily, ndarray of shape (n_params,))
    dim : int
    """

    components: tuple
    dim: int

    @cached_property
    def _stacked(self):
        """Indices of the full-covariance Gaussians, their stack, the other indices."""
        index, structures, others = [], [], []
        for k, (family, params) in enumerate(self.components):
            variance = ()
            if family.exact_expectations:
                mean, variance, factor = family.structure(params)
            if variance is None:
                index.append(k)
                structures.append((mean, factor))
            else:
                others.append(k)
        return index, GaussianStack.of(structures) if index else None, others

    def _blocks(self, n):
        """Rows whose residuals stay in cache."""
        stack = self._stacked[1]
        return row_blocks(n, self.dim if stack is None else stack.shift.size)

    def log_density(self, theta):
        """Log densities at `theta` (n, dim), shape (n, K), nats."""
        theta = checked_points(theta, self.dim)
        out = np.empty((len(theta), len(self.components)))
        for rows in self._blocks(len(theta)):
            self._evaluate(theta[rows], out[rows])
        return out

    def mixture_score(self, theta, log_weights):
        """Score (n, dim) and log density (n,) of the mixture with these weights."""
        theta = checked_points(theta, self.dim)
        index, stack, others = self._stacked
        score, log_q = np.zeros_like(theta), np.empty(len(theta))
        for rows in self._blocks(len(theta)):
            here = theta[rows]
            log_components = np.empty((len(here), len(self.components)))
            residuals, evaluations = self._evaluate(here, log_components)
            share, log_q[rows] = responsibilities(log_components + log_weights)
            if stack is not None:
                score[rows] += stack.score(residuals, share[:, index])
            for k, evaluation in zip(others, evaluations, strict=True):
                score[rows] += share[:, k, None] * evaluation.score()
        return score, log_q

    def _evaluate(self, theta, out):
        """Fill `out` with log densities; what their scores need is returned."""
        index, stack, others = self._stacked
        residuals = None
        if stack is not None:
            residuals = stack.residuals(theta)
            out[:, index] = stack.log_density(residuals)
        evaluations = []
        for k in others:
            family, params = self.components[k]
            evaluations.append(family.at(params, theta))
            out[:, k] = evaluations[-1].log_density
        return residuals, evaluations
