"""Searches that are stuck, noise that hides gains, and when a run has converged."""

from dataclasses import replace
from types import SimpleNamespace

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost._solver import ascend, climb
from skboost.approximation import FreshDraws
from skboost.boosting._moves import Search, Split
from skboost.fitting import Limits, Options, boost

from ..kinds import over


class Quadratic:
    """``-(x - 1)^T diag(curvature) (x - 1) / 2`` with a count of evaluations."""

    limits = np.full(6, np.inf)
    start = np.zeros(6)

    def __init__(self, scale):
        self.curvature = np.array([1.0, 1.0, 1e-2, 1e-2, 1e-4, 1e-4])
        self.n = 0
        if scale:
            self.scale = 1.0 / np.sqrt(self.curvature)

    def value_and_gradient(self, x):
        self.n += 1
        slope = -self.curvature * (x - 1.0)
        return 0.5 * float(slope @ (x - 1.0)), slope


class TestSteps:
    def test_scaled_coordinates_take_fewer_evaluations(self):
        counts = {}
        for scale in (False, True):
            problem = Quadratic(scale)
            x, value = ascend(problem, tol=1e-12)
            counts[scale] = problem.n
            assert_allclose(value, 0.0, atol=1e-6)
            assert_allclose(x[:2], 1.0, atol=1e-3)
        # With unit curvature the gradient is the step.
        assert counts[True] <= 4 < counts[False]

    def test_limits_hold_in_the_coordinates_of_the_problem(self):
        problem = Quadratic(True)
        problem.limits = np.full(6, 0.5)
        x, _ = ascend(problem, tol=1e-12)
        assert np.abs(x).max() < 0.5
        assert_allclose(x[:4], 0.5, atol=1e-2)

    def test_a_natural_first_step_does_not_overshoot_what_is_near(self):
        far = []

        def value_and_gradient(z):
            far.append(np.abs(z).max())
            return -0.5 * float(z @ z), -z

        options = {"maxiter": 5, "gtol": 1e-7}
        climb(value_and_gradient, np.full(3, 1e-3), options, 1e-12, True)
        assert max(far) < 2e-3

    def test_the_start_is_asked_for_once(self):
        problem = Quadratic(True)
        problem.start = np.ones(6)
        ascend(problem)
        assert problem.n == 1

    def test_a_flat_search_ends_before_its_last_step(self):
        counts, values = [], []
        for share in (0.0, 0.5):
            problem = Quadratic(False)
            values.append(ascend(problem, tol=1e-12, share=share)[1])
            counts.append(problem.n)
        assert counts[1] < counts[0]
        start = Quadratic(False).value_and_gradient(np.zeros(6))[0]
        # What is given up is little beside what was gained.
        assert values[0] - values[1] < 0.5 * (values[1] + abs(start))


class TestFirstMixture:
    """It has a component at every known mode with mass."""

    @staticmethod
    def two_modes(log_share):
        """Log density of a mode at the origin and one at (12, 12)."""
        return lambda t: anp.logaddexp(
            -0.5 * anp.sum(t**2, axis=1),
            log_share - 0.5 * anp.sum((t - 12.0) ** 2, axis=1),
        )

    @pytest.mark.parametrize(
        ("log_share", "centre"),
        [(30.0, 12.0), (1.0, 12.0 / (1.0 + np.exp(-1.0))), (-12.0, 0.0)],
    )
    def test_it_goes_where_the_mass_is(self, engine, log_share, centre):
        state, _ = engine(self.two_modes(log_share), dim=2, search_modes=True).init()
        assert len(state.modes.components) == 2
        assert_allclose(state.mixture.mean(), centre, atol=0.5)


class TestSplit:
    """A component in two halves, along the line in which it is skewed."""

    SKEWED = staticmethod(lambda t: anp.sum(2.0 * t - anp.exp(t), axis=1))

    def test_it_gains_where_a_search_is_stuck_and_takes_its_place(self, engine):
        boosting = engine(self.SKEWED, dim=4, refine=True, n_draws=512, n_fresh=4096)
        state, _ = boosting.init()
        parts = boosting.engine, boosting.target, state, boosting.settings
        trial = Split.trial(*parts)
        gain = trial.gain
        assert trial.iterate.components.n_components == 2
        assert gain.value > 5 * gain.se
        after, info = boosting.step(state)
        assert info.move.kind == "split"
        assert info.gain.value > boosting.settings.tol
        assert after.mixture.n_components == 2
        assert after.split_first
        # Two are split where much is left for each.
        for left, n_components in ((0.025, 3), (0.035, 4)):
            much = replace(
                after, remaining=after.remaining._replace(value=left, se=0.0)
            )
            parts = boosting.target, much, boosting.settings
            halves = boosting.engine.combination.split(*parts)
            assert halves.components.n_components == n_components

    @over("corrective", ["none", "pairwise"], slow=["pairwise"])
    def test_the_steps_of_the_papers_come_before_splits(
        self, engine, corrective, monkeypatch
    ):
        boosting = engine(self.SKEWED, dim=4, refine=True, corrective=corrective,
                          n_draws=512, n_fresh=1024)  # fmt: skip
        state, _ = boosting.init()
        tried = []

        def noted(move, trial):
            def tells(*arguments):
                tried.append(move)
                return trial(*arguments)

            return staticmethod(tells)

        for move in (Search, Split):
            monkeypatch.setattr(move, "trial", noted(move, move.trial))
        boosting.step(state)
        assert state.split_first and tried[0] is Search


