"""The search: known evidences, tables, failures and what it delegates."""

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone, is_classifier
from sklearn.callback import AutoPropagatedCallback
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import get_tags

from skboost import EvidenceSearch
from skboost.callbacks import ELBOMonitor
from skboost.mixture import SVIGaussianMixture
from skboost.strategies import GreedySearch

from ..kinds import Logistic
from .conftest import NormalMean, log_evidence

SCALES = [0.01, 0.1, 1.0, 10.0, 100.0]


def boosted(**params):
    return Logistic(**{"max_iter": 2, "search": GreedySearch(64)} | params)


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
    assert_allclose(search.cv_results_["elbo"], evidence, rtol=1e-12)
    assert search.best_index_ == evidence.argmax()
    assert search.best_params_ == {"scale": SCALES[evidence.argmax()]}
    assert search.best_elbo_ == pytest.approx(evidence.max(), rel=1e-12)


def test_the_divergence_of_what_is_chosen_is_within_the_oracle_bound():
    n, power, scales = 40, 0.5, [0.1, 1.0, 10.0]
    rng = np.random.default_rng(0)
    divergences = []
    for _ in range(10):
        X = rng.standard_normal((n, 1))
        search = EvidenceSearch(NormalMean(temperature=power), {"scale": scales}).fit(X)
        best = search.best_estimator_
        # Of order a between N(m, 1) and N(0, 1): a m^2 / 2.
        divergences.append(0.5 * power * (best.mean_**2 + best.variance_))
    # N(0, 1/n) is 1 / (2 n) from the truth, and as near to the prior as this.
    kl = 0.5 * (1.0 / n - 1.0 + np.log(n))
    rate = max(0.5 / n, kl / n)
    bound = search.oracle_bound(n, rate)
    assert np.mean(divergences) < bound
    # What K costs, by itself.
    assert search.oracle_bound(n, 0.0) == pytest.approx(2.0 * np.log(3) / n)
    assert bound - search.oracle_bound(n, 0.0) == pytest.approx(3.0 * rate)
    plain = EvidenceSearch(NormalMean(), {"temperature": [1.0]}).fit(X)
    assert plain.oracle_bound(n, rate) == np.inf


def test_the_best_estimator_is_the_best_fit(rows, labelled):
    model, grid = NormalMean(loss=3.0, random_state=1), {"scale": [0.1, 1.0]}
    search = EvidenceSearch(model, grid).fit(rows)
    assert search.best_estimator_.elbo_ == search.best_elbo_
    assert search.refit_time_ >= 0
    grid = {"prior_scale": [0.1, 2.0]}
    search = EvidenceSearch(boosted(random_state=1), grid).fit(*labelled)
    assert search.best_estimator_.elbo_ == search.best_elbo_
    assert search.best_estimator_.prior_scale == search.best_params_["prior_scale"]


@pytest.mark.slow
def test_the_number_of_jobs_does_not_show(labelled):
    grid = {"prior_scale": [0.3, 3.0]}
    tables = [
        EvidenceSearch(boosted(random_state=3), grid, n_jobs=n_jobs)
        .fit(*labelled)
        .cv_results_
        for n_jobs in (None, 2)
    ]
    same_table(*tables)


# --- the table


def test_the_table_is_a_data_frame(rows):
    grid = [{"scale": [0.1, 1.0], "noise": [1.0, 2.0]}, {"loss": [2.0]}]
    search = EvidenceSearch(NormalMean(loss=1.0, random_state=0), grid).fit(rows)
    frame = pd.DataFrame(search.cv_results_)
    assert len(frame) == 5
    assert frame["param_scale"].isna().tolist() == [False] * 4 + [True]
    assert frame["param_loss"].isna().tolist() == [True] * 4 + [False]
    assert sorted(frame["rank_elbo"]) == [1, 2, 3, 4, 5]
    assert frame["elbo"].idxmax() == search.best_index_
    assert frame["fit_time"].between(0.0, 600.0).all()
    assert frame["mean_test_score"].equals(frame["elbo"].rename("mean_test_score"))
    assert search.cv_results_["params"][4] == {"loss": 2.0}


