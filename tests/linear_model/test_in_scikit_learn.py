"""The boosted models in the company of scikit-learn's tools."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
    OnlineBayesianLogisticRegression,
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
REGRESSORS = [BoostedBayesianLinearRegression, BoostedBayesianPoissonRegression]
LABELS = logistic_data(60, [1.5, -1.0, 0.0])
CLASSES = logistic_data(60, [1.5, -1.0], n_classes=3)
# An estimator, its rows and responses, and the offset where there is one.
MODELS = {
    "logistic": (BoostedBayesianLogisticRegression(**TINY), *LABELS, None),
    "linear": (BoostedBayesianLinearRegression(**TINY), X, Y, None),
    "poisson": (BoostedBayesianPoissonRegression(**TINY), X, Y, OFFSET),
    "classes": (BoostedBayesianLogisticRegression(**TINY), *CLASSES, None),
    "heavy": (BoostedBayesianLinearRegression(noise="student_t", **TINY), X, Y, None),
    "student_t": (
        BoostedBayesianLogisticRegression(family="student_t", **TINY), *LABELS, None,
    ),
    "laplace": (
        BoostedBayesianLogisticRegression(family="laplace", **TINY), *LABELS, None,
    ),
}  # fmt: skip
each_model = pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("linear", "poisson")
        else pytest.param(name, marks=pytest.mark.slow)
        for name in MODELS
    ],
)


def model_of(name):
    estimator, X, y, offset = MODELS[name]
    return clone(estimator), X, y, {} if offset is None else {"offset": offset}


@pytest.fixture(params=REGRESSORS, ids=["linear", "poisson"])
def kind(request):
    return partial(request.param, max_iter=1, n_draws=64, random_state=0)


# --- composition


@pytest.mark.slow
def test_grid_search_reaches_into_strategies(model, data):
    estimator = model(
        step_size=AdaptiveBacktracking(), family=Gaussian("low_rank"), max_iter=2
    )
    grid = {"step_size__decrease": [0.1, 0.9], "family__rank": [1, 2]}
    search = GridSearchCV(estimator, grid, cv=2, scoring="neg_log_loss").fit(*data)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.family.rank in (1, 2)


# --- data frames


@pytest.mark.parametrize("name", ["logistic", "linear", "poisson"])
def test_data_frames_give_their_names(name):
    estimator, X, y, _ = model_of(name)
    y = np.array(["healthy", "ill"])[y] if name == "logistic" else y
    frame = pd.DataFrame(X, columns=["age", "dose", "noise"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        # Callbacks that predict do not warn either.
        if name == "logistic":
            estimator.set_callbacks(ScoringMonitor(scoring="neg_log_loss"))
        fitted = estimator.fit(frame, pd.Series(y))
        p = fitted.predict(frame)
    assert fitted.feature_names_in_.tolist() == ["age", "dose", "noise"]
    more = ("log_noise_scale",) if name == "linear" else ()
    assert fitted.posterior_.names == ("age", "dose", "noise", "intercept", *more)
    assert fitted.posterior_.summary().shape[0] == 4 + len(more)
    with pytest.warns(UserWarning, match="feature names"):
        assert np.array_equal(fitted.predict(frame.to_numpy()), p)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[["dose", "age", "noise"]])


def test_a_column_may_be_called_intercept(model, data):
    X, y = data
    columns = ["intercept (2)", "intercept", "b"]
    fitted = model(max_iter=1).fit(pd.DataFrame(X, columns=columns), y)
    assert fitted.posterior_.names == (*columns, "intercept (3)")


# --- weights


@each_model
def test_weights_are_repetitions_in_any_order(name):
    estimator, X, y, more = model_of(name)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight))
    weighted = clone(estimator).fit(X, y, sample_weight=weight, **more)
    repeated = {key: value[rows] for key, value in more.items()}
    assert same_mixture(weighted, estimator.fit(X[rows], y[rows], **repeated))


def test_class_weights_are_sample_weights(model):
    X, y = logistic_data(60, [1.0], intercept=-2.0)
    labels = np.array(["no", "yes"])[y]
    balanced = dict(enumerate(len(y) / (2 * np.bincount(y))))
    named = {"no": 2.0, "yes": 0.5}
    for asked, weight in (("balanced", balanced), (named, {0: 2.0, 1: 0.5})):
        by_class = model(class_weight=asked).fit(X, labels)
        by_row = model().fit(X, y, sample_weight=[weight[code] for code in y])
        assert same_mixture(by_class, by_row)


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


# --- sparse rows


@each_model
def test_sparse_rows_are_dense_rows(name):
    estimator, X, y, more = model_of(name)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = clone(estimator).fit(X, y, **more)
    # Rounding differs, and a search over kinks amplifies it: it ends as well elsewhere.
    near = 0.1 if name == "laplace" else 1e-6
    for container in (sparse.csr_matrix, sparse.coo_array):
        found = clone(estimator).fit(container(X), y, **more)
        shift = np.abs(found.posterior_.mean() - dense.posterior_.mean())
        assert (shift < near * dense.posterior_.std()).all()
        assert abs(found.elbo_ - dense.elbo_) < 4 * dense.elbo_se_ + 1e-6
        if hasattr(dense, "predict_interval"):
            ends = found.predict_interval(container(X))
            assert_allclose(ends, dense.predict_interval(X), rtol=1e-4, atol=1e-3)


def test_repeated_entries_are_added(data):
    """Updates with variances square the entries of rows."""
    X, y = data
    n, d = X.shape
    columns = np.tile(np.arange(d), 2 * n)
    halves = 0.5 * np.hstack([X, X]).ravel()
    twice = sparse.csr_matrix((halves, columns, 2 * d * np.arange(n + 1)), X.shape)
    estimator = OnlineBayesianLogisticRegression(covariance="diag")
    found, dense = clone(estimator).fit(twice, y), estimator.fit(X, y)
    assert_allclose(found.coef_, dense.coef_, rtol=1e-6)
    assert twice.nnz == 2 * n * d


# --- seeds, and what is given


def test_states_of_the_same_seed_give_the_same_fit_and_inputs_are_left_alone(data):
    X, y, weight = *data, np.linspace(0.0, 1.0, len(data[1]))
    before = X.copy(), y.copy(), weight.copy()
    one, two = (
        BoostedBayesianLogisticRegression(**TINY | {"random_state": state})
        for state in map(np.random.RandomState, (3, 3))
    )
    assert same_mixture(one.fit(X, y, weight), two.fit(X, y, weight))
    one.partial_fit(X, y).predict_uncertainty(X)
    assert all(map(np.array_equal, before, (X, y, weight)))
