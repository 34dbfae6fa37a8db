"""Mixtures, whose weights move by a Frank-Wolfe step or all at once."""

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from time import perf_counter

import numpy as np

from skboost._random import FRESH, POOL, REFINE, SEARCH, generator
from skboost._solver import SMALLEST_TOL, ascend
from skboost.approximation import (
    FreshDraws,
    Mixture,
    PooledDraws,
    duality_gap,
    elbo_gain,
    has_tails,
    kept_components,
)
from skboost.boosting._state import Combination, Move
from skboost.frank_wolfe import (
    DIRECTIONS,
    Step,
    apply,
    as_step_size,
    frank_wolfe_direction,
    minimise_on_simplex,
)
from skboost.objectives import FixedMixture, JointELBO
from skboost.proposals import split_component

# Times `tol` that remain for each component where two are split at once.
_MUCH_EACH = 1.5
# Of copies of every component, where tails are heavy: of ten Student-t modes in twenty
# dimensions (two degrees of freedom) they leave .07 nats, where widths of 1, 1.5, 2.5
# and 5 leave .26 and two more .08. Three iterations, each with a component at one mode,
# left .65 of .82.
_WIDTHS = (0.7, 1.0, 1.4, 2.0, 3.0, 6.0)


@dataclass(frozen=True)
class SimplexIterate:
    """A mixture with cached draws of its components."""

    mixture: Mixture
    pool: PooledDraws

    components = property(attrgetter("mixture"), doc="The mixture itself.")

    @cached_property
    def fixed(self):
        """The mixture as a greedy objective takes it."""
        return FixedMixture.of(self.mixture, self.pool)

    def pruned(self, max_components):
        """The iterate without zero weights, and without the lightest of too many."""
        kept = kept_components(self.mixture.weights, max_components)
        return SimplexIterate(self.mixture.keep(kept), self.pool.keep(kept))


