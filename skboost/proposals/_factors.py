"""Components of a factorisation's posterior: annealed runs, or the residual ELBO."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit

from skboost._parallel import chunked_map
from skboost._random import BASE, SEARCH, generator
from skboost._solver import SMALLEST_TOL, ascend
from skboost.approximation import Mixture
from skboost.conjugate import (
    annealed_factors,
    factor_ascent,
    shaken_factors,
    turned_towards,
)
from skboost.families import Component, DiagonalGaussian
from skboost.modes import Modes
from skboost.objectives import ResidualGain, SingleELBO, joint_gains
from skboost.proposals._base import Proposer
from skboost.proposals._stochastic import StochasticSearch

# Weights at which a proposal's gain is looked at: explanations of a large matrix differ
# by many nats, so that a better one takes nearly all.
_WEIGHTS = (0.98, 0.5, 0.1, 0.01)
# A run of ascent has converged where a round gains less than that for each entry, or
# than that share of what matters; with the best gauge after every round it is close by
# then.
_ASCENT_TOL, _ASCENT_SHARE = 1e-6, 1e-2
# Below this share of the prior's scale softplus is rounding.
_SMALLEST_SCALE = 1e-6


class FactorProposer(Proposer):
    """What proposals of either kind share: many runs, of which the best is taken."""

    def initial(self, target, settings):
        """The run that ended best, and where the others ended."""
        run = partial(self.first_run, target, settings)
        found = chunked_map(run, list(range(settings.n_restarts)), settings.n_jobs)
        (_, best), *others = sorted(found, key=lambda item: -item[0])
        family = self.family_of(target)
        candidates = tuple(
            Component(family, self.aligned(target, params, best))
            for _, params in others
        )
        modes = Modes(candidates, (0.0,) * len(candidates))
        return Mixture.single(Component(family, best)), modes

    def propose(self, target, context, settings):
        """Of where new runs and those of the start ended, what gains most."""
        run = partial(self.next_run, target, context, settings)
        runs = chunked_map(run, list(range(settings.n_restarts)), settings.n_jobs)
        heaviest = context.mixture.heaviest.params
        rng, family = generator(settings.seed, context.iteration, BASE), target.family
        draws = family.base_draws(settings.n_draws, target.dim, rng)
        ends = (self.aligned(target, params, heaviest) for params in runs)
        found = [Component(family, params) for params in ends]
        found += context.mode_candidates
        gains = joint_gains(context, found, draws, _WEIGHTS).max(axis=1)
        return found[int(np.argmax(gains))]


def _smallest_tol(target):
    return max(_ASCENT_TOL * len(target.entries), SMALLEST_TOL)


@dataclass(frozen=True)
class AscentFactorProposer(FactorProposer):
    """Gaussians with full covariances for each row and column, by coordinate ascent.

    The first run begins anywhere; the others are annealed: every entry counts with a
    random weight, whose noise fades out. Later ones begin at the heaviest component or
    anywhere, in turn.
    """

    def first_run(self, target, settings, i):
        """Bound and parameters of where the i-th run ends."""
        rng = generator(settings.seed, 0, SEARCH, i)
        natural = target.model.start(rng)
        if i > 0:
            natural = annealed_factors(target, natural, rng, target.ledger.budget)
        return self._finished(target, natural, settings)

    def next_run(self, target, context, settings, i):
        """Parameters of where the i-th run of an iteration ends."""
        rng = generator(settings.seed, context.iteration, SEARCH, i)
        heaviest = int(context.mixture.weights.argmax())
        place = _PLACES[(context.iteration + i) % len(_PLACES)]
        base = target.family.natural(context.mixture.components[heaviest].params)
        natural = annealed_factors(target, place(target, base, rng), rng)
        return self._finished(target, natural, settings)[1]

    @staticmethod
    def _finished(target, natural, settings):
        tol = max(_smallest_tol(target), _ASCENT_SHARE * settings.tol)
        found = factor_ascent(target, natural, 500, tol, target.ledger.budget)
        return found.bound, target.family.params(found.natural)

    @staticmethod
    def aligned(target, params, base):
        """The same component, rotated towards another."""
        family = target.family
        pair = family.natural(params), family.natural(base)
        return family.params(turned_towards(target.model, *pair))


def _at_heaviest(target, base, rng):
    return base


def _anywhere(target, base, rng):
    return target.model.start(rng)


# Where annealed runs begin.
_PLACES = (_at_heaviest, _anywhere, shaken_factors)


@dataclass(frozen=True)
class ResidualFactorProposer(FactorProposer):
    """Diagonal Gaussians over all factors, by the oracle of Locatello et al. 2018.

    Every factor is independent of the others (section 5.3). A component begins
    anywhere and climbs the residual ELBO (equation 9) by steps of Adam. The
    expectation of ``ln p`` is exact; that of ``ln q`` is taken over draws that are
    new at every step. The residual ELBO has no maximum where the mixture has lighter
    tails than the target, as always here, so that the number of steps is part of the
    method. Components are not turned towards others. The objective holds the entropy
    weight, and whether the point of the largest joint gain on the way is proposed in
    place of the last one, as the authors do.
    """

    objective: object = ResidualGain()
    # As the authors climb, for want of a maximum.
    search: StochasticSearch = StochasticSearch(n_step_draws=None)

    kind = "diagonal Gaussian"
    seeks_gain = False
    family = DiagonalGaussian()

    def family_of(self, target):
        return self.family

    def first_run(self, target, settings, i):
        """ELBO and parameters of an ordinary variational fit from the i-th start."""
        rng = generator(settings.seed, 0, SEARCH, i)
        start = self._params(_sizes(target), self._start(target, rng))
        problem = SingleELBO(target, Component(self.family, start), None, True)
        tol, budget = _smallest_tol(target), target.ledger.budget
        x, value = ascend(problem, None, 200, tol, budget)
        return value, problem.unpack(x).params

    @staticmethod
    def aligned(target, params, base):
        """The component itself: turned it would not be diagonal."""
        return params

    def propose(self, target, context, settings):
        """The end of the best climb, judged as the objective says."""
        run = partial(self.climb, target, context, settings)
        runs = chunked_map(run, list(range(settings.n_restarts)), settings.n_jobs)
        found = [Component(self.family, params) for way in runs for params in way]
        rng = generator(settings.seed, context.iteration, BASE)
        draws = self.family.base_draws(settings.n_draws, target.dim, rng)
        values = []
        for component in found:
            problem = self.objective.judge(context, component, 0.5, draws)
            values.append(problem.value_and_gradient(problem.start)[0])
        return found[int(np.argmax(values))]

    def climb(self, target, context, settings, i):
        """Parameters at the end of the i-th climb; under early stopping on its way."""
        rng = generator(settings.seed, context.iteration, SEARCH, i)
        sizes, n_draws = _sizes(target), self.search.n_step_draws or settings.n_draws
        context = self.search.residual_of(context)

        def gradient(z):
            target.ledger.check()
            draws = rng.standard_normal((n_draws, target.dim))
            component = Component(self.family, self._params(sizes, z))
            problem = self.objective.problem(context, component, 0.5, draws)
            return self._pulled(z, problem.value_and_gradient(problem.start)[1])

        steps = self.search.ascend(gradient, self._start(target, rng))
        way = [self._params(sizes, z) for z in steps]
        return way if self.objective.early_stopping else way[-1:]

    @staticmethod
    def _start(target, rng):
        """A start, as the authors draw it."""
        return rng.standard_normal(2 * target.dim)

    def _params(self, sizes, z):
        """Of means, and of scales through softplus."""
        mean, scale = z.reshape(2, -1)
        scale = np.logaddexp(0.0, scale) + _SMALLEST_SCALE
        return self.family.from_moments(sizes * mean, (sizes * scale) ** 2)

    def _pulled(self, z, gradient):
        """A gradient in the family's moves, at none, as one in `z`."""
        _, scale = z.reshape(2, -1)
        positive = np.logaddexp(0.0, scale) + _SMALLEST_SCALE
        mean, log_scale = gradient.reshape(2, -1)
        log_scale = log_scale / self.family.log_scale_step
        return np.append(mean / positive, log_scale * expit(scale) / positive)