class WithStarts(NormalMean):
    """Has the starts that it is given, and ends in the best of them."""

    def __init__(self, starts=(0.0,), error=None):
        super().__init__()
        self.starts, self.error = starts, error

    def fit(self, X, y=None):
        self.elbo_, self.elbo_by_init_ = max(self.starts), np.array(self.starts)
        if self.error is not None:
            self.elbo_se_ = self.error
        return self


def error_of(rows, starts, error=None):
    """Standard error that a search reports."""
    search = EvidenceSearch(WithStarts(), {"starts": [starts], "error": [error]})
    return search.fit(rows).cv_results_["elbo_se"][0]


bounds = st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=4)


@settings(max_examples=10, deadline=None)
@given(bounds, st.floats(-100.0, 100.0))
def test_luck_is_the_spread_of_the_largest_of_all_resamples(values, shift):
    rows = np.zeros((2, 1))
    largest = [max(draw) for draw in product(values, repeat=len(values))]
    expected = pytest.approx(np.std(largest), rel=1e-7, abs=1e-6)
    assert error_of(rows, values) == expected
    assert error_of(rows, np.array(values) + shift) == expected


def test_errors_join_luck_and_noise(rows):
    # Nothing is known of the luck of one start; Monte Carlo errors are.
    assert np.isnan(error_of(rows, [-3.0]))
    assert error_of(rows, [-3.0], 0.25) == 0.25
    starts = [-3.0, -2.0, -2.5, -2.2]
    joint = np.hypot(error_of(rows, starts), 0.1)
    assert error_of(rows, starts, 0.1) == pytest.approx(joint)
    # Starts that agree leave no doubt; one of ten that got far is in none of the
    # resamples with probability 0.9^10, and nine of ten with 0.1^10.
    assert error_of(rows, [-3.0] * 5) == 0.0
    p = 0.9**10
    spread = pytest.approx(100.0 * np.sqrt(p * (1 - p)))
    assert error_of(rows, [-103.0] * 9 + [-3.0]) == spread
    assert error_of(rows, [-3.0] * 9 + [-103.0]) == pytest.approx(1e-3)


def test_equal_bounds_share_a_rank(rows):
    starts = [[-2.0], [-1.0], [-2.0], [np.nan], [-np.inf]]
    search = EvidenceSearch(WithStarts(), {"starts": starts}).fit(rows)
    assert search.cv_results_["rank_elbo"].tolist() == [2, 1, 2, 5, 4]


# --- what fails


def test_an_estimator_without_elbo_is_named(labelled):
    for model in (LogisticRegression(), make_pipeline(LogisticRegression())):
        with pytest.raises(
            ValueError, match=r"elbo_.*LogisticRegression.*GridSearchCV"
        ):
            EvidenceSearch(model, {}).fit(*labelled)


def test_failed_fits_come_last(rows):
    model = NormalMean(fail_at=0.1)
    search = EvidenceSearch(model, {"scale": [0.1, 1.0, 10.0]})
    with pytest.warns(FitFailedWarning, match="FloatingPointError: scale 0.1 fails"):
        search.fit(rows)
    assert np.isnan(search.cv_results_["elbo"][0])
    assert np.isnan(search.cv_results_["elbo_se"][0])
    assert search.cv_results_["rank_elbo"][0] == 3
    with pytest.warns(FitFailedWarning):
        search.set_params(error_score=-1e6).fit(rows)
    assert search.cv_results_["elbo"][0] == -1e6
    with pytest.raises(FloatingPointError):
        search.set_params(error_score="raise").fit(rows)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bounds_that_are_no_number_never_win(rows, value):
    search = EvidenceSearch(WithStarts(), {"starts": [[value], [-1.0]]}).fit(rows)
    assert search.best_elbo_ == -1.0
    with pytest.raises(ValueError, match="elbo_.*no finite one"):
        search.set_params(param_grid={"starts": [[value]]}).fit(rows)


