"""The classifier in the company of scikit-learn's tools."""

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.callback import ScoringMonitor
from sklearn.compose import make_column_transformer
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_val_predict,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skboost
from skboost import BoostedBayesianLogisticRegression
from skboost.families import Gaussian
from skboost.strategies import AdaptiveBacktracking, ResidualGain

from .conftest import logistic_data, same_mixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# --- composition


def test_in_a_pipeline(model, data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), model()).fit(100.0 + 7.0 * X, y)
    alone = model().fit(StandardScaler().fit_transform(100.0 + 7.0 * X), y)
    assert np.array_equal(
        pipeline.predict_proba(100.0 + 7.0 * X),
        alone.predict_proba(StandardScaler().fit_transform(100.0 + 7.0 * X)),
    )


@pytest.mark.slow
def test_grid_search_over_step_sizes_and_correctives(model, data):
    grid = {
        "step_size": ["line-search", "adaptive", 0.3],
        "corrective": ["none", "away", "pairwise", "fully-corrective"],
    }
    estimator = model(max_iter=2)
    search = GridSearchCV(estimator, grid, scoring="neg_log_loss", cv=2, n_jobs=2)
    search.fit(*data)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.cv_results_["params"]) == 12
    assert search.predict_proba(data[0]).shape == (60, 2)


@pytest.mark.slow
def test_grid_search_reaches_into_strategies(model, data):
    estimator = model(
        step_size=AdaptiveBacktracking(), family=Gaussian("low_rank"), max_iter=2
    )
    grid = {"step_size__decrease": [0.1, 0.9], "family__rank": [1, 2]}
    search = GridSearchCV(estimator, grid, cv=2, scoring="neg_log_loss").fit(*data)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.family.rank in (1, 2)


@pytest.mark.slow
def test_halving_search_with_iterations_as_the_resource(model, data):
    search = HalvingGridSearchCV(
        model(tol=0.0),
        {"prior_scale": [0.1, 1.0, 10.0]},
        resource="max_iter",
        min_resources=1,
        max_resources=3,
        factor=3,
        cv=2,
        scoring="neg_log_loss",
        random_state=0,
    ).fit(*data)
    assert search.n_resources_ == [1, 3]
    assert search.best_estimator_.max_iter == 3


def test_calibration(model, data):
    X, y = data
    calibrated = CalibratedClassifierCV(model(max_iter=1), method="temperature", cv=2)
    p = calibrated.fit(X, y).predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0)
    assert calibrated.score(X, y) > 0.7


def test_cross_validation(model, data):
    X, y = data
    p = cross_val_predict(model(max_iter=1), X, y, cv=3, method="predict_proba")
    assert p.shape == (60, 2)
    scores = cross_validate(
        model(max_iter=1), X, y, cv=3, scoring=["neg_log_loss", "roc_auc", "accuracy"]
    )
    assert scores["test_roc_auc"].mean() > 0.7


def test_nearly_as_good_as_plain_logistic_regression(model):
    X, y = logistic_data(400, [1.0, -1.0, 0.5])
    ours, theirs = (
        cross_validate(e, X, y, cv=5, scoring="neg_log_loss")["test_score"]
        for e in (model(), LogisticRegression())
    )
    error = (ours - theirs).std(ddof=1) / np.sqrt(5)
    assert (ours - theirs).mean() > -4 * error


# --- copies


def test_clone_copies_every_parameter():
    parameters = {
        "family": Gaussian("diag"),
        "objective": ResidualGain(0.7),
        "step_size": AdaptiveBacktracking(decrease=0.1),
        "prior_scale": [1.0, 2.0],
        "class_weight": {0: 1.0, 1: 2.0},
        "max_iter": 4,
    }
    copy = clone(BoostedBayesianLogisticRegression(**parameters))
    found = copy.get_params()
    assert found["step_size__decrease"] == 0.1
    assert found["family__covariance"] == "diag"
    assert found["objective__entropy_weight"] == 0.7
    for name in ("prior_scale", "class_weight"):
        assert found[name] == parameters[name]
    assert repr(copy).startswith("BoostedBayesianLogisticRegression(")