class TestDraws:
    def test_every_iteration_has_fresh_draws_of_its_own(self, engine):
        boosting = engine("normal", dim=2)
        state, _ = boosting.init()
        settings = boosting.settings
        target, fresh = boosting.target, boosting.engine._fresh
        drawn = [fresh(target, state.mixture, settings, t).theta for t in (1, 2)]
        assert not np.isin(drawn[0], drawn[1]).any()
        assert not np.isin(drawn[0], state.iterate.pool.theta).any()

    def test_the_gap_of_every_iteration_has_draws_of_its_own(self, engine, monkeypatch):
        boosting = engine("normal", dim=2)
        state, _ = boosting.init()
        component, drawn = state.mixture.components[0], []
        of = FreshDraws.of

        def noted(*arguments, **more):
            fresh = of(*arguments, **more)
            drawn.append(fresh.theta)
            return fresh

        monkeypatch.setattr(FreshDraws, "of", noted)
        for t in (1, 2):
            later = replace(state, iteration=t)
            boosting.combination.gap(
                boosting.target, later, component, boosting.settings
            )
        assert len(drawn) == 2 and not np.isin(*drawn).any()

    def test_refined_components_have_the_best_weights(self, engine):
        boosting = engine("cauchy", refine=True, n_draws=256)
        state, _ = boosting.init()
        after, _ = boosting.step(state)
        iterate = boosting.combination.refine(
            boosting.target, after.iterate, after, boosting.settings
        )
        table, weights = iterate.pool.weight_objective(), iterate.mixture.weights
        slope = table.slope(weights)
        assert weights @ slope - slope.min() < 1e-6


class TestLastLook:
    """Before a run says that it has converged it looks once more for modes."""

    def only_its_own(self, engine):
        """A state of one component that knows of no mode but its own."""
        start = {"starts": np.array([[8.0]])}
        state, _ = engine("far modes", **start).init()
        assert state.mixture.n_components == 1
        return engine("far modes", search_modes=True, **start), state

    def test_a_mode_that_searches_missed_gets_a_component(self, engine):
        boosting, state = self.only_its_own(engine)
        modes, again = boosting.last_look(state)
        assert modes is again.modes
        assert len(again.modes.components) == 2
        assert min(mode.location()[0] for mode in again.modes.components) < -6.0
        assert again.mixture.n_components == 2
        assert again.fresh.elbo().value > state.fresh.elbo().value + 0.3

    def test_it_changes_nothing_where_nothing_is_missed(self, engine):
        boosting = engine("normal", dim=2, search_modes=True)
        state, _ = boosting.init()
        assert boosting.last_look(state)[1] is None

    def test_the_run_goes_on_instead_of_ending(self, engine):
        boosting, state = self.only_its_own(engine)
        _, info = boosting.init()
        first = replace(info, within_tol=True, remaining=state.remaining)
        found = SimpleNamespace(
            kind=boosting.engine.kind,
            init=lambda target: (state, first),
            step=boosting.engine.step,
            last_look=boosting.engine.last_look,
            settings=boosting.settings,
            facts=lambda: boosting.engine.facts()._replace(exact=True),
            proposer=boosting.engine.proposer,
            combination=boosting.combination,
            draws_anew=True,
            held_draws_are_new=False,
            by_nodes=False,
            begins_with=boosting.engine.begins_with,
        )
        done = boost(boosting.target, Options(found, Limits(3, tol=1e-2))).run
        assert done.n_iter > 1
        assert done.state.mixture.n_components == 2
        # Where a limit is reached as well, nothing is looked for.
        done = boost(boosting.target, Options(found, Limits(1, tol=1e-2))).run
        assert done.n_iter == 1 and done.converged
