"""Limits of time and of evaluations, which bind within an iteration."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skboost import boost_posterior
from skboost.targets import CallableTarget

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
    ("objective", "max_time"), [("kl", 40), ("kl", 200), ("hellinger", 200)]
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
        {"family": "gaussian-diag"},
        {"family": "gaussian-low-rank"},
        {"family": "student_t"},
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


@pytest.mark.parametrize("most", [1, 20, 60])
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
