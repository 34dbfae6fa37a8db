"""Ascent from many points at once: one batch of evaluations per tick."""

from typing import NamedTuple

import numpy as np

from skboost._budget import BudgetSpent
from skboost._solver import climb

# Pairs of steps and changes of score that the quasi-Newton directions remember.
_MEMORY = 8
# Evaluations of each climb at most, and nats: a climb ends where several steps in a row
# are predicted to gain less.
_MAX_TICKS, _TOL = 200, 1e-5
# After so many the last eighth of the climbs is given up: batches of a few points take
# most of the time, and another climb leads to the same mode sooner.
_MANY_TICKS = 60
# Steps over the one before, at most: along a tail there is next to no curvature, and a
# climb that leaps leaves its basin.
_GROWTH = 2.0


class Ends(NamedTuple):
    """Where climbs ended: points (n, dim), and log joints (n,) there, nats.

    The height is -inf where the start lay outside the support. One is settled where a
    further step is predicted to gain next to nothing: where the density still rises, as
    it does for ever where it is unbounded, there is no mode.
    """

    points: np.ndarray
    heights: np.ndarray
    settled: np.ndarray


def find_mode(target, start, unit=1.0, origin=0.0, budget=None, tol=None, **options):
    """The highest point (dim,) of one quasi-Newton climb on the log joint.

    Steps are in coordinates ``(theta - origin) / unit``; `unit` is a number or of shape
    (dim,). The climb ends where an iteration gains less than `tol` nats or where the
    budget does; without either, by SciPy's own rule and its `options`.
    """

    def value_and_gradient(z):
        value, score = target.value_and_score((origin + unit * z)[None])
        return value[0], unit * score[0]

    options = {"maxiter": 200} | options
    z, _ = climb(
        value_and_gradient, (start - origin) / unit, options, tol, budget=budget
    )
    return origin + unit * z


def climb_all(target, starts, scale, max_evaluations=np.inf, arrived=None):
    """Local maxima of the log joint, by limited-memory BFGS on all rows at once.

    Every tick evaluates one point of each climb that is still under way, so that the
    target sees batches; a refused step is cut back in the next tick. First steps are
    `scale` long, of shape (dim,). `arrived` says which points (n, dim) are at a mode
    that is known, so that their climbs end there.
    """
    starts, budget = np.array(starts, dtype=float), target.ledger.budget
    n_evaluations = len(starts)
    there = np.zeros(len(starts), dtype=bool)
    # Where a density, a step or a slope overflows the climb is refused, or stops.
    with np.errstate(all="ignore"):
        height, score = target.value_and_score(starts)
        climbs = _Climbs(starts, height, score * scale, scale)
        for tick in range(_MAX_TICKS):
            rows = climbs.under_way()
            straggle = tick > _MANY_TICKS and len(rows) <= len(starts) // 8
            if (
                not len(rows)
                or straggle
                or n_evaluations >= max_evaluations
                or budget.cuts()
            ):
                break
            points = climbs.trial(rows)
            n_evaluations += len(rows)
            try:
                height, score = target.value_and_score(points)
            except BudgetSpent:
                break
            climbs.update(rows, points, height, score * scale)
            if arrived is not None:
                there[rows] = arrived(climbs.x[rows])
                climbs.stopped |= there
        # A step that is predicted to gain less no longer leads to another place.
        settled = there | (climbs.predicted_gain() < 1e-2)
        return Ends(climbs.x, climbs.height, settled)


