"""Evenly spread points behind the base draws of every family."""

import numpy as np
from scipy.stats import qmc

# Sobol' points are multiples of 2**-30; half a cell keeps them off 0, where the
# inverse distribution function is infinite.
_HALF_CELL = 2.0**-31
# From here on some pairs of coordinates lie on a few stripes, whatever the scrambling.
_FIRST_STRIPES = 40


def open_unit_cube(n, dim, rng):
    """Scrambled Sobol' points in the open unit cube.

    Parameters
    ----------
    n : int
        Number of points. The first `n` of the next power of two are returned.
    dim : int
        Dimension. Above the largest one that SciPy's Sobol' sequence supports
        (21,201) the points are pseudo-random.
    rng : numpy.random.Generator
        Source of the scrambling; each call advances it.

    Returns
    -------
    ndarray of shape (n, dim)
    """
    if dim > qmc.Sobol.MAXDIM:
        return np.maximum(rng.random((n, dim)), _HALF_CELL)
    # An own generator per call: the points then depend on the state of `rng`
    # alone, not on how many children it has spawned before. SciPy before 1.15
    # knows the argument as `seed` only.
    scrambling = np.random.default_rng(rng.integers(2**63))
    points = qmc.Sobol(dim, seed=scrambling).random_base2((n - 1).bit_length())
    if dim > _FIRST_STRIPES:
        # Other pairs in every call: a search that fits the stripes of its draws would
        # meet the same ones, of random sign, in the draws that judge it.
        points = points[:, rng.permutation(dim)]
    return points[:n] + _HALF_CELL
