"""Many small symmetric positive definite matrices at once, (..., q, q)."""

import numpy as np


def inverse_and_log_det(matrices):
    """Inverses and log determinants, by Gauss-Jordan steps over the q pivots.

    NumPy's own loop over matrices costs a microsecond each; these are vectorised, and
    positive definite ones need no exchange of rows.
    """
    inverse = np.array(matrices)
    q = inverse.shape[-1]
    log_det = np.zeros(inverse.shape[:-2])
    for k in range(q):
        pivot = inverse[..., k, k].copy()
        log_det += np.log(pivot)
        row = inverse[..., k, :] / pivot[..., None]
        row[..., k] = 1.0 / pivot
        column = inverse[..., :, k].copy()
        column[..., k] = 0.0
        inverse[..., :, k] = 0.0
        inverse[..., k, :] = 0.0
        inverse -= column[..., :, None] * row[..., None, :]
        inverse[..., k, :] = row
    return inverse, log_det


def cholesky(matrices):
    """Lower triangular factors."""
    q = matrices.shape[-1]
    root = np.zeros_like(matrices)
    for k in range(q):
        rest = matrices[..., k:, k] - np.einsum(
            "...ij,...j->...i", root[..., k:, :k], root[..., k, :k]
        )
        root[..., k:, k] = rest / np.sqrt(rest[..., :1])
    return root
