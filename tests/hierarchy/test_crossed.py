"""Effects of several factors integrated out, against brute force."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logsumexp

from skboost.hierarchy import (
    CrossedNormalMarginal,
    Factor,
    GroupedRows,
    LaplaceMarginal,
    QuadratureMarginal,
)
from skboost.hierarchy._crossed import CrossedEffects
from skboost.hierarchy._nested import NestedEffects
from skboost.targets import Logistic, NegativeBinomial, Poisson

from .conftest import (
    ALL_LIKELIHOODS,
    LIKELIHOODS,
    choose_tables,
    counts,
    differences,
    effects_matrix,
    flattened,
    grouped,
    n_scales,
    of,
    points,
    split,
    standard_normals,
    zeros_and_ones,
)

SCALE = np.array([0.7, 2.0])


@pytest.mark.parametrize(
    ("name", "sparse", "scale"),
    [
        ("slopes", False, None),
        pytest.param("slopes", False, SCALE, marks=pytest.mark.slow),
        pytest.param("crossed", False, None, marks=pytest.mark.slow),
        ("crossed", True, SCALE),
        pytest.param("nested", True, None, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS)
def test_gradients_of_laplace_are_those_of_its_value(
    likelihood, response, name, sparse, scale, monkeypatch
):
    """With coefficients beside scales, and with these integrated out."""
    choose_tables(monkeypatch, sparse)
    rows, n_further = of(name, response), likelihood.n_further
    marginal, n = LaplaceMarginal(rows, likelihood, scale), 2 * (scale is None)
    theta = points(rows, n_further, 2)[:, 2 - n :]

    def parts(theta):
        levels = theta[:, n : n + n_scales(rows)]
        return theta[:, :n], levels, *theta[:, n + n_scales(rows) :].T

    _, score = marginal.value_and_score(*parts(theta))
    slopes = differences(lambda t: marginal.value(*parts(t)), theta, at_once=False)
    np.testing.assert_allclose(score, slopes, atol=1e-6)


@pytest.mark.parametrize("name", ["slopes", "crossed", "nested"])
@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS)
def test_laplace_is_a_gaussian_at_the_mode(likelihood, response, name):
    rows = of(name, response)
    noise = likelihood.n_further
    theta = points(rows, noise)
    found, _ = LaplaceMarginal(rows, likelihood).value_and_score(
        *split(theta, rows, noise)
    )
    Z, scale_of = effects_matrix(rows)
    linear, y = likelihood.linear(rows.y), rows.y[:, None]
    for one, value in zip(theta, found, strict=True):
        beta, levels, *level = split(one[None], rows, noise)
        given = likelihood.given(*level)
        sized, v = Z * np.exp(levels[0])[scale_of], np.zeros(Z.shape[1])
        for _ in range(50):
            eta = rows.X @ beta[0] + rows.offset + sized @ v
            height, slope = (t[:, 0] for t in given.value_and_slope(eta[:, None], y))
            bend = given.bend(eta[:, None], y)[:, 0] * rows.weight
            precision = (sized.T * bend) @ sized + np.eye(len(v))
            pull = sized.T @ (rows.weight * (slope + linear)) - v
            v = v + np.linalg.solve(precision, pull)
        top = rows.weight @ (height + linear * eta) - 0.5 * v @ v
        if noise:
            top += likelihood.own_terms(rows.y, rows.weight, *level)[0][0]
        expected = top - 0.5 * np.linalg.slogdet(precision)[1]
        assert value == pytest.approx(expected, abs=1e-7)


def test_weights_of_draws_know_how_the_skewed_map_stretches():
    rows = grouped(((3, 1), (2, 1)), counts, n=14)
    marginal = LaplaceMarginal(rows, Poisson())
    theta = points(rows)[:1]

    def drawn(normals):
        normals = np.split(normals, [3], axis=-1)
        given = split(np.repeat(theta, len(normals[0]), axis=0), rows)
        draws, log_weights = marginal.weighted_effects(
            [each[None] for each in normals], *given
        )
        return flattened([table[:1] for table in draws]), log_weights[0]

    # Only ratios, since the constant of Laplace's value is tested elsewhere.
    normals = 1.5 * np.random.default_rng(4).normal(size=(6, 5))
    effects, found = drawn(normals)
    stretch = [
        np.linalg.slogdet(differences(lambda x: drawn(x)[0], t[None])[0])[1]
        for t in normals
    ]
    Z, scale_of = effects_matrix(rows)
    scale = np.exp(split(theta, rows)[1][0])[scale_of]
    eta = (rows.X @ theta[0, :2] + rows.offset)[:, None] + Z @ effects.T
    joint = rows.weight @ (rows.y[:, None] * eta - np.exp(eta))
    joint -= 0.5 * ((effects / scale) ** 2).sum(axis=1)
    expected = joint + stretch + 0.5 * (normals**2).sum(axis=1)
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-6)


# Logits of few rows are left with fourth derivatives, counts with little.
@pytest.mark.parametrize(
    ("likelihood", "response", "share"),
    [(Logistic(), zeros_and_ones, 0.75), (Poisson(), counts, 0.2)],
)
def test_draws_with_skewness_leave_less_to_weights(
    likelihood, response, share, monkeypatch
):
    """Many effects add up: 340 of them were .12 nats further off without it."""
    rows = grouped(((40, 1), (4, 1)), response, n=400)
    marginal, n = LaplaceMarginal(rows, likelihood), 100
    given = split(np.repeat(points(rows)[:1], n, axis=0), rows)

    def variance():
        normals = standard_normals(rows, n)
        return marginal.weighted_effects(normals, *given, few=0.0)[1].var()

    skewed = variance()
    monkeypatch.setattr(CrossedEffects, "cubed", lambda *_: 0.0)
    assert skewed < share * variance()


@pytest.mark.parametrize(
    ("likelihood", "response"),
    [
        ALL_LIKELIHOODS[1],
        # Of the others modes take more steps, or draws are less skewed.
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (ALL_LIKELIHOODS[0], *ALL_LIKELIHOODS[2:])
        ),
    ],
)
def test_weights_of_draws_make_laplace_exact(likelihood, response):
    rows = grouped(((3, 1), (2, 1)), response, n=14)
    noise = likelihood.n_further
    theta, n = points(rows, noise)[:1], 250
    marginal = LaplaceMarginal(rows, likelihood)
    laplace, _ = marginal.value_and_score(*split(theta, rows, noise))
    if noise:
        levels = split(theta, rows, noise)[2:]
        laplace -= likelihood.own_terms(rows.y, rows.weight, *levels)[0]
        likelihood = likelihood.given(*levels)
    draws, log_weights = marginal.weighted_effects(
        standard_normals(rows, n), *split(np.repeat(theta, n, axis=0), rows, noise)
    )
    flat = flattened(draws)
    weights = np.exp(log_weights).ravel()

    # The integral over five effects by a product of rules around the draws.
    node, share = hermegauss(5)
    grid, shares = (
        np.stack(np.meshgrid(*[axis] * 5), axis=-1).reshape(-1, 5)
        for axis in (node, np.log(share / share.sum()))
    )
    share = shares.sum(axis=1)
    Z, scale_of = effects_matrix(rows)
    scale = np.exp(split(theta, rows)[1][0])[scale_of]
    root = np.linalg.cholesky(np.cov(flat.T))
    effects = flat.mean(axis=0) + grid @ root.T
    eta = (rows.X @ theta[0, :2] + rows.offset)[:, None] + Z @ effects.T
    value = likelihood.value_and_slope(eta.copy(), rows.y[:, None])[0]
    value += marginal.likelihood.linear(rows.y)[:, None] * eta
    exact = rows.weight @ value + share + 0.5 * (grid**2).sum(axis=1)
    exact += np.log(np.diag(root) / scale).sum()
    exact -= 0.5 * ((effects / scale) ** 2).sum(axis=1)
    evidence = logsumexp(exact)
    mean = np.exp(exact - evidence) @ effects

    assert weights.std() < 0.3
    error = weights.std() / np.sqrt(n)
    assert weights.mean() == pytest.approx(np.exp(evidence - laplace[0]), abs=4 * error)
    np.testing.assert_allclose(
        weights @ flat / weights.sum(), mean, atol=4 * flat.std() / np.sqrt(n)
    )
    # Draws lie around the mean to first order, and not around the mode.
    np.testing.assert_allclose(flat.mean(axis=0), mean, atol=0.02)


def test_too_many_effects_outside_the_largest_factor_are_refused():
    n = 8004
    codes = np.arange(n)
    factors = (
        Factor(codes // 2, n // 2, np.ones((n, 1))),
        Factor(codes % 2001, 2001, np.ones((n, 1))),
    )
    rows = GroupedRows(np.ones((n, 1)), np.zeros(n), np.ones(n), factors)
    with pytest.raises(ValueError, match=r"at most 2,000 effects .* got 2,001\. Drop"):
        LaplaceMarginal(rows, Logistic())


def three_levels(response, single):
    """Rows in classes in schools in towns, whose effects multiply columns, with an
    empty class and a town more than there are; `single` classes are in the last place.
    """
    rng, n = np.random.default_rng(5), 60
    classes = rng.integers(0, 14, n)
    codes = classes % 2, classes % 4, classes
    columns = np.ones((n, 1)), rng.normal(size=(n, 1)), np.ones((n, 1))
    groups = 3, 4, 15
    parts = zip(codes, groups, columns, strict=True)
    factors = tuple(Factor(*part) for part in parts)
    if single:
        factors = *factors[:2], Factor(np.arange(n) % 60, 60, np.ones((n, 1)))
    X = np.column_stack([rng.normal(size=n), np.ones(n)])
    return GroupedRows(X, response(rng, n), np.ones(n), factors, 0.3 * X[:, 0])


@pytest.mark.parametrize(("single", "scale"), [(False, None), (True, SCALE)])
@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS)
def test_elimination_level_by_level(likelihood, response, single, scale, monkeypatch):
    """It is what a Schur complement says."""
    rows, n = three_levels(response, single), 4
    theta = points(rows, likelihood.n_further, n)
    beta = theta[:, :2] if scale is None else np.empty((n, 0))
    given = beta, theta[:, 2:5], *theta[:, 5:].T
    nested = LaplaceMarginal(rows, likelihood, scale)
    monkeypatch.setattr("skboost.hierarchy._laplace.nested_order", lambda factors: None)
    crossed = LaplaceMarginal(rows, likelihood, scale)
    assert isinstance(nested.crossed, NestedEffects)
    assert not isinstance(crossed.crossed, NestedEffects)
    found, expected = (one.value_and_score(*given) for one in (nested, crossed))
    np.testing.assert_allclose(nested.value(*given), expected[0], rtol=1e-9)
    if scale is not None:
        found += nested.coefficients(*given[1:])
        expected += crossed.coefficients(*given[1:])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    # What draws are made of, where rows have other curvatures.
    weight = np.random.default_rng(6).random(len(nested.rows.y))
    levels = nested.fixed.among(given[1][:1])
    (scaling,) = nested.crossed.scalings(levels)
    one, other = (part.crossed.precision(weight, scaling) for part in (nested, crossed))
    for name in ("log_det", "log_det_main", "main_root"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name))
    unit = np.eye(len(scaling.size))
    inverse = np.stack([other.solve(column) for column in unit])
    np.testing.assert_allclose([one.solve(column) for column in unit], inverse)
    spread = np.stack([one.spread(column) for column in unit], axis=1)
    np.testing.assert_allclose(spread @ spread.T, inverse, atol=1e-12)
    np.testing.assert_allclose(one.inverse.diagonal, np.diag(inverse))
    np.testing.assert_allclose(
        nested.crossed.leverages(one.inverse, scaling),
        crossed.crossed.leverages(other.inverse, scaling),
    )


@pytest.mark.parametrize("order", [None, [2, 1, 0]])
def test_modes_far_from_others_are_found(order, monkeypatch):
    """A quadratic through modes of other draws leads to where exponentials overflow."""
    monkeypatch.setattr("skboost.hierarchy._laplace.nested_order", lambda _: order)
    rng, none = np.random.default_rng(0), np.empty((36, 0))
    rows, scale = three_levels(counts, True), np.array([0.7, 2.0])
    marginal = LaplaceMarginal(rows, Poisson(), scale)
    levels = np.vstack(
        [0.02 * rng.normal(size=(24, 3)), 2.0 * rng.normal(size=(12, 3))]
    )
    value, score = marginal.value_and_score(none, levels)
    alone = [marginal.value_and_score(none[:1], one[None]) for one in levels[24:]]
    np.testing.assert_allclose(value[24:], [one[0][0] for one in alone], rtol=1e-6)
    np.testing.assert_allclose(
        score[24:], [one[1][0] for one in alone], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(marginal.value(none, levels), value, rtol=1e-6)


@pytest.mark.parametrize("level", [-100.0, -20.0, 10.0, 40.0])
def test_extreme_scales_are_a_wall_without_nan(level):
    rows = of("crossed", counts, offset=False)
    beta, levels = np.zeros((1, 2)), np.full((1, n_scales(rows)), level)
    for value, score in (
        LaplaceMarginal(rows, Poisson()).value_and_score(beta, levels),
        LaplaceMarginal(rows, NegativeBinomial()).value_and_score(
            beta, levels, np.zeros(1)
        ),
        CrossedNormalMarginal(rows).value_and_score(beta, levels, np.zeros(1)),
    ):
        assert value[0] < 0.0
        assert np.isfinite(score).all()


@pytest.mark.parametrize("kind", [QuadratureMarginal, LaplaceMarginal])
@pytest.mark.parametrize(("likelihood", "response"), LIKELIHOODS)
def test_rows_that_differ_in_their_response_are_one(likelihood, response, kind):
    once = of("slopes", response)
    again = replace(once, y=response(np.random.default_rng(5), len(once.y)))
    rows = GroupedRows(
        *(np.concatenate([getattr(r, name) for r in (once, again)])
          for name in ("X", "y", "weight")),
        tuple(
            Factor(np.tile(f.codes, 2), f.n_groups, np.tile(f.columns, (2, 1)))
            for f in once.factors
        ),
        np.tile(once.offset, 2),
    )  # fmt: skip
    marginal = kind(rows, likelihood)
    assert len(marginal.rows.y) == len(once.y)
    parts = split(points(rows), rows)
    found = marginal.value_and_score(*parts)

    class Apart(type(likelihood)):
        linear_in_y = False

    for one, other in zip(
        found, kind(rows, Apart()).value_and_score(*parts), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_modes_do_not_depend_on_where_their_search_began():
    """After the first draws it begins where a quadratic through these leads."""
    rows = of("nested", counts)
    marginal = LaplaceMarginal(rows, Poisson(), np.array([1.0, 3.0]))
    levels = np.random.default_rng(11).normal(size=(20, 2))
    none = np.empty((20, 0))
    value, score = marginal.value_and_score(none, levels)
    alone = [marginal.value_and_score(none[:1], one[None]) for one in levels[12:]]
    np.testing.assert_allclose(value[12:], [one[0][0] for one in alone], atol=1e-7)
    np.testing.assert_allclose(score[12:], [one[1][0] for one in alone], atol=1e-6)
