"""Group effects given coefficients and scales, and their small matrices.

Symmetric positive definite matrices of many groups, (q, q, ...), are inverted and
factorised at once. Their axes come first: NumPy then runs over long rows of many
matrices in place of the two or three entries of each.
"""

from typing import NamedTuple

import numpy as np

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
