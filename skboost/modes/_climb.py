"""Ascent to modes: one climb, many at once, and the Gaussian near an end."""

from typing import NamedTuple

import numpy as np

from skboost._budget import BudgetSpent
from skboost._solver import climb
from skboost.families import Component, FullGaussian
from skboost.targets import LogDensityError

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


# --- the Gaussian near a mode of a dear density, from few evaluations, all kept


# Nats that the density falls by at the ends of differences, and how far off they may
# be: over such lengths a difference knows the curvature that matters.
_FALL, _LEAST_FALL, _MOST_FALL = 0.25, 0.02, 1.5
# Standard deviations at which the width of a direction is measured, and what a
# direction may be wider or narrower than its curvature says.
_REACH, _WIDEST, _NARROWEST = 1.5, 2.0, 0.2
# Variances below it are those of a pole.
_LEAST_VARIANCE = 1e-150
# How often directions are measured at most.
_MOST_LOOKS = 8
# Relative step of differences where there is no gradient.
_STEP = 1e-4


class Evaluations(NamedTuple):
    """Points (n, dim) at which a log density was evaluated; scores may be nan."""

    points: np.ndarray
    values: np.ndarray
    scores: np.ndarray

    @classmethod
    def at(cls, target, points, scored, strict=False):
        """Evaluate a target, with its gradient where it is `scored`."""
        points = np.array(points)
        if scored:
            return cls(points, *target.value_and_score(points, strict=strict))
        values = target.log_density(points, strict=strict)
        return cls(points, values, np.full(points.shape, np.nan))

    def and_more(self, *others):
        """These and others."""
        return Evaluations(*map(np.concatenate, zip(self, *others, strict=True)))


class LaplaceApproximation(NamedTuple):
    """A Gaussian near a mode, and what was evaluated to find it."""

    mean: np.ndarray
    covariance: np.ndarray
    evaluations: Evaluations

    @property
    def component(self):
        """The Gaussian as a component of a mixture."""
        family = FullGaussian()
        return Component(family, family.from_moments(self.mean, self.covariance))


def laplace(target, start, scored, unit=1.0):
    """Climb to a mode, and measure how wide it is.

    The curvature is that of differences over about half a standard deviation, and
    every principal direction is then measured once more at one and a half: one that
    falls more slowly than its curvature says, as the logarithm of a scale does on its
    left, is wider, twice at most. `unit` is the size of steps that the climb begins
    with, (dim,) or one for all. `LogDensityError` where the climb ends at a pole.
    """
    log = _Log(target, scored)
    # A climb ends where an iteration gains less than that many nats: a Gaussian near
    # the mode does as well as one at it.
    climb_tol = 1e-2
    mode = find_mode(log, start, unit, budget=target.ledger.budget, tol=climb_tol)
    # At a pole nothing is finite.
    with np.errstate(all="ignore"):
        precision, slope = _curvature(log, mode, unit)
        step = np.linalg.solve(precision, slope)
        # What the climb left, one standard deviation at most.
        step /= max(1.0, np.sqrt(abs(slope @ step)))
        mean, covariance = _measured(log, mode, step, precision)
    # Widths whose squares underflow leave nothing to tell draws apart by.
    apart = np.diagonal(covariance) > _LEAST_VARIANCE
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all() and apart.all()):
        raise LogDensityError(
            f"log_density has no mode that a climb from {start} ends at: near {mode} "
            "it is as steep as rounding. Give every parameter a proper prior, and "
            "scales one that keeps them from zero; integrate out what a scale is of; "
            "or pass surrogate=None."
        )
    return LaplaceApproximation(mean, covariance, log.evaluations())


class _Log:
    """A target that remembers what it was asked."""

    def __init__(self, target, scored):
        self.target, self.scored, self.known = target, scored, []

    def at(self, points):
        """Values and scores of a batch."""
        found = Evaluations.at(self.target, points, self.scored)
        self.known.append(found)
        return found

    def value_and_score(self, theta):
        """Value and gradient at one point (1, dim)."""
        if self.scored:
            return self.at(theta)[1:]
        x, step = theta[0], _STEP * np.maximum(1.0, np.abs(theta[0]))
        values = self.at(np.concatenate([theta, _around(x, np.diag(step))])).values
        ahead, behind = values[1:].reshape(2, -1)
        return values[:1], ((ahead - behind) / (2.0 * step))[None]

    def evaluations(self):
        return self.known[0].and_more(*self.known[1:])


