"""The estimator: closed forms, scikit-learn's company, streams, and bad input."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.mixture import BayesianGaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost.callbacks import ELBOMonitor
from skboost.mixture import BoostedGaussianMixture, SVIGaussianMixture
from skboost.svi import LearningRate, RobbinsMonro

from .conftest import each_odd

TYPES = ["full", "tied", "diag", "spherical"]


def blobs(n=120, dim=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dim))
    X[: n // 2] = 0.5 * X[: n // 2] + 5.0
    return X


# --- coordinate ascent


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("mean_prior_type", ["normal-wishart", "independent"])
def test_the_path_never_falls(covariance_type, mean_prior_type):
    model = SVIGaussianMixture(
        4,
        covariance_type=covariance_type,
        mean_prior_type=mean_prior_type,
        init_params="random",
        random_state=0,
    ).fit(blobs())
    path = model.elbo_path_
    assert np.all(np.diff(path) >= -1e-9 * np.abs(path[1:]))
    assert model.elbo_ == path[-1]
    assert len(path) == model.n_iter_ == len(model.history_)
    assert model.noise_shrunk_ == 0.0


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
    model = SVIGaussianMixture(
        20, weight_concentration_prior_type="finite_dirichlet_process", max_iter=500
    ).fit(blobs(400))
    assert (model.weights_ > 0.01).sum() < 10
    assert model.weights_.sum() == pytest.approx(1.0)


def test_one_cluster_is_the_closed_form():
    X = blobs()
    model = SVIGaussianMixture().fit(X)
    assert_allclose(model.means_[0], X.mean(axis=0))
    scatter = np.cov(X.T) + (len(X) - 1) * np.cov(X.T)
    assert_allclose(model.covariances_[0], scatter / (len(X) + 2))


def test_a_cooler_posterior_is_wider():
    X = blobs()
    warm, cool = (
        SVIGaussianMixture(temperature=a).fit(X).sample_posterior(4000, 0)["means"]
        for a in (1.0, 0.25)
    )
    assert_allclose(cool.var(axis=0) / warm.var(axis=0), 4.0, rtol=0.2)


# --- runs


def test_the_best_of_several_runs_is_kept():
    model = SVIGaussianMixture(
        4, n_init=5, init_params="random", random_state=0, max_iter=30
    ).fit(blobs())
    assert model.elbo_by_init_.shape == (5,)
    assert model.elbo_ == model.elbo_by_init_.max()
    assert np.ptp(model.elbo_by_init_) > 0


@pytest.mark.parametrize("batch_size", [None, 20])
def test_a_warm_start_goes_on_as_one_long_run(batch_size):
    X = blobs()
    settings = {"batch_size": batch_size, "effective_batch_size": 10, "random_state": 3}
    long = SVIGaussianMixture(3, max_iter=9, n_init=2, **settings)
    short = SVIGaussianMixture(3, max_iter=9, n_init=2, warm_start=True, **settings)
    long.fit(X)
    short.set_params(max_iter=4).fit(X)
    if np.argmax(short.elbo_by_init_) != np.argmax(long.elbo_by_init_):
        long.set_params(n_init=1)
        short = clone(short).set_params(n_init=1).fit(X)
        long.fit(X)
    short.set_params(max_iter=9).fit(X)
    assert np.array_equal(short.elbo_path_, long.elbo_path_)
    assert np.array_equal(short.means_, long.means_)


def test_a_warm_start_of_one_epoch_at_a_time_climbs_until_it_converges():
    X = blobs()
    settings = {"tol": 1e-7, "random_state": 0}
    step = SVIGaussianMixture(3, max_iter=1, warm_start=True, **settings)
    bounds = []
    while not bounds or not step.converged_:
        bounds.append(step.fit(X).elbo_)
        assert step.n_iter_ == len(bounds) <= 600
    assert np.all(np.diff(bounds) >= 0.0)
    long = SVIGaussianMixture(3, max_iter=600, **settings).fit(X)
    assert long.converged_
    assert np.array_equal(step.elbo_path_, long.elbo_path_)
    assert step.fit(X).n_iter_ == long.n_iter_


def test_runs_in_plain_processes_are_the_same():
    model = SVIGaussianMixture(2, init_params="random", n_init=2, random_state=0)
    expected = model.fit(blobs()).elbo_by_init_
    with joblib.parallel_config("multiprocessing", n_jobs=2):
        found = model.fit(blobs()).elbo_by_init_
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    "changed",
    [
        {"n_components": 3},
        {"covariance_type": "diag"},
        {"temperature": 0.5},
        {"reg_covar": 0.5},
        {"weight_concentration_prior_type": "dirichlet_process"},
    ],
)
def test_going_on_with_another_model_is_refused(changed):
    model = SVIGaussianMixture(2, warm_start=True).fit(blobs())
    model.set_params(**changed)
    with pytest.raises(ValueError, match="warm_start=True goes on with the same model"):
        model.fit(blobs())
    with pytest.raises(ValueError, match="partial_fit goes on with the same model"):
        model.partial_fit(blobs())
    assert model.means_.shape == (2, 2)


def test_a_callback_stops_a_run():
    monitor = ELBOMonitor(patience=1, tol=np.inf)
    model = SVIGaussianMixture(2, max_iter=50, batch_size=20, random_state=0)
    model.set_callbacks(monitor).fit(blobs())
    assert model.n_iter_ == 2
    assert model.message_ == "Stopped by a callback."


# --- weights of rows and missing values


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("batch_size", [None, 15])
def test_a_weight_is_repetition_and_order_does_not_show(covariance_type, batch_size):
    X, times = blobs(40), np.arange(40) % 3
    settings = {"batch_size": batch_size, "max_iter": 5, "random_state": 0}
    model = SVIGaussianMixture(3, covariance_type=covariance_type, **settings)
    weighted = clone(model).fit(X, sample_weight=times)
    repeated = clone(model).fit(
        np.random.default_rng(0).permutation(np.repeat(X, times, 0))
    )
    assert_allclose(weighted.means_, repeated.means_, rtol=1e-12)
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, rel=1e-12)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_missing_values_are_survived(covariance_type):
    X = blobs(400, 3)
    complete = SVIGaussianMixture(
        2, covariance_type=covariance_type, random_state=0
    ).fit(X)
    gaps = X.copy()
    gaps[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    model = clone(complete).fit(gaps)
    order = np.argsort(model.means_[:, 0]), np.argsort(complete.means_[:, 0])
    assert_allclose(model.means_[order[0]], complete.means_[order[1]], atol=0.35)
    assert_allclose(model.predict_proba(gaps).sum(axis=1), 1.0)
    assert np.isfinite(model.score_samples(gaps)).all()
    path = model.elbo_path_
    assert np.all(np.diff(path) >= -1e-9 * np.abs(path[1:]))


def test_a_row_without_any_value_says_nothing():
    X = np.vstack([blobs(), [np.nan, np.nan]])
    for covariance_type in ("diag", "full"):
        model = SVIGaussianMixture(2, covariance_type=covariance_type).fit(X)
        empty = model.predict_proba([[np.nan, np.nan]])[0]
        assert np.isfinite(empty).all()
        assert model.score_samples([[np.nan, np.nan]])[0] == pytest.approx(0.0)


# --- prediction


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("mean_prior_type", ["normal-wishart", "independent"])
def test_sampled_rows_have_the_predictive_moments(covariance_type, mean_prior_type):
    X = blobs(300)
    model = SVIGaussianMixture(
        2,
        covariance_type=covariance_type,
        mean_prior_type=mean_prior_type,
        random_state=0,
    ).fit(X)
    drawn, labels = model.sample(20_000)
    assert drawn.shape == (20_000, 2)
    assert np.array_equal(labels, np.sort(labels))
    se = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - model.weights_ @ model.means_) < 5 * se)
    # Entropy by Monte Carlo on both sides of one density.
    ours = model.score_samples(drawn)
    assert abs(ours.mean() - model.score(X)) < 0.3


def test_sampled_rows_have_a_seed_of_their_own():
    model = SVIGaussianMixture(2, random_state=0).fit(blobs())
    usual, _ = model.sample(5)
    assert np.array_equal(usual, model.sample(5, random_state=0)[0])
    assert not np.array_equal(usual, model.sample(5, random_state=1)[0])


def test_score_is_the_mean_of_score_samples():
    X = blobs()
    model = SVIGaussianMixture(2).fit(X)
    assert model.score(X) == pytest.approx(model.score_samples(X).mean())
    assert np.array_equal(model.fit_predict(X), model.predict(X))


def test_posterior_draws_surround_the_fitted_means():
    model = SVIGaussianMixture(2, random_state=0).fit(blobs())
    draws = model.sample_posterior(4000, random_state=1)
    for name, mean in (("weights", model.weights_), ("means", model.means_)):
        se = draws[name].std(axis=0) / np.sqrt(4000)
        assert np.all(np.abs(draws[name].mean(axis=0) - mean) < 5 * se)


def test_held_out_density_beats_plugging_the_parameters_in():
    # With few rows the Student-t tails must pay on new rows.
    gains = []
    for seed in range(20):
        X, new = blobs(16, 3, seed), blobs(200, 3, seed + 1000)
        ours = SVIGaussianMixture(2, random_state=0).fit(X)
        theirs = BayesianGaussianMixture(
            n_components=2,
            weight_concentration_prior_type="dirichlet_distribution",
            random_state=0,
        ).fit(X)
        gains.append(ours.score(new) - theirs.score(new))
    assert np.mean(gains) > 2 * np.std(gains) / np.sqrt(len(gains))


# --- streams


def test_a_stream_accumulates_rows():
    X = np.random.default_rng(0).permutation(blobs(4000))
    model = SVIGaussianMixture(2, random_state=0)
    for batch in np.array_split(X, 40):
        model.partial_fit(batch)
    whole = SVIGaussianMixture(2, random_state=0).fit(X)
    order = np.argsort(model.means_[:, 0]), np.argsort(whole.means_[:, 0])
    assert_allclose(model.means_[order[0]], whole.means_[order[1]], atol=0.1)
    # As sure as if it had seen the rows at once.
    spread = model.sample_posterior(2000, 0)["means"].std(axis=0)[order[0]]
    expected = whole.sample_posterior(2000, 0)["means"].std(axis=0)[order[1]]
    assert_allclose(spread, expected, rtol=0.25)


def test_with_slow_rates_a_stream_is_an_exact_sum():
    X = blobs(300)
    model = SVIGaussianMixture(learning_rate=1e-9, random_state=0)
    mean, covariance = X.mean(axis=0), np.cov(X.T)
    model.set_params(mean_prior=mean, covariance_prior=covariance)
    for batch in np.array_split(X, 7):
        model.partial_fit(batch)
    whole = clone(model).set_params(learning_rate="auto").fit(X)
    assert_allclose(model.means_, whole.means_, rtol=1e-9, atol=1e-12)
    assert_allclose(model.covariances_, whole.covariances_, rtol=1e-9)


def test_a_long_batch_is_cut():
    X = blobs(90)
    cut = SVIGaussianMixture(2, batch_size=30, random_state=0).partial_fit(X)
    each = SVIGaussianMixture(2, random_state=0)
    for batch in np.split(X, 3):
        each.partial_fit(batch)
    assert np.array_equal(cut.means_, each.means_)


def test_a_stream_goes_on_after_fit():
    X = blobs(4000)
    model = SVIGaussianMixture(2, random_state=0).fit(X)
    before = model.sample_posterior(2000, 0)["means"].std(axis=0)
    for _ in range(3):
        model.partial_fit(X)
    after = model.sample_posterior(2000, 0)["means"].std(axis=0)
    assert_allclose(before / after, 2.0, rtol=0.15)


def test_a_stream_has_no_report_of_an_earlier_run():
    X = blobs()
    model = SVIGaussianMixture(2, random_state=0).fit(X)
    of_runs = {"elbo_path_", "elbo_by_init_", "converged_", "message_", "history_"}
    assert of_runs <= set(vars(model))
    model.partial_fit(X)
    assert not of_runs & set(vars(model))
    assert of_runs <= set(vars(model.fit(X)))


def test_annealed_streams_stay_inside():
    model = SVIGaussianMixture(5, effective_batch_size=1, random_state=0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        model.partial_fit(rng.normal(size=(10, 2)))
    assert np.linalg.eigvalsh(model.covariances_).min() > 0
    assert model.weights_.min() > 0
    assert 0 < model.noise_shrunk_ <= 1


# --- the company of scikit-learn


@pytest.mark.slow
def test_pipeline_grid_search_clone_pickle_and_frames():
    X = blobs()
    frame = pd.DataFrame(X, columns=["a", "b"])
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SVIGaussianMixture(2, random_state=0)),
        {
            "svigaussianmixture__n_components": [1, 2],
            "svigaussianmixture__learning_rate": [1.0, RobbinsMonro()],
        },
        cv=2,
        n_jobs=2,
    ).fit(frame)
    assert search.best_params_["svigaussianmixture__n_components"] == 2
    model = SVIGaussianMixture(2, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == ["a", "b"]
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert clone(model).get_params() == model.get_params()


# --- bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"degrees_of_freedom_prior": 0.9},
            "greater than 1, but got 0.900. That is for covariance_type='full'",
        ),
        ({"mean_prior": [0.0]}, r"mean_prior must be finite and of shape \(2,\)"),
        ({"covariance_prior": [1.0, 2.0]}, r"must be finite and of shape \(2, 2\) for"),
        ({"covariance_prior": -np.eye(2)}, "symmetric and positive definite"),
        (
            {"covariance_prior": [[1e-9, 5e-10], [0.0, 1e-9]]},
            "symmetric and positive definite",
        ),
        ({"covariance_prior": [["a"]]}, "covariance_prior must be an array of numbers"),
        ({"mean_prior": [[0.0], 1.0]}, "mean_prior must be an array of numbers"),
        ({"known_covariances": np.eye(3)}, r"shape \(2, 2\) or \(1, 2, 2\)"),
    ],
)
def test_improper_priors_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        SVIGaussianMixture(**parameters).fit(blobs())


def test_the_first_batch_of_a_stream_is_step_one():
    steps = []

    def growing(t):
        steps.append(t)
        return 5.0 * t

    X = np.random.default_rng(0).normal(size=(80, 2))
    model = SVIGaussianMixture(
        2, effective_batch_size=growing, batch_size=20, random_state=0
    )
    # The first batch makes the start and carries no noise.
    assert model.partial_fit(X).n_iter_ == 4
    assert steps == [2, 3, 4]


class Gap(LearningRate):
    def at(self, step):
        return float("nan") if step == 2 else 0.5


@pytest.mark.parametrize("batch_size", [None, 20])
def test_a_schedule_that_leaves_the_interval_later_is_named(batch_size):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = SVIGaussianMixture(2, learning_rate=Gap(), batch_size=batch_size)
    with pytest.raises(ValueError, match=r"rates in \(0, 1\]; got nan at step 2"):
        model.fit(X)
    stream = SVIGaussianMixture(2, learning_rate=Gap(), batch_size=20)
    with pytest.raises(ValueError, match=r"rates in \(0, 1\]; got nan at step 2"):
        stream.partial_fit(X)


@pytest.mark.parametrize("n", [0, -1, 2.5, "two"])
def test_samples_need_a_number(n):
    model = SVIGaussianMixture().fit(blobs())
    with pytest.raises(ValueError, match="n_samples must be a positive integer"):
        model.sample(n)
    with pytest.raises(ValueError, match="n_draws must be a positive integer"):
        model.sample_posterior(n)


@each_odd
@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("mean_prior_type", ["normal-wishart", "independent"])
@pytest.mark.parametrize("effective", [None, 1])
def test_awkward_rows_leave_a_proper_posterior(
    X, covariance_type, mean_prior_type, effective
):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SVIGaussianMixture(
            6,
            covariance_type=covariance_type,
            mean_prior_type=mean_prior_type,
            batch_size=1000,
            effective_batch_size=effective,
            random_state=0,
            max_iter=20,
        ).fit(X)
    assert np.isfinite(model.elbo_path_).all()
    assert np.isfinite(model.means_).all()
    assert model.weights_.min() > 0
    assert np.isfinite(model.score_samples(X)).all()
    if covariance_type in ("full", "tied"):
        assert np.linalg.eigvalsh(model.covariances_).min() > 0
    else:
        assert np.min(model.covariances_) > 0
    if effective is None:
        path = model.elbo_path_
        assert np.all(np.diff(path) >= -1e-9 * np.abs(path[1:]))


# --- data and priors of odd scales, and priors that change later: refused or survived


MODELS = [
    SVIGaussianMixture(2, random_state=0),
    BoostedGaussianMixture(2, max_iter=1, n_draws=16, n_restarts=1, random_state=0),
]


def rows(n=60):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) + 5.0 * (np.arange(n) % 2)[:, None]


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("constant", [3.0, 123456789.123])
def test_a_constant_column_has_no_scale_wherever_it_lies(constant, covariance_type):
    # Its mean is off by rounding, which is no spread.
    def bound(value):
        X = np.column_stack([rows(), np.full(60, value)])
        model = SVIGaussianMixture(2, covariance_type=covariance_type, random_state=0)
        return model.fit(X).elbo_

    assert_allclose(bound(constant), bound(0.0), rtol=1e-6)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("model", MODELS)
def test_squares_that_overflow_are_refused(model, covariance_type):
    with pytest.raises(ValueError, match="X must have a variance that is a finite"):
        clone(model).set_params(covariance_type=covariance_type).fit(1e160 * rows())


@pytest.mark.parametrize("model", MODELS)
def test_priors_of_another_scale_are_refused_in_plain_words(model):
    far = clone(model).set_params(mean_prior=[1e8, 1e8])
    with pytest.raises(ValueError, match="X and the priors are of such different"):
        far.fit(rows())


@pytest.mark.parametrize("name", ["mean_prior", "covariance_prior"])
@pytest.mark.parametrize("model", MODELS)
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


@pytest.mark.parametrize("model", MODELS)
def test_missing_values_that_cannot_be_integrated_out_are_named(model):
    X = rows()
    X[3, 1] = np.nan
    for kind in ("tied", "spherical"):
        with pytest.raises(ValueError, match=f"NaN.*covariance_type='{kind}'"):
            clone(model).set_params(covariance_type=kind).fit(X)
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"columns \[1\] are NaN throughout"):
        clone(model).fit(X)
