"""Linear regression: posteriors against closed forms, hard data, more data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gammaln
from sklearn.exceptions import DataConversionWarning
from sklearn.multioutput import MultiOutputRegressor

from skboost.priors import NoiseScalePrior
from skboost.strategies import GreedySearch

from ..kinds import Linear


def line(n=40, d=3, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ np.linspace(1.0, -1.0, d) + 0.7 + noise * rng.normal(size=n)


def regression(**settings):
    settings = {"max_iter": 3, "search": GreedySearch(64), "random_state": 0} | settings
    return Linear(**settings)


X, Y = line()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_known_scale_and_a_normal_prior_give_the_closed_form(
    fit_intercept, temperature
):
    weight = np.random.default_rng(1).uniform(0.1, 2.0, len(Y))
    fitted = regression(
        noise_scale=0.5, prior_scale=[1.0, 2.0, 3.0], intercept_scale=4.0,
        fit_intercept=fit_intercept, temperature=temperature,
    ).fit(X, Y, weight)  # fmt: skip
    A = np.column_stack([X, np.ones(len(Y))]) if fit_intercept else X
    prior = np.diag(1.0 / np.array([1.0, 2.0, 3.0, 4.0])[: A.shape[1]] ** 2)
    if fit_intercept:
        about = np.eye(4)
        about[3, :3] = np.average(X, axis=0, weights=weight)
        prior = about.T @ prior @ about
    scaled = temperature * weight[:, None] * A / 0.25
    covariance = np.linalg.inv(A.T @ scaled + prior)
    assert fitted.posterior_.n_components == 1
    assert_allclose(fitted.posterior_.covariance(), covariance, atol=1e-10, rtol=0)
    assert_allclose(
        fitted.posterior_.mean(), covariance @ scaled.T @ Y, atol=1e-10, rtol=0
    )


def log_evidence(X, y, scale, weight, size):
    """Of a normal prior beside an inverse chi-squared one, by quadrature."""
    A = np.column_stack([X, np.ones(len(y))])
    values, axes = np.linalg.eigh(scale**2 * A @ A.T)
    squares = (axes.T @ y) ** 2
    level = np.linspace(-8.0, 5.0, 10_001)
    total = np.maximum(values, 0.0)[:, None] + np.exp(2.0 * level)
    log = -0.5 * (np.log(2 * np.pi * total) + squares[:, None] / total).sum(axis=0)
    half = 0.5 * weight
    log += np.log(2.0) + half * np.log(half * size**2) - gammaln(half)
    log -= weight * level + half * size**2 * np.exp(-2.0 * level)
    return log.max() + np.log(np.trapezoid(np.exp(log - log.max()), level))


def test_evidence_and_marginals_are_those_of_the_normal_inverse_gamma_posterior():
    fitted = regression(
        prior_scale=1e3, intercept_scale=1e3, noise_prior=NoiseScalePrior(2.0, 0.3),
        max_iter=10, search=GreedySearch(1024), tol=1e-3,
    ).fit(X, Y)  # fmt: skip
    missed = log_evidence(X, Y, 1e3, 2.0, 0.3) - fitted.elbo_
    assert -4.0 * fitted.elbo_se_ < missed < 0.02 + 4.0 * fitted.elbo_se_
    A = np.column_stack([X, np.ones(len(Y))])
    coef, residual = np.linalg.lstsq(A, Y)[:2]
    df = len(Y) - 4 + 2.0
    size = (residual[0] + 2.0 * 0.3**2) / df
    std = np.sqrt(size * np.diag(np.linalg.inv(A.T @ A)))
    # Between two distributions of KL k probabilities differ by at most sqrt(k / 2).
    tolerance = np.sqrt(0.5 * max(fitted.remaining_kl_ + 0.005, 0.005))
    for j in range(4):
        exact = stats.t(df, coef[j], std[j])
        points = exact.ppf([0.05, 0.5, 0.95])
        found = fitted.posterior_.marginal(j).cdf(points)
        assert_allclose(found, [0.05, 0.5, 0.95], atol=tolerance)
    points = stats.invgamma(df / 2, scale=df * size / 2).ppf([0.05, 0.5, 0.95])
    found = fitted.posterior_.marginal("log_noise_scale").cdf(0.5 * np.log(points))
    assert_allclose(found, [0.05, 0.5, 0.95], atol=tolerance)


def test_several_responses_are_left_to_scikit_learn():
    both = np.column_stack([Y, 2.0 - 3.0 * Y])
    alone = regression(max_iter=1).fit(X, both[:, 1])
    for call in (alone.partial_fit, alone.make_log_joint):
        for y in (both, [[1.0, 2.0]] * 40):
            with pytest.raises(ValueError, match=r"multioutput\.MultiOutputRegressor"):
                call(X, y)
    fitted = MultiOutputRegressor(regression(max_iter=1)).fit(X, both)
    assert np.array_equal(fitted.predict(X)[:, 1], alone.predict(X))
    with pytest.warns(DataConversionWarning, match="column-vector"):
        column = regression(max_iter=1).fit(X, both[:, 1:])
    assert np.array_equal(column.coef_, alone.coef_)


@pytest.mark.parametrize(
    "params", [{"noise_scale": 1.0}, {"noise_scale": 1.0, "fit_intercept": True}]
)
def test_other_parameters_can_not_go_on(params):
    model = regression(fit_intercept=False).fit(X, Y)
    coef = model.coef_
    with pytest.raises(ValueError, match="goes on with the same parameters; got"):
        model.set_params(**params).partial_fit(X, Y)
    assert model.coef_ is coef


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_pieces_with_a_known_scale_are_the_whole(temperature):
    prior = {"noise_scale": 0.5, "prior_scale": 3.0, "intercept_scale": 3.0}
    settings = {"temperature": temperature, **prior}
    # Every piece has the same centre, where the intercept has its prior.
    rows, y = (np.stack([part, -part], axis=1).reshape(80, -1) for part in (X, Y))
    whole, pieces = regression(**settings).fit(rows, y[:, 0]), regression(**settings)
    for some in np.array_split(np.arange(80), 8):
        pieces.partial_fit(rows[some], y[some, 0])
    assert whole.posterior_.hellinger(pieces.posterior_).distance < 1e-3
    assert_allclose(pieces.coef_, whole.coef_, atol=1e-4)
