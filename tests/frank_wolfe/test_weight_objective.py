import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm

MEANS, SDS = [-1.0, 0.5, 2.0], [1.0, 0.5, 2.0]
WEIGHTS = np.array([0.2, 0.5, 0.3])


def log_joint(z):
    return norm.logpdf(z, 0.3, 1.2)


@pytest.fixture
def objective(table):
    return table(MEANS, SDS, log_joint, n_draws=2000)


def test_value_is_the_divergence_within_noise(objective):
    x = np.linspace(-25, 25, 20001)
    q = norm.pdf(x[:, None], MEANS, SDS) @ WEIGHTS
    exact = np.trapezoid(q * (np.log(q) - log_joint(x)), x)
    zero = np.array([1.0, 0.0, 0.0])
    _, error = objective.difference(WEIGHTS, zero)
    assert abs(objective.value(WEIGHTS) - exact) < 5 * error


def test_slope_and_hessian_agree_with_finite_differences(objective):
    slope = approx_fprime(WEIGHTS, objective.value, 1e-7)
    np.testing.assert_allclose(objective.slope(WEIGHTS), slope, rtol=1e-5, atol=1e-6)
    hessian = approx_fprime(WEIGHTS, objective.slope, 1e-7)
    np.testing.assert_allclose(objective.hessian(WEIGHTS), hessian, rtol=1e-4)
    block = objective.hessian(WEIGHTS)[np.ix_([0, 2], [0, 2])]
    np.testing.assert_allclose(objective.hessian(WEIGHTS, np.array([0, 2])), block)


def test_difference_is_the_difference_of_values(objective):
    a, b = WEIGHTS, np.array([0.6, 0.1, 0.3])
    mean, error = objective.difference(a, b)
    assert mean == pytest.approx(objective.value(a) - objective.value(b), rel=1e-9)
    assert 0 < error < 0.1
    assert objective.difference(a, a) == (0.0, 0.0)


def test_divergence_of_a_component(objective):
    x = np.linspace(-25, 25, 20001)
    log_s = norm.logpdf(x[:, None], MEANS, SDS)
    log_q = np.logaddexp.reduce(log_s + np.log(WEIGHTS), axis=1)
    exact = np.trapezoid(np.exp(log_s[:, 1]) * (log_s[:, 1] - log_q), x)
    assert objective.divergence(1, WEIGHTS) == pytest.approx(exact, rel=0.1)
    assert 0.0 <= objective.divergence(1, np.eye(3)[1]) < 1e-15


def test_vanishing_density_is_finite_and_convex(table):
    f = table([-40, 40], [1, 1], log_joint)
    corner = np.array([1.0, 0.0])
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(f.value(corner))
        assert np.isfinite(f.slope(corner)).all()
        assert np.isfinite(f.hessian(corner)).all()
    slopes = [f.along(corner, corner[::-1])(t) for t in (0, 1e-30, 1e-9, 0.5)]
    assert (np.diff(slopes) >= 0).all()
    assert slopes[0] < slopes[-1]
