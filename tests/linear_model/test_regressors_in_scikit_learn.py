"""The regressors in the company of scikit-learn's tools."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from skboost import BoostedBayesianLinearRegression, BoostedBayesianPoissonRegression

from .conftest import same_mixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
OFFSET = RNG.uniform(-1.0, 1.0, 60)
Y = RNG.poisson(np.exp(X @ [0.5, -0.5, 0.0] + OFFSET)).astype(float)
KINDS = [BoostedBayesianLinearRegression, BoostedBayesianPoissonRegression]


@pytest.fixture(params=KINDS, ids=["linear", "poisson"])
def kind(request):
    def make(**settings):
        settings = {"max_iter": 1, "n_draws": 64, "random_state": 0} | settings
        return request.param(**settings)

    return make


@pytest.mark.slow
def test_grid_search_for_every_number_of_jobs(kind):
    pipeline = make_pipeline(SplineTransformer(n_knots=4), kind())
    name = pipeline.steps[1][0]
    grid = {f"{name}__prior": ["normal", "laplace"], f"{name}__prior_scale": [0.1, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    one = GridSearchCV(pipeline, grid, cv=2).fit(X, Y)
    assert np.array_equal(
        one.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    )


@pytest.mark.slow
def test_noise_can_be_searched():
    model = BoostedBayesianLinearRegression(max_iter=1, random_state=0)
    grid = {"noise": ["normal", "student_t"], "noise_df": [2.0, 8.0]}

    def density(model, X, y):
        return model.log_predictive_density(X, y).mean()

    search = GridSearchCV(model, grid, scoring=density, cv=2).fit(X, Y)
    assert len(search.cv_results_["params"]) == 4


@pytest.mark.slow
def test_other_meta_estimators(kind):
    assert cross_val_predict(kind(), X, Y, cv=3).shape == (60,)
    scores = cross_validate(kind(), X, Y, cv=3, scoring=["r2"])
    assert np.isfinite(scores["test_r2"]).all()
    stack = StackingRegressor([("bayes", kind()), ("line", LinearRegression())], cv=2)
    assert stack.fit(X, Y).predict(X).shape == (60,)
    scaled = TransformedTargetRegressor(kind(), func=np.sqrt, inverse_func=np.square)
    assert scaled.fit(X, Y).score(X, Y) > 0.0


def test_data_frames_give_their_names(kind):
    frame = pd.DataFrame(X, columns=["age", "dose", "noise"])
    fitted = kind().fit(frame, pd.Series(Y))
    more = ("log_noise_scale",) if isinstance(fitted, KINDS[0]) else ()
    assert fitted.posterior_.names == ("age", "dose", "noise", "intercept", *more)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean = fitted.predict(frame)
    with pytest.warns(UserWarning, match="feature names"):
        assert_allclose(fitted.predict(X), mean, rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict_interval(frame[["dose", "age", "noise"]])


def test_frames_of_several_responses():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    both = pd.DataFrame({"one": Y, "two": -Y})
    model = BoostedBayesianLinearRegression(max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fitted = model.fit(frame, both)
        assert fitted.predict(frame).shape == (60, 2)


def test_the_number_of_jobs_does_not_show(kind):
    assert same_mixture(kind(n_jobs=1).fit(X, Y), kind(n_jobs=2).fit(X, Y))


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


def test_callbacks_get_what_the_user_passed():
    seen = []

    class Listener:
        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, *, metadata=None):
            seen.append(metadata)

        def on_fit_task_end(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

    model = BoostedBayesianPoissonRegression(max_iter=1, random_state=0)
    model.set_callbacks(Listener()).fit(X, Y, offset=OFFSET)
    assert any(m is not None and m["offset"] is OFFSET for m in seen)
