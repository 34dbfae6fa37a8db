"""Pooled draws: one table, from which every question about weights is answered."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.approximation import Mixture, PooledDraws, finite
from skboost.families import FullGaussian, Laplace
from skboost.targets import Target

from ..objectives.conftest import Skewed, logistic_target


def pool_of(target, mixture, n=64, seed=0, exact=False):
    rng = np.random.default_rng(seed)
    counts = np.broadcast_to(n, mixture.n_components)
    base = [
        component.base_draws(int(count), rng)
        for component, count in zip(mixture.components, counts, strict=True)
    ]
    return PooledDraws.of(target, mixture, base, exact)


def assert_same(a, b):
    for field in fields(a):
        one, two = getattr(a, field.name), getattr(b, field.name)
        assert (one is None) == (two is None)
        if one is not None:
            assert_allclose(one, two, rtol=1e-9, atol=1e-11, err_msg=field.name)


def line_mixture(weights=(0.3, 0.5, 0.2)):
    family = FullGaussian()
    parts = [(-1.0, 0.5), (0.5, 1.0), (0.0, 2.0)]
    components = tuple((family, np.array([m, np.log(s)])) for m, s in parts)
    return Mixture(components, np.array(weights))


GRID = np.linspace(-25.0, 25.0, 20_001)[:, None]


def divergence(target, mixture, weights):
    """KL of the weighted mixture from the unnormalised target, by quadrature."""
    q = np.exp(mixture.log_components(GRID)) @ weights
    with np.errstate(divide="ignore", invalid="ignore"):
        integrand = np.where(q > 0, q * (np.log(q) - target.log_density(GRID)), 0.0)
    return np.trapezoid(integrand, GRID[:, 0])


# --- the table


def test_the_table_holds_what_it_says(mixture):
    target = Skewed(3)
    pool = pool_of(target, mixture, n=[10, 20, 30, 40][: mixture.n_components])
    assert_allclose(pool.log_components, mixture.log_components(pool.theta))
    assert_allclose(pool.log_joint, target.log_density(pool.theta))
    counts = np.bincount(pool.source)
    assert counts.tolist() == [10, 20, 30, 40][: mixture.n_components]
    expected = np.log(np.exp(pool.log_components) @ (counts / counts.sum()))
    assert_allclose(pool.log_proposal, expected)
    entropies = [component.entropy() for component in mixture.components]
    assert_allclose(pool.entropy, entropies)
    pool = pool_of(Skewed(3), mixture, n=512)
    for k, component in enumerate(mixture.components):
        theta = pool.theta[pool.source == k]
        error = component.std() / np.sqrt(len(theta))
        assert (np.abs(theta.mean(axis=0) - component.mean()) < 4 * error).all()


def test_exact_expectations_leave_the_target_alone():
    mixture = line_mixture()
    pool = pool_of(logistic_target(1), mixture, exact=True)
    assert pool.log_joint is None
    log_joint = logistic_target(1).log_density(GRID)[:, None]
    z = np.exp(mixture.log_components(GRID)) * log_joint
    assert_allclose(pool.expected, np.trapezoid(z, GRID[:, 0], axis=0), rtol=1e-7)


@pytest.mark.parametrize("exact", [False, True], ids=["Monte Carlo", "exact"])
def test_joining_and_keeping_equal_building_anew(exact):
    target, whole = logistic_target(1), line_mixture()
    first, last = whole.keep([True, True, False]), whole.keep([False, False, True])
    rng = np.random.default_rng(4)
    base = [component.base_draws(32, rng) for component in whole.components]
    pool = PooledDraws.of(target, first, base[:2], exact)
    new = PooledDraws.of(target, last, base[2:], exact)
    joined = pool.join(
        new, last.log_components(pool.theta), first.log_components(new.theta)
    )
    both = PooledDraws.of(target, whole, base, exact)
    assert_same(joined, both)
    mask = np.array([True, False, True])
    rebuilt = PooledDraws.of(target, whole.keep(mask), [base[0], base[2]], exact)
    assert_same(both.keep(mask), rebuilt)
    assert both.keep(np.ones(3, bool)) is both


def test_a_pool_is_not_changed_by_its_uses(mixture):
    pool = pool_of(Skewed(3), mixture)
    before = {f.name: getattr(pool, f.name) for f in fields(pool)}
    copies = {k: None if v is None else v.copy() for k, v in before.items()}
    pool.weight_objective().value_and_slope(mixture.weights)
    pool.keep(np.arange(mixture.n_components) > 0)
    pool.join(pool, pool.log_components, pool.log_components)
    for name, value in before.items():
        assert value is None or np.array_equal(value, copies[name])


# --- the convex estimate


@pytest.mark.parametrize(("exact", "dim"), [(False, 3), (True, 1)])
def test_the_estimate_is_convex(exact, dim):
    rng = np.random.default_rng(8)
    family = FullGaussian()
    components = tuple((family, 0.7 * rng.standard_normal(family.n_params(dim)))
                       for _ in range(6))  # fmt: skip
    mixture = Mixture(components, np.full(6, 1 / 6))
    table = pool_of(logistic_target(dim), mixture, n=24, exact=exact).weight_objective()
    for _ in range(50):
        a, b = rng.dirichlet(np.full(6, 0.3), size=2)
        t = rng.uniform()
        chord = t * table.value(a) + (1 - t) * table.value(b)
        assert table.value(t * a + (1 - t) * b) <= chord + 1e-12 * (1 + abs(chord))
        assert np.linalg.eigvalsh(table.hessian(a + 1e-9))[0] > -1e-9


@pytest.mark.parametrize(
    ("n", "exact"),
    [(32, False), (32, True), ([8, 64, 16], False)],
    ids=["Monte Carlo", "exact", "unequal pools"],
)
def test_the_estimate_and_its_slope_are_unbiased(n, exact):
    target, mixture = logistic_target(1), line_mixture()
    start = np.array([0.2, 0.2, 0.6])
    others = np.array([(0.3, 0.5, 0.2), (0.9, 0.05, 0.05), (0.0, 0.0, 1.0)])
    found, slopes = [], []
    for seed in range(40):
        table = pool_of(target, mixture, n, seed, exact).weight_objective()
        # Values hold an unknown constant each: differences are what weights are set by.
        found.append([table.value(each) - table.value(start) for each in others])
        slope = table.slope(mixture.weights)
        slopes.append(slope - mixture.weights @ slope)
    truth = [divergence(target, mixture, each) for each in others]
    truth = np.array(truth) - divergence(target, mixture, start)
    log_q = mixture.log_density(GRID) - target.log_density(GRID)
    s = np.exp(mixture.log_components(GRID))
    slope = np.trapezoid(s * log_q[:, None], GRID[:, 0], axis=0)
    for drawn, exactly in ((found, truth), (slopes, slope - mixture.weights @ slope)):
        error = np.std(drawn, axis=0, ddof=1) / np.sqrt(len(drawn))
        assert (np.abs(np.mean(drawn, axis=0) - exactly) < 4 * error).all()


def test_zero_densities_leave_the_table_finite():
    class HalfLine(Target):
        dim = 1

        def log_density(self, theta, strict=False):
            return np.where(theta[:, 0] > 0, -theta[:, 0], -np.inf)

    family = Laplace()
    mixture = Mixture(
        ((family, np.array([1.0, 0.0])), (family, np.array([-30.0, 0.0]))),
        np.array([0.5, 0.5]),
    )
    table = pool_of(HalfLine(), mixture).weight_objective()
    slope = table.slope(mixture.weights)
    assert np.isfinite(slope).all()
    # Weight belongs on the component that lies where the density is.
    assert slope[0] < slope[1] - 50.0


def test_finite_lowers_zeros_below_the_worst():
    assert_allclose(finite(np.array([-3.0, -np.inf, 1.0])), [-3.0, -103.0, 1.0])
    assert_allclose(finite(np.array([-np.inf])), [-100.0])
    values = np.array([-3.0, 1.0])
    assert finite(values) is values
