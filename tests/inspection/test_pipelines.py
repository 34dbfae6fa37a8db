"""Methods of the last step of a pipeline, called with the rows of the pipeline."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skboost.inspection import ConvergenceDisplay, PosteriorDisplay, pipeline_method

from ..kinds import Logistic, OnlineLinear

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {"age": RNG.uniform(20.0, 80.0, 60), "city": RNG.choice(["Bern", "Oslo"], 60)}
)
Y = (TABLE["age"] + 20.0 * RNG.normal(size=60) > 50.0).to_numpy()


def pipeline(**encoder):
    steps = make_column_transformer(
        (OneHotEncoder(**encoder), ["city"]),
        (StandardScaler(), ["age"]),
        sparse_threshold=1.0,
    )
    return make_pipeline(steps, Logistic(max_iter=1, orbit=None))


def test_rows_go_through_the_steps_before():
    pipe = pipeline().fit(TABLE, Y)
    rows = pipe[:-1].transform(TABLE[:5])
    expected = pipe[-1].predict_proba_interval(rows, 0.8)
    found = pipeline_method(pipe, "predict_proba_interval", TABLE[:5], 0.8)
    assert_array_equal(found, expected)
    found = pipeline_method(pipe, "predict_proba_interval", X=TABLE[:5], level=0.8)
    assert_array_equal(found, expected)
    grid = {"columntransformer__sparse_threshold": [0]}
    search = GridSearchCV(pipeline(), grid, cv=2)
    found = pipeline_method(search.fit(TABLE, Y), "predict_latent", TABLE)
    assert np.shape(found) == (2, 60)


def test_coefficients_have_names_where_the_output_is_sparse():
    pipe = pipeline(drop="first").fit(TABLE, Y)
    names = list(pipeline_method(pipe, "odds_ratios").index)
    assert names == ["onehotencoder__city_Oslo", "standardscaler__age", "intercept"]
    assert list(pipe[-1].odds_ratios().index) == ["x0", "x1", "intercept"]
    scaled = make_pipeline(StandardScaler(), Logistic())
    scaled.fit(TABLE[["age"]].to_numpy(), Y)[-1].set_feature_names(["own"])
    assert list(pipeline_method(scaled, "odds_ratios").index) == ["own", "intercept"]


def test_one_step_and_steps_without_names():
    alone = make_pipeline(OnlineLinear()).fit(TABLE[["age"]], Y)
    mean, std = pipeline_method(alone, "predict_latent", TABLE[["age"]])
    assert mean.shape == std.shape == (60,)
    halved = make_pipeline(FunctionTransformer(lambda X: X.to_numpy() / 2), alone[-1])
    halved.fit(TABLE[["age"]], Y)
    assert pipeline_method(halved, "coef_interval").shape == (1, 2)


def test_what_is_no_pipeline_is_refused():
    model = OnlineLinear().fit(TABLE[["age"]], Y)
    with pytest.raises(TypeError, match="got OnlineBayesianLinearRegression"):
        pipeline_method(model, "predict_interval", TABLE[["age"]])
    with pytest.raises(NotFittedError):
        pipeline_method(pipeline(), "odds_ratios")
    with pytest.raises(AttributeError, match="has no method 'rate_ratios'"):
        pipeline_method(pipeline().fit(TABLE, Y), "rate_ratios")


def test_displays_take_pipelines_and_searches():
    pytest.importorskip("matplotlib").use("Agg")
    search = GridSearchCV(pipeline(drop="first"), {"memory": [None]}, cv=2)
    search.fit(TABLE, Y)
    best = search.best_estimator_
    names = ["onehotencoder__city_Oslo", "standardscaler__age", "intercept"]
    for model in (search, best):
        drawn = PosteriorDisplay.from_estimator(model).posterior
        assert list(drawn.names) == names
        history = ConvergenceDisplay.from_estimator(model).history
        assert history is best[-1].history_
    with pytest.raises(NotFittedError):
        PosteriorDisplay.from_estimator(pipeline())
