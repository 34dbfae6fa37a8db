"""Correlated effects of groups, against brute force and against independent ones."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, multivariate_normal

from skboost.hierarchy import (
    Covariances,
    CrossedNormalMarginal,
    IntegratedNormalMarginal,
    LaplaceMarginal,
    NormalMarginal,
    QuadratureMarginal,
)
from skboost.priors import LKJPrior
from skboost.targets import Logistic, NegativeBinomial

from .conftest import (
    choose_tables,
    counts,
    differences,
    grouped,
    normal,
    zeros_and_ones,
)

# Groups and effects of every factor; those with several are correlated.
ONE, THREE = ((4, 2),), ((2, 2), (4, 3), (3, 1))
CASES = [
    (NormalMarginal, (), ONE, normal, False),
    (IntegratedNormalMarginal, (np.array([0.7, 2.0]),), ONE, normal, False),
    (CrossedNormalMarginal, (), THREE, normal, False),
    (CrossedNormalMarginal, (np.array([0.7, 2.0]),), THREE, normal, True),
    (QuadratureMarginal, (Logistic(), 10), ONE, zeros_and_ones, False),
    (QuadratureMarginal, (NegativeBinomial(), 10), ONE, counts, False),
    (LaplaceMarginal, (Logistic(),), THREE, zeros_and_ones, False),
    (LaplaceMarginal, (NegativeBinomial(),), THREE, counts, True),
]
every_case = pytest.mark.parametrize(
    ("kind", "options", "design", "response", "sparse"), CASES
)


def rows_of(design, response, n=24):
    rows, rng = grouped(design, response, n=n, offset=False), np.random.default_rng(7)
    third = rng.normal(size=n)
    factors = tuple(
        replace(
            factor,
            columns=np.column_stack([factor.columns, third])[:, :q],
            correlated=q > 1,
        )
        for factor, (_, q) in zip(rows.factors, design, strict=True)
    )
    return replace(rows, factors=factors)


class Split:
    """A marginal as a function of one vector of everything that it takes."""

    def __init__(self, kind, options, rows):
        self.marginal, self.rows = kind(rows, *options), rows
        self.n_columns = 0 if self.marginal.integrates_coefficients else 2
        self.covariances = Covariances.of(rows.factors)
        width = self.n_columns + self.covariances.n_levels + self.marginal.n_further
        self.theta = 0.5 * np.random.default_rng(1).normal(size=(1, width))

    def parts(self, theta):
        last = self.n_columns + self.covariances.n_levels
        parts = theta[:, : self.n_columns], theta[:, self.n_columns : last]
        return (*parts, theta[:, -1]) if self.marginal.n_further else parts

    def value(self, theta):
        return self.marginal.value_and_score(*self.parts(theta))[0]

    def score(self, theta):
        return self.marginal.value_and_score(*self.parts(theta))[1]

    def effects(self, normals, theta):
        draw = getattr(self.marginal, "weighted_effects", None)
        if draw is not None:
            return draw(normals, *self.parts(theta))[0]
        return self.marginal.effects(normals, *self.parts(theta))


@every_case
def test_gradients_in_scales_and_correlations_are_slopes(
    kind, options, design, response, sparse, monkeypatch
):
    choose_tables(monkeypatch, sparse)
    found = Split(kind, options, rows_of(design, response))
    slopes = differences(found.value, found.theta, at_once=kind is not LaplaceMarginal)
    np.testing.assert_allclose(found.score(found.theta), slopes, atol=2e-5)


@every_case
def test_correlated_effects_are_independent_ones_of_columns_times_their_factor(
    kind, options, design, response, sparse, monkeypatch
):
    """With effects u = L v the rows z u are z L v."""
    choose_tables(monkeypatch, sparse)
    rows = rows_of(design, response)
    found = Split(kind, options, rows)
    levels = found.parts(found.theta)[1]
    roots = [root[..., 0] for root in found.covariances.roots(levels)]
    factors = [
        replace(factor, columns=factor.columns @ root, correlated=False)
        for factor, root in zip(rows.factors, roots, strict=True)
    ]
    plain = Split(kind, options, replace(rows, factors=tuple(factors)))
    theta = np.zeros_like(plain.theta)
    theta[:, : found.n_columns] = found.theta[:, : found.n_columns]
    if found.marginal.n_further:
        theta[:, -1] = found.theta[:, -1]
    np.testing.assert_allclose(found.value(found.theta), plain.value(theta), atol=1e-6)
    # Means of effects, at numbers of zero.
    normals = [np.zeros((q, 1, n)) for n, q in design]
    if not found.n_columns:
        normals.append(np.zeros((2, 1, 1)))
    ours, theirs = (
        one.effects(normals, at) for one, at in ((found, found.theta), (plain, theta))
    )
    for root, u, v in zip(roots, ours, theirs, strict=False):
        expected = np.einsum("qr,arsj->aqsj", root, v)
        np.testing.assert_allclose(u, expected, atol=1e-3)


def test_correlated_normal_effects_have_their_covariance():
    rows = rows_of(ONE, normal)
    found = Split(NormalMarginal, (), rows)
    coef, levels, noise = found.parts(found.theta)
    rho, scale = np.tanh(0.5 * levels[0, 2]), np.exp(levels[0, :2])
    assert found.covariances.correlations(levels)[0] == pytest.approx(rho)
    within = np.outer(scale, scale) * [[1.0, rho], [rho, 1.0]]
    repeated = np.repeat(np.arange(len(rows.y)), rows.weight.astype(int))
    (factor,) = rows.taken(repeated).factors
    Z, codes = factor.columns, factor.codes
    covariance = (Z @ within @ Z.T) * (codes[:, None] == codes)
    covariance += np.exp(2.0 * noise[0]) * np.eye(len(repeated))
    exact = multivariate_normal(rows.X[repeated] @ coef[0], covariance)
    value = exact.logpdf(rows.y[repeated])
    assert found.value(found.theta)[0] == pytest.approx(value, abs=1e-9)


def test_correlated_effects_of_classes_are_integrated_over_their_plane():
    rows = rows_of(((2, 2),), zeros_and_ones, n=10)
    found = Split(QuadratureMarginal, (Logistic(), 10), rows)
    coef, levels = found.parts(found.theta)
    (factor,), root = rows.factors, found.covariances.roots(levels)[0][..., 0]

    grid, step = np.linspace(-7.0, 7.0, 141, retstep=True)
    plane = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    eta = rows.X @ coef[0] + plane @ (factor.columns @ root).T
    log = rows.weight * (rows.y * eta - np.logaddexp(0.0, eta))
    of_group = log @ (factor.codes[:, None] == np.arange(2))
    mass = np.exp(-0.5 * (plane**2).sum(axis=1)) * step**2 / (2.0 * np.pi)
    exact = mass @ np.exp(of_group)
    value = found.value(found.theta)[0]
    assert value == pytest.approx(np.log(exact).sum(), abs=1e-4)


@pytest.mark.parametrize("shape", [0.7, 3.0])
def test_the_prior_of_a_correlation_is_a_beta_distribution(shape):
    """(rho + 1) / 2 is Beta(shape, shape); its coordinate is the logit of that."""
    (prior,) = LKJPrior(shape).of_coordinates(2)
    y = np.linspace(-4.0, 4.0, 9)
    half = 1.0 / (1.0 + np.exp(-y))
    expected = beta(shape, shape).logpdf(half) + np.log(half * (1.0 - half))
    value, score = prior.value_and_score(y)
    np.testing.assert_allclose(value, expected)
    above, below = (prior.value_and_score(y + s)[0] for s in (1e-5, -1e-5))
    np.testing.assert_allclose(score, (above - below) / 2e-5, atol=1e-8)


def test_the_prior_of_three_correlations_is_the_power_of_their_determinant():
    z = np.random.default_rng(0).normal(size=(3, 4))

    def log_density(shape):
        priors = LKJPrior(shape).of_coordinates(3)
        return sum(p.value_and_score(x)[0] for p, x in zip(priors, z, strict=True))

    more = log_density(2.5) - log_density(1.0)
    (root,) = Covariances([3], [True]).roots(np.hstack([np.zeros((4, 3)), z.T]))
    log_det = 2.0 * np.log(np.einsum("qqs->sq", root)).sum(axis=1)
    np.testing.assert_allclose(more - more[0], 1.5 * (log_det - log_det[0]))
