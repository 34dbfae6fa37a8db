"""Square roots of densities, combined on the unit sphere: universal boosting (UBVI).

Campbell and Li 2019, Algorithm 1. Components are square roots of densities, and what
is maximised is their overlap with the root of the posterior.
"""

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from time import perf_counter

import numpy as np

from skboost._math import N_ERRORS
from skboost._random import FRESH, POOL, REFINE, generator
from skboost._solver import SMALLEST_TOL, ascend
from skboost.approximation import (
    FreshDraws,
    RootDraws,
    Roots,
    hellinger_gain,
    kept_components,
    squared_hellinger,
)
from skboost.boosting._state import Combination, Move
from skboost.families import Component
from skboost.frank_wolfe import best_coefficients
from skboost.objectives import (
    JointRoots,
    RootControl,
    between_roots,
    defensive_draws,
    log_defensive_density,
)


@dataclass(frozen=True)
class RootIterate:
    """A combination of roots with cached draws of their components."""

    roots: Roots
    pool: RootDraws

    @cached_property
    def mixture(self):
        """The density: the square of the combination."""
        return self.roots.mixture()

    # The components whose roots these are.
    components = property(attrgetter("roots.components"))

    @cached_property
    def fixed(self):
        """The combination with its overlap, as the greedy objective takes it."""
        return RootControl(self.roots, self.pool.log_overlap(self.roots))

    def pruned(self, max_components):
        """The iterate without roots of no use, and without the lightest of too many."""
        kept = kept_components(self.roots.shares, max_components)
        if kept.all():
            return self
        return RootIterate(self.roots.keep(kept), self.pool.keep(kept))


