"""The residual ELBO: gradient by differences, value by quadrature, its failures."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.approximation import Mixture, PooledDraws
from skboost.boosting import Settings
from skboost.families import Component, FullGaussian
from skboost.objectives import (
    OBJECTIVES,
    DegenerateComponentWarning,
    FixedMixture,
    JointGain,
    ResidualELBO,
    ResidualGain,
    SearchContext,
    as_objective,
)
from skboost.targets import CallableTarget

DIM = 3


def relbo(case, components, dim, lam, n_draws=64, seed=1):
    family, make, exact = case
    mixture = Mixture(tuple(components(family, dim, 2, seed=5)), np.array([0.4, 0.6]))
    base = family.base_draws(n_draws, dim, np.random.default_rng(seed))
    (start,) = components(family, dim, 1)
    return ResidualELBO(make(dim), mixture, start, base, lam, exact)


@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_gradient_equals_differences(case, components, lam, slope):
    problem = relbo(case, components, DIM, lam, n_draws=16)
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
    log_s = problem.component.log_density(z)
    integrand = (
        problem.target.log_density(z) - lam * log_s - problem.mixture.log_density(z)
    )
    truth = np.trapezoid(np.exp(log_s) * integrand, z[:, 0])
    assert abs(np.mean(values) - truth) < 3 * np.std(values, ddof=1) + 1e-9


@pytest.mark.parametrize(("tol", "least"), [(0.5, 5e-3), (0.0, 1e-9)])
def test_a_search_ends_at_a_hundredth_of_what_matters(tol, least):
    assert ResidualGain().tolerance(Settings(tol=tol)) == pytest.approx(least)


def test_entropy_weight_schedules():
    # Locatello et al. 2018 by default, Dresdner et al. 2021 by a multiplier of one.
    assert_allclose([ResidualGain().weight_at(t) for t in (1, 3)], [0.5**0.5, 0.5])
    assert [ResidualGain(1.0).weight_at(t) for t in (1, 9)] == [1.0, 1.0]
    assert ResidualGain(lambda t: 1 / t).weight_at(1) == 1.0


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, "one", lambda t: -t])
def test_an_entropy_weight_is_a_number_of_at_least_zero(weight):
    with pytest.raises(ValueError, match="entropy_weight must be a finite number >= 0"):
        ResidualGain(weight).weight_at(1)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_is_a_name_or_an_instance(name):
    assert type(as_objective(name)) is OBJECTIVES[name]
    instance = OBJECTIVES[name]()
    assert as_objective(instance) is instance
    assert set(instance.get_params()) <= {"entropy_weight", "early_stopping"}


def test_hyperparameters_of_an_instance_are_checked():
    with pytest.raises(ValueError, match="entropy_weight must be a finite number"):
        as_objective(ResidualGain(-1.0))
    with pytest.raises(ValueError, match="early_stopping must be True or False"):
        as_objective(ResidualGain(early_stopping="no"))


@pytest.fixture
def search():
    """A context whose mixture is one Gaussian, a start there, and draws."""
    component = Component(FullGaussian(), np.zeros(2))
    target = CallableTarget(lambda t: -0.5 * (t**2).sum(axis=-1), 1)
    rng = np.random.default_rng(0)
    mixture = Mixture.single(component)
    pool = PooledDraws.of(target, mixture, [component.base_draws(256, rng)], False)
    fixed = FixedMixture.of(mixture, pool)
    context = SearchContext(target, mixture, fixed, pool, 1, False)
    return context, component, component.base_draws(64, np.random.default_rng(0))


@pytest.fixture
def at_the_limit(search):
    """A problem of the residual ELBO, its start, and a point at the end of a scale."""
    context, component, base = search
    problem = ResidualGain().problem(context, component, 0.5, base)
    outside = problem.start.copy()
    outside[1] = problem.limits[1]
    return problem, problem.start, outside


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_scale_at_its_limit_is_called_degenerate(at_the_limit, early_stopping):
    problem, inside, outside = at_the_limit
    objective = ResidualGain(early_stopping=early_stopping)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective.candidate(problem, inside, 0.0)
    with pytest.warns(DegenerateComponentWarning, match="objective='kl'"):
        objective.candidate(problem, outside, 0.0)


def test_a_component_that_gains_is_not_degenerate(at_the_limit, recwarn):
    problem, _, outside = at_the_limit
    ResidualGain().candidate(problem, outside, 0.3)
    assert not recwarn
    # Without early stopping the value is that of the residual ELBO and says nothing.
    with pytest.warns(DegenerateComponentWarning):
        ResidualGain(early_stopping=False).candidate(problem, outside, 0.3)


def test_the_joint_gain_reports_its_weight(search):
    context, component, base = search
    problem = JointGain().problem(context, component, 0.25, base)
    found = JointGain().candidate(problem, problem.start, 0.0)
    assert_allclose(found.weight, 0.25)
    assert_allclose(found.component.params, component.params, atol=1e-12, rtol=0)
    assert found.component.family is component.family
