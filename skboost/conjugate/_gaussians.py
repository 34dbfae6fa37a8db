"""Log densities of rows under several Gaussians, and the sums that follow from them.

The same code serves expected log densities (with the expected precision) and log
densities of parameter draws: only `offset` differs.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from skboost._math import LOG_2PI


@dataclass(frozen=True)
class MatrixGaussians:
    """Gaussians with a precision matrix for each or for all.

    Parameters
    ----------
    means : ndarray of shape (n_components, dim)
    roots : ndarray of shape (n_components, dim, dim) or (dim, dim)
        Triangular square roots of precisions: ``P = root root'``.
    offset : ndarray of shape (n_components,)
        Log density at the mean.
    """

    means: np.ndarray
    roots: np.ndarray
    offset: np.ndarray

    def log_density(self, rows):
        """Log densities, shape (n_rows, n_components).

        Missing entries are integrated out; the missing part of a row then is normal
        with the conditional mean and precision of the Gaussian (`completed`).
        """
        if rows.patterns is None:
            return self._complete(rows.values)
        found = np.empty((len(rows), len(self.means)))
        for seen, index in rows.groups():
            values = rows.values[index]
            if seen.all():
                found[index] = self._complete(values)
                continue
            for k, conditional in enumerate(self._conditionals(seen)):
                away = (values[:, seen] - self.means[k, seen]) @ conditional.root
                squares = np.einsum("nd,nd->n", away, away)
                found[index, k] = (
                    self.offset[k] + conditional.log_volume - squares / 2.0
                )
        return found

    def _complete(self, values):
        found = np.empty((len(values), len(self.means)))
        if self.roots.ndim == 2:
            values = values @ self.roots
            for k, mean in enumerate(self.means @ self.roots):
                away = values - mean
                np.einsum("nd,nd->n", away, away, out=found[:, k])
        else:
            shifts = np.einsum("kd,kde->ke", self.means, self.roots)
            for k, (root, shift) in enumerate(zip(self.roots, shifts, strict=True)):
                away = values @ root
                away -= shift
                np.einsum("nd,nd->n", away, away, out=found[:, k])
        found *= -0.5
        found += self.offset
        return found

    def completed(self, rows, resp):
        """Sums of first and second moments, with missing entries filled in.

        Returns
        -------
        first : ndarray of shape (n_components, dim)
        second : ndarray of shape (n_components, dim, dim)
        """
        n_components, dim = self.means.shape
        first = np.zeros((n_components, dim))
        second = np.zeros((n_components, dim, dim))
        for seen, index in rows.groups():
            for k, conditional in enumerate(self._conditionals(seen)):
                values, r = rows.values[index], resp[index, k]
                away = values[:, seen] - self.means[k, seen]
                values[:, ~seen] = self.means[k, ~seen] + away @ conditional.slope
                first[k] += r @ values
                second[k] += (values * r[:, None]).T @ values
                hidden = np.ix_(~seen, ~seen)
                second[k][hidden] += r.sum() * conditional.covariance
        return first, second

    def _conditionals(self, seen):
        """Of each Gaussian, what the observed entries say about the missing ones."""
        roots = np.broadcast_to(self.roots, (len(self.means), *self.roots.shape[-2:]))
        return [_Conditional.of(root @ root.T, seen) for root in roots]


@dataclass(frozen=True)
class _Conditional:
    """The missing part of a row, given the observed part."""

    root: np.ndarray  # of the marginal precision of what is observed
    log_volume: float  # of the integral over what is missing
    slope: np.ndarray  # (n_seen, n_missing)
    covariance: np.ndarray  # (n_missing, n_missing)

    @classmethod
    def of(cls, precision, seen):
        hidden = ~seen
        lower = np.linalg.cholesky(precision[np.ix_(hidden, hidden)])
        half = solve_triangular(lower, precision[np.ix_(hidden, seen)], lower=True)
        marginal = precision[np.ix_(seen, seen)] - half.T @ half
        inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
        log_det = np.log(np.diag(lower)).sum()
        return cls(
            np.linalg.cholesky(marginal),
            0.5 * len(lower) * LOG_2PI - log_det,
            -half.T @ inverse,
            inverse.T @ inverse,
        )


@dataclass(frozen=True)
class DiagonalGaussians:
    """Gaussians with independent coordinates.

    Parameters
    ----------
    means : ndarray of shape (n_components, dim)
    precisions : ndarray of shape (n_components, dim)
    offset : ndarray of shape (n_components, dim)
        Log density of each coordinate at its mean.
    """

    means: np.ndarray
    precisions: np.ndarray
    offset: np.ndarray

    def log_density(self, rows):
        """Log densities of what is observed, shape (n_rows, n_components)."""
        values = rows.values
        linear = self.precisions * self.means
        constant = self.offset - linear * self.means / 2.0
        found = values @ linear.T
        found -= (values * values) @ (self.precisions.T / 2.0)
        seen = rows.seen
        found += constant.sum(axis=1) if seen is None else seen @ constant.T
        return found