@dataclass(frozen=True)
class RootCombination(Combination):
    """Roots under the Hellinger distance, with the paper's weights or its geodesic
    step."""

    corrective: str

    unit = "of squared Hellinger distance"
    kind = "square roots"
    outside_advice = "use constraints= or resample"
    monotone = True
    noisy = True
    gain = staticmethod(hellinger_gain)
    # The best combination is closed: there is no step to choose, and no duality gap.
    allowed = {
        "step_size": ("line-search",),
        "corrective": ("fully-corrective", "none"),
        "stopping": ("gain",),
    }

    @classmethod
    def of(cls, step_size, corrective):
        return cls(corrective)

    def begin(self, target, mixture, settings):
        family = mixture.components[0].family
        params = np.array([component.params for component in mixture.components])
        roots = Roots.of(family, params, np.sqrt(mixture.weights))
        iterate = RootIterate(roots, self._pool(target, roots, 0, settings))
        if settings.refine or roots.n_components == 1:
            # One root alone is not refined by this: the root with the largest overlap
            # is the first component of Algorithm 1.
            roots = self._moved(target, iterate.fixed, 0, settings, SMALLEST_TOL)
            if not self._overlaps_less(target, iterate.roots, roots, settings):
                iterate = RootIterate(roots, self._pool(target, roots, 0, settings))
        if roots.n_components > 1 and self.fully_corrective:
            iterate = _settled(iterate).pruned(settings.max_components)
        return iterate

    def append(self, target, state, component, settings):
        """The old roots and the new one in the best combination."""
        family, new, old = component.family, component.params, state.iterate.roots
        single = Roots.of(family, new, np.ones(1))
        pool = self._joined(target, state.iterate, single, state.iteration, settings)
        began = perf_counter()
        coefficients = np.append(old.coefficients, 0.0)
        roots = Roots.of(family, np.vstack([old.params, new]), coefficients)
        if self.fully_corrective:
            iterate = _settled(RootIterate(roots, pool))
        else:
            iterate = RootIterate(_geodesic(state.iterate.fixed, roots, pool), pool)
        move = Move(
            kind="frank-wolfe",
            branch="geodesic",
            gamma=float(iterate.roots.shares[-1]),
            seconds=perf_counter() - began,
        )
        return iterate.pruned(settings.max_components), move

    def refine(self, target, iterate, state, settings):
        """All roots moved together, until a share of what is left is gained."""
        t, fresh = state.iteration, state.fresh
        remaining = squared_hellinger(fresh.log_ratio, fresh.row_weights).value
        tol = max(3e-4 * remaining, SMALLEST_TOL)
        roots = self._moved(target, iterate.fixed, t, settings, tol)
        iterate = RootIterate(roots, self._pool(target, roots, t, settings))
        if self.fully_corrective:
            iterate = _settled(iterate)
        return iterate.pruned(settings.max_components)

    def least_gain(self, settings):
        return 0.0

    def candidates(self, state, components):
        """All but one that is the whole combination already, where the objective is
        0 / 0."""
        if not components:
            return ()
        roots = state.iterate.roots
        params = np.array([component.params for component in components])
        cosines, _ = between_roots(params, roots)
        # Cosine with the control above which a component at a mode is no news.
        pairs = zip(components, cosines, strict=True)
        return tuple(component for component, cosine in pairs if cosine < 0.99)

    def _overlaps_less(self, target, before, after, settings):
        """Whether roots are surely worse on fresh draws, which no search has fitted.

        In ten dimensions the overlap on a few hundred draws has its maximum far off.
        """
        fresh = []
        for k, roots in enumerate((before, after), 3):
            rng, mixture = generator(settings.seed, FRESH, 0, k), roots.mixture()
            drawn = FreshDraws.of(
                target, mixture, settings.n_fresh, rng, exact=False, strict=True
            )
            fresh.append(drawn)
        gain = hellinger_gain(*fresh)
        return gain.value < -N_ERRORS * gain.se

    def _moved(self, target, control, t, settings, tol):
        """All roots moved together towards a larger overlap."""
        roots = control.roots
        base = self._base_draws(target.dim, roots, t, REFINE, settings)
        problem = JointRoots(target, control, roots, base)
        # One that ends early is gone on with after the next root.
        n_iter = int(np.clip(300 // roots.n_components, 10, 40))
        x, _ = ascend(problem, max_iter=n_iter, tol=tol, budget=target.ledger.budget)
        return problem.unpack(x)

    # --- draws

    @staticmethod
    def _base_draws(dim, roots, t, purpose, settings):
        family, n = roots.family, settings.n_draws
        keys = range(roots.n_components)
        rngs = [generator(settings.seed, t, purpose, k) for k in keys]
        return [defensive_draws(family, n, dim, rng) for rng in rngs]

    def _pool(self, target, roots, t, settings):
        eps = self._base_draws(target.dim, roots, t, POOL, settings)
        theta = np.concatenate([*map(Component.draws, roots.each, eps)])
        return RootDraws(
            theta,
            target.log_density(theta, strict=True),
            *self._log_densities(roots, theta),
            np.repeat(np.arange(len(eps)), [len(e) for e in eps]),
        )

    @staticmethod
    def _log_densities(roots, theta):
        """Log densities of the components, and of what is drawn for them."""
        table = roots.components.log_components(theta)
        log_r, _ = log_defensive_density(
            roots.family, roots.log_peaks - table, theta.shape[1]
        )
        return table, roots.log_peaks + log_r

    def _joined(self, target, iterate, single, t, settings):
        new = self._pool(target, single, t, settings)
        return iterate.pool.join(
            new,
            self._log_densities(single, iterate.pool.theta),
            self._log_densities(iterate.roots, new.theta),
        )


def _geodesic(control, roots, pool):
    """The best point between a combination and a new root (Campbell and Li 2019, eq.
    4)."""
    old = control.roots
    (between,), _ = between_roots(roots.params[-1:], old)
    overlap = pool.overlaps(RootControl(roots, control.log_overlap))[-1]
    # The combination so far overlaps with the target by one.
    table = np.array([[1.0, between], [between, 1.0]])
    kept, new = best_coefficients(table, np.array([1.0, overlap]))
    return roots.with_coefficients(np.append(kept * old.coefficients, new))


def _settled(iterate):
    """The best coefficients, against a control that they themselves make."""
    roots, pool = iterate.roots, iterate.pool
    # Coefficients and the control that their noise is measured against settle soon.
    for _ in range(3):
        overlaps = pool.overlaps(RootControl(roots, pool.log_overlap(roots)))
        if not overlaps.max() > 0:
            break
        roots = roots.with_coefficients(best_coefficients(roots.gram, overlaps))
    return RootIterate(roots, pool)
