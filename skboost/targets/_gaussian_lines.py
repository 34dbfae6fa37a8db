"""Gaussians that differ little from each other, and so share products with all rows.

A full covariance costs ``n dim^2`` operations for its predictors' variances. Copies of
one component that were moved or rescaled have the same ones up to a factor; one that
was stretched along a line adds a square: both cost ``n dim``.
"""

from typing import NamedTuple

import numpy as np

from skboost.targets._gaussian_predictors import predictor_pairs

# Relative difference of factors that are one up to rounding.
_ROUNDING = 1e-12


class SharedShapes(NamedTuple):
    """Several Gaussians, of which some have covariances that are multiples.

    Attributes
    ----------
    shapes : list of (variance, factor)
        Those that are told apart.
    members : list of (mean, shape, scale)
        Every Gaussian: which shape it has, and by what its covariance is multiplied.
    """

    shapes: list
    members: list

    @classmethod
    def of(cls, structures):
        """Of (mean, variance, factor), as `GLMTarget.expected_log_density` has them."""
        shapes, members = [], []
        for mean, *shape in structures:
            shape = (*shape, None, None)[:2]
            ratios = [_ratio(shape, known) for known in shapes]
            same = [k for k, ratio in enumerate(ratios) if ratio is not None]
            if same:
                members.append((mean, same[0], ratios[same[0]] ** 2))
            else:
                members.append((mean, len(shapes), 1.0))
                shapes.append(shape)
        return cls(shapes, members)

    @property
    def dim(self):
        """Number of parameters."""
        return len(self.members[0][0])


def _ratio(shape, known):
    """By what one factor is a multiple of another; None where it is not."""
    (variance, factor), (other_variance, other) = shape, known
    if not (variance is None and other_variance is None):
        return None
    if factor is None or other is None or factor.shape != other.shape:
        return None
    largest = np.unravel_index(np.abs(other).argmax(), other.shape)
    ratio = factor[largest] / other[largest] if other[largest] else 0.0
    same = np.abs(factor - ratio * other) <= _ROUNDING * np.abs(factor)
    return ratio if same.all() else None


class Line(NamedTuple):
    """N(mean, scale (S + stretch u u^T)) with a covariance S that stays as it is.

    Attributes
    ----------
    mean : array (dim,)
    scale, stretch : float
    direction : array (dim,)
        u.
    """

    mean: np.ndarray
    scale: float
    stretch: float
    direction: np.ndarray


class LinePredictors:
    """Means and covariances of the linear predictors of every row under a `Line`.

    Parameters
    ----------
    block : Block
    n_outputs : int
    base : array (n_pairs, n_rows)
        Covariances of the predictors under N(0, S).
    line : Line

    Attributes
    ----------
    mean : array (n_outputs, n_rows)
    covariance : array (n_pairs, n_rows)
    """

    def __init__(self, block, n_outputs, base, line):
        self._block, self._line = block, line
        self._pairs = predictor_pairs(n_outputs)
        # One by one: products with two columns cost more than two with one.
        self.mean = np.stack(
            [block.predict(m) for m in line.mean.reshape(n_outputs, -1)]
        )
        self._along = [block.apply(u) for u in line.direction.reshape(n_outputs, -1)]
        self._squares = np.stack(
            [self._along[k] * self._along[m] for k, m in self._pairs]
        )
        self._inner = base + line.stretch * self._squares
        for pair, (k, m) in enumerate(self._pairs):
            if k == m:
                # A stretch near -1 leaves rounding of either sign.
                np.maximum(self._inner[pair], 0.0, out=self._inner[pair])
        self.covariance = line.scale * self._inner

    def pull(self, slope, bend):
        """Slopes in mean, scale, stretch, direction; see `GaussianPredictors.pull`."""
        line = self._line
        twice = np.array([1.0 if k == m else 2.0 for k, m in self._pairs])
        slopes = (-0.5 * twice)[:, None] * bend
        along = [np.zeros_like(each) for each in self._along]
        for pair, (k, m) in enumerate(self._pairs):
            along[k] += slopes[pair] * self._along[m]
            along[m] += slopes[pair] * self._along[k]
        factor = line.scale * line.stretch
        return (
            np.concatenate([self._block.pull(each) for each in slope]),
            np.sum(slopes * self._inner),
            line.scale * np.sum(slopes * self._squares),
            np.concatenate([self._block.pull(factor * each) for each in along]),
        )
