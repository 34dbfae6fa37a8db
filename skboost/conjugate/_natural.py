"""Natural parameters as trees of arrays, and the cones they must stay in.

A natural parameter, and a sum of sufficient statistics, is a dict of arrays (or of
such dicts). All that inference needs of them is linear: `combine`. The domain of every
factor is a product of half-lines and cones of positive definite matrices, so how far
one may walk along a line is an eigenvalue: `largest_step`.
"""

from typing import NamedTuple

import numpy as np


def combine(a, first, b, second):
    """``a * first + b * second`` for trees of arrays of one structure."""
    if isinstance(first, dict):
        return {key: combine(a, first[key], b, second[key]) for key in first}
    return a * first + b * second


class Cone(NamedTuple):
    """What must be positive for a natural parameter to lie in its domain.

    Attributes
    ----------
    scalars : tuple of ndarray of shape (\\*group)
        Affine functions of the natural parameter that must be positive.
    matrices : ndarray of shape (\\*group, q, q) or None
        Affine function of it that must be positive definite.
    """

    scalars: tuple
    matrices: np.ndarray | None = None


def largest_step(start, end):
    """Largest fractions of the way from `start` to `end` inside the domain.

    Parameters
    ----------
    start, end : Cone
        Of the natural parameters at both ends; `start` lies inside.

    Returns
    -------
    ndarray of shape (\\*group)
        In [0, 1]: the supremum of the fractions that stay inside, for each group on
        its own, or 1.
    """
    steps = [_to_zero(a, b) for a, b in zip(start.scalars, end.scalars, strict=True)]
    if start.matrices is not None:
        steps.append(_to_singular(start.matrices, end.matrices))
    return np.minimum(np.min(np.stack(steps), axis=0), 1.0)


def _to_zero(a, b):
    """Where the line from a > 0 to b first meets zero; infinity if it never does."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    falls = b < a
    return np.where(falls, a / np.where(falls, a - b, 1.0), np.inf)


def _to_singular(a, b):
    """The same for matrices: a + t (b - a) = L (I + t E) L', a = L L'."""
    inverse = np.linalg.inv(np.linalg.cholesky(a))
    moved = inverse @ (b - a) @ np.swapaxes(inverse, -1, -2)
    lowest = np.linalg.eigvalsh((moved + np.swapaxes(moved, -1, -2)) / 2.0)[..., 0]
    return np.where(lowest < 0.0, -1.0 / np.where(lowest < 0.0, lowest, -1.0), np.inf)
