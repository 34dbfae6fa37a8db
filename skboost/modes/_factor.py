"""Columns of a low-rank Gaussian, by curvature."""

import numpy as np

from skboost.families import Gaussian
from skboost.modes._curvature import wide_directions

# Columns that the first growth may add; later ones double the rank at most.
_FIRST_RANK = 8
_MAX_RANK = 128
# Draws at which curvature is averaged.
_N_POINTS = 8
# Flattest curvature that one step answers, and the least excess of a column: at zero
# its own gradient would vanish.
_FLATTEST, _LEAST_EXCESS = 1e-3, 1e-3


def add_columns(target, family, params, rank, tol, rng):
    """A Gaussian with further columns, where there is room and need for them.

    Parameters
    ----------
    target : Target
    family : Gaussian
        Diagonal or low rank.
    params : ndarray of shape (n_params,)
    rank, tol
        As in `fit_low_rank`.
    rng : numpy.random.Generator

    Returns
    -------
    family : Gaussian
        Of low rank.
    same : ndarray of shape (n_params,)
        The Gaussian as it was, with columns of zeros.
    params : ndarray of shape (n_params,)
        With the columns that curvature suggests.
    """
    mean, variance, factor = family.structure(params)
    if factor is None:
        factor = np.empty((mean.size, 0))
    now = factor.shape[1]
    n_free = min(_MAX_RANK if rank is None else rank, mean.size) - now
    if n_free == 0:
        return family, params, params
    if rank is None:
        n_free = min(n_free, max(now, _FIRST_RANK))
    eps = family.matched_draws(_N_POINTS, mean.size, rng)
    whitening = family.whitening(params)
    points = family.transport(params, eps)
    curvature, directions = wide_directions(target, whitening, points, n_free, rng)
    curvature = np.clip(curvature, _FLATTEST, 1.0 / (1.0 + _LEAST_EXCESS))
    if rank is None:
        # What a direction of a quadratic gains by the variance that is right for it.
        kept = 0.5 * (curvature - 1.0 - np.log(curvature)) > tol
        # A factor has a column, if only a short one.
        kept[0] |= now == 0
        curvature, directions = curvature[kept], directions[kept]
    columns = np.sqrt(1.0 / curvature - 1.0) * whitening.lift(directions).T
    same, more = (
        Gaussian.from_structure(mean, variance, np.hstack([factor, added]))
        for added in (0.0 * columns, columns)
    )
    return *same, more[1]


def with_factor(target, family, mean, variances):
    """The low-rank Gaussian of the family that curvature suggests at a mode.

    Parameters
    ----------
    target : Target
    family : Gaussian
        Of low rank, which is not open.
    mean : ndarray of shape (dim,)
    variances : ndarray of shape (dim,)
        One over the diagonal of the curvature.

    Returns
    -------
    ndarray of shape (n_params,)
    """
    diagonal, rng = Gaussian("diag"), np.random.default_rng(0)
    params = diagonal.from_moments(mean, variances)
    return add_columns(target, diagonal, params, family.rank, 0.0, rng)[2]
