"""Student-t components in the engine: tails that a Gaussian needs many for."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd.scipy.special import logsumexp
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gammaln

from skboost import boost_posterior
from skboost.families import Gaussian, StudentT
from skboost.strategies import GreedySearch

from ..kinds import over

MEAN = np.array([1.0, -2.0])
SCALE_MATRIX = np.array([[1.0, 0.8], [0.8, 2.0]])
PRECISION = np.linalg.inv(SCALE_MATRIX)


def student_t(df):
    """Normalised log density of a correlated Student-t distribution."""
    log_z = 0.5 * np.linalg.slogdet(SCALE_MATRIX)[1] + np.log(df * np.pi)
    constant = gammaln(0.5 * df + 1.0) - gammaln(0.5 * df) - log_z

    def log_density(theta):
        z = theta - MEAN
        squared = anp.sum(anp.dot(z, PRECISION) * z, axis=1)
        return constant - (0.5 * df + 1.0) * anp.log1p(squared / df)

    return log_density


def boost(df, family, **settings):
    settings = {"max_iter": 4, "search": GreedySearch(256)} | settings
    return boost_posterior(student_t(df), 2, family=family, random_state=0, **settings)


def test_a_student_t_density_is_one_component():
    result = boost(5.0, "student_t", max_iter=1)
    (component,) = result.posterior.mixture.components
    assert component.family.df == 5.0
    # Nothing is missing, so every draw has the same weight, up to the search.
    assert abs(result.elbo) < 5 * result.elbo_se + 1e-4
    assert result.remaining_kl < 1e-3
    assert_allclose(component.location(), MEAN, atol=0.05)
    assert_allclose(component.scale(), np.sqrt(np.diagonal(SCALE_MATRIX)), rtol=0.03)
    covariance = result.posterior.covariance()
    assert_allclose(covariance, 5.0 / 3.0 * SCALE_MATRIX, rtol=0.07)


@over("df", [2.5, 8.0], slow=[8.0])
def test_degrees_of_freedom_are_found(df):
    result = boost(df, StudentT(df="auto"), max_iter=1)
    (component,) = result.posterior.mixture.components
    assert component.family.df == df
    assert isinstance(component.family.df, float)


def test_every_component_chooses_for_itself():
    # A normal in front of a Cauchy: a thin and a thick tail at one place.
    def log_density(theta):
        normal = -0.5 * anp.sum(theta**2, axis=1) - 0.5 * np.log(2 * np.pi)
        wide = (theta[:, 0] - 30.0) / 3.0
        cauchy = -anp.log1p(wide**2) - np.log(3 * np.pi)
        return anp.logaddexp(normal, cauchy) - np.log(2)

    settings = {"x0": [[0.0], [30.0]], "max_iter": 3, "tol": 1e-3, "random_state": 0}
    settings["search"] = GreedySearch(256)
    family = StudentT(df=(1.0, 30.0))
    result = boost_posterior(log_density, 1, family=family, **settings)
    components = result.posterior.mixture.components
    assert {component.family.df for component in components} == {1.0, 30.0}
    truth = 0.5 * stats.norm.cdf(2.0) + 0.5 * stats.cauchy(30.0, 3.0).cdf(2.0)
    assert_allclose(result.posterior.marginal(0).cdf(2.0), truth, atol=0.02)


def test_one_component_has_the_tails_that_a_gaussian_lacks():
    gaussian, heavy = (
        boost(2.5, family, max_iter=1, orbit=None)
        for family in (Gaussian(), StudentT(df=2.5))
    )
    noise = np.hypot(gaussian.elbo_se, heavy.elbo_se)
    assert heavy.elbo - gaussian.elbo > 5 * noise
    # Importance weights of a component with lighter tails have no variance.
    assert heavy.pareto_k < 0.3 < gaussian.pareto_k


@pytest.mark.filterwarnings("ignore::skboost.objectives.DegenerateComponentWarning")
def test_the_residual_objective_takes_an_open_family():
    family = StudentT("diag", (3.0, 30.0))
    result = boost(4.0, family, objective="relbo", max_iter=2, search=GreedySearch(64))
    assert np.isfinite(result.elbo)
    components = result.posterior.mixture.components
    assert {component.family.df for component in components} <= {3.0, 30.0}


# One place, and two.
CENTRES = [[[0.0] * 4], [[-30.0] * 4, [20.0] * 4]]


@over("centres", CENTRES, slow=CENTRES[1:])
def test_gaussians_of_several_widths_come_together(centres):
    """A tail that is wider in all directions takes one iteration, not ten."""
    dim, df, centres = 4, 3.0, np.array(centres)
    constant = stats.multivariate_t(np.zeros(dim), df=df).logpdf(np.zeros(dim))

    def log_density(theta):
        squared = anp.sum((theta[:, None] - centres) ** 2, axis=2)
        tails = constant - 0.5 * (df + dim) * anp.log1p(squared / df)
        return logsumexp(tails, axis=1) - np.log(len(centres))

    settings = {"x0": centres, "orbit": None, "random_state": 0}
    settings["search"] = GreedySearch(256)
    n = len(centres)
    second = boost_posterior(log_density, dim, max_iter=n + 1, **settings)
    before = second.history[n - 1]["elbo"]
    assert second.history[n]["kind"] == "widths"
    assert_allclose(second.posterior.mean(), centres.mean(axis=0), atol=1.5)
    # Gaussians alone leave more than a tenth of a nat; ln Z is zero.
    assert before < -0.1
    assert 0.25 * before < second.elbo < 4 * second.elbo_se


def test_a_bend_gets_no_widths():
    """Copies at other widths gain some of what is left, and a split more."""

    def log_density(theta):
        x, y = theta[:, 0], theta[:, 1]
        return -0.5 * (x**2 / 4.0 + 4.0 * (y - x**2 / 4.0) ** 2)

    few = {"search": GreedySearch(128), "max_iter": 2, "random_state": 0}
    result = boost_posterior(log_density, 2, **few)
    assert result.history[1]["kind"] == "split"
