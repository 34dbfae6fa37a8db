"""Several classes by modes at several scales, weighted by rows that are left out."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

from skboost import BoostedBayesianLogisticRegression, RowBlocks
from skboost.linear_model._stacked import _Rows, stacked_modes, stacking_weights


def rows_of_wine(n=40, n_columns=5):
    """Rows of three classes with a few columns, and others."""
    X, y = load_wine(return_X_y=True)
    X, order = scale(X[:, :n_columns]), np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    return X[:n], y[:n], X[n:], y[n:]


STACKED = BoostedBayesianLogisticRegression(random_state=0, orbit=None, sharpen=True)


@pytest.mark.parametrize("intercept_scale", [None, 10.0])
@pytest.mark.parametrize("width", [0.3, 1.5])
def test_a_row_that_is_left_out_has_the_probability_of_a_mode_without_it(
    width, intercept_scale
):
    X, y, _, _ = rows_of_wine(60)
    weight = np.ones(len(y))
    weight[:5] = 3.0

    def rows_with(weight):
        return _Rows(X, y, weight, 3, intercept_scale)

    rows = rows_with(weight)
    found = rows.left_out(width, rows.mode(width), np.minimum(weight, 1.0))
    for i in range(0, len(y), 6):
        less = weight.copy()
        less[i] -= 1.0
        # A weight of zero would turn the axes; next to none does not.
        others = rows_with(np.maximum(less, 1e-9))
        p = softmax(others.Z[i] @ others.mode(width) @ others.contrasts.T)
        assert np.exp(found[i]) == pytest.approx(p[y[i]], abs=0.02)


def test_modes_are_where_the_slope_of_the_log_joint_is_zero():
    X, y, _, _ = rows_of_wine()
    weight = np.linspace(0.5, 2.0, len(y))
    column_scale = np.linspace(0.5, 2.0, X.shape[1])
    parts = X + 3.0, y, weight, 3, column_scale, 10.0
    weights, modes = stacked_modes(*parts, temperature=0.5)
    assert weights.sum() == pytest.approx(1.0) and weights.min() > 0.0
    centre = weight @ (X + 3.0) / weight.sum()
    for mode in modes:
        coef, at_centre = mode[:, :-1], mode[:, -1] + mode[:, :-1] @ centre
        p = softmax((X + 3.0 - centre) @ coef.T + at_centre, axis=1)
        rest = 0.5 * weight[:, None] * (np.eye(3)[y] - p)
        # Of coefficients in units of their columns, under the scale that suits best.
        slope, own = (rest.T @ (X + 3.0 - centre)) * column_scale, coef / column_scale
        precision = np.sum(slope * own) / np.sum(own**2)
        log_s = -0.5 * np.log(precision)
        assert log_s == pytest.approx(np.rint(log_s), abs=0.01)
        # No more than so many nats below the highest point.
        missed = 0.5 * np.sum((slope - precision * own) ** 2) / precision
        assert missed < 0.01
        assert_allclose(rest.sum(axis=0), at_centre / 100.0, atol=0.01)


def test_weights_are_those_under_which_rows_are_most_probable():
    rng = np.random.default_rng(1)
    logs, weight = np.log(rng.uniform(0.05, 0.95, (2, 300))), rng.uniform(0.5, 2.0, 300)
    first = np.linspace(0.0, 1.0, 2001)
    mixed = first[:, None] * np.exp(logs[0]) + (1.0 - first[:, None]) * np.exp(logs[1])
    best = first[(np.log(mixed) @ weight).argmax()]
    assert stacking_weights(logs, weight)[0] == pytest.approx(best, abs=0.02)


def test_forecasts_are_stacked_modes_and_the_posterior_comes_when_asked(tmp_path):
    X, y, others, _ = rows_of_wine()
    model = clone(STACKED).fit(X, y)
    weights, modes = model._model_.stacked
    each = [softmax(others @ m[:, :-1].T + m[:, -1], axis=1) for m in modes]
    expected = np.tensordot(weights, each, 1)
    assert_allclose(model.predict_proba(others), expected, atol=1e-12)
    assert_allclose(np.exp(model.predict_log_proba(others)), expected, atol=1e-9)
    model.predict(others)
    assert "_fit" not in vars(model)
    model.export(tmp_path / "model.py")
    space = {}
    exec((tmp_path / "model.py").read_text(encoding="utf-8"), space)
    assert_allclose(space["predict_proba"](others), expected, atol=1e-12)
    assert "_fit" not in vars(model)
    # By the parameters of the fit, whatever is set later.
    plain = clone(STACKED).set_params(sharpen=False).fit(X, y)
    model.set_params(prior_scale=0.1)
    assert_allclose(model.coef_, plain.coef_)
    for method in ("predict_proba_interval", "predict_uncertainty", "predict_latent"):
        answers = (getattr(one, method)(others[:5]) for one in (model, plain))
        for one, other in zip(*answers, strict=True):
            assert_allclose(one, other)
    assert_allclose(model.predict_proba(others), expected, atol=1e-12)


def test_pickles_have_the_posterior_and_changed_rows_have_none():
    X, y, others, _ = rows_of_wine()
    model = clone(STACKED).fit(X, y)
    copied = pickle.loads(pickle.dumps(model))
    assert_allclose(copied.predict_proba(others), model.predict_proba(others))
    assert_allclose(copied.coef_, model.coef_)
    named = clone(STACKED).fit(X, y).set_feature_names(list("abcde"))
    assert named.posterior_.names[0] == "0: a"
    blocks = [(X[:20].copy(), y[:20]), (X[20:].copy(), y[20:])]
    model.fit(RowBlocks(lambda: blocks))
    blocks[0][0][:] *= 2.0
    with pytest.raises(ValueError, match="changed in place"):
        model.coef_  # noqa: B018
    assert np.isfinite(model.predict_proba(others)).all()


def test_rows_may_be_sparse_or_stand_twice():
    X, y, others, _ = rows_of_wine()
    weight = 1.0 + np.arange(len(y)) % 2
    twice = np.repeat(np.arange(len(y)), weight.astype(int))
    plain = clone(STACKED).fit(X[twice], y[twice]).predict_proba(others)
    weighted = clone(STACKED).fit(X, y, sample_weight=weight).predict_proba(others)
    assert_allclose(weighted, plain, atol=2e-3)
    rows = sparse.csr_matrix(X[twice])
    thin = clone(STACKED).fit(rows, y[twice]).predict_proba(sparse.csr_matrix(others))
    assert_allclose(thin, plain, atol=1e-6)
