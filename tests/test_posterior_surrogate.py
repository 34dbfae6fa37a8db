"""``surrogate="auto"``: few evaluations, judged on true values."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import boost_posterior
from skboost.boosting import fit_surrogate
from skboost.strategies import GreedySearch
from skboost.targets import LogDensityError

LOG_2PI = np.log(2.0 * np.pi)


class Counted:
    """A density that counts the points at which it was evaluated."""

    def __init__(self, function):
        self.function, self.n = function, 0

    def __call__(self, theta):
        self.n += len(theta)
        return self.function(theta)


def banana(theta):
    """Normalised: x ~ N(0, 1), y ~ N((x^2 - 1) / 2, 1)."""
    x, y = theta[:, 0], theta[:, 1]
    return -0.5 * x**2 - 0.5 * (y - 0.5 * (x**2 - 1)) ** 2 - LOG_2PI


def gradient(theta):
    x, y = theta[:, 0], theta[:, 1]
    miss = y - 0.5 * (x**2 - 1)
    return np.column_stack([-x + miss * x, -miss])


def true_elbo(result):
    q = result.posterior._mixture
    theta = q.sample(20_000, np.random.default_rng(1))
    return np.mean(banana(theta) - q.log_density(theta))


def normal(theta):
    return -0.5 * (theta**2).sum(axis=1)


OPTIONS = {"vectorized": True, "surrogate": "auto", "random_state": 0}


@pytest.fixture(scope="module")
def bent():
    density = Counted(banana)
    result = boost_posterior(density, 2, gradient=gradient, orbit="auto", **OPTIONS)
    return density, result


def test_a_bent_density_takes_a_few_hundred_evaluations(bent):
    density, result = bent
    assert result.n_evaluations <= density.n < 900
    elbo = true_elbo(result)
    assert -0.05 < elbo <= 0.0
    assert abs(result.elbo - elbo) < 4.0 * result.elbo_se
    assert result.converged


def test_a_normal_density_is_met_without_a_surrogate_or_a_gradient():
    density = Counted(normal)
    result = boost_posterior(density, 3, **OPTIONS)
    assert result.n_iter == 1
    assert density.n < 300
    assert_allclose(result.elbo, 1.5 * LOG_2PI, atol=0.01)


def test_a_wrong_surrogate_does_not_make_the_elbo_wrong(monkeypatch):
    # It says that the mass is two standard deviations beside where it is.
    def wrong(evaluations, mean, covariance):
        moved = evaluations._replace(points=evaluations.points + [2.0, 0.0])
        return fit_surrogate(moved, mean, covariance)

    monkeypatch.setattr("skboost.boosting._surrogate.fit_surrogate", wrong)
    result = boost_posterior(banana, 2, gradient=gradient, max_iter=2, **OPTIONS)
    assert abs(result.elbo - true_elbo(result)) < 4.0 * result.elbo_se
    # What was worse than the Gaussian before it was not kept.
    assert result.elbo >= result.history[0]["elbo"]
    assert not result.converged


def test_a_second_mode_is_found():
    def log_density(theta):
        each = [normal(theta - 3.0), normal(0.5 * (theta + 3.0)) + np.log(0.25)]
        return np.logaddexp(*each)

    result = boost_posterior(log_density, 2, x0=[2.0, 2.0], **OPTIONS)
    assert result.n_evaluations < 500
    # Half of the mass at either.
    assert_allclose(result.elbo, LOG_2PI + np.log(2.0), atol=0.1)


def test_a_pole_is_an_error_that_says_so():
    def funnel(theta):
        return -0.5 * theta[:, 0] ** 2 * np.exp(-2.0 * theta[:, 1]) - theta[:, 1]

    with pytest.raises(LogDensityError, match="no mode that a climb"):
        boost_posterior(funnel, 2, **OPTIONS)


@pytest.mark.parametrize("limit", [60, 250])
def test_max_evaluations_binds(limit):
    density = Counted(banana)
    result = boost_posterior(
        density, 2, gradient=gradient, max_evaluations=limit, tol=1e-4, **OPTIONS
    )
    # A few points try out the gradient; and the first judgement has 32 draws.
    assert density.n <= max(limit, 90) + 7
    assert np.isfinite(result.elbo)


def test_points_of_zero_density_and_failures_are_survived():
    def log_density(theta):
        value = normal(theta)
        value[theta[:, 0] < -1.0] = -np.inf
        value[theta[:, 1] > 3.0] = np.nan
        return value

    with pytest.warns(UserWarning, match="points of zero density"):
        result = boost_posterior(log_density, 2, failures="zero", **OPTIONS)
    assert np.isfinite(result.elbo)
    # The evidence of what is left of the plane.
    assert result.elbo < LOG_2PI + np.log(0.8414) + 4.0 * result.elbo_se


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("warp", {"warp": "auto"}),
        ("stopping", {"search": GreedySearch(stopping="gap")}),
    ],
)
def test_what_needs_many_evaluations_is_refused(name, bad):
    with pytest.raises(ValueError, match=f"needs {name}="):
        boost_posterior(banana, 2, gradient=gradient, **bad, **OPTIONS)
