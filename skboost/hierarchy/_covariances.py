"""Covariances of group effects: triangular factors, and gradients in what makes them.

Effects of a factor are u = L v with standard normal v and L = diag(sigma) C, where C is
the identity or, where they are correlated, the triangular factor of their correlation
matrix. Levels are the log scales of all factors, then the coordinates of correlations,
factor by factor: inverse hyperbolic tangents of partial correlations, and twice that of
the one of two effects, which is the coordinate of the interval (-1, 1). By Fisher's
identity the gradient of a log likelihood in L is L^-T M, with M the sum over groups of
E[v v'] - I.

Symmetric positive definite matrices of many groups, (q, q, ...), are inverted and
factorised at once. Their axes come first: NumPy then runs over long rows of many
matrices in place of the two or three entries of each.
"""

from typing import NamedTuple

import numpy as np

from skboost.targets import bounded_exp
from skboost.transforms import Correlation


class Covariances:
    """Of factors with so many effects each, correlated or not."""

    def __init__(self, sizes, correlated):
        self.sizes, self.correlated = tuple(sizes), tuple(map(bool, correlated))
        self.any_correlated = any(self.correlated)
        self.n_scales = sum(self.sizes)
        # Of every factor the places of its scales and of its correlations.
        self.places, scale, further = [], 0, self.n_scales
        for q, one in zip(self.sizes, self.correlated, strict=True):
            more = q * (q - 1) // 2 if one else 0
            self.places.append(
                (slice(scale, scale + q), slice(further, further + more))
            )
            scale, further = scale + q, further + more
        self.n_levels = further

    @classmethod
    def of(cls, factors):
        """Those of factors of rows."""
        return cls([f.n_effects for f in factors], [f.correlated for f in factors])

    def correlation_roots(self, levels):
        """C (n_draws, q, q) of correlated factors and None of others."""
        return [
            Correlation.root(self._partial(levels, place)) if one else None
            for (_, place), one in zip(self.places, self.correlated, strict=True)
        ]

    @staticmethod
    def _partial(levels, place):
        """Inverse hyperbolic tangents of the partial correlations of a factor."""
        return levels[:, place] * (0.5 if place.stop - place.start == 1 else 1.0)

    def correlations(self, levels):
        """What is below the diagonals of correlation matrices, (n_draws, ...)."""
        parts = [np.empty((len(levels), 0))]
        for _, place in self.places:
            if place.stop > place.start:
                parts.append(Correlation().forward(self._partial(levels, place)))
        return np.hstack(parts)

    def roots(self, levels):
        """L (q, q, n_draws) of every factor."""
        scales, out = bounded_exp(levels[:, : self.n_scales].T), []
        for (place, _), root in zip(
            self.places, self.correlation_roots(levels), strict=True
        ):
            sized = scales[place]
            if root is None:
                root = np.eye(len(sized))[None]
            out.append(sized[:, None] * np.moveaxis(root, 0, 2))
        return out

    def score(self, levels, squares):
        """Gradients (n_draws, n_levels) from M (q, q, n_draws) of every factor."""
        out = np.empty((len(levels), self.n_levels))
        parts = zip(self.places, self.correlation_roots(levels), squares, strict=True)
        for (scales, further), root, square in parts:
            if root is None:
                out[:, scales] = np.einsum("qqs->sq", square)
                continue
            # L^-T M, where the scales of L cancel.
            slope = np.moveaxis(_solved(np.moveaxis(root, 0, 2), square), 2, 0)
            out[:, scales] = np.einsum("skr,skr->sk", slope, root)
            slope = Correlation.pull_root(self._partial(levels, further), slope)
            out[:, further] = self._partial(slope, slice(0, slope.shape[1]))
        return out


def _solved(root, table):
    """Triangular factors (q, q, n), transposed, solved for tables (q, r, n).

    Row by row over all draws: LAPACK is called for each of these small systems.
    """
    out = np.array(table)
    for k in reversed(range(len(root))):
        out[k] -= np.einsum("jn,jrn->rn", root[k + 1 :, k], out[k + 1 :])
        out[k] /= root[k, k]
    return out


