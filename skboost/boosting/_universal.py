"""Universal boosting variational inference (UBVI): Campbell and Li 2019, Algorithm 1.

Components are square roots of densities, and what is maximised is their overlap with
the root of the posterior: the Hellinger distance. Pure as `Boosting` is: ``init`` and
``step``.
"""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar

import numpy as np

from skboost._parallel import chunked_map
from skboost._random import POOL, REFINE, SEARCH, generator
from skboost.boosting._engine import MAX_LEADS, Boosting
from skboost.boosting._opening import opening
from skboost.boosting._ranks import with_rank
from skboost.boosting._solver import SMALLEST_TOL, ascend
from skboost.boosting._starts import starting_components
from skboost.boosting._state import Info, State
from skboost.boosting._support import check_reached
from skboost.frank_wolfe import best_coefficients, geodesic_step
from skboost.objectives import (
    JointRoots,
    ResidualRoot,
    RootControl,
    between_roots,
    log_rule,
    root_start_values,
    rule_draws,
)
from skboost.posterior import (
    Estimate,
    RootDraws,
    Roots,
    hellinger_gain,
    squared_hellinger,
)

_NONE = Estimate(float("nan"), float("nan"))
_N_RANK = 128
# Cosine with the control above which a lead is no news.
_PARALLEL = 0.99
# Refinement ends where an iteration gains less than this share of what is left.
_SHARE = 3e-4
_SCOUT_ITER = 6
# Iterations of a refinement times its roots, and the range of the iterations: one that
# ends early is gone on with after the next root, and costs the square of their number.
_REFINE_WORK, _REFINE_ITER = 300, (10, 40)
# The coefficients and the control that their noise is measured against settle within
# a few rounds.
_N_ROUNDS = 3


@dataclass(frozen=True)
class RootState(State):
    """A `State` whose mixture is the square of a combination of roots.

    Attributes
    ----------
    roots : Roots
    control : RootControl
        The same combination with its overlap.
    """

    roots: object = None
    control: object = None


