"""The Student-t family: what `conftest`'s tests of every family do not see."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats
from sklearn.base import clone

from skboost.approximation import Mixture
from skboost.families import Component, FullGaussian, Gaussian, StudentT, as_family
from skboost.posterior import MixturePosterior

DFS = [0.7, 2.5, 40.0]


@pytest.fixture(params=DFS, ids=lambda df: f"df{df}")
def df(request):
    return request.param


@pytest.fixture(params=["full", "diag"])
def family(request, df):
    return StudentT(request.param, df)


def scale_matrix(family, params):
    """Of a Student-t component: the covariance of the Gaussian with its parameters."""
    return Component(Gaussian(family.covariance), params).moments()[1]


def test_density_is_scipys(family, component, rng):
    params = component(family, 4)
    theta = 3 * rng.standard_normal((20, 4))
    matrix = scale_matrix(family, params)
    expected = stats.multivariate_t(params[:4], matrix, df=family.df)
    found = family.log_density(theta, params)
    assert_allclose(found, expected.logpdf(theta), rtol=1e-10)
    assert_allclose(family.log_peak(params), expected.logpdf(params[:4]), rtol=1e-10)


@pytest.mark.parametrize("dim", [1, 5])
def test_entropy_is_the_integral(component, df, dim):
    # ln s depends on the whitened length alone, whose square / dim is F distributed.
    family = StudentT("full", df)
    params = component(family, dim)
    exact = stats.f(dim, df)
    direction = np.linalg.cholesky(scale_matrix(family, params))[:, 0]

    def log_density(squared):
        point = params[:dim] + np.sqrt(squared) * direction
        return family.log_density(point[None], params)[0]

    def at(y):
        # In logarithms: for few degrees of freedom the tail has many decades.
        return -np.exp(y) * exact.pdf(np.exp(y)) * log_density(dim * np.exp(y))

    reach = 60 / min(1.0, 0.5 * df)
    expected, _ = integrate.quad(at, -60, reach, limit=500, points=[-3, 0, 3])
    assert_allclose(family.entropy(params), expected, rtol=1e-7)


def test_length_of_the_draws(family, component, rng):
    params, dim = component(family, 3), 3
    base = family.base_draws(4096, dim, rng)
    assert np.isfinite(base).all()
    chi_squared = family.df / base[:, -1] ** 2
    assert stats.kstest(chi_squared, stats.chi2(family.df).cdf).pvalue > 1e-3
    centred = family.transport(params, base) - params[:dim]
    precision = np.linalg.inv(scale_matrix(family, params))
    squared = np.einsum("ni,ij,nj->n", centred, precision, centred)
    assert stats.kstest(squared / dim, stats.f(dim, family.df).cdf).pvalue > 1e-3


def test_moments_exist_or_say_so(family, component):
    params = component(family, 3)
    mean, covariance = family.moments(params)
    matrix = scale_matrix(family, params)
    scale = np.sqrt(np.diagonal(matrix))
    assert_allclose(family.scale(params), scale)
    assert_allclose(family.location(params), params[:3])
    expected = params[:3] if family.df > 1 else np.full(3, np.nan)
    assert_allclose(mean, expected)
    assert_allclose(family.mean(params), expected)
    expected = stats.t(family.df, scale=scale).std() if family.df > 2 else np.inf
    assert_allclose(family.std(params), expected)
    assert_allclose(np.sqrt(np.diagonal(covariance)), expected)
    if family.df > 2:
        assert_allclose(covariance * (1 - 2 / family.df), matrix)
    else:
        assert np.isnan(covariance[0, 1])


def test_variants():
    family = StudentT("diag")
    assert family.variants() == (family,)
    assert isinstance(Gaussian().variants()[0], FullGaussian)
    assert as_family("student_t", 3).df == 5.0
    auto = StudentT("diag", "auto").variants()
    assert [v.df for v in auto] == [2.5, 4.0, 8.0, 30.0]
    assert {v.covariance for v in auto} == {"diag"}
    several = StudentT(df=(3, 7)).variants()
    assert [v.df for v in several] == [3.0, 7.0]
    assert clone(StudentT(df=(3, 7))).df == (3, 7)


@pytest.mark.parametrize("open_df", ["auto", (3.0, 7.0)])
def test_an_open_family_is_no_density(open_df):
    family, params = StudentT(df=open_df), np.zeros(5)
    for call in (
        lambda: family.entropy(params),
        lambda: family.log_density(np.zeros((1, 2)), params),
        lambda: family.base_draws(4, 2, np.random.default_rng(0)),
        lambda: family.std(params),
    ):
        with pytest.raises(ValueError, match=r"df must be one number.*variants"):
            call()


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan, "many", None, True, (3, 0)])
def test_bad_degrees_of_freedom_are_refused(bad):
    with pytest.raises(ValueError, match="df must be a positive finite number"):
        family = StudentT(df=bad)
        family.variants()
        family.entropy(np.zeros(2))
    with pytest.raises(ValueError, match="at least one number"):
        StudentT(df=()).variants()


@pytest.mark.parametrize("few", [0.7, 1.5])
def test_posteriors_without_moments(few, component, rng):
    # Quantiles and modes need a place and a length, not a mean and a variance.
    family = StudentT("full", few)
    params = component(family, 2)
    posterior = MixturePosterior(Mixture.single((family, params)))
    exact = stats.t(few, params[0], family.scale(params)[0])
    levels = [0.05, 0.5, 0.999]
    found = posterior.marginal(0).quantile(levels)
    assert_allclose(found, exact.ppf(levels), rtol=1e-7)
    (mode,) = posterior.modes()
    assert_allclose(mode.location, params[:2], atol=1e-6)
    assert np.isinf(posterior.std()).all() or few < 1