@pytest.mark.slow
def test_a_pickle_predicts_the_same_in_another_process(model, data, tmp_path):
    X, y = data
    fitted = model(family=Gaussian("full")).fit(X, y)
    (tmp_path / "fit.pkl").write_bytes(pickle.dumps(fitted))
    np.save(tmp_path / "rows.npy", X)
    code = (
        "import pickle, numpy as np\n"
        "fitted = pickle.load(open('fit.pkl', 'rb'))\n"
        "np.save('p.npy', fitted.predict_proba(np.load('rows.npy')))\n"
    )
    subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(skboost.__file__).parents[1])},
        check=True,
    )
    assert np.array_equal(np.load(tmp_path / "p.npy"), fitted.predict_proba(X))


# --- data frames


@pytest.fixture(scope="module")
def frame(data):
    X, y = data
    labels = np.array(["healthy", "ill"])[y]
    return pd.DataFrame(X, columns=["age", "dose", "noise"]), pd.Series(labels)


def test_data_frames_give_their_names(model, frame):
    X, y = frame
    fitted = model().fit(X, y)
    assert fitted.feature_names_in_.tolist() == ["age", "dose", "noise"]
    assert fitted.posterior_.names == ("age", "dose", "noise", "intercept")
    assert fitted.posterior_.summary().shape[0] == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = fitted.predict_proba(X)
    with pytest.warns(UserWarning, match="feature names"):
        assert np.array_equal(fitted.predict_proba(X.to_numpy()), p)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X[["dose", "age", "noise"]])


def test_callbacks_of_data_frames_do_not_warn(model, frame):
    estimator = model().set_callbacks(ScoringMonitor(scoring="neg_log_loss"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        estimator.fit(*frame)


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["intercept", "a", "b"], ("intercept", "a", "b", "intercept (2)")),
        (["intercept (2)", "intercept", "b"],
         ("intercept (2)", "intercept", "b", "intercept (3)")),
    ],
)  # fmt: skip
def test_a_column_may_be_called_intercept(model, data, columns, names):
    X, y = data
    fitted = model(max_iter=1).fit(pd.DataFrame(X, columns=columns), y)
    assert fitted.posterior_.names == names


def test_pipelines_that_put_out_frames(model, frame):
    X, y = frame
    scale = make_column_transformer((StandardScaler(), ["age", "dose"]))
    pipeline = make_pipeline(scale, model(max_iter=1)).set_output(transform="pandas")
    pipeline.fit(X, y)
    names = pipeline[-1].posterior_.names
    assert names == ("standardscaler__age", "standardscaler__dose", "intercept")
    assert set(pipeline.predict(X)) <= {"healthy", "ill"}


def test_names_of_three_classes(model, three_classes):
    X, y = three_classes
    labels = np.array(["a", "b", "c"])[y]
    fitted = model(max_iter=1).fit(pd.DataFrame(X, columns=["u", "v"]), labels)
    assert fitted.posterior_.names[:4] == ("a: u", "a: v", "a: intercept", "b: u")


# --- labels


@pytest.mark.slow
@pytest.mark.parametrize(
    "classes",
    [[-1, 1], [False, True], [2.0, 7.0], ["z", "ä"]],
    ids=str,
)
def test_labels_of_any_type(model, data, classes):
    X, y = data
    classes = np.array(classes)
    order = np.argsort(classes)
    fitted = model().fit(X, classes[order][y])
    assert np.array_equal(fitted.classes_, classes[order])
    assert fitted.classes_.dtype == classes.dtype
    assert np.array_equal(fitted.predict_proba(X), model().fit(X, y).predict_proba(X))
    assert set(fitted.predict(X)) <= set(classes)


@pytest.mark.slow
def test_labels_as_objects_and_categories(model, data):
    X, y = data
    labels = np.array(["no", "yes"])[y]
    expected = model().fit(X, labels).predict_proba(X)
    for version in (
        labels.astype(object),
        list(labels),
        pd.Series(labels, dtype="category"),
        pd.Series(labels),
    ):
        assert np.array_equal(model().fit(X, version).predict_proba(X), expected)


# --- weights


def test_weights_are_repetitions(model, data):
    X, y = data
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    shuffled = np.random.default_rng(1).permutation(rows)
    weighted = model().fit(X, y, sample_weight=weight)
    assert same_mixture(weighted, model().fit(X[rows], y[rows]))
    assert same_mixture(weighted, model().fit(X[shuffled], y[shuffled]))


@pytest.mark.slow
def test_the_order_of_rows_does_not_show(model, three_classes):
    X, y = three_classes
    order = np.random.default_rng(1).permutation(len(y))
    assert same_mixture(model().fit(X, y), model().fit(X[order], y[order]))


