"""Effects of several factors integrated out, against brute force."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from skboost.hierarchy import (
    CrossedNormalMarginal,
    Factor,
    GroupedRows,
    LaplaceMarginal,
    NormalMarginal,
    QuadratureMarginal,
    _crossed,
)
from skboost.targets import Logistic, NegativeBinomial, Poisson

from .conftest import (
    assert_score_is_the_slope,
    counts,
    differences,
    grouped,
    normal,
    points,
    split,
    zeros_and_ones,
)

# Groups and effects of each factor: crossed ones with slopes, the largest in the
# middle; one factor; and classes that are nested in schools.
DESIGNS = {
    "crossed": ((3, 1), (8, 2), (4, 2)),
    "one": ((6, 2),),
    "nested": ((3, 1), (9, 1)),
}


LIKELIHOODS = [(Logistic(), zeros_and_ones), (Poisson(), counts)]
ALL_LIKELIHOODS = [*LIKELIHOODS, (NegativeBinomial(), counts)]


def of(name, response, **options):
    """Rows of a design by its name."""
    return grouped(DESIGNS[name], response, nested=name == "nested", **options)


def effects_matrix(rows):
    """Z of all effects, factor by factor and group by group, and their scales."""
    parts, scale_of, n_scales = [], [], 0
    for factor in rows.factors:
        one_hot = factor.codes[:, None] == np.arange(factor.n_groups)
        part = one_hot[:, :, None] * factor.columns[:, None]
        parts.append(part.reshape(len(one_hot), -1))
        scales = n_scales + np.arange(factor.n_effects)
        scale_of.append(np.tile(scales, factor.n_groups))
        n_scales += factor.n_effects
    return np.hstack(parts), np.concatenate(scale_of)


def standard_normals(rows, n, seed=3):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(f.n_effects, n, f.n_groups)) for f in rows.factors)


def flattened(draws):
    """Draws of all effects in the order of `effects_matrix`, (2 * n_draws, size)."""
    tables = [np.moveaxis(table, 1, 3) for table in draws]
    parts = [table.reshape(-1, *table.shape[2:]) for table in tables]
    return np.hstack([part.reshape(len(part), -1) for part in parts])


@pytest.fixture(params=["dense", "sparse"])
def table(request, monkeypatch):
    """The table of cells is kept whole, or only where it is filled."""
    if request.param == "sparse":
        monkeypatch.setattr(_crossed, "_DENSE_SIZE", 0)
        monkeypatch.setattr(_crossed, "_DENSE_SHARE", 0)
        # Entries of the inverse are read from blocks of two groups.
        monkeypatch.setattr(_crossed, "_BLOCK", 100)


@pytest.mark.parametrize("name", DESIGNS)
def test_crossed_normal_marginal_is_the_density_of_all_responses(name, table):
    rows = of(name, normal, offset=False)
    theta = points(rows, 1)
    marginal = CrossedNormalMarginal(rows)
    found, _ = marginal.value_and_score(*split(theta, rows, True))
    # A weight of two is a row that stands twice.
    repeated = np.repeat(np.arange(len(rows.y)), rows.weight.astype(int))
    Z, scale_of = effects_matrix(rows)
    for one, value in zip(theta, found, strict=True):
        sized = Z[repeated] * np.exp(one[2:-1])[scale_of]
        covariance = sized @ sized.T + np.exp(2.0 * one[-1]) * np.eye(len(repeated))
        exact = multivariate_normal(rows.X[repeated] @ one[:2], covariance)
        assert value == pytest.approx(exact.logpdf(rows.y[repeated]), abs=1e-9)
    assert_score_is_the_slope(marginal, theta, rows, True, 1e-6)


def test_one_factor_has_the_same_density_by_either_way():
    rows = of("one", normal, offset=False)
    parts = split(points(rows, 1), rows, True)
    found = CrossedNormalMarginal(rows).value_and_score(*parts)
    for one, other in zip(
        found, NormalMarginal(rows).value_and_score(*parts), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_effects_of_a_crossed_normal_model_are_drawn_from_their_gaussian(table):
    rows = of("crossed", normal, offset=False)
    n = 400
    theta = np.repeat(points(rows, 1)[:1], n, axis=0)
    draws = CrossedNormalMarginal(rows).effects(
        standard_normals(rows, n), *split(theta, rows, True)
    )
    flat = flattened(draws)
    Z, scale_of = effects_matrix(rows)
    weight = rows.weight / np.exp(2.0 * theta[0, -1])
    precision = (Z.T * weight) @ Z + np.diag(np.exp(-2.0 * theta[0, 2:-1])[scale_of])
    covariance = np.linalg.inv(precision)
    mean = covariance @ (Z.T @ (weight * (rows.y - rows.X @ theta[0, :2])))
    np.testing.assert_allclose(flat.mean(axis=0), mean, atol=1e-9)
    # Five standard errors of draws that come in pairs, of some hundred entries.
    sd = np.sqrt(np.diag(covariance))
    found = np.cov(flat.T) / np.outer(sd, sd)
    np.testing.assert_allclose(
        found, covariance / np.outer(sd, sd), atol=5.0 * np.sqrt(2.0 / n)
    )


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS)
def test_gradients_of_laplace_are_those_of_its_value(likelihood, response, name, table):
    rows = of(name, response)
    noise = likelihood.has_level
    assert_score_is_the_slope(
        LaplaceMarginal(rows, likelihood), points(rows, noise), rows, noise, 1e-6
    )


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS)
def test_laplace_is_a_gaussian_at_the_mode(likelihood, response, name):
    rows = of(name, response)
    noise = likelihood.has_level
    theta = points(rows, noise)
    found, _ = LaplaceMarginal(rows, likelihood).value_and_score(
        *split(theta, rows, noise)
    )
    Z, scale_of = effects_matrix(rows)
    linear, y = likelihood.linear(rows.y), rows.y[:, None]
    for one, value in zip(theta, found, strict=True):
        beta, levels, *level = split(one[None], rows, noise)
        given = likelihood.given(*(level or [None]))
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


def test_laplace_is_close_to_the_integral_where_groups_are_large():
    rows = grouped(((4, 1),), zeros_and_ones, n=4000)
    parts = split(points(rows), rows)
    found, score = LaplaceMarginal(rows, Logistic()).value_and_score(*parts)
    expected, slopes = QuadratureMarginal(rows, Logistic()).value_and_score(*parts)
    # An error of order one over rows in a group, 1e-3, for each of four groups.
    np.testing.assert_allclose(found, expected, atol=4e-3)
    np.testing.assert_allclose(score, slopes, atol=4e-3)


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


@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS)
def test_weights_of_draws_make_laplace_exact(likelihood, response):
    rows = grouped(((3, 1), (2, 1)), response, n=14)
    noise = likelihood.has_level
    theta, n = points(rows, noise)[:1], 500
    marginal = LaplaceMarginal(rows, likelihood)
    laplace, _ = marginal.value_and_score(*split(theta, rows, noise))
    if noise:
        laplace -= likelihood.own_terms(rows.y, rows.weight, theta[:, -1])[0]
        likelihood = likelihood.given(theta[:, -1])
    draws, log_weights = marginal.weighted_effects(
        standard_normals(rows, n), *split(np.repeat(theta, n, axis=0), rows, noise)
    )
    flat = flattened(draws)
    weights = np.exp(log_weights).ravel()

    # The integral over five effects by a product of rules around the draws.
    node, share = hermegauss(9)
    grid = np.array(list(product(node, repeat=5)))
    share = np.array(list(product(np.log(share / share.sum()), repeat=5))).sum(axis=1)
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
    n = 4002
    codes = np.arange(n)
    factors = tuple(
        Factor(codes // size, n // size, np.ones((n, 1))) for size in (1, 2)
    )
    rows = GroupedRows(np.ones((n, 1)), np.zeros(n), np.ones(n), factors)
    with pytest.raises(ValueError, match=r"at most 2,000 effects .* got 2,001\. Drop"):
        LaplaceMarginal(rows, Logistic())


@pytest.mark.parametrize("level", [-100.0, -20.0, 10.0, 40.0])
def test_extreme_scales_are_a_wall_without_nan(level):
    rows = of("crossed", counts, offset=False)
    beta, levels = np.zeros((1, 2)), np.full((1, rows.n_scales), level)
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
    once = of("one", response)
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
