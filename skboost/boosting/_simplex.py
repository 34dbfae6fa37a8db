"""How components are combined; mixtures by a Frank-Wolfe step or all at once."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from time import perf_counter

import numpy as np

from skboost._random import FRESH, POOL, REFINE, SEARCH, generator
from skboost._solver import SMALLEST_TOL, ascend
from skboost.approximation import (
    Estimate,
    FreshDraws,
    Mixture,
    PooledDraws,
    duality_gap,
    elbo_gain,
    kept_components,
)
from skboost.boosting._state import Move
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


class Combination(ABC):
    """Weights of components, and how a new one gets its own.

    An *iterate* is what a combination keeps of a mixture: its components with their
    weights, and the cached draws that every question about weights is answered from.
    It has ``mixture``, ``pool``, ``components`` (a mixture of the
    family) and ``fixed`` (what a greedy objective takes for the mixture so far).

    Attributes
    ----------
    unit : str
        Of the gain that is compared with ``tol``.
    outside_advice : str
        For a posterior that reaches where the density is zero.
    monotone : bool
        Whether every step minimises, so that a worse iterate can be refused.
    splits_first : bool
        Whether a component may be split in place of a search.
    noisy : bool
        Whether a search that finds nothing says little while draws see that something
        is left: its integrals want more draws.
    """

    unit: str
    outside_advice: str
    monotone: bool
    splits_first = False
    noisy = False
    # What is combined, as a message names it.
    kind: str
    # Hyperparameters of which only some values have a meaning here.
    allowed = {}

    @classmethod
    @abstractmethod
    def of(cls, step_size, corrective):
        """The combination of the hyperparameters with these names."""

    @abstractmethod
    def begin(self, target, mixture, settings):
        """The iterate of the mixture that a run begins with."""

    @abstractmethod
    def append(self, target, state, component, settings):
        """A new component beside the others, and all weights moved: iterate, `Move`."""

    @abstractmethod
    def refine(self, target, iterate, state, settings):
        """All components moved together, with weights on new draws."""

    @abstractmethod
    def redrawn(self, target, iterate, t, settings):
        """The same iterate on new draws, as many as the settings ask for."""

    @abstractmethod
    def gain(self, before, after):
        """What one iterate gains over another by their fresh draws, an `Estimate`."""

    def gap(self, target, state, component, settings):
        """The duality gap of a proposed component, an `Estimate`; nan without one."""
        return Estimate(float("nan"), float("nan"))

    @abstractmethod
    def least_gain(self, settings):
        """The gain above which an iterate is kept."""

    def split(self, target, state, settings):
        """The iterate with its heaviest component split in two, and all refined.

        None where components cannot be split.
        """
        return None

    def candidates(self, state, components):
        """Those of the components at modes that are worth a search."""
        return components


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
class Simplex(Combination):
    """Components on the simplex of weights, under the Kullback-Leibler divergence."""

    step_size: object
    corrective: str

    unit = "nats"
    kind = "mixtures"
    outside_advice = "use constraints=, objective='hellinger' or resample"

    @classmethod
    def of(cls, step_size, corrective):
        return cls(as_step_size(step_size), corrective)

    @property
    def monotone(self):
        return self.fully_corrective or self.step_size.monotone

    @property
    def fully_corrective(self):
        """Whether all weights are set anew after every step."""
        return self.corrective == "fully-corrective"

    # The step rules of the papers append what a search finds.
    splits_first = fully_corrective
    gain = staticmethod(elbo_gain)

    def begin(self, target, mixture, settings):
        iterate = SimplexIterate(mixture, self._pool(target, mixture, 0, settings))
        if mixture.n_components > 1:
            iterate = self._reweighted(iterate)
        return iterate.pruned(settings.max_components)

    def append(self, target, state, component, settings):
        """Direction, step size and, where asked, the corrective weights.

        Dresdner et al. 2021, Algorithm 1, lines 4 to 6.
        """
        pool = self._joined(target, state, Mixture.single(component), settings)
        mixture = state.mixture.append(component)
        began = perf_counter()
        table, weights = pool.weight_objective(), mixture.weights
        find = DIRECTIONS.get(self.corrective, frank_wolfe_direction)
        direction = find(table.slope(weights), weights, len(weights) - 1)
        step = self.step_size.choose(
            table, weights, direction, state.memory, state.iteration
        )
        if not isinstance(step, Step):
            raise TypeError(
                f"choose of step_size={self.step_size!r} must return a Step of "
                f"skboost.strategies; got {step!r}."
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

    def refine(self, target, iterate, state, settings):
        return self._refined(target, iterate.mixture, state.iteration, settings)

    def split(self, target, state, settings):
        """The heaviest component split in two, or the two heaviest, and all refined.

        From weight zero a component has a slope to climb only where it gains on its
        own; two halves that move together gain where none alone does.
        """
        rng = generator(settings.seed, state.iteration, SEARCH, 2)
        each = state.remaining.least / state.mixture.n_components
        # Two at once save garch11 an iteration, and three for all together took five
        # skewed coordinates 2.5 times as long; with exact expectations they lost 0.03
        # nats on breast cancer.
        much = not settings.exact and each > 1.5 * settings.tol
        heaviest = np.argsort(-state.mixture.weights, kind="stable")[: 1 + much]
        halves = state.mixture
        for k in heaviest:
            halves = split_component(target, halves, k, rng)
        return self._refined(target, halves, state.iteration, settings)

    def redrawn(self, target, iterate, t, settings):
        mixture = iterate.mixture
        return SimplexIterate(mixture, self._pool(target, mixture, t, settings))

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
        # Fewer draws for light components lost 0.02 nats on t2 synth, 0.08 on ds1_100.
        n, seed = settings.n_draws, settings.seed
        base = [
            component.matched_draws(n, generator(seed, t, REFINE, k))
            for k, component in enumerate(mixture.components)
        ]
        weights, components, exact = mixture.weights, mixture.components, settings.exact
        problem = JointELBO(target, components, base, weights, None, exact)
        # The next refinement goes on from where this one ends, and one that ended at a
        # share of 0.05 left ds1_100 at a saddle.
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
