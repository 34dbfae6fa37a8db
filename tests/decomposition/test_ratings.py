"""Ratings as pairs and numbers agree with the matrix that they make."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from skboost.decomposition import (
    BoostedMatrixFactorization,
    RatingRegressor,
    SVIMatrixFactorization,
)

SETTINGS = {"biases": True, "max_iter": 30, "random_state": 0}


def ratings(n_users=60, n_items=12, share=0.7, seed=0):
    """Pairs of labels in any order, and ratings from 1 to 5."""
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(rng.random((n_users, n_items)) < share)
    liked = rng.normal(size=n_users)[rows] * rng.normal(size=n_items)[columns]
    liked += rng.normal(size=n_users)[rows] + rng.normal(size=n_items)[columns]
    y = np.clip(np.round(3 + liked + 0.3 * rng.normal(size=len(rows))), 1, 5)
    order = rng.permutation(len(rows))
    X = [[f"u{i:02d}", int(10 * j)] for i, j in zip(rows, columns, strict=True)]
    return np.array(X, dtype=object)[order], y[order], rows[order], columns[order]


X, Y, ROWS, COLUMNS = ratings()


def regressor(**params):
    return RatingRegressor(SVIMatrixFactorization(2, **SETTINGS), **params)


@pytest.fixture(scope="module")
def fitted():
    return regressor().fit(X, Y)


def test_predictions_are_those_of_the_matrix(fitted):
    matrix = sparse.coo_array((Y, (ROWS, COLUMNS)), shape=(61, 13))
    direct = SVIMatrixFactorization(2, **SETTINGS).fit(matrix)
    mean, std = direct.predict_entries(ROWS, COLUMNS, return_std=True)
    found = regressor(clip=False).fit(X, Y).predict(X, return_std=True)
    assert_allclose(found, (mean, std))
    assert_allclose(fitted.predict(X), np.clip(mean, 1.0, 5.0))
    assert mean.max() > 5.0
    ends = fitted.predict_interval(X, 0.9)
    assert ends.min() == 1.0
    assert ends.max() == 5.0
    assert np.mean((ends[:, 0] <= Y) & (ends[:, 1] >= Y)) > 0.85


def test_recommendations_are_the_best_of_what_is_not_rated(fitted):
    items, expected = fitted.recommend("u03", n=4)
    seen = {item for user, item in X if user == "u03"}
    others = [item for item in fitted.items_.tolist() if item not in seen]
    predicted = regressor(clip=False).fit(X, Y).predict([["u03", i] for i in others])
    best = np.argsort(-predicted)[:4]
    assert items.tolist() == [others[k] for k in best]
    assert_allclose(expected, np.clip(predicted[best], 1.0, 5.0))
    assert len(fitted.recommend("u03", n=99, exclude_rated=False)[0]) == 12


@pytest.mark.parametrize("only", [0.0, 1.0, 3.5])
def test_ratings_that_are_all_the_same_are_said_to_say_nothing(only):
    same = np.full(len(Y), only)
    with pytest.warns(UserWarning, match=f"All ratings so far are {only:g}"):
        model = regressor().fit(X[:-9], same[:-9])
    assert_allclose(model.predict(X), same)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X[-9:], only + np.arange(9.0))


def test_whoever_is_new_is_average(fitted):
    mean, std = fitted.predict([["new", 10], ["u03", -1], ["u03", 10]], True)
    assert std[:2].min() > std[2]
    average = fitted.estimator_.predict_entries([60], [1])
    assert_allclose(mean[0], average[0])
    assert len(fitted.recommend("new", n=99)[0]) == 12


def test_it_is_split_searched_and_pickled_as_a_regression(fitted):
    model = regressor()
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.2
    search = GridSearchCV(model, {"estimator__n_components": [1, 2]}, cv=2).fit(X, Y)
    assert search.best_estimator_.estimator_.n_components in (1, 2)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X), fitted.predict(X))
    frame = pd.DataFrame(X, columns=["user", "film"]).astype({"film": int})
    assert np.array_equal(regressor().fit(frame, Y).predict(frame), fitted.predict(X))
    numbers = np.column_stack([ROWS, 10 * COLUMNS])
    assert np.array_equal(
        regressor().fit(numbers, Y).predict(numbers), again.predict(X)
    )


@pytest.fixture(scope="module")
def boosted():
    model = BoostedMatrixFactorization(1, max_iter=1, random_state=0)
    return RatingRegressor(model).fit(X[1:], Y[1:])


def test_any_factorisation_will_do(boosted):
    for model in (boosted, RatingRegressor().fit(X[1:], Y[1:])):
        assert model.score(X, Y) > 0.2


KNOWN = np.array([user < "u40" and item < 100 for user, item in X])


def test_new_ratings_of_new_users_and_items_are_taken_in():
    held = np.random.default_rng(5).random(len(X)) < 0.15
    first, more = KNOWN & ~held, ~KNOWN & ~held
    model = regressor().partial_fit(X[first], Y[first])
    assert_allclose(model.predict(X), regressor().fit(X[first], Y[first]).predict(X))
    old = model.score(X[held], Y[held])
    assert model.partial_fit(X[more], Y[more]) is model
    whole = regressor().fit(X[~held], Y[~held])
    assert old < 0.5 < model.score(X[held], Y[held])
    assert model.score(X[held], Y[held]) > whole.score(X[held], Y[held]) - 0.05
    assert model.users_.tolist() == whole.users_.tolist()
    assert sorted(model.items_) == whole.items_.tolist()
    assert model.estimator_.n_features_in_ == len(model.items_) + 1
    found, expected = (one.predict(X, return_std=True) for one in (model, whole))
    assert np.abs(found[0] - expected[0]).mean() < 0.1
    assert_allclose(found[1].mean(), expected[1].mean(), rtol=0.1)
    # Whoever is still new is average, and what was rated is known of all ratings.
    assert model.predict([["new", 10]], True)[1][0] > found[1].mean()
    seen = {item for user, item in X[~held] if user == "u03"}
    assert not seen & set(model.recommend("u03", n=99)[0].tolist())
    assert len(seen) + len(model.recommend("u03", n=99)[0]) == 12


def test_ratings_of_known_labels_are_taken_in_as_entries_of_the_matrix():
    first = np.random.default_rng(0).random(len(X)) < 0.8
    assert {*X[first, 0]} == {*X[:, 0]} and {*X[first, 1]} == {*X[:, 1]}
    direct = SVIMatrixFactorization(2, **SETTINGS)
    for some in (first, ~first):
        places = ROWS[some], COLUMNS[some]
        direct.partial_fit(sparse.coo_array((Y[some], places), shape=(61, 13)))
    model = regressor(clip=False).fit(X[first], Y[first])
    model.partial_fit(X[~first], Y[~first])
    assert_allclose(model.predict(X), direct.predict_entries(ROWS, COLUMNS))


def test_the_range_of_ratings_grows_and_predictions_stay_inside():
    middle = (Y > 1.0) & (Y < 5.0)
    model = regressor().fit(X[middle], Y[middle])
    assert model.rating_range_ == (2.0, 4.0)
    model.partial_fit(X[~middle], Y[~middle])
    assert model.rating_range_ == (1.0, 5.0)
    assert model.predict(X).max() > 4.0


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (X[:2], Y[:2], "a pair once; got ratings of pairs that were rated before"),
        ([["n", 5], ["n", 5]], [1, 2], "a pair once; got ratings"),
        ([["u00", "a"]], [1.0], "labels of one kind"),
        ([["n", 5, 6]], [1.0], "3 features, but"),
        ([["n", None]], [1.0], "some are missing, first in row 0"),
        ([["n", 5]], [np.inf], "y contains infinity"),
        ([["n", 5]], [1.0, 2.0], "inconsistent numbers"),
        ([["n", 5]], np.array(["2020-01-01"], "M8[s]"), "y must have numbers"),
    ],
)
def test_new_ratings_that_mean_nothing_are_refused_and_nothing_is_lost(
    X, y, message, fitted
):
    before, told = dict(vars(fitted)), fitted.predict([["u03", 10], ["n", 10]], True)
    with pytest.raises(ValueError, match=message):
        fitted.partial_fit(X, y)
    assert all(vars(fitted)[name] is value for name, value in before.items())
    assert vars(fitted).keys() == before.keys()
    assert np.array_equal(fitted.predict([["u03", 10], ["n", 10]], True), told)


def test_a_factorisation_that_needs_all_ratings_says_so(boosted):
    with pytest.raises(ValueError, match="must be an SVIMatrixFactorization for parti"):
        boosted.partial_fit(X[:1], Y[:1])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.column_stack([X, Y]), Y, "two columns, users and items"),
        (np.vstack([X, X[:1]]), np.append(Y, 1.0), "a pair once; got ratings"),
        (np.vstack([X, [["u00", None]]]), np.append(Y, 1.0), "some are missing"),
        (np.vstack([X, [["u00", "a"]]]), np.append(Y, 1.0), "labels of one kind"),
        (X, np.append(Y[1:], np.nan), "y contains NaN"),
        (X, np.full(len(X), "good"), "y must be numbers; got strings such as 'good'"),
        (X[:5], Y, "inconsistent numbers"),
    ],
)
def test_what_means_nothing_is_refused(X, y, message, fitted):
    before = fitted.estimator_
    with pytest.raises(ValueError, match=message):
        fitted.fit(X, y)
    assert fitted.estimator_ is before


def test_levels_and_numbers_are_checked(fitted):
    for level in (0.0, 1.0, 90):
        with pytest.raises(ValueError, match="level"):
            fitted.predict_interval(X, level)
    for n in (0, 2.5, True):
        with pytest.raises(ValueError, match="n must be a positive integer"):
            fitted.recommend("u03", n)
    with pytest.raises(NotFittedError):
        RatingRegressor().recommend("u03")
