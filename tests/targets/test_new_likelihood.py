"""A likelihood that the package does not have, as one small class, is a model."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import elementwise_grad
from scipy import sparse, stats
from scipy.special import gammaln

from skboost.priors import PRIORS, as_prior
from skboost.targets import GLMTarget, Likelihood, Logistic

from .conftest import check_curvature, check_expectation, check_gradients, check_score

STRUCTURES = ["variance", "factor", "both"]


class Poisson(Likelihood):
    """Counts with rate exp(eta); every expectation is taken by the default rule."""

    def checked(self, y, n_samples):
        return np.asarray(y, dtype=float)

    def value_and_slope(self, eta, y):
        rate = np.exp(eta)
        return y * eta - rate - gammaln(y + 1.0), y - rate


class ClosedPoisson(Poisson):
    """The same with its expectations in closed form and a linear part done once."""

    def linear(self, y):
        return y

    def value_and_slope(self, eta, y):
        rate = np.exp(eta)
        return -rate - gammaln(y + 1.0), -rate

    def expected(self, mean, sd, y):
        rate = np.exp(mean + 0.5 * sd**2)
        return y * mean - rate - gammaln(y + 1.0), y - rate, rate


class RobustLine(Likelihood):
    """A line with Student-t noise of 3 degrees of freedom: not log-concave."""

    def checked(self, y, n_samples):
        return np.asarray(y, dtype=float)

    def value_and_slope(self, eta, y):
        error = y - eta
        return stats.t.logpdf(error, 3.0), 4.0 * error / (3.0 + error**2)


LIKELIHOODS = {
    "Poisson": Poisson,
    "closed Poisson": ClosedPoisson,
    "robust line": RobustLine,
}
each = pytest.mark.parametrize("kind", LIKELIHOODS)
poisson = pytest.mark.parametrize("kind", ["Poisson", "closed Poisson"])


def make_data(n=40, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, p))
    y = rng.poisson(np.exp(X @ np.linspace(1.0, -0.5, p) + 0.5))
    return X, y, rng.uniform(0.1, 2.0, n)


def make_target(kind, prior="normal", weighted=True, **options):
    X, y, weight = make_data()
    options = {"temperature": 0.8, **options}
    return GLMTarget(
        X,
        y,
        LIKELIHOODS[kind](),
        sample_weight=weight if weighted else None,
        prior=as_prior(prior),
        **options,
    )


def gaussian(target, structure, seed=4):
    """Mean, variance and factor of a Gaussian; what the structure lacks is None."""
    rng = np.random.default_rng(seed)
    mean = 0.5 * rng.normal(size=target.dim)
    variance = rng.uniform(0.02, 0.2, target.dim)
    factor = 0.3 * rng.normal(size=(target.dim, 2))
    return (
        mean,
        variance if structure != "factor" else None,
        factor if structure != "variance" else None,
    )


def autograd_log_joint(theta):
    """The tempered and weighted Poisson model, written for autograd."""
    X, y, weight = make_data()
    eta = anp.dot(theta, np.column_stack([X, np.ones(len(X))]).T)
    likelihood = 0.8 * anp.dot(y * eta - anp.exp(eta) - gammaln(y + 1.0), weight)
    prior = -0.5 * anp.sum(theta**2 + np.log(2.0 * np.pi), axis=1)
    return likelihood + prior


@poisson
def test_value_and_score_are_those_of_autograd(kind):
    target = make_target(kind)
    theta = np.random.default_rng(1).normal(size=(7, target.dim))
    value, score = target.value_and_score(theta)
    np.testing.assert_allclose(value, autograd_log_joint(theta), rtol=1e-12)
    np.testing.assert_allclose(target.log_density(theta), value, rtol=1e-12)
    expected = elementwise_grad(autograd_log_joint)(theta)
    np.testing.assert_allclose(score, expected, rtol=1e-10, atol=1e-10)


@each
@pytest.mark.parametrize("weighted", [False, True])
def test_score_equals_differences(kind, weighted):
    target = make_target(kind, weighted=weighted)
    check_score(target, np.random.default_rng(2).normal(size=(5, target.dim)))


@each
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_expected_log_density_is_the_mean_over_draws(kind, prior, structure):
    target = make_target(kind, prior)
    check_expectation(target, *gaussian(target, structure))


@each
def test_slopes_of_expectations_equal_differences(kind):
    target = make_target(kind)
    mean, variance, factor = gaussian(target, "both")
    check_gradients(target, mean, variance, factor)
    check_curvature(target, mean, factor)


def test_a_likelihood_that_is_not_log_concave_bends_both_ways():
    target = make_target("robust line")
    far = np.array([0.0, 0.0, 0.0, 20.0])
    # Every error is far out in the tail, where the log density is convex.
    curvature = target.expected_curvature(far, 0.01 * np.eye(4))[2]
    assert np.linalg.eigvalsh(curvature - np.eye(4)).max() < 0.0


@pytest.mark.parametrize("sd", [0.0, 0.01, 0.3, 1.0])
def test_the_default_rule_agrees_with_closed_forms(sd):
    mean = np.linspace(-2.0, 2.0, 9)
    y, sd = np.arange(9.0), np.full(9, sd)
    closed = ClosedPoisson().expected(mean, sd, y)
    # A point mass is integrated as a Gaussian of standard deviation 1e-4.
    tolerance = 1e-7 if sd[0] == 0.0 else 1e-9
    found = Poisson().expected(mean, sd, y)
    np.testing.assert_allclose(found, closed, rtol=tolerance, atol=tolerance)
    # So does a default beside a linear part of its own.
    found = Likelihood.expected(ClosedPoisson(), mean, sd, y)
    np.testing.assert_allclose(found, closed, rtol=tolerance, atol=tolerance)


@each
def test_sparse_rows_and_weights_that_repeat(kind):
    X, y, _ = make_data()
    repeats = np.random.default_rng(5).integers(0, 3, len(y))
    likelihood = LIKELIHOODS[kind]()
    rows = sparse.csr_matrix(X)
    weighted = GLMTarget(rows, y, likelihood, sample_weight=repeats.astype(float))
    repeated = GLMTarget(
        np.repeat(X, repeats, axis=0), np.repeat(y, repeats), likelihood
    )
    mean, variance, factor = gaussian(weighted, "both")
    for a, b in zip(
        weighted.expected_log_density(mean, variance, factor),
        repeated.expected_log_density(mean, variance, factor),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    for a, b in zip(
        weighted.value_and_score(mean[None]),
        repeated.value_and_score(mean[None]),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_what_one_predictor_has_and_several_have_not():
    target = make_target("Poisson")
    assert target.exact_gaussian and not hasattr(target, "curvature")
    with pytest.raises(NotImplementedError, match="must define value_and_slope"):
        Likelihood().value_and_slope(np.zeros((1, 1)), np.zeros((1, 1)))
    with pytest.raises(NotImplementedError, match="must define checked"):
        GLMTarget(np.ones((2, 1)), np.ones(2), Likelihood())


def test_the_logistic_likelihood_agrees_with_the_default_rule():
    class Plain(Logistic):
        def value_and_slope(self, eta, y):
            even = 0.5 * np.abs(eta) + np.log1p(np.exp(-np.abs(eta)))
            return -even, -0.5 * np.tanh(0.5 * eta)

    rng = np.random.default_rng(6)
    mean, sd = 3.0 * rng.normal(size=20), rng.uniform(0.01, 4.0, 20)
    y = rng.integers(0, 2, 20).astype(float)
    np.testing.assert_allclose(
        Likelihood.expected(Plain(), mean, sd, y),
        Logistic().expected(mean, sd, y),
        rtol=1e-9,
        atol=1e-9,
    )