class _Climbs:
    """State of all climbs; scores and steps are in units of `scale`."""

    def __init__(self, x, height, score, scale):
        n, dim = x.shape
        self.x, self.height, self.score, self.scale = x, height, score, scale
        self.steps = np.zeros((_MEMORY, n, dim))
        self.changes = np.zeros((_MEMORY, n, dim))
        # One over step @ change, zero where a slot is empty.
        self.inverse = np.zeros((_MEMORY, n))
        self.stride = np.ones(n)
        self.length = np.ones(n)
        self.refused = np.zeros(n, dtype=int)
        self.n_small = np.zeros(n, dtype=int)
        self.stopped = ~np.isfinite(height)
        self.direction = np.zeros((n, dim))
        self._aim(np.flatnonzero(~self.stopped))

    def predicted_gain(self):
        """Nats that the next step of each climb would gain by its own model."""
        predicted_gain = 0.5 * (self.score * self.direction).sum(axis=1)
        return np.where(np.isfinite(self.height), predicted_gain, np.inf)

    def under_way(self):
        """Rows that go on; once a tick, since it counts small predicted gains."""
        self.n_small = np.where(self.predicted_gain() < _TOL, self.n_small + 1, 0)
        # One small predicted gain may be that of a model that has not seen the flattest
        # direction yet; four in a row end a climb.
        return np.flatnonzero(~self.stopped & (self.n_small < 4))

    def trial(self, rows):
        """Where the next steps of some climbs lead."""
        move = self.length[rows, None] * self.direction[rows]
        return self.x[rows] + self.scale * move

    def update(self, rows, points, height, score):
        """The outcome of a trial: taken, or cut back."""
        move = self.length[rows, None] * self.direction[rows]
        rise = (self.score[rows] * move).sum(axis=1)
        # Armijo's sufficient increase.
        good = np.isfinite(height) & (height - self.height[rows] >= 1e-4 * rise)
        back, taken = rows[~good], rows[good]
        self.length[back] *= 0.25
        self.refused[back] += 1
        # After so many in a row a climb is stuck: at a wall, or at rounding.
        self.stopped[back] |= self.refused[back] > 25
        self._remember(taken, move[good], self.score[taken] - score[good])
        self.x[taken], self.height[taken] = points[good], height[good]
        self.score[taken] = score[good]
        self.refused[taken] = 0
        self._aim(taken)

    def _remember(self, rows, step, change):
        curvature = (step * change).sum(axis=1)
        size = np.sqrt((step**2).sum(axis=1) * (change**2).sum(axis=1))
        concave = curvature > 1e-8 * size
        kept, lost = rows[concave], rows[~concave]
        for memory, new in ((self.steps, step), (self.changes, change)):
            memory[:-1, kept] = memory[1:, kept]
            memory[-1, kept] = new[concave]
        self.inverse[:-1, kept] = self.inverse[1:, kept]
        self.inverse[-1, kept] = 1.0 / curvature[concave]
        self.inverse[:, lost] = 0.0
        # Along a convex stretch, a heavy tail, no curvature tells how far to go.
        self.stride[lost] = 4.0 * np.sqrt((step[~concave] ** 2).sum(axis=1))

    def _aim(self, rows):
        """Directions of the next steps: the two-loop recursion on every row."""
        steps, changes = self.steps[:, rows], self.changes[:, rows]
        inverse = self.inverse[:, rows]
        slopes = np.zeros((_MEMORY, len(rows)))
        aim = self.score[rows].copy()
        for k in range(_MEMORY - 1, -1, -1):
            slopes[k] = inverse[k] * (steps[k] * aim).sum(axis=1)
            aim -= slopes[k, :, None] * changes[k]
        norm = np.sqrt((aim**2).sum(axis=1))
        square = inverse[-1] * (changes[-1] ** 2).sum(axis=1)
        size = np.where(inverse[-1] > 0, 1.0 / square, self.stride[rows] / norm)
        aim *= size[:, None]
        for k in range(_MEMORY):
            slope = inverse[k] * (changes[k] * aim).sum(axis=1)
            aim += (slopes[k] - slope)[:, None] * steps[k]
        length = np.sqrt((aim**2).sum(axis=1))
        longest = _GROWTH * np.sqrt((steps[-1] ** 2).sum(axis=1))
        long = (inverse[-1] > 0) & (length > longest)
        aim[long] *= (longest[long] / length[long])[:, None]
        # A score of exactly zero has no direction, and nothing to gain.
        aim[~np.isfinite(aim).all(axis=1)] = 0.0
        self.direction[rows] = aim
        self.length[rows] = 1.0
