"""Packages beside this one that are given estimators and posteriors of it."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import is_classifier

from skboost import BoostedGaussianMixture
from skboost.strategies import GreedySearch

from .kinds import Linear, Logistic, OnlineLinear, OnlineLogistic

RNG = np.random.default_rng(0)
# The second feature says nothing.
X = RNG.normal(size=(150, 3))
ETA = X @ [2.0, 0.0, -1.0]
LABELS = (ETA + RNG.logistic(size=150) > 0).astype(int)
REAL = 5.0 + ETA + 0.5 * RNG.normal(size=150)
TINY = {"search": GreedySearch(64), "max_iter": 2, "random_state": 0}


def classifiers():
    yield Logistic(**TINY)
    yield OnlineLogistic(n_passes=2)


def regressors():
    yield Linear(**TINY)
    yield OnlineLinear()


def name(model):
    return type(model).__name__


each_classifier = pytest.mark.parametrize("model", list(classifiers()), ids=name)
each_regressor = pytest.mark.parametrize("model", list(regressors()), ids=name)


# --- SHAP


@pytest.mark.slow
@pytest.mark.parametrize("model", [*classifiers(), *regressors()], ids=name)
def test_shap_explains_predictions(model):
    shap = pytest.importorskip("shap")
    if is_classifier(model):
        model.fit(X, LABELS)
        predict = lambda rows: model.predict_proba(rows)[:, 1]  # noqa: E731
    else:
        predict = model.fit(X, REAL).predict
    found = shap.Explainer(predict, X[:20], algorithm="exact")(X[:5])
    total = found.values.sum(axis=1) + found.base_values
    assert_allclose(total, predict(X[:5]), atol=1e-9)
    assert np.abs(found.values[:, 1]).max() < np.abs(found.values[:, 0]).max() / 5
    if not is_classifier(model):
        expected = (X[:5] - X[:20].mean(axis=0)) * model.coef_
        assert_allclose(found.values, expected, atol=1e-8)


# --- MAPIE


@pytest.mark.slow
@each_regressor
def test_mapie_makes_intervals(model):
    regression = pytest.importorskip("mapie.regression")
    conformal = regression.SplitConformalRegressor(model.fit(X[:75], REAL[:75]))
    conformal.conformalize(X[75:125], REAL[75:125])
    mean, ends = conformal.predict_interval(X[125:])
    assert_allclose(mean, model.predict(X[125:]))
    low, high = ends[:, :, 0].T
    # Nine in ten are inside; 25 rows leave a standard error of 0.06.
    assert np.mean((low < REAL[125:]) & (REAL[125:] < high)) > 0.7
    # The model is true, so that its own intervals are as wide.
    assert 1.0 < np.mean(high - low) < 2.5


@pytest.mark.slow
@each_classifier
def test_mapie_makes_sets_of_classes(model):
    classification = pytest.importorskip("mapie.classification")
    conformal = classification.SplitConformalClassifier(model.fit(X[:75], LABELS[:75]))
    conformal.conformalize(X[75:125], LABELS[75:125])
    labels, sets = conformal.predict_set(X[125:])
    assert np.array_equal(labels, model.predict(X[125:]))
    inside = sets[np.arange(25), LABELS[125:], 0]
    assert inside.mean() > 0.7


# --- ArviZ: InferenceData up to 0.x, xarray.DataTree from 1.0


@pytest.mark.slow
def test_arviz_summarises_a_posterior():
    arviz = pytest.importorskip("arviz")
    model = Logistic(**TINY).fit(X, LABELS)
    data = model.posterior_.to_arviz(n=2000, random_state=0)
    generation = int(arviz.__version__.split(".")[0])
    assert type(data).__name__ == ("DataTree" if generation else "InferenceData")
    posterior = data["posterior"]
    names = list(model.posterior_.names)
    assert list(posterior.data_vars) == names
    assert dict(posterior.sizes) == {"chain": 4, "draw": 500}
    means = [float(posterior[name].mean()) for name in names]
    assert_allclose(means, model.posterior_.mean(), atol=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = arviz.summary(data, round_to="none")
    assert list(table.index) == names
    assert_allclose(table["mean"].astype(float), model.posterior_.mean(), atol=0.02)
    # It takes matrices, too.
    model = BoostedGaussianMixture(2, max_iter=2, random_state=0).fit(X)
    posterior = model.posterior_.to_arviz(n=40, random_state=0)["posterior"]
    shapes = {name: values.shape for name, values in posterior.data_vars.items()}
    draws = model.posterior_.sample(40, random_state=0)
    assert shapes == {name: (4, 10, *d.shape[1:]) for name, d in draws.items()}
