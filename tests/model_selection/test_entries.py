"""Held-out entries: splits, folds, and scores by folds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.base import BaseEstimator

from skboost import SVIMatrixFactorization
from skboost.model_selection import (
    EntryKFold,
    cross_val_score_entries,
    train_test_split_entries,
)

FORMATS = ("csr", "csc", "coo", "lil", "dok")


def with_gaps(seed=0, shape=(16, 9)):
    """Zeros, gaps, a row with one entry and a row with none."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, shape).astype(float)
    X[rng.random(shape) < 0.3] = np.nan
    X[3], X[4] = np.nan, np.nan
    X[4, 2] = 1.0
    return X


def stored(X, kind="csr", make=sparse.coo_array):
    rows, cols = np.nonzero(~np.isnan(X))
    return make((X[rows, cols], (rows, cols)), shape=X.shape).asformat(kind)


def dense(X):
    if not sparse.issparse(X):
        return np.asarray(X, dtype=float)
    parts, made = X.tocoo(), np.full(X.shape, np.nan)
    made[parts.row, parts.col] = parts.data
    return made


def seen(X):
    return ~np.isnan(dense(X))


class ColumnMeans(BaseEstimator):
    """Predicts a column's mean and standard deviation."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X):
        X = dense(X)
        self.mean_ = np.nanmean(X, axis=0) + self.shift
        self.std_ = np.nanstd(X, axis=0) + 0.1
        return self

    def predict_entries(self, rows, cols, return_std=False):
        return (self.mean_[cols], self.std_[cols]) if return_std else self.mean_[cols]


# --- one split


@pytest.mark.parametrize("kind", ["array", *FORMATS, "matrix", "frame"])
def test_a_split_shares_out_the_entries_of_every_kind_of_matrix(kind):
    X = with_gaps()
    if kind == "frame":
        pd = pytest.importorskip("pandas")
        given = pd.DataFrame(X, columns=[f"c{i}" for i in range(9)])
    elif kind == "matrix":
        given = stored(X, make=sparse.coo_matrix)
    else:
        given = X if kind == "array" else stored(X, kind)
    train, test = train_test_split_entries(given, test_size=0.25, random_state=0)
    assert type(train) is type(test) is type(given)
    assert train.shape == test.shape == X.shape
    assert not (seen(train) & seen(test)).any()
    assert_array_equal(seen(train) | seen(test), seen(X))
    assert_array_equal(dense(train)[seen(train)], X[seen(train)])
    assert_array_equal(dense(test)[seen(test)], X[seen(test)])
    assert seen(test).sum() == round(0.25 * seen(X).sum())
    if kind == "frame":
        assert list(train.columns) == list(given.columns)
    other, _ = train_test_split_entries(X, test_size=0.25, random_state=0)
    assert_array_equal(dense(train), other)


@pytest.mark.parametrize("test_size", [0.1, 0.5, 0.8])
def test_every_row_keeps_an_entry_where_it_can(test_size):
    X = with_gaps()
    for seed in range(20):
        train, _ = train_test_split_entries(X, test_size=test_size, random_state=seed)
        assert_array_equal(seen(train).any(axis=1), seen(X).any(axis=1))


def test_rows_are_emptied_only_where_that_many_are_asked_for():
    X = with_gaps()
    n, n_rows = seen(X).sum(), seen(X).any(axis=1).sum()
    _, test = train_test_split_entries(X, test_size=int(n - n_rows), random_state=0)
    assert seen(test).sum() == n - n_rows
    train, _ = train_test_split_entries(X, test_size=int(n - 3), random_state=0)
    assert seen(train).sum() == 3


def test_unprotected_entries_are_held_out_equally_often():
    X, n_splits = np.ones((6, 5)), 500
    counts = sum(
        seen(train_test_split_entries(X, test_size=0.2, random_state=s)[1])
        for s in range(n_splits)
    )
    expected = 6 / 30 * n_splits
    # Draws without replacement vary less than binomial ones.
    assert np.abs(counts - expected).max() < 4.5 * np.sqrt(expected)


def test_integers_become_floats_and_single_precision_stays():
    train, _ = train_test_split_entries(np.arange(12).reshape(3, 4), random_state=0)
    assert train.dtype == np.float64
    X = np.ones((3, 4), dtype=np.float32)
    assert train_test_split_entries(X, random_state=0)[0].dtype == np.float32
    train, _ = train_test_split_entries(sparse.csr_array(X), random_state=0)
    assert train.dtype == np.float32


@pytest.mark.parametrize("test_size", [0.0, 1.0, -1, "half", 0.99, 9])
def test_a_wrong_test_size_is_named(test_size):
    message = "'test_size' parameter"
    if test_size in (0.99, 9):
        message = "test_size must leave entries on both sides"
    with pytest.raises(ValueError, match=message):
        train_test_split_entries(np.ones((3, 3)), test_size=test_size)


# --- folds


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("make", [np.asarray, stored])
def test_every_entry_is_held_out_once(make, shuffle):
    X = with_gaps()
    pairs = list(EntryKFold(4, shuffle=shuffle).split(make(X)))
    assert_array_equal(sum(seen(held) for _, held in pairs), seen(X))
    for train, held in pairs:
        assert_array_equal(seen(train), seen(X) & ~seen(held))
    sizes = [seen(held).sum() for _, held in pairs]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("n_splits", [2, 5])
def test_only_rows_with_a_single_entry_are_ever_emptied(n_splits):
    for seed in range(3):
        X = with_gaps(seed)
        several = seen(X).sum(axis=1) > 1
        for train, _ in EntryKFold(n_splits, random_state=seed).split(X):
            assert seen(train)[several].any(axis=1).all()


def test_folds_follow_the_seed():
    X = with_gaps()
    one, same, other = (
        [seen(held) for _, held in EntryKFold(3, random_state=s).split(X)]
        for s in (0, 0, 1)
    )
    assert_array_equal(one, same)
    assert np.any(np.not_equal(one, other))
    assert EntryKFold(3).get_n_splits(X) == 3
    assert repr(EntryKFold(3, random_state=0)) == (
        "EntryKFold(n_splits=3, shuffle=True, random_state=0)"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_splits": 1}, "n_splits must be"),
        ({"n_splits": 2.5}, "n_splits must be"),
        ({"shuffle": "yes"}, "shuffle must be"),
        ({"shuffle": False, "random_state": 0}, "random_state has no effect"),
    ],
)
def test_wrong_folds_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        EntryKFold(**options)


def test_too_many_folds_are_refused():
    with pytest.raises(ValueError, match="n_splits=5 must not be larger"):
        next(EntryKFold(5).split(np.ones((2, 2))))


# --- scores


def test_scores_are_those_of_the_held_out_entries():
    X = with_gaps()
    splits = list(EntryKFold(3, random_state=0).split(X))
    density, errors = [], []
    for train, held in splits:
        rows, cols = np.nonzero(seen(held))
        mean, std = ColumnMeans().fit(train).predict_entries(rows, cols, True)
        density.append(stats.norm(mean, std).logpdf(X[rows, cols]).mean())
        errors.append(X[rows, cols] - mean)
    cases = {
        None: density,
        "neg_mean_squared_error": [-np.mean(e**2) for e in errors],
        "neg_root_mean_squared_error": [-np.sqrt(np.mean(e**2)) for e in errors],
        "neg_mean_absolute_error": [-np.abs(e).mean() for e in errors],
    }
    for scoring, expected in cases.items():
        for given in (X, stored(X)):
            found = cross_val_score_entries(ColumnMeans(), given, cv=3, scoring=scoring)
            assert_allclose(found, expected, rtol=1e-12)


def test_an_estimators_own_density_is_used():
    class Own(ColumnMeans):
        def log_density_entries(self, rows, cols, values):
            return np.full(len(rows), -7.0)

    assert_array_equal(cross_val_score_entries(Own(), with_gaps(), cv=2), [-7, -7])


def test_a_callable_sees_training_and_held_out_entries():
    X = with_gaps()

    def share(estimator, train, held):
        assert hasattr(estimator, "mean_")
        return seen(held).sum() / (seen(held).sum() + seen(train).sum())

    cv = EntryKFold(4, random_state=0)
    found = cross_val_score_entries(ColumnMeans(), X, cv=cv, scoring=share)
    assert_allclose(found, 0.25, atol=0.02)


@pytest.mark.slow
def test_workers_do_not_matter_and_the_estimator_stays_unfitted():
    # Workers must find the class: one of this file they cannot import.
    model = SVIMatrixFactorization(1, max_iter=3, random_state=0)
    one = cross_val_score_entries(model, with_gaps(), cv=3)
    two = cross_val_score_entries(model, with_gaps(), cv=3, n_jobs=2)
    assert_array_equal(one, two)
    assert not hasattr(model, "components_")


def test_an_estimator_without_predictions_of_entries_is_refused():
    class Without(BaseEstimator):
        def fit(self, X):
            return self

    with pytest.raises(TypeError, match="predict_entries"):
        cross_val_score_entries(Without(), with_gaps())
    found = cross_val_score_entries(
        Without(), with_gaps(), cv=2, scoring=lambda *given: 1.0
    )
    assert_array_equal(found, [1.0, 1.0])


def test_a_typo_in_scoring_is_named():
    with pytest.raises(ValueError, match="'scoring' parameter"):
        cross_val_score_entries(ColumnMeans(), with_gaps(), scoring="neg_mse")
