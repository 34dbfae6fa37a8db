"""Constrained posteriors against closed forms, and transforms against differences."""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skboost import BoostingResult, boost_posterior
from skboost.transforms import Constraints

KINDS = ["positive", "unit_interval", (2.0, 5.0), "simplex", "ordered"]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_round_trip(kind):
    constraints = Constraints(kind, 3)
    z = np.random.default_rng(0).normal(size=(20, constraints.n_free))
    theta = constraints.forward(z)
    assert theta.shape == (20, 3)
    assert_allclose(constraints.inverse(theta), z, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_log_jacobian_is_that_of_differences(kind):
    constraints = Constraints(kind, 3)
    free = constraints.n_free
    z = np.random.default_rng(1).normal(size=(5, free))
    step = 1e-5
    for row, expected in zip(z, constraints.log_jacobian(z), strict=True):
        shifts = step * np.eye(free)
        slope = constraints.forward(row + shifts) - constraints.forward(row - shifts)
        # On a simplex the density is that of all coordinates but the last.
        table = slope[:, :free] / (2 * step)
        assert_allclose(np.linalg.slogdet(table)[1], expected, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_slope_of_the_log_jacobian(kind):
    constraints = Constraints(kind, 3)
    z = np.random.default_rng(2).normal(size=(5, constraints.n_free))
    slope = constraints.log_jacobian_gradient(z)
    for j, shift in enumerate(1e-6 * np.eye(constraints.n_free)):
        difference = constraints.log_jacobian(z + shift) - constraints.log_jacobian(
            z - shift
        )
        assert_allclose(slope[:, j], difference / 2e-6, atol=1e-7)


def test_a_gamma_posterior():
    def log_density(theta):
        return 2.0 * anp.log(theta[:, 0]) - theta[:, 0]

    result = boost_posterior(log_density, 1, constraints="positive", random_state=0)
    truth = stats.gamma(3.0)
    # ln Z is that of the density as it was written: ln Gamma(3).
    assert np.log(2.0) - 0.02 < result.elbo < np.log(2.0) + 3 * result.elbo_se
    assert_allclose(result.posterior.mean(), truth.mean(), rtol=0.03)
    assert_allclose(result.posterior.std(), truth.std(), rtol=0.06)
    x = np.array([0.5, 3.0, 8.0])
    assert_allclose(result.posterior.marginal(0).cdf(x), truth.cdf(x), atol=0.02)
    assert result.posterior.log_density(np.array([[-1.0]]))[0] == -np.inf


def test_a_dirichlet_posterior_saved_and_loaded(tmp_path):
    power = np.array([2.0, 1.0, 4.0])

    def log_density(theta):
        return anp.sum(power * anp.log(theta), axis=1)

    result = boost_posterior(log_density, 3, constraints="simplex", random_state=0)
    assert_allclose(result.posterior.mean(), [0.3, 0.2, 0.5], atol=0.01)
    draws = result.posterior.sample(500, random_state=0)
    assert (draws > 0).all()
    assert_allclose(draws.sum(axis=1), 1.0)
    result.save(tmp_path / "result.npz")
    loaded = BoostingResult.load(tmp_path / "result.npz")
    assert loaded.message == result.message
    assert_allclose(loaded.posterior.log_density(draws),
                    result.posterior.log_density(draws))  # fmt: skip


@pytest.mark.parametrize("wrong", ["postive", (3.0, 2.0), {5: "positive"}])
def test_what_is_no_constraint(wrong):
    with pytest.raises(ValueError, match="constraints"):
        boost_posterior(lambda t: -anp.sum(t**2, axis=1), 2, constraints=wrong)


def test_a_start_outside():
    with pytest.raises(ValueError, match="x0 must lie inside constraints"):
        boost_posterior(
            lambda t: -t[:, 0], 1, constraints="positive", x0=[-1.0], random_state=0
        )
