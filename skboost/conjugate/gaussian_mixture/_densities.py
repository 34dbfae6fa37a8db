"""Rows of data, and their log densities under several Gaussians or Student ts.

The same code serves expected log densities (with the expected precision) and log
densities of parameter draws: only `offset` differs. Exported files have them, too:
what rows are predicted with needs NumPy only.
"""

from dataclasses import dataclass
from math import lgamma

import numpy as np

from skboost._math import LOG_2PI


@dataclass(frozen=True)
class MatrixGaussians:
    """Gaussians with precisions ``root root'`` for each or for all."""

    means: np.ndarray
    roots: np.ndarray
    offset: np.ndarray

    def log_density(self, rows):
        """Log densities (n_rows, n_components), missing entries integrated out."""
        if rows.patterns is None:
            return self._complete(rows.values)
        logs = np.empty((len(rows), len(self.means)))
        for seen, index in rows.groups():
            values = rows.values[index]
            if seen.all():
                logs[index] = self._complete(values)
                continue
            root, log_volume, *_ = _conditional(self._precisions, seen)
            away = (values[:, seen] - self.means[:, None, seen]) @ root
            squares = np.einsum("knd,knd->nk", away, away)
            logs[index] = self.offset + log_volume - squares / 2.0
        return logs

    def _complete(self, values):
        logs = np.empty((len(values), len(self.means)))
        if self.roots.ndim == 2:
            values = values @ self.roots
            for k, mean in enumerate(self.means @ self.roots):
                away = values - mean
                np.einsum("nd,nd->n", away, away, out=logs[:, k])
        else:
            shifts = np.einsum("kd,kde->ke", self.means, self.roots)
            for k, (root, shift) in enumerate(zip(self.roots, shifts, strict=True)):
                away = values @ root
                away -= shift
                np.einsum("nd,nd->n", away, away, out=logs[:, k])
        logs *= -0.5
        logs += self.offset
        return logs

    def completed(self, rows, resp):
        """Sums of first and second moments, with missing entries filled in."""
        n_components, dim = self.means.shape
        first = np.zeros((n_components, dim))
        second = np.zeros((n_components, dim, dim))
        for seen, index in rows.groups():
            *_, slope, covariance = _conditional(self._precisions, seen)
            hidden, r = np.flatnonzero(~seen), resp[index].T
            values = np.repeat(rows.values[None, index], n_components, axis=0)
            away = values[:, :, seen] - self.means[:, None, seen]
            values[:, :, hidden] = self.means[:, None, hidden] + away @ slope
            first += (r[:, None] @ values)[:, 0]
            second += (values * r[:, :, None]).swapaxes(1, 2) @ values
            weighted = r.sum(axis=1)[:, None, None] * covariance
            second[:, hidden[:, None], hidden] += weighted
        return first, second

    @property
    def _precisions(self):
        """One for each Gaussian, or one for all in an array of length one."""
        roots = self.roots.reshape(-1, *self.roots.shape[-2:])
        return roots @ roots.swapaxes(1, 2)


def _conditional(precisions, seen):
    """Of a row's missing part, for all Gaussians: root, log volume, slope and
    covariance."""
    hidden, seen = np.flatnonzero(~seen), np.flatnonzero(seen)
    lower = np.linalg.cholesky(precisions[:, hidden[:, None], hidden])
    half = np.linalg.solve(lower, precisions[:, hidden[:, None], seen])
    marginal = precisions[:, seen[:, None], seen] - half.swapaxes(1, 2) @ half
    inverse = np.linalg.inv(lower)
    volumes = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    log_volume = 0.5 * len(hidden) * LOG_2PI - volumes
    back = inverse.swapaxes(1, 2)
    slope = -half.swapaxes(1, 2) @ inverse
    return np.linalg.cholesky(marginal), log_volume, slope, back @ inverse


@dataclass(frozen=True)
class DiagonalGaussians:
    """Gaussians with independent coordinates; arrays are (n_components, dim)."""

    means: np.ndarray
    precisions: np.ndarray
    offset: np.ndarray

    def log_density(self, rows):
        """Log densities of what is observed, shape (n_rows, n_components)."""
        values = rows.values
        linear = self.precisions * self.means
        constant = self.offset - linear * self.means / 2.0
        logs = values @ linear.T
        logs -= (values * values) @ (self.precisions.T / 2.0)
        seen = rows.seen
        logs += constant.sum(axis=1) if seen is None else seen @ constant.T
        return logs


def log_densities_at_draws(means, precisions, rows):
    """Log densities (n_rows, n_draws, n_components), missing entries left out."""
    if rows.patterns is None:
        return _at_draws(means, np.linalg.cholesky(precisions), rows.values)
    logs = np.empty((len(rows), *means.shape[:2]))
    for seen, index in rows.groups():
        # With what is missing first, the last block of the root is the root of the
        # precision of what was seen. An inverse of an inverse may have no root.
        order, n_missing = np.argsort(seen, kind="stable"), np.sum(~seen)
        root = np.linalg.cholesky(precisions[..., order, :][..., order])
        roots = root[..., n_missing:, n_missing:]
        logs[index] = _at_draws(means[..., seen], roots, rows.values[index][:, seen])
    return logs


def _at_draws(means, roots, values):
    """Log densities of complete rows, with lower triangular roots of precisions."""
    dim, n_columns = values.shape[1], means.shape[0] * means.shape[1]
    # By coordinate of the whitened residual: columns are contiguous, and the roots
    # are lower triangular.
    columns = np.moveaxis(roots, (-2, -1), (0, 1)).reshape(dim, dim, n_columns)
    shifts = np.einsum("skd,skde->esk", means, roots).reshape(dim, n_columns)
    squares = np.zeros((len(values), n_columns))
    for e in range(dim):
        away = values[:, e:] @ columns[e:, e]
        away -= shifts[e]
        away *= away
        squares += away
    log_root = np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(axis=-1)
    squares = squares.reshape(len(values), *means.shape[:2])
    return log_root - 0.5 * (squares + dim * LOG_2PI)


