"""A Gaussian near a mode of a density that is dear, from few evaluations, all kept."""

from typing import NamedTuple

import numpy as np

from skboost.families import Component, FullGaussian
from skboost.modes._climb import find_mode
from skboost.targets import LogDensityError

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
