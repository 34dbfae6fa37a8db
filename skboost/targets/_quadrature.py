"""Expectations of smooth functions of one Gaussian variable, and interpolation."""

from functools import lru_cache
from math import ceil, log, sqrt

import numpy as np

# Step of a grid of ln|z|, on which functions are polynomials through the nearest nodes,
# and the share of the smallest scale below which they are those of zero.
_STEP, _ZERO = 0.06, 1e-8
_NEAREST = np.arange(-2, 4)


class LogGrid:
    """Coordinates z (n, dim) between nodes of ln|z|, for functions of z over scales."""

    def __init__(self, z, s):
        self.z = np.copysign(np.maximum(np.abs(z), _ZERO * s.min()), z)
        place = np.log(np.abs(self.z)) / _STEP
        left = np.floor(place).astype(int)
        first = left.min() + _NEAREST[0]
        steps = np.arange(first, left.max() + _NEAREST[-1] + 1)
        self.nodes = np.exp(_STEP * steps)[:, None]
        rows = len(steps) * np.arange(len(z))[:, None]
        self._flat = [left + k - first + rows for k in _NEAREST]
        self._weights = [
            np.prod([(place - left - j) / (k - j) for j in _NEAREST if j != k], axis=0)
            for k in _NEAREST
        ]

    def counts(self):
        """Weights (n, n_nodes) by which values at nodes add up to those of a row."""
        counts = np.zeros(len(self.z) * len(self.nodes))
        for flat, weight in zip(self._flat, self._weights, strict=True):
            counts += np.bincount(flat.ravel(), weight.ravel(), len(counts))
        return counts.reshape(len(self.z), -1)

    def at(self, values):
        """Values (n, n_nodes) of every row at its own coordinates, (n, dim)."""
        parts = zip(self._flat, self._weights, strict=True)
        return sum(weight * values.ravel()[flat] for flat, weight in parts)


def gaussian_expectation_1d(func, mean, sd, tol=1e-10, max_halvings=10):
    """E func(t) for t ~ N(mean, sd^2), `func` smooth, by a trapezoid rule.

    `func` maps points (n_nodes, n) to that shape or (n_outputs, n_nodes, n); the step
    is halved until changes are below `tol`, absolute, and relative above 1.
    """
    mean, sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)

    def weighted_sum(nodes):
        weights = np.exp(-0.5 * nodes**2)
        values = np.asarray(func(mean + nodes[:, None] * sd), dtype=float)
        return np.tensordot(weights, values, axes=(0, values.ndim - 2)), weights.sum()

    step, reach = 0.5, 9.0
    total, mass = weighted_sum(step * np.arange(-18, 19))
    estimate = total / mass
    for _ in range(max_halvings):
        middle = np.arange(-reach + 0.5 * step, reach, step)
        more, more_mass = weighted_sum(middle)
        total, mass, step = total + more, mass + more_mass, 0.5 * step
        previous, estimate = estimate, total / mass
        change = np.abs(estimate - previous) / np.maximum(1.0, np.abs(estimate))
        if np.max(change, initial=0.0) < tol:
            break
    return estimate


def normal_rule(width, tol=1e-10):
    """Nodes and weights of a fixed rule for E f(t), t ~ N(0, 1).

    The width is one over the half-width of the strip where f is analytic, 0 a point;
    the tolerance is relative to f there. Gauss-Hermite if narrow, else a trapezoid
    rule.
    """
    if width == 0.0:
        return np.zeros(1), np.ones(1)
    # Widths beyond which a rule no longer grows: its error does then.
    largest_width = 8.0
    width, digits = min(width, largest_width), -log(tol)
    # Gauss-Hermite converges as exp(-2 sqrt(n) / width), a trapezoid rule of step h
    # as exp(-2 pi / (h width)); beyond `reach` a normal variable has less than `tol`.
    few = ceil(0.4 * digits) - 1 + 4 * ceil(digits**2 / 16.0 * width**2)
    reach = sqrt(2.0 * digits) + 0.2
    step = min(3.84 / sqrt(digits), 6.22 / (digits * width))
    many = 2 * ceil(reach / step) + 1
    return _hermite(few) if few <= many else _trapezoid(many, reach)


@lru_cache(maxsize=64)
def _hermite(n):
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()


@lru_cache(maxsize=64)
def _trapezoid(n, reach):
    nodes = np.linspace(-reach, reach, n)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()
