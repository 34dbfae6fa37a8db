"""Components of a conjugate mixture posterior: local optima, at many widths."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from skboost._math import log_sum_exp
from skboost._parallel import chunked_map
from skboost._random import BASE, SEARCH, generator
from skboost.approximation import Mixture, finite
from skboost.conjugate import (
    INITS,
    DrawStream,
    aligned,
    annealed,
    coordinate_ascent,
    responsibilities_of,
    split_and_merge,
    start,
    with_louis_widths,
)
from skboost.families import Component
from skboost.modes import Modes
from skboost.objectives import START_WEIGHTS, joint_gains
from skboost.proposals._base import Proposer

# Shares of a limited time after which the first component's search ends and its optima
# are no longer compared: drawing from the best and the report need the rest.
_SEARCH_SHARE, _RANK_SHARE = 0.4, 0.6
# Share of the mass at which an optimum that the mixture lacks is worth an iteration.
_LEAST_MISSED = 0.05
# Optima are one where that share of the rows is in the same clusters.
_AGREE = 0.97
# Nats below the best bound at which an optimum has no mass that matters.
_HOPELESS = 10.0


@dataclass(frozen=True)
class ConjugateProposer(Proposer):
    """Proposes distributions of one conjugate model's parameters.

    Every proposal starts where the mixture lacks most, near the mixture or not, and
    priors are proper: there are no further modes to look for, and nothing grows
    without end.

    The first start is made as `init_params` says, or is given by natural parameters.
    """

    init_params: str = "kmeans"
    first: dict | None = None

    def initial(self, target, settings):
        """The widths of a local optimum with the largest ELBO, and all optima."""
        found = local_optima(target, self.init_params, settings, self.first)
        rng = generator(settings.seed, 0, BASE)
        best, candidates = first_distribution(target, found, rng)
        # Runs of coordinate ascent end where climbs would, with a bound for a mass.
        modes = Modes(candidates, tuple(mode.bound for mode in found))
        return Mixture.single(best), modes

    def lacks(self, target, mixture, modes):
        """Whether an optimum whose share of the mass matters has no component."""
        mass = np.array(modes.mass)
        shares = np.exp(mass - log_sum_exp(mass[None]))
        return any(
            share > _LEAST_MISSED
            and not any(_same_clusters(target, mode, one) for one in mixture.components)
            for share, mode in zip(shares, modes.components, strict=True)
        )

    def propose(self, target, context, settings):
        """The distribution found that gains most beside the mixture so far."""
        t, seed = context.iteration, settings.seed
        rng = generator(seed, t, SEARCH)
        found = [
            *context.mode_candidates,
            *_other_widths(context, rng),
            *_at_draws(context, rng),
        ]
        run = partial(_run, context, settings)
        runs = list(range(2 * settings.n_restarts))
        known = [_bound(target, mode) for mode in context.mode_candidates]
        for mode in _worth_a_look(chunked_map(run, runs, settings.n_jobs), known):
            natural = aligned(target.model, mode.natural, _bases(context)[0])
            found += _all_widths(target, natural)
        values = partial(_gains, context, START_WEIGHTS, rng)
        return _best(found, values, max(settings.n_restarts, 2))


def local_optima(target, init, settings, first=None):
    """Distinct ends of coordinate ascent, the best bound first, labels aligned.

    The first start is made as `init` says, or is given; the others go through all ways.
    """
    n, n_jobs = settings.n_restarts, settings.n_jobs
    budget = target.ledger.budget.part(_SEARCH_SHARE)
    short = partial(_short_run, target, init, settings.seed, first, budget)
    searched = chunked_map(short, list(range(3 * n)), n_jobs)
    searched = [mode for mode in searched if mode is not None]
    finish = partial(_ascended, target, budget=budget, n_iter=500)
    starts = [mode.natural for mode in _distinct(searched)[:n]]
    best, *others = _distinct(chunked_map(finish, starts, n_jobs))
    return [best] + [
        mode._replace(natural=aligned(target.model, mode.natural, best.natural))
        for mode in others
    ]


def _short_run(target, init, seed, first, budget, i):
    """A local optimum, nearly; None where there is no time for more than the first."""
    rng = generator(seed, 0, SEARCH, i)
    if i > 0 and budget.cuts():
        return None
    if i == 0 and first is not None:
        return _ascended(target, first, budget)
    chosen = init if i == 0 else INITS[i % len(INITS)]
    natural = start(target, chosen, rng, scaled=i > 0)
    if chosen == "random" or i >= len(INITS):
        natural = annealed(target, natural, rng, budget)
    return _ascended(target, natural, budget)


def _ascended(target, natural, budget=None, n_iter=30):
    """Where rounds of coordinate ascent end; a round has to gain a thousandth."""
    return coordinate_ascent(target, natural, n_iter, 1e-3, budget)


def _best(found, values, n_best):
    """Of all that was found the best: by a few draws, then the first by many."""
    first = np.argsort(-values(found, 48), kind="stable")[:n_best]
    again = values([found[k] for k in first], 256)
    return found[first[int(np.argmax(again))]]


def _distinct(modes):
    """Modes by falling bound, those with the same bound once."""
    found = []
    for mode in sorted(modes, key=lambda mode: -mode.bound):
        # Bounds closer than a hundredth of a nat are one mode.
        if not found or found[-1].bound - mode.bound > 1e-2:
            found.append(mode)
    return found


def first_distribution(target, modes, rng):
    """Of the modes in several widths the one with the largest ELBO, and the rest.

    The ELBO here has the assignments summed out: it is larger than the bound of
    coordinate ascent, and need not have its order.
    """
    budget, found = target.ledger.budget.part(_RANK_SHARE), []
    for mode in modes:
        if not (found and budget.cuts()):
            found += _all_widths(target, mode.natural)
    candidates = tuple(_member(target, mode.natural) for mode in modes)
    return _best(found, partial(_elbos, target, budget, rng), 2), candidates


def _member(target, natural):
    return Component(target.family, target.family.params(natural))


def _all_widths(target, natural):
    """One optimum at several widths, by powers of Louis' correction."""
    return [
        _member(target, with_louis_widths(target, natural, power))
        for power in (0.0, 0.5, 1.0, 1.5)
    ]


