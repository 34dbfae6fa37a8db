"""What is drawn and decides nothing waits until it is asked for."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_equal
from scipy.special import expit

from skboost.approximation import FreshDraws

from ..kinds import Linear, Logistic, Poisson


def data(model, n=80):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    eta = X @ [1.0, -0.5, 0.0]
    if model is Linear:
        return X, eta + rng.normal(size=n)
    if model is Poisson:
        return X, rng.poisson(np.exp(0.3 * eta))
    return X, rng.uniform(size=n) < expit(eta)


CASES = [
    (Linear, 80, {}),
    pytest.param(Logistic, 80, {}, marks=pytest.mark.slow),
    (Logistic, 800, {}),
    (Logistic, 800, {"prior_scale": 1.0}),
    pytest.param(Poisson, 80, {}, marks=pytest.mark.slow),
    (Poisson, 800, {"prior_scale": 1.0}),
]


@pytest.mark.parametrize(("model", "n", "settings"), CASES)
def test_a_fit_that_only_predicts_draws_nothing(model, n, settings, monkeypatch):
    X, y = data(model, n)
    fitted = model(random_state=0, **settings)
    with monkeypatch.context() as patch:
        patch.setattr(FreshDraws, "of", lambda *_, **__: pytest.fail("It drew."))
        fitted.fit(X, y).predict(X)
        assert fitted.n_iter_ >= 1 and np.isfinite(fitted.coef_).all()
    # They are drawn where they are asked for, and are the same then.
    shown = model(random_state=0, verbose=1, **settings).fit(X, y)
    untimed = {"seconds", "seconds_weights"}
    for late, early in zip(fitted.history_, shown.history_, strict=True):
        for name in late.keys() - untimed:
            assert_equal(late[name], early[name], err_msg=name)
    assert fitted.elbo_ == shown.elbo_ and np.isfinite(fitted.elbo_)
    assert fitted.remaining_kl_ < 0.25 and fitted.converged_


@pytest.mark.parametrize(
    "settings", [{"orbit": None}, {"prior": "laplace"}, {"prior_scale": 100.0}]
)
def test_draws_are_asked_at_once_where_a_closed_form_is_not_sure(settings, monkeypatch):
    drawn, of = [], FreshDraws.of
    monkeypatch.setattr(
        FreshDraws, "of", lambda *a, **k: drawn.append(1) or of(*a, **k)
    )
    X, y = data(Logistic, 40)
    if "prior_scale" in settings:
        # Predictors are wide where the prior alone bounds them, and third derivatives
        # at their mean are zero.
        y = X[:, 0] > 0
    model = Logistic(max_iter=1, random_state=0, **settings)
    model.fit(X, y)
    assert drawn


@pytest.mark.parametrize("warm", [False, True])
def test_a_pickle_has_what_was_not_yet_asked_for(warm):
    X, y = data(Logistic, 40)
    one, other = (Logistic(random_state=0, warm_start=warm).fit(X, y) for _ in range(2))
    copy = pickle.loads(pickle.dumps(one))
    assert_equal(copy.elbo_path_, other.elbo_path_)
    assert copy.elbo_ == other.elbo_ and copy.message_ == other.message_
