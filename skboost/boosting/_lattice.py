"""Boosting where coordinates are few: every expectation is a sum over a lattice."""

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from skboost.approximation import Estimate
from skboost.boosting._state import UNKNOWN, Info, Move
from skboost.boosting._surrogate import KeptState, SurrogateBoosting
from skboost.surrogates import Gaussians, Lattice, laplace

# Components that are split, the heaviest first, until one gains: EM lowers another
# divergence, and may end at a component as narrow as the lattice allows.
_MOST_TRIED = 4
# Nodes at most, by coordinates: four times what examples took of a posterior with the
# longest tails.
_MOST = {1: 1 << 8, 2: 1 << 10, 3: 1 << 12}


@dataclass(frozen=True)
class LatticeState(KeptState):
    """Everything that the next split needs."""

    lattice: Lattice
    gaussians: Gaussians

    @property
    def remaining(self):
        """Of the mixture, up to the error of the sums."""
        return self.fresh.remaining()


@dataclass(frozen=True)
class LatticeBoosting(SurrogateBoosting):
    """Boosting without draws: the density is evaluated at the nodes of a lattice alone.

    The first component has the density's moments; each iteration splits the heaviest
    one that gains, until `most_kl` nats are left. Where the lattice would take too many
    nodes, is too coarse, or takes more than limits allow, it is boosting on surrogates.
    """

    most_kl: float = 0.0

    begins_with = "a lattice"

    def init(self, target):
        """The Gaussian with the moments of the density."""
        began, lattice = perf_counter(), self._lattice(target)
        if lattice is None:
            return super().init(target)
        gaussians = lattice.gaussian()
        fresh = lattice.judged(gaussians)
        state = LatticeState(1, fresh, 1, lattice, gaussians)
        move = Move("first", "first", 1.0)
        return state, self._told(state, move, began, UNKNOWN)

    def _lattice(self, target):
        """The lattice around the mode; None where there is none of use."""
        ledger, starts = target.ledger, self.proposer.starts
        # A lattice takes many evaluations at once.
        if ledger.budget.cuts():
            return None
        with ledger.within(ledger.budget, raises=False):
            start = starts[int(target.log_density(starts).argmax())]
            near = laplace(target, start, True, target.unit)
            return Lattice.around(target, near, _MOST[target.dim])

    def step(self, target, state):
        """One component more."""
        if not isinstance(state, LatticeState):
            return super().step(target, state)
        began, lattice, t = perf_counter(), state.lattice, state.iteration + 1
        for k in np.argsort(-state.gaussians.weights, kind="stable")[:_MOST_TRIED]:
            gaussians = lattice.split(state.gaussians, k)
            fresh = lattice.judged(gaussians)
            gain = fresh.elbo().value - state.fresh.elbo().value
            if gain > 0.0:
                move = Move("split", "split", float(gaussians.weights[-1]))
                after = LatticeState(t, fresh, t, lattice, gaussians)
                return after, self._told(after, move, began, Estimate(gain, 0.0))
        after, move = replace(state, iteration=t), Move("rejected", "split", 0.0)
        return after, self._told(after, move, began, Estimate(0.0, 0.0))

    def _told(self, state, move, began, gain):
        n_components, left = state.mixture.n_components, state.remaining.value
        component = state.mixture.components[int(state.mixture.weights.argmax())]
        seconds = perf_counter() - began
        parts = n_components, move, component, self.most_kl, seconds, gain, UNKNOWN
        info, n = Info.of(state, *parts), len(state.lattice.z)
        if left <= self.most_kl:
            little = (
                f"Converged: {max(left, 0.0):.2g} nats are left, within tol, by sums "
                f"over a lattice of {n:,} points."
            )
            return replace(info, little_remains=little)
        stuck, much = move.kind == "rejected", left > 2.0 * self.most_kl
        return replace(info, tries_again=not stuck, inconclusive=stuck and much)
