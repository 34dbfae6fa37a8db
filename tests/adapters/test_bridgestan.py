"""Models of Stan, against integration. Compiling one takes a minute."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skboost import boost_posterior
from skboost.adapters import from_bridgestan

from ..conftest import Extra

bridgestan = Extra("bridgestan")

SCHOOLS = """
data {
  int<lower=0> J;
  vector[J] y;
  vector<lower=0>[J] sigma;
}
parameters {
  real mu;
  real<lower=0> tau;
  vector[J] z;
}
transformed parameters {
  vector[J] theta = mu + tau * z;
  matrix[2, J] pair = append_row(theta', z');
}
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  z ~ std_normal();
  y ~ normal(theta, sigma);
  if (mu > 1000) reject("mu is too large");
}
"""
POINTS = np.random.default_rng(0).standard_normal((5, 10))


@pytest.fixture(scope="module")
def density(schools, tmp_path_factory):
    path = tmp_path_factory.mktemp("stan") / "schools.stan"
    path.write_text(SCHOOLS, encoding="utf-8")
    try:
        library = bridgestan.compile_model(path)
    except (OSError, RuntimeError, ValueError) as error:
        pytest.skip(f"BridgeStan can not compile here: {error}")
    data = {"J": 8, "y": schools.y.tolist(), "sigma": schools.sigma.tolist()}
    return from_bridgestan(bridgestan.StanModel(library, data))


@pytest.fixture(scope="module")
def result(density):
    return boost_posterior(**density.arguments(random_state=0))


def test_coordinates_are_the_unconstrained_parameters(density):
    assert density.names == ("mu", "tau", *(f"z[{i}]" for i in range(1, 9)))
    assert density.dim == 10


def test_the_density_has_the_jacobian_and_a_constant_less(density, schools_log_density):
    lost = schools_log_density(POINTS) - density.log_density(POINTS)
    assert_allclose(lost, lost[0], atol=1e-10, rtol=0)
    rows = [density.log_density(row) for row in POINTS]
    assert_array_equal(rows, density.log_density(POINTS))


def test_the_gradient_is_that_of_the_density(density, check_gradient):
    check_gradient(density, POINTS)


def test_the_posterior_is_that_of_integration(
    density, result, schools, check_schools, schools_log_density
):
    lost = schools_log_density(POINTS[:1])[0] - density.log_density(POINTS[0])
    assert result.elbo < schools.log_evidence - lost + 4 * result.elbo_se
    assert schools.log_evidence - lost - result.elbo < 0.1
    check_schools(density.constrain(result.posterior.sample(20_000, random_state=0)))


def test_draws_come_back_as_the_models_variables(density):
    draws = density.constrain(POINTS)
    assert set(draws) == {"mu", "tau", "z", "theta", "pair"}
    tau = np.exp(POINTS[:, 1])
    theta = POINTS[:, :1] + tau[:, None] * POINTS[:, 2:]
    assert_allclose(draws["tau"], tau)
    assert_allclose(draws["theta"], theta)
    # Stan counts columns first.
    assert_allclose(draws["pair"], np.stack([theta, POINTS[:, 2:]], axis=1))


def test_where_the_model_rejects_is_an_error_with_the_point(density):
    start = np.zeros(10)
    start[0] = 2000.0
    with pytest.raises(ValueError, match="mu is too large"):
        boost_posterior(**density.arguments(x0=start))
    with pytest.raises(RuntimeError, match="mu is too large"):
        density.log_density(start)


def test_another_process_loads_the_library_again(density):
    copy = pickle.loads(pickle.dumps(density))
    assert copy.log_density.model is not density.log_density.model
    assert_array_equal(copy.log_density(POINTS), density.log_density(POINTS))
    assert copy.gradient.__self__ is copy.log_density
