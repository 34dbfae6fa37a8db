"""The estimator: closed forms, scikit-learn's company, streams, and bad input."""

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skboost
from skboost.mixture import BoostedGaussianMixture, SVIGaussianMixture

from .conftest import each_odd

TYPES = ["full", "tied", "diag", "spherical"]
# A scale that is learned takes ten times as long.
PLAIN = {"covariance_prior": None}
each_type = pytest.mark.parametrize("covariance_type", TYPES)


def blobs(n=120, dim=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dim))
    X[: n // 2] = 0.5 * X[: n // 2] + 5.0
    return X


@pytest.fixture(scope="module")
def fitted():
    return SVIGaussianMixture(2, random_state=0).fit(blobs())


def never_falls(path):
    return np.all(np.diff(path) >= -1e-9 * np.abs(path[1:]))


def in_order(*models):
    """The clusters' order by their first coordinates, for each model."""
    return [np.argsort(model.means_[:, 0]) for model in models]


# --- coordinate ascent


def test_known_covariances_stay():
    X = blobs(400)
    known = np.array([[[1.0, 0], [0, 1.0]], [[0.25, 0], [0, 0.25]]])
    model = SVIGaussianMixture(2, known_covariances=known, random_state=0, n_init=4)
    model.fit(X)
    assert_allclose(model.covariances_, known)
    assert_allclose(model.means_, [[0, 0], [5, 5]], atol=0.3)
    again = pickle.loads(pickle.dumps(model)).partial_fit(X)
    assert_allclose(again.covariances_, known)


def test_a_finite_dirichlet_process_leaves_clusters_empty():
    process = {"weight_concentration_prior_type": "finite_dirichlet_process"}
    model = SVIGaussianMixture(20, max_iter=500, **process, **PLAIN).fit(blobs(150))
    assert (model.weights_ > 0.01).sum() < 10
    assert model.weights_.sum() == pytest.approx(1.0)


# --- weights of rows and missing values


@pytest.mark.parametrize(
    ("covariance_type", "batch_size"), [("full", None), ("tied", 15), ("diag", 15)]
)
def test_a_weight_is_repetition_and_order_does_not_show(covariance_type, batch_size):
    X, times = blobs(40), np.arange(40) % 3
    settings = {"batch_size": batch_size, "max_iter": 5, "random_state": 0}
    settings |= PLAIN if batch_size else {}
    model = SVIGaussianMixture(3, covariance_type=covariance_type, **settings)
    weighted = clone(model).fit(X, sample_weight=times)
    repeated = np.random.default_rng(0).permutation(np.repeat(X, times, 0))
    repeated = clone(model).fit(repeated)
    assert_allclose(weighted.means_, repeated.means_, rtol=1e-12)
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, rel=1e-12)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_missing_values_are_survived(covariance_type):
    X = blobs(120, 3)
    shape = {"covariance_type": covariance_type, "random_state": 0}
    complete = SVIGaussianMixture(2, **shape).fit(X)
    gaps = X.copy()
    gaps[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    # A row without any value says nothing.
    gaps[7] = np.nan
    model = clone(complete).fit(gaps)
    one, other = in_order(model, complete)
    assert_allclose(model.means_[one], complete.means_[other], atol=0.35)
    assert_allclose(model.predict_proba(gaps).sum(axis=1), 1.0)
    assert np.isfinite(model.score_samples(gaps)).all()
    assert model.score_samples(gaps)[7] == pytest.approx(0.0)
    assert never_falls(model.elbo_path_)


# --- prediction


@pytest.mark.parametrize(
    ("covariance_type", "mean_prior_type"),
    [*((kind, "normal-wishart") for kind in TYPES), ("full", "independent")],
)
def test_sampled_rows_have_the_predictive_moments(covariance_type, mean_prior_type):
    X = blobs(300)
    shape = {"covariance_type": covariance_type, "mean_prior_type": mean_prior_type}
    model = SVIGaussianMixture(2, random_state=0, **shape).fit(X)
    drawn, labels = model.sample(5000)
    assert drawn.shape == (5000, 2)
    assert np.array_equal(labels, np.sort(labels))
    se = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - model.weights_ @ model.means_) < 5 * se)
    # Entropy by Monte Carlo on both sides of one density.
    ours = model.score_samples(drawn)
    assert abs(ours.mean() - model.score(X)) < 0.3


def test_what_follows_from_predictions_and_seeds(fitted):
    X = blobs()
    assert fitted.score(X) == pytest.approx(fitted.score_samples(X).mean())
    assert np.array_equal(clone(fitted).fit_predict(X), fitted.predict(X))
    # Rows have the estimator's seed where they are given none.
    usual, _ = fitted.sample(5)
    assert np.array_equal(usual, fitted.sample(5, random_state=0)[0])
    assert not np.array_equal(usual, fitted.sample(5, random_state=1)[0])
    means = fitted.sample_posterior(4000, random_state=1)["means"]
    se = means.std(axis=0) / np.sqrt(4000)
    assert np.all(np.abs(means.mean(axis=0) - fitted.means_) < 5 * se)


# --- streams


