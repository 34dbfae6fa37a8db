"""Group effects integrated out, against brute force."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from scipy.stats import nbinom, norm, poisson, t

from skboost.hierarchy import (
    CrossedNormalMarginal,
    Factor,
    GroupedRows,
    HierarchicalTarget,
    LaplaceMarginal,
    NestedQuadratureMarginal,
    NormalMarginal,
    QuadratureMarginal,
    UngroupedMarginal,
    marginal_of,
)
from skboost.targets import (
    CumulativeLogits,
    HalfNormalPrior,
    HalfTPrior,
    Logistic,
    NegativeBinomial,
    NormalPrior,
    Poisson,
    StudentTNoise,
)
from skboost.transforms import LowerBound, Scale

from .conftest import (
    ALL_LIKELIHOODS,
    assert_score_is_the_slope,
    choose_tables,
    counts,
    differences,
    grouped,
    normal,
    of,
    points,
    split,
    standard_normals,
    zeros_and_ones,
)

# Effects in standard deviations: sums over so many are integrals to rounding.
GRID = np.linspace(-9.0, 9.0, 8001)


@pytest.mark.parametrize("n_steps", [60, 0])
@pytest.mark.parametrize("correlated", [False, True])
def test_many_effects_are_drawn_around_the_means_of_few(
    correlated, n_steps, monkeypatch
):
    """Conjugate gradients reach the means at scales far from those they begin with."""
    rows = with_slopes(correlated)
    theta = points(rows, 1 + 2 * correlated, 12)
    theta[:, -1] = np.linspace(-3.0, 1.0, 12)
    split = theta[:, :2], theta[:, 2:-1], theta[:, -1]
    normals = standard_normals(rows, 12)
    few = CrossedNormalMarginal(rows).effects(normals, *split)
    monkeypatch.setattr("skboost.hierarchy._crossed_normal._FEW", 0)
    monkeypatch.setattr("skboost.hierarchy._crossed_normal._MOST_STEPS", n_steps)
    many = CrossedNormalMarginal(rows).effects(normals, *split)
    for one, other in zip(many, few, strict=True):
        np.testing.assert_allclose(one.mean(axis=0), other.mean(axis=0), atol=2e-4)


@pytest.mark.parametrize("correlated", [False, True])
def test_products_of_cells_say_what_their_table_does(correlated, monkeypatch):
    choose_tables(monkeypatch, True)
    rows, scale = with_slopes(correlated), np.array([0.7, 2.0])
    theta = points(rows, 1 + 2 * correlated)
    given = np.empty((len(theta), 0)), theta[:, 2:-1], theta[:, -1]
    known = CrossedNormalMarginal(rows, scale)
    assert known.pairs is not None
    monkeypatch.setattr("skboost.hierarchy._precision._MOST_PAIRS", 0)
    plain = CrossedNormalMarginal(rows, scale)
    assert plain.pairs is None
    for name in ("value_and_score", "coefficients"):
        arguments = given[name == "coefficients" :]
        found, expected = (getattr(m, name)(*arguments) for m in (known, plain))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def with_slopes(correlated):
    """Rows in eight groups and in four others, with a slope of either."""
    rows = grouped(((8, 2), (4, 2)), normal, offset=False)
    factors = tuple(replace(f, correlated=correlated) for f in rows.factors)
    return replace(rows, factors=factors)


@pytest.mark.filterwarnings("error")
def test_scales_that_leave_no_digits_are_never_likely():
    """One row in every group and a constant slope: scales went to 1e150."""
    rng, n = np.random.default_rng(0), 500
    y = rng.normal(size=60)
    factor = Factor(np.arange(60), 60, np.ones((60, 2)))
    marginal = NormalMarginal(
        GroupedRows(np.ones((60, 1)), y, np.ones(60), (factor,), None)
    )
    beta, levels = np.zeros((n, 1)), rng.uniform(-8.0, 8.0, size=(n, 2))
    noise = rng.uniform(-30.0, 1.0, size=n)
    found, score = marginal.value_and_score(beta, levels, noise)
    variance = np.exp(2.0 * levels).sum(axis=1) + np.exp(2.0 * noise)
    exact = norm.logpdf(y[:, None], scale=np.sqrt(variance)).sum(axis=0)
    # Of a weak prior of the noise, which has to outweigh rounding.
    assert (found - exact < 1e-6 + 0.1 * np.exp(-2.0 * noise)).all()
    np.testing.assert_allclose(found[noise > -2.0], exact[noise > -2.0], rtol=1e-5)
    (effects,) = marginal.effects([np.ones((2, n, 60))], beta, levels, noise)
    assert np.isfinite(effects).all() and np.isfinite(score).all()


@pytest.mark.parametrize(("n_groups", "cost"), [(12, "free"), (200, "much")])
def test_few_groups_with_slopes_need_no_surrogate(n_groups, cost):
    """Twelve groups with a slope each took 40 seconds on one, and 1.5 without."""
    rows = grouped(((n_groups, 2),), normal, n=600, offset=False)
    assert NormalMarginal(rows).cost == cost


def three_classes(rng, n):
    return rng.integers(0, 3, n).astype(float)


def log_probability(likelihood, y, eta, level):
    if isinstance(likelihood, Logistic):
        return y * eta - np.logaddexp(0.0, eta)
    if isinstance(likelihood, StudentTNoise):
        return t.logpdf(y, likelihood.df, eta, np.exp(level))
    if isinstance(likelihood, CumulativeLogits):
        ends = np.array([-np.inf, 0.0, np.exp(level), np.inf])
        codes = y.astype(int)
        return np.log(expit(ends[codes + 1] - eta) - expit(ends[codes] - eta))
    if level is None or level < -20.0:
        # Beyond what SciPy resolves negative binomial counts are Poisson counts.
        return poisson.logpmf(y, np.exp(eta))
    alpha = np.exp(level)
    return nbinom.logpmf(y, 1.0 / alpha, 1.0 / (1.0 + alpha * np.exp(eta)))


@pytest.mark.parametrize(
    ("likelihood", "response", "level", "error"),
    [
        (Logistic(), zeros_and_ones, None, 1e-5),
        (Poisson(), counts, None, 1e-5),
        # Responses that vary a lot.
        *((NegativeBinomial(), counts, at, 5e-5) for at in (-30.0, -1.0, 1.5)),
        (CumulativeLogits(3), three_classes, 0.5, 1e-5),
        (StudentTNoise(4.0), normal, -0.5, 1e-4),
    ],
)
def test_quadrature_is_the_integral_over_every_group(
    likelihood, response, level, error
):
    rows = of("intercepts", response, n=40, offset=False)
    theta = points(rows)[:1]
    parts = split(theta, rows)
    parts = parts if level is None else (*parts, np.array([level]))
    eta = rows.X @ theta[0, :2] + np.exp(theta[0, 2]) * GRID[:, None]
    log = log_probability(likelihood, rows.y, eta, level) * rows.weight
    of_group = log @ (rows.factors[0].codes[:, None] == np.arange(5))
    exact = np.trapezoid(np.exp(of_group) * norm.pdf(GRID)[:, None], GRID, axis=0)
    # With ten nodes each, and with more.
    for n_nodes, atol in ((5, error), (10, 1e-6)):
        found = QuadratureMarginal(rows, likelihood, n_nodes).value_and_score(*parts)
        assert found[0][0] == pytest.approx(np.log(exact).sum(), abs=atol)


@pytest.mark.parametrize("n_rows", [1, 3])
@pytest.mark.parametrize("scale", [3.0, 10.0, 30.0, 100.0])
def test_quadrature_of_groups_whose_responses_are_equal(n_rows, scale):
    """At large scales they are steps times Gaussians: errors would look like modes."""
    codes = np.repeat([0, 1], n_rows)
    factor = Factor(codes, 2, np.ones((2 * n_rows, 1)))
    rows = GroupedRows(factor.columns, codes * 1.0, np.ones(len(codes)), (factor,))
    found, _ = QuadratureMarginal(rows, Logistic()).value_and_score(
        np.array([[0.3]]), np.log([[scale]])
    )

    each = [expit(sign * (0.3 + scale * GRID)) ** n_rows for sign in (-1, 1)]
    parts = np.trapezoid(each * norm.pdf(GRID), GRID)
    assert found[0] == pytest.approx(np.log(parts).sum(), abs=4e-3)


# In two dimensions there are two ways: with and without a further parameter.
@pytest.mark.parametrize(
    ("likelihood", "response", "name"),
    [
        *((*case, "intercepts") for case in ALL_LIKELIHOODS),
        *((*case, "slopes") for case in (ALL_LIKELIHOODS[0], ALL_LIKELIHOODS[2])),
    ],
)
def test_gradients_of_quadrature_are_those_of_the_integral(likelihood, response, name):
    rows = of(name, response, n=12, offset=False)
    noise = likelihood.n_further
    marginal = QuadratureMarginal(rows, likelihood, n_nodes=13)
    assert_score_is_the_slope(marginal, points(rows, noise, 2), rows, noise, 2e-5)


def test_two_ordered_classes_are_two_classes():
    rows = of("slopes", zeros_and_ones)
    parts = split(points(rows), rows)
    ordered, plain = (
        QuadratureMarginal(rows, likelihood).value_and_score(*parts)
        for likelihood in (CumulativeLogits(2), Logistic())
    )
    assert_allclose(ordered[0], plain[0], rtol=1e-9)
    assert_allclose(ordered[1], plain[1], rtol=1e-6)


def test_counts_without_groups_have_their_likelihood():
    rows = of("none", counts, n=40)
    theta = points(rows, 1)
    marginal = UngroupedMarginal(rows, NegativeBinomial())
    found, _ = marginal.value_and_score(*split(theta, rows, True))
    for one, value in zip(theta, found, strict=True):
        eta = rows.X @ one[:2] + rows.offset
        log = log_probability(marginal.likelihood, rows.y, eta, one[-1])
        assert value == pytest.approx(rows.weight @ log)
    assert_score_is_the_slope(marginal, theta, rows, True, 2e-5)


def test_effects_of_counts_have_the_skewness_of_their_density():
    rows = of("intercepts", counts, n=40, offset=False)
    theta = np.repeat(points(rows)[:1], 20_000, axis=0)
    (factor,) = rows.factors
    normals = standard_normals(rows, 20_000)
    (draws,) = QuadratureMarginal(rows, Poisson()).effects(normals, *split(theta, rows))
    scale, grid = np.exp(theta[0, 2]), np.linspace(-9.0, 9.0, 4001)
    for group in range(5):
        held = factor.codes == group
        eta = rows.X[held] @ theta[0, :2] + scale * grid[:, None]
        log_density = (rows.y[held] * eta - np.exp(eta)) @ rows.weight[held]
        density = np.exp(log_density - 0.5 * grid**2 - log_density.max())
        density /= density.sum()
        levels = np.interp([0.05, 0.5, 0.95], density.cumsum(), scale * grid)
        found = np.quantile(draws[..., group], [0.05, 0.5, 0.95])
        width = levels[2] - levels[0]
        np.testing.assert_allclose(found, levels, atol=0.02 * width)


@pytest.mark.parametrize("prior", [HalfNormalPrior(0.7), HalfTPrior(4.0, 0.7)])
def test_priors_of_scales_are_densities_of_logarithms(prior):
    grid = np.linspace(-40.0, 12.0, 60_001)
    value, _ = prior.value_and_score(grid)
    assert np.trapezoid(np.exp(value), grid) == pytest.approx(1.0, abs=1e-6)
    middle = np.linspace(-3.0, 2.0, 50)
    above, below = (prior.value_and_score(middle + s)[0] for s in (1e-5, -1e-5))
    score = prior.value_and_score(middle)[1]
    np.testing.assert_allclose(score, (above - below) / 2e-5, atol=1e-5)


def test_the_target_adds_priors_to_the_marginal():
    rows = of("slopes", normal, n=40, offset=False)
    target = HierarchicalTarget(
        NormalMarginal(rows),
        NormalPrior(),
        np.array([1.0, 3.0]),
        [HalfTPrior(3.0, 0.5), HalfNormalPrior(2.0), HalfTPrior()],
        [Scale(0.3), Scale(2.0), LowerBound()],
    )
    theta = points(rows, 1)
    value, score = target.value_and_score(theta)
    expected = target.marginal.value_and_score(*target.split(theta))[0]
    expected = expected + NormalPrior().log_density(theta[:, :2], np.array([1.0, 3.0]))
    for k, (prior, transform) in enumerate(
        zip(target.level_priors, target.transforms, strict=True)
    ):
        z = theta[:, 2 + k]
        slope = (transform.forward(z + 1e-6) - transform.forward(z - 1e-6)) / 2e-6
        level = np.log(transform.forward(z))
        expected = expected + prior.value_and_score(level)[0]
        expected = expected + np.log(slope / transform.forward(z))
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(
        score, differences(lambda t: target.value_and_score(t)[0], theta), atol=1e-6
    )


@pytest.mark.parametrize("name", ["slopes", "nested"])
@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS)
def test_values_alone_are_those_that_come_with_slopes(likelihood, response, name):
    rows, noise = of(name, response), likelihood.n_further
    if name == "slopes":
        rows = replace(rows, factors=rows.factors[:1])
    kind = NestedQuadratureMarginal if name == "nested" else QuadratureMarginal
    marginal = kind(rows, likelihood)
    given = split(points(rows, noise), rows, noise)
    expected, _ = marginal.value_and_score(*given)
    np.testing.assert_allclose(marginal.value(*given), expected, rtol=1e-12)


@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS)
def test_newton_steps_have_the_slope_and_the_bend(likelihood, response):
    rng = np.random.default_rng(0)
    y, eta = response(rng, 30)[:, None], 4.0 * rng.normal(size=(30, 5))
    levels = rng.normal(size=(likelihood.n_further, 5))
    slope, bend = likelihood.given(*levels).slope_and_bend(eta, y)
    given = likelihood.given(*levels)
    np.testing.assert_allclose(slope, given.value_and_slope(eta.copy(), y)[1])
    np.testing.assert_allclose(bend, given.climb_bend(eta, y))


def settings(n_groups):
    """Yes or no in three settings of every group, each with an effect of its own."""
    rng = np.random.default_rng(6)
    group, setting = np.repeat(np.arange(n_groups), 10), np.arange(10 * n_groups) % 3
    columns = np.eye(3)[setting]
    eta = (1.5 * rng.normal(size=(n_groups, 3)))[group, setting]
    y = (eta + rng.logistic(size=len(eta)) > 0.0).astype(float)
    factor = Factor(group, n_groups, columns, correlated=True)
    return GroupedRows(np.ones((len(y), 1)), y, np.ones(len(y)), (factor,))


def test_three_effects_of_few_rows_have_quadrature():
    """Laplace's method had standard deviations a fifth too small."""
    few, many = settings(12), settings(300)
    marginal = marginal_of(few, Logistic(), np.ones(1))
    assert type(marginal) is QuadratureMarginal
    assert isinstance(marginal_of(many, Logistic(), np.ones(1)), LaplaceMarginal)
    rng = np.random.default_rng(0)
    given = 0.5 * rng.normal(size=(8, 1)), 0.7 * rng.normal(size=(8, 6))
    exact = QuadratureMarginal(few, Logistic(), 6).value(*given)
    marginal.choose_nodes(*given)
    assert len(marginal.nodes) == 64
    assert (marginal.value(*given) - exact).std() < 0.03
    laplace = LaplaceMarginal(few, Logistic()).value(*given)
    assert (laplace - exact).std() > 0.1


def test_as_many_nodes_are_taken_as_values_need():
    """Wide scales of a hundred groups of one row each ask for more of them."""
    found = []
    for level in (-2.0, 2.5):
        rows = grouped(((100, 2),), zeros_and_ones, n=100, offset=False)
        marginal = QuadratureMarginal(rows, Logistic())
        given = np.zeros((8, 2)), np.full((8, 2), level)
        given[1][:] += np.random.default_rng(0).normal(size=(8, 2))
        marginal.choose_nodes(*given)
        found.append(len(marginal.nodes))
    # Ten for each effect are the most.
    assert found[0] < found[1] == 100
