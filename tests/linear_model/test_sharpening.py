"""Probabilities to a power that rows ask for, each predicted by the others."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from skboost.families import as_family
from skboost.linear_model._class_model import sharpening_power
from skboost.priors import LaplacePrior
from skboost.proposals import left_out

from ..kinds import Logistic


def few_rows(load, n):
    """Rows of a bundled set with a few of its columns, and others."""
    X, y = load(return_X_y=True)
    X = scale(X[:, :5])
    order = np.random.default_rng(0).permutation(len(y))
    return X[order[:n]], y[order[:n]], X[order[n : n + 40]]


FIXED = {"prior_scale": 1.0}
CASES = [
    (12, {}),
    *(
        pytest.param(n, {"prior": prior} | FIXED, marks=pytest.mark.slow)
        for n, prior in ((12, "normal"), (20, "laplace"))
    ),
]


@pytest.mark.parametrize(("n", "params"), CASES)
def test_rows_are_predicted_as_fits_without_them_do(n, params):
    """Of all rows together: their order within is not that of `fit`."""
    X, y, _ = few_rows(load_breast_cancer, n)
    model = Logistic(random_state=0, **params)
    target = model.fit(X, y).make_log_joint(X, y)._target
    logs, weights = left_out(target, as_family("gaussian", target.dim))
    others = [np.arange(len(y)) != i for i in range(len(y))]
    exact = [
        clone(model).fit(X[rest], y[rest]).log_predictive_density(X[[i]], y[[i]])[0]
        for i, rest in enumerate(others)
    ]
    assert np.allclose(np.exp(logs).sum(axis=1), 1.0)
    assert np.all(weights == 1.0)
    gaps = np.sort(np.exp(logs[:, 0])) - np.sort(np.exp(exact))
    assert np.abs(gaps).max() < 0.1 and np.abs(gaps).mean() < 0.02


def test_predictions_are_powers_and_nothing_else_moves(tmp_path):
    X, y, others = few_rows(load_breast_cancer, 40)
    settings = {"orbit": None, "max_iter": 2, "random_state": 0}
    plain = Logistic(**settings).fit(X, y)
    never = Logistic(sharpen=False, **settings).fit(X, y)
    assert np.array_equal(plain.predict_proba(others), never.predict_proba(others))
    model = Logistic(sharpen=True, **settings).fit(X, y)
    assert plain.sharpening_ == 1.0 and abs(np.log(model.sharpening_)) > 0.02
    powers = plain.predict_proba(others) ** model.sharpening_
    powers /= powers.sum(axis=1, keepdims=True)
    assert np.allclose(model.predict_proba(others), powers, atol=1e-12)
    assert np.allclose(np.exp(model.predict_log_proba(others)), powers, atol=1e-9)
    *_, last = model.staged_predict_proba(others)
    assert np.allclose(last, powers, atol=1e-12)
    assert np.array_equal(model.predict(others), plain.predict(others))
    for method in ("predict_proba_interval", "predict_uncertainty", "predict_latent"):
        same = zip(
            getattr(model, method)(others), getattr(plain, method)(others), strict=True
        )
        assert all(np.array_equal(one, other) for one, other in same), method
    model.export(tmp_path / "model.py")
    space = {}
    exec((tmp_path / "model.py").read_text(encoding="utf-8"), space)
    assert np.allclose(space["predict_proba"](others), powers, atol=1e-12)


def test_a_weight_of_two_is_a_row_that_stands_twice():
    X, y, _ = few_rows(load_breast_cancer, 30)
    model = Logistic(random_state=0, sharpen=True, orbit=None)
    weight = 1.0 + (np.arange(len(y)) % 2)
    one = clone(model).fit(X, y, sample_weight=weight).sharpening_
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    assert one == pytest.approx(clone(model).fit(X[rows], y[rows]).sharpening_, 1e-3)


def test_the_power_is_what_held_out_rows_like_most():
    """Truths of a quarter in logarithms, told as twice or half of it."""
    rng = np.random.default_rng(0)
    logit = 2.0 * rng.standard_normal(4000)
    own = np.where(rng.random(4000) < 1.0 / (1.0 + np.exp(-logit)), logit, -logit)
    for factor in (0.5, 2.0):
        logs = -np.logaddexp(0.0, factor * np.column_stack([-own, own]))
        assert sharpening_power(logs, np.ones(4000)) == pytest.approx(1 / factor, 0.1)
    certain = np.column_stack([np.full(20, -1e-9), np.full(20, -20.0)])
    assert sharpening_power(certain, np.ones(20)) < 2.0


def test_where_rows_cannot_be_left_out_the_error_says_so():
    X, y, _ = few_rows(load_breast_cancer, 30)
    model = Logistic(sharpen=True, prior={0: LaplacePrior()})
    with pytest.raises(ValueError, match="sharpen=True predicts every row by the oth"):
        model.fit(X, y)
    several = clone(model).set_params(prior=LaplacePrior())
    with pytest.raises(ValueError, match="sharpen=True .* got prior='laplace', 3 cl"):
        several.fit(X, np.arange(len(y)) % 3)
    with pytest.raises(
        ValueError, match="sharpen must be 'auto' or False for partial_"
    ):
        model.set_params(prior="auto").partial_fit(X, y)
    for wrong in ("always", 2, None):
        with pytest.raises(ValueError, match="'sharpen' parameter .* must be .*'auto'"):
            model.set_params(sharpen=wrong).fit(X, y)
