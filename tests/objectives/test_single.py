"""The ELBO of one component, against dense algebra and differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from skboost.families import Gaussian, Laplace, StudentT
from skboost.objectives import SingleELBO
from skboost.targets import CallableTarget

FAMILIES = [
    Gaussian("full"),
    Gaussian("diag"),
    Gaussian("low_rank", 2),
    Laplace(),
    StudentT("full", df=5.0),
]
PRECISION = np.array([[2.0, 0.4, 0.0], [0.4, 1.0, -0.3], [0.0, -0.3, 0.5]])
TARGET = CallableTarget(
    lambda theta: -0.5 * np.einsum("ij,jk,ik->i", theta, PRECISION, theta),
    3,
    lambda theta: -theta @ PRECISION,
    True,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_gradient_agrees_with_differences(family, rng):
    params = family.from_moments(rng.standard_normal(3), np.diag([0.5, 1.0, 2.0]))
    base = family.matched_draws(32, 3, rng)
    problem = SingleELBO(TARGET, family, params, base, False)
    x = 0.1 * rng.standard_normal(problem.start.size)
    value, gradient = problem.value_and_gradient(x)
    differences = approx_fprime(x, lambda z: problem.value_and_gradient(z)[0], 1e-6)
    assert_allclose(gradient, differences, rtol=1e-4, atol=1e-5)
    assert value == pytest.approx(problem.elbo(problem.unpack(x)), rel=1e-12)


@pytest.mark.parametrize("family", FAMILIES[:3], ids=repr)
def test_value_is_that_of_dense_algebra(family, rng):
    params = 0.3 * rng.standard_normal(family.n_params(3))
    base = family.matched_draws(64, 3, rng)
    mean, covariance = family.moments(params)
    expected = -0.5 * (np.trace(PRECISION @ covariance) + mean @ PRECISION @ mean)
    expected += multivariate_normal(mean, covariance).entropy()
    assert SingleELBO(TARGET, family, params, base, False).elbo(params) == (
        pytest.approx(expected, rel=1e-9)
    )
