"""Expectations under Gaussians that are multiples of one, or stretched on a line."""

import numpy as np
import pytest

from skboost._row_blocks import BlockTables
from skboost.approximation import Mixture, PooledDraws
from skboost.families import Gaussian
from skboost.objectives import FixedMixture, JointELBO
from skboost.targets import (
    GLMTarget,
    Logistic,
    Multinomial,
    NoiseScalePrior,
    NoisyGLMTarget,
    NormalNoise,
    Poisson,
    updated_target,
)

LIKELIHOODS = {
    "logistic": Logistic(),
    "multinomial": Multinomial(3),
    "four": Multinomial(4),
    "poisson": Poisson(),
}
each = pytest.mark.parametrize("kind", sorted(LIKELIHOODS))


def make_target(kind):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(40, 3)), rng.uniform(0.2, 2.0, 40)
    y = rng.integers(0, {"four": 4, "multinomial": 3}.get(kind, 2), 40)
    return GLMTarget(
        X,
        y,
        LIKELIHOODS[kind],
        sample_weight=weight,
        temperature=0.8,
        offset=rng.normal(size=40),
    )


def gaussian(dim, seed=1):
    """A mean and a Cholesky factor."""
    rng = np.random.default_rng(seed)
    factor = np.tril(0.2 * rng.normal(size=(dim, dim)), -1)
    return 0.3 * rng.normal(size=dim), factor + np.diag(rng.uniform(0.3, 0.6, dim))


def params(family, mean, factor):
    return family.from_moments(mean, factor @ factor.T)


@each
@pytest.mark.parametrize("stretch", [-0.9, 0.0, 3.0])
def test_a_line_has_the_expectations_of_its_covariance(kind, stretch):
    target = make_target(kind)
    mean, factor = gaussian(target.dim)
    z = np.random.default_rng(2).normal(size=target.dim)
    # Shorter than one, so that a negative stretch leaves a variance.
    direction, scale = factor @ (z / np.linalg.norm(z)), 0.7
    inner = factor @ factor.T + stretch * np.outer(direction, direction)
    root = np.linalg.cholesky(scale * inner)
    value, g_mean, _, g_root = target.expected_log_density(mean, None, root)
    found = target.expected_on_line(
        target.line_base(factor), (mean, scale, stretch, direction)
    )
    assert found[0] == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(found[1], g_mean, rtol=0.0, atol=1e-8)
    # The gradient in the covariance, and what it is along the line.
    g = 0.5 * g_root @ np.linalg.inv(root)
    expected = [np.sum(g * inner), scale * direction @ g @ direction]
    np.testing.assert_allclose(found[2:4], expected, rtol=0.0, atol=1e-8)
    expected = 2.0 * scale * stretch * g @ direction
    np.testing.assert_allclose(found[4], expected, rtol=0.0, atol=1e-8)


def structures(dim):
    """Gaussians of every kind, some of them multiples of each other."""
    mean, factor = gaussian(dim)
    variance = np.linspace(0.1, 0.5, dim)
    return [
        (mean, None, factor),
        (mean + 0.3, None, 2.5 * factor),
        (mean, None, factor[:, :2]),
        (-mean, variance, None),
        (mean, variance, factor[:, :1]),
        (0.5 * mean, None, -0.1 * factor),
        (mean, None, gaussian(dim, seed=5)[1]),
        (mean, None, np.zeros((dim, dim))),
        (mean,),
    ]


@each
def test_values_are_those_of_one_at_a_time(kind):
    target = make_target(kind)
    given = structures(target.dim)
    expected = [target.expected_log_density(*s)[0] for s in given]
    found = target.expected_values(given)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    # As the prior of more data.
    family = Gaussian("full")
    params = family.from_moments(np.full(target.dim, 0.2), np.eye(target.dim))
    updated = updated_target(target, Mixture.single(family, params), 0.7)
    expected = [updated.expected_log_density(*s)[0] for s in given]
    np.testing.assert_allclose(updated.expected_values(given), expected, rtol=1e-10)


def test_values_with_a_noise_scale_are_those_of_one_at_a_time():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    target = NoisyGLMTarget(X, y, NormalNoise(), NoiseScalePrior(1.0, 0.5))
    given = structures(target.dim)
    expected = [target.expected_log_density(*s)[0] for s in given]
    np.testing.assert_allclose(target.expected_values(given), expected, rtol=1e-10)
    # The variances of predictors are not all that a line changes.
    assert target.line_base(np.eye(target.dim)) is None


@each
@pytest.mark.parametrize("alone", [True, False])
def test_a_search_along_a_line_sees_the_same_objective(kind, alone, monkeypatch):
    target, family = make_target(kind), Gaussian("full")
    rng = np.random.default_rng(4)
    components = [
        (family, params(family, *gaussian(target.dim, seed))) for seed in (1, 2)
    ]
    base = [rng.standard_normal((16, target.dim)) for _ in components]
    shares, fixed = np.array([0.3, 0.7]), None
    if not alone:
        still = Mixture.single(family, params(family, *gaussian(target.dim, 7)))
        pool = PooledDraws.of(target, still, base[:1], True)
        shares, fixed = 0.5 * shares, FixedMixture.of(still, pool)

    def evaluate():
        problem = JointELBO(target, components, base, shares, fixed, True)
        assert problem.charts[0].size == target.dim + 2
        x = problem.start + 0.3 * np.random.default_rng(6).normal(
            size=problem.start.size
        )
        return problem, *problem.value_and_gradient(x)

    problem, value, gradient = evaluate()
    assert None not in problem.line_bases
    monkeypatch.setattr(GLMTarget, "line_base", lambda self, factor: None)
    problem, expected, expected_gradient = evaluate()
    assert problem.line_bases == [None, None]
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0.0, atol=1e-8)


def test_rows_that_are_not_in_memory_have_no_lines():
    rows = make_target("logistic").design.rows
    tables = BlockTables(lambda: iter([rows.block(slice(0, 40))]), 40, 3)
    target = GLMTarget(tables, None, Logistic())
    assert target.line_base(np.eye(target.dim)) is None
