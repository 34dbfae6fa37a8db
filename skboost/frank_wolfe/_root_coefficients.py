"""Coefficients of square roots of densities: Campbell and Li 2019, Algorithm 1."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

# Two nearly equal roots make the Gram matrix singular to rounding: a condition number
# of 1e12 is where it stops.
_RIDGE = 1e-12


def best_coefficients(gram, overlaps):
    """The non-negative unit combination of roots with the largest overlap.

    Maximises ``x @ overlaps`` subject to ``x @ gram @ x = 1`` and ``x >= 0``: the
    non-negative least squares problem ``|L^T x - L^-1 d|`` with ``gram = L L^T``.
    It equals the paper's program in ``beta`` and needs no inverse.

    Parameters
    ----------
    gram : ndarray of shape (K, K)
        Inner products of the roots.
    overlaps : ndarray of shape (K,)
        Inner products with the root of the target, on any common scale; one at
        least must be positive.

    Returns
    -------
    ndarray of shape (K,)
        Exact zeros for roots that do not help.
    """
    ridged = gram + _RIDGE * np.eye(len(gram))
    lower = cholesky(ridged, lower=True)
    scaled = overlaps / np.abs(overlaps).max()
    x, _ = nnls(lower.T, solve_triangular(lower, scaled, lower=True))
    return x / np.sqrt(x @ gram @ x)


def geodesic_step(overlap_old, overlap_new, between):
    """Coefficients of the old combination and a new root on their great circle.

    Campbell and Li 2019, equation 4: the unit combination of both with the largest
    overlap with the target.

    Parameters
    ----------
    overlap_old, overlap_new : float
        Inner products of both with the root of the target.
    between : float
        Their inner product with each other, below one.

    Returns
    -------
    old, new : float
        Not negative; ``old^2 + 2 between old new + new^2 = 1``.
    """
    table = np.array([[1.0, between], [between, 1.0]])
    old, new = best_coefficients(table, np.array([overlap_old, overlap_new]))
    return old, new
