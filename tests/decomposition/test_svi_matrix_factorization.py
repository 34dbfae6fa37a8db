"""The estimator: closed forms, scikit-learn's company, new entries, and bad input."""

import pickle
import tracemalloc
import warnings
from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from skboost.decomposition import BoostedMatrixFactorization, SVIMatrixFactorization
from skboost.strategies import RobbinsMonro


def low_rank(n_rows=60, n_columns=25, rank=3, noise=0.3, seed=0):
    """A complete matrix of low rank with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, rank)) @ rng.standard_normal((rank, n_columns))
    return X + noise * rng.standard_normal(X.shape)


def gappy(share=0.5, seed=0, **of):
    """Training matrix with NaN, and the rows, columns and values of what is hidden."""
    X = low_rank(seed=seed, **of)
    hidden = np.random.default_rng(seed + 1).random(X.shape) > share
    rows, columns = np.nonzero(hidden)
    return np.where(hidden, np.nan, X), (rows, columns, X[rows, columns])


def as_sparse(X):
    """The entries that are not NaN, stored."""
    rows, columns = np.nonzero(~np.isnan(X))
    return sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)


def error_of(fitted, hidden):
    """Mean squared error of what is predicted of hidden entries."""
    rows, columns, values = hidden
    return np.mean((fitted.predict_entries(rows, columns) - values) ** 2)


def model(**params):
    return SVIMatrixFactorization(**({"n_components": 3, "random_state": 0} | params))


@pytest.fixture(scope="module")
def fitted():
    return model(max_iter=5).fit(gappy()[0])


# --- the fit


def test_hidden_entries_are_predicted_within_their_errors():
    X, (rows, columns, values) = gappy()
    fitted = model().fit(X)
    mean, std = fitted.predict_entries(rows, columns, return_std=True)
    inside = np.abs(values - mean) < 1.645 * std
    # Of 90 percent intervals, with the binomial standard error.
    assert abs(inside.mean() - 0.9) < 4.0 * np.sqrt(0.09 / len(values))
    assert np.sqrt(np.mean((values - mean) ** 2)) < 0.5
    assert abs(fitted.noise_scale_ - 0.3) < 0.05
    assert_allclose(std > fitted.noise_scale_, True)


def test_superfluous_coordinates_shrink():
    X, hidden = gappy()
    few, many = (model(n_components=r, max_iter=400).fit(X) for r in (3, 12))
    assert error_of(many, hidden) < 1.5 * error_of(few, hidden)
    products = np.sort(many.row_scales_ * many.column_scales_)
    assert products[-4] < 0.3 * products[-3]


def test_known_scales_are_kept():
    X, _ = gappy()
    fitted = model(noise_scale=0.25, prior_scale=2.0, biases=True).fit(X)
    assert_allclose(fitted.noise_scale_, 0.25)
    assert_allclose(fitted.row_scales_, [2.0] * 4)
    assert_allclose(fitted.global_bias_, np.nanmean(X))


def test_the_fit_scales_with_the_data():
    X, (*pairs, _) = gappy()
    plain, scaled = model(max_iter=20).fit(X), model(max_iter=20).fit(1e4 * X)
    found, expected = (fit.predict_entries(*pairs) for fit in (scaled, plain))
    assert_allclose(found, 1e4 * expected, rtol=1e-6, atol=1e-3)
    n = np.sum(~np.isnan(X))
    assert_allclose(scaled.elbo_, plain.elbo_ - n * np.log(1e4), rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("biases", [False, True])
def test_batches_come_near_to_coordinate_ascent(biases):
    X, hidden = gappy(0.7, n_rows=120)
    whole = model(biases=biases).fit(X)
    batches = model(biases=biases, batch_size=400, max_iter=40).fit(X)
    assert batches.history_[0]["n_steps"] == -(-np.sum(~np.isnan(X)) // 400)
    assert error_of(batches, hidden) < 1.3 * error_of(whole, hidden)
    assert batches.elbo_ > whole.elbo_ - 0.1 * abs(whole.elbo_)
    assert whole.converged_ and not batches.converged_


def test_noise_is_counted_and_ends_with_the_schedule():
    X, _ = gappy(0.7)
    seen = []

    def schedule(step):
        seen.append(step)
        return 100 * step

    rate = RobbinsMonro(delay=0.0, forgetting=0.85)
    fitted = model(effective_batch_size=schedule, learning_rate=rate, max_iter=15)
    fitted.fit(X)
    assert seen[0] == 1
    n = np.sum(~np.isnan(X))
    groups = [record["n_groups"] for record in fitted.history_]
    noisy = [100 * record["n_steps"] < n for record in fitted.history_]
    assert_array_equal(np.array(groups) > 0, noisy)
    # Rows, columns, the scales of both, and the noise.
    assert groups[0] == 60 + 25 + 3 + 3 + 1
    assert 0.0 < fitted.noise_shrunk_ <= 1.0
    assert np.isfinite(fitted.elbo_path_).all()


def test_single_precision_is_kept_and_close():
    X, (*pairs, _) = gappy()
    double = model(max_iter=30).fit(X)
    single = model(max_iter=30, dtype="float32").fit(X)
    for found in (single.components_, single.transform(X), single.reconstruct()):
        assert found.dtype == np.float32
    assert_allclose(single.elbo_, double.elbo_, rtol=1e-3)
    found, expected = (fit.predict_entries(*pairs) for fit in (single, double))
    assert_allclose(found, expected, atol=0.01)


# --- what is observed


@pytest.mark.parametrize(
    ("kind", "share"), [("csr", 0.1), ("csc", 0.6), ("coo", 0.6), ("dok", 0.1)]
)
def test_stored_entries_are_what_is_not_nan(kind, share):
    X, _ = gappy(share)
    X[0, :3] = 0.0
    stored = as_sparse(X)
    assert stored.nnz == np.sum(~np.isnan(X))
    dense = model(max_iter=5).fit(X)
    found = model(max_iter=5).fit(stored.asformat(kind))
    assert_allclose(found.elbo_path_, dense.elbo_path_, rtol=1e-12)
    assert_allclose(found.transform(stored), dense.transform(as_sparse(X)), rtol=1e-7)


@pytest.mark.parametrize("biases", [False, True])
def test_empty_rows_and_columns_keep_the_prior(biases):
    X, _ = gappy()
    X[4], X[:, 2] = np.nan, np.nan
    fitted = model(biases=biases, prior_scale=1.5, max_iter=20).fit(X)
    assert_allclose(fitted.row_factors_[4], 0.0, atol=1e-12, rtol=0)
    assert_allclose(fitted.components_[:, 2], 0.0, atol=1e-12, rtol=0)
    prior = 1.5**2 * np.eye(3 + biases)
    assert_allclose(fitted.row_covariances_[4], prior, rtol=1e-12)
    mean, std = fitted.predict_entries([4], [2], return_std=True)
    assert_allclose(mean, fitted.global_bias_, atol=1e-12, rtol=0)
    assert std[0] > fitted.noise_scale_


def few_entries():
    """One for each row, a single one, and tables of values all alike."""
    rng = np.random.default_rng(0)
    X, single = np.full((30, 4), np.nan), np.full((3, 2), np.nan)
    X[np.arange(30), rng.integers(0, 4, 30)] = 3.0 + rng.standard_normal(30)
    single[1, 1] = 2.0
    return X, single, np.zeros((4, 3)), np.full((4, 3), 7.0)


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("X", few_entries(), ids=["rows", "single", "zeros", "sevens"])
def test_few_entries_and_a_rank_above_the_matrix(X, biases):
    fitted = model(n_components=9, biases=biases).fit(X)
    assert np.isfinite(fitted.elbo_path_).all()
    mean, std = fitted.reconstruct(return_std=True)
    assert np.isfinite(mean).all() and np.all(std > 0)
    assert np.isfinite(fitted.score(X))


@pytest.mark.parametrize(
    ("size", "X", "message"),
    [
        (None, np.full((60, 25), np.nan), "at least one observed"),
        (lambda t: "all", low_rank(), "effective_batch_size must return"),
    ],
)
def test_a_fit_that_fails_leaves_the_one_before(size, X, message, fitted):
    before, own = fitted.reconstruct(), copy(fitted)
    with pytest.raises(ValueError, match=message):
        own.set_params(effective_batch_size=size).fit(X)
    assert_array_equal(own.reconstruct(), before)


def test_memory_is_linear_in_the_observed_entries():
    rng = np.random.default_rng(0)
    n, shape = 30_000, (20_000, 15_000)
    positions = rng.choice(np.prod(shape), n, replace=False)
    X = sparse.coo_array((rng.random(n), divmod(positions, shape[1])), shape=shape)
    tracemalloc.start()
    model(n_components=2, max_iter=2).fit(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The matrix itself would take 2,400 MB.
    assert peak < 60e6


# --- predictions


@pytest.mark.parametrize("biases", [False, True])
def test_transform_and_its_inverse_reconstruct(biases):
    X, _ = gappy()
    fitted = model(biases=biases).fit(X)
    factors = fitted.transform(X)
    assert factors.shape == (60, 3 + biases)
    # At the optimum the rows of the fit have the factors that they fold into.
    assert_allclose(factors[:, :3], fitted.row_factors_, atol=5e-3)
    assert_allclose(fitted.inverse_transform(factors), fitted.reconstruct(X))
    pairs = np.array([3, 40]), np.array([0, 24])
    mean, std = fitted.reconstruct(return_std=True)
    for whole, some in zip(
        (mean, std), fitted.predict_entries(*pairs, return_std=True), strict=True
    ):
        assert_allclose(whole[pairs], some, rtol=1e-9)
    folded = fitted.predict_entries(*pairs, X=X)
    assert_allclose(folded, fitted.reconstruct(X)[pairs], rtol=1e-9)
    with pytest.raises(ValueError, match="columns that transform gives"):
        fitted.inverse_transform(factors[:, :-1])


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([60], [0], "rows must be from 0 to 59"),
        ([0], [-1], "columns must be from 0 to 24"),
        ([0.5], [1], "rows must be integers"),
        ([0, 1], [1], "one position each"),
    ],
)
def test_positions_that_do_not_exist_are_refused(rows, columns, message, fitted):
    with pytest.raises(ValueError, match=message):
        fitted.predict_entries(rows, columns)
    assert fitted.predict_entries([], []).shape == (0,)


def test_the_score_is_the_density_of_what_was_not_folded_in():
    X, _ = gappy(0.6, n_rows=300)
    test = X[200:]
    fitted = {rank: model(n_components=rank).fit(X[:200]) for rank in (1, 3)}
    scores = {rank: own.score(test) for rank, own in fitted.items()}
    assert scores[3] > scores[1]
    noise_only = -0.5 * np.log(2 * np.pi * np.e * 0.3**2)
    assert scores[3] < noise_only
    assert (
        fitted[3].score(test) == scores[3] == clone(fitted[3]).fit(X[:200]).score(test)
    )
    with pytest.raises(ValueError, match="observed entry to be scored"):
        fitted[3].score(np.full((2, 25), np.nan))


# --- new entries


@pytest.mark.parametrize("biases", [False, True])
def test_new_rows_are_folded_in_and_teach_the_columns(biases):
    X, hidden = gappy(0.6, n_rows=120)
    fitted = model(biases=biases).fit(X[:80])
    before, own = fitted.components_.copy(), fitted.row_factors_.copy()
    more = np.where(np.arange(120)[:, None] < 80, np.nan, X)
    fitted.partial_fit(more)
    assert fitted.row_factors_.shape == (120, 3)
    assert_array_equal(fitted.row_factors_[:80], own)
    assert not np.allclose(fitted.components_, before)
    refit = model(biases=biases).fit(X)
    errors = [np.sqrt(error_of(f, hidden)) for f in (fitted, refit)]
    assert errors[0] < errors[1] + 0.05
    for name in ("elbo_path_", "converged_", "history_"):
        assert not hasattr(fitted, name)


def test_new_entries_move_only_what_they_touch():
    X, _ = gappy()
    fitted = model().fit(X)
    rows, columns = fitted.row_factors_.copy(), fitted.components_.copy()
    n_iter, elbo = fitted.n_iter_, fitted.elbo_
    i, j = np.argwhere(np.isnan(X))[7]
    more = sparse.coo_array(([1.0], ([i], [j])), shape=X.shape)
    fitted.partial_fit(more)
    assert_array_equal(np.flatnonzero((fitted.row_factors_ != rows).any(axis=1)), [i])
    assert_array_equal(np.flatnonzero((fitted.components_ != columns).any(axis=0)), [j])
    assert fitted.n_iter_ > n_iter
    # One more entry says little, and not more than its density allows.
    assert elbo - 20.0 < fitted.elbo_ < elbo + 5.0


def test_with_known_columns_two_halves_are_one_whole():
    # Columns with many entries hardly move: then rows are exact whatever comes first.
    X = low_rank(400, 25)
    fitted = model(noise_scale=0.3, prior_scale=1.0).fit(X)
    new = low_rank(3, 25, seed=0)
    at_once, by_halves = (pickle.loads(pickle.dumps(fitted)) for _ in range(2))
    whole = np.full((403, 25), np.nan)
    whole[400:] = new
    at_once.partial_fit(whole)
    for half in (slice(0, 12), slice(12, 25)):
        part = np.full(whole.shape, np.nan)
        part[:, half] = whole[:, half]
        by_halves.partial_fit(part)
    assert_allclose(
        by_halves.reconstruct()[400:], at_once.reconstruct()[400:], atol=0.02
    )


def test_partial_fit_of_nothing_new_changes_nothing():
    X, _ = gappy()
    fitted = model(max_iter=5).partial_fit(X)
    assert fitted.n_iter_ == 5 and hasattr(fitted, "history_")
    before = fitted.reconstruct()
    fitted.partial_fit(np.full((62, 25), np.nan))
    assert_array_equal(fitted.reconstruct()[:60], before)
    assert_allclose(fitted.row_factors_[60:], 0.0)
    fitted.partial_fit(X[:2])
    with pytest.raises(ValueError, match="partial_fit goes on with the same model"):
        fitted.set_params(n_components=2).partial_fit(X)
    with pytest.raises(ValueError, match="features"):
        fitted.set_params(n_components=3).partial_fit(X[:, :5])


# --- a reference posterior


def gibbs(X, rank, noise, scale, n_sweeps, seed=0):
    """Draws of u_i'v_j for all entries, by turns of exact conditionals."""
    rng = np.random.default_rng(seed)
    seen = ~np.isnan(X)
    values = np.where(seen, X, 0.0)
    V = rng.standard_normal((X.shape[1], rank))

    def conditional(pattern, values, other):
        outer = (other[:, :, None] * other[:, None, :]).reshape(len(other), -1)
        precision = (pattern @ outer).reshape(-1, rank, rank) / noise**2
        precision += np.eye(rank) / scale**2
        mean = np.linalg.solve(precision, (values @ other / noise**2)[:, :, None])
        roots = np.linalg.cholesky(np.linalg.inv(precision))
        draws = rng.standard_normal(mean.shape)
        return (mean + roots @ draws)[:, :, 0]

    found = []
    for _ in range(n_sweeps):
        U = conditional(seen.astype(float), values, V)
        V = conditional(seen.T.astype(float), values.T, U)
        found.append(U @ V.T)
    return np.array(found[n_sweeps // 5 :])


@pytest.mark.slow
def test_predictions_are_those_of_a_long_gibbs_sampler():
    # Every column has about 180 entries and is nearly known, so that what mean field
    # neglects, how rows and columns depend on each other, is small beside the widths.
    X, _ = gappy(0.6, n_rows=300, n_columns=8, rank=2)
    chains = [gibbs(X, 2, 0.3, 1.0, 2500, seed) for seed in range(4)]
    means = np.array([chain.mean(axis=0) for chain in chains])
    error = means.std(axis=0, ddof=1) / np.sqrt(len(chains))
    std = np.sqrt(np.mean([chain.var(axis=0) for chain in chains], axis=0))
    fitted = model(n_components=2, noise_scale=0.3, prior_scale=1.0, tol=1e-9)
    fitted.set_params(max_iter=2000).fit(X)
    mean, predictive = fitted.reconstruct(return_std=True)
    # A tenth of a standard deviation for mean field, beyond Monte Carlo's part.
    away = np.abs(mean - means.mean(axis=0)) - 4.0 * error
    assert np.mean(away < 0.1 * std) > 0.99
    own = np.sqrt(predictive**2 - 0.3**2)
    assert_allclose(np.median(own / std), 1.0, atol=0.1)


# --- scikit-learn's company


def test_a_search_over_the_rank_by_its_own_score():
    X, _ = gappy(0.5, n_rows=150)
    search = GridSearchCV(model(max_iter=30), {"n_components": [1, 3]}, cv=2).fit(X)
    assert search.best_params_ == {"n_components": 3}


# --- time, interruptions, callbacks


def test_new_entries_that_are_interrupted_leave_no_trace(monkeypatch, fitted):
    def pressed(engine, state, budget):
        raise KeyboardInterrupt

    before, own = fitted.reconstruct(), copy(fitted)
    monkeypatch.setattr("skboost.svi.NaturalGradient.step", pressed)
    with pytest.raises(KeyboardInterrupt):
        own.partial_fit(gappy()[0][[*range(60), 0]])
    assert_array_equal(own.reconstruct(), before)
    assert own.n_iter_ == 5 and len(own.history_) == 5


@pytest.mark.parametrize("kind", [SVIMatrixFactorization, BoostedMatrixFactorization])
def test_parameters_set_after_the_fit_do_not_change_what_was_fitted(kind):
    X = np.random.default_rng(0).normal(size=(6, 4))
    model = kind(2, biases=True, max_iter=1, random_state=0).fit(X)
    found = model.transform(X)
    model.set_params(n_components=4, biases=False)
    assert len(model.get_feature_names_out()) == found.shape[1] == 3
    assert model.inverse_transform(found).shape == X.shape
    calls = [("get_feature_names_out", ()), ("reconstruct", ()), ("score", (X,))]
    for method, arguments in calls:
        with pytest.raises(NotFittedError):
            getattr(kind(), method)(*arguments)


def test_triples_are_not_taken_for_a_matrix_in_silence():
    rng = np.random.default_rng(0)
    places = np.argwhere(rng.random((20, 15)) < 0.3)
    triples = np.column_stack([places, rng.normal(size=len(places))])
    with pytest.warns(UserWarning, match="looks like triples.*coo_array") as caught:
        SVIMatrixFactorization(2, max_iter=2, random_state=0).fit(triples)
    assert caught[0].filename == __file__
    ratings = rng.integers(1, 6, size=(12, 3)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for X in (ratings, rng.normal(size=(30, 3)), sparse.csr_array(triples)):
            SVIMatrixFactorization(2, max_iter=2, random_state=0).fit(X)
