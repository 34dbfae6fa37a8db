"""The search: known evidences, seeds, tables, failures and what it delegates."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.callback import AutoPropagatedCallback
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import get_tags

from skboost import BoostedBayesianLogisticRegression, EvidenceSearch
from skboost.callbacks import ELBOMonitor
from skboost.mixture import SVIGaussianMixture

from .conftest import NormalMean, log_evidence

SCALES = [0.01, 0.1, 1.0, 10.0, 100.0]


def boosted(**settings):
    settings = {"max_iter": 2, "n_draws": 64} | settings
    return BoostedBayesianLogisticRegression(**settings)


@pytest.fixture(scope="module")
def labelled():
    """Forty rows of two features, one of which matters."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    return X, (X[:, 0] + 0.5 * rng.logistic(size=40) > 0).astype(int)


def same_table(a, b):
    """Equality of two tables but for times."""
    assert a.keys() == b.keys()
    for name in a:
        if "time" not in name and name != "params":
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# --- the choice


def test_exact_bounds_are_ranked_by_the_evidence(rows):
    search = EvidenceSearch(NormalMean(), {"scale": SCALES}).fit(rows)
    evidence = np.array([log_evidence(rows, scale) for scale in SCALES])
    assert_allclose(search.results_["elbo"], evidence, rtol=1e-12)
    assert search.best_index_ == evidence.argmax()
    assert search.best_params_ == {"scale": SCALES[evidence.argmax()]}
    assert search.best_elbo_ == pytest.approx(evidence.max(), rel=1e-12)
    # All starts agree, so there is no luck in it.
    assert_allclose(search.results_["elbo_se"], 0.0, atol=1e-12, rtol=0)


def test_the_best_start_counts(rows):
    # Looser bounds on the average, the same evidence: the supremum is what is ranked.
    model, grid = NormalMean(scale=1.0, loss=5.0), {"noise": [1.0]}
    search = EvidenceSearch(model, grid, n_repeats=8, random_state=0).fit(rows)
    repeats = [search.results_[f"repeat{r}_elbo"][0] for r in range(8)]
    assert search.best_elbo_ == max(repeats)
    assert search.results_["mean_elbo"][0] == pytest.approx(np.mean(repeats))
    assert search.results_["std_elbo"][0] == pytest.approx(np.std(repeats))
    assert search.best_elbo_ <= log_evidence(rows, 1.0) + 1e-9
    assert len(set(repeats)) == 8


def test_the_best_estimator_is_the_best_fit(rows, labelled):
    grid = {"scale": [0.1, 1.0]}
    search = EvidenceSearch(NormalMean(loss=3.0), grid, random_state=1).fit(rows)
    assert search.best_estimator_.elbo_ == search.best_elbo_
    assert search.refit_time_ >= 0
    grid = {"prior_scale": [0.1, 2.0]}
    search = EvidenceSearch(boosted(), grid, n_repeats=2, random_state=1).fit(*labelled)
    assert search.best_estimator_.elbo_ == search.best_elbo_
    assert search.best_estimator_.prior_scale == search.best_params_["prior_scale"]


# --- seeds and workers


def test_a_row_does_not_depend_on_the_rest_of_the_grid(rows):
    model = NormalMean(loss=3.0)
    many = EvidenceSearch(model, {"scale": SCALES}, random_state=5).fit(rows)
    one = EvidenceSearch(model, {"scale": [SCALES[3]]}, random_state=5).fit(rows)
    for r in range(5):
        name = f"repeat{r}_elbo"
        assert one.results_[name][0] == many.results_[name][3]


@pytest.mark.slow
def test_the_number_of_jobs_does_not_show(labelled):
    grid = {"prior_scale": [0.3, 3.0]}
    tables = [
        EvidenceSearch(boosted(), grid, n_repeats=2, random_state=3, n_jobs=n_jobs)
        .fit(*labelled)
        .results_
        for n_jobs in (None, 2)
    ]
    same_table(*tables)


