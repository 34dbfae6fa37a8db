"""The residual ELBO: gradient by differences, value by quadrature, its failures."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.families import Gaussian
from skboost.mixtures import Mixture, PooledDraws
from skboost.objectives import (
    OBJECTIVES,
    DegenerateComponentWarning,
    FixedMixture,
    JointGain,
    ResidualELBO,
    ResidualGain,
    SearchContext,
)
from skboost.targets import CallableTarget

DIM = 3


def relbo(case, components, dim, lam, n_draws=64, seed=1):
    family, make, exact = case
    mixture = Mixture(tuple(components(family, dim, 2, seed=5)), np.array([0.4, 0.6]))
    base = family.base_draws(n_draws, dim, np.random.default_rng(seed))
    start = components(family, dim, 1)[0][1]
    return ResidualELBO(make(dim), mixture, family, start, base, lam, exact)


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("n_draws", [64, 8], ids=["all coordinates", "few draws"])
def test_gradient_equals_differences(case, components, lam, n_draws, slope):
    problem = relbo(case, components, DIM, lam, n_draws)
    x = 0.2 * np.random.default_rng(2).standard_normal(problem.start.size)
    _, gradient = problem.value_and_gradient(x)
    expected = slope(lambda v: problem.value_and_gradient(v)[0], x)
    assert_allclose(gradient, expected, rtol=1e-5, atol=2e-6)


def test_value_agrees_with_quadrature(case, components):
    lam, values = 0.7, []
    for seed in range(12):
        problem = relbo(case, components, 1, lam, 512, seed)
        values.append(problem.value_and_gradient(problem.start)[0])
    z = np.linspace(-14, 14, 8001)[:, None]
    family, params = problem.family, problem.params
    s, log_s = np.exp(family.log_density(z, params)), family.log_density(z, params)
    integrand = (
        problem.target.log_density(z) - lam * log_s - problem.mixture.log_density(z)
    )
    truth = np.trapezoid(s * integrand, z[:, 0])
    assert abs(np.mean(values) - truth) < 3 * np.std(values, ddof=1) + 1e-9


def test_the_price_of_entropy_is_lambda(case, components):
    problem = relbo(case, components, DIM, 1.0)
    other = relbo(case, components, DIM, 0.25)
    x = problem.start
    difference = problem.value_and_gradient(x)[0] - other.value_and_gradient(x)[0]
    assert_allclose(difference, 0.75 * problem.family.entropy(problem.params))


def test_entropy_weight_schedules():
    assert_allclose([ResidualGain().weight_at(t) for t in (0, 3)], [1.0, 0.5])
    assert ResidualGain(2.5).weight_at(7) == 2.5
    assert ResidualGain(lambda t: 1 / (1 + t)).weight_at(3) == 0.25


@pytest.mark.parametrize("cls", OBJECTIVES.values(), ids=OBJECTIVES)
def test_objectives_are_searched_as_any_estimator(cls):
    assert set(cls().get_params()) <= {"entropy_weight"}


def residual_of(target, components, weights):
    mixture = Mixture(tuple(components), np.asarray(weights))
    rng = np.random.default_rng(0)
    base = [family.base_draws(256, target.dim, rng) for family, _ in components]
    pool = PooledDraws.of(target, mixture, base, False)
    fixed = FixedMixture.of(mixture, pool)
    return SearchContext(target, mixture, fixed, pool, 1, False)


def test_a_scale_at_its_limit_is_called_degenerate():
    family = Gaussian("full")
    component = (family, np.zeros(2))
    residual = residual_of(
        CallableTarget(lambda t: -0.5 * (t**2).sum(axis=-1), 1), [component], [1.0]
    )
    base = family.base_draws(64, 1, np.random.default_rng(0))
    problem = ResidualGain().problem(residual, component, 0.5, base)
    inside, outside = problem.start, problem.start.copy()
    outside[1] = problem.limits[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ResidualGain().candidate(problem, inside)
    with pytest.warns(DegenerateComponentWarning, match="objective='kl'"):
        ResidualGain().candidate(problem, outside)


def test_the_joint_gain_reports_its_weight():
    family = Gaussian("full")
    component = (family, np.zeros(2))
    residual = residual_of(
        CallableTarget(lambda t: -0.5 * (t**2).sum(axis=-1), 1), [component], [1.0]
    )
    base = family.base_draws(64, 1, np.random.default_rng(0))
    problem = JointGain().problem(residual, component, 0.25, base)
    found = JointGain().candidate(problem, problem.start)
    assert_allclose(found.weight, 0.25)
    assert_allclose(found.params, component[1], atol=1e-12)
    assert found.family is family
