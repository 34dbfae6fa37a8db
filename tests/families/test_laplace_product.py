"""The piecewise exponential density that two Laplace roots multiply to."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import skboost.families as families
from skboost.approximation import Mixture
from skboost.families import LaplaceProduct, as_family
from skboost.posterior import MixturePosterior

FAMILY = LaplaceProduct()

# (a, log b_i, c, log b_j): either order of the kinks, equal, nearly equal and very
# different rates, kinks on top of each other, near, and far apart.
COORDINATES = {
    "plain": (-0.4, 0.3, 1.1, -0.5),
    "swapped": (1.1, 0.3, -0.4, -0.5),
    "rising": (-1.0, 1.0, 2.0, -1.0),
    "equal rates": (-1.0, 0.2, 1.5, 0.2),
    "nearly equal rates": (-1.0, 0.2, 1.5, 0.2 + 1e-9),
    "one kink": (0.7, 0.3, 0.7, -0.5),
    "one Laplace": (0.7, 0.3, 0.7, 0.3),
    "near kinks": (0.7, 0.3, 0.7 + 1e-8, -0.5),
    "far kinks": (-30.0, 0.0, 40.0, -1.0),
    "steep": (0.0, 3.0, 1.0, -6.0),
}


@pytest.fixture(params=COORDINATES.values(), ids=COORDINATES.keys())
def params(request):
    return np.array(request.param)


NODES, WEIGHTS = np.polynomial.legendre.leggauss(300)


def rule(params, end=np.inf):
    """Nodes and weights on the line up to `end`, cut at the kinks."""
    a, log_i, c, log_j = params
    reach = 45 / (0.5 * np.exp(-log_i) + 0.5 * np.exp(-log_j))
    low, high = min(a, c), max(a, c)
    cuts = np.minimum([low - reach, low, high, high + reach], end)
    centre, half = 0.5 * (cuts[1:] + cuts[:-1]), 0.5 * np.diff(cuts)
    return np.ravel(centre[:, None] + np.outer(half, NODES)), np.outer(half, WEIGHTS)


def test_moments_and_entropy_are_the_integrals(params):
    x, weights = rule(params)
    log_s = FAMILY.log_density(x[:, None], params)
    mass = weights.ravel() * np.exp(log_s)
    assert_allclose(mass.sum(), 1, rtol=1e-10)
    mean = mass @ x
    variance = mass @ (x - mean) ** 2
    assert_allclose(FAMILY.std(params) ** 2, variance, rtol=1e-8)
    for got in (FAMILY.mean(params), FAMILY.moments(params)[0]):
        assert_allclose(got, mean, rtol=1e-9, atol=1e-10)
    assert_allclose(FAMILY.moments(params)[1], [[variance]], rtol=1e-8)
    assert_allclose(FAMILY.entropy(params), -mass @ log_s, rtol=1e-9, atol=1e-9)
    assert_allclose(FAMILY.marginal_log_density(params, 0, x), log_s)
    # The highest point is a kink.
    at_kinks = FAMILY.log_density(params[[0, 2], None], params)
    assert_allclose(FAMILY.log_peak(params), at_kinks.max(), rtol=1e-9, atol=1e-9)


def test_cdf_is_the_integral(params):
    low, high = sorted(params[[0, 2]])
    for end in (low - 0.3, low, 0.3 * low + 0.7 * high, high, high + 0.2):
        x, weights = rule(params, end)
        expected = weights.ravel() @ np.exp(FAMILY.log_density(x[:, None], params))
        found = FAMILY.marginal_cdf(params, 0, end)
        assert_allclose(found, expected, atol=1e-10, rtol=0)


def test_quantile_inverts_the_cdf(params):
    u = np.concatenate([[1e-9, 1e-4], np.linspace(0.01, 0.99, 57), [1 - 1e-4]])
    x = FAMILY.transport(params, u[:, None])[:, 0]
    assert (np.diff(x) > 0).all()
    assert_allclose(FAMILY.marginal_cdf(params, 0, x), u, rtol=1e-7, atol=1e-10)


@pytest.fixture
def several(rng):
    return rng.standard_normal(FAMILY.n_params(3))


def test_coordinates_are_independent(several, rng):
    theta = rng.standard_normal((5, 3))
    parts = [FAMILY.marginal_log_density(several, i, theta[:, i]) for i in range(3)]
    expected = sum(parts)
    assert_allclose(FAMILY.log_density(theta, several), expected)
    assert FAMILY.dim_of(several) == 3
    assert FAMILY.scale_mask(3).sum() == 6
    _, covariance = FAMILY.moments(several)
    assert_allclose(covariance, np.diag(FAMILY.std(several) ** 2))


def test_score_is_the_slope(several, rng, slope):
    for point in rng.standard_normal((6, 3)):
        expected = slope(lambda x: FAMILY.log_density(x[None], several)[0], point)
        found = FAMILY.at(several, point[None]).score()[0]
        assert_allclose(found, expected, rtol=1e-6)


def test_draws_follow_the_density(several, rng):
    draws = FAMILY.transport(several, rng.uniform(size=(4000, 3)))
    for i in range(3):
        cdf = partial(FAMILY.marginal_cdf, several, i)
        assert stats.kstest(draws[:, i], cdf).pvalue > 1e-3
    base = FAMILY.base_draws(512, 3, rng)
    assert base.shape == (512, 3)
    centred = FAMILY.transport(several, base).mean(axis=0) - FAMILY.mean(several)
    assert (np.abs(centred) < FAMILY.std(several) / np.sqrt(512)).all()


def test_widen_and_recentre(several, rng):
    width, centre = np.array([0.5, 1.0, 3.0]), FAMILY.location(several)
    theta, there = rng.standard_normal((20, 3)), np.arange(3.0)
    wide = FAMILY.recentre(FAMILY.widen(several, width), there)
    expected = FAMILY.log_density(centre + theta, several) - np.log(width).sum()
    found = FAMILY.log_density(there + width * theta, wide)
    assert_allclose(found, expected, atol=1e-10, rtol=0)


def test_it_is_no_family_to_choose(several):
    with pytest.raises(ValueError, match="that can be searched over"):
        as_family(LaplaceProduct(), 2)
    assert not LaplaceProduct.root_products
    with pytest.raises(ValueError, match="n_params"):
        FAMILY.dim_of(several[:-1])


def test_a_posterior_of_products_is_saved(several, tmp_path):
    assert families.LaplaceProduct is LaplaceProduct
    posterior = MixturePosterior(Mixture.single((FAMILY, several)))
    posterior.save(tmp_path / "posterior.npz")
    loaded = MixturePosterior.load(tmp_path / "posterior.npz")
    theta = np.ones((2, 3))
    assert_allclose(loaded.log_density(theta), posterior.log_density(theta))
