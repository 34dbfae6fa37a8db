"""A prior whose scale is averaged over: density, score, posterior of the scale."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm, t

from skboost.priors import HalfNormalPrior, HalfTPrior, as_prior
from skboost.targets import CommonScale, PrincipalScale, ScaleNode

from .conftest import differences

SCALE = np.array([1.0, 0.5, 3.0])
SHARED = np.array([True, True, False])


def made(name="normal", factor=None):
    return CommonScale(as_prior(name), SHARED, 2, factor or HalfTPrior(df=3.0))


def by_quadrature(prior, theta, weight=lambda log_s: 1.0):
    """Density of (coef, coef, intercept), the common factor integrated out."""

    def integrand(log_s):
        scale = SCALE * np.where(SHARED, np.exp(log_s), 1.0)
        inner = prior.coef.log_density(theta[None], scale)[0]
        factor, _ = prior.factor.value_and_score(log_s)
        return np.exp(inner + factor) * weight(log_s)

    return quad(integrand, -9.0, 7.0, limit=400, epsabs=0.0, epsrel=1e-9)[0]


@pytest.mark.parametrize("name", ["normal", "laplace", "student_t"])
def test_density_is_that_of_quadrature_over_the_factor(name):
    prior = made(name)
    theta = np.array([[0.3, -0.4, 2.0], [5.0, 0.1, -1.0], [0.02, 0.01, 0.0]])
    expected = [np.log(by_quadrature(prior, row)) for row in theta]
    # The grid ends where 4e-4 of the prior's mass is left.
    assert prior.log_density(theta, SCALE) == pytest.approx(expected, abs=1e-3)


COVARIANCE = np.array([[2.0, 0.9], [0.9, 0.5]])


def along_components(s, power):
    """Covariance of (coef, coef, intercept), written out."""
    variances, axes = np.linalg.eigh(COVARIANCE)
    lengths = (variances + 0.1 * variances.mean()) ** power
    lengths *= variances.sum() / (variances @ lengths)
    coef = np.diag(SCALE[:2]) @ (axes * lengths) @ axes.T @ np.diag(SCALE[:2])
    return np.block(
        [[s**2 * coef, np.zeros((2, 1))], [np.zeros((1, 2)), SCALE[2] ** 2]]
    )


def test_covariances_along_principal_components_are_equally_probable():
    prior = PrincipalScale(SHARED, COVARIANCE, HalfTPrior())
    theta = np.array([[0.3, -0.4, 2.0], [5.0, 0.1, -1.0]])
    kinds = []
    for kind, power in enumerate([0.0, 0.5, 1.0]):
        at = [ScaleNode(log_s, kind) for log_s in prior.log_s]
        expected = multivariate_normal(cov=along_components(0.7, power)).logpdf(theta)
        given = prior.log_density_given(theta, SCALE, ScaleNode(np.log(0.7), kind))
        assert given == pytest.approx(expected)
        if kind:
            given = prior.covariance_given(SCALE, ScaleNode(np.log(0.7), kind))
            assert given == pytest.approx(along_components(0.7, power))
        # Predictors of such columns have the same prior variance under all.
        one = along_components(1.0, power)[:2, :2] / np.outer(SCALE[:2], SCALE[:2])
        assert np.sum(COVARIANCE * one) == pytest.approx(np.trace(COVARIANCE))
        densities = [np.exp(prior.log_density_given(theta, SCALE, node)) for node in at]
        kinds.append(np.exp(prior.log_mass)[:, None] * densities)
    joint = np.sum(kinds, axis=0)
    assert prior.log_density(theta, SCALE) == pytest.approx(np.log(joint.sum(axis=0)))
    posterior = joint / joint.sum(axis=0)
    assert np.exp(prior.log_posterior(theta, SCALE)) == pytest.approx(posterior.T)


def test_a_basis_says_of_which_coefficients_the_covariances_are():
    basis = np.array([[0.6, -0.8], [0.0, 1.0]])
    plain = PrincipalScale(SHARED, COVARIANCE, HalfTPrior())
    prior = PrincipalScale(SHARED, COVARIANCE, HalfTPrior(), basis=basis)
    theta = np.array([[0.3, -0.4, 2.0], [5.0, 0.1, -1.0]])
    inner = theta.copy()
    inner[:, :2] = SCALE[:2] * np.linalg.solve(basis, (theta / SCALE)[:, :2].T).T
    log_det = np.log(0.6)
    same = ScaleNode(0.3, 0), ScaleNode(0.3, 0), 0.0, theta
    # Independent ones in the basis are the second kind, and then come the components.
    others = [
        (ScaleNode(0.3, k), ScaleNode(0.3, k + 1), log_det, inner) for k in range(3)
    ]
    for node, found, less, at in [same, *others]:
        expected = plain.log_density_given(at, SCALE, node) - less
        given = prior.log_density_given(theta, SCALE, found)
        assert given == pytest.approx(expected)
        if found.kind:
            covariance = prior.covariance_given(SCALE, found)
            expected = multivariate_normal(cov=covariance).logpdf(theta)
            assert given == pytest.approx(expected)
    weights = np.exp(prior.log_mass).sum() * len(prior.roots)
    assert weights == pytest.approx(1.0)
    _, score = prior.value_and_score(theta, SCALE)
    for row, slope in zip(theta, score, strict=True):
        by_steps = differences(
            lambda x: prior.log_density(x[None], SCALE)[0], row, 1e-6
        )
        assert slope == pytest.approx(by_steps, rel=1e-5, abs=1e-6)


def test_components_of_several_classes_are_independent():
    one = PrincipalScale(SHARED, COVARIANCE, HalfTPrior())
    two = PrincipalScale(SHARED, COVARIANCE, HalfTPrior(), n_outputs=2)
    theta, scale = np.array([[0.3, -0.4, 2.0, 5.0, 0.1, -1.0]]), np.tile(SCALE, 2)
    parts = np.split(theta, 2, axis=1)
    for kind in (0, 1, 2):
        node = ScaleNode(0.3, kind)
        expected = sum(one.log_density_given(part, SCALE, node) for part in parts)
        assert two.log_density_given(theta, scale, node) == pytest.approx(expected)
        if kind:
            given = two.covariance_given(scale, node)
            each = one.covariance_given(SCALE, node)
            assert given == pytest.approx(np.kron(np.eye(2), each))
    _, score = two.value_and_score(theta, scale)
    slope = differences(lambda x: two.log_density(x[None], scale)[0], theta[0], 1e-6)
    assert score[0] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_constant_columns_have_no_components():
    prior = PrincipalScale(SHARED, np.zeros((2, 2)), HalfTPrior())
    theta = np.array([[0.3, -0.4, 2.0]])
    assert prior.log_density(theta, SCALE) == pytest.approx(
        made(factor=HalfTPrior()).log_density(theta, SCALE)
    )


@pytest.mark.parametrize("name", ["normal", "laplace", "student_t", "principal"])
def test_score_is_that_of_differences(name):
    principal = PrincipalScale(SHARED, COVARIANCE, HalfTPrior())
    prior = principal if name == "principal" else made(name)
    theta = np.array([[0.3, -0.4, 2.0], [5.0, 0.1, -1.0]])
    _, score = prior.value_and_score(theta, SCALE)
    for row, slope in zip(theta, score, strict=True):
        found = differences(lambda x: prior.log_density(x[None], SCALE)[0], row, 1e-6)
        assert slope == pytest.approx(found, rel=1e-5, abs=1e-6)


def test_posterior_of_the_factor_given_coefficients():
    prior, theta = made(), np.array([0.3, -0.4, 2.0])
    mass = np.exp(prior.log_posterior(theta[None], SCALE)[0])
    expected = by_quadrature(prior, theta, np.exp) / by_quadrature(prior, theta)
    assert mass.sum() == pytest.approx(1.0)
    assert mass @ np.exp(prior.log_s) == pytest.approx(expected, rel=1e-3)


def test_a_known_factor_leaves_an_ordinary_prior():
    coef, scale = made("laplace").given(np.tile(SCALE, 2), 2.0)
    assert coef.get_params() == as_prior("laplace").get_params()
    assert scale.tolist() == [2.0, 1.0, 3.0, 2.0, 1.0, 3.0]


def test_priors_of_the_factor_have_the_densities_of_scipy():
    log_s = np.log([0.1, 1.0, 7.0])
    value, _ = HalfTPrior(df=3.0, scale=2.0).value_and_score(log_s)
    expected = np.log(2.0) + t(3.0, scale=2.0).logpdf(np.exp(log_s)) + log_s
    assert value == pytest.approx(expected)
    value, _ = HalfNormalPrior(scale=2.0).value_and_score(log_s)
    expected = np.log(2.0) + norm(scale=2.0).logpdf(np.exp(log_s)) + log_s
    assert value == pytest.approx(expected)
