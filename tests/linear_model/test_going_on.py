"""Fits that go on: warm starts, more data, and what failures leave behind."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from .conftest import logistic_data

X = np.column_stack([np.linspace(-1.0, 1.0, 20), np.tile([0.3, -0.4], 10)])
Y = (X[:, 0] > 0).astype(int)
# Little data under a prior that is not Gaussian: there is something to gain.
SETTINGS = {"prior": "laplace", "fit_intercept": False, "tol": 0.0, "n_draws": 32}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# --- more data


def test_two_halves_are_the_whole(model):
    X, y = logistic_data(80, [1.0, -0.5])
    settings = {"max_iter": 5, "n_draws": 512}
    whole = model(**settings).fit(X, y)
    halves = model(**settings).partial_fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    # Talagrand: each of the three fits leaves some divergence, and so some shift.
    kls = [whole.remaining_kl_, halves.remaining_kl_]
    kls.append(model(**settings).fit(X[:40], y[:40]).remaining_kl_)
    std = whole.posterior_.std()
    shift = np.abs(halves.posterior_.mean() - whole.posterior_.mean()) / std
    assert (shift < sum(np.sqrt(2 * max(kl, 1e-3)) for kl in kls)).all()
    assert_allclose(halves.posterior_.std(), std, rtol=0.15)


def test_bounds_of_batches_add_up_to_that_of_all_rows(model):
    X, y = logistic_data(80, [1.0, -0.5])
    settings = {"intercept_scale": 50.0, "max_iter": "auto"}
    whole, halves = model(**settings).fit(X, y), model(**settings)
    bounds = [halves.partial_fit(X[:40], y[:40]).elbo_]
    bounds.append(halves.partial_fit(X[40:], y[40:]).elbo_)
    assert sum(bounds) == pytest.approx(whole.elbo_, abs=0.1)


def test_partial_fits_keep_the_mixture_small(model):
    estimator = model(max_components=2, **SETTINGS)
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


@pytest.mark.slow
def test_partial_fit_with_three_classes(model, three_classes):
    X, y = three_classes
    # Rows narrow the posterior where they do not widen the scale of the prior.
    estimator = model(prior_scale=1.0)
    estimator.partial_fit(X[:30], y[:30], classes=[0, 1, 2])
    first = np.linalg.slogdet(estimator.posterior_.covariance())[1]
    estimator.partial_fit(X[30:], y[30:])
    assert estimator.predict_proba(X).shape == (60, 3)
    assert np.linalg.slogdet(estimator.posterior_.covariance())[1] < first
