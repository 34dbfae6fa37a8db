"""Marginals after reweighting: increasing maps of normal scores, fitted to draws."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

# Of coordinates in units of a component's scale, and the last score that is a number.
_KNOTS = np.linspace(-3.0, 3.0, 13)
_LAST = 8.0
# Of what it was, the mass between two knots at least.
_LEAST = 0.02


class ScoreMaps(NamedTuple):
    """Monotone cubic interpolation by knots (dim, n_knots) (Fritsch and Carlson
    1980)."""

    before: np.ndarray
    after: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, component, group, images):
        """From whitened images of draws and the masses that are added to each."""
        dim, centre, scale = component.dim, component.location(), component.scale()
        index = np.repeat(np.arange(dim), len(_KNOTS))
        at = (centre[:, None] + scale[:, None] * _KNOTS).ravel()
        cdf = component.marginal_cdf(index, at).reshape(dim, -1)
        added = np.zeros((dim, len(_KNOTS) + 1))
        for z, mass in images:
            u = (group.place(z) - centre) / scale
            bins = np.clip(np.ceil((u - _KNOTS[0]) / 0.5), 0, len(_KNOTS)).astype(int)
            for i in range(dim):
                added[i] += np.bincount(bins[:, i], mass, len(_KNOTS) + 1)
        mass = np.diff(cdf, axis=1, prepend=0.0, append=1.0)
        new = np.maximum(mass + added, _LEAST * mass)
        new /= new.sum(axis=1, keepdims=True)
        before, after = ndtri(cdf), _scores(new)
        return cls(before, after, _slopes(before, after))

    def at(self, component, index, x):
        """Scores of coordinates after, their slopes, and the scores before."""
        x = np.asarray(x, dtype=float)
        index = np.broadcast_to(index, x.shape)
        a = np.clip(_score(component, index, x), -_LAST, _LAST)
        tables = [table[index] for table in self]
        b = np.clip((a[:, None] > tables[0]).sum(axis=1) - 1, 0, len(_KNOTS) - 2)
        ends = [[t[np.arange(len(a)), b + k] for t in tables] for k in (0, 1)]
        (x0, y0, slope0), (x1, y1, slope1) = ends
        width, rise = x1 - x0, y1 - y0
        t = np.clip((a - x0) / width, 0.0, 1.0)
        p, q = width * slope0, width * slope1
        square, cube = 3.0 * rise - 2.0 * p - q, p + q - 2.0 * rise
        slope = (p + t * (2.0 * square + 3.0 * t * cube)) / width
        value = y0 + t * (p + t * (square + t * cube))
        return value + slope * (a - x0 - t * width), slope, a


def _score(component, index, x):
    """Normal scores; of the nearer end, where they keep their digits."""
    centre = component.location()[index]
    below = component.marginal_cdf(index, centre - np.abs(x - centre))
    return np.where(x < centre, 1.0, -1.0) * ndtri(below)


def _scores(mass):
    """Normal scores at the ends of bins."""
    below, above = mass.cumsum(axis=1), mass[:, ::-1].cumsum(axis=1)[:, ::-1]
    low = below[:, :-1]
    return np.where(low < 0.5, ndtri(np.minimum(low, 0.5)), -ndtri(above[:, 1:]))


def _slopes(x, y):
    """At knots: harmonic means of those beside them, so that nothing turns."""
    secant = np.diff(y, axis=1) / np.diff(x, axis=1)
    width = np.diff(x, axis=1)
    first, second = 2 * width[:, 1:] + width[:, :-1], width[:, 1:] + 2 * width[:, :-1]
    inner = (first + second) / (first / secant[:, :-1] + second / secant[:, 1:])
    return np.concatenate([secant[:, :1], inner, secant[:, -1:]], axis=1)