_LOG_PI = np.log(np.pi)
_LOG_GAMMA = np.vectorize(lgamma, otypes=[float])


def _with_means(rows, means):
    """Rows with the means of each cluster where they are missing."""
    return np.where(rows.seen[:, None], rows.values[:, None], means)


def _log_kernel(squares, dof, dim):
    """Log density up to the log determinant of the scale; `dof` may be infinite."""
    finite = np.isfinite(dof)
    nu = np.where(finite, dof, 1.0)
    heavy = _LOG_GAMMA((nu + dim) / 2.0) - _LOG_GAMMA(nu / 2.0)
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
    """Elliptical Student-t distributions, scales (n_components, dim, dim)."""

    means: np.ndarray
    dof: np.ndarray
    scales: np.ndarray

    def log_density(self, rows):
        """Log densities of what is observed, shape (n_rows, n_components)."""
        if rows.patterns is None:
            return self._marginal(rows.values, slice(None))
        logs = np.empty((len(rows), len(self.means)))
        for seen, index in rows.groups():
            columns = np.flatnonzero(seen)
            logs[index] = self._marginal(rows.values[index], columns)
        return logs

    def sample(self, clusters, rng):
        """A row from each of the named distributions."""
        roots = np.linalg.cholesky(self.scales)[clusters]
        normal = rng.standard_normal((len(clusters), self.means.shape[1]))
        stretch = _stretch(self.dof[clusters], rng)[:, None]
        noise = np.einsum("nij,nj->ni", roots, normal) * stretch
        return self.means[clusters] + noise

    def filled(self, rows):
        """Rows with missing entries expected, (n_rows, n_components, dim)."""
        filled = _with_means(rows, self.means)
        for seen, index in rows.groups():
            known, hidden = np.flatnonzero(seen), np.flatnonzero(~seen)
            if not (known.size and hidden.size):
                continue
            for k, (mean, scale) in enumerate(
                zip(self.means, self.scales, strict=True)
            ):
                within, across = scale[known][:, known], scale[known][:, hidden]
                away = rows.values[index][:, known] - mean[known]
                shift = away @ np.linalg.solve(within, across)
                filled[index[:, None], k, hidden] += shift
        return filled

    def _marginal(self, values, columns):
        values = values[:, columns]
        logs = np.empty((len(values), len(self.means)))
        for k, dof in enumerate(self.dof):
            scale = self.scales[k][columns][:, columns]
            lower = np.linalg.cholesky(scale)
            away = (values - self.means[k, columns]).T
            squares = ((np.linalg.inv(lower) @ away) ** 2).sum(axis=0)
            log_volume = np.log(np.diag(lower)).sum()
            logs[:, k] = _log_kernel(squares, dof, len(lower)) - log_volume
        return logs


@dataclass(frozen=True)
class SeparateStudentTs:
    """Products of Student-t distributions; scales are squares (variances at inf)."""

    means: np.ndarray
    dof: np.ndarray
    scales: np.ndarray

    def log_density(self, rows):
        """Log densities of what is observed, shape (n_rows, n_components)."""
        seen = rows.seen
        logs = np.empty((len(rows), len(self.means)))
        for k, (mean, dof, scale) in enumerate(
            zip(self.means, self.dof, self.scales, strict=True)
        ):
            each = _log_kernel((rows.values - mean) ** 2 / scale, dof, 1)
            each -= 0.5 * np.log(scale)
            logs[:, k] = each.sum(axis=1) if seen is None else (each * seen).sum(axis=1)
        return logs

    def filled(self, rows):
        """Rows with missing entries expected, (n_rows, n_components, dim)."""
        return _with_means(rows, self.means)

    def sample(self, clusters, rng):
        """A row from each of the named distributions."""
        normal = rng.standard_normal((len(clusters), self.means.shape[1]))
        normal *= _stretch(self.dof[clusters], rng)
        return self.means[clusters] + np.sqrt(self.scales[clusters]) * normal


@dataclass(frozen=True)
class WeightedDensities:
    """Distributions of a row in every cluster, and log weights of the clusters."""

    densities: object
    log_weights: np.ndarray

    def log_density(self, rows):
        """Both together, shape (n_rows, n_components)."""
        return self.densities.log_density(rows) + self.log_weights


@dataclass(frozen=True)
class Rows:
    """Rows about the prior mean, zero where missing, and what is observed."""

    values: np.ndarray
    patterns: np.ndarray | None = None
    pattern: np.ndarray | None = None

    @classmethod
    def of(cls, X, center):
        """Rows of an array in which NaN is missing."""
        values = np.asarray(X, dtype=float) - center
        missing = np.isnan(values)
        if not missing.any():
            return cls(values)
        values[missing] = 0.0
        patterns, pattern = np.unique(~missing, axis=0, return_inverse=True)
        return cls(values, patterns, pattern.reshape(-1))

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        """Some of the rows, by a slice or an array of positions."""
        if self.patterns is None:
            return Rows(self.values[index])
        return Rows(self.values[index], self.patterns, self.pattern[index])

    @property
    def seen(self):
        """Whether each entry is observed, shape (n_rows, dim); None if all are."""
        return None if self.patterns is None else self.patterns[self.pattern]

    def groups(self):
        """Pairs of a pattern (dim,) and the positions of the rows that have it."""
        for code in np.unique(self.pattern):
            yield self.patterns[code], np.flatnonzero(self.pattern == code)
