"""Logarithms of expected logistic functions, against integrals in logarithms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.integrate import quad
from scipy.stats import laplace, norm, t

from skboost.targets import (
    log_laplace_sigmoid,
    log_sigmoid_expectation,
    log_student_t_sigmoid,
    sigmoid_expectation,
    student_t_sigmoid_expectation,
)


def integral(log_density, points):
    """ln of an integral of sigma times a density, by quadrature between points."""

    def log_integrand(x):
        return -np.logaddexp(0.0, -x) + log_density(x)

    grid = np.concatenate(
        [np.linspace(*ends, 2001) for ends in zip(points[:-1], points[1:], strict=True)]
    )
    top = log_integrand(grid).max()
    parts = [
        quad(lambda x: np.exp(log_integrand(x) - top), *ends, epsabs=0.0, limit=500)[0]
        for ends in zip(points[:-1], points[1:], strict=True)
    ]
    return top + np.log(sum(parts))


@pytest.mark.parametrize(
    "mean, sd",
    [(0, 1), (1, 0.1), (-50, 2), (-800, 0.5), (-800, 30), (-30, 10), (-5, 100), (3, 2)],
)
def test_gaussian_tails_of_any_depth(mean, sd):
    # The integrand peaks between the mean and where exp(t) has moved it.
    ends = sorted({mean - 10.0 * sd, mean, 0.0, mean + sd**2, mean + 10.0 * sd})
    ends = [*ends, max(ends[-1], mean + sd**2) + 10.0 * sd]
    expected = integral(norm(mean, sd).logpdf, ends)
    found = log_sigmoid_expectation(np.array([float(mean)]), np.array([float(sd)]))
    assert_allclose(found, expected, atol=1e-8)


def test_where_the_expectation_itself_is_accurate_it_agrees():
    rng = np.random.default_rng(0)
    mean, sd = 3.0 * rng.standard_normal(500), rng.uniform(0.0, 4.0, 500)
    logs = log_sigmoid_expectation(mean, sd)
    assert_allclose(np.exp(logs), sigmoid_expectation(mean, sd), atol=1e-11)


def test_without_spread_it_is_the_log_of_the_logistic_function():
    mean = np.array([-2000.0, -3.0, 0.0, 40.0, 800.0])
    found = log_sigmoid_expectation(mean, np.zeros(5))
    assert_allclose(found, -np.logaddexp(0.0, -mean), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("location, scale, df", [(-50, 2, 5), (-2e4, 1, 5), (-9, 1, 3)])
def test_student_t_tails_fall_off_as_a_power(location, scale, df):
    args = np.array([float(location)]), np.array([float(scale)]), float(df)
    # Beyond a few units sigma is a step, so that this is the density's own tail.
    ends = [location - 1e3, 2.0 * location, location, location / 2.0, -40.0, 0.0, 40.0]
    middle = integral(lambda x: t.logpdf(x, df, location, scale), sorted({*ends}))
    beyond = t.logsf(40.0, df, location, scale)
    expected = np.logaddexp(middle, beyond)
    assert_allclose(log_student_t_sigmoid(*args), expected, atol=1e-6)


def test_student_t_agrees_where_the_probability_is_not_small():
    args = np.linspace(-4.0, 4.0, 9), np.linspace(0.1, 3.0, 9), 5.0
    expected = student_t_sigmoid_expectation(*args)
    assert_allclose(np.exp(log_student_t_sigmoid(*args)), expected, atol=1e-9)


@pytest.mark.parametrize(
    "mean, width", [(-30, 0.5), (-30, 2), (-700, 0.3), (-700, 5), (0, 1), (2, 0.7)]
)
def test_laplace_tails(mean, width):
    ends = sorted({mean - 60.0 * width, mean, 0.0, mean + 60.0 * width, 60.0 * width})
    expected = integral(laplace(mean, width).logpdf, ends)
    found = log_laplace_sigmoid(np.array([float(mean)]), np.eye(1) * width, np.ones(1))
    assert_allclose(found, expected, atol=1e-6)


def test_sums_of_laplace_variables_have_tails_by_their_poles():
    # E exp(t) in closed form: what sigma's expectation is far out, with scales below 1.
    rows, scale = np.array([[1.0, -2.0, 0.0]]), np.array([0.3, 0.2, 0.9])
    expected = -60.0 - np.log1p(-(np.array([0.3, 0.4]) ** 2)).sum()
    for table in (rows, sparse.csr_matrix(rows), sparse.csr_array(rows)):
        found = log_laplace_sigmoid(np.array([-60.0]), table, scale)
        assert_allclose(found, expected, atol=1e-8)