def _elbos(target, budget, rng, found, n):
    """ELBO of every distribution from draws; -inf once the budget is spent."""
    values = np.full(len(found), -np.inf)
    for k, component in enumerate(found):
        if budget.cuts():
            break
        theta = component.draws(component.base_draws(n, rng))
        log_joint = finite(target.log_density(theta))
        values[k] = log_joint.mean() + component.entropy()
    return values


def _gains(context, weights, rng, found, n):
    """Gain in ELBO of every distribution at its best weight, nats."""
    gains = joint_gains(context, found, DrawStream(n, rng), weights)
    return gains.max(axis=1)


def _bases(context):
    """Natural parameters of the heaviest components."""
    mixture, family = context.mixture, context.target.family
    heavy = np.argsort(-mixture.weights, kind="stable")[:3]
    return [family.natural(mixture.components[k].params) for k in heavy]


def _other_widths(context, rng, n=4):
    target, bases = context.target, _bases(context)
    found = []
    for i in range(n):
        power = rng.uniform(0.0, 2.0)
        factor = np.exp(0.3 * rng.standard_normal(target.model.n_components))
        natural = with_louis_widths(target, bases[i % len(bases)], power, factor)
        found.append(_member(target, natural))
    return found


def _at_draws(context, rng, n=4):
    """One step of coordinate ascent from draws that the mixture underrates."""
    target, pool, found = context.target, context.pool, []
    # Half the power of the importance weights: some draws, not the heaviest alone.
    log_ratio = 0.5 * (finite(pool.log_joint) - pool.log_proposal)
    chance = np.exp(log_ratio - log_ratio.max())
    for i in rng.choice(len(chance), n, p=chance / chance.sum()):
        resp = responsibilities_of(target, pool.theta[i])
        natural = target.model.start(target.rows, resp * target.weight[:, None])
        power = rng.uniform(0.5, 1.5)
        natural = with_louis_widths(target, natural, power, resp=resp)
        found.append(_member(target, natural))
    return found


def _bound(target, component):
    """The bound of coordinate ascent at a component."""
    natural = target.family.natural(component.params)
    return target.model.elbo(natural, target.expect(natural).evidence)


def _worth_a_look(modes, known):
    """Distinct modes that are not known and whose mass can matter beside the best."""
    best = max([*known, *(mode.bound for mode in modes)])
    return [
        mode
        for mode in _distinct(modes)
        if best - mode.bound < _HOPELESS
        and all(abs(mode.bound - bound) > 1e-2 for bound in known)
    ]


def _same_clusters(target, one, other):
    """Whether two distributions put nearly all rows in the same clusters."""
    labels = [
        target.model.responsibilities(target.family.natural(each.params), target.rows)
        for each in (one, other)
    ]
    first, second = (resp.argmax(axis=1) for resp in labels)
    return target.weight @ (first == second) > _AGREE * target.weight.sum()


def _run(context, settings, i):
    """End of a run of coordinate ascent from a new place."""
    target = context.target
    rng = generator(settings.seed, context.iteration, SEARCH, i)
    bases = _bases(context)
    base = bases[i % len(bases)]
    place = _PLACES[i % len(_PLACES)]
    return _ascended(target, place(target, base, rng))


def _elsewhere(target, base, rng):
    natural = start(target, INITS[int(rng.integers(len(INITS)))], rng, scaled=True)
    return annealed(target, natural, rng)


# Where runs begin: cut and joined clusters, noise around a component, elsewhere.
_PLACES = (split_and_merge, annealed, _elsewhere)