def _sizes(target):
    """In which means and scales are counted: the prior's where it is known."""
    model, sizes = target.model, []
    for own, n in zip(model.scales.values(), model.shape, strict=True):
        known = not own.factors
        variances = own.variance(None) if known else model.typical_variances
        sizes += [np.sqrt(variances)] * n
    sizes = np.concatenate(sizes)
    return np.append(sizes, np.ones(target.dim - len(sizes)))


# How components are proposed, by the names that users give.
FACTOR_PROPOSERS = {
    "coordinate_ascent": AscentFactorProposer,
    "residual": ResidualFactorProposer,
}


def factor_proposer(proposal, search=None):
    """The proposer of a name, or of an objective of the user."""
    if isinstance(proposal, ResidualGain):
        proposal.check()
        proposer = ResidualFactorProposer(proposal)
    else:
        proposer = FACTOR_PROPOSERS[proposal]()
    if search is None:
        return proposer
    if not isinstance(proposer, ResidualFactorProposer):
        raise ValueError(
            f"search needs proposal='residual' or a ResidualGain; got {proposal!r}. "
            "Pass one of these, or search=None."
        )
    search.check(proposer.family)
    if search.settings() != StochasticSearch().settings():
        raise ValueError(
            "StochasticSearch of a factorisation has no n_draws, refine, "
            f"stopping and max_components; got {search!r}. Leave them out."
        )
    return replace(proposer, search=search)
