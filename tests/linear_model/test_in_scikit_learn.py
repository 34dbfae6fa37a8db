"""The boosted models in the company of scikit-learn's tools."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import (
    BoostedBayesianPoissonRegression,
)
from skboost.families import Gaussian
from skboost.strategies import AdaptiveBacktracking

from .conftest import logistic_data, same_mixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
OFFSET = RNG.uniform(-1.0, 1.0, 60)
Y = RNG.poisson(np.exp(X @ [0.5, -0.5, 0.0] + OFFSET)).astype(float)
TINY = {"max_iter": 3, "n_draws": 64, "random_state": 0}
# An estimator, its rows and responses, and the offset where there is one.


# --- composition


@pytest.mark.slow
def test_grid_search_reaches_into_strategies(model, data):
    estimator = model(
        step_size=AdaptiveBacktracking(),
        family=Gaussian("low_rank"),
        prior_scale=1.0,
        max_iter=2,
    )
    grid = {"step_size__decrease": [0.1, 0.9], "family__rank": [1, 2]}
    search = GridSearchCV(estimator, grid, cv=2, scoring="neg_log_loss").fit(*data)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.family.rank in (1, 2)


# --- data frames


def test_a_column_may_be_called_intercept(model, data):
    X, y = data
    columns = ["intercept (2)", "intercept", "b"]
    fitted = model(max_iter=1).fit(pd.DataFrame(X, columns=columns), y)
    assert fitted.posterior_.names == (*columns, "intercept (3)")


# --- weights, repeated entries


def test_class_weights_are_sample_weights(model):
    X, y = logistic_data(60, [1.0], intercept=-2.0)
    labels = np.array(["no", "yes"])[y]
    balanced = dict(enumerate(len(y) / (2 * np.bincount(y))))
    named = {"no": 2.0, "yes": 0.5}
    for asked, weight in (("balanced", balanced), (named, {0: 2.0, 1: 0.5})):
        by_class = model(class_weight=asked).fit(X, labels)
        by_row = model().fit(X, y, sample_weight=[weight[code] for code in y])
        assert same_mixture(by_class, by_row)


def test_weights_and_offsets_are_routed():
    weight = RNG.uniform(size=60)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BoostedBayesianPoissonRegression(max_iter=1, random_state=0)
        model.set_fit_request(offset=True, sample_weight=True)
        model.set_predict_request(offset=True)
        model.set_score_request(offset=True, sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model)
        pipeline.fit(X, Y, offset=OFFSET, sample_weight=weight)
        mean = pipeline.predict(X, offset=OFFSET)
        scores = cross_validate(
            model, X, Y, cv=2, params={"offset": OFFSET, "sample_weight": weight}
        )
    alone = clone(model).fit(StandardScaler().fit_transform(X), Y, weight, OFFSET)
    assert_allclose(mean, alone.predict(StandardScaler().fit_transform(X), OFFSET))
    assert np.isfinite(scores["test_score"]).all()
