"""A factor within another one: quadrature at both levels, against brute force."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from skboost import BoostedHierarchicalLogisticRegression
from skboost.hierarchy import (
    CrossedNormalMarginal,
    Factor,
    GroupedRows,
    IntegratedNestedMarginal,
    IntegratedNormalMarginal,
    IntegratedQuadratureMarginal,
    LaplaceMarginal,
    NestedQuadratureMarginal,
    error_of_trend,
    marginal_of,
)
from skboost.targets import Logistic, Poisson, StudentTNoise

from .conftest import (
    ALL_LIKELIHOODS,
    assert_score_is_the_slope,
    counts,
    normal,
    of,
    points,
    split,
    standard_normals,
    zeros_and_ones,
)
from .test_integrated_coefficients import by_quadrature
from .test_marginals import log_probability

# Points of standard normal effects, and logarithms of their masses.
GRID = np.linspace(-7.0, 7.0, 99)
LOG_MASS = norm.logpdf(GRID) + np.log(GRID[1] - GRID[0])
SCALE = np.array([0.7, 2.0])


def by_grid(rows, likelihood, beta, levels, level=None):
    """Log joint masses of every point of effects, coarse by fine, by fine group; and
    their sum over all groups. The first factor is the coarser one.
    """
    coarse, fine = rows.factors
    sizes = np.exp(levels)
    offset = 0.0 if rows.offset is None else rows.offset
    base = rows.X @ beta + offset
    masses = []
    for group in range(fine.n_groups):
        held = np.flatnonzero(fine.codes == group)
        log = np.zeros((len(GRID), len(GRID)))
        for i in held:
            moved = sizes[0] * coarse.columns[i, 0] * GRID[:, None]
            moved = moved + sizes[1] * fine.columns[i, 0] * GRID
            eta = (base[i] + moved).ravel()
            one = log_probability(likelihood, np.full(len(eta), rows.y[i]), eta, level)
            log += rows.weight[i] * one.reshape(log.shape)
        masses.append(log + LOG_MASS)
    within = np.array([logsumexp(mass, axis=1) for mass in masses])
    parent = np.zeros(fine.n_groups, dtype=int)
    parent[fine.codes] = coarse.codes
    above = [within[parent == k].sum(axis=0) for k in range(coarse.n_groups)]
    above = np.array(above) + LOG_MASS
    return masses, above, parent, logsumexp(above, axis=1).sum()


@pytest.mark.parametrize(
    ("likelihood", "response", "level", "order"),
    [
        (Logistic(), zeros_and_ones, None, (0, 1)),
        (Poisson(), counts, None, (1, 0)),
        (StudentTNoise(4.0), normal, -0.5, (0, 1)),
    ],
)
def test_value_and_draws_are_those_of_a_grid(likelihood, response, level, order):
    rows = of("nested", response, n=20)
    theta = points(rows)[:1]
    beta, levels = split(theta, rows)
    further = () if level is None else (np.array([level]),)
    masses, above, parent, exact = by_grid(rows, likelihood, beta[0], levels[0], level)
    turned = replace(rows, factors=tuple(rows.factors[f] for f in order))
    marginal = NestedQuadratureMarginal(turned, likelihood)
    given = beta, levels[:, list(order)], *further
    more = NestedQuadratureMarginal(turned, likelihood, n_nodes=11)
    assert marginal.value(*given)[0] == pytest.approx(exact, abs=5e-4)
    assert more.value(*given)[0] == pytest.approx(exact, abs=1e-6)
    n = 4000
    many = [np.repeat(part, n, axis=0) for part in given]
    drawn = marginal.effects(standard_normals(turned, n), *many)
    drawn = [drawn[order.index(f)][:, 0].reshape(2 * n, -1) for f in (0, 1)]
    share = np.exp(above - logsumexp(above, axis=1, keepdims=True))
    sizes = np.exp(levels[0])
    se = 5.0 * np.array([one.std(axis=0).max() for one in drawn]) / np.sqrt(n)
    np.testing.assert_allclose(
        drawn[0].mean(axis=0), sizes[0] * share @ GRID, atol=se[0]
    )
    for group, mass in enumerate(masses):
        inner = np.exp(mass - logsumexp(mass, axis=1, keepdims=True))
        both = share[parent[group]][:, None] * inner
        mean = both.sum(axis=0) @ GRID
        square = both.sum(axis=0) @ GRID**2
        product = GRID @ both @ GRID - mean * (share[parent[group]] @ GRID)
        v, w = drawn[1][:, group] / sizes[1], drawn[0][:, parent[group]] / sizes[0]
        assert v.mean() == pytest.approx(mean, abs=5.0 * v.std() / np.sqrt(n))
        assert v.var() == pytest.approx(square - mean**2, rel=0.1)
        assert np.cov(v, w)[0, 1] == pytest.approx(product, abs=0.06)


@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS)
def test_gradients_are_those_of_the_integral(likelihood, response):
    rows = of("nested", response, n=14, offset=False)
    noise = likelihood.n_further
    marginal = NestedQuadratureMarginal(rows, likelihood, n_nodes=11)
    assert_score_is_the_slope(marginal, points(rows, noise, 2), rows, noise, 5e-5)


def test_finer_groups_with_the_same_rows_are_one():
    """Within one coarser group alone; those without rows are of any."""
    rng, n = np.random.default_rng(0), 60
    fine = rng.permutation(n) // 2
    one = np.ones((n, 1))
    factors = Factor(fine, 31, one), Factor(fine % 3, 4, one)
    rows = GroupedRows(one, (fine % 2).astype(float), one[:, 0], factors)
    theta = np.array([[0.3, 0.2, -0.1], [0.1, 1.0, 0.5]])
    given = theta[:, :1], theta[:, 1:]
    found, each = (
        NestedQuadratureMarginal(rows, Logistic(), merge=merge)
        for merge in (True, False)
    )
    assert (found.n_kinds, each.n_kinds) == (7, 31)
    for one, other in zip(
        found.value_and_score(*given), each.value_and_score(*given), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    normals = standard_normals(rows, 2)
    for one, other in zip(
        found.effects(normals, *given), each.effects(normals, *given), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS[:3])
def test_coefficients_are_integrated_out_over_it(likelihood, response):
    rows = of("nested", response)
    levels = 0.4 * np.random.default_rng(11).normal(size=(40, 2 + likelihood.n_further))
    given = levels[:, :2], *levels[:, 2:].T
    marginal = IntegratedNestedMarginal(rows, likelihood, SCALE)
    assert marginal.learn_missed(*given)
    some = [part[:1] for part in given]
    beta, masses = by_quadrature(rows, marginal, *some)
    value = marginal.value(levels[:1, :0], *some)[0]
    assert value == pytest.approx(logsumexp(masses), abs=0.02)
    share = np.exp(masses - logsumexp(masses))
    mean, root = (part[0] for part in marginal.coefficients(*some))
    size = np.sqrt(share @ (beta - share @ beta) ** 2)
    np.testing.assert_allclose((mean - share @ beta) / size, 0.0, atol=0.03)
    np.testing.assert_allclose(np.sqrt((root**2).sum(axis=1)) / size, 1.0, atol=0.03)


def three_level_rows(n_fine=200, n_coarse=40, seed=0):
    """Binary rows, one to three of each fine group; scales 2.3 and 1."""
    rng = np.random.default_rng(seed)
    above = np.append(np.arange(n_coarse), rng.integers(0, n_coarse, n_fine - n_coarse))
    fine = np.repeat(np.arange(n_fine), rng.integers(1, 4, n_fine))
    X = np.column_stack([rng.normal(size=len(fine)), rng.integers(0, 2, len(fine))])
    eta = X @ [1.7, -1.7] + 2.3 * rng.normal(size=n_fine)[fine]
    eta += rng.normal(size=n_coarse)[above[fine]]
    return X, (eta > rng.logistic(size=len(eta))).astype(int), fine, above[fine]


def test_which_way_factors_take(monkeypatch):
    X, y, fine, coarse = three_level_rows(30, 6)
    one, n = np.ones((len(y), 1)), len(y)
    factors = Factor(coarse, 6, one), Factor(fine, 30, one)
    rows = GroupedRows(X, y.astype(float), np.ones(n), factors)
    assert type(marginal_of(rows, Logistic())) is NestedQuadratureMarginal
    assert type(marginal_of(rows, Logistic(), SCALE)) is IntegratedNestedMarginal
    crossed = replace(rows, factors=(Factor(np.arange(n) % 5, 5, one), factors[1]))
    assert type(marginal_of(crossed, Logistic(), SCALE)) is LaplaceMarginal
    alone = replace(rows, factors=factors[1:])
    assert type(marginal_of(alone, Logistic(), SCALE)) is IntegratedQuadratureMarginal
    # Many groups beside many columns are integrated by sparse matrices.
    assert type(marginal_of(alone, scale=SCALE)) is IntegratedNormalMarginal
    monkeypatch.setattr("skboost.hierarchy._target._MOST_PAIRS", 0)
    assert type(marginal_of(alone, scale=SCALE)) is CrossedNormalMarginal


def test_what_an_approximate_density_misses_is_half_its_variance():
    """By weights of draws of effects, against quadrature."""
    X, y, fine, coarse = three_level_rows(30, 8)
    one = np.ones((len(y), 1))
    factors = Factor(coarse, 8, one), Factor(fine, 30, one)
    rows = GroupedRows(X, y.astype(float), one[:, 0], factors)
    rng, n = np.random.default_rng(3), 100
    levels = np.log([1.0, 2.0]) + 0.35 * rng.normal(size=(n, 2))
    none, further = np.empty((n, 0)), np.full(2, 2.0)
    exact = IntegratedNestedMarginal(rows, Logistic(), further)
    assert exact.learn_missed(levels[:40])
    laplace = LaplaceMarginal(rows, Logistic(), further)
    missed = exact.value(none, levels) - laplace.value(none, levels)
    normals = *standard_normals(rows, n), rng.normal(size=(2, n, 1))
    weights = laplace.weighted_effects(normals, none, levels, few=1.0)[1]
    value, se = error_of_trend(levels, weights)
    assert value == pytest.approx(0.5 * missed.var(), abs=4.0 * se)
    assert 0.0 < se < value / 3.0
    # Noise of the weights is none of it.
    theta, noise = rng.normal(size=(400, 2)), rng.normal(size=400)
    trend = theta @ [0.3, -0.2]
    value, se = error_of_trend(theta, np.tile(trend + noise, (2, 1)))
    assert value == pytest.approx(0.5 * trend.var(), abs=4.0 * se)
    assert 0.0 < se < 0.03


@pytest.mark.slow
def test_a_density_whose_error_has_no_bound_has_not_converged(monkeypatch):
    """Three levels of binary rows by Laplace's method: its own figures said .003."""
    monkeypatch.setattr("skboost.hierarchy._target.nested_order", lambda factors: None)
    X, y, fine, coarse = three_level_rows(800, 150)
    model = BoostedHierarchicalLogisticRegression(groups=[2, 3], random_state=0)
    with pytest.warns(UserWarning, match="Scales and coefficients are those of an app"):
        model.fit(np.column_stack([X, fine, coarse]), y)
    assert model.remaining_kl_interval_[1] == np.inf
    assert model.remaining_kl_ > 0.1
    assert not model.converged_
    assert "Converged" not in model.message_


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True])
def test_three_levels_of_binary_rows_are_right(nested):
    """Means are those of draws that are weighed by the integral on many nodes."""
    X, y, fine, coarse = three_level_rows()
    names = {"nested": [(3, 2)]} if nested else {"groups": [2, 3]}
    model = BoostedHierarchicalLogisticRegression(**names, random_state=0)
    model.fit(np.column_stack([X, fine, coarse]), y)
    assert model.converged_
    assert model.effects_efficiency_ > 0.9
    assert model.remaining_kl_interval_[1] < 0.02
    coef, intercept, scales, _ = model.sample_posterior(400, random_state=0)
    beta = np.column_stack([coef, intercept])
    names = list(scales)
    levels = np.log(np.column_stack([scales[name] for name in names]))
    one = np.ones((len(y), 1))
    factors = {"x2": Factor(fine, 200, one), "x3": Factor(coarse, 40, one)}
    factors["x3:x2"] = factors["x2"]
    factors = tuple(factors[name[3:-1]] for name in names)
    rows = GroupedRows(np.hstack([X, one]), y.astype(float), one[:, 0], factors)
    values = [
        NestedQuadratureMarginal(rows, Logistic(), n).value(beta, levels)
        for n in (5, 9)
    ]
    weight = np.exp(values[1] - values[0] - (values[1] - values[0]).max())
    weight /= weight.sum()
    table = np.column_stack([beta, levels])
    moved = (weight @ table - table.mean(axis=0)) / table.std(axis=0)
    assert np.abs(moved).max() < 0.1
