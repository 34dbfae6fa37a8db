"""Priors of single coefficients, with a scale and a mean of their own."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skboost.priors import LaplacePrior, NormalPrior, StudentTPrior

from ..kinds import Linear, Logistic, Poisson

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((30, 3)), columns=["age", "dose", "pulse"])
ETA = 0.5 * X["age"].to_numpy()
RESPONSES = {
    "numbers": (Linear, ETA + RNG.standard_normal(30)),
    "classes": (Logistic, ETA + RNG.logistic(size=30) > 0),
    "three": (Logistic, RNG.integers(0, 3, 30)),
    "counts": (Poisson, RNG.poisson(np.exp(ETA))),
}
pytestmark = pytest.mark.filterwarnings(
    "ignore::skboost.exceptions.OverdispersionWarning"
)


def fitted(what, prior, rows=X, **settings):
    model, y = RESPONSES[what]
    return model(prior=prior, random_state=0, orbit=None, **settings).fit(rows, y)


SLOW = {
    ("numbers", 1.0), ("classes", "learn"), ("counts", 1.0), ("three", 1.0),
    ("three", "learn"),
}  # fmt: skip


def test_a_linear_regression_with_known_noise_has_the_conjugate_posterior():
    _, y = RESPONSES["numbers"]
    prior = {"dose": NormalPrior(0.3, mean=2.0), 2: NormalPrior(scale=0.5)}
    known = {"prior_scale": 1.5, "noise_scale": 0.8, "intercept_scale": 10.0}
    found = fitted("numbers", prior, **known).posterior_
    A = np.column_stack([X, np.ones(30)])
    scale, mean = np.array([1.5, 0.3, 0.5, 10.0]), np.array([0.0, 2.0, 0.0, 0.0])
    about = np.eye(4)
    about[3, :3] = X.mean(axis=0)
    prior = about.T @ np.diag(scale**-2.0) @ about
    covariance = np.linalg.inv(A.T @ A / 0.64 + prior)
    expected = covariance @ (A.T @ y / 0.64 + mean / scale**2)
    assert found.mean() == pytest.approx(expected, abs=1e-6)
    assert found.std() == pytest.approx(np.sqrt(covariance.diagonal()), rel=1e-6)


@pytest.mark.parametrize(
    ("what", "prior_scale"),
    [
        pytest.param(what, scale, marks=[pytest.mark.slow] * ((what, scale) in SLOW))
        for what in RESPONSES
        for scale in ("learn", 1.0)
    ],
)
def test_every_response_takes_them(what, prior_scale):
    prior = {"dose": NormalPrior(1e-3, mean=2.0), "age": LaplacePrior(0.5)}
    model = fitted(what, prior, prior_scale=prior_scale)
    coef = np.atleast_2d(model.coef_)
    assert coef[:, 1] == pytest.approx(2.0, abs=0.02)
    assert np.all(np.abs(coef[:, 2]) < 1.5)
    assert model.remaining_kl_ < 0.1
    log_joint = model.make_log_joint(X, RESPONSES[what][1])
    theta = model.posterior_.sample(2, random_state=0)
    steps = 1e-5 * np.eye(theta.shape[1])
    slopes = [(log_joint(theta + h) - log_joint(theta - h)) / 2e-5 for h in steps]
    exact = log_joint.gradient(theta)
    assert np.transpose(slopes) == pytest.approx(exact, rel=1e-4, abs=1e-3)


def test_names_and_indices_are_the_same_and_survive_clones_and_pickles():
    settings = {"prior_scale": 1.0, "max_iter": 1}
    model = fitted("numbers", {"dose": StudentTPrior(scale=0.1)}, **settings)
    again = clone(model).set_params(prior={1: StudentTPrior(scale=0.1)})
    again.fit(X, RESPONSES["numbers"][1])
    assert np.array_equal(again.coef_, model.coef_)
    kept = pickle.loads(pickle.dumps(model))
    assert np.array_equal(kept.predict(X), model.predict(X))
    with_arrays = clone(model).set_params(prior={"x1": StudentTPrior(scale=0.1)})
    with_arrays.fit(X.to_numpy(), RESPONSES["numbers"][1])
    assert np.array_equal(with_arrays.coef_, model.coef_)


def test_a_scale_is_learned_from_the_other_coefficients_alone():
    one = fitted("classes", {"pulse": NormalPrior(1e-6, mean=0.0)}, prior_scale="learn")
    model, y = RESPONSES["classes"]
    less = model(prior="normal", prior_scale="learn", random_state=0, orbit=None)
    less.fit(X.assign(pulse=0.0)[["age", "dose"]], y)
    unit = np.sqrt(np.mean(np.var(X[["age", "dose"]], axis=0)))
    unit /= np.sqrt(np.mean(np.var(X, axis=0)))
    assert one.prior_scale_ * unit == pytest.approx(less.prior_scale_, rel=0.1)
    everywhere = fitted("numbers", dict.fromkeys(X.columns, NormalPrior()), max_iter=1)
    assert not hasattr(everywhere, "prior_scale_")


def test_partial_fit_begins_with_them():
    model, y = RESPONSES["numbers"]
    prior = {"dose": NormalPrior(1e-3, mean=2.0)}
    model = model(prior=prior, random_state=0, orbit=None, max_iter=1)
    for rows in (slice(0, 15), slice(15, 30)):
        model.partial_fit(X[rows], y[rows])
    assert model.coef_[1] == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({"weight": NormalPrior()}, "got 'weight'"),
        ({3: NormalPrior()}, "got 3"),
        ({"age": NormalPrior(), 0: NormalPrior()}, "each column once"),
        ({"age": NormalPrior([1.0, 2.0])}, "a number as its scale"),
        ({"age": NormalPrior(mean=np.inf)}, "a finite one"),
        ({"age": NormalPrior(0.0)}, "positive"),
        ({"age": "gamma"}, "prior must be one of"),
        (NormalPrior(mean=1.0), "Give it to single ones by name"),
    ],
)
def test_what_means_nothing_is_refused_by_name(prior, message):
    with pytest.raises(ValueError, match=message):
        fitted("numbers", prior)
