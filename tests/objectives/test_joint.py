"""The joint ELBO: its gradient by differences, its value by quadrature."""

from dataclasses import replace

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from skboost.families import (
    Component,
    DiagonalGaussian,
    FullGaussian,
    Laplace,
    LowRankGaussian,
    StudentT,
)
from skboost.objectives import (
    START_WEIGHTS,
    FixedMixture,
    JointELBO,
    JointGain,
    SearchContext,
    SingleELBO,
    joint_gains,
)
from skboost.targets import CallableTarget

DIM = 3
CLOSE = {"rtol": 1e-5, "atol": 2e-6}


@pytest.fixture
def problem(case, components, pooled):
    """``problem(n_moving, with_rest)``: a joint ELBO of the case."""
    family, make, exact = case
    target = make(DIM)

    def build(n_moving, with_rest):
        rng = np.random.default_rng(1)
        rest, shares = None, rng.dirichlet(np.full(n_moving, 5.0))
        if with_rest:
            fixed = components(family, DIM, 2, seed=5)
            rest, shares = (
                FixedMixture.of(*pooled(target, fixed, [0.3, 0.7], exact)),
                0.4 * shares,
            )
        base = [family.base_draws(16, DIM, rng) for _ in range(n_moving)]
        return JointELBO(
            target, components(family, DIM, n_moving), base, shares, rest, exact
        )

    return build


def near(problem, seed=2):
    """A point in general position, away from the chart's origin."""
    rng = np.random.default_rng(seed)
    return problem.start + 0.2 * rng.standard_normal(problem.start.size)


@pytest.mark.parametrize(("n_moving", "with_rest"), [(1, False), (2, True)])
def test_gradient_equals_differences(problem, n_moving, with_rest, slope):
    elbo = problem(n_moving, with_rest)
    x = near(elbo)
    _, gradient = elbo.value_and_gradient(x)
    assert_allclose(
        gradient, slope(lambda v: elbo.value_and_gradient(v)[0], x), **CLOSE
    )


@pytest.mark.parametrize("with_rest", [False, True], ids=["alone", "with rest"])
def test_start_is_the_given_mixture(problem, with_rest):
    elbo = problem(2, with_rest)
    moved, shares = elbo.unpack(elbo.start)
    for given, found in zip(elbo.components, moved, strict=True):
        assert_allclose(found.params, given.params, atol=1e-12, rtol=0)
    assert_allclose(shares.sum(), 1.0)
    assert len(shares) == 2 + with_rest
    assert len(elbo.limits) == len(elbo.start)


# --- quadrature, one dimension

GRID = np.linspace(-14.0, 14.0, 8001)[:, None]


def integral(values):
    return np.trapezoid(values, GRID[:, 0])


def quadrature_elbo(target, components, weights):
    densities = [np.exp(component.log_density(GRID)) for component in components]
    m = np.asarray(weights) @ np.array(densities)
    with np.errstate(divide="ignore", invalid="ignore"):
        integrand = m * (target.log_density(GRID) - np.log(m))
    return integral(np.where(m > 0, integrand, 0.0))


@pytest.mark.parametrize("with_rest", [False, True], ids=["alone", "with rest"])
def test_value_agrees_with_quadrature(case, components, pooled, with_rest):
    family, make, exact = case
    target, moving = make(1), components(family, 1, 2)
    fixed = components(family, 1, 2, seed=4)
    weights = np.array([0.2, 0.3])
    values = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        base = [family.base_draws(512, 1, rng) for _ in moving]
        rest = None
        if with_rest:
            pool = pooled(target, fixed, [0.5, 0.5], exact, n=512, seed=seed + 100)
            rest = FixedMixture.of(*pool)
        shares = weights if with_rest else weights / weights.sum()
        elbo = JointELBO(target, moving, base, shares, rest, exact)
        values.append(elbo.value_and_gradient(elbo.start)[0])
    everything = moving + fixed if with_rest else moving
    shares = np.append(weights, [0.25, 0.25]) if with_rest else weights / weights.sum()
    truth = quadrature_elbo(target, everything, shares)
    # Every replicate is unbiased but for the normalised weights of the rest, whose
    # bias is far below one replicate's spread.
    assert abs(np.mean(values) - truth) < 3 * np.std(values, ddof=1) + 1e-9


def test_rest_takes_expectations_under_its_mixture(case, components, pooled):
    family, make, exact = case
    target, weights = make(DIM), np.array([0.15, 0.85])
    mixture, pool = pooled(target, components(family, DIM, 2), weights, exact, n=1024)
    rest = FixedMixture.of(mixture, pool)
    assert_allclose(rest.share.sum(), 1.0, rtol=1e-8)
    assert_allclose(rest.log_density, mixture.log_density(rest.theta), rtol=1e-12)
    # Standard error of the mean, as if the quasi-random draws were independent.
    spread = np.sqrt(rest.share**2 @ (rest.theta - mixture.mean()) ** 2)
    assert (np.abs(rest.share @ rest.theta - mixture.mean()) < 4 * spread).all()


