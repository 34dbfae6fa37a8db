"""Limits of time and of evaluations, which bind within an iteration."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning

from skboost import (
    BoostedBayesianLogisticRegression,
    BoostedGaussianMixture,
    boost_posterior,
)
from skboost.fitting import Limits, Options, boost, make_engine
from skboost.mixture import SVIGaussianMixture
from skboost.targets import Budget, BudgetSpent, CallableTarget

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


def slow(clock):
    """Two bumps, every batch of whose evaluations takes a second of the clock."""

    class Slow(CallableTarget):
        def _chunks(self, *request):
            found = super()._chunks(*request)
            clock.now += SECOND
            return found

    return Slow(bumps, 1, bumps_gradient)


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
        assert "max_time=3.0" in budget.spent.message
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
        budget = Budget(max_evaluations=before + 5, ledger=target.ledger)
        target.log_density(np.zeros((4, 1)))
        assert budget.spent is None
        target.log_density(np.zeros((1, 1)))
        assert f"max_evaluations={before + 5}" in budget.spent.message

    def test_a_share_is_one_of_what_is_left(self, clock):
        target = CallableTarget(bumps, 1, bumps_gradient)
        target.log_density(np.zeros((20, 1)))
        before = target.n_evaluations
        budget = Budget(4.0, before + 20, target.ledger, clock)
        clock.now = 2.0
        target.log_density(np.zeros((10, 1)))
        half = budget.share(0.5)
        assert (half.max_time, half.max_evaluations) == (1.0, before + 15)
        clock.now = 3.0
        assert half.spent is not None and budget.spent is None
        assert Budget().spent is None and Budget().share(0.5).spent is None

    def test_what_fits_in_follows_from_the_pace_of_the_target(self, clock):
        target = CallableTarget(bumps, 1, bumps_gradient)
        budget = Budget(max_time=4.0, ledger=target.ledger, clock=clock)
        ledger = target.ledger
        ledger.finish(10, (), 10.0)
        ledger.finish(10, (), 5.0)
        # The best pace that was seen: half a second for each.
        assert budget.room == 8
        assert budget.affords(100, 0.5) == 4 and budget.has_cut
        budget.check(8)
        with pytest.raises(BudgetSpent, match="max_time=4.0"):
            budget.check(9)
        clock.now = 3.0
        assert budget.room == 2


class TestRuns:
    """The engine under a clock that every batch of evaluations moves by a second."""

    @pytest.fixture
    def make(self, clock):
        def make(**chosen):
            target = slow(clock)
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
            engine = make_engine(target, params, np.zeros((1, 1)), 0, None)

            def iterated(limits, previous=None):
                options = Options(engine, limits, previous, clock=clock)
                return boost(target, options).run

            return iterated

        return make

    @pytest.mark.parametrize(
        ("objective", "max_time"), [("kl", 40), ("kl", 200), ("hellinger", 200)]
    )
    def test_time_is_exceeded_by_one_batch_at_most(
        self, make, clock, objective, max_time
    ):
        iterated = make(objective=objective, stopping="gain")
        first = iterated(Limits(1, tol=0.0))
        needed = clock.now
        clock.now = 0.0
        limits = Limits(1000, tol=0.0, max_time=max_time)
        done = iterated(limits)
        # One batch of the search, and the draws that are made in any case.
        assert clock.now <= max_time + 3 * SECOND
        assert done.n_iter >= 1 == first.n_iter
        assert done.history[0].cut_short == (max_time < needed)
        assert f"max_time={max_time}" in done.message
        assert done.end.by == "max_time" and done.cut_short
        assert not done.converged
        if max_time == 200:
            # It goes on as if it had not been cut short.
            limits = Limits(done.n_iter + 1, tol=0.0)
            rest, whole = (iterated(limits, part) for part in (done, None))
            found, expected = rest.state.mixture.weights, whole.state.mixture.weights
            assert np.array_equal(found, expected)

    def test_the_first_mixture_is_as_good_as_the_time_allows(self, make, clock):
        iterated = make()
        used, elbos = [], []
        for max_time in (1, 1e6):
            clock.now = 0.0
            done = iterated(Limits(1, tol=0.0, max_time=max_time))
            used.append(clock.now)
            elbos.append(done.state.fresh.elbo().value)
        assert used[0] < 0.5 * used[1]
        assert np.isfinite(elbos[0])
        assert elbos[0] < elbos[1]


class TestFirstComponent:
    """Limits far below what the first component takes, some 6,500 evaluations."""

    @staticmethod
    def boost(dim=5, most=300, **settings):
        scale = np.arange(1.0, dim + 1.0)
        calls = []

        def log_density(theta):
            calls.append(1)
            return -0.5 * ((theta - 1.0) ** 2 / scale).sum()

        def gradient(theta):
            return -(theta - 1.0) / scale

        with pytest.warns(ConvergenceWarning, match="Raise max_time or max_eval"):
            result = boost_posterior(
                log_density, dim, gradient=gradient, random_state=0,
                vectorized=False, max_evaluations=most, **settings,
            )  # fmt: skip
        return result, len(calls)

    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"x0": (-3.0, 3.0)},
            {"x0": np.full((2, 5), [[3.0], [-3.0]])},
            {"family": "gaussian-diag"},
            {"family": "gaussian-low-rank"},
            {"family": "student_t"},
            {"objective": "hellinger"},
            {"warp": "auto", "skew": "auto", "calibrate": "auto"},
            {"failures": "zero", "tol": "auto", "skew": "auto"},
        ],
        ids=str,
    )
    def test_it_is_cut_short_and_says_so(self, settings):
        result, n_calls = self.boost(**settings)
        assert n_calls <= 330
        assert result.history[0]["cut_short"]
        assert not result.converged
        assert "first component was cut short" in result.message
        # A climb and the curvature at its end are enough for a Gaussian.
        assert np.abs(result.posterior.mean() - 1.0).max() < 0.3
        assert np.isfinite([result.elbo, result.elbo_se]).all()
        truth = np.log(2 * np.pi * np.arange(1.0, 6.0)).sum() / 2
        assert result.elbo - truth < 4 * result.elbo_se + 1e-6

    @pytest.mark.parametrize("most", [1, 20, 60])
    def test_the_least_is_a_few_draws(self, most):
        result, n_calls = self.boost(most=most)
        # Sixteen draws that are kept, sixteen by which it is judged, and a few calls
        # that try the function out.
        assert n_calls <= 0.6 * most + 32 + 25
        assert result.posterior.n_components == 1 and np.isfinite(result.elbo)

    def test_limits_that_do_not_bind_change_nothing(self):
        def normal(theta):
            return -0.5 * (theta**2).sum(axis=1)

        free, bound = (
            boost_posterior(
                normal, 2, gradient=lambda t: -t, random_state=0, max_evaluations=most
            )
            for most in (None, 10**7)
        )
        assert not free.history[0]["cut_short"] and not bound.history[0]["cut_short"]
        assert free.elbo == bound.elbo


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