def widths(model):
    """Standard deviations of the clusters' means."""
    return model.sample_posterior(2000, 0)["means"].std(axis=0)


def test_a_stream_accumulates_rows():
    X = np.random.default_rng(0).permutation(blobs(2000))
    model = SVIGaussianMixture(2, random_state=0)
    for batch in np.array_split(X, 20):
        model.partial_fit(batch)
    whole = SVIGaussianMixture(2, random_state=0).fit(X)
    one, other = in_order(model, whole)
    assert_allclose(model.means_[one], whole.means_[other], atol=0.1)
    # As sure as if it had seen the rows at once.
    assert_allclose(widths(model)[one], widths(whole)[other], rtol=0.25)


def test_with_slow_rates_a_stream_is_an_exact_sum():
    X = blobs(300)
    model = SVIGaussianMixture(learning_rate=1e-9, random_state=0)
    model.set_params(mean_prior=X.mean(axis=0), covariance_prior=np.cov(X.T))
    for batch in np.array_split(X, 7):
        model.partial_fit(batch)
    whole = clone(model).set_params(learning_rate="auto").fit(X)
    assert_allclose(model.means_, whole.means_, rtol=1e-9, atol=1e-12)
    assert_allclose(model.covariances_, whole.covariances_, rtol=1e-9)


def test_a_long_batch_is_cut():
    X = blobs(90)
    cut = SVIGaussianMixture(2, batch_size=30, random_state=0, **PLAIN).partial_fit(X)
    each = SVIGaussianMixture(2, random_state=0, **PLAIN)
    for batch in np.split(X, 3):
        each.partial_fit(batch)
    assert np.array_equal(cut.means_, each.means_)


def test_the_first_batch_of_a_stream_is_step_one():
    steps = []

    def growing(t):
        steps.append(t)
        return 5.0 * t

    settings = {"effective_batch_size": growing, "batch_size": 20, "random_state": 0}
    model = SVIGaussianMixture(2, **settings)
    # The first batch makes the start and carries no noise.
    assert model.partial_fit(blobs(80)).n_iter_ == 4
    assert steps == [2, 3, 4]


# --- bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"degrees_of_freedom_prior": 0.9}, "greater than 1, but got 0.900. That is"),
        ({"mean_prior": [0.0]}, r"mean_prior must be finite and of shape \(2,\)"),
        ({"covariance_prior": [1.0, 2.0]}, r"be finite and of shape \(2, 2\) for"),
        ({"covariance_prior": np.diag([1, np.nan])}, r"\(2, 2\) with entries that are"),
        ({"covariance_prior": -np.eye(2)}, "symmetric and positive definite"),
        ({"covariance_prior": [[1e-9, 5e-10], [0.0, 1e-9]]}, "symmetric and positive"),
        ({"covariance_prior": [["a"]]}, "covariance_prior must be an array of numbers"),
        ({"mean_prior": [[0.0], 1.0]}, "mean_prior must be an array of numbers"),
        ({"known_covariances": np.eye(3)}, r"shape \(2, 2\) or \(1, 2, 2\)"),
    ],
)
def test_improper_priors_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        SVIGaussianMixture(**parameters).fit(blobs())


@pytest.mark.parametrize("n", [0, 2.5, "two"])
def test_samples_need_a_number(fitted, n):
    with pytest.raises(ValueError, match="n_samples must be a positive integer"):
        fitted.sample(n)
    with pytest.raises(ValueError, match="n_draws must be a positive integer"):
        fitted.sample_posterior(n)


# Tied and spherical covariances differ from others in sums alone, which the usual
# prior goes through; of noise tests of its steps tell.
@each_odd
@pytest.mark.parametrize(
    ("mean_prior_type", "effective", "covariance_type"),
    [
        ("normal-wishart", None, "full"),
        pytest.param("normal-wishart", 1, "diag", marks=pytest.mark.slow),
        pytest.param("normal-wishart", 1, "full", marks=pytest.mark.slow),
        pytest.param("normal-wishart", None, "tied", marks=pytest.mark.slow),
        pytest.param("independent", None, "full", marks=pytest.mark.slow),
        pytest.param("independent", None, "spherical", marks=pytest.mark.slow),
    ],
)
def test_awkward_rows_leave_a_proper_posterior(
    X, mean_prior_type, effective, covariance_type
):
    shape = {"covariance_type": covariance_type, "mean_prior_type": mean_prior_type}
    noise = {"batch_size": 1000, "effective_batch_size": effective}
    model = SVIGaussianMixture(6, **shape, **noise, random_state=0, max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    assert np.isfinite(model.elbo_path_).all()
    assert np.isfinite(model.means_).all()
    assert model.weights_.min() > 0
    assert np.isfinite(model.score_samples(X)).all()
    if covariance_type in ("full", "tied"):
        assert np.linalg.eigvalsh(model.covariances_).min() > 0
    else:
        assert np.min(model.covariances_) > 0
    assert effective or never_falls(model.elbo_path_)


# --- data and priors of odd scales, and priors that change later: refused or survived


MODELS = [
    SVIGaussianMixture(2, random_state=0),
    BoostedGaussianMixture(2, max_iter=1, random_state=0),
]
each_model = pytest.mark.parametrize("model", MODELS)


def rows(n=60):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) + 5.0 * (np.arange(n) % 2)[:, None]


