"""Group effects given coefficients and scales, and their small matrices.

Symmetric positive definite matrices of many groups, (q, q, ...), are inverted and
factorised at once. Their axes come first: NumPy then runs over long rows of many
matrices in place of the two or three entries of each.
"""

from typing import NamedTuple

import numpy as np


class Conditional(NamedTuple):
    """Means (q, ...) of group effects, triangular factors (q, q, ...) of covariances,
    and cumulants along their axes where effects are not Gaussian.
    """

    mean: np.ndarray
    root: np.ndarray
    skewness: np.ndarray | None = None
    kurtosis: np.ndarray | None = None

    def both(self, normal):
        """Effects of standard normal numbers and of their negatives, (2, ...).

        Where effects are not Gaussian, by the expansion of Cornish and Fisher 1938,
        which gets the first four cumulants right to leading order.
        """
        t = np.stack([normal, -normal])
        if self.skewness is not None:
            t = (
                t
                + self.skewness * (t**2 - 1.0) / 6.0
                + self.kurtosis * (t**3 - 3.0 * t) / 24.0
                - self.skewness**2 * (2.0 * t**3 - 5.0 * t) / 36.0
            )
        return self.mean + np.einsum("qr...,ar...->aq...", self.root, t)


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
