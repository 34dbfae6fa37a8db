"""Student-t distributions of a new row, one for each cluster, or their limits."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln

_LOG_PI = np.log(np.pi)


def _log_kernel(squares, dof, dim):
    """Log density up to the log determinant of the scale; `dof` may be infinite."""
    finite = np.isfinite(dof)
    nu = np.where(finite, dof, 1.0)
    heavy = gammaln((nu + dim) / 2.0) - gammaln(nu / 2.0)
    heavy = heavy - 0.5 * dim * (np.log(nu) + _LOG_PI)
    heavy = heavy - 0.5 * (nu + dim) * np.log1p(squares / nu)
    light = -0.5 * (dim * (np.log(2.0) + _LOG_PI) + squares)
    return np.where(finite, heavy, light)


def _stretch(dof, rng):
    """What turns normal draws into Student-t draws."""
    finite = np.isfinite(dof)
    nu = np.where(finite, dof, 1.0)
    return np.where(finite, np.sqrt(nu / rng.chisquare(nu)), 1.0)


@dataclass(frozen=True)
class JointStudentTs:
    """Elliptical distributions.

    Parameters
    ----------
    means : ndarray of shape (n_components, dim)
    dof : ndarray of shape (n_components,)
    scales : ndarray of shape (n_components, dim, dim)
        Positive definite.
    """

    means: np.ndarray
    dof: np.ndarray
    scales: np.ndarray

    def log_density(self, rows):
        """Log densities of what is observed, shape (n_rows, n_components)."""
        if rows.patterns is None:
            return self._marginal(rows.values, slice(None))
        found = np.empty((len(rows), len(self.means)))
        for seen, index in rows.groups():
            columns = np.flatnonzero(seen)
            found[index] = self._marginal(rows.values[index], columns)
        return found

    def sample(self, clusters, rng):
        """A row from each of the named distributions."""
        roots = np.linalg.cholesky(self.scales)[clusters]
        normal = rng.standard_normal((len(clusters), self.means.shape[1]))
        stretch = _stretch(self.dof[clusters], rng)[:, None]
        noise = np.einsum("nij,nj->ni", roots, normal) * stretch
        return self.means[clusters] + noise

    def _marginal(self, values, columns):
        values = values[:, columns]
        found = np.empty((len(values), len(self.means)))
        for k, dof in enumerate(self.dof):
            scale = self.scales[k][columns][:, columns]
            lower = np.linalg.cholesky(scale)
            away = (values - self.means[k, columns]).T
            squares = (solve_triangular(lower, away, lower=True) ** 2).sum(axis=0)
            log_volume = np.log(np.diag(lower)).sum()
            found[:, k] = _log_kernel(squares, dof, len(lower)) - log_volume
        return found


@dataclass(frozen=True)
class SeparateStudentTs:
    """Products of one-dimensional distributions.

    Parameters
    ----------
    means, dof, scales : ndarray of shape (n_components, dim)
        Scales are squares: variances where `dof` is infinite.
    """

    means: np.ndarray
    dof: np.ndarray
    scales: np.ndarray

    def log_density(self, rows):
        """Log densities of what is observed, shape (n_rows, n_components)."""
        seen = rows.seen
        found = np.empty((len(rows), len(self.means)))
        for k, (mean, dof, scale) in enumerate(
            zip(self.means, self.dof, self.scales, strict=True)
        ):
            each = _log_kernel((rows.values - mean) ** 2 / scale, dof, 1)
            each -= 0.5 * np.log(scale)
            found[:, k] = (
                each.sum(axis=1) if seen is None else (each * seen).sum(axis=1)
            )
        return found

    def sample(self, clusters, rng):
        """A row from each of the named distributions."""
        normal = rng.standard_normal((len(clusters), self.means.shape[1]))
        normal *= _stretch(self.dof[clusters], rng)
        return self.means[clusters] + np.sqrt(self.scales[clusters]) * normal
