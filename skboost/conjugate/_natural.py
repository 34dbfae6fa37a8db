"""Natural parameters as trees of arrays, steps along them, and where they must stay.

A natural parameter, and a sum of sufficient statistics, is a dict of arrays (or of
such dicts; or, for statistics, of anything that has sums and multiples). All that
inference needs of them is linear: `combine`. The domain of every factor is a product of
half-lines and cones of positive definite matrices, so how far one may walk along a line
is an eigenvalue: `largest_step`.
"""

from typing import NamedTuple

import numpy as np


def combine(a, first, b, second):
    """``a * first + b * second`` for trees of arrays of one structure."""
    if isinstance(first, dict):
        return {key: combine(a, first[key], b, second[key]) for key in first}
    return a * first + b * second


def scaled(a, tree):
    """``a * tree`` for a tree of arrays."""
    if isinstance(tree, dict):
        return {key: scaled(a, value) for key, value in tree.items()}
    return a * tree


class Cone(NamedTuple):
    """What must be positive where a natural parameter lies in its domain."""

    # Affine functions of it for each group, numbers and matrices (*group, q, q).
    scalars: tuple
    matrices: np.ndarray | None = None
    # How far noise may lead, of the way to the boundary (Paisley et al. leave this
    # case open).
    reach: float = 0.99


def largest_step(start, end):
    """How far each group (*group) may go from `start` to `end` in the domain; inf
    without end."""
    steps = [_to_zero(a, b) for a, b in zip(start.scalars, end.scalars, strict=True)]
    if start.matrices is not None:
        steps.append(_to_singular(start.matrices, end.matrices))
    return np.min(np.stack(steps), axis=0)


class NaturalStep(NamedTuple):
    """Where a natural-gradient step led, and the groups whose noise was shrunk."""

    natural: dict
    n_groups: int = 0
    n_shrunk: int = 0


def natural_step(factors, natural, statistics, rate, noise=None):
    """Move every factor in turn: ``lambda <- (1 - rate) lambda + rate (eta + statistics
    + kappa noise)``.

    Paisley et al., Algorithm 1; kappa, at most 1, is the ``reach`` of the factor's
    `Cone` times what leads to the boundary of its domain. A rate of 1 with exact
    statistics is coordinate ascent.
    """
    natural, n_groups, n_shrunk = dict(natural), 0, 0
    noisy = None if noise is None else combine(1.0, statistics, 1.0, noise)
    for factor in factors:
        target = factor.target(natural, statistics)
        if noisy is not None:
            shaken = factor.target(natural, noisy)
            target, kappa = inside(factor, target, shaken)
            n_groups, n_shrunk = n_groups + kappa.size, n_shrunk + np.sum(kappa < 1.0)
        natural[factor.name] = combine(1.0 - rate, natural[factor.name], rate, target)
    return NaturalStep(natural, n_groups, int(n_shrunk))


def prior_of(factor, natural):
    """Natural parameter of a factor's prior, which may depend on other factors."""
    given = getattr(factor, "prior_given", None)
    return factor.prior if given is None else given(natural)


def inside(factor, start, end):
    """The point nearest to `end` on the way that is well inside, and the share
    (*group) of it."""
    cone = factor.cone(start)
    kappa = np.minimum(cone.reach * largest_step(cone, factor.cone(end)), 1.0)
    return {key: _between(start[key], end[key], kappa) for key in start}, kappa


def _between(start, end, kappa):
    kappa = kappa.reshape(kappa.shape + (1,) * (np.ndim(start) - kappa.ndim))
    # Exactly the end where nothing is in the way.
    return np.where(kappa < 1.0, start + kappa * (end - start), end)


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
    # The inverse of a subnormal number is no number: there the boundary is nowhere.
    falls = lowest < -np.finfo(float).tiny
    return np.where(falls, -1.0 / np.where(falls, lowest, -1.0), np.inf)


class Expectation(NamedTuple):
    """Sums over rows under the optimal local factors, one for each weighting."""

    statistics: tuple
    # Of a mixture ``sum_n w_n ln sum_k exp(E[ln pi_k] + E[ln N(x_n | k)])``, nats.
    evidence: float
    # Local factors that are found by an iteration; None where they have a closed form.
    local: object = None


class Optimum(NamedTuple):
    """Where coordinate ascent ended, its ELBO in nats, and hyperparameters there."""

    natural: dict
    bound: float
    prior: object = None


def fading_noise(n_steps, size, rng, budget=None):
    """Random weights of mean one, step by step, whose noise fades out."""
    # Normal weights, as published, have to be projected; Gamma weights of the same
    # variance never leave the space of natural parameters.
    for variance in 4.0 * np.linspace(1.0, 0.0, n_steps, endpoint=False):
        if budget is not None and budget.cuts():
            return
        yield variance * rng.standard_gamma(1.0 / variance, size)
