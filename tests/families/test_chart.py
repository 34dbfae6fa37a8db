"""Coordinates of a search: all parameters, or a shift, a scale and a line."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.families import Gaussian

FULL = Gaussian("full")
DIMS = [1, 2, 5]
FEW = 2


@pytest.fixture(params=DIMS, ids=lambda dim: f"dim{dim}")
def line(request, rng):
    """A line chart around a full Gaussian in general position."""
    return FULL.chart(0.5 * rng.standard_normal(FULL.n_params(request.param)), FEW)


def test_few_draws_give_a_line(line):
    dim = FULL.dim_of(line.params)
    assert line.size == dim + 2
    assert line.move(np.zeros(line.size)).shape == line.params.shape


def test_enough_draws_give_every_parameter(family, component):
    params = component(family, 3)
    chart = family.chart(params, 10_000)
    assert chart.size == len(params)
    x = 0.3 * np.ones(chart.size)
    assert_allclose(chart.move(x), family.move(params, x))
    assert_allclose(chart.pull(x, x), family.pull_move(params, x, x))


def test_a_chart_starts_at_its_component(family, component):
    params = component(family, 3)
    for n_draws in (FEW, 10_000):
        chart = family.chart(params, n_draws)
        assert_allclose(chart.move(np.zeros(chart.size)), params, atol=1e-12, rtol=0)


def test_limits_bound_the_scales_alone(family, component):
    for n_draws in (FEW, 10_000):
        chart = family.chart(component(family, 3), n_draws)
        assert np.array_equal(np.isfinite(chart.limits), chart.scale_mask)
        assert (chart.limits > 0).all()
        x = np.zeros(chart.size)
        assert not chart.at_limit(x)
        for sign in (-1, 1):
            x[np.flatnonzero(chart.scale_mask)[-1]] = sign * chart.limits.min()
            assert chart.at_limit(x)


def test_pull_equals_differences(line, rng, slope):
    x, gradient = (
        0.7 * rng.standard_normal(line.size),
        rng.standard_normal(len(line.params)),
    )
    expected = slope(lambda v: gradient @ line.move(v), x)
    assert_allclose(line.pull(x, gradient), expected, rtol=1e-5, atol=1e-7)


def test_pull_equals_differences_at_the_start(line, rng, slope):
    x, gradient = np.zeros(line.size), rng.standard_normal(len(line.params))
    expected = slope(lambda v: gradient @ line.move(v), x)
    assert_allclose(line.pull(x, gradient), expected, rtol=1e-5, atol=1e-7)


def whitened_moments(line, x):
    """Mean and covariance in coordinates that make the start a standard normal."""
    mean, covariance = FULL.moments(line.params)
    root = np.linalg.cholesky(covariance)
    moved_mean, moved_covariance = FULL.moments(line.move(x))
    inverse = np.linalg.inv(root)
    return inverse @ (moved_mean - mean), inverse @ moved_covariance @ inverse.T


@pytest.mark.parametrize("a", [-1.5, 0.0, 1.0])
@pytest.mark.parametrize("b", [-2.0, 0.0, 1.5])
def test_covariance_is_a_scale_and_a_stretch_along_the_shift(line, rng, a, b):
    shift = 3.0 * rng.standard_normal(line.size - 2)
    mean, covariance = whitened_moments(line, np.concatenate([shift, [a, b]]))
    # A direction only as far as the shift is longer than a tenth.
    v = shift / np.sqrt(shift @ shift + 0.1**2)
    expected = np.eye(len(v)) + (np.exp(2 * b) - 1) * np.outer(v, v)
    assert_allclose(mean, shift, rtol=1e-9)
    assert_allclose(covariance, np.exp(2 * a) * expected, rtol=1e-8, atol=1e-9)


def test_a_chart_around_the_result_goes_on(line, rng):
    # Lines add up: a second search may stretch along another direction.
    first = line.move(rng.standard_normal(line.size))
    again = FULL.chart(first, FEW)
    second = again.move(rng.standard_normal(line.size))
    assert np.isfinite(second).all()
    np.linalg.cholesky(FULL.moments(second)[1])


def test_a_line_is_the_moved_component(line, rng):
    x = 0.7 * rng.standard_normal(line.size)
    mean, scale, stretch, direction = line.line(x)
    factor = line.line_factor
    covariance = factor @ factor.T + stretch * np.outer(direction, direction)
    expected_mean, expected = FULL.moments(line.move(x))
    assert_allclose(mean, expected_mean, rtol=1e-12, atol=1e-12)
    assert_allclose(scale * covariance, expected, rtol=1e-10, atol=1e-12)


def test_pull_line_equals_differences(line, rng, slope):
    x, dim = 0.7 * rng.standard_normal(line.size), line.size - 2
    g_mean, g_direction = rng.standard_normal((2, dim))
    g_scale, g_stretch = rng.standard_normal(2)

    def value(x):
        mean, scale, stretch, direction = line.line(x)
        linear = g_mean @ mean + g_direction @ direction
        return linear + g_scale * scale + g_stretch * stretch

    found = line.pull_line(x, g_mean, g_scale, g_stretch, g_direction)
    assert_allclose(found, slope(value, x), rtol=1e-5, atol=1e-7)


def test_charts_of_all_parameters_have_no_line(family, component):
    assert family.chart(component(family, 3), 10_000).line_factor is None


def test_a_line_is_evaluated_without_its_factor(line, rng, slope):
    x, dim = 0.7 * rng.standard_normal(line.size), line.size - 2
    theta, eps = rng.standard_normal((2, 9, dim))
    moved, found = FULL.at(line.move(x), theta), line.at(x, line.whiten(theta))
    assert_allclose(found.log_density, moved.log_density, rtol=1e-10)
    assert_allclose(found.score(), moved.score(), rtol=1e-8, atol=1e-10)
    cotangent = rng.standard_normal(9)
    expected = line.pull(x, moved.pull(cotangent))
    assert_allclose(found.pull(cotangent), expected, rtol=1e-8, atol=1e-9)
    draws = FULL.transport(line.move(x), eps)
    assert_allclose(line.whitened_draws(x, eps), line.whiten(draws), rtol=1e-8)