def test_without_a_seed_of_its_own_the_estimators_counts(rows):
    grid = {"scale": [1.0]}
    model = NormalMean(loss=3.0, random_state=7)
    one, two = (EvidenceSearch(model, grid).fit(rows) for _ in range(2))
    same_table(one.results_, two.results_)
    pipeline = make_pipeline(StandardScaler(), model)
    name = "normalmean__scale"
    one, two = (EvidenceSearch(pipeline, {name: [1.0]}).fit(rows) for _ in range(2))
    same_table(one.results_, two.results_)
    free = NormalMean(loss=3.0)
    elbos = {EvidenceSearch(free, grid).fit(rows).best_elbo_ for _ in range(2)}
    assert len(elbos) == 2


def test_preprocessing_is_the_same_in_all_repeats(rows):
    # Else repeats would bound densities of different data.
    pipeline = make_pipeline(Jitter(), NormalMean())
    search = EvidenceSearch(pipeline, {"normalmean__scale": [1.0]}, random_state=0)
    assert search.fit(rows).results_["std_elbo"][0] == 0.0
    assert search.best_estimator_[-1].elbo_ == search.best_elbo_


class Jitter(BaseEstimator):
    """A transformer with a seed."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        self.shift_ = np.random.default_rng(self.random_state).standard_normal()
        return self

    def transform(self, X):
        return np.asarray(X) + self.shift_


# --- the table


def test_the_table_is_a_data_frame(rows):
    grid = [{"scale": [0.1, 1.0], "noise": [1.0, 2.0]}, {"n_init": [3]}]
    model = NormalMean(loss=1.0)
    search = EvidenceSearch(model, grid, n_repeats=2, random_state=0).fit(rows)
    frame = pd.DataFrame(search.results_)
    assert len(frame) == 5
    assert frame["param_scale"].isna().tolist() == [False] * 4 + [True]
    assert frame["param_n_init"].isna().tolist() == [True] * 4 + [False]
    assert sorted(frame["rank_elbo"]) == [1, 2, 3, 4, 5]
    assert frame["elbo"].idxmax() == search.best_index_
    assert frame["n_restarts"].tolist() == [2, 2, 2, 2, 6]
    assert frame["mean_fit_time"].between(0.0, 600.0).all()
    assert search.cv_results_ is search.results_
    assert search.results_["params"][4] == {"n_init": 3}


def test_any_value_can_be_a_parameter(rows):
    class Any(NormalMean):
        def fit(self, X, y=None):
            self.elbo_ = float(len(str(self.noise)))
            return self

    values = ["a", None, [1, 2], (1.0, 2.0), {"b": 1}, np.arange(3), 1.5, NormalMean()]
    search = EvidenceSearch(Any(), {"noise": values}, n_repeats=1).fit(rows)
    column = search.results_["param_noise"]
    assert column.shape == (len(values),)
    assert not np.ma.getmaskarray(column).any()
    assert column[2] == [1, 2]


def test_errors_of_one_start(rows):
    # Nothing is known of the luck of one start; Monte Carlo errors are.
    def error(**settings):
        search = EvidenceSearch(
            NormalMean(**settings), {"scale": [1.0]}, n_repeats=1, random_state=0
        )
        return search.fit(rows).results_["elbo_se"][0]

    assert np.isnan(error())
    assert error(error=0.25) == 0.25
    # Restarts of the estimator's own count.
    assert 0.0 < error(n_init=4, loss=1.0) < 1.0
    assert error(n_init=4, loss=1.0, error=0.25) > 0.25
    assert error(n_init=4) == pytest.approx(0.0, abs=1e-12)


def test_the_monte_carlo_error_is_that_of_the_best_repeat(rows):
    class Unequal(NormalMean):
        def fit(self, X, y=None):
            self.elbo_se_ = -1e6 * super().fit(X).elbo_
            return self

    search = EvidenceSearch(Unequal(loss=5.0), {"scale": [1.0]}, random_state=0)
    found = search.fit(rows).results_
    (best,) = found["best_repeat"]
    assert best > 0
    assert found["elbo_se"] == pytest.approx(found[f"repeat{best}_elbo_se"])


# --- what fails


def test_an_estimator_without_elbo_is_named(labelled):
    search = EvidenceSearch(LogisticRegression(), {"C": [0.1, 1.0]})
    with pytest.raises(TypeError, match=r"elbo_.*LogisticRegression.*GridSearchCV"):
        search.fit(*labelled)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    with pytest.raises(TypeError, match="got LogisticRegression"):
        EvidenceSearch(pipeline, {}).fit(*labelled)


def test_failed_fits_come_last(rows):
    model = NormalMean(fail_at=0.1)
    search = EvidenceSearch(model, {"scale": [0.1, 1.0, 10.0]}, n_repeats=2)
    with pytest.warns(FitFailedWarning, match="2 of 6 fits failed") as caught:
        search.fit(rows)
    assert "FloatingPointError: scale 0.1 fails" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert np.isnan(search.results_["elbo"][0])
    assert np.isnan(search.results_["elbo_se"][0])
    assert search.results_["n_restarts"].tolist() == [0, 2, 2]
    assert search.results_["rank_elbo"][0] == 3
    with pytest.warns(FitFailedWarning):
        search.set_params(error_score=-1e6).fit(rows)
    assert search.results_["elbo"][0] == search.results_["repeat1_elbo"][0] == -1e6
    with pytest.raises(FloatingPointError):
        search.set_params(error_score="raise").fit(rows)


def test_a_repeat_that_fails_leaves_the_others(rows):
    class Sometimes(NormalMean):
        def fit(self, X, y=None):
            super().fit(X)
            if self.random_state % 2:
                raise FloatingPointError
            return self

    search = EvidenceSearch(Sometimes(), {"scale": [1.0]}, n_repeats=8, random_state=0)
    with pytest.warns(FitFailedWarning):
        search.fit(rows)
    assert 0 < search.results_["n_restarts"][0] < 8
    assert search.best_elbo_ == pytest.approx(log_evidence(rows, 1.0))


class Strange(NormalMean):
    """Has `value` as its bound where the scale is one."""

    value = np.nan

    def fit(self, X, y=None):
        super().fit(X)
        self.elbo_ = self.value if self.scale == 1.0 else self.elbo_
        return self


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bounds_that_are_no_number_never_win(rows, value, monkeypatch):
    monkeypatch.setattr(Strange, "value", value)
    search = EvidenceSearch(Strange(), {"scale": [1.0, 100.0]}).fit(rows)
    assert search.best_params_ == {"scale": 100.0}
    with pytest.raises(ValueError, match="finite elbo_ for some candidate"):
        EvidenceSearch(Strange(), {"scale": [1.0]}).fit(rows)


def test_minus_infinity_is_a_legal_bound(rows, monkeypatch):
    monkeypatch.setattr(Strange, "value", -np.inf)
    grid = {"scale": [0.1, 1.0, 2.0]}
    search = EvidenceSearch(Strange(fail_at=2.0), grid)
    with pytest.warns(FitFailedWarning):
        search.fit(rows)
    assert search.results_["rank_elbo"].tolist() == [1, 2, 3]


def test_bad_parameters_are_named(rows):
    search = EvidenceSearch(NormalMean(), {"scale": [1.0]}).fit(rows)
    before = search.best_elbo_, search.best_estimator_
    for grid, message in (
        ({"scales": [1.0]}, "Invalid parameter 'scales'"),
        ({"scale": []}, "empty"),
        ([], "param_grid must have at least one candidate"),
        ({"scale": [1.0], "fail_at": [1.0]}, "All the 5 fits failed(.|\n)*1.0 fails"),
    ):
        with pytest.raises(ValueError, match=message):
            search.set_params(param_grid=grid).fit(rows)
    # A failure leaves the old fit.
    assert (search.best_elbo_, search.best_estimator_) == before


# --- refit


def test_without_refit_there_is_a_table_and_no_estimator(rows):
    search = EvidenceSearch(NormalMean(), {"scale": [0.1, 1.0]}).fit(rows)
    search.set_params(refit=False).fit(rows)
    assert search.best_params_ == {"scale": 1.0}
    assert not hasattr(search, "best_estimator_")
    assert not hasattr(search, "score_samples")
    with pytest.raises(AttributeError) as caught:
        search.score(rows)
    assert "refit=False" in str(caught.value.__cause__)


def test_refit_can_be_a_rule(rows):
    def smallest(results):
        return int(results["param_scale"].argmin())

    search = EvidenceSearch(NormalMean(), {"scale": [1.0, 0.1]}, refit=smallest)
    search.fit(rows)
    assert search.best_params_ == {"scale": 0.1}
    assert search.best_elbo_ == search.best_estimator_.elbo_
    for wrong in (2, -1, "first"):
        search.set_params(refit=lambda results, wrong=wrong: wrong)
        with pytest.raises(ValueError, match="from 0 to 1"):
            search.fit(rows)


# --- in company


def test_methods_are_those_of_the_best_estimator(rows, labelled):
    search = EvidenceSearch(NormalMean(), {"scale": [0.1, 1.0]})
    assert hasattr(search, "score_samples")
    assert not hasattr(search, "predict")
    with pytest.raises(NotFittedError):
        search.score_samples(rows)
    search.fit(rows)
    best = search.best_estimator_
    assert_allclose(search.score_samples(rows), best.score_samples(rows))
    assert search.score(rows) == best.score(rows)
    assert_allclose(search.inverse_transform(search.transform(rows)), rows)
    assert search.n_features_in_ == 1
    assert not hasattr(search, "classes_")

    X, y = labelled
    frame = pd.DataFrame(X, columns=["age", "size"])
    search = EvidenceSearch(boosted(), {"prior_scale": [1.0]}, n_repeats=1)
    search.fit(frame, y)
    assert search.feature_names_in_.tolist() == ["age", "size"]
    assert search.n_features_in_ == 2
    assert is_classifier(search)
    assert search.classes_.tolist() == [0, 1]
    for name in ("predict_proba", "predict", "decision_function", "predict_log_proba"):
        expected = getattr(search.best_estimator_, name)(frame)
        assert np.array_equal(getattr(search, name)(frame), expected)
    assert search.score(frame, y) > 0.6
    assert not hasattr(search, "transform")


def test_clone_and_pickle(rows):
    search = EvidenceSearch(NormalMean(loss=1.0), {"scale": [0.1, 1.0]}, random_state=0)
    fitted = clone(search).fit(rows)
    assert not hasattr(search, "results_")
    again = pickle.loads(pickle.dumps(fitted))
    same_table(again.results_, fitted.results_)
    assert_allclose(again.score_samples(rows), fitted.score_samples(rows))
    same_table(clone(fitted).fit(rows).results_, fitted.results_)


def test_sample_weight_reaches_every_fit(rows):
    weight = np.arange(len(rows)) % 3
    search = EvidenceSearch(NormalMean(), {"scale": [0.1, 1.0]})
    weighted = search.fit(rows, sample_weight=weight).results_["elbo"]
    repeated = np.repeat(rows, weight, axis=0)
    expected = [log_evidence(repeated, scale) for scale in (0.1, 1.0)]
    assert_allclose(weighted, expected, rtol=1e-12)
    pipeline = make_pipeline(FunctionTransformer(), NormalMean())
    search = EvidenceSearch(pipeline, {"normalmean__scale": [0.1, 1.0]})
    search.fit(rows, normalmean__sample_weight=weight)
    assert_allclose(search.results_["elbo"], expected, rtol=1e-12)


def test_metadata_is_routed(rows, labelled):
    import sklearn

    weight = np.arange(len(rows)) % 3
    expected = log_evidence(np.repeat(rows, weight, axis=0), 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = NormalMean().set_fit_request(sample_weight=True)
        search = EvidenceSearch(model, {"scale": [1.0]})
        search.fit(rows, sample_weight=weight)
        assert search.best_elbo_ == pytest.approx(expected)
        search = EvidenceSearch(NormalMean(), {"scale": [1.0]})
        with pytest.raises(ValueError, match="sample_weight"):
            search.fit(rows, sample_weight=weight)
        X, y = labelled
        model = boosted().set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = EvidenceSearch(model, {"max_iter": [1]}, n_repeats=1)
        search.fit(X, y, sample_weight=np.ones(40))
        halves = np.where(y == 1, 1.0, 0.0)
        recall = np.mean(search.predict(X)[y == 1] == 1)
        assert search.score(X, y, sample_weight=halves) == pytest.approx(recall)


@pytest.mark.slow
def test_a_search_can_be_searched(labelled):
    inner = EvidenceSearch(boosted(), {"prior_scale": [0.1, 1.0]}, n_repeats=1)
    outer = GridSearchCV(inner, {"estimator__prior": ["normal", "laplace"]}, cv=2)
    outer.fit(*labelled)
    assert outer.best_estimator_.best_params_.keys() == {"prior_scale"}


def test_tags_are_those_of_the_estimator():
    tags = get_tags(EvidenceSearch(boosted(), {}))
    assert tags.estimator_type == "classifier"
    assert tags.input_tags.sparse
    assert tags.target_tags.required
    tags = get_tags(EvidenceSearch(NormalMean(), {}))
    assert tags.estimator_type == "density_estimator"


# --- callbacks of a search and of the models that it fits


class Log(AutoPropagatedCallback):
    """Names of all tasks that ended."""

    max_propagation_depth = None

    def __init__(self):
        self.tasks = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.tasks.append((context.task_name, context.source_task_name))


def test_callbacks_see_every_fit(rows):
    search = EvidenceSearch(NormalMean(), {"scale": [0.1, 1.0]}, n_repeats=2)
    log = Log()
    with pytest.warns(UserWarning, match="does not support callbacks"):
        search.set_callbacks(log).fit(rows)
    names = [name for name, _ in log.tasks]
    assert names == ["candidate fit"] * 4 + ["refit", "fit"]


def test_callbacks_reach_the_iterations(labelled):
    model, grid, log = boosted(max_iter=1), {"prior_scale": [1.0]}, Log()
    search = EvidenceSearch(model, grid, n_repeats=1, error_score="raise")
    search.set_callbacks(log).fit(*labelled)
    assert log.tasks.count(("iteration", None)) == 2
    assert ("fit", "candidate fit") in log.tasks
    assert ("fit", "refit") in log.tasks


def test_callbacks_of_the_estimator_stay_its_own(labelled):
    model = boosted(max_iter=1).set_callbacks(ELBOMonitor())
    search = EvidenceSearch(make_pipeline(StandardScaler(), model), {}, n_repeats=1)
    assert hasattr(search.fit(*labelled), "best_estimator_")


# --- the number of clusters, by evidence


CENTERS = 6.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def clusters(seed, n=90):
    """Rows of three round clusters far apart."""
    rng = np.random.default_rng(seed)
    return CENTERS[rng.integers(3, size=n)] + rng.standard_normal((n, 2))


@pytest.mark.parametrize("seed", range(3))
def test_three_clusters_are_found(seed):
    model, grid = SVIGaussianMixture(n_init=3), {"n_components": [1, 2, 3, 4]}
    search = EvidenceSearch(model, grid, n_repeats=1, random_state=seed)
    search.fit(clusters(seed))
    assert search.best_params_ == {"n_components": 3}
    assert search.results_["n_restarts"].tolist() == [3] * 4
    assert search.best_estimator_.elbo_ == search.best_elbo_
    assert search.predict(CENTERS).tolist() == [*dict.fromkeys(search.predict(CENTERS))]


def test_a_pipeline_is_searched_and_missing_values_are_let_through():
    X = clusters(0)
    X[::9, 0] = np.nan
    model = SVIGaussianMixture(covariance_type="diag")
    grid = {"svigaussianmixture__n_components": [1, 3]}
    pipeline = make_pipeline(StandardScaler(), model)
    search = EvidenceSearch(pipeline, grid, n_repeats=2, random_state=0).fit(X)
    assert search.best_params_ == {"svigaussianmixture__n_components": 3}
    assert search.score_samples(clusters(1)).shape == (90,)
