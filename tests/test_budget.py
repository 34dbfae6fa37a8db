"""Limits of time and of evaluations, which bind within an iteration."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning

from skboost import BoostedBayesianLogisticRegression, BoostedGaussianMixture
from skboost._base import make_engine
from skboost._budget import Budget, BudgetSpent, WatchedTarget
from skboost._callbacks import Limits, run
from skboost.mixture import SVIGaussianMixture
from skboost.targets import CallableTarget

SECOND = 1.0


class Clock:
    """A clock that stands still while nothing is evaluated."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def slow(target, clock):
    """The target, whose every batch of evaluations takes a second of the clock."""

    class Slow(WatchedTarget):
        def tolerant(self):
            return self

        def __getattr__(self, name):
            found = super().__getattr__(name)
            if callable(found):
                clock.now += SECOND
            return found

    return Slow(target, Budget())


def bumps(theta):
    return np.logaddexp(
        -0.5 * ((theta[:, 0] - 2) / 0.4) ** 2, -0.5 * (theta[:, 0] + 2) ** 2
    )


def bumps_gradient(theta):
    near, far = theta - 2, theta + 2
    share = np.exp(-0.5 * (near / 0.4) ** 2 - bumps(theta)[:, None])
    return -share * near / 0.16 - (1 - share) * far


class TestBudget:
    def test_it_is_spent_when_the_time_is_over(self, clock):
        budget = Budget(max_time=3.0, clock=clock)
        assert budget.spent is None
        clock.now = 3.0
        assert "max_time=3.0" in budget.spent
        with pytest.raises(BudgetSpent, match="max_time=3.0"):
            budget.check()

    def test_a_part_is_spent_before_the_whole(self, clock):
        budget = Budget(max_time=4.0, clock=clock)
        clock.now = 2.5
        assert budget.part(0.5).spent and not budget.part(0.75).spent
        assert budget.spent is None
        assert Budget().part(0.5).spent is None

    def test_it_counts_the_evaluations_of_its_target(self):
        target = CallableTarget(bumps, 1, bumps_gradient)
        before = target.n_evaluations
        budget = Budget(max_evaluations=before + 5, target=target)
        target.log_density(np.zeros((4, 1)))
        assert budget.spent is None
        target.log_density(np.zeros((1, 1)))
        assert f"max_evaluations={before + 5}" in budget.spent

    def test_without_limits_it_is_never_spent(self):
        assert not Budget().limited
        assert Budget().spent is None

    def test_a_share_is_one_of_what_is_left(self, clock):
        target = CallableTarget(bumps, 1, bumps_gradient)
        target.log_density(np.zeros((20, 1)))
        before = target.n_evaluations
        budget = Budget(4.0, before + 20, target, clock)
        clock.now = 2.0
        target.log_density(np.zeros((10, 1)))
        half = budget.share(0.5)
        assert (half.max_time, half.max_evaluations) == (1.0, before + 15)
        clock.now = 3.0
        assert half.spent is not None and budget.spent is None
        assert not Budget().share(0.5).limited

    def test_a_watched_target_computes_only_while_the_budget_lasts(self, clock):
        target = CallableTarget(bumps, 1, bumps_gradient)
        watched = WatchedTarget(target, Budget(max_time=1.0, clock=clock))
        theta = np.zeros((3, 1))
        assert np.array_equal(watched.log_density(theta), target.log_density(theta))
        assert watched.dim == 1
        assert not hasattr(watched, "expected_log_density")
        clock.now = 1.0
        for view in (watched, watched.tolerant()):
            with pytest.raises(BudgetSpent):
                view.value_and_score(theta)


class TestRuns:
    """The engine under a clock that every batch of evaluations moves by a second."""

    @pytest.fixture
    def make(self, clock):
        def make(**chosen):
            target = slow(CallableTarget(bumps, 1, bumps_gradient), clock)
            params = {
                "family": "gaussian",
                "objective": "kl",
                "step_size": "line-search",
                "corrective": "fully-corrective",
                "refine": True,
                "n_draws": 64,
                "max_components": None,
                "tol": 0.0,
            } | chosen
            return make_engine(target, params, np.zeros((1, 1)), 0, None)

        return make

    @pytest.mark.parametrize("objective", ["kl", "hellinger"])
    @pytest.mark.parametrize("max_time", [40, 200])
    def test_time_is_exceeded_by_one_batch_at_most(
        self, make, clock, objective, max_time
    ):
        engine = make(objective=objective, stopping="gain")
        first = run(engine, Limits(1, tol=0.0), clock=clock)
        needed = clock.now
        clock.now = 0.0
        limits = Limits(1000, tol=0.0, max_time=max_time)
        done = run(engine, limits, clock=clock)
        # The first mixture is finished whatever it takes: its draws have to be known.
        assert clock.now <= max(max_time, needed) + SECOND
        assert done.n_iter >= 1 == first.n_iter
        assert f"max_time={max_time}" in done.message
        assert done.spent
        assert not done.converged

    def test_the_first_mixture_is_as_good_as_the_time_allows(self, make, clock):
        engine = make()
        used, elbos = [], []
        for max_time in (1, 1e6):
            clock.now = 0.0
            done = run(engine, Limits(1, tol=0.0, max_time=max_time), clock=clock)
            used.append(clock.now)
            elbos.append(done.state.fresh.elbo().value)
        assert used[0] < 0.5 * used[1]
        assert np.isfinite(elbos[0])
        assert elbos[0] < elbos[1]

    def test_a_run_that_was_cut_short_goes_on_as_if_it_had_not_been(self, make, clock):
        engine = make()
        whole = run(engine, Limits(4, tol=0.0), clock=clock)
        clock.now = 0.0
        part = run(engine, Limits(4, tol=0.0, max_time=150), clock=clock)
        assert 1 <= part.n_iter < 4
        rest = run(engine, Limits(4, tol=0.0), part, clock=clock)
        assert np.array_equal(whole.state.mixture.weights, rest.state.mixture.weights)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (BoostedBayesianLogisticRegression(tol=0.0), load_breast_cancer),
        (BoostedGaussianMixture(3, tol=0.0), load_iris),
        (SVIGaussianMixture(3, tol=0.0, batch_size=20), load_iris),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_fit_whose_time_is_over_leaves_every_attribute(model, data):
    X, y = data(return_X_y=True)
    model.set_params(max_time=1e-9, max_iter=1000, random_state=0)
    with warnings.catch_warnings():
        # What is left may be worth a warning, or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X / X.std(axis=0), y)
    assert model.n_iter_ == 1
    assert "max_time" in model.message_
    assert np.isfinite(model.elbo_)
    assert not model.converged_
    # What was computed until then is not thrown away.
    fitted = getattr(model, "coef_", getattr(model, "means_", None))
    assert fitted.any()
