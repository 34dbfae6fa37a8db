"""Densities, draws and moments agree with one another."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, special, stats
from scipy.special import ndtri

from skboost.families import (
    DiagonalGaussian,
    Laplace,
    StudentT,
    VariationalFamily,
    linear_moments,
)
from skboost.families._moments import open_unit_cube

from .conftest import EVERY


def grid(family, params, n, width):
    """Grid over `width` standard deviations of each coordinate, and its cell."""
    mean, std = family.mean(params), family.std(params)
    axes = np.linspace(mean - width * std, mean + width * std, n).T
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    return points.reshape(-1, mean.size), cell


@pytest.mark.parametrize(("dim", "n"), [(1, 4001), (2, 601)])
def test_density_integrates_to_one_and_has_the_moments(family, component, dim, n):
    params = component(family, dim)
    theta, cell = grid(family, params, n, width=14)
    weights = np.exp(family.log_density(theta, params)) * cell
    # The kink of a Laplace density costs the rule an error of order step^2.
    assert_allclose(weights.sum(), 1, atol=2e-3)
    mean, covariance = family.moments(params)
    centred = theta - mean
    assert_allclose(weights @ centred, 0, atol=1e-2)
    assert_allclose((weights * centred.T) @ centred, covariance, rtol=1e-2, atol=1e-2)


def test_gaussian_density_is_scipys(gaussian, component, rng):
    params = component(gaussian, 3)
    theta = rng.standard_normal((20, 3))
    expected = stats.multivariate_normal(*gaussian.moments(params)).logpdf(theta)
    assert_allclose(gaussian.log_density(theta, params), expected, rtol=1e-10)


def test_laplace_density_is_scipys(rng):
    params, theta = rng.standard_normal(6), rng.standard_normal((20, 3))
    expected = stats.laplace(params[:3], np.exp(params[3:])).logpdf(theta).sum(axis=1)
    assert_allclose(Laplace().log_density(theta, params), expected, rtol=1e-12)


def test_draws_have_the_moments_and_the_entropy(family, component, rng):
    params = component(family, 3)
    n = 20_000
    eps = family._quantile(rng.uniform(size=(n, family.base_dim(3))))
    theta = family.transport(params, eps)
    log_density = family.log_density(theta, params)
    error = log_density.std() / np.sqrt(n)
    assert abs(family.entropy(params) + log_density.mean()) < 5 * error
    centred = theta - family.mean(params)
    _, covariance = family.moments(params)
    assert np.all(np.abs(centred.mean(axis=0)) < 5 * family.std(params) / np.sqrt(n))
    products = np.einsum("ni,nj->nij", centred, centred)
    error = products.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(products.mean(axis=0) - covariance) < 5 * error)
    assert_allclose(family.std(params), np.sqrt(np.diagonal(covariance)), rtol=1e-12)


def test_base_draws_are_reproducible_and_distinct(family):
    def draw(seed):
        return family.base_draws(100, 3, np.random.default_rng(seed))

    assert draw(1).shape == (100, family.base_dim(3))
    assert np.isfinite(draw(1)).all()
    assert np.array_equal(draw(1), draw(1))
    assert not np.isclose(draw(1), draw(2)).all()
    rng = np.random.default_rng(1)
    first, second = family.base_draws(64, 3, rng), family.base_draws(64, 3, rng)
    assert not np.isclose(first, second).all()


def test_base_draws_beat_pseudo_random_ones(family, rng):
    # A scrambled Sobol' mean of 2^12 draws is far below the Monte Carlo error.
    mean = family.base_draws(4096, 3, rng).mean(axis=0)
    expected = np.zeros(family.base_dim(3))
    if isinstance(family, StudentT):
        # The random length, sqrt(df / w): an inverse moment of a chi variable.
        half = 0.5 * family.df
        expected[-1] = np.sqrt(half) * special.poch(half, -0.5)
    assert np.all(np.abs(mean - expected) < 0.2 / np.sqrt(4096))


# The moments of the random length of a Student-t draw are not matched.
@pytest.mark.parametrize("family", [f for f in EVERY if not isinstance(f, StudentT)])
@pytest.mark.parametrize("n", [1, 64, 201])
def test_matched_draws_have_exact_moments(family, rng, n):
    eps = family.matched_draws(n, 8, rng)
    assert eps.shape == (n, family.base_dim(8))
    if n == 1:
        assert np.isfinite(eps).all()
        return
    variance = stats.laplace.var() if isinstance(family, Laplace) else 1.0
    assert_allclose(eps.mean(axis=0), 0.0, atol=1e-14, rtol=0)
    assert_allclose(np.mean(eps**2, axis=0), variance, rtol=1e-12)
    if n == 201 and family.exact_expectations:
        assert_allclose(eps.T @ eps / n, np.eye(eps.shape[1]), atol=1e-12, rtol=0)


def test_base_draws_above_sobols_dimension(rng):
    eps = DiagonalGaussian().base_draws(3, 21_202, rng)
    assert eps.shape == (3, 21_202)
    assert np.isfinite(eps).all()
    assert abs(eps.mean()) < 5 / np.sqrt(eps.size)


def test_linear_moments(gaussian, component, rng):
    params = component(gaussian, 3)
    X = rng.standard_normal((50, 3)) * (rng.uniform(size=(50, 3)) < 0.6)
    mean, covariance = gaussian.moments(params)
    std = np.sqrt(np.diagonal(X @ covariance @ X.T))
    for container in (np.asarray, sparse.csr_matrix, sparse.csr_array):
        got = linear_moments(container(X), *gaussian.structure(params))
        assert_allclose(got, [X @ mean, std], atol=1e-12, rtol=0)


def test_marginals(family, component, rng):
    params = component(family, 3)
    eps = family._quantile(rng.uniform(size=(4000, family.base_dim(3))))
    draws = family.transport(params, eps)
    for i in range(3):
        cdf = partial(family.marginal_cdf, params, i)
        assert stats.kstest(draws[:, i], cdf).pvalue > 1e-3
        x = family.mean(params)[i] + np.linspace(0.1, 3, 30)
        step = 1e-5
        density = np.exp(family.marginal_log_density(params, i, x))
        difference = (cdf(x + step) - cdf(x - step)) / (2 * step)
        assert_allclose(density, difference, rtol=1e-5, atol=1e-9)


def test_mean_exponential(family, component):
    """Its own where it has one, and what a family has that says nothing of it."""
    params = component(family, 3)
    x = family.mean(params)[1] + family.std(params)[1] * np.linspace(-30, 30, 20_001)
    terms = np.exp(family.marginal_log_density(params, 1, x) + 0.5 * x)
    own = family.mean_exponential(params, 1, 0.5)
    if isinstance(family, StudentT):
        assert own == np.inf
        return
    assert own == pytest.approx(np.trapezoid(terms, x), rel=1e-4)
    usual = VariationalFamily.mean_exponential(family, params, 1, 0.5)
    assert usual == pytest.approx(own, rel=0.1)


def test_sizes_and_scales(family, component):
    for dim in (1, 3, 40):
        params = component(family, dim)
        assert family.dim_of(params) == dim
        assert family.mean(params).shape == family.std(params).shape == (dim,)
        mask = family.scale_mask(dim)
        assert mask.dtype == bool and mask.sum() == dim
        # Adding ln 2 to all log scales of an uncorrelated one doubles its scale.
        params[dim:][~mask[dim:]] = 0
        moved = params + np.log(2) * mask
        assert_allclose(family.std(moved), 2 * family.std(params), rtol=1e-12)
    with pytest.raises(ValueError, match="another family"):
        family.transport(np.append(params, 0.0), np.zeros((1, dim)))


def test_widening_by_coordinates_is_a_change_of_variables(family, component, rng):
    params = component(family, 3)
    width, centre = np.array([0.5, 1.0, 3.0]), family.location(params)
    theta, there = rng.standard_normal((20, 3)), np.arange(3.0)
    wide = family.recentre(family.widen(params, width), there)
    expected = family.log_density(centre + theta, params) - np.log(width).sum()
    found = family.log_density(there + width * theta, wide)
    assert_allclose(found, expected, atol=1e-10, rtol=0)


# --- the points behind all base draws


def squared_correlations(seed, n=512, dim=300):
    eps = ndtri(open_unit_cube(n, dim, np.random.default_rng(seed)))
    return np.corrcoef(eps.T)[np.triu_indices(dim, 1)] ** 2


def test_pairs_that_go_wrong_are_others_in_every_call():
    # What a search fits of the correlations in its draws must be no guide to those in
    # the draws that judge it: 45,000 pairs, so independence has an error of 0.005.
    one, other = squared_correlations(1), squared_correlations(2)
    assert np.corrcoef(one, other)[0, 1] < 0.05


def test_points_are_a_net_in_every_coordinate():
    # One point in each of 256 cells, also where coordinates change places.
    points = open_unit_cube(256, 300, np.random.default_rng(0))
    cells = np.sort((256 * points).astype(int), axis=0)
    assert np.array_equal(cells, np.tile(np.arange(256)[:, None], 300))
