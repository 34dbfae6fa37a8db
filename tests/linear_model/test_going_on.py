"""Fits that go on: warm starts, more data, and what failures leave behind."""

from functools import partial

import numpy as np
import pytest

from skboost.strategies import GreedySearch

from ..kinds import Linear, Logistic
from .conftest import count_regression, counted, logistic_data

X = np.column_stack([np.linspace(-1.0, 1.0, 20), np.tile([0.3, -0.4], 10)])
Y = (X[:, 0] > 0).astype(int)
# Little data under a prior that is not Gaussian: there is something to gain.
SETTINGS = {
    "prior": "laplace",
    "fit_intercept": False,
    "tol": 0.0,
    "search": GreedySearch(32),
    "orbit": None,
}


ONE_COMPONENT = GreedySearch(512, max_components=1)
REAL, COUNTED = counted(dispersion=0), counted()
LINES = np.random.default_rng(0).normal(size=(80, 3))
PIECES = {
    "classes": (
        Logistic, *logistic_data(80, [1.0, -0.5]), [40],
        {"max_iter": 5, "search": GreedySearch(512), "random_state": 0},
    ),
    # One Gaussian as prior is exact: what is left is that no posterior is Gaussian.
    "numbers": (
        Linear, LINES,
        LINES @ [1.0, 0.0, -1.0] + 0.5 * np.random.default_rng(1).normal(size=80),
        [40, 60],
        {"max_iter": 5, "search": ONE_COMPONENT, "random_state": 0},
    ),
    "counts": (
        partial(count_regression, "poisson"), *REAL[:2], [40, 60],
        {"search": GreedySearch(512)},
    ),
    "counts that vary more": (
        partial(count_regression, "negative_binomial"), *COUNTED[:2], [40],
        {"max_iter": 1, "orbit": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PIECES)
def test_pieces_are_near_the_whole(name):
    kind, X, y, cuts, settings = PIECES[name]
    settings = {"prior_scale": 1.0, "intercept_scale": 2.0} | settings
    whole, pieces = kind(**settings).fit(X, y), kind(**settings)
    for rows in np.split(np.arange(len(y)), cuts):
        pieces.partial_fit(X[rows], y[rows])
    assert whole.posterior_.hellinger(pieces.posterior_).distance < 0.15


def test_bounds_of_batches_add_up_to_that_of_all_rows(model):
    X, y = logistic_data(80, [1.0, -0.5])
    settings = {"intercept_scale": 50.0, "max_iter": "auto"}
    whole, halves = model(**settings).fit(X, y), model(**settings)
    bounds = [halves.partial_fit(X[:40], y[:40]).elbo_]
    bounds.append(halves.partial_fit(X[40:], y[40:]).elbo_)
    assert sum(bounds) == pytest.approx(whole.elbo_, abs=0.1)


def test_partial_fits_keep_the_mixture_small(model):
    estimator = model(**SETTINGS | {"search": GreedySearch(32, max_components=2)})
    for _ in range(2):
        estimator.partial_fit(X, Y)
        assert estimator.posterior_.n_components <= 2


def test_a_batch_may_hold_one_class_only(model):
    estimator = model().partial_fit(X[:10], Y[:10], classes=[0, 1])
    assert set(Y[:10]) == {0}
    first = estimator.predict_proba(X)[:, 1]
    assert (first < 0.2).all()
    estimator.partial_fit(X[10:], Y[10:])
    assert (estimator.predict_proba(X)[:, 1] > first).all()


def test_labels_that_were_not_named_are_refused(model):
    estimator = model().partial_fit(X, Y)
    before = estimator.predict_proba(X)
    with pytest.raises(ValueError, match="y must hold labels among the classes"):
        estimator.partial_fit(X, Y + 1)
    with pytest.raises(ValueError, match="classes must stay"):
        estimator.partial_fit(X, Y, classes=[0, 1, 2])
    assert np.array_equal(estimator.predict_proba(X), before)
    estimator.partial_fit(X, Y, classes=[1, 0])
    with pytest.raises(ValueError, match="classes="):
        model().partial_fit(X[:5], Y[:5])
