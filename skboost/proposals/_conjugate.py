"""Components of a conjugate mixture posterior: local optima, at many widths."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from skboost._math import log_sum_exp
from skboost._parallel import chunked_map
from skboost._random import SEARCH, generator
from skboost.approximation import Mixture, finite
from skboost.conjugate import (
    DrawStream,
    aligned,
    coordinate_ascent,
    explanations,
    responsibilities_of,
    split_and_merge,
    with_louis_widths,
)
from skboost.families import Component
from skboost.modes import Modes
from skboost.objectives import START_WEIGHTS, joint_gains
from skboost.proposals._base import Proposer

# Share of a limited time after which the first search ends: drawing from what it found
# and the report need the rest.
_SEARCH_SHARE = 0.5
# Draws that rank proposals.
_N_RANK = 96
# Nats below the best bound at which an optimum has no mass that matters.
_HOPELESS = 10.0


@dataclass(frozen=True)
class ConjugateProposer(Proposer):
    """Proposes distributions of one conjugate model's parameters.

    Every proposal starts where the mixture lacks most, near the mixture or not, and
    priors are proper: there are no further modes to look for, and nothing grows
    without end.

    The first start is made as `init_params` says, or is given by natural parameters.
    What was `found` before need not be looked for. Of several the `most` probable are
    what a run begins with; None is all.
    """

    init_params: str = "kmeans"
    first: dict | None = None
    found: tuple = ()
    most: int | None = None
    complete = (
        "Converged: every optimum that starts found and that has mass is a component. "
        "Set tol to a number to add components for what clusters' overlap leaves."
    )

    def initial(self, target, settings):
        """A component for every explanation, as wide as Louis' formula says."""
        found = self.found or explanations(
            target,
            self.init_params,
            settings.seed,
            settings.n_restarts * (2 + target.model.n_components),
            self.first,
            target.ledger.budget.part(_SEARCH_SHARE),
        )
        # The most probable comes first.
        found = found[: self.most]
        # Runs of coordinate ascent end where climbs would, with a bound for a mass.
        bounds = np.array([mode.bound for mode in found])
        modes = tuple(_member(target, mode.natural) for mode in found)
        members = tuple(
            _member(target, with_louis_widths(target, mode.natural, 1.0, mode.prior))
            for mode in found
        )
        weights = np.exp(bounds - log_sum_exp(bounds[None]))
        return Mixture(members, weights), Modes(modes, tuple(bounds))

    def propose(self, target, context, settings):
        """The distribution found that gains most beside the mixture so far."""
        t, seed = context.iteration, settings.seed
        rng = generator(seed, t, SEARCH)
        found = [*context.mode_candidates, *_at_draws(context, rng)]
        run = partial(_run, context, settings)
        runs = list(range(2 * settings.n_restarts))
        candidates = [target.family.natural(m.params) for m in context.mode_candidates]
        known = [_ascended(target, own, 1).bound for own in candidates]
        for mode in _worth_a_look(chunked_map(run, runs, settings.n_jobs), known):
            natural = aligned(target, mode.natural, _bases(context)[0])
            found += _all_widths(target, natural)
        gains = joint_gains(context, found, DrawStream(_N_RANK, rng), START_WEIGHTS)
        return found[int(gains.max(axis=1).argmax())]


def _ascended(target, natural, n_iter=30):
    """Where rounds of coordinate ascent end; a round has to gain a thousandth."""
    return coordinate_ascent(target, natural, n_iter, 1e-3)


def _member(target, natural):
    return Component(target.family, target.family.params(natural))


def _all_widths(target, natural):
    """One optimum at several widths, by powers of Louis' correction."""
    return [
        _member(target, with_louis_widths(target, natural, power))
        for power in (0.0, 0.5, 1.0, 1.5)
    ]


def _bases(context):
    """Natural parameters of the heaviest components."""
    mixture, family = context.mixture, context.target.family
    heavy = np.argsort(-mixture.weights, kind="stable")[:3]
    return [family.natural(mixture.components[k].params) for k in heavy]


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


def _worth_a_look(modes, known):
    """Distinct modes that are not known and whose mass can matter beside the best."""
    found, known = [], list(known)
    for mode in sorted(modes, key=lambda mode: -mode.bound):
        hopeless = max([mode.bound, *known]) - mode.bound > _HOPELESS
        # Bounds closer than a hundredth of a nat are one mode.
        if not hopeless and all(abs(mode.bound - bound) > 1e-2 for bound in known):
            found.append(mode)
            known.append(mode.bound)
    return found


def _run(context, settings, i):
    """End of a run of coordinate ascent after clusters were cut and joined."""
    target, bases = context.target, _bases(context)
    rng = generator(settings.seed, context.iteration, SEARCH, i)
    return _ascended(target, split_and_merge(target, bases[i % len(bases)], rng))
