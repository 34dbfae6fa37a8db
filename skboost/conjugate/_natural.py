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
    """What must be positive for a natural parameter to lie in its domain.

    Attributes
    ----------
    scalars : tuple of ndarray of shape (\\*group)
        Affine functions of the natural parameter that must be positive.
    matrices : ndarray of shape (\\*group, q, q) or None
        Affine function of it that must be positive definite.
    reach : float, default=0.99
        How far noise may lead, of the way to the boundary (Paisley et al. leave this
        case open).
    """

    scalars: tuple
    matrices: np.ndarray | None = None
    reach: float = 0.99


def largest_step(start, end):
    """Largest fractions of the way from `start` to `end` inside the domain.

    Parameters
    ----------
    start, end : Cone
        Of the natural parameters at both ends; `start` lies inside.

    Returns
    -------
    ndarray of shape (\\*group)
        For each group on its own where it meets the boundary; above 1 if that is
        beyond the end, and infinite if there is none.
    """
    steps = [_to_zero(a, b) for a, b in zip(start.scalars, end.scalars, strict=True)]
    if start.matrices is not None:
        steps.append(_to_singular(start.matrices, end.matrices))
    return np.min(np.stack(steps), axis=0)


class NaturalStep(NamedTuple):
    """Where a natural-gradient step led.

    Attributes
    ----------
    natural : dict
    n_groups : int
        Parts of the factors, such as one cluster's, that noise was added to.
    n_shrunk : int
        Of which the noise had to be shrunk to stay in the domain.
    """

    natural: dict
    n_groups: int = 0
    n_shrunk: int = 0


def natural_step(factors, natural, statistics, rate, noise=None):
    """Move every factor in turn towards the optimum that the statistics give.

    ``lambda <- (1 - rate) lambda + rate (eta + statistics + kappa noise)`` (Paisley et
    al., Algorithm 1), where kappa, at most 1, is the ``reach`` of the factor's
    `Cone` times what leads to the boundary of the factor's domain, for each of its
    groups.

    Parameters
    ----------
    factors : tuple
        In the order of the updates. Each has a ``name``, ``target(natural,
        statistics)``, affine in the statistics, and ``cone(own)``, affine too.
    natural : dict
        Natural parameters by the factors' names.
    statistics : dict
        Estimated sums over all rows.
    rate : float
        In (0, 1]; 1 with exact statistics is coordinate ascent.
    noise : dict, default=None
        Like `statistics`, of mean zero.

    Returns
    -------
    NaturalStep
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


def inside(factor, start, end):
    """The point nearest to `end`, on the line from `start`, that is well inside.

    Returns
    -------
    own : dict
        Natural parameter of the factor.
    kappa : ndarray of shape (\\*group)
        How far each group went: the ``reach`` of its cone times as far as it could,
        at most 1.
    """
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
    """Sums over rows under the optimal local factors.

    Attributes
    ----------
    statistics : tuple of dict
        Weighted sums of expected sufficient statistics, one for each weighting.
    evidence : float
        The local part of the bound for the first weighting, nats; for a mixture
        ``sum_n w_n ln sum_k exp(E[ln pi_k] + E[ln N(x_n | k)])``.
    local : object, default=None
        The local factors themselves, where they are found by an iteration; None where
        they have a closed form.
    """

    statistics: tuple
    evidence: float
    local: object = None


class Optimum(NamedTuple):
    """Where coordinate ascent ended.

    Attributes
    ----------
    natural : dict
    bound : float
        ELBO, with the local factors where there are any; nats.
    """

    natural: dict
    bound: float


def fading_noise(n_steps, size, rng, budget=None):
    """Random weights of mean one whose noise fades out, for one step after another.

    The tuneable annealing of Paisley et al. (Algorithm 1 with the whole data as the
    batch). Theirs are normal and have to be projected; these are Gamma of the same
    variance and never leave the space of natural parameters.

    Parameters
    ----------
    n_steps, size : int
    rng : numpy.random.Generator
    budget : Budget, default=None
        Once nothing is left of it there are no more steps.

    Yields
    ------
    ndarray of shape (size,)
    """
    for variance in 4.0 * np.linspace(1.0, 0.0, n_steps, endpoint=False):
        if budget is not None and budget.cuts():
            return
        yield variance * rng.standard_gamma(1.0 / variance, size)