def test_class_weights_are_sample_weights(model, data):
    X, y = data
    labels = np.array(["no", "yes"])[y]
    by_class = model(class_weight={"no": 2.0, "yes": 0.5}).fit(X, labels)
    by_row = model().fit(X, y, sample_weight=np.where(y == 0, 2.0, 0.5))
    assert same_mixture(by_class, by_row)


def test_balanced_classes(model):
    X, y = logistic_data(60, [1.0], intercept=-2.0)
    balanced = model(class_weight="balanced").fit(X, y)
    weight = len(y) / (2 * np.bincount(y))
    assert same_mixture(balanced, model().fit(X, y, sample_weight=weight[y]))


def test_metadata_routing(model, data):
    X, y = data
    weight = np.where(y == 0, 3.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = model().set_fit_request(sample_weight=True)
        inner.set_score_request(sample_weight=False)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, inner).fit(X, y, sample_weight=weight)
        search = GridSearchCV(clone(inner), {"max_iter": [1]}, cv=2)
        search.fit(X, y, sample_weight=weight)
    alone = model().fit(StandardScaler().fit_transform(X), y, sample_weight=weight)
    assert same_mixture(pipeline[-1], alone)
    direct = model(max_iter=1).fit(X, y, sample_weight=weight)
    assert same_mixture(search.best_estimator_, direct)


# --- sparse rows


# Rounding differs, and a search over kinks amplifies it: it ends elsewhere, as good.
@pytest.mark.parametrize(
    "family, near", [("gaussian", 1e-6), ("student_t", 1e-6), ("laplace", 0.1)]
)
@pytest.mark.slow
def test_sparse_rows_are_dense_rows(model, data, family, near):
    X, y = data
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = model(family=family).fit(X, y)
    for container in (sparse.csr_matrix, sparse.csr_array, sparse.coo_array):
        found = model(family=family).fit(container(X), y)
        shift = np.abs(found.posterior_.mean() - dense.posterior_.mean())
        assert (shift < near * dense.posterior_.std()).all()
        assert abs(found.elbo_ - dense.elbo_) < 4 * dense.elbo_se_ + 1e-6


def test_explicit_zeros_are_zeros(model, data):
    X, y = data
    stored = sparse.csr_matrix(X)
    stored.data[::4] = 0.0
    clean = stored.copy()
    clean.eliminate_zeros()
    assert stored.nnz > clean.nnz
    assert same_mixture(model().fit(stored, y), model().fit(clean, y))
    assert stored.nnz == X.size


def test_repeated_entries_are_added(model, data):
    X, y = data
    rows, columns = np.indices(X.shape)
    halves = sparse.coo_matrix(
        (
            np.tile(0.5 * X.ravel(), 2),
            (np.tile(rows.ravel(), 2), np.tile(columns.ravel(), 2)),
        )
    )
    found = model().fit(halves, y)
    assert_allclose(found.elbo_, model().fit(X, y).elbo_, rtol=1e-8)


@pytest.mark.slow
def test_sparse_three_classes(model, three_classes):
    X, y = three_classes
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    sparse_fit, dense_fit = model().fit(sparse.csr_matrix(X), y), model().fit(X, y)
    assert_allclose(
        sparse_fit.predict_proba(sparse.csr_matrix(X)), dense_fit.predict_proba(X),
        atol=1e-5,
    )  # fmt: skip


# --- seeds


def test_the_same_seed_gives_the_same_fit(model, data):
    assert same_mixture(model().fit(*data), model().fit(*data))
    state = np.random.RandomState(3)
    one = model(random_state=state).fit(*data)
    assert same_mixture(one, model(random_state=np.random.RandomState(3)).fit(*data))


def test_inputs_are_left_alone(model, data):
    X, y = data[0].copy(), data[1].copy()
    weight = np.linspace(0.0, 1.0, len(y))
    before = X.copy(), y.copy(), weight.copy()
    fitted = model().fit(X, y, sample_weight=weight)
    fitted.partial_fit(X, y)
    fitted.predict_uncertainty(X)
    assert all(map(np.array_equal, before, (X, y, weight)))


# --- what it says of itself


def test_tags():
    tags = BoostedBayesianLogisticRegression().__sklearn_tags__()
    assert not tags._skip_test
    assert not tags.non_deterministic
    assert not tags.classifier_tags.poor_score
    assert tags.input_tags.sparse
    assert tags.classifier_tags.multi_class
