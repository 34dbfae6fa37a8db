"""Components of a factorisation's posterior: optima of annealed runs, or gradients."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from skboost._parallel import chunked_map
from skboost._random import BASE, SEARCH, generator
from skboost._solver import SMALLEST_TOL, ascend
from skboost.approximation import Mixture
from skboost.conjugate import (
    SIDES,
    annealed_factors,
    factor_ascent,
    shaken_factors,
    turned_towards,
)
from skboost.families import Gaussian
from skboost.modes import Modes
from skboost.objectives import ResidualGain, SingleELBO, joint_gains
from skboost.proposals._base import Proposer

# Weights at which a proposal's gain is looked at: explanations of a large matrix differ
# by many nats, so that a better one takes nearly all.
_WEIGHTS = (0.98, 0.5, 0.1, 0.01)
# A run of ascent has converged where a round gains less than that for each entry, or
# than that share of what matters; with the best gauge after every round it is close by
# then.
_ASCENT_TOL, _ASCENT_SHARE = 1e-6, 1e-2
# Variance with which a search by gradients starts, in units of the factors' own.
_NARROW = 0.01


@dataclass(frozen=True)
class FactorProposer(Proposer):
    """What proposals of either kind share: many runs, of which the best is taken.

    Parameters
    ----------
    target : FactorTarget
    """

    target: object

    # No probe looks for modes that no run has ended at.
    modes_not_searched = False

    def initial(self, settings):
        """The run that ended best, and where the others ended."""
        run = partial(self.first_run, settings)
        found = chunked_map(run, list(range(settings.n_restarts)), settings.n_jobs)
        best, *others = sorted(found, key=lambda item: -item[0])
        candidates = tuple(self.aligned(p, best[1]) for _, p in others)
        modes = Modes(candidates, (0.0,) * len(candidates), (1,) * len(candidates))
        return Mixture.single(self.family, best[1]), modes

    def propose(self, context, settings):
        """Of where new runs and those of the start ended, what gains most."""
        run = partial(self.next_run, context, settings)
        runs = chunked_map(run, list(range(settings.n_restarts)), settings.n_jobs)
        heaviest = context.mixture.components[int(context.mixture.weights.argmax())][1]
        found = [self.aligned(params, heaviest) for params in runs]
        found += context.mode_candidates
        rng = generator(settings.seed, context.iteration, BASE)
        draws = self.family.base_draws(settings.n_draws, context.target.dim, rng)
        gains = joint_gains(context, self.family, found, draws, _WEIGHTS).max(axis=1)
        return self.family, found[int(np.argmax(gains))]


@dataclass(frozen=True)
class AscentFactorProposer(FactorProposer):
    """Gaussians with full covariances for each row and column, by coordinate ascent.

    The first run begins anywhere; the others are annealed: every entry counts with a
    random weight, whose noise fades out. Later ones begin at the heaviest component or
    anywhere, in turn.

    Parameters
    ----------
    target : FactorTarget
    """

    @property
    def family(self):
        """The family of the components."""
        return self.target.family

    def first_run(self, settings, i):
        """Bound and parameters of where the i-th run ends."""
        rng = generator(settings.seed, 0, SEARCH, i)
        natural = self.target.model.start(rng)
        if i > 0:
            natural = annealed_factors(self.target, natural, rng, settings.budget)
        return self._finished(natural, settings)

    def next_run(self, context, settings, i):
        """Parameters of where the i-th run of an iteration ends."""
        rng = generator(settings.seed, context.iteration, SEARCH, i)
        heaviest = int(context.mixture.weights.argmax())
        place = _PLACES[(context.iteration + i) % len(_PLACES)]
        base = self.family.natural(context.mixture.components[heaviest][1])
        natural = annealed_factors(context.target, place(self.target, base, rng), rng)
        return self._finished(natural, settings)[1]

    def _finished(self, natural, settings):
        n_entries, share = len(self.target.entries), _ASCENT_SHARE * settings.tol
        tol = max(share, SMALLEST_TOL, _ASCENT_TOL * n_entries)
        budget = settings.budget
        found = factor_ascent(self.target, natural, 500, tol, budget)
        return found.bound, self.family.params(found.natural)

    def aligned(self, params, base):
        """The same component, rotated towards another."""
        family = self.family
        pair = family.natural(params), family.natural(base)
        return family.params(turned_towards(self.target.model, *pair))


def _at_heaviest(target, base, rng):
    return base


def _anywhere(target, base, rng):
    return target.model.start(rng)


def _shaken(target, base, rng):
    return shaken_factors(target, base, rng)


# Where annealed runs begin.
_PLACES = (_at_heaviest, _anywhere, _shaken)


@dataclass(frozen=True)
class GradientFactorProposer(FactorProposer):
    """Diagonal Gaussians over all factors, by gradients of the residual ELBO.

    The proposals of Locatello et al. (section 5.3): every factor is independent of the
    others, and a component maximises ``E_s[ln p - ln q] + lambda H(s)``. The
    expectation of ``ln p`` is exact; that of ``ln q`` is taken over reparameterised
    draws. The residual ELBO has no maximum where the mixture has lighter tails than
    the target, as always here, so a search first maximises the ELBO alone, from a
    random start, and of its way from there the point of the largest gain is proposed.

    Parameters
    ----------
    target : FactorTarget
    """

    kind = "diagonal Gaussian"
    seeks_gain = False
    family = Gaussian("diag")

    def first_run(self, settings, i):
        """ELBO and parameters of where the i-th search ends."""
        return self._alone(settings, generator(settings.seed, 0, SEARCH, i))

    def _alone(self, settings, rng):
        """ELBO and parameters of an ordinary variational fit from a random start."""
        problem = SingleELBO(self.target, self.family, self._start(rng), None, True)
        x, value = ascend(problem, None, 200, self._tol, settings.budget)
        return value, problem.unpack(x)

    @property
    def _tol(self):
        return max(_ASCENT_TOL * len(self.target.entries), SMALLEST_TOL)

    def next_run(self, context, settings, i):
        """Parameters of the best point on the way of the i-th search."""
        rng = generator(settings.seed, context.iteration, SEARCH, i)
        _, params = self._alone(settings, rng)
        draws = self.family.base_draws(settings.n_draws, self.target.dim, rng)
        problem = ResidualGain().problem(context, (self.family, params), 0.5, draws)
        way = []
        # A few steps on the residual ELBO behind an ordinary fit.
        ascend(problem, None, 10, self._tol, listener=way.append)
        found = [params, *(problem.unpack(x) for x in way)]
        gains = joint_gains(context, self.family, found, draws, _WEIGHTS).max(axis=1)
        return found[int(np.argmax(gains))]

    def _start(self, rng):
        """A narrow component around random factors of rows and columns."""
        model, conjugate = self.target.model, self.target.family
        mean = conjugate.mean(conjugate.params(model.start(rng)))
        n_rows = model.shape[0] * model.rows.dim
        sizes = np.tile(np.sqrt(model.typical_variances), sum(model.shape))
        sizes = np.append(sizes, np.ones(self.target.dim - len(sizes)))
        mean[:n_rows] = sizes[:n_rows] * rng.standard_normal(n_rows)
        return self.family.from_moments(mean, _NARROW * sizes**2)

    def aligned(self, params, base):
        """The same component with the signs of another; turned it were not diagonal."""
        layout, rank = self.target.family.draws_layout, self.target.model.n_components
        dim = self.target.dim
        mine, other = (layout.tree(p[None, :dim]) for p in (params, base))
        overlap = sum(
            (mine[name][0] * other[name][0])[:, :rank].sum(axis=0) for name in SIDES
        )
        turned = np.array(params)
        own = layout.tree(turned[None, :dim])
        for name in SIDES:
            own[name][0, :, :rank] *= np.where(overlap < 0, -1.0, 1.0)
        return turned


# How components are proposed, by the names that users give.
FACTOR_PROPOSERS = {
    "coordinate_ascent": AscentFactorProposer,
    "gradient": GradientFactorProposer,
}
