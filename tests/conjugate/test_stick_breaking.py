"""Stick-breaking and clouds of rows: quadrature, brute force, scikit-learn."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from sklearn.mixture import BayesianGaussianMixture

from skboost.conjugate import COVARIANCES, GaussianMixtureModel
from skboost.conjugate.gaussian_mixture import StickBreakingWeights, log_parts

from .conftest import ascended, blobs, close, log_joint, make_model

OWN = {"a": np.array([3.0, 1.4, 6.0]), "b": np.array([2.5, 4.0, 0.8])}


@pytest.fixture
def factor():
    return StickBreakingWeights(np.full(3, 1.7))


def test_kl_is_the_sum_over_sticks_by_quadrature(factor):
    def divergence(a, b):
        own, prior = stats.beta(a, b), stats.beta(1.0, 1.7)
        return quad(
            lambda v: own.pdf(v) * (own.logpdf(v) - prior.logpdf(v)), 1e-12, 1 - 1e-12
        )[0]

    expected = sum(map(divergence, OWN["a"], OWN["b"]))
    assert factor.kl(OWN) == pytest.approx(expected, abs=1e-6)
    assert factor.kl(factor.prior) == 0.0


def test_expectations_are_those_of_draws(factor):
    draws = factor.sample(OWN, 40_000, np.random.default_rng(0))
    weights, leftover = draws["weights"], draws["leftover"]
    np.testing.assert_allclose(weights.sum(axis=1) + leftover, 1.0)
    moments = factor.moments(OWN)
    log_q = factor.log_density(OWN, draws)
    products = weights[:, :, None] * weights[:, None, :]
    mean, covariance = moments["weights"]
    left, left_variance = moments["leftover"]
    expected = [
        (weights, mean),
        (products, covariance + np.outer(mean, mean)),
        (leftover, left),
        (leftover**2, left_variance + left**2),
        (np.log(weights), factor.expected_log(OWN)),
        (-log_q, factor.entropy(OWN)),
    ]
    for values, exact in expected:
        assert close(values, exact)


def test_the_density_is_linear_in_the_statistics(factor):
    draws = factor.sample(OWN, 20, np.random.default_rng(0))
    found = factor.statistics(draws)
    change = sum(found[key] @ (OWN[key] - factor.prior[key]) for key in "ab")
    ratio = factor.log_density(OWN, draws) - factor.log_density(factor.prior, draws)
    np.testing.assert_allclose(ratio - change, (ratio - change)[0], rtol=1e-10)


def test_draws_of_tiny_sticks_have_densities(factor):
    own = {"a": np.full(3, 1e-3), "b": np.full(3, 1e-3)}
    draws = factor.sample(own, 500, np.random.default_rng(0))
    assert draws["weights"].min() > 0 and draws["leftover"].min() > 0
    assert np.isfinite(factor.log_density(own, draws)).all()


def test_sticks_and_weights_are_scikit_learns(factor):
    X = blobs()
    theirs = BayesianGaussianMixture(
        n_components=3, weight_concentration_prior=1.7, max_iter=1, reg_covar=0.0
    )
    resp = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    theirs._check_parameters(X)
    theirs._initialize(X, resp)
    theirs._set_parameters(theirs._get_parameters())
    own = factor.target(None, {"count": resp.sum(axis=0)})
    np.testing.assert_allclose(own["a"], theirs.weight_concentration_[0])
    np.testing.assert_allclose(own["b"], theirs.weight_concentration_[1])
    np.testing.assert_allclose(factor.mean(own), theirs.weights_)
    np.testing.assert_allclose(factor.expected_log(own), theirs._estimate_log_weights())


def two_rows(n_components, alpha, weights="stick-breaking"):
    """Log evidences of two rows: of infinitely many clusters, and of those given."""
    X = np.array([[-1.0], [1.2]])
    prior = {"weights": weights, "mean_variance": 4.0, "known": 1.0}
    alphas = np.full(n_components, alpha)
    model = GaussianMixtureModel("known", "spherical", alphas, np.zeros(1), **prior)
    same = stats.multivariate_normal(np.zeros(2), np.eye(2) + 4.0).pdf(X[:, 0])
    apart = stats.norm(0, np.sqrt(5.0)).pdf(X[:, 0]).prod()
    together = 1.0 / (1.0 + alpha)
    infinite = np.log(together * same + (1.0 - together) * apart)
    mean, covariance = model.weights.moments(model.prior["weights"])["weights"]
    pairs = covariance + np.outer(mean, mean)
    shared = np.trace(pairs)
    truncated = np.log(shared * same + (pairs.sum() - shared) * apart)
    return model, model.rows(X), infinite, truncated


@pytest.mark.parametrize(
    ("weights", "n_components", "alpha"),
    [
        *(("stick-breaking", k, alpha) for k, alpha in ((1, 2.0), (2, 0.3), (4, 2.0))),
        ("dirichlet", 2, 1.0),
    ],
)
def test_the_bound_is_below_the_evidence(weights, n_components, alpha):
    model, rows, infinite, truncated = two_rows(n_components, alpha, weights)
    natural, path = ascended(model, rows, n_iter=60)
    assert path[-1] <= truncated + 1e-12
    assert truncated < infinite or weights == "dirichlet"
    if n_components == 1:
        assert path[-1] == pytest.approx(truncated)
    draws = model.sample(natural, 5_000, np.random.default_rng(0))
    ratio = np.exp(log_joint(model, draws, rows) - model.log_density(natural, draws))
    assert close(ratio, np.exp(truncated))


def test_more_sticks_reach_the_evidence_of_infinitely_many():
    found = [two_rows(n_components, 2.0) for n_components in (2, 8, 32)]
    gaps = [infinite - truncated for *_, infinite, truncated in found]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 1e-4


def test_the_bound_is_below_that_from_draws(law_and_shape):
    X = blobs()
    model = make_model(*law_and_shape, X, weights="stick-breaking", reg_covar=0.2)
    natural, path = ascended(model, model.rows(X), n_iter=30)
    draws = model.sample(natural, 2000, np.random.default_rng(0))
    log_q = model.log_density(natural, draws)
    # Assignments summed out instead of bounded: Jensen gives the sign.
    values = log_joint(model, draws, model.rows(X)) - log_q
    assert values.mean() + 5 * values.std() / np.sqrt(2000) > path[-1]
    assert close(-log_q, model.entropy(natural))


def test_another_order_keeps_the_counts():
    X = blobs()
    model = make_model("normal-wishart", "full", X, weights="stick-breaking")
    natural, _ = ascended(model, model.rows(X))
    order = np.array([2, 0, 1])
    there = model.permuted(natural, order)
    np.testing.assert_allclose(model.means(there), model.means(natural)[order])
    back = model.permuted(there, np.argsort(order))
    for key in "ab":
        np.testing.assert_allclose(back["weights"][key], natural["weights"][key])


# --- clouds


@pytest.mark.parametrize("shape", COVARIANCES)
def test_a_cloud_is_the_mean_log_density_of_its_points(shape):
    X, reg_covar = blobs(n=4), 0.3
    cloudy = make_model("normal-wishart", shape, X, reg_covar=reg_covar)
    plain = make_model("normal-wishart", shape, X)
    draws = plain.sample(plain.prior, 3, np.random.default_rng(0))
    found = log_parts(cloudy, draws, cloudy.rows(X))
    # Four points with the cloud's mean and covariance: squares are all that counts.
    shift = np.sqrt(2 * reg_covar) * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    points = [log_parts(plain, draws, plain.rows(X + away)) for away in shift]
    np.testing.assert_allclose(found, np.mean(points, axis=0), rtol=1e-9)


@pytest.mark.parametrize("shape", ["full", "diag", "spherical"])
def test_updates_for_given_responsibilities_are_scikit_learns(shape):
    X, center = blobs(), blobs().mean(axis=0) + 0.3
    resp = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    theirs = BayesianGaussianMixture(
        n_components=3, covariance_type=shape, reg_covar=0.4, mean_precision_prior=0.7,
        degrees_of_freedom_prior=3.5, mean_prior=center,
    )  # fmt: skip
    theirs._check_parameters(X)
    theirs._initialize(X, resp)
    rate = np.asarray(theirs.covariance_prior_)
    prior = {"mean_precision": 0.7, "dof": 3.5, "rate": rate, "reg_covar": 0.4}
    model = GaussianMixtureModel("normal-wishart", shape, np.ones(3), center, **prior)
    natural = model.start(model.rows(X), resp)
    np.testing.assert_allclose(model.means(natural), theirs.means_)
    np.testing.assert_allclose(model.covariances(natural), theirs.covariances_)
