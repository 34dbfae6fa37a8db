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

from skboost import RowBlocks
from skboost.fitting import _estimator
from skboost.linear_model import _class_model
from skboost.linear_model._stacked import _Rows, stacked_modes, stacking_weights
from skboost.strategies import GreedySearch
from tests.conftest import Hook

from ..kinds import Logistic, over


def rows_of_wine(n=40, n_columns=5):
    """Rows of three classes with a few columns, and others."""
    X, y = load_wine(return_X_y=True)
    X, order = scale(X[:, :n_columns]), np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    return X[:n], y[:n], X[n:], y[n:]


STACKED = Logistic(random_state=0, orbit=None)


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


def test_weights_of_many_rows_are_found_in_as_few_steps():
    """Scales that differ by little in every row, and by much in all of them."""
    rng = np.random.default_rng(2)
    truth = rng.uniform(0.2, 0.8, 20_000)
    near = np.clip(truth + 0.02 * rng.standard_normal((3, 20_000)), 0.01, 0.99)
    shares = np.array([0.0, 0.05, 0.1])
    p = near + shares[:, None] * (0.5 - near)
    seen = np.where(rng.random(20_000) < truth, p, 1.0 - p)
    weights = stacking_weights(np.log(seen), np.ones(20_000))
    values = [np.log(w @ seen).sum() for w in (weights, *np.eye(3), np.full(3, 1 / 3))]
    assert values[0] > max(values[1:]) - 0.1


def test_forecasts_are_stacked_modes_and_the_posterior_comes_when_asked(tmp_path):
    X, y, others, _ = rows_of_wine()
    model = clone(STACKED).fit(X, y)
    plain = model._model_.forecast.model
    weights, modes = plain.weights, plain.draws.reshape(-1, 3, 6)
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
    # By the parameters of the fit, whatever is set later, and that stays.
    plain = clone(STACKED).set_params(sharpen=False).fit(X, y)
    model.set_params(prior_scale=0.1)
    assert_allclose(model.coef_, plain.coef_)
    assert model.prior_scale == 0.1
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


def no_run(*args, **kwargs):
    raise AssertionError("a posterior was fitted")


def test_a_default_fit_that_predicts_fits_no_posterior(monkeypatch):
    X, y, others, labels = rows_of_wine()
    names = np.array(["a", "b", "c"])
    with monkeypatch.context() as patch:
        patch.setattr(_estimator, "boost", no_run)
        model = clone(STACKED).fit(X, names[y])
        p = model.predict_proba(others)
        assert model.score(others, names[labels]) > 0.6
        assert_allclose(model.decision_function(others), np.log(p), atol=1e-9)
        assert set(model.predict(others)) <= set(names)
        # A notebook looks at what is listed.
        assert "predict" in dir(model) and "classes_" in dir(model)
        repr(model), model._repr_html_()
        with pytest.raises(AssertionError, match="a posterior was fitted"):
            model.posterior_  # noqa: B018
    assert "posterior_" not in dir(model)
    assert model.posterior_.dim == 3 * 6 and "posterior_" in dir(model)
    assert_allclose(model.predict_proba(others), p)
    same = clone(STACKED).set_params(sharpen=True).fit(X, y)
    assert_allclose(same.predict_proba(others), p, atol=1e-12)
    again = clone(STACKED).set_params(random_state=np.random.RandomState(3))
    state = again.random_state
    posterior = again.fit(X, y).posterior_
    assert again.random_state is state and posterior.dim == 3 * 6


AVERAGES = {
    "asked": {"sharpen": False},
    "a scale": {"prior_scale": 1.0, "max_iter": 2},
    "a prior": {"prior": "normal"},
    "learned": {"prior_scale": "learn"},
}


@over("name", AVERAGES, slow=["learned"])
def test_where_the_prior_is_a_users_predictions_average(name):
    X, y, others, _ = rows_of_wine(24, 2)
    model = clone(STACKED).set_params(**AVERAGES[name]).fit(X, y)
    assert model._model_.forecast is None
    *_, last = model.staged_predict_proba(others)
    assert_allclose(model.predict_proba(others), last)


def test_rows_that_are_too_many_average_or_are_refused(monkeypatch):
    X, y, _, _ = rows_of_wine(24, 2)
    products = 24 * 2 * 3 * (400 + 9) + 9**3
    monkeypatch.setattr(_class_model, "_MOST_PRODUCTS", products)
    assert clone(STACKED).fit(X, y)._model_.forecast is not None
    monkeypatch.setattr(_class_model, "_MOST_PRODUCTS", products - 1)
    model = clone(STACKED).fit(X, y)
    assert model._model_.forecast is None
    with pytest.raises(ValueError, match="sharpen=True predicts every row by"):
        clone(STACKED).set_params(sharpen=True).fit(X, y)


def test_rows_whose_scale_is_not_learned_have_modes_in_the_units_of_columns():
    """Of more numbers than scales are learned from."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=7000)
    X = rng.standard_normal((4, 15))[y] + 2.0 * rng.standard_normal((7000, 15))
    unit = np.logspace(-3, 3, 15)
    plain, scaled = (clone(STACKED).fit(rows, y) for rows in (X, X * unit))
    assert plain._model_.prior.closed and plain._model_.forecast is not None
    found = scaled.predict_proba(X[:50] * unit)
    assert_allclose(found, plain.predict_proba(X[:50]), atol=2e-4)


def test_updates_average_and_go_on_from_stacked_fits():
    X, y, others, _ = rows_of_wine(32, 1)
    quick = {"search": GreedySearch(32, refine=False, max_components=1), "max_iter": 1}
    model, plain = (
        clone(STACKED).set_params(sharpen=sharpen, **quick).fit(X[:16], y[:16])
        for sharpen in ("auto", False)
    )
    assert model._model_.forecast is not None
    for one in (model, plain):
        one.partial_fit(X[16:], y[16:])
    assert model._model_.forecast is None
    assert_allclose(model.predict_proba(others), plain.predict_proba(others))
    first = clone(STACKED).set_params(**quick).partial_fit(X[:16], y[:16])
    assert first._model_.forecast is None


def test_whoever_listens_or_goes_on_has_the_run_within_fit():
    X, y, others, _ = rows_of_wine(24, 2)
    hook = Hook()
    model = clone(STACKED).set_callbacks(hook).fit(X, y)
    assert "end iteration" in hook.calls and "_fit" in vars(model)
    assert model._model_.forecast is not None
    model = clone(STACKED).set_params(warm_start=True, max_iter=1, tol=0.0).fit(X, y)
    before = model.predict_proba(others)
    model.set_params(max_iter=2).fit(X, y)
    assert model.n_iter_ == 2
    assert_allclose(model.predict_proba(others), before, atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_more_columns_than_rows_float32_and_low_temperatures(fit_intercept):
    X, y, others, labels = rows_of_wine(30, 13)
    rng = np.random.default_rng(0)
    turn = rng.standard_normal((13, 60)) / 4.0
    wide, new = X @ turn, others @ turn
    model = clone(STACKED).set_params(fit_intercept=fit_intercept)
    p = model.fit(wide, y).predict_proba(new)
    assert np.isfinite(p).all() and np.mean(p.argmax(axis=1) == labels) > 0.8
    single = model.fit(wide.astype(np.float32), y).predict_proba(new)
    assert_allclose(single, p, atol=0.02)
    tempered = model.set_params(temperature=0.1).fit(wide, y).predict_proba(new)
    assert tempered.max(axis=1).mean() < p.max(axis=1).mean()
