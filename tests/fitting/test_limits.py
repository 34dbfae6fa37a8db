"""Limits of time and of evaluations, which bind within an iteration."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from skboost import BoostedBayesianLogisticRegression, boost_posterior
from skboost.fitting import FunctionObserver, Limits, Options, make_engine
from skboost.fitting import boost as boost_target
from skboost.priors import HalfTPrior
from skboost.targets import CallableTarget, GLMTarget, Logistic, PrincipalScale, Table

from .conftest import Problem

SECOND = 1.0


class Clock:
    """A clock that stands still while nothing is evaluated."""

    now = 0.0

    def __call__(self):
        return self.now


class Slow(CallableTarget):
    """Every batch of its evaluations takes a second of the clock."""

    clock = None

    def _chunks(self, *request):
        found = super()._chunks(*request)
        self.clock.now += SECOND
        return found


def bumps(theta):
    return np.logaddexp(
        -0.5 * ((theta[:, 0] - 2) / 0.4) ** 2, -0.5 * (theta[:, 0] + 2) ** 2
    )


def bumps_gradient(theta):
    near, far = theta - 2, theta + 2
    share = np.exp(-0.5 * (near / 0.4) ** 2 - bumps(theta)[:, None])
    return -share * near / 0.16 - (1 - share) * far


def seconds_of(objective="kl"):
    """``run(max_iter, max_time, previous)`` gives a run, and the seconds it took."""
    target = Slow(bumps, 1, bumps_gradient)
    problem = Problem(target, np.zeros((1, 1)), {"objective": objective})

    def run(max_iter, max_time=None, previous=None):
        clock = target.clock = Clock()
        limits = {"max_time": max_time}
        fit = problem.boost(max_iter, previous, limits=limits, clock=clock)
        return fit.run, clock.now

    return run


@pytest.mark.parametrize(
    ("objective", "max_time"),
    [("kl", 40), pytest.param("hellinger", 200, marks=pytest.mark.slow)],
)
def test_time_is_exceeded_by_one_batch_at_most(objective, max_time):
    run = seconds_of(objective)
    _, needed = run(1)
    done, used = run(1000, max_time)
    # One batch of the search, and the draws that are made in any case.
    assert used <= max_time + 3 * SECOND
    assert done.history[0].cut_short == (max_time < needed)
    assert f"max_time={max_time}" in done.message
    assert done.end.by == "max_time" and done.cut_short and not done.converged
    if max_time == 200:
        # It goes on as if it had not been cut short.
        (rest, _), (whole, _) = (run(done.n_iter + 1, None, p) for p in (done, None))
        found, expected = rest.state.mixture.weights, whole.state.mixture.weights
        assert np.array_equal(found, expected)


def test_the_first_mixture_is_as_good_as_the_time_allows():
    run = seconds_of()
    (short, used), (whole, needed) = run(1, 1), run(1, 1e6)
    assert used < 0.5 * needed
    bounds = [done.state.fresh.elbo().value for done in (short, whole)]
    assert np.isfinite(bounds[0]) and bounds[0] < bounds[1]


# --- evaluations far below what the first component takes, some 6,500


def boost(most, dim=5, **settings):
    scale = np.arange(1.0, dim + 1.0)
    calls = []

    def log_density(theta):
        calls.append(1)
        return -0.5 * ((theta - 1.0) ** 2 / scale).sum()

    with pytest.warns(ConvergenceWarning, match="Raise max_time or max_eval"):
        result = boost_posterior(
            log_density, dim, gradient=lambda theta: -(theta - 1.0) / scale,
            random_state=0, vectorized=False, max_evaluations=most, **settings,
        )  # fmt: skip
    return result, len(calls)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"x0": (-3.0, 3.0)},
        {"x0": np.full((2, 5), [[3.0], [-3.0]])},
        {"family": "gaussian-low-rank"},
        {"objective": "hellinger"},
        {"warp": "auto", "orbit": "auto"},
        {"failures": "zero", "tol": "auto", "orbit": "auto"},
    ],
    ids=str,
)
def test_the_first_component_is_cut_short_and_says_so(settings):
    result, n_calls = boost(300, **settings)
    assert n_calls <= 330
    assert result.history[0]["cut_short"] and not result.converged
    assert "first component was cut short" in result.message
    # A climb and the curvature at its end are enough for a Gaussian.
    assert np.abs(result.posterior.mean() - 1.0).max() < 0.3
    assert np.isfinite([result.elbo, result.elbo_se]).all()
    truth = np.log(2 * np.pi * np.arange(1.0, 6.0)).sum() / 2
    assert result.elbo - truth < 4 * result.elbo_se + 1e-6


@pytest.mark.parametrize("most", [1, 60])
def test_the_least_is_a_few_draws(most):
    result, n_calls = boost(most)
    # Sixteen draws that are kept, sixteen by which it is judged, and a few calls
    # that try the function out.
    assert n_calls <= 0.6 * most + 32 + 25
    assert result.posterior.n_components == 1 and np.isfinite(result.elbo)


def test_limits_that_do_not_bind_change_nothing(banana):
    free, bound = (
        banana.boost(1, limits={"max_evaluations": most}) for most in (np.inf, 10**7)
    )
    assert not free.history[0]["cut_short"] and not bound.history[0]["cut_short"]
    assert free.report == bound.report


def test_no_limit_of_a_fit_binds_its_posterior():
    """Draws of skewed components evaluate the density, also after the fit."""
    result = boost_posterior(
        lambda theta: np.sum(1.3 * theta - np.exp(theta), axis=1), 2,
        gradient=lambda theta: 1.3 - np.exp(theta), max_evaluations=60_000,
        max_iter=1, random_state=0,
    )  # fmt: skip
    assert result.orbiting.applied
    assert len(result.posterior.sample(70_000, random_state=0)) == 70_000


class Late(FunctionObserver):
    """Takes seconds of a clock before the first iteration, and after every one."""

    def __init__(self, clock, before, after):
        super().__init__([lambda record: False])
        self.clock, self.before, self.after = clock, before, after

    def begin(self):
        self.clock.now += self.before
        self.before = 0.0

    def end(self, problem, run):
        self.clock.now += self.after
        return super().end(problem, run)


def over_scales(max_time=None, before=0.0, after=0.0, previous=None):
    """A fit of few rows under a prior along principal components."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    shared, covariance = np.array([True, True, False]), np.cov(X.T)
    prior = PrincipalScale(shared, covariance, HalfTPrior())
    table, settings = Table(X, (X[:, 0] > 0) + 0.0), {"scale": np.ones(3)}
    target = GLMTarget(table, Logistic(), prior=prior, **settings)
    params = BoostedBayesianLogisticRegression().get_params()
    engine = make_engine(target, params, np.zeros((1, 3)), 0, None)
    clock = Clock()
    limits = Limits("auto", max_time=max_time)
    options = Options(engine, limits, previous, clock=clock)
    return boost_target(target, options, Late(clock, before, after))


def test_limits_end_runs_between_nodes_and_leave_those_that_are_done():
    short, whole = over_scales(max_time=2.5, after=1.0), over_scales()
    assert short.run.end.by == "max_time" and short.run.n_iter == 3
    assert short.mixture.n_components == 3 < whole.mixture.n_components
    assert "the mixture holds 3 of them." in short.run.message
    longer = over_scales(previous=short.run)
    assert_array_equal(longer.mixture.weights, whole.mixture.weights)


def test_limits_that_end_the_fits_of_nodes_leave_those_that_are_fitted():
    cut, whole = over_scales(max_time=1.0, before=2.0), over_scales()
    assert cut.run.end.by == "max_time" and cut.run.history[0].cut_short
    kinds = [
        {b.node.kind for b in fit.run.state.iterate.blocks} for fit in (cut, whole)
    ]
    assert kinds == [{0}, {0, 1, 2}]
    # Fitted ones cost nothing more.
    n = cut.mixture.n_components
    assert 1 < n == cut.run.n_iter < whole.mixture.n_components
    assert "before all nodes were tried" in cut.report.message