def test_bad_parameters_are_named(rows):
    search = EvidenceSearch(NormalMean(), {"scale": [1.0]}).fit(rows)
    before = search.best_elbo_, search.best_estimator_
    for grid, message in (
        ({"scales": [1.0]}, "Invalid parameter 'scales'"),
        ({"scale": []}, "empty"),
        ([], "param_grid must have at least one candidate"),
        ({"scale": [1.0], "fail_at": [1.0]}, "All the 1 fits failed(.|\n)*1.0 fails"),
    ):
        with pytest.raises(ValueError, match=message):
            search.set_params(param_grid=grid).fit(rows)
    # A failure leaves the old fit.
    assert (search.best_elbo_, search.best_estimator_) == before
    with pytest.raises(TypeError, match="random_state.*that of the estimator"):
        EvidenceSearch(NormalMean(), {}, random_state=2)


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
    assert search.fit(rows).best_params_ == {"scale": 0.1}
    assert search.best_elbo_ == search.best_estimator_.elbo_


# --- in company


def test_methods_are_those_of_the_best_estimator(rows, labelled):
    search = EvidenceSearch(NormalMean(), {"scale": [0.1, 1.0]})
    assert hasattr(search, "score_samples")
    assert not hasattr(search, "predict")
    with pytest.raises(NotFittedError):
        search.score(rows)
    best = search.fit(rows).best_estimator_
    assert_allclose(search.score_samples(rows), best.score_samples(rows))
    assert search.score(rows) == best.score(rows)
    assert search.n_features_in_ == 1
    assert not hasattr(search, "classes_")

    X, y = labelled
    frame = pd.DataFrame(X, columns=["age", "size"])
    search = EvidenceSearch(boosted(), {"prior_scale": [1.0]}).fit(frame, y)
    assert search.feature_names_in_.tolist() == ["age", "size"]
    assert is_classifier(search)
    assert search.classes_.tolist() == [0, 1]
    expected = search.best_estimator_.predict_proba(frame)
    assert np.array_equal(search.predict_proba(frame), expected)
    assert search.score(frame, y) > 0.6


def test_clone_and_pickle(rows):
    model = NormalMean(loss=1.0, random_state=0)
    search = EvidenceSearch(model, {"scale": [0.1, 1.0]})
    fitted = clone(search).fit(rows)
    assert not hasattr(search, "cv_results_")
    again = pickle.loads(pickle.dumps(fitted))
    same_table(again.cv_results_, fitted.cv_results_)
    assert_allclose(again.score_samples(rows), fitted.score_samples(rows))
    same_table(clone(fitted).fit(rows).cv_results_, fitted.cv_results_)


def test_sample_weight_reaches_every_fit(rows):
    weight = np.arange(len(rows)) % 3
    search = EvidenceSearch(NormalMean(), {"scale": [0.1, 1.0]})
    weighted = search.fit(rows, sample_weight=weight).cv_results_["elbo"]
    repeated = np.repeat(rows, weight, axis=0)
    expected = [log_evidence(repeated, scale) for scale in (0.1, 1.0)]
    assert_allclose(weighted, expected, rtol=1e-12)
    pipeline = make_pipeline(FunctionTransformer(), NormalMean())
    search = EvidenceSearch(pipeline, {"normalmean__scale": [0.1, 1.0]})
    search.fit(rows, normalmean__sample_weight=weight)
    assert_allclose(search.cv_results_["elbo"], expected, rtol=1e-12)


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
        search = EvidenceSearch(model, {"max_iter": [1]})
        search.fit(X, y, sample_weight=np.ones(40))
        halves = np.where(y == 1, 1.0, 0.0)
        recall = np.mean(search.predict(X)[y == 1] == 1)
        assert search.score(X, y, sample_weight=halves) == pytest.approx(recall)


@pytest.mark.slow
def test_a_search_can_be_searched(labelled):
    inner = EvidenceSearch(boosted(), {"prior_scale": [0.1, 1.0]})
    outer = GridSearchCV(inner, {"estimator__prior": ["normal", "laplace"]}, cv=2)
    outer.fit(*labelled)
    assert outer.best_estimator_.best_params_.keys() == {"prior_scale"}


