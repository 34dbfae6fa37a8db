"""Boosting variational inference: ``init`` and ``step``, and nothing else.

The loop of Locatello et al. 2018 and Dresdner et al. 2021 (Algorithm 1 in both):
propose a component for the residual, append it at weight zero, choose a direction and
a step, move the weights. Pure: a state goes in, a state and a report come out.
"""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar

import numpy as np

from skboost._random import FRESH, POOL, PROBE, REFINE, SEARCH, generator
from skboost.boosting._certificate import missed
from skboost.boosting._greedy import propose
from skboost.boosting._growth import broadened
from skboost.boosting._modes import Box
from skboost.boosting._opening import opening
from skboost.boosting._ranks import leaves_rank_open, widest, with_rank
from skboost.boosting._refine import refine
from skboost.boosting._scout import Scout
from skboost.boosting._starts import split
from skboost.boosting._state import Info, State
from skboost.boosting._support import check_reached, collapsed, runaway
from skboost.frank_wolfe import apply, as_direction, minimise_on_simplex
from skboost.objectives import Residual, Rest
from skboost.posterior import (
    Estimate,
    FreshDraws,
    Mixture,
    PooledDraws,
    duality_gap,
    elbo_gain,
)
from skboost.targets import searching

_NONE = Estimate(float("nan"), float("nan"))
# Enough to tell 0.01 nats from nothing where half a variance is the KL.
_N_PROBE = 512
# Draws, in multiples of those a run begins with, once noise hides what is gained.
_FINER = 4
# A component stays only if it gains more than this share of `tol`.
_WORTH = 0.1
# Components at modes that every search tries.
MAX_LEADS = 32