@dataclass(frozen=True)
class UniversalBoosting(Boosting):
    """Boosting under the Hellinger distance; parameters as in `Boosting`.

    ``corrective="none"`` is the geodesic step of the paper's equation 4,
    ``"fully-corrective"`` its weights for all roots; ``refine`` moves all roots.
    """

    unit: ClassVar[str] = "of squared Hellinger distance"
    outside_advice: ClassVar[str] = "use constraints= or resample"

    @property
    def exact(self):
        """Whether expectations need no draws: roots have none that are exact."""
        return False

    @property
    def monotone(self):
        """Whether every step minimises: here every one does."""
        return True

    def init(self):
        """The root with the largest overlap at every mode; see `Boosting.init`."""
        began = perf_counter()
        modes = self.scout.from_starts()
        # Every root has the same rank.
        fixed = replace(self, family=with_rank(self.family))
        opened = opening(self.scout, modes, fixed)
        params = np.array([p for _, p in opened.components])
        roots = Roots.of(self.family, params, np.sqrt(opened.weights))
        pool = self._pool(roots, 0)
        if self.refine or roots.n_components == 1:
            # One root alone is not refined by this: the root with the largest overlap
            # is the first component of Algorithm 1.
            roots = self._refined(RootControl(roots, pool.log_overlap(roots)), 0)
            pool = self._pool(roots, 0)
        if roots.n_components > 1 and self.corrective == "fully-corrective":
            roots, pool = self._pruned(*self._settled(roots, pool))
        mixture = roots.mixture()
        fresh = self._fresh(mixture, 0)
        check_reached(self.target, fresh, self.starts)
        remaining = self._remaining(fresh, 0)
        state = RootState(
            1, mixture, pool, fresh, None, fresh, 1, remaining, modes,
            roots=roots, control=RootControl(roots, pool.log_overlap(roots)),
        )  # fmt: skip
        info = Info(
            1, "first", "first", 1.0, None, roots.n_components, fresh.elbo(), _NONE,
            _NONE, self.family.entropy(roots.params[0]), remaining,
            remaining.spread < self.tol, perf_counter() - began, 0.0,
            self._runaway(mixture, 0),
        )  # fmt: skip
        return state, info

    def step(self, state):
        """One more root; see `Boosting.step`."""
        began, t = perf_counter(), state.iteration
        modes = self.scout.around(state.mixture, state.modes, t)
        state = replace(state, modes=modes)
        params = self._proposed(state)
        pool = self._joined(state, params)
        weights_began = perf_counter()
        roots = self._combined(state, params, pool)
        seconds_weights = perf_counter() - weights_began
        gamma = float(roots.shares[-1])
        proposals = [self._pruned(roots, pool)]
        if self.refine and gamma > 0:
            proposals.insert(0, self._moved(state, *proposals[0], t))
        (roots, pool), fresh, gain = self._first_closer(state, proposals)
        if gain.value > 0:
            after = self._after(state, roots, pool, fresh)
        else:
            after = replace(state, iteration=t + 1)
        info = Info(
            t + 1, "frank-wolfe" if gain.value > 0 else "rejected", "geodesic", gamma,
            None, after.roots.n_components, after.fresh.elbo(), gain, _NONE,
            self.family.entropy(params), after.remaining,
            after.remaining.spread < self.tol, perf_counter() - began,
            seconds_weights, self._runaway(after.mixture, t),
        )  # fmt: skip
        return after, info

    # --- the root problem

    def _proposed(self, state):
        """Parameters of the component whose root gains most."""
        rng = generator(self.seed, state.iteration, SEARCH)
        base = rule_draws(self.family, self.n_draws, self.target.dim, rng)
        starts = starting_components(
            self._searched, state.mixture, self.family, 2 * self.n_restarts + 2, rng,
            owners=state.roots.components,
        )  # fmt: skip
        starts += self._leads(state)
        ranking = rule_draws(self.family, _N_RANK, self.target.dim, rng)
        values = root_start_values(
            self._searched, state.control, self.family, starts, ranking
        )
        best = np.argsort(-values, kind="stable")[: self.n_restarts]
        problems = [
            ResidualRoot(self._searched, state.control, self.family, starts[k], base)
            for k in best
        ]
        scouted = chunked_map(_scout, problems, self.n_jobs, "shared")
        winner = int(np.argmax([value for _, value in scouted]))
        x, _ = ascend(problems[winner], scouted[winner][0], tol=SMALLEST_TOL)
        return problems[winner].unpack(x)

    def _leads(self, state):
        """Components at modes, save one that is all of the mixture already.

        At the control itself the objective is nothing divided by nothing.
        """
        leads = state.modes.heaviest(MAX_LEADS)
        if not leads:
            return []
        cosines, _ = between_roots(self.family, np.array(leads), state.control.roots)
        return [p for p, c in zip(leads, cosines, strict=True) if c < _PARALLEL]

    def _combined(self, state, params, pool):
        """The old roots and the new one in the best combination."""
        old = state.roots
        if self.corrective == "fully-corrective":
            start = np.append(old.coefficients, 0.0)
            roots = Roots.of(self.family, np.vstack([old.params, params]), start)
            return self._settled(roots, pool)[0]
        (between,), _ = between_roots(self.family, params[None], old)
        overlap = self._overlaps(state.control, params, pool)
        kept, new = geodesic_step(1.0, overlap, between)
        return Roots.of(
            self.family,
            np.vstack([old.params, params]),
            np.append(kept * old.coefficients, new),
        )

    def _overlaps(self, control, params, pool):
        roots = Roots.of(
            self.family,
            np.vstack([control.roots.params, params]),
            np.append(control.roots.coefficients, 0.0),
        )
        return pool.overlaps(RootControl(roots, control.log_overlap))[-1]

    def _settled(self, roots, pool):
        """The best coefficients, against a control that they themselves make."""
        for _ in range(_N_ROUNDS):
            control = RootControl(roots, pool.log_overlap(roots))
            overlaps = pool.overlaps(control)
            if not overlaps.max() > 0:
                break
            roots = roots.with_coefficients(best_coefficients(roots.gram, overlaps))
        return roots, pool

    def _pruned(self, roots, pool):
        kept = roots.coefficients > 0
        if self.max_components is not None and kept.sum() > self.max_components:
            order = np.argsort(-roots.shares, kind="stable")
            kept = np.isin(np.arange(len(kept)), order[: self.max_components])
        return (roots, pool) if kept.all() else (roots.keep(kept), pool.keep(kept))

    def _refined(self, control, t, tol=SMALLEST_TOL):
        """All roots moved together towards a larger overlap."""
        roots = control.roots
        base = [
            rule_draws(
                self.family, self.n_draws, self.target.dim,
                generator(self.seed, t, REFINE, k),
            )
            for k in range(roots.n_components)
        ]  # fmt: skip
        problem = JointRoots(self._searched, control, roots, base)
        n_iter = int(np.clip(_REFINE_WORK // roots.n_components, *_REFINE_ITER))
        x, _ = ascend(problem, max_iter=n_iter, tol=tol)
        return Roots.of(self.family, *problem.unpack(x))

    def _moved(self, state, roots, pool, t):
        """Refinement, to a share of what is left, and new draws."""
        left = squared_hellinger(state.fresh).value
        control = RootControl(roots, pool.log_overlap(roots))
        roots = self._refined(control, t, max(_SHARE * left, SMALLEST_TOL))
        pool = self._pool(roots, t)
        if self.corrective == "fully-corrective":
            roots, pool = self._settled(roots, pool)
        return self._pruned(roots, pool)

    # --- draws

    def _pool(self, roots, t):
        eps = [
            rule_draws(
                self.family, self.n_draws, self.target.dim,
                generator(self.seed, t, POOL, k),
            )
            for k in range(roots.n_components)
        ]  # fmt: skip
        theta = np.concatenate(
            [
                self.family.transport(p, e)
                for p, e in zip(roots.params, eps, strict=True)
            ]
        )
        return RootDraws(
            theta,
            self.target.log_density(theta),
            *self._log_densities(roots, theta),
            np.repeat(np.arange(len(eps)), [len(e) for e in eps]),
        )

    def _log_densities(self, roots, theta):
        """Log densities of the components, and of what is drawn for them."""
        table = roots.components.log_components(theta)
        log_r, _ = log_rule(self.family, roots.peaks - table, self.target.dim)
        return table, roots.peaks + log_r

    def _joined(self, state, params):
        single = Roots.of(self.family, params, np.ones(1))
        new = self._pool(single, state.iteration)
        return state.pool.join(
            new,
            self._log_densities(single, state.pool.theta),
            self._log_densities(state.roots, new.theta),
        )

    def _first_closer(self, state, proposals):
        """The first proposal that gains on fresh draws; the last if none does."""
        for proposal in proposals:
            fresh = self._fresh(proposal[0].mixture(), state.iteration)
            gain = hellinger_gain(state.fresh, fresh)
            if gain.value > 0:
                break
        return proposal, fresh, gain

    def _after(self, state, roots, pool, fresh):
        t = state.iteration
        return RootState(
            t + 1, fresh.mixture, pool, fresh, None, fresh, t + 1,
            self._remaining(fresh, t), state.modes,
            roots=roots, control=RootControl(roots, pool.log_overlap(roots)),
        )  # fmt: skip


def _scout(problem):
    return ascend(problem, max_iter=_SCOUT_ITER, tol=SMALLEST_TOL)
