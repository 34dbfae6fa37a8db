"""Many small symmetric positive definite matrices at once, (q, q, ...).

The axes of the matrices come first: NumPy then runs over long rows of many matrices
in place of the two or three entries of each.
"""

import numpy as np


def inverse_and_log_det(matrices):
    """Inverses and log determinants, by Gauss-Jordan steps over the q pivots.

    Positive definite matrices need no exchange of rows.
    """
    inverse = np.array(matrices)
    log_det = np.zeros(inverse.shape[2:])
    for k in range(len(inverse)):
        pivot = inverse[k, k].copy()
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
    """Lower triangular factors."""
    root = np.zeros_like(matrices)
    for k in range(len(matrices)):
        rest = matrices[k:, k] - np.einsum(
            "ij...,j...->i...", root[k:, :k], root[k, :k]
        )
        root[k:, k] = rest / np.sqrt(rest[0])
    return root
