"""Predictions are integrals over the posterior, and agree with one another."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.integrate import quad
from scipy.special import expit, logit, softmax, xlogy
from scipy.stats import norm

from skboost.approximation import Mixture
from skboost.families import Component, Gaussian, Laplace, LowRankGaussian
from skboost.linear_model._class_predictive import class_predictive, contrasts_part
from skboost.linear_model._merged import groups_of
from skboost.linear_model._predictive import mixture_parts, plain_rows
from skboost.strategies import GreedySearch
from skboost.targets import class_contrasts, sigmoid_expectation

from ..kinds import Logistic

N_DRAWS = 50_000


@pytest.fixture(
    scope="module",
    params=[
        "gaussian",
        "laplace",
        pytest.param("student_t", marks=pytest.mark.slow),
        "three classes",
    ],
)
def fitted(request, data, three_classes):
    # Predictions are those of the mixture without orbits.
    settings = {"prior_scale": 1.0, "orbit": None, "tol": 0.0, "random_state": 0}
    settings |= {"max_iter": 3, "search": GreedySearch(64)}
    if request.param == "three classes":
        return Logistic(**settings).fit(*three_classes)
    return Logistic(family=request.param, **settings).fit(*data)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture(scope="module")
def rows(fitted):
    rng = np.random.default_rng(1)
    return 2.0 * rng.standard_normal((6, fitted.n_features_in_))


@pytest.fixture(scope="module")
def sample(fitted):
    """Many draws of coefficients and intercepts."""
    return fitted.sample_posterior(N_DRAWS, random_state=5)


@pytest.fixture(scope="module")
def eta(sample, rows):
    """Linear predictors of the rows under many draws, (n_draws, n[, classes])."""
    coef, intercept = sample
    return np.moveaxis(coef @ rows.T, -1, 1) + intercept[:, None]


@pytest.fixture(scope="module")
def p(eta):
    """Class probabilities of the rows under many draws, (n_draws, n, classes)."""
    return softmax(eta if eta.ndim == 3 else np.stack([0.0 * eta, eta], -1), axis=2)


def test_probabilities_are_averages_over_the_posterior(fitted, rows, p):
    error = p.std(axis=0) / np.sqrt(N_DRAWS)
    if len(fitted.classes_) > 2:
        # The predictions themselves average over 1024 fixed draws.
        error = np.hypot(error, p.std(axis=0) / np.sqrt(1024))
    found = fitted.predict_proba(rows)
    assert (np.abs(found - p.mean(axis=0)) < 4 * error + 1e-12).all()
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


def entropy(p):
    return -xlogy(p, p) - xlogy(1 - p, 1 - p)


def test_answers_of_a_gaussian_mixture_are_exact(data):
    settings = {"prior_scale": 1.0, "tol": 0.0, "max_iter": 2, "random_state": 0}
    fitted = Logistic(orbit=None, **settings).fit(*data)
    assert fitted.posterior_.n_components > 1
    mixture = fitted.posterior_.mixture
    for scale in (1e-3, 1.0, 30.0):
        row = scale * np.array([[1.0, -2.0, 0.5]])
        X = np.append(row, [[1.0]], axis=1)
        moments = [part.moments(X) for part in mixture_parts(mixture)[1]]
        for found, of in (
            (fitted.predict_proba(row)[0, 1], expit),
            (fitted.predict_uncertainty(row)[1][0], lambda t: entropy(expit(t))),
        ):
            parts = [
                quad(lambda z, m=m, s=s, of=of: of(m + s * z) * norm.pdf(z), -40, 40,
                     points=[-m / s], epsabs=1e-12, limit=500)[0]
                for (m,), (s,) in moments
            ]  # fmt: skip
            expected = mixture.weights @ np.array(parts)
            assert_allclose(found, expected, atol=1e-9, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "diag", "low_rank"])
def test_probabilities_of_several_classes_are_nearly_exact(covariance, rng):
    (family,) = Gaussian(covariance, rank=2).variants()
    components = []
    for shift in (-0.5, 0.5):
        params = 0.4 * rng.standard_normal(family.n_params(12))
        params[:12] += shift
        components.append((family, params))
    mixture = Mixture(tuple(components), np.array([0.3, 0.7]))
    X = rng.standard_normal((5, 2))
    predictive = class_predictive(mixture, True, np.arange(4))
    found = predictive.model.proba(X)
    coef = mixture.sample(N_DRAWS, rng).reshape(N_DRAWS, 4, 3)
    drawn = np.einsum("nd,skd->nsk", np.column_stack([X, np.ones(5)]), coef)
    drawn = softmax(drawn, axis=2)
    error = 5.0 * drawn.std(axis=1) / np.sqrt(N_DRAWS)
    assert np.all(np.abs(found - drawn.mean(axis=1)) < error + 1e-4)
    assert_allclose(
        predictive.model.proba(plain_rows(sparse.csr_matrix(X), True)), found
    )


@pytest.mark.parametrize("rank", [2, 7])
def test_contrasts_of_a_low_rank_component_have_its_covariance(rank, rng):
    family = LowRankGaussian(rank=rank)
    params = rng.standard_normal(family.n_params(9))
    part = contrasts_part(Component(family, params), 3)
    X, contrasts = rng.standard_normal((5, 3)), class_contrasts(3)
    spread = (X @ part.factor).reshape(5, 2, -1)
    found = spread @ spread.transpose(0, 2, 1)
    found += (X**2 @ part.variances).reshape(5, 2, 2)
    mean, covariance = family.moments(params)
    by_class = X @ mean.reshape(3, 3).T
    assert_allclose(X @ part.mean, by_class @ contrasts, atol=1e-12)
    maps = np.einsum("nd,kc->nckd", X, contrasts).reshape(5, 2, 9)
    assert_allclose(found, maps @ covariance @ maps.transpose(0, 2, 1), atol=1e-12)


def test_families_without_a_quadrature_are_averaged_over_draws(rng):
    class Own(Laplace):
        distribution = "own"

    family, params = Own(), rng.standard_normal(8)
    X = rng.standard_normal((5, 3))
    predictive = class_predictive(Mixture.single((family, params)), True, [0, 1])
    eps = family._quantile(rng.uniform(size=(100_000, 4)))
    theta = family.transport(params, eps)
    p = expit(np.column_stack([X, np.ones(5)]) @ theta.T)
    found = predictive.model.proba(X)
    assert_allclose(found.sum(axis=1), 1.0)
    error = 4 * p.std(axis=1) / np.sqrt(1024)
    assert (np.abs(found[:, 1] - p.mean(axis=1)) < error).all()
    logs = predictive.log_proba(X)
    assert_allclose(logs, np.log(found), rtol=1e-6, atol=1e-9)


def test_answers_agree_with_the_probabilities(fitted, rows):
    p, decision = fitted.predict_proba(rows), fitted.decision_function(rows)
    if len(fitted.classes_) == 2:
        assert_allclose(decision, logit(p[:, 1]), rtol=1e-6, atol=1e-8)
    else:
        assert_allclose(decision, np.log(p))
    assert_allclose(np.exp(fitted.predict_log_proba(rows)), p, rtol=1e-6, atol=1e-9)
    assert np.array_equal(fitted.predict(rows), fitted.classes_[p.argmax(axis=1)])
    rows = 1e4 * np.eye(fitted.n_features_in_)
    rows = np.concatenate([rows, -rows])
    p = fitted.predict_proba(rows)
    assert np.isfinite(fitted.decision_function(rows)).all()
    assert ((p >= 0) & (p <= 1)).all()


def test_latent_moments(fitted, rows, eta):
    mean, std = fitted.predict_latent(rows)
    n = N_DRAWS if eta.ndim == 2 else 1024
    error = eta.std(axis=0) / np.sqrt(n)
    assert (np.abs(mean - eta.mean(axis=0)) < 5 * error).all()
    # The error of a standard deviation, with room for excess kurtosis.
    assert_allclose(std, eta.std(axis=0), rtol=8 / np.sqrt(n))


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_their_level(fitted, rows, p, level):
    interval = fitted.predict_proba_interval(rows, level)
    if len(fitted.classes_) == 2:
        p = p[:, :, 1]
    below = (p < interval[..., 0]).mean(axis=0)
    above = (p > interval[..., 1]).mean(axis=0)
    # Quantiles of the fixed draws have the errors of 1024; the others have none.
    error = 4 * np.sqrt(0.25 * (1 - level) / 1024)
    assert_allclose(below, 0.5 * (1 - level), atol=error)
    assert_allclose(above, 0.5 * (1 - level), atol=error)


def test_uncertainty_splits(fitted, rows, p):
    total, aleatoric, epistemic = fitted.predict_uncertainty(rows)
    mean = fitted.predict_proba(rows)
    assert_allclose(total, -xlogy(mean, mean).sum(axis=1))
    entropy = -xlogy(p, p).sum(axis=2)
    error = entropy.std(axis=0) / np.sqrt(1024)
    assert (np.abs(aleatoric - entropy.mean(axis=0)) < 4 * error + 1e-9).all()
    assert_allclose(epistemic, np.maximum(total - aleatoric, 0.0))
    assert (total <= np.log(len(fitted.classes_)) + 1e-12).all()


def test_blocks_of_rows_do_not_show(fitted):
    rows = np.random.default_rng(0).standard_normal((3000, fitted.n_features_in_))
    whole = fitted.predict_proba(rows)
    assert_allclose(whole[::500], fitted.predict_proba(rows[::500]), rtol=1e-10)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_logarithms_go_on_where_probabilities_are_zero(data, family):
    X, y = data
    settings = {"family": family, "max_iter": 1, "search": GreedySearch(64)}
    fitted = Logistic(prior_scale=1.0, random_state=0, **settings)
    # A narrow posterior: else what is not known of a coefficient's sign bounds them.
    fitted.fit(X, y, sample_weight=np.full(len(y), 1e6))
    rows = np.outer([900.0, 1800.0, -900.0], fitted.coef_[0] / np.sum(fitted.coef_**2))
    logs = fitted.predict_log_proba(rows)
    assert np.isfinite(logs).all()
    scores = fitted.decision_function(rows)
    assert_allclose(scores, logs[:, 1] - logs[:, 0])
    if family == "gaussian":
        assert fitted.predict_proba(rows)[0, 0] == 0.0
        mean, std = fitted.predict_latent(rows)
        assert_allclose(logs[:2, 0], -mean[:2] + 0.5 * std[:2] ** 2, rtol=1e-6)
    assert scores[1] > scores[0] > 20.0 and scores[2] < -20.0


# --- components that predict as one


def generated(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, rng.random(n) < expit(X @ [1.0, -0.5, 0.2] + 0.3)


@pytest.mark.parametrize(
    ("container", "fit_intercept"), [(np.asarray, True), (sparse.csr_matrix, False)]
)
def test_few_groups_predict_as_all_components_do(container, fit_intercept):
    X, y = generated(600)
    X = container(X)
    model = Logistic(random_state=0, fit_intercept=fit_intercept, orbit=None).fit(X, y)
    copied = pickle.loads(pickle.dumps(model))
    groups = model._model_.merged[1]
    assert len(groups) > 4 and groups.max() < 3
    merged = model.predict_proba(X)
    assert_allclose(copied.predict_proba(X), merged)
    assert_allclose(np.exp(model.predict_log_proba(X)), merged, atol=1e-9)
    interval = model.predict_proba_interval(X)
    latent = model.predict_latent(X)
    model._model_ = replace(model._model_, seen=None)
    apart = model.predict_proba(X)
    assert 0.0 < np.abs(merged - apart).max() < 1e-4
    assert_allclose(model.predict_proba_interval(X), interval)
    assert_allclose(model.predict_latent(X), latent, atol=1e-9)


def test_groups_are_as_many_as_predictions_ask_for():
    rng = np.random.default_rng(1)
    weights = np.full(6, 1.0 / 6.0)
    means = np.repeat(rng.normal(size=(32, 3)), 2, axis=1)
    sds = np.repeat(rng.uniform(0.5, 2.0, (32, 3)), 2, axis=1)
    labels = groups_of(weights, means, sds)
    assert labels.max() == 2
    assert np.array_equal(labels[::2], labels[1::2])
    near = means[:, :1] + np.tile([0.2, -0.2], 3)
    alike = np.broadcast_to(sds[:, :1], (32, 6))
    labels = groups_of(weights, near, alike)
    assert labels.max() == 0
    width = np.sqrt(alike[:, 0] ** 2 + near.var(axis=1))
    one = sigmoid_expectation(near.mean(axis=1), width)
    assert_allclose(one, sigmoid_expectation(near, alike) @ weights, atol=1e-4)
    apart = 3.0 * rng.normal(size=(32, 6))
    assert groups_of(weights, apart, sds) is None
