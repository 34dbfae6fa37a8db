"""Overlaps with the root of the target: against quadrature and differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from skboost.approximation import Roots
from skboost.families import (
    Component,
    DiagonalGaussian,
    FullGaussian,
    LowRankGaussian,
    StudentT,
)
from skboost.objectives import (
    JointRoots,
    ResidualRoot,
    RootControl,
    RootGain,
    SearchContext,
    between_roots,
    defensive_draws,
    defensive_weights,
    lower_confidence_sum,
)
from skboost.targets import Target


class Quartic(Target):
    """A density without normaliser, so that nothing is a Gaussian by accident."""

    def __init__(self, dim):
        self.dim = dim

    def value_and_score(self, theta):
        return (-np.sum(0.25 * theta**4 - 0.3 * theta, axis=1) + 3.0, 0.3 - theta**3)


FAMILIES = [DiagonalGaussian(), FullGaussian(), LowRankGaussian(rank=1)]


def problem_parts(family, rng, dim=2, n=64):
    params = np.array(
        [
            family.from_moments(0.3 * rng.normal(size=dim), np.full(dim, v))
            for v in (0.5, 0.8)
        ]
    )
    roots = Roots.of(family, params, np.array([0.7, 0.5]))
    control = RootControl(roots, 1.2)
    base = [defensive_draws(family, n, dim, rng) for _ in range(2)]
    return Quartic(dim), control, roots, base


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_gradients_of_the_next_root_and_of_all_roots(family, rng, slope):
    target, control, roots, base = problem_parts(family, rng)
    start = family.from_moments(np.array([1.0, -0.5]), np.array([0.4, 0.9]))
    for problem in (
        ResidualRoot(target, control, Component(family, start), base[0]),
        JointRoots(target, control, roots, base),
    ):
        x = 0.1 * rng.normal(size=problem.start.size)
        _, gradient = problem.value_and_gradient(x)
        expected = slope(lambda z, own=problem: own.value_and_gradient(z)[0], x)
        assert_allclose(gradient, expected, atol=2e-6)


@pytest.mark.parametrize("family", [DiagonalGaussian(), FullGaussian()], ids=repr)
def test_the_rule_integrates_the_root(family, rng):
    component = Component(family, family.from_moments([0.4], [0.3]))
    theta = component.draws(defensive_draws(family, 4096, 1, rng))
    weight, _, _ = defensive_weights(component, theta)
    target = Quartic(1)

    def integrand(x):
        point = np.array([[x]])
        return float(
            np.exp(
                0.5 * target.log_density(point) + 0.5 * component.log_density(point)
            )[0]
        )

    exact = quad(integrand, -12, 12, points=[0.4], limit=200)[0]
    estimate = weight @ np.exp(0.5 * target.log_density(theta))
    assert_allclose(estimate, exact, rtol=2e-3)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_inner_products_with_the_control(family, rng):
    _, control, roots, _ = problem_parts(family, rng)
    value, _ = between_roots(roots.params, roots)
    assert_allclose(value, roots.gram @ roots.coefficients)
    assert_allclose(roots.coefficients @ value, 1.0)


def test_a_sum_that_rests_on_one_draw_is_worth_nothing():
    lone = np.zeros(512)
    lone[7] = 1e6
    assert lower_confidence_sum(lone, 11)[0] < 0
    even = np.full(512, 2.0)
    assert_allclose(lower_confidence_sum(even, 11)[0], 1024.0)


def test_fewer_errors_are_taken_off_where_draws_are_quasi_random(rng):
    terms = rng.normal(1.0, 1.0, 64)
    se = np.sqrt(64) * terms.std()
    found = [(terms.sum() - lower_confidence_sum(terms, d)[0]) / se for d in (1, 2, 3)]
    assert_allclose(found, [1.0, 1.5, 2.0])


@pytest.mark.parametrize("mean", [0.4, 2.0])
def test_the_next_root_is_judged_by_its_angle_to_those_before(mean, rng):
    """Algorithm 1, equation 3, by quadrature."""
    family = FullGaussian()
    target, control, _, _ = problem_parts(family, rng, dim=1)
    component = Component(family, family.from_moments([mean], [[0.3]]))
    base = defensive_draws(family, 4096, 1, rng)
    problem = ResidualRoot(target, control, component, base)
    z = np.linspace(-9.0, 9.0, 20_001)[:, None]
    h = np.exp(0.5 * component.log_density(z))
    g = np.exp(control.roots.log_root(z))
    f_less_g = control.residual(z, target.log_density(z))
    between, residual = (np.trapezoid(part * h, z[:, 0]) for part in (g, f_less_g))
    exact = residual / np.sqrt(1.0 - between**2)
    # Less one standard error of the draws.
    assert_allclose(problem.value_and_gradient(problem.start)[0], exact, rtol=0.1)


def test_roots_that_overlap_with_nothing_are_worth_nothing(rng):
    target, control, roots, base = problem_parts(FullGaussian(), rng)
    # A control that is all of what overlaps, and a target that is next to zero.
    target.value_and_score = lambda t: (np.full(len(t), -1e4), 0.0 * t)
    problem = JointRoots(target, control, roots, base)
    value, gradient = problem.value_and_gradient(problem.start)
    assert value == -np.inf and not gradient.any()


def test_starts_are_ranked_by_what_the_problem_says_of_them(rng):
    family = FullGaussian()
    target, control, _, _ = problem_parts(family, rng)
    context = SearchContext(target, None, control, None, 1, False)
    params = [family.from_moments(np.full(2, m), np.eye(2)) for m in (0.5, 9.0)]
    starts = [Component(family, one) for one in params]
    values, weights = RootGain().rank_starts(
        context, starts, None, np.random.default_rng(1), None
    )
    few = defensive_draws(family, 128, 2, np.random.default_rng(1))
    problems = [ResidualRoot(target, control, start, few) for start in starts]
    assert_allclose(values, [p.value_and_gradient(p.start)[0] for p in problems])
    assert values[0] > values[1] and np.isnan(weights).all()


def test_families_whose_roots_have_no_products_are_refused():
    assert isinstance(RootGain().component_family(FullGaussian()), FullGaussian)
    with pytest.raises(ValueError, match="needs a family whose square roots"):
        RootGain().component_family(StudentT())