def _around(x, steps):
    return np.concatenate([x + steps, x - steps])


def _curvature(log, mode, unit):
    """Negative Hessian and slope, by differences over which the density falls a bit."""
    dim, step = len(mode), 1e-2 * np.maximum(1.0, np.abs(mode))
    if np.ndim(unit):
        step = 0.5 * unit
    top = log.at(mode[None]).values[0]
    for _ in range(5):
        ends = log.at(_around(mode, np.diag(step)))
        fall = top - ends.values.reshape(2, dim).min(axis=0)
        if ((fall > _LEAST_FALL) & (fall < _MOST_FALL)).all():
            break
        factor = np.sqrt(_FALL / np.maximum(fall, 1e-12))
        step = step * np.clip(np.nan_to_num(factor, nan=0.1), 0.05, 30.0)
    if log.scored:
        ahead, behind = ends.scores.reshape(2, dim, dim)
        found = (behind - ahead) / (2.0 * step[:, None])
    else:
        found = _from_values(log, mode, step, top, ends.values.reshape(2, dim))
    values = ends.values.reshape(2, dim)
    slope = np.nan_to_num((values[0] - values[1]) / (2.0 * step))
    found = np.nan_to_num(0.5 * (found + found.T))
    # No direction is flatter than what falls _FALL / 4 within its step.
    diagonal = np.maximum(np.diag(found), 0.5 * _FALL / step**2)
    unit = np.sqrt(diagonal)
    values, axes = np.linalg.eigh(found / np.outer(unit, unit))
    values = np.maximum(values, 1e-7)
    return (axes * values) @ axes.T * np.outer(unit, unit), slope


def _from_values(log, mode, step, top, ends):
    """Negative Hessian from values on both diagonals of every pair of axes."""
    dim = len(mode)
    found = np.diag((2.0 * top - ends.sum(axis=0)) / step**2)
    first, second = np.triu_indices(dim, 1)
    if len(first):
        steps = np.diag(step)
        both = log.at(_around(mode, steps[first] + steps[second])).values
        mixed = both.reshape(2, -1).sum(axis=0) - 2.0 * top
        own = np.diag(found) * step**2
        cross = -0.5 * (mixed + own[first] + own[second]) / (step[first] * step[second])
        found[first, second] = found[second, first] = cross
    return found


def _measured(log, mode, step, precision):
    """Mean and covariance after a look along the principal directions.

    From the mode, or a step from it where the density is higher. Where a ridge bends,
    its tangent leaves it on both sides: what falls far more than its curvature says is
    measured again over a shorter length, several times.
    """
    mode = _higher(log, mode, mode + step)
    unit = 1.0 / np.sqrt(np.diag(precision))
    values, axes = np.linalg.eigh(precision * np.outer(unit, unit))
    scale = unit[:, None] * axes / np.sqrt(values)
    for _ in range(_MOST_LOOKS):
        ends = _around(mode, _REACH * scale.T)
        found = log.at(np.concatenate([mode[None], ends])).values
        fall = np.maximum(found[0] - found[1:].reshape(2, -1), 1e-12)
        sides = _REACH / np.sqrt(2.0 * fall)
        widest = np.maximum(sides.max(axis=0), 1e-6)
        leaves = widest < _NARROWEST
        if not leaves.any():
            break
        # What bends falls with the fourth power of a length.
        scale = scale * np.where(leaves, np.sqrt(widest), 1.0)
    # Of half a normal distribution on either side.
    ahead, behind = np.clip(sides, _NARROWEST, _WIDEST)
    shift = np.sqrt(2.0 / np.pi) * (ahead - behind)
    width = np.sqrt((1.0 - 2.0 / np.pi) * (ahead - behind) ** 2 + ahead * behind)
    factor = scale * width
    return _higher(log, mode, mode + scale @ shift, len(mode)), factor @ factor.T


def _higher(log, point, other, fall=0.0):
    """The other point, where the density falls by no more than so many nats there."""
    here, there = log.at(np.array([point, other])).values
    return other if there >= here - fall else point