@pytest.mark.parametrize(
    ("covariance_type", "constant"), [("full", 123456789.123), ("spherical", 3.0)]
)
def test_a_constant_column_has_no_scale_wherever_it_lies(constant, covariance_type):
    # Its mean is off by rounding, which is no spread.
    def bound(value):
        X = np.column_stack([rows(), np.full(60, value)])
        model = SVIGaussianMixture(2, covariance_type=covariance_type, random_state=0)
        return model.fit(X).elbo_

    assert_allclose(bound(constant), bound(0.0), rtol=1e-6)


@each_type
@each_model
def test_squares_that_overflow_are_refused(model, covariance_type):
    with pytest.raises(ValueError, match="X must have a variance that is a finite"):
        clone(model).set_params(covariance_type=covariance_type).fit(1e160 * rows())


@each_model
def test_priors_of_another_scale_are_refused_in_plain_words(model):
    far = clone(model).set_params(mean_prior=[1e8, 1e8])
    with pytest.raises(ValueError, match="X and the priors are of such different"):
        far.fit(rows())


@pytest.mark.parametrize("name", ["mean_prior", "covariance_prior"])
@each_model
def test_a_fit_keeps_its_priors_to_itself(model, name):
    given = {"mean_prior": np.zeros(2), "covariance_prior": np.eye(2)}[name]
    fitted = clone(model).set_params(**{name: given})
    fitted.fit(rows())
    before = fitted.score(rows())
    given += 100.0
    assert fitted.score(rows()) == before
    if hasattr(fitted, "posterior_"):
        kept = fitted.posterior_.settings
        assert not np.shares_memory(kept["center"], given)
        assert not np.shares_memory(kept["rate"], given)


@each_model
def test_missing_values_that_cannot_be_integrated_out_are_named(model):
    X = rows()
    X[3, 1] = np.nan
    for kind in ("tied", "spherical"):
        with pytest.raises(ValueError, match=f"NaN.*covariance_type='{kind}'"):
            clone(model).set_params(covariance_type=kind).fit(X)
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"columns \[1\] are NaN throughout"):
        clone(model).fit(X)


@each_type
def test_missing_values_are_allowed_where_they_can_be_integrated_out(covariance_type):
    for model in MODELS:
        tags = clone(model).set_params(covariance_type=covariance_type)
        tags = tags.__sklearn_tags__()
        assert tags.input_tags.allow_nan == (covariance_type in ("full", "diag"))


# --- the company of scikit-learn

READS = """
import pickle, sys
search, X = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps(search.score_samples(X)))
"""


@pytest.mark.slow
@each_model
def test_a_search_of_pipelines_answers_the_same_in_a_new_process(model):
    X, name = pd.DataFrame(rows(), columns=["a", "b"]), type(model).__name__.lower()
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
    grid = {f"{name}__n_components": [1, 2]}
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2).fit(X)
    assert search.best_params_ == {f"{name}__n_components": 2}
    fitted = search.best_estimator_[-1]
    assert list(fitted.feature_names_in_) == ["a", "b"]
    assert clone(fitted).get_params() == fitted.get_params()
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", READS],
        input=pickle.dumps((search, X)), capture_output=True, check=True,
        env=os.environ | {"PYTHONPATH": str(Path(skboost.__file__).parents[1])},
    )  # fmt: skip
    assert np.array_equal(pickle.loads(done.stdout), search.score_samples(X))


def test_a_stream_that_leaves_its_clusters_says_so_once():
    rng = np.random.default_rng(5)
    first, other = rng.normal(size=(2, 90, 2)) + [[[0.0, 0.0]], [[60.0, 0.0]]]
    model = SVIGaussianMixture(2, random_state=0).partial_fit(first)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(rng.normal(size=(90, 2)))
    with pytest.warns(UserWarning, match="100% of these rows lie far outside") as told:
        model.partial_fit(other)
        model.partial_fit(other + [0.0, 90.0])
    assert len(told) == 1
    # A new stream is told again.
    again = SVIGaussianMixture(2, random_state=0).partial_fit(first)
    with pytest.warns(UserWarning, match="shuffle the rows"):
        again.partial_fit(other)


@pytest.mark.parametrize(
    ("kind", "covariance_type"),
    [(SVIGaussianMixture, "full"), (BoostedGaussianMixture, "diag")],
)
def test_a_narrow_column_has_its_own_scale(kind, covariance_type):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 2)) + np.repeat([[0.0], [6.0]], 30, axis=0)
    found = []
    for width in (1.0, 1e-13, 1e-20):
        model = kind(2, covariance_type=covariance_type, random_state=0)
        model.fit(Z * [1.0, width])
        variances = model.covariances_[:, 1]
        variances = variances[:, 1] if covariance_type == "full" else variances
        found.append(np.sort(variances) / width**2)
    for narrow in found[1:]:
        assert_allclose(narrow, found[0], rtol=1e-6)
