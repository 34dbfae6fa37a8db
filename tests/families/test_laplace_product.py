"""The piecewise exponential density that two Laplace roots multiply to."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad

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


def integral(func, params):
    """Integral over the line, cut at the kinks."""
    a, log_i, c, log_j = params
    reach = 45 / (0.5 * np.exp(-log_i) + 0.5 * np.exp(-log_j))
    low, high = min(a, c), max(a, c)
    cuts = [low - reach, low, high, high + reach]
    return sum(
        quad(func, *ends, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
        for ends in zip(cuts, cuts[1:], strict=False)
    )


def density(params):
    return lambda x: np.exp(FAMILY.log_density(np.array([[x]]), params)[0])


def test_density_integrates_to_one(params):
    assert_allclose(integral(density(params), params), 1, rtol=1e-10)


def test_moments_are_the_integrals(params):
    s = density(params)
    mean = integral(lambda x: x * s(x), params)
    variance = integral(lambda x: (x - mean) ** 2 * s(x), params)
    assert_allclose(FAMILY.mean(params), mean, rtol=1e-9, atol=1e-10)
    assert_allclose(FAMILY.std(params) ** 2, variance, rtol=1e-8)
    got_mean, covariance = FAMILY.moments(params)
    assert_allclose(got_mean, mean, rtol=1e-9, atol=1e-10)
    assert_allclose(covariance, [[variance]], rtol=1e-8)


def test_entropy_is_the_integral(params):
    s = density(params)
    expected = integral(lambda x: -s(x) * np.log(s(x)) if s(x) > 0 else 0.0, params)
    assert_allclose(FAMILY.entropy(params), expected, rtol=1e-9, atol=1e-9)


def test_cdf_is_the_integral(params):
    s = density(params)
    low, high = sorted(params[[0, 2]])
    for x in (low - 0.3, low, 0.3 * low + 0.7 * high, high, high + 0.2):
        start = low - 45 / (0.5 * np.exp(-params[1]) + 0.5 * np.exp(-params[3]))
        cuts = [start, *(k for k in (low, high) if k < x), x]
        expected = sum(
            quad(s, *ends, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
            for ends in zip(cuts, cuts[1:], strict=False)
        )
        assert_allclose(FAMILY.marginal_cdf(params, 0, x), expected, atol=1e-10, rtol=0)


def test_quantile_inverts_the_cdf(params):
    u = np.concatenate([[1e-9, 1e-4], np.linspace(0.01, 0.99, 57), [1 - 1e-4]])
    x = FAMILY.transport(params, u[:, None])[:, 0]
    assert (np.diff(x) > 0).all()
    assert_allclose(FAMILY.marginal_cdf(params, 0, x), u, rtol=1e-7, atol=1e-10)


def test_marginal_log_density(params):
    x = np.linspace(-2, 2, 11)
    expected = FAMILY.log_density(x[:, None], params)
    assert_allclose(FAMILY.marginal_log_density(params, 0, x), expected)


def test_peak_is_the_highest_point(params):
    at_kinks = FAMILY.log_density(params[[0, 2], None], params)
    assert_allclose(FAMILY.log_peak(params), at_kinks.max(), rtol=1e-9, atol=1e-9)


@pytest.fixture
def several(rng):
    return rng.standard_normal(FAMILY.n_params(3))


def test_coordinates_are_independent(several, rng):
    theta = rng.standard_normal((5, 3))
    expected = sum(
        FAMILY.marginal_log_density(several, i, theta[:, i]) for i in range(3)
    )
    assert_allclose(FAMILY.log_density(theta, several), expected)
    assert FAMILY.dim_of(several) == 3
    assert FAMILY.scale_mask(3).sum() == 6
    _, covariance = FAMILY.moments(several)
    assert_allclose(covariance, np.diag(FAMILY.std(several) ** 2))
    one = np.eye(3)[1:2]
    mean, std = FAMILY.linear_moments(several, one)
    assert_allclose(
        [mean[0], std[0]], [FAMILY.mean(several)[1], FAMILY.std(several)[1]]
    )


def test_score_is_the_slope(several, rng, slope):
    for point in rng.standard_normal((6, 3)):
        expected = slope(lambda x: FAMILY.log_density(x[None], several)[0], point)
        assert_allclose(FAMILY.score(point[None], several)[0], expected, rtol=1e-6)


def test_draws_follow_the_density(several, rng):
    draws = FAMILY.transport(several, rng.uniform(size=(4000, 3)))
    for i in range(3):
        found = stats.kstest(
            draws[:, i], lambda x, i=i: FAMILY.marginal_cdf(several, i, x)
        )
        assert found.pvalue > 1e-3
    base = FAMILY.base_draws(512, 3, rng)
    assert base.shape == (512, 3)
    centred = FAMILY.transport(several, base).mean(axis=0) - FAMILY.mean(several)
    assert (np.abs(centred) < FAMILY.std(several) / np.sqrt(512)).all()


def test_widen_and_recentre(several):
    wide = FAMILY.widen(several, 2.5)
    assert_allclose(FAMILY.mean(wide), FAMILY.mean(several))
    assert_allclose(FAMILY.std(wide), 2.5 * FAMILY.std(several))
    moved = FAMILY.recentre(several, np.arange(3.0))
    assert_allclose(FAMILY.mean(moved), np.arange(3.0), atol=1e-12, rtol=0)
    assert_allclose(FAMILY.std(moved), FAMILY.std(several))


def test_it_is_no_family_to_choose(several):
    with pytest.raises(ValueError, match="that can be searched over"):
        as_family(LaplaceProduct(), 2)
    assert not LaplaceProduct.root_products
    with pytest.raises(ValueError, match="n_params"):
        FAMILY.dim_of(several[:-1])


def test_a_posterior_of_products_is_saved(several, tmp_path):
    assert families.LaplaceProduct is LaplaceProduct
    posterior = MixturePosterior(Mixture.single(FAMILY, several))
    posterior.save(tmp_path / "posterior.npz")
    loaded = MixturePosterior.load(tmp_path / "posterior.npz")
    theta = np.ones((2, 3))
    assert_allclose(loaded.log_density(theta), posterior.log_density(theta))
