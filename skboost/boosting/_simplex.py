"""Mixtures: weights on the simplex, by a Frank-Wolfe step or all at once."""

from dataclasses import dataclass
from functools import cached_property
from time import perf_counter

import numpy as np

from skboost._random import FRESH, POOL, REFINE, SEARCH, generator
from skboost._solver import SMALLEST_TOL, ascend
from skboost.boosting._combination import Combination, kept_components
from skboost.boosting._state import Move
from skboost.frank_wolfe import (
    apply,
    as_direction,
    as_step_size,
    minimise_on_simplex,
)
from skboost.mixtures import FreshDraws, Mixture, PooledDraws, duality_gap, elbo_gain
from skboost.objectives import FixedMixture, JointELBO
from skboost.proposals import split_component
from skboost.targets import failure_tolerant


@dataclass(frozen=True)
class SimplexIterate:
    """A mixture with cached draws of its components.

    Parameters
    ----------
    mixture : Mixture
    pool : PooledDraws
    """

    mixture: Mixture
    pool: PooledDraws

    @property
    def n_components(self):
        """Number of components."""
        return self.mixture.n_components

    @property
    def components(self):
        """The mixture itself."""
        return self.mixture

    @cached_property
    def fixed(self):
        """The mixture as a greedy objective takes it."""
        return FixedMixture.of(self.mixture, self.pool)

    def keep(self, mask):
        """The iterate without the components where `mask` is False."""
        return SimplexIterate(self.mixture.keep(mask), self.pool.keep(mask))

    def pruned(self, max_components):
        """The iterate without zero weights, and without the lightest of too many."""
        return self.keep(kept_components(self.mixture.weights, max_components))


@dataclass(frozen=True)
class Simplex(Combination):
    """Components on the simplex of weights, under the Kullback-Leibler divergence.

    Parameters
    ----------
    target : Target
    step_size : StepSize
    corrective : {"fully-corrective", "pairwise", "away", "none"}
    """

    target: object
    step_size: object
    corrective: str

    unit = "nats"
    outside_advice = "use constraints=, objective='hellinger' or resample"
    splits = True

    @classmethod
    def of(cls, target, step_size, corrective):
        return cls(target, as_step_size(step_size), corrective)

    @property
    def monotone(self):
        return self.fully_corrective or self.step_size.monotone

    @property
    def fully_corrective(self):
        """Whether all weights are set anew after every step."""
        return self.corrective == "fully-corrective"

    def begin(self, mixture, settings):
        iterate = SimplexIterate(mixture, self._pool(mixture, 0, settings))
        if mixture.n_components > 1:
            iterate = self._reweighted(iterate)
        return iterate.pruned(settings.max_components)

    def append(self, state, component, settings):
        """Direction, step size and, where asked, the corrective weights.

        Dresdner et al. 2021, Algorithm 1, lines 4 to 6.
        """
        family, params = component
        pool = self._joined(state, Mixture.single(family, params), settings)
        mixture = state.mixture.append(family, params)
        began = perf_counter()
        table, weights = pool.weight_objective(), mixture.weights
        direction = as_direction(self.corrective).find(
            table.slope(weights), weights, len(weights) - 1
        )
        step = self.step_size.choose(
            table, weights, direction, state.memory, state.iteration
        )
        moved = apply(weights, step.direction, step.gamma)
        if self.fully_corrective:
            moved, _ = minimise_on_simplex(table, moved)
        move = Move(
            kind=step.direction.kind,
            branch=step.branch,
            gamma=step.gamma,
            curvature=step.curvature,
            memory=step.memory,
            seconds=perf_counter() - began,
        )
        iterate = SimplexIterate(mixture.with_weights(moved), pool)
        return iterate.pruned(settings.max_components), move

    def refine(self, iterate, state, settings):
        """All components and weights moved together towards a higher ELBO.

        The greedy step's own problem with every component moving and nothing fixed,
        in place of a sweep over components one by one.
        """
        t, components = state.iteration, iterate.mixture.components
        base = [
            family.matched_draws(
                settings.n_draws,
                self.target.dim,
                generator(settings.seed, t, REFINE, k),
            )
            for k, (family, _) in enumerate(components)
        ]
        problem = JointELBO(
            failure_tolerant(self.target),
            list(components),
            base,
            iterate.mixture.weights,
            None,
            settings.exact,
        )
        tol = max(1e-2 * settings.tol, SMALLEST_TOL)
        x, _ = ascend(problem, max_iter=settings.refine_max_iter, tol=tol)
        params, shares = problem.unpack(x)
        moved = tuple((f, p) for (f, _), p in zip(components, params, strict=True))
        iterate = self.redrawn(
            SimplexIterate(Mixture(moved, np.asarray(shares)), None), t, settings
        )
        if self.fully_corrective:
            iterate = self._reweighted(iterate)
        return iterate.pruned(settings.max_components)

    def split(self, state, settings):
        """The heaviest component split in two, all refined.

        From weight zero a component has a slope to climb only where it gains on its
        own; two halves that move together gain where none alone does.
        """
        rng = generator(settings.seed, state.iteration, SEARCH, 2)
        target = failure_tolerant(self.target)
        halves = split_component(target, state.mixture, settings, rng)
        return self.refine(SimplexIterate(halves, None), state, settings)

    def redrawn(self, iterate, t, settings):
        mixture = iterate.mixture
        return SimplexIterate(mixture, self._pool(mixture, t, settings))

    def gain(self, before, after):
        return elbo_gain(before, after)

    def gap(self, state, component, settings):
        rng = generator(settings.seed, FRESH, state.iteration, 1)
        fresh = FreshDraws.of(
            self.target,
            Mixture.single(*component),
            settings.n_fresh,
            rng,
            settings.exact,
        )
        return duality_gap(state.fresh, fresh, state.pool)

    def least_gain(self, settings):
        return settings.least_gain * settings.tol

    @staticmethod
    def _reweighted(iterate):
        mixture, pool = iterate.mixture, iterate.pool
        weights, _ = minimise_on_simplex(pool.weight_objective(), mixture.weights)
        return SimplexIterate(mixture.with_weights(weights), pool)

    def _pool(self, mixture, t, settings):
        base = [
            family.base_draws(
                settings.n_draws, self.target.dim, generator(settings.seed, t, POOL, k)
            )
            for k, (family, _) in enumerate(mixture.components)
        ]
        return PooledDraws.of(self.target, mixture, base, settings.exact)

    def _joined(self, state, single, settings):
        new = self._pool(single, state.iteration, settings)
        return state.pool.join(
            new,
            single.log_components(state.pool.theta),
            state.mixture.log_components(new.theta),
        )
