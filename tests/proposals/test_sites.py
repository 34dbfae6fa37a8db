"""Gaussians of logistic regressions: against quadrature, in two forms, in bad hands."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_expit
from scipy.stats import norm

from skboost import BoostedBayesianLogisticRegression
from skboost.proposals._predictors import linear_predictors
from skboost.proposals._scale_nodes import scale_nodes
from skboost.proposals._signed_rows import SignedRows
from skboost.proposals._sites import Sites, propagated, variational
from skboost.targets import HalfTPrior


def rows_of(n, d, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    X = size * rng.standard_normal((n, d))
    sign = np.where(X @ rng.standard_normal(d) + rng.logistic(size=n) > 0, 1.0, -1.0)
    return SignedRows(X * sign[:, None], np.ones(n))


def fit(method, rows, variances, **settings):
    variances = np.atleast_2d(variances)
    predictors = linear_predictors(rows.X, variances)
    start = Sites.initial(len(variances), len(rows.X))
    return predictors, method(predictors, rows.weights, start, **settings)


def grid_posterior(rows, variance, n=241):
    """Log evidence, mean and covariance of one or two coefficients."""
    d = rows.X.shape[1]
    axis = np.linspace(-9, 9, n) * np.sqrt(variance)
    theta = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    log_joint = rows.weights @ log_expit(rows.X @ theta.T)
    log_joint += norm(scale=np.sqrt(variance)).logpdf(theta).sum(axis=1)
    mass = np.exp(log_joint - log_joint.max())
    evidence = np.log(mass.sum()) + log_joint.max() + d * np.log(axis[1] - axis[0])
    mass /= mass.sum()
    mean = mass @ theta
    return evidence, mean, (theta - mean).T @ ((theta - mean) * mass[:, None])


# --- expectation propagation


@pytest.mark.parametrize(("n", "d"), [(1, 2), (6, 1), (40, 2)])
def test_propagation_is_near_quadrature(n, d):
    rows = rows_of(n, d, seed=n)
    predictors, sites = fit(propagated, rows, np.ones(d))
    evidence, mean, covariance = grid_posterior(rows, 1.0)
    assert sites.converged.all()
    assert sites.log_evidence[0] == pytest.approx(evidence, abs=0.02)
    found = rows.given_sites(predictors, sites)
    std = np.sqrt(np.diag(covariance))
    assert found.means[0] == pytest.approx(mean, abs=0.02 * std.min())
    # Skewed posteriors are wider, in standard deviations by up to three per cent.
    assert found.covariances[0] == pytest.approx(covariance, abs=0.06 * std.max() ** 2)


def test_one_row_is_exact():
    rows = SignedRows(np.array([[2.0]]), np.ones(1))
    predictors, sites = fit(propagated, rows, [4.0], tol=1e-8)

    def moment(k):
        def value(t):
            return t**k * np.exp(log_expit(2 * t)) * norm.pdf(t, scale=2)

        return quad(value, -30, 30, epsabs=1e-13)[0]

    assert sites.log_evidence[0] == pytest.approx(np.log(moment(0)), abs=1e-8)
    mean = moment(1) / moment(0)
    assert rows.given_sites(predictors, sites).means[0, 0] == pytest.approx(mean, 1e-6)


def test_the_variational_fit_maximises_its_bound():
    rows = rows_of(30, 1)
    predictors, sites = fit(variational, rows, [2.0])
    found = rows.given_sites(predictors, sites)
    mean, std = found.means[0, 0], np.sqrt(found.covariances[0, 0, 0])

    def bound(mean, std):
        def value(z):
            eta = rows.X[:, 0] * (mean + std * z)
            return log_expit(eta).sum() * norm.pdf(z)

        divergence = 0.5 * ((mean**2 + std**2) / 2.0 - 1.0) - np.log(std / np.sqrt(2.0))
        return quad(value, -12, 12)[0] - divergence

    best = bound(mean, std)
    assert found.log_evidence[0] == pytest.approx(best, abs=1e-6)
    evidence, _, _ = grid_posterior(rows, 2.0)
    assert best < evidence
    for step in (0.1, -0.1):
        assert bound(mean + step * std, std) < best
        assert bound(mean, std * (1 + step)) < best


@pytest.mark.parametrize("method", [propagated, variational])
def test_weights_are_repetition(method):
    rows, counts = rows_of(12, 3), np.arange(12) % 3 + 1
    variances = np.array([[0.3, 0.3, 0.3], [9.0, 9.0, 9.0]])
    weighted = SignedRows(rows.X, counts.astype(float))
    often = SignedRows(np.repeat(rows.X, counts, axis=0), np.ones(counts.sum()))
    one, two = (
        some.given_sites(*fit(method, some, variances)) for some in (weighted, often)
    )
    for a, b in zip(one, two, strict=True):
        assert a == pytest.approx(b, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("method", [propagated, variational])
def test_more_columns_than_rows_have_the_same_answer_in_dual_form(method):
    rows = rows_of(12, 20)
    variances = np.linspace(0.5, 2.0, 20)[None]
    dual = rows.given_sites(*fit(method, rows, variances))
    # Rows of no weight make the matrix a tall one.
    tall = SignedRows(np.vstack([rows.X, np.zeros((9, 20))]), np.ones(21))
    primal = tall.given_sites(*fit(method, tall, variances))
    no_rows = 9 * np.log(0.5)
    assert primal.log_evidence[0] - no_rows == pytest.approx(
        dual.log_evidence[0], abs=1e-7
    )
    assert primal.means == pytest.approx(dual.means, abs=1e-6)
    assert primal.covariances == pytest.approx(dual.covariances, abs=1e-6)


# --- over scales


def test_scales_have_the_posterior_of_nested_quadrature():
    rows, factor = rows_of(15, 1, seed=3), HalfTPrior(df=1, scale=0.5)

    def log_prior(log_s):
        return factor.value_and_score(log_s)[0]

    nodes = scale_nodes(
        rows, lambda log_s: np.exp(2 * log_s)[:, None], log_prior, np.log(0.5)
    )
    # Coefficients without the scale, so that all have one width.
    log_s = np.linspace(nodes.log_s[0], nodes.log_s[-1], 40)
    evidence = np.array([grid_posterior(rows, np.exp(2 * s), 2001)[0] for s in log_s])
    height = evidence + log_prior(log_s)
    mass = np.exp(height - height.max())
    mass /= mass.sum()
    assert nodes.weights.sum() == pytest.approx(1.0)
    mean = nodes.weights @ nodes.log_s
    exact = mass @ log_s
    spread = np.sqrt(mass @ (log_s - exact) ** 2)
    assert mean == pytest.approx(exact, abs=0.05 * spread)
    # What is left out lies six nats below the highest.
    assert height[[0, -1]] == pytest.approx(height.max() - 6.0, abs=1.0)


@pytest.mark.parametrize(
    "rows",
    [
        SignedRows(np.abs(rows_of(40, 5).X), np.ones(40)),
        SignedRows(rows_of(40, 5).X * np.array([1, 1, 1e8, 1, 1e-8]), np.ones(40)),
        SignedRows(np.column_stack([rows_of(40, 3).X, np.zeros(40)]), np.ones(40)),
        SignedRows(rows_of(40, 3).X, np.full(40, 1e-3)),
    ],
    ids=["separable", "units", "a column of zeros", "small weights"],
)
def test_bad_rows_leave_proper_gaussians(rows):
    def variances_at(log_s):
        return np.exp(2 * log_s)[:, None] * np.ones(rows.X.shape[1])

    def log_prior(log_s):
        return HalfTPrior(scale=1.5).value_and_score(log_s)[0]

    nodes = scale_nodes(rows, variances_at, log_prior, np.log(1.5))
    assert np.isfinite(nodes.weights).all() and np.isfinite(nodes.gaussians.means).all()
    assert (np.diff(nodes.log_s) <= 0.6 + 1e-9).all()
    for covariance in nodes.gaussians.covariances:
        np.linalg.cholesky(covariance)


def test_priors_too_wide_for_propagation_get_the_variational_fit():
    rows = rows_of(30, 2)
    wide = np.full((1, 2), 1e10)
    _, sites = rows.fitted(wide)
    _, bound = fit(variational, rows, wide)
    assert sites.log_evidence == pytest.approx(bound.log_evidence, abs=1e-3)


def test_huge_weights_do_not_turn_rounding_into_evidence():
    X, y, weights = np.array([[2.0, 1.0], [3.0, 4.0]]), [2, 1], [2.7e11, 4.1e10]
    model = BoostedBayesianLogisticRegression(max_iter=1, random_state=0)
    proba = model.fit(X, y, sample_weight=weights).predict_proba(X)
    np.testing.assert_allclose(proba, [[0, 1], [1, 0]], atol=1e-6)
    assert model.elbo_ < 0