@pytest.mark.parametrize("light", [0.02, 0.0])
def test_rest_keeps_draws_of_light_components_and_none_of_weight_zero(pooled, light):
    family = FullGaussian()
    far = [Component(family, [m, 0.0]) for m in (40.0, -40.0)]
    target = CallableTarget(lambda t: -0.5 * (t**2).sum(axis=-1), 1)
    rest = FixedMixture.of(*pooled(target, far, [light, 1.0 - light], False, n=32))
    assert_allclose(rest.share.sum(), 1.0, rtol=1e-12)
    assert_allclose(rest.share[rest.theta[:, 0] > 0].sum(), light, rtol=1e-12)
    assert len(rest.theta) == (64 if light else 32)


# --- densities that are zero somewhere


class HalfLine:
    """Exponential density: -inf left of the origin."""

    dim = 1

    def value_and_score(self, theta):
        value = np.where(theta[:, 0] > 0, -theta[:, 0], -np.inf)
        return value, np.where(theta > 0, -1.0, 0.0)


@pytest.mark.parametrize("family", [FullGaussian(), Laplace()], ids=repr)
def test_elbo_stays_finite_where_the_target_vanishes(family):
    base = family.base_draws(32, 1, np.random.default_rng(0))
    component = Component(family, [0.5, 0.0])
    elbo = JointELBO(HalfLine(), [component], [base], np.ones(1), None, False)
    value, gradient = elbo.value_and_gradient(elbo.start)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


# --- the ELBO of one component, against dense algebra and differences


FAMILIES = [
    FullGaussian(),
    DiagonalGaussian(),
    LowRankGaussian(2),
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


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_gradient_agrees_with_differences(family, rng):
    params = family.from_moments(rng.standard_normal(3), np.diag([0.5, 1.0, 2.0]))
    base = family.matched_draws(32, 3, rng)
    problem = SingleELBO(TARGET, Component(family, params), base, False)
    x = 0.1 * rng.standard_normal(problem.start.size)
    value, gradient = problem.value_and_gradient(x)
    differences = approx_fprime(x, lambda z: problem.value_and_gradient(z)[0], 1e-6)
    assert_allclose(gradient, differences, rtol=1e-4, atol=1e-5)
    assert value == pytest.approx(problem.elbo(problem.unpack(x)), rel=1e-12)


@pytest.mark.parametrize("family", FAMILIES[:3], ids=repr)
def test_value_is_that_of_dense_algebra(family, rng):
    component = Component(family, 0.3 * rng.standard_normal(family.n_params(3)))
    base = component.matched_draws(64, rng)
    mean, covariance = component.moments()
    expected = -0.5 * (np.trace(PRECISION @ covariance) + mean @ PRECISION @ mean)
    expected += multivariate_normal(mean, covariance).entropy()
    assert SingleELBO(TARGET, component, base, False).elbo(component) == (
        pytest.approx(expected, rel=1e-9)
    )


# --- ranks of starts


def ranking_context(pooled):
    """A mixture of two normals at -3 and 0, of a target with a mode at 3 as well."""
    family = FullGaussian()
    known = [Component(family, [m, 0.0]) for m in (-3.0, 0.0)]
    target = CallableTarget(three_modes, 1)
    mixture, pool = pooled(target, known, [0.5, 0.5], False, n=256)
    fixed = FixedMixture.of(mixture, pool)
    return SearchContext(target, mixture, fixed, pool, 1, False)


def three_modes(theta):
    apart = theta - np.array([[-3.0, 0.0, 3.0]])
    return anp.log(anp.sum(anp.exp(-0.5 * apart**2), axis=1))


def test_gains_of_starts_are_those_of_the_problem_that_the_solver_sees(pooled):
    context = ranking_context(pooled)
    family = FullGaussian()
    places = [3.0, 0.0], [0.1, 0.5], [12.0, 0.0]
    starts = [Component(family, params) for params in places]
    base = family.matched_draws(64, 1, np.random.default_rng(1))
    gains = joint_gains(context, starts, base, np.array(START_WEIGHTS))
    fixed = context.fixed
    before = fixed.expected - fixed.share @ fixed.log_density
    for start, row in zip(starts, gains, strict=True):
        for weight, gain in zip(START_WEIGHTS, row, strict=True):
            shares = np.array([weight])
            elbo = JointELBO(context.target, [start], [base], shares, fixed, False)
            value, _ = elbo.value_and_gradient(elbo.start)
            assert_allclose(gain, value - before, rtol=1e-9)
            # The ELBO bends less at a small share, and steps are longer there.
            assert_allclose(elbo.scale[:2], 1.0 / np.sqrt(max(weight, 1e-3)))
    # The mode that is missing is worth a third of a nat, a wide copy of one little.
    values, weights = JointGain().rank_starts(context, starts, base, None, None)
    assert_allclose(values[:2], gains[:2].max(axis=1))
    assert values[0] > 0.3 > 2.0 * values[1]
    assert weights[0] == START_WEIGHTS[gains[0].argmax()]
    # What gains at no weight, and loses least at the smallest, begins at the largest.
    assert gains[2].max() < 0.0 and gains[2].argmax() == 2
    assert (values[2], weights[2]) == (gains[2, 0], START_WEIGHTS[0])


def test_a_start_whose_gain_is_no_number_is_the_last(pooled):
    context = ranking_context(pooled)
    fixed = replace(context.fixed, expected=np.nan)
    start, weights = Component(FullGaussian(), [0.0, 0.0]), np.array(START_WEIGHTS)
    base = FullGaussian().matched_draws(32, 1, np.random.default_rng(1))
    gains = joint_gains(context._replace(fixed=fixed), [start], base, weights)
    assert (gains == -np.inf).all()