# See `Quadratic`.
_FARTHEST = 3.0


class Conditional(NamedTuple):
    """Means (q, ...) of group effects, triangular factors (q, q, ...) of covariances,
    and cumulants along their axes where effects are not Gaussian.
    """

    mean: np.ndarray
    root: np.ndarray
    skewness: np.ndarray | None = None
    kurtosis: np.ndarray | None = None

    def of_groups(self, kind):
        """Those of groups of some kinds, which are the last axis but one."""
        given = (part if part is None else part[..., kind, :] for part in self)
        return Conditional(*given)

    def both(self, normal):
        """Effects of standard normal numbers and of their negatives, (2, ...).

        Where effects are not Gaussian, by the expansion of Cornish and Fisher 1938,
        which gets the first four cumulants right to leading order.
        """
        t = np.stack([normal, -normal])
        if self.skewness is not None:
            square = t * t
            cube = square * t
            t = (
                t
                + self.skewness * (square - 1.0) / 6.0
                + self.kurtosis * (cube - 3.0 * t) / 24.0
                - self.skewness**2 * (2.0 * cube - 5.0 * t) / 36.0
            )
        return self.mean + np.einsum("qr...,ar...->aq...", self.root, t)


class Quadratic:
    """Least squares of values (n, ...) at points (n, d) by quadratics in these.

    Points further away than `_FARTHEST` standard deviations are held there: what is
    cubic is not known.
    """

    def __init__(self, points, values):
        self.centre, size = points.mean(axis=0), points.std(axis=0)
        self.size = np.where(size > 0.0, size, 1.0)
        self.trend = np.linalg.lstsq(self._terms(points), values, rcond=None)[0]

    @staticmethod
    def n_terms(d):
        """Terms of a quadratic in d coordinates."""
        return (d + 1) * (d + 2) // 2

    def _terms(self, points):
        """1, the whitened coordinates and their products."""
        z = (points - self.centre) / self.size
        length = np.sqrt((z**2).sum(axis=1, keepdims=True))
        z = z * np.minimum(1.0, _FARTHEST * np.sqrt(z.shape[1]) / (length + 1e-300))
        first, second = np.triu_indices(z.shape[1])
        return np.column_stack([np.ones(len(z)), z, z[:, first] * z[:, second]])

    def __call__(self, points):
        return self._terms(points) @ self.trend


def inverse_and_log_det(matrices):
    """Inverses and log determinants, by Gauss-Jordan steps over the q pivots.

    Positive definite matrices need no exchange of rows. Where rounding has left too few
    digits of a pivot, the determinant is infinite and the inverse lacks that axis.
    """
    inverse = np.array(matrices)
    log_det = np.zeros(inverse.shape[2:])
    for k in range(len(inverse)):
        resolved = inverse[k, k] > 1e-11 * matrices[k, k]
        pivot = np.where(resolved, inverse[k, k], np.inf)
        log_det += np.log(pivot)
        row = inverse[k] / pivot
        row[k] = 1.0 / pivot
        column = inverse[:, k].copy()
        column[k] = 0.0
        inverse[:, k] = 0.0
        inverse[k] = 0.0
        inverse -= column[:, None] * row[None]
        inverse[k] = row
    return inverse, log_det


def cholesky(matrices):
    """Lower triangular factors, where rounding has not left a pivot positive, too."""
    root, tiny = np.zeros_like(matrices), np.finfo(float).tiny
    for k in range(len(matrices)):
        rest = matrices[k:, k] - np.einsum(
            "ij...,j...->i...", root[k:, :k], root[k, :k]
        )
        least = np.finfo(float).eps * matrices[k, k] + tiny
        root[k:, k] = rest / np.sqrt(np.maximum(rest[0], least))
    return root