def test_tags_are_those_of_the_estimator():
    tags = get_tags(EvidenceSearch(boosted(), {}))
    assert tags.estimator_type == "classifier"
    assert tags.input_tags.sparse
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


def test_callbacks_reach_every_fit_and_its_iterations(labelled):
    model, grid, log = boosted(max_iter=1), {"prior_scale": [0.5, 1.0]}, Log()
    EvidenceSearch(model, grid).set_callbacks(log).fit(*labelled)
    assert log.tasks.count(("iteration", None)) == 3
    assert log.tasks.count(("fit", "candidate-split-evaluation")) == 2
    assert log.tasks.count(("fit", "refit-with-best-params")) == 1


def test_callbacks_of_the_estimator_stay_its_own(labelled):
    model = boosted(max_iter=1).set_callbacks(ELBOMonitor())
    search = EvidenceSearch(make_pipeline(StandardScaler(), model), {})
    assert hasattr(search.fit(*labelled), "best_estimator_")


# --- the number of clusters, by evidence


CENTERS = 6.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def clusters(seed, n=90):
    """Rows of three round clusters far apart."""
    rng = np.random.default_rng(seed)
    return CENTERS[rng.integers(3, size=n)] + rng.standard_normal((n, 2))


def test_three_clusters_are_found():
    model = SVIGaussianMixture(n_init=3, covariance_prior=None, random_state=0)
    search = EvidenceSearch(model, {"n_components": [1, 2, 3, 4]}).fit(clusters(0))
    assert search.best_params_ == {"n_components": 3}
    assert search.best_estimator_.elbo_ == search.best_elbo_
    assert search.predict(CENTERS).tolist() == [*dict.fromkeys(search.predict(CENTERS))]


def test_a_pipeline_is_searched_and_missing_values_are_let_through():
    X = clusters(0)
    X[::9, 0] = np.nan
    model = SVIGaussianMixture(covariance_type="diag", n_init=2, random_state=0)
    grid = {"svigaussianmixture__n_components": [1, 3]}
    pipeline = make_pipeline(StandardScaler(), model)
    search = EvidenceSearch(pipeline, grid).fit(X)
    assert search.best_params_ == {"svigaussianmixture__n_components": 3}
    assert search.score_samples(clusters(1)).shape == (90,)


class TestPriors:
    """Bounds under different priors are those of different models."""

    X, y = load_breast_cancer(return_X_y=True)
    rows = StandardScaler().fit_transform(X[:40, :4]), y[:40]
    families = {"family": ["gaussian", "gaussian-diag"]}

    @staticmethod
    def searched(grid, **settings):
        settings = {"orbit": None, "random_state": 0, "max_iter": 1} | settings
        return EvidenceSearch(Logistic(**settings), grid)

    def test_families_are_compared_under_the_automatic_prior(self):
        search = self.searched(self.families).fit(*self.rows)
        assert search.best_params_ == {"family": "gaussian"}
        assert search.best_estimator_.prior_ == "principal"

    def test_an_automatic_prior_that_depends_on_the_candidate_is_refused(
        self, monkeypatch
    ):
        # With an intercept there are more numbers than a scale is learned from.
        monkeypatch.setattr("skboost.linear_model._class_model._MANY", 40 * 4)
        monkeypatch.setattr("skboost.linear_model._class_model.MAX_FULL_DIM", 4)
        search = self.searched({"fit_intercept": [True, False]})
        with pytest.raises(ValueError, match="keep the prior.*'principal'.*Set prior"):
            search.fit(*self.rows)
        assert not hasattr(search, "best_params_")

    def test_one_that_is_given_is_compared(self):
        given = {"prior": "normal", "prior_scale": 1.0}
        search = self.searched(self.families, **given).fit(*self.rows)
        assert search.best_params_ == {"family": "gaussian"}

    def test_the_prior_may_be_what_is_searched(self):
        search = self.searched({"prior": ["principal", "normal"]}).fit(*self.rows)
        assert set(search.best_params_) == {"prior"}