@dataclass(frozen=True)
class Boosting:
    """Boosting variational inference on one target.

    Parameters
    ----------
    target : Target
        Unnormalised log posterior.
    family : VariationalFamily
        Of every component; each takes the best of its variants.
    objective : JointGain or ResidualGain
        What a new component maximises.
    step_size : StepSize
    corrective : {"fully-corrective", "pairwise", "away", "none"}
    refine : bool
        Whether old components move after a new one.
    n_draws : int
        Monte Carlo draws kept per component.
    n_restarts : int
        Starts searched for each new component.
    n_fresh : int
        Fresh draws for each reported estimate.
    max_components : int or None
    tol : float
        Nats; the probe for an exhausted residual uses it.
    starts : ndarray of shape (n_starts, dim)
        Where the first component is looked for.
    seed : int
    n_jobs : int or None
    box : Box or None
        In which further starts are drawn.
    max_evaluations : float
        Of the target, of which looking for modes may take a share.
    """

    target: object
    family: object
    objective: object
    step_size: object
    corrective: str
    refine: bool
    n_draws: int
    n_restarts: int
    n_fresh: int
    max_components: int | None
    tol: float
    starts: np.ndarray
    seed: int
    n_jobs: int | None = None
    box: Box | None = None
    max_evaluations: float = np.inf

    # Of the gain that is compared with `tol`.
    unit: ClassVar[str] = "nats"
    # For a posterior that reaches where the density is zero.
    outside_advice: ClassVar[str] = (
        "use constraints=, objective='hellinger' or resample"
    )

    @property
    def exact(self):
        """Whether expectations of the log joint need no draws."""
        return getattr(self.target, "exact_gaussian", False) and hasattr(
            self.family, "structure"
        )

    @property
    def _searched(self):
        """The target as searches see it; draws of mixtures see the target itself."""
        return searching(self.target)

    @property
    def scout(self):
        """Looks for modes, from the starts and around mixtures."""
        # Variants share their parameters' layout, and the last has the lightest tail.
        return Scout(
            self._searched, with_rank(self.family.variants()[-1]), self.starts,
            self.box, self.seed, self.max_evaluations,
        )  # fmt: skip

    @property
    def unprobed(self):
        """Whether there may be modes far off that nothing looks for."""
        return self.scout.looks and not self.scout.probes

    @property
    def monotone(self):
        """Whether every step minimises, so that a worse iterate can be refused."""
        return self.corrective == "fully-corrective" or self.step_size.monotone

    def init(self):
        """Ordinary variational inference, at every mode that the starts lead to.

        Returns
        -------
        State, Info
        """
        began = perf_counter()
        modes, mixture = self._beginning()
        mixture, pool = self._opened(mixture)
        fresh = self._fresh(mixture, 0)
        check_reached(self.target, fresh, self.starts)
        remaining = self._remaining(fresh, 0)
        modes = self._around(mixture, modes, 0)
        state = State(1, mixture, pool, fresh, None, fresh, 1, remaining, modes)
        family, params = mixture.components[int(mixture.weights.argmax())]
        info = Info(
            1, "first", "first", 1.0, None, mixture.n_components, fresh.elbo(), _NONE,
            _NONE, family.entropy(params), remaining, remaining.spread < self.tol,
            perf_counter() - began, 0.0, self._runaway(mixture, 0),
        )  # fmt: skip
        return state, info

    def step(self, state):
        """One boosting iteration.

        Parameters
        ----------
        state : State

        Returns
        -------
        State, Info
        """
        return self._finer(state.finer)._stepped(state)

    def _stepped(self, state):
        began, t = perf_counter(), state.iteration
        modes = self._around(state.mixture, state.modes, t)
        single, gap = self._proposed(state, modes.heaviest(MAX_LEADS))
        pool = self._joined(state, single)
        family, params = single.components[0]
        mixture = state.mixture.append(family, params)
        weights_began = perf_counter()
        step, weights = self._move_weights(state, mixture, pool)
        seconds_weights = perf_counter() - weights_began
        proposals = [self._pruned(mixture.with_weights(weights), pool)]
        if self.refine and step.gamma > 0:
            proposals.insert(0, self._refined(proposals[0][0], t))
        proposal, fresh, gain = self._first_better(state, proposals)
        kind = step.direction.kind
        if self.refine and self._stuck(state, gain):
            apart, *found = self._apart(state)
            if found[1].value > gain.value:
                proposal, (fresh, gain), kind = apart, found, "split"
        if self.monotone and not self._worth(gain):
            after = replace(state, iteration=t + 1, memory=step.memory, modes=modes)
            kind = "rejected"
        else:
            after = self._advanced(state, *proposal, fresh, step.memory, modes)
        after = self._refreshed(after, gain)
        info = Info(
            t + 1, kind, step.branch, step.gamma, step.curvature,
            after.mixture.n_components, after.fresh.elbo(), gain, gap,
            family.entropy(params), after.remaining,
            after.remaining.spread < self.tol,
            perf_counter() - began, seconds_weights, self._runaway(after.mixture, t),
        )  # fmt: skip
        return after, info

    def _beginning(self):
        """Modes that the starts lead to, and the mixture that a run begins with."""
        modes = self.scout.from_starts()
        return modes, opening(self.scout, modes, self)

    def _around(self, mixture, modes, *key):
        """The known modes, and those that lie around a mixture."""
        return self.scout.around(mixture, modes, *key)

    def missed(self, mixture, modes, log_evidence, *key):
        """Modes outside a mixture that probes find, the heaviest first."""
        return missed(self.scout, mixture, modes, log_evidence, self.tol, *key)

    def _candidate(self, state, leads):
        """Family and parameters of the greedy step's component."""
        rest = Rest.of(state.mixture, state.pool)
        residual = Residual(self._searched, rest, state.iteration, self.exact, leads)
        found = propose(
            residual,
            self.objective,
            widest(self.family, state.mixture),
            self.n_draws,
            self.n_restarts,
            self.tol,
            self.seed,
            self.n_jobs,
        )
        if leaves_rank_open(self.family):
            rng = generator(self.seed, state.iteration, SEARCH, 1)
            found = broadened(
                residual, self.objective, found, self.n_draws, self.tol, rng
            )
        return found.family, found.params

    def _proposed(self, state, leads):
        """The greedy step's component, as a mixture of one, and the duality gap."""
        single = Mixture.single(*self._candidate(state, leads))
        fresh = self._fresh(single, state.iteration, 1)
        return single, duality_gap(state.fresh, fresh, state.pool)

    def _first_better(self, state, proposals):
        """The first proposal worth having on fresh draws; the last if none is.

        Refinement can fit its draws so well that the plain step is the better one.
        """
        for proposal in proposals:
            fresh = self._fresh(proposal[0], state.iteration)
            gain = elbo_gain(state.fresh, fresh)
            if self._worth(gain):
                break
        return proposal, fresh, gain

    def _stuck(self, state, gain):
        """Whether a search found little although draws see that more is left.

        Exact expectations leave few searches stuck.
        """
        left = state.remaining.value - state.remaining.se
        return not self.exact and left > self.tol >= gain.value

    def _apart(self, state):
        """The heaviest component split in two, all refined: what it is and gains.

        From weight zero a component has a slope to climb only where it gains on its
        own; two halves that move together gain where none alone does.
        """
        t = state.iteration
        rng = generator(self.seed, t, SEARCH, 2)
        halves = split(self._searched, state.mixture, rng)
        return self._first_better(state, [self._refined(halves, t)])

    def _worth(self, gain):
        """Whether an iterate is kept: for less than that, no mixture grows."""
        return gain.value > _WORTH * self.tol

    # --- the finite problem

    def _opened(self, mixture):
        """The first mixture with the best weights on its pool, and the pool."""
        pool = self._pool(mixture, 0)
        if mixture.n_components > 1:
            weights, _ = minimise_on_simplex(pool.weight_objective(), mixture.weights)
            mixture = mixture.with_weights(weights)
        return self._pruned(mixture, pool)

    def _move_weights(self, state, mixture, pool):
        """Direction, step size and, where asked, the corrective weights."""
        table = pool.weight_objective()
        weights = mixture.weights
        direction = as_direction(self.corrective).find(
            table.slope(weights), weights, len(weights) - 1
        )
        step = self.step_size.choose(
            table, weights, direction, state.memory, state.iteration
        )
        moved = apply(weights, step.direction, step.gamma)
        if self.corrective == "fully-corrective":
            moved, _ = minimise_on_simplex(table, moved)
        return step, moved

    def _pruned(self, mixture, pool):
        """Drop zero weights, and the lightest above ``max_components``."""
        weights = mixture.weights
        kept = weights > 0
        if self.max_components is not None and kept.sum() > self.max_components:
            kept = np.zeros(len(weights), dtype=bool)
            kept[np.argsort(-weights, kind="stable")[: self.max_components]] = True
        return mixture.keep(kept), pool.keep(kept)

    # --- the density problem

    def _refined(self, mixture, t):
        """All components moved together, and their weights set on new draws."""
        base = [
            family.matched_draws(
                self.n_draws, self.target.dim, generator(self.seed, t, REFINE, k)
            )
            for k, (family, _) in enumerate(mixture.components)
        ]
        mixture = refine(self._searched, mixture, base, self.exact, self.tol)
        pool = self._pool(mixture, t)
        if self.corrective == "fully-corrective":
            weights, _ = minimise_on_simplex(pool.weight_objective(), mixture.weights)
            mixture = mixture.with_weights(weights)
        return self._pruned(mixture, pool)

    # --- draws

    def _finer(self, factor):
        """This engine with that many times the draws and the starts of a search."""
        if factor == 1:
            return self
        return replace(
            self,
            n_draws=factor * self.n_draws,
            n_fresh=factor * self.n_fresh,
            n_restarts=factor * self.n_restarts,
        )

    def _refreshed(self, state, gain):
        """The state on more draws, where their noise hides a gain that matters.

        Searches then fit the noise, and an iterate is kept or refused by chance. Exact
        expectations leave little noise, and where an objective does not seek what is
        gained, no number of draws helps.
        """
        hidden = 2.0 * gain.se > max(self.tol, gain.value)
        helps = self.monotone and self.objective.seeks_gain and not self.exact
        if state.finer > 1 or not (helps and hidden):
            return state
        engine, t = self._finer(_FINER), state.iteration
        fresh = engine._fresh(state.mixture, t, 2)
        return replace(
            state,
            pool=engine._pool(state.mixture, t),
            fresh=fresh,
            best=fresh,
            remaining=engine._remaining(fresh, t),
            finer=_FINER,
        )

    def _pool(self, mixture, t):
        base = [
            family.base_draws(
                self.n_draws, self.target.dim, generator(self.seed, t, POOL, k)
            )
            for k, (family, _) in enumerate(mixture.components)
        ]
        return PooledDraws.of(self.target, mixture, base, self.exact)

    def _joined(self, state, single):
        new = self._pool(single, state.iteration)
        return state.pool.join(
            new,
            single.log_components(state.pool.theta),
            state.mixture.log_components(new.theta),
        )

    def _fresh(self, mixture, *key):
        rng = generator(self.seed, FRESH, *key)
        return FreshDraws.of(self.target, mixture, self.n_fresh, rng, self.exact)

    def _remaining(self, fresh, t):
        rng = generator(self.seed, PROBE, t)
        return fresh.remaining_kl(self.target, _N_PROBE, rng)

    def _runaway(self, mixture, t):
        rng = generator(self.seed, PROBE, t, 1)
        return runaway(self._searched, mixture, self.starts, rng) or collapsed(
            self._searched, mixture, rng
        )

    def _advanced(self, state, mixture, pool, fresh, memory, modes):
        best, best_iteration = state.best, state.best_iteration
        if self.monotone or elbo_gain(best, fresh).value > 0:
            best, best_iteration = fresh, state.iteration + 1
        return State(
            iteration=state.iteration + 1,
            mixture=mixture,
            pool=pool,
            fresh=fresh,
            memory=memory,
            best=best,
            best_iteration=best_iteration,
            remaining=self._remaining(fresh, state.iteration),
            modes=modes,
            finer=state.finer,
        )
