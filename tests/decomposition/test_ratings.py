"""Ratings as pairs and numbers agree with the matrix that they make."""

import pickle

import numpy as np
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
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["user", "film"]).astype({"film": int})
    assert np.array_equal(regressor().fit(frame, Y).predict(frame), fitted.predict(X))
    numbers = np.column_stack([ROWS, 10 * COLUMNS])
    assert np.array_equal(
        regressor().fit(numbers, Y).predict(numbers), again.predict(X)
    )


def test_any_factorisation_will_do():
    boosted = BoostedMatrixFactorization(1, max_iter=1, random_state=0)
    for model in (RatingRegressor(boosted), RatingRegressor()):
        assert model.fit(X, Y).score(X, Y) > 0.2


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.column_stack([X, Y]), Y, "two columns, users and items"),
        (np.vstack([X, X[:1]]), np.append(Y, 1.0), "a pair once; got 1"),
        (np.vstack([X, [["u00", None]]]), np.append(Y, 1.0), "some are missing"),
        (np.vstack([X, [["u00", "a"]]]), np.append(Y, 1.0), "labels of one kind"),
        (X, np.append(Y[1:], np.nan), "y contains NaN"),
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
