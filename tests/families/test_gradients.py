"""Every gradient and vector-Jacobian product equals finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.families import Component, LowRankGaussian

from .conftest import chart_fisher_information

DIM = 3
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture
def theta(rng):
    return rng.standard_normal((8, DIM))


def test_score(family, component, theta, slope):
    params = component(family, DIM)
    found = family.at(params, theta).score()
    for point, score in zip(theta, found, strict=True):
        expected = slope(lambda x: family.log_density(x[None], params)[0], point)
        assert_allclose(score, expected, **CLOSE)
    some = family.at(params, theta).score(slice(1, 3))
    assert_allclose(some, found[1:3], rtol=1e-12)


def test_pull_of_the_log_density(family, component, theta, rng, slope):
    params, cotangent = component(family, DIM), rng.standard_normal(8)
    expected = slope(lambda p: cotangent @ family.log_density(theta, p), params)
    assert_allclose(family.at(params, theta).pull(cotangent), expected, **CLOSE)


def test_pull_transport(family, component, rng, slope):
    params = component(family, DIM)
    eps = family.base_draws(8, DIM, rng)
    cotangent = rng.standard_normal((8, DIM))
    expected = slope(lambda p: np.sum(cotangent * family.transport(p, eps)), params)
    assert_allclose(family.pull_transport(params, eps, cotangent), expected, **CLOSE)


def test_entropy_gradient(family, component, slope):
    params = component(family, DIM)
    assert_allclose(
        family.entropy_gradient(params), slope(family.entropy, params), **CLOSE
    )


def test_pull_move(family, component, rng, slope):
    params, x, gradient = (component(family, DIM) for _ in range(3))
    expected = slope(lambda v: gradient @ family.move(params, v), x)
    assert_allclose(family.pull_move(params, x, gradient), expected, **CLOSE)


def test_pull_structure(gaussian, component, rng, slope):
    params = component(gaussian, DIM)
    structure = gaussian.structure(params)
    cotangents = [
        None if part is None else rng.standard_normal(part.shape) for part in structure
    ]

    def contracted(p):
        parts = zip(cotangents, gaussian.structure(p), strict=True)
        return sum(np.sum(c * part) for c, part in parts if c is not None)

    expected = slope(contracted, params)
    assert_allclose(gaussian.pull_structure(params, *cotangents), expected, **CLOSE)


def test_arguments_are_left_alone(family, component, theta, rng):
    params, x = component(family, DIM), component(family, DIM)
    eps, cotangent = family.base_draws(8, DIM, rng), rng.standard_normal((8, DIM))
    arrays = (params, x, eps, theta, cotangent)
    before = [a.copy() for a in arrays]
    evaluation = family.at(params, theta)
    evaluation.score()
    evaluation.pull(cotangent[:, 0])
    family.transport(params, eps)
    family.pull_transport(params, eps, cotangent)
    family.pull_move(params, x, family.move(params, x))
    for a, b in zip(arrays, before, strict=True):
        assert np.array_equal(a, b)


def test_score_is_free_of_cancellation(gaussian):
    # The scales of the low-rank factor and of the noise lie six digits apart.
    params = np.zeros(gaussian.n_params(DIM))
    mask = gaussian.scale_mask(DIM)
    params[mask] = -7.0
    params[DIM:][~mask[DIM:]] = 1.0
    mean, covariance = gaussian.moments(params)
    root = np.linalg.cholesky(covariance)
    theta = mean + root @ np.array([1.0, -1.0, 0.5])
    squared = -2 * (
        gaussian.log_density(theta[None], params)[0]
        - gaussian.log_density(mean[None], params)[0]
    )
    assert_allclose(squared, 2.25, rtol=1e-4)


def test_chart_has_identity_fisher_information(family, component, rng):
    params = component(family, 2)
    fisher, error = chart_fisher_information(family, params, 1024, rng)
    if family.low_rank:
        # Rotations of the factor change nothing, so there it is only bounded.
        assert np.linalg.eigvalsh(fisher)[-1] < 3
        fisher, error = fisher[:2, :2], error[:2, :2]
    # A sign squared is one without any error, hence the rounding.
    assert np.all(np.abs(fisher - np.eye(len(fisher))) <= 5 * error + 1e-12)


def test_low_rank_chart_is_well_scaled_for_long_axes(rng):
    family = LowRankGaussian(2)
    params = np.zeros(family.n_params(5))
    params[10:] = 100 * rng.standard_normal(10)
    fisher, error = chart_fisher_information(family, params, 1024, rng)
    assert np.all(np.abs(fisher[:5, :5] - np.eye(5)) < 5 * error[:5, :5])
    assert np.linalg.eigvalsh(fisher)[-1] < 3
    # Along its own axis the factor moves in relative steps, as a log scale does.
    assert np.linalg.eigvalsh(fisher[10:, 10:])[-3:].min() > 0.5


def test_a_search_starts_at_its_component_and_limits_the_scales_alone(
    family, component
):
    params = component(family, 3)
    assert_allclose(family.move(params, 0.0 * params), params, atol=1e-12, rtol=0)
    limits = Component(family, params).limits()
    assert np.array_equal(np.isfinite(limits), family.scale_mask(3))
    assert (limits > 0).all()
