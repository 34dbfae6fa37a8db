"""Components that predict as one."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import expit

from skboost import BoostedBayesianLogisticRegression
from skboost.linear_model._merged import groups_of
from skboost.targets import sigmoid_expectation


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
    model = BoostedBayesianLogisticRegression(
        random_state=0, fit_intercept=fit_intercept, orbit=None
    ).fit(X, y)
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
