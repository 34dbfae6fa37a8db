"""Proposals for a conjugate mixture posterior: modes, and laws of many widths."""

from functools import partial

import numpy as np

from skboost._parallel import chunked_map
from skboost._random import SEARCH, generator
from skboost.boosting._conjugate_ascent import (
    INITS,
    aligned,
    annealed,
    ascend,
    responsibilities_of,
    split_and_merge,
    start,
    widened,
)
from skboost.boosting._conjugate_family import Stream
from skboost.boosting._greedy import start_values
from skboost.posterior import finite

# Iterations of a scouting run, and of one to convergence (nats per iteration).
_SCOUT_ITER, _MAX_ITER, _TOL = 30, 500, 1e-3
# Scouting runs for the first component, and for every other, by restarts asked for.
_N_SCOUTS, _N_RUNS = 5, 2
# Draws per law when laws are ranked, and when the best of them are ranked again.
_N_RANK, _N_AGAIN = 48, 256
_POWERS = (0.0, 0.5, 1.0, 1.5)
# Laws of other widths, and laws at draws, that a step tries.
_N_WIDTHS, _N_POINTS = 10, 8
# Bounds closer than this (nats) are one mode.
_SAME = 1e-2


def find_modes(target, init, n_restarts, seed, n_jobs):
    """Distinct ends of coordinate ascent, the best bound first, labels aligned.

    Parameters
    ----------
    target : ConjugateTarget
    init : str
        Of the first start; the others go through all ways to start.
    n_restarts, seed : int
    n_jobs : int or None

    Returns
    -------
    list of Mode
    """
    scout = partial(_scout, target, init, seed)
    scouted = chunked_map(scout, list(range(_N_SCOUTS * n_restarts)), n_jobs)
    scouted = _distinct(scouted)[:n_restarts]
    finish = partial(_finish, target)
    return _aligned_modes(target.model, chunked_map(finish, scouted, n_jobs))


def _scout(target, init, seed, i):
    rng = generator(seed, 0, SEARCH, i)
    chosen = init if i == 0 else INITS[i % len(INITS)]
    natural = start(target, chosen, rng, scaled=i > 0)
    if chosen == "random" or i >= len(INITS):
        natural = annealed(target, natural, rng)
    return ascend(target, natural, _SCOUT_ITER, _TOL)


def _finish(target, mode):
    return ascend(target, mode.natural, _MAX_ITER, _TOL)


def _distinct(modes):
    """Modes by falling bound, those with the same bound once."""
    found = []
    for mode in sorted(modes, key=lambda mode: -mode.bound):
        if not found or found[-1].bound - mode.bound > _SAME:
            found.append(mode)
    return found


def _aligned_modes(model, modes):
    best, *others = _distinct(modes)
    return [best] + [
        mode._replace(natural=aligned(model, mode.natural, best.natural))
        for mode in others
    ]


def first_component(target, modes, rng):
    """Of the modes in several widths the one with the largest ELBO, and the rest.

    The ELBO here has the assignments summed out: it is larger than the bound of
    coordinate ascent, and need not have its order.

    Returns
    -------
    ndarray of shape (n_params,)
        The law.
    tuple of ndarray
        All modes as they are, as leads.
    """
    family = target.family
    laws = [
        family.params(widened(target, mode.natural, power))
        for mode in modes
        for power in _POWERS
    ]
    best = np.argsort(-_elbos(target, laws, _N_RANK, rng), kind="stable")[:4]
    again = _elbos(target, [laws[k] for k in best], _N_AGAIN, rng)
    leads = tuple(family.params(mode.natural) for mode in modes)
    return laws[best[int(np.argmax(again))]], leads


def _elbos(target, laws, n, rng):
    values = []
    for params in laws:
        theta = target.family.transport(params, Stream(n, rng))
        log_joint = finite(target.log_density(theta))
        values.append(log_joint.mean() + target.family.entropy(params))
    return np.array(values)


def propose(residual, pool, n_restarts, seed, n_jobs):
    """The law found that gains most beside the mixture so far.

    Parameters
    ----------
    residual : Residual
    pool : PooledDraws
        Of the mixture's components.
    n_restarts : int
        Laws that are ranked twice; twice as many runs of coordinate ascent begin at new
        places.
    seed : int
    n_jobs : int or None

    Returns
    -------
    ndarray of shape (n_params,)
    """
    target, t = residual.target, residual.iteration
    rng = generator(seed, t, SEARCH)
    laws = [
        *residual.leads,
        *_other_widths(residual, rng),
        *_at_draws(residual, pool, rng),
    ]
    run = partial(_run, residual, seed)
    modes = chunked_map(run, list(range(_N_RUNS * n_restarts)), n_jobs)
    for natural in modes:
        laws += [target.family.params(widened(target, natural, p)) for p in _POWERS]
    best = np.argsort(-_gains(residual, laws, _N_RANK, rng), kind="stable")
    best = best[: max(n_restarts, 2)]
    again = _gains(residual, [laws[k] for k in best], _N_AGAIN, rng)
    return laws[best[int(np.argmax(again))]]


def _gains(residual, laws, n, rng):
    """Gain in ELBO of every law at its best share, nats."""
    family = residual.target.family
    return start_values(residual, family, laws, Stream(n, rng)).max(axis=1)


def _bases(residual):
    """Natural parameters of the heaviest components and of the leads."""
    mixture, family = residual.rest.mixture, residual.target.family
    heavy = np.argsort(-mixture.weights, kind="stable")[:3]
    return [family.natural(mixture.components[k][1]) for k in heavy]


def _other_widths(residual, rng):
    target, bases = residual.target, _bases(residual)
    laws = []
    for i in range(_N_WIDTHS):
        power = rng.uniform(0.0, 2.0)
        factor = np.exp(0.3 * rng.standard_normal(target.model.n_components))
        natural = widened(target, bases[i % len(bases)], power, factor)
        laws.append(target.family.params(natural))
    return laws


def _at_draws(residual, pool, rng):
    """Laws one step of coordinate ascent from draws that the mixture underrates."""
    target, laws = residual.target, []
    # Half the power of the importance weights: some draws, not the heaviest alone.
    log_ratio = 0.5 * (finite(pool.log_joint) - pool.log_proposal)
    chance = np.exp(log_ratio - log_ratio.max())
    for i in rng.choice(len(chance), _N_POINTS, p=chance / chance.sum()):
        resp = responsibilities_of(target, pool.theta[i])
        natural = target.model.start(target.rows, resp * target.weight[:, None])
        power = rng.uniform(0.5, 1.5)
        laws.append(target.family.params(widened(target, natural, power, resp=resp)))
    return laws


def _run(residual, seed, i):
    """Aligned end of a run of coordinate ascent from a new place."""
    target = residual.target
    rng = generator(seed, residual.iteration, SEARCH, i)
    bases = _bases(residual)
    base = bases[i % len(bases)]
    place = _PLACES[i % len(_PLACES)]
    mode = ascend(target, place(target, base, rng), _SCOUT_ITER, _TOL)
    return aligned(target.model, mode.natural, bases[0])


def _anew(target, base, rng):
    natural = start(target, INITS[int(rng.integers(len(INITS)))], rng, scaled=True)
    return annealed(target, natural, rng)


# Where runs begin: cut and joined clusters, noise around a component, anew.
_PLACES = (split_and_merge, annealed, _anew)
