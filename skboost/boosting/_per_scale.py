"""Boosting within every value of a scale, whose probabilities are held.

With q = sum_g w_g q_g and the scale's posterior as w, what is left to minimise is
``sum_g w_g KL(q_g || p(. | s_g))``: one problem for each scale. Boosting is then
Frank-Wolfe over a product of simplices (Lacoste-Julien et al. 2013), and a step goes
to the scale where most remains. Weights by the lower bound of all would cut the scales
at which components are poor.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple

import numpy as np

from skboost._math import log_sum_exp, log_weights
from skboost._random import FRESH, generator
from skboost._settings import Settings
from skboost.approximation import (
    Estimate,
    FreshDraws,
    Mixture,
    RemainingKL,
    remaining_kl,
)
from skboost.boosting._engine import Boosting
from skboost.boosting._state import FIRST, Awaited, Combination, Info, State
from skboost.modes import Modes
from skboost.proposals import DensityProposer, ScaleProposer, target_given
from skboost.targets import ScaleNode

# Share of what limits leave for the search of the first components.
_SEARCH_SHARE = 0.6
# Draws by which the first mixture is judged: nothing was fitted to them.
_N_FIRST = 1024
# Numbers in them: with hundreds of parameters, densities of draws cost more than a fit.
_N_ENTRIES = 1 << 17


class Block(NamedTuple):
    """The mixture at one scale, with its probability and the run that it is of."""

    node: ScaleNode
    weight: float
    mixture: Mixture
    state: State | None = None
    # Whether the last step at this scale gained next to nothing.
    done: bool = False

    def target(self, target):
        """The log joint density at this scale."""
        return target_given(target, self.node)


@dataclass(frozen=True)
class Blocks:
    """The iterate: all components, those of a scale one after the other, and a `Block`
    for every scale, or of a first mixture the `ScaleNode` of every component."""

    mixture: Mixture
    begun: tuple

    components = property(attrgetter("mixture"), doc="All components.")

    @classmethod
    def of(cls, blocks):
        """That of a `Block` for every scale."""
        parts = [block.mixture for block in blocks]
        components = tuple(c for part in parts for c in part.components)
        weights = [block.weight * block.mixture.weights for block in blocks]
        return cls(Mixture(components, np.concatenate(weights)), tuple(blocks))

    @cached_property
    def blocks(self):
        """A `Block` for every scale."""
        if isinstance(self.begun[0], Block):
            return self.begun
        return tuple(_blocks(self.mixture, self.begun))

    def replace(self, index, block):
        """The same with another block in one place."""
        return Blocks.of((*self.blocks[:index], block, *self.blocks[index + 1 :]))

    def remaining(self, target, fresh):
        """What remains within every scale, `RemainingKL` each, by draws of all."""
        counts = [block.mixture.n_components for block in self.blocks]
        owner = np.repeat(np.arange(len(counts)), counts)
        table, of_draw = fresh.mixture.log_components(fresh.theta), owner[fresh.source]
        prior, scale, theta = target.prior, target.scale, fresh.theta
        # Intercepts have one prior at all scales, which cancels wherever it is.
        likelihood = fresh.log_joint - prior.log_density(theta, scale)
        found = []
        for g, block in enumerate(self.blocks):
            here = of_draw == g
            weights = fresh.row_weights[here]
            at_scale = prior.log_density_given(theta[here], scale, block.node)
            own = log_weights(block.mixture.weights)
            q = log_sum_exp(table[np.ix_(here, owner == g)], own)
            ratio = likelihood[here] + at_scale - q
            found.append(remaining_kl(ratio, weights / weights.sum()))
        return found


def _blocks(mixture, nodes):
    """A `Block` for every scale, whose components stand one after the other."""
    for node in dict.fromkeys(nodes):
        here = np.array([one == node for one in nodes])
        weight = mixture.weights[here].sum()
        yield Block(node, float(weight), mixture.keep(here))


@dataclass(frozen=True)
class BoostingPerScale:
    """An engine that boosts at every scale apart, by the engine for a known one."""

    proposer: ScaleProposer
    combination: Combination
    settings: Settings

    draws_anew = held_draws_are_new = True
    begins_with = ""
    kind = property(attrgetter("given.kind"))
    by_nodes = property(attrgetter("given.by_nodes"))

    @cached_property
    def given(self):
        """The engine for a scale that is known, which searches for what lacks there."""
        parts = self.proposer
        search = DensityProposer(parts.family, parts.objective, parts.begin, parts.box)
        settings = replace(self.settings, allowed_kl=None, max_order=1)
        return Boosting(search, self.combination, settings)

    def facts(self):
        """What stopping has to know; see `Boosting.facts`."""
        return self.given.facts()._replace(exact=False, little="auto")

    def init(self, target):
        """A component for every scale, weighted by evidence."""
        began, ledger = perf_counter(), target.ledger
        # Where the form is closed that takes milliseconds, which no limit cuts.
        with ledger.within(ledger.budget.share(_SEARCH_SHARE), raises=False):
            mixture, nodes = self.proposer.at_scales(target, self.settings)
        with ledger.within(ledger.budget, raises=False):
            return self._first(target, mixture, nodes, began)

    def _first(self, target, mixture, nodes, began):
        iterate = Blocks(mixture, tuple(nodes))
        complete, auto = "", self.settings.allowed_kl
        # Of scales for which limits left no time nothing is known.
        auto = auto and not target.ledger.budget.has_cut
        if auto:
            complete = self.proposer.complete_with(target, nodes, mixture)
        # Whoever only predicts asks for no draws.
        images = auto and self.settings.max_order > 1
        known = self.proposer.known_left(target, nodes, mixture) if images else None
        state, info = self._begun(target, iterate, began, later=known is not None)
        cut = target.ledger.budget.has_cut
        return state, replace(
            info, little_remains=complete, cut_short=cut, known_left=known
        )

    def reweighted(self, target, state, told, weights, began):
        """The first iteration with other weights; `told` is that with the first."""
        mixture, nodes, kept = state.iterate.mixture, state.iterate.begun, weights > 0
        mixture = mixture.with_weights(weights).keep(kept)
        iterate = Blocks(mixture, tuple(compress(nodes, kept)))
        state, info = self._begun(target, iterate, began, 1)
        return state, replace(info, little_remains=told.little_remains)

    def _begun(self, target, iterate, began, *key, later=False):
        """The first iteration, by few draws that nothing was fitted to."""
        most = max(_N_FIRST // 8, min(_N_FIRST, _N_ENTRIES // target.dim))
        n = min(self.settings.n_fresh, most)
        state = self._state(target, iterate, 0, n, *key, later=later)
        tol = self.settings.tol
        return state, Info.of(state, iterate.mixture, FIRST, tol, began)

    def step(self, target, state):
        """One iteration where most remains, times the probability of its scale."""
        began, iterate = perf_counter(), state.iterate
        # What the target guesses first comes with them.
        self.proposer.starts  # noqa: B018
        index = self._most(target, state)
        block = iterate.blocks[index]
        here, inner = block.target(target), block.state
        engine = self._within(here, iterate, block)
        if inner is None:
            inner, _ = engine.begin(here, block.mixture, Modes(), began)
        inner = replace(inner, iteration=state.iteration, n_before=state.n_before)
        after, info = engine.step(here, inner)
        gain = Estimate(*(block.weight * error for error in info.gain))
        done = not gain.value > self.settings.least_gain
        block = block._replace(mixture=after.mixture, state=after, done=done)
        iterate = iterate.replace(index, block)
        new = self._state(target, iterate, state.iteration, self.settings.n_fresh)
        n_before = state.n_before
        best_iteration = n_before + new.best_iteration
        new = replace(new, n_before=n_before, best_iteration=best_iteration)
        parts = iterate.mixture, info.move, self.settings.tol, began
        told = Info.of(new, *parts, gain, info.gap)
        left = not self._left(target, new) <= self.settings.tol
        return new, replace(told, entropy=info.entropy, tries_again=left)

    @staticmethod
    def _left(target, state):
        """What the scales at which boosting may go on lack by careful estimates, nats.

        Less than nothing where there are none.
        """
        blocks = state.iterate.blocks
        if all(block.done for block in blocks):
            return -1.0
        lacks = state.iterate.remaining(target, state.fresh)
        pairs = zip(blocks, lacks, strict=True)
        return sum(
            b.weight * max(one[0], one.spread, 0.0) for b, one in pairs if not b.done
        )

    def _within(self, here, iterate, block):
        """The engine for one scale, which may use what others leave of components."""
        engine, most = self.given, self.settings.max_components
        exact = here.exact_gaussian and self.proposer.family.exact_expectations
        settings = replace(engine.settings, exact=exact)
        if most is not None:
            n = iterate.components.n_components - block.mixture.n_components
            settings = replace(settings, max_components=most - n)
        return replace(engine, settings=settings)

    def _most(self, target, state):
        blocks = state.iterate.blocks
        left = [one.value for one in state.iterate.remaining(target, state.fresh)]
        order = [
            (not block.done, block.weight * np.nan_to_num(value))
            for block, value in zip(blocks, left, strict=True)
        ]
        return max(range(len(blocks)), key=order.__getitem__)

    def _state(self, target, iterate, t, n, *key, later=False):
        mixture = iterate.mixture

        def draw():
            rng = generator(self.settings.seed, FRESH, t, *key)
            parts = target, mixture, n, rng
            return FreshDraws.of(*parts, exact=False, strict=True, at_once=True)

        def left():
            return self.remaining(target, iterate, fresh)

        if later:
            # By one value it is known later whether the rows are those of now.
            theta = mixture.mean()[None]
            probe = theta, target.log_density(theta, strict=True)
            fresh = Awaited(draw, mixture=mixture, probe=probe)
        else:
            fresh = draw()
        remaining = Awaited(left) if later else left()
        return State(t + 1, iterate, fresh, None, fresh, t + 1, remaining)

    @staticmethod
    def remaining(target, iterate, fresh):
        """``sum_g w_g KL(q_g || p(. | s_g))``, with k-hat of the mixture's draws.

        Weights that are the scale's posterior have no error of their own, and the sum
        is no less than what the mixture of all lacks.
        """
        parts = np.array(iterate.remaining(target, fresh))
        weights = np.array([block.weight for block in iterate.blocks])
        se = float(np.sqrt(weights**2 @ parts[:, 1] ** 2))
        khat = remaining_kl(fresh.log_ratio, fresh.row_weights).khat
        means = RemainingKL(*(weights @ parts).tolist())
        return means._replace(se=se, khat=khat)

    def last_look(self, target, state):
        """No further modes: at a known scale the posterior has one."""
        return Modes(), None
