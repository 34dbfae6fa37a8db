"""Boosting where evaluations come by thousands at once: weighted draws, and orbits."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from time import perf_counter

import numpy as np

from skboost._math import N_ERRORS, mean_and_se
from skboost._random import ORBIT, SEARCH, generator
from skboost.approximation import Estimate, FreshDraws, Mixture
from skboost.boosting._state import FIRST, Info, Move
from skboost.boosting._surrogate import KeptState, SurrogateBoosting
from skboost.boosting._weighted_points import Weighed
from skboost.orbits import AUTO_ORDER, OrbitMixture, Orbits

# Rounds of draws before the first mixture is judged, and components that it may have;
# so many more of either with each iteration.
_ROUNDS, _COMPONENTS = 4, 4
# Draws whose orbits say what remains, and images at least of which moments are
# averages.
_N_DRAWS, _N_IMAGES = 256, 4_096
# Share of what may remain at which orbits are no longer doubled.
_SHARE = 0.5
# Images by a surrogate, and components, at most: all draws so far are weighed by each
# of its mixtures. The share of what may remain that it is to leave there.
_DEAR_ORDER, _FEW, _DEAR_SHARE = 16, 2, 0.25
# Pareto shape above which weights say too little.
_UNRELIABLE = 0.7
# Effective draws without which nothing is known of a density.
_FEWEST = 50.0


@dataclass(frozen=True)
class WeightedState(KeptState):
    """Everything that the next iteration needs."""

    weighed: Weighed

    @property
    def remaining(self):
        """With orbits, by draws that nothing was fitted to."""
        return self.fresh.remaining()


@dataclass(frozen=True)
class WeightedBoosting(SurrogateBoosting):
    """Boosting of Gaussians fitted to weighted draws by EM, reweighted over orbits.

    An iteration draws more, all draws being kept, and fits as many components as gain
    something; it ends once `most_kl` nats are left. Weighted draws cover what is skewed
    at once, where searches would add Gaussians one by one, and orbits have the rest.
    Where no draws of any weight are found, or the target is `dear`, it is boosting on
    surrogates, for which this is done in place of searches.
    """

    most_kl: float = 0.0
    dear: bool = False

    begins_with = "Gaussians fitted to weighted draws"

    def init(self, target):
        """A few Gaussians around the mode."""
        if self.dear:
            state, info = super().init(target)
            fresh = KnownDraws.of(state.fresh, state.remaining)
            return replace(state, fresh=fresh), info
        began, ledger = perf_counter(), target.ledger
        with ledger.within(ledger.budget, raises=False):
            near = self._near_mode(target)
            weighed = Weighed.begun(Mixture.single(near.component))
            weighed = self._longer(target, weighed, _COMPONENTS, 0)
            if not weighed.n_effective >= _FEWEST:
                return super().init(target)
            fresh = self._judged(target, weighed, 0)
        state = WeightedState(1, fresh, 1, weighed)
        info = self._make_info(state, FIRST, began)
        return state, replace(info, cut_short=ledger.budget.has_cut)

    def _longer(self, target, weighed, most, t):
        rng = generator(self.settings.seed, SEARCH, t)
        for k in range(_ROUNDS):
            last = k + 1 == _ROUNDS or target.ledger.budget.cuts()
            weighed = weighed.longer(target, rng, most if last else 1)
            if last:
                break
        return weighed

    def _judged(self, target, weighed, t):
        """`OrbitDraws` of as few images as leave `most_kl` nats."""
        rng = generator(self.settings.seed, ORBIT, t)
        mixture = weighed.mixture.drop_zero_weights()
        orbits = Orbits.of(target, mixture, _N_DRAWS, rng)
        if target.ledger.budget.cuts():
            return OrbitDraws.of(orbits, target, weighed)
        orbits = orbits.doubled_until(target, _SHARE * self.most_kl, AUTO_ORDER)
        n = max(_N_DRAWS, _N_IMAGES // int(orbits.orders.max()))
        orbits = orbits.with_more(target, n, rng)
        return OrbitDraws.of(orbits, target, weighed)

    def _step(self, target, state):
        """More draws, and components where they gain."""
        began, t = perf_counter(), state.iteration
        weighed = self._longer(target, state.weighed, _COMPONENTS * (t + 1), t)
        fresh = self._judged(target, weighed, t)
        before, now = state.fresh.elbo(), fresh.elbo()
        gain = Estimate(now.value - before.value, float(np.hypot(now.se, before.se)))
        if gain.value > 0.0:
            after = WeightedState(t + 1, fresh, t + 1, weighed)
            move = Move("weighted", "weighted", 1.0)
        else:
            after = replace(state, iteration=t + 1, weighed=weighed)
            move, gain = Move("rejected", "weighted", 0.0), Estimate(0.0, 0.0)
        return after, self._make_info(after, move, began, gain)

    def _boosted_on(self, surrogate, known, t):
        """See `SurrogateBoosting`."""
        weighed = self._longer(surrogate, Weighed.begun(known.modes), _FEW, t)
        mixture = weighed.mixture.drop_zero_weights()
        rng = generator(self.settings.seed, ORBIT, t)
        orbits = Orbits.of(surrogate, mixture, _N_DRAWS, rng)
        enough = _DEAR_SHARE * self.settings.tol
        orbits = orbits.doubled_until(surrogate, enough, _DEAR_ORDER)
        return OrbitMixture.of(orbits, surrogate)

    def step(self, target, state):
        """More draws, and components where they gain; of a dear target, a round."""
        if isinstance(state, WeightedState):
            return self._step(target, state)
        before = state.best_iteration
        state, info = super().step(target, state)
        if state.best_iteration > before:
            state = replace(state, fresh=KnownDraws.of(state.fresh, state.remaining))
        return state, info

    def _make_info(self, state, move, *began_and_gain):
        info = Info.of(state, state.mixture.base, move, self.most_kl, *began_and_gain)
        left = state.remaining.value
        at_most = left + N_ERRORS * state.remaining.se
        if at_most <= self.most_kl:
            little = (
                f"Converged: less than about {at_most:.2g} nats are left, once it is "
                "reweighted over orbits, as far as weighted draws around the mode see."
            )
            return replace(info, little_remains=little)
        stuck, much = move.kind == "rejected", not left <= 2.0 * self.most_kl
        return replace(info, tries_again=not stuck, inconclusive=stuck and much)


@dataclass(frozen=True)
class KnownDraws(FreshDraws):
    """Draws beside those of wider copies, whose weights say what remains at most."""

    known_to: float

    @classmethod
    def of(cls, fresh, remaining):
        """Those draws; known to two errors where weights are reliable."""
        reliable = remaining.khat <= _UNRELIABLE
        known_to = N_ERRORS * remaining.se if reliable else np.inf
        return cls(*(getattr(fresh, one.name) for one in fields(fresh)), known_to)


@dataclass(frozen=True)
class OrbitDraws(FreshDraws):
    """Draws of the components of an `OrbitMixture` with all their images."""

    orbits: object
    weighed: Weighed

    @classmethod
    def of(cls, orbits, target, weighed):
        """Those of `Orbits`."""
        plain, mixture = orbits.mixture, OrbitMixture.of(orbits, target)
        parts = zip(orbits.groups, orbits.z, strict=True)
        theta = np.concatenate([lattice.place(z) for lattice, z in parts])
        ratio = np.concatenate([f[:, 0] for f in orbits.f])
        log_joint = ratio + plain.log_density(theta)
        source = np.repeat(np.arange(plain.n_components), [len(z) for z in orbits.z])
        weights = orbits.row_weights
        return cls(mixture, theta, weights, source, log_joint, None, orbits, weighed)

    def elbo(self):
        """A lower bound of it, and it itself for one component."""
        return Estimate(*mean_and_se(self.orbits.values, self.row_weights))

    def remaining(self):
        """`RemainingKL` with what draws of wider copies see beyond, surely."""
        found, wide = self._left, self.weighed.log_evidence
        surely = self._beyond - N_ERRORS * float(np.hypot(found.se, wide.se))
        return found._replace(value=found.value + max(surely, 0.0))

    @property
    def known_to(self):
        """Two errors of what draws of wider copies see, and that."""
        error = float(np.hypot(self._left.se, self.weighed.log_evidence.se))
        return N_ERRORS * error + max(self._beyond, 0.0)

    @cached_property
    def _left(self):
        # With the error of what noise has not in common.
        found = self.orbits.remaining()
        return found._replace(se=self.orbits.error(), outside=self.outside)

    @property
    def _beyond(self):
        """Log evidence by draws of wider copies less that by orbits."""
        seen = self.elbo().value + self._left.value
        return self.weighed.log_evidence.value - seen
