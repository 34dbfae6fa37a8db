"""The Student-t family: what `conftest`'s tests of every family do not see."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats
from sklearn.base import clone

from skboost.approximation import Mixture
from skboost.families import Gaussian, StudentT, as_family
from skboost.posterior import MixturePosterior

from .conftest import chart_fisher_information

DFS = [0.7, 1.5, 2.5, 5.0, 40.0]


@pytest.fixture(params=DFS, ids=lambda df: f"df{df}")
def df(request):
    return request.param


@pytest.fixture(params=["full", "diag"])
def family(request, df):
    return StudentT(request.param, df)


def scale_matrix(family, params):
    """Of a Student-t component: the covariance of the Gaussian with its parameters."""
    return Gaussian(family.covariance).moments(params)[1]


def test_density_is_scipys(family, component, rng):
    params = component(family, 4)
    theta = 3 * rng.standard_normal((20, 4))
    expected = stats.multivariate_t(
        params[:4], scale_matrix(family, params), df=family.df
    )
    assert_allclose(
        family.log_density(theta, params), expected.logpdf(theta), rtol=1e-10
    )
    assert_allclose(family.log_peak(params), expected.logpdf(params[:4]), rtol=1e-10)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_entropy_is_the_integral(family, component, dim):
    # ln s depends on the whitened length alone, whose square / dim is F distributed.
    params, df = component(family, dim), family.df
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


def test_many_degrees_of_freedom_are_a_gaussian(component, rng):
    theta = rng.standard_normal((9, 3))
    for covariance in ("full", "diag"):
        near, gaussian = StudentT(covariance, 1e7), Gaussian(covariance)
        params = component(gaussian, 3)
        assert_allclose(
            near.log_density(theta, params),
            gaussian.log_density(theta, params),
            rtol=1e-5,
        )
        assert_allclose(near.entropy(params), gaussian.entropy(params), rtol=1e-5)


def test_length_of_the_draws(family, component, rng):
    params, dim = component(family, 3), 3
    eps = family._quantile(rng.uniform(size=(4000, dim + 1)))
    centred = family.transport(params, eps) - params[:dim]
    squared = np.einsum(
        "ni,ij,nj->n", centred, np.linalg.inv(scale_matrix(family, params)), centred
    )
    assert stats.kstest(squared / dim, stats.f(dim, family.df).cdf).pvalue > 1e-3


def test_last_base_variable_is_the_length(family, rng):
    base = family.base_draws(4096, 2, rng)
    assert base.shape == (4096, 3)
    assert np.isfinite(base).all()
    chi_squared = family.df / base[:, -1] ** 2
    assert stats.kstest(chi_squared, stats.chi2(family.df).cdf).pvalue > 1e-3


def test_slopes(family, component, rng, slope):
    params, theta = component(family, 3), 2 * rng.standard_normal((6, 3))
    close = {"rtol": 1e-5, "atol": 1e-6}
    score = family.score(theta, params)
    for point, row in zip(theta, score, strict=True):
        assert_allclose(
            row, slope(lambda x: family.log_density(x[None], params)[0], point), **close
        )
    cotangent = rng.standard_normal(6)
    assert_allclose(
        family.at(params, theta).pull(cotangent),
        slope(lambda p: cotangent @ family.log_density(theta, p), params),
        **close,
    )
    assert_allclose(family.at(params, theta).score(slice(1, 3)), score[1:3], rtol=1e-12)


@pytest.mark.slow
def test_chart_has_identity_fisher_information(component, rng):
    # The scores are bounded, so this holds for few degrees of freedom as well.
    for family in (StudentT("full", 1.5), StudentT("diag", 3.0)):
        params = component(family, 3)
        fisher, error = chart_fisher_information(family, params, 4000, rng)
        assert np.all(np.abs(fisher - np.eye(params.size)) < 5 * error)


def test_moments_exist_or_say_so(family, component):
    params = component(family, 3)
    mean, covariance = family.moments(params)
    scale = np.sqrt(np.diagonal(scale_matrix(family, params)))
    assert_allclose(family.scale(params), scale)
    assert_allclose(family.location(params), params[:3])
    if family.df > 1:
        assert_allclose(mean, params[:3])
        assert_allclose(family.mean(params), params[:3])
    else:
        assert np.isnan(mean).all()
        assert np.isnan(family.mean(params)).all()
    if family.df > 2:
        expected = stats.t(family.df, scale=scale).std()
        assert_allclose(family.std(params), expected)
        assert_allclose(np.sqrt(np.diagonal(covariance)), expected)
        assert_allclose(
            covariance[0, 1] * (1 - 2 / family.df), scale_matrix(family, params)[0, 1]
        )
    else:
        assert np.isinf(family.std(params)).all()
        assert np.isinf(np.diagonal(covariance)).all()
        assert np.isnan(covariance[0, 1])


def test_from_moments(family, rng):
    root = rng.standard_normal((3, 5))
    mean, covariance = rng.standard_normal(3), root @ root.T
    params = family.from_moments(mean, covariance)
    got = scale_matrix(family, params)
    if family.df > 2:
        got = got * family.df / (family.df - 2)
    if family.covariance == "diag":
        covariance = np.diag(np.diagonal(covariance))
    assert_allclose(params[:3], mean)
    assert_allclose(got, covariance, rtol=1e-9)


def test_marginals_are_scipys(family, component):
    params = component(family, 3)
    scale = family.scale(params)
    x = np.array([-50.0, -1.0, 0.2, 3.0])
    for i in range(3):
        expected = stats.t(family.df, params[i], scale[i])
        assert_allclose(family.marginal_cdf(params, i, x), expected.cdf(x), rtol=1e-9)
        assert_allclose(
            family.marginal_log_density(params, i, x), expected.logpdf(x), rtol=1e-9
        )


def test_linear_combinations(family, component, rng):
    params, X = component(family, 3), rng.standard_normal((6, 3))
    X[0] = 0
    mean, std = family.linear_moments(params, X)
    assert np.isnan(mean).all() == (family.df <= 1)
    assert np.isinf(std[1:]).all() == (family.df <= 2)
    assert std[0] == 0


def test_recentre_and_widen(family, component):
    params = component(family, 3)
    moved = family.widen(family.recentre(params, np.arange(3.0)), 2.5)
    assert_allclose(family.location(moved), np.arange(3.0))
    assert_allclose(family.scale(moved), 2.5 * family.scale(params))


def test_it_has_no_exact_gaussian_expectations():
    assert not StudentT().exact_expectations
    assert not StudentT.root_products
    assert StudentT.tail_power is None
    with pytest.raises(ValueError, match="'gaussian' or 'laplace'"):
        StudentT().log_affinity(np.zeros((1, 4)), np.zeros((1, 4)))


def test_variants():
    family = StudentT("diag")
    assert family.variants() == (family,)
    assert Gaussian().variants()[0].covariance == "full"
    auto = StudentT("diag", "auto").variants()
    assert [v.df for v in auto] == [2.5, 4.0, 8.0, 30.0]
    assert {v.covariance for v in auto} == {"diag"}
    several = StudentT(df=(3, 7)).variants()
    assert [v.df for v in several] == [3.0, 7.0]
    assert len({v.n_params(4) for v in several}) == 1
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


def test_automatic_covariance():
    assert as_family("student_t", 300).covariance == "full"
    assert as_family("student_t", 301).covariance == "diag"
    assert as_family("student_t", 3).df == 5.0
    own = StudentT("diag", "auto")
    assert as_family(own, 3) is own


@pytest.mark.parametrize("few", [0.7, 1.5])
def test_posteriors_without_moments(few, component, rng):
    # Quantiles and modes need a place and a length, not a mean and a variance.
    family = StudentT("full", few)
    params = component(family, 2)
    posterior = MixturePosterior(Mixture.single(family, params))
    exact = stats.t(few, params[0], family.scale(params)[0])
    marginal = posterior.marginal(0)
    assert_allclose(
        marginal.quantile([0.05, 0.5, 0.999]), exact.ppf([0.05, 0.5, 0.999]), rtol=1e-7
    )
    (mode,) = posterior.modes()
    assert_allclose(mode.location, params[:2], atol=1e-6)
    assert np.isinf(posterior.std()).all() or few < 1