@dataclass(frozen=True)
class SimplexCombination(Combination):
    """Components on the simplex of weights, under the Kullback-Leibler divergence."""

    step_size: object
    corrective: str

    unit = "nats"
    kind = "mixtures"
    splits = by_nodes = True
    outside_advice = "use constraints=, objective='hellinger' or resample"

    @classmethod
    def of(cls, step_size, corrective):
        return cls(as_step_size(step_size), corrective)

    @property
    def monotone(self):
        return self.fully_corrective or self.step_size.monotone

    @property
    def splits_first(self):
        # The step rules of the papers append what a search finds.
        return self.fully_corrective

    gain = staticmethod(elbo_gain)

    def begin(self, target, mixture, settings):
        iterate = SimplexIterate(mixture, self._pool(target, mixture, 0, settings))
        if mixture.n_components > 1:
            iterate = self._reweighted(iterate)
        return iterate.pruned(settings.max_components)

    def append(self, target, state, component, settings):
        """Direction, step and corrective weights (Dresdner et al. 2021, Algorithm 1,
        lines 4-6)."""
        pool = self._joined(target, state, Mixture.single(component), settings)
        mixture, table = state.mixture.append(component), pool.weight_objective()
        weights, t = mixture.weights, state.n_before + state.iteration
        moved, move = self.moved(table, weights, len(weights) - 1, state.step_memory, t)
        iterate = SimplexIterate(mixture.with_weights(moved), pool)
        return iterate.pruned(settings.max_components), move

    def moved(self, table, weights, new, memory, t, best=None):
        """Weights after boosting step t toward component `new`, and the `Move`.

        ``best(weights)`` are all weights set anew, where the solver is not needed.
        """
        began = perf_counter()
        find = DIRECTIONS.get(self.corrective, frank_wolfe_direction)
        direction = find(table.slope(weights), weights, new)
        step = self.step_size.choose(table, weights, direction, memory, t)
        if not isinstance(step, Step):
            raise TypeError(
                f"choose of step_size={self.step_size!r} must return a Step of "
                f"skboost.strategies; got {step!r}."
            )
        moved = apply(weights, step.direction, step.gamma)
        if self.fully_corrective:
            moved = best(moved) if best else minimise_on_simplex(table, moved)[0]
        return moved, Move(
            kind=step.direction.kind,
            branch=step.branch,
            gamma=step.gamma,
            curvature=step.curvature,
            step_memory=step.memory,
            seconds=perf_counter() - began,
        )

    def with_weights(self, iterate, weights, settings):
        """The iterate with other weights of the same components."""
        mixture = iterate.mixture.with_weights(weights)
        return SimplexIterate(mixture, iterate.pool).pruned(settings.max_components)

    def refine(self, target, iterate, state, settings):
        return self._refined(target, iterate.mixture, state.iteration, settings)

    def split(self, target, state, settings):
        """The component with most of what remains in halves, or two, and all refined.

        From weight zero a component has a slope to climb only where it gains on its
        own; two halves that move together gain where none alone does.
        """
        rng = generator(settings.seed, state.iteration, SEARCH, 2)
        each = state.remaining.least / state.mixture.n_components
        # Two at once save an iteration of some models of benchmarks/posteriordb.py, and
        # three for all together took five skewed coordinates 2.5 times as long; with
        # exact expectations they lost .03 nats on one classification.
        much_remains = each > _MUCH_EACH * settings.tol and not settings.exact
        n_split = 2 if much_remains else 1
        halves = state.mixture
        # The heaviest ones may fit well already: split by weight, centred eight schools
        # kept .020 nats in place of .012, for half as many evaluations again.
        for k in np.argsort(-state.fresh.remaining_parts(), kind="stable")[:n_split]:
            halves = split_component(target, halves, k, rng)
        return self._refined(target, halves, state.iteration, settings)

    def at_widths(self, target, state, settings):
        """Every component at several widths, and all weights set anew; None where
        components have no widths, or the target no heavy tails."""
        mixture = state.mixture
        light = target.log_concave or not has_tails(mixture)
        if light or not self.fully_corrective:
            return None
        parts = tuple(c.widen(width) for c in mixture.components for width in _WIDTHS)
        weights = np.repeat(mixture.weights, len(_WIDTHS)) / len(_WIDTHS)
        return self.begin(target, Mixture(parts, weights), settings)

    def gap(self, target, state, component, settings):
        rng = generator(settings.seed, FRESH, state.iteration, 1)
        single, n = Mixture.single(component), settings.n_fresh
        fresh = FreshDraws.of(target, single, n, rng, settings.exact, strict=True)
        return duality_gap(state.fresh, fresh, state.iterate.pool)

    def least_gain(self, settings):
        return settings.least_gain

    def _refined(self, target, mixture, t, settings):
        """Components and weights moved together towards a higher ELBO.

        The greedy step's own problem with all components moving, in place of a sweep
        over components one by one.
        """
        # Fewer draws for light components lost .02 to .08 nats of the ELBOs of P0.
        n, seed = settings.n_draws, settings.seed
        base = [
            component.matched_draws(n, generator(seed, t, REFINE, k))
            for k, component in enumerate(mixture.components)
        ]
        weights, components, exact = mixture.weights, mixture.components, settings.exact
        problem = JointELBO(target, components, base, weights, None, exact)
        # The next refinement goes on from where this one ends, and one that ended at a
        # share of .05 left a logistic regression of P0 at a saddle.
        tol = max(1e-2 * settings.tol, SMALLEST_TOL)
        x, _ = ascend(problem, max_iter=30, tol=tol, share=0.02)
        mixture = Mixture(*problem.unpack(x))
        iterate = SimplexIterate(mixture, self._pool(target, mixture, t, settings))
        if self.fully_corrective:
            iterate = self._reweighted(iterate)
        return iterate.pruned(settings.max_components)

    @staticmethod
    def _reweighted(iterate):
        mixture, pool = iterate.mixture, iterate.pool
        weights, _ = minimise_on_simplex(pool.weight_objective(), mixture.weights)
        return SimplexIterate(mixture.with_weights(weights), pool)

    def _pool(self, target, mixture, t, settings):
        n, seed = settings.n_draws, settings.seed
        base = [
            component.base_draws(n, generator(seed, t, POOL, k))
            for k, component in enumerate(mixture.components)
        ]
        return PooledDraws.of(target, mixture, base, settings.exact)

    def _joined(self, target, state, single, settings):
        new = self._pool(target, single, state.iteration, settings)
        return state.iterate.pool.join(
            new,
            single.log_components(state.iterate.pool.theta),
            state.mixture.log_components(new.theta),
        )
