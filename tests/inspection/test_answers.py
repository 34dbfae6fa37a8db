"""Answers from draws are what estimators say by quadrature, or what is done by hand."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import kstest, norm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import SVIGaussianMixture
from skboost.exceptions import OverdispersionWarning
from skboost.inspection import (
    leave_one_out,
    quantile_residuals,
    sample_predictive,
    to_arviz,
)
from skboost.strategies import GreedySearch
from tests.cases import LINEAR, OTHERS, each, fitted

from ..kinds import Linear, Logistic, Poisson, over

N = 8000
ROWS = LINEAR | {"ordered classes": OTHERS["ordered classes"]}
SHARP = Logistic(sharpen=True, random_state=0)
LABELS = ROWS["two classes"]
# Numbers, counts, two classes and more, with groups and in streams: draws of others
# differ in the law of one response.
KINDS = {"three classes", "normal", "poisson", "groups, normal", "online, classes"}
every = each(ROWS, slow={*ROWS} - KINDS)


def model_of(name):
    return fitted(name), ROWS[name]


def near(found, expected, se):
    """Whether means of draws are within five standard errors, rounding apart."""
    assert np.all(np.abs(found - expected) <= 5.0 * se + 1e-9)


def test_draws_of_linear_predictors_with_offsets_and_sparse_rows():
    model, case = model_of("two classes")
    offset = np.linspace(-2, 2, 48)
    p = model.predict_proba(case.X, offset=offset)[:, 1]
    rows = sparse.csr_array(case.X)
    draws = sample_predictive(model, rows, N, random_state=0, offset=offset)
    near(np.mean(draws == "yes", axis=0), p, np.sqrt(p * (1 - p) / N))


@every
def test_draws_have_the_means_and_quantiles_of_the_predictions(name):
    model, case = model_of(name)
    draws = sample_predictive(model, case.X, N, random_state=0, **case.offset)
    assert draws.shape == (N, 48)
    if hasattr(model, "classes_"):
        expected = model.predict_proba(case.X)
        for k, label in enumerate(model.classes_):
            p = expected[:, k]
            near(np.mean(draws == label, axis=0), p, np.sqrt(p * (1 - p) / N) + 3e-4)
        return
    mean, std = model.predict(case.X, return_std=True, **case.offset)
    near(draws.mean(axis=0), mean, std / np.sqrt(N))
    levels = np.array([0.05, 0.5, 0.9])
    ends = model.predict_quantiles(case.X, levels, **case.offset)
    se = np.sqrt(levels * (1 - levels) / N)
    upto = np.mean(draws[:, :, None] <= ends, axis=0)
    below = np.mean(draws[:, :, None] < ends, axis=0)
    assert np.all(upto >= levels - 5 * se) and np.all(below <= levels + 5 * se)
    ends = model.predict_interval(case.X, 0.8, **case.offset)
    inside = np.mean((draws >= ends[:, 0]) & (draws <= ends[:, 1]), axis=0)
    assert np.all(inside >= 0.8 - 5 * np.sqrt(0.16 / N))


@pytest.mark.filterwarnings("ignore:X has groups")
@pytest.mark.parametrize("population", [False, True])
@pytest.mark.parametrize("name", ["groups, normal", "groups, classes"])
def test_draws_of_groups_are_those_of_predictions(name, population):
    model, case = model_of(name)
    X = np.vstack([case.X[:5], [[0.0, 0.0, 99.0]]])
    draws = sample_predictive(model, X, N, random_state=1, population=population)
    if name == "groups, normal":
        mean, std = model.predict(X, return_std=True, population=population)
        near(draws.mean(axis=0), mean, std / np.sqrt(N))
        near(draws.std(axis=0), std, 1.5 * std / np.sqrt(N))
        none = sample_predictive(model, X, 50, random_state=0, groups="none")
        assert none.shape == (50, 6)
    else:
        p = model.predict_proba(X, population=population)[:, 1]
        found = np.mean(draws == model.classes_[1], axis=0)
        near(found, p, np.sqrt(p * (1 - p) / N))


@pytest.mark.parametrize("name", ["two classes", "three classes"])
def test_draws_are_sharpened_of_two_classes_and_of_more_the_posteriors(name):
    case, few = ROWS[name], slice(0, 24)
    model = SHARP.fit(case.X[few], case.y[few])
    draws = sample_predictive(model, case.X, N, random_state=0)
    p = model.predict_proba(case.X)
    plain = clone(model).set_params(sharpen=False).fit(case.X[few], case.y[few])
    assert np.abs(p - plain.predict_proba(case.X)).max() > 0.02
    if name == "three classes":
        p = plain.predict_proba(case.X)
    for k, label in enumerate(model.classes_):
        se = np.sqrt(p[:, k] * (1 - p[:, k]) / N)
        near(np.mean(draws == label, axis=0), p[:, k], se)


@pytest.mark.parametrize("name", ["two classes", "groups, classes"])
def test_successes_among_trials(name):
    model, case = model_of(name)
    trials = np.arange(48) % 7
    draws = sample_predictive(model, case.X, 4000, random_state=0, trials=trials)
    p = model.predict_proba(case.X)[:, 1]
    assert draws.dtype.kind == "i" and (draws <= trials).all()
    near(draws.mean(axis=0), trials * p, 0.5 * trials / np.sqrt(4000))
    y = trials // 2
    expected = model.log_predictive_density(case.X, y, trials=trials)
    found = leave_one_out(model, case.X, y, trials=trials, refit=False, n=1000)
    assert found.pointwise.sum() < expected.sum()
    residuals = quantile_residuals(model, case.X, y, trials=trials)
    assert np.isfinite(residuals).all()


@every
def test_residuals_of_draws_of_the_model_are_standard_normal(name):
    model, case = model_of(name)
    draws = sample_predictive(model, case.X, 12, random_state=3, **case.offset)
    found = [
        quantile_residuals(model, case.X, y, n=256, random_state=k, **case.offset)
        for k, y in enumerate(draws)
    ]
    # Rows of one draw share its parameters: a few are taken of each.
    assert kstest(np.ravel(np.array(found)[:, ::6]), norm.cdf).pvalue > 1e-4
    assert np.isfinite(found).all()


def test_residuals_see_counts_that_vary_more():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = rng.negative_binomial(1.0, 1.0 / (1.0 + np.exp(1.0 + X[:, 0])))
    with pytest.warns(UserWarning, match="varies more"):
        poisson = Poisson(random_state=0).fit(X, y)
    wide = Poisson(likelihood="negative_binomial")
    assert quantile_residuals(poisson, X, y).std() > 1.4
    assert 0.9 < quantile_residuals(wide.fit(X, y), X, y).std() < 1.1


def exact(model, X, y, rows, **keywords):
    found = []
    for i in rows:
        kept = np.arange(len(y)) != i
        each = {name: value[kept] for name, value in keywords.items()}
        one = {name: value[[i]] for name, value in keywords.items()}
        again = model.fit(X[kept], y[kept], **each)
        found.append(again.log_predictive_density(X[[i]], y[[i]], **one)[0])
    return np.array(found)


@over("name", ["two classes", "poisson"], slow=["poisson"])
def test_leave_one_out_is_what_fits_without_a_row_say(name):
    case = ROWS[name]
    model = case.new(
        max_iter="auto", tol="auto", family="gaussian", search=GreedySearch(512)
    )
    model.set_params(step_size="line-search", corrective="fully-corrective")
    fit = model.fit(**case.data())
    loo = leave_one_out(fit, case.X, case.y, **case.offset)
    # Weights have a variance below a shape of .5.
    rows = np.argsort(np.where(loo.pareto_k < 0.5, loo.pareto_k, -1.0))[-2:]
    expected = exact(model, case.X, case.y, rows, **case.offset)
    np.testing.assert_allclose(loo.pointwise[rows], expected, atol=0.06)
    assert loo.elpd == pytest.approx(loo.pointwise.sum())
    assert 1.0 < loo.p_loo < 8.0 and 0.0 < loo.se < 20.0


def test_a_row_that_weights_cannot_leave_out_is_left_out_by_a_fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 1))
    y = X[:, 0] + 0.1 * rng.normal(size=12)
    X[0], y[0] = 6.0, 0.0
    model = Linear(random_state=0)
    pipe = make_pipeline(StandardScaler(), model).fit(X, y)
    loo = leave_one_out(pipe, X, y)
    # As an answer at a prompt it has no arrays.
    assert repr(loo).startswith(f"elpd {loo.elpd:.1f} (se ") and len(repr(loo)) < 60
    assert loo.refitted[0] and loo.pareto_k[0] > 0.7
    assert (loo.refitted == (loo.pareto_k > 0.7)).all()
    again = make_pipeline(StandardScaler(), model).fit(X[1:], y[1:])
    row = again[:-1].transform(X[:1])
    expected = again[-1].log_predictive_density(row, y[:1])[0]
    assert loo.pointwise[0] == pytest.approx(expected, abs=1e-9)
    with pytest.warns(UserWarning, match="not reliable"):
        rough = leave_one_out(pipe, X, y, refit=False)
    assert not rough.refitted.any()
    assert abs(rough.pointwise[0] - expected) > 10.0


def test_fits_without_a_row_do_not_say_again_that_counts_vary():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    y = rng.poisson(np.exp(X[:, 0]) * rng.gamma(0.5, 2.0, 40))
    X[0], y[0] = 4.0, 0
    with pytest.warns(OverdispersionWarning):
        model = Poisson(random_state=0, max_iter=1).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverdispersionWarning)
        assert leave_one_out(model, X, y).refitted[0]


def test_rows_of_classes_that_are_fitted_again_are_averages_over_the_posterior():
    X, y = load_iris(return_X_y=True)
    X, y = X[::12, 2:], y[::12]
    loo = leave_one_out(Logistic(random_state=0).fit(X, y), X, y)
    i = int(np.flatnonzero(loo.refitted)[0])
    kept = np.delete(np.arange(len(y)), i)
    found = []
    for sharpen in (False, "auto"):
        model = Logistic(random_state=0, sharpen=sharpen).fit(X[kept], y[kept])
        found.append(model.log_predictive_density(X[[i]], y[[i]])[0])
    assert loo.pointwise[i] == pytest.approx(found[0], rel=1e-9)
    assert abs(found[0] - found[1]) > 1e-3


@pytest.mark.parametrize("name", ["normal", "groups, poisson", "three classes"])
def test_arviz_has_draws_likelihoods_and_data(name):
    az = pytest.importorskip("arviz")
    model, case = model_of(name)
    data = to_arviz(model, case.X, case.y, 1000, random_state=0, **case.offset)
    logs = np.asarray(data["log_likelihood"]["y"]).reshape(1000, 48)
    own = leave_one_out(
        model, case.X, case.y, n=1000, random_state=0, refit=False, **case.offset
    )
    found = az.loo(data, pointwise=True)
    elpd = found.elpd_loo if hasattr(found, "elpd_loo") else found.elpd
    assert own.elpd == pytest.approx(float(elpd), abs=0.15)
    values = np.asarray(data["posterior_predictive"]["y"]).reshape(1000, 48)
    assert np.asarray(data["observed_data"]["y"]).shape == (48,)
    assert values.dtype.kind == ("i" if name == "three classes" else "f")
    assert logs.mean() < 0.0 or name == "normal"
    table = az.compare({"one": data, "other": data})
    assert len(table) == 2


def test_what_is_no_regression_is_refused_by_name():
    mixture = SVIGaussianMixture(2)
    with pytest.raises(TypeError, match="got SVIGaussianMixture"):
        sample_predictive(mixture, LABELS.X)
    with pytest.raises(NotFittedError):
        sample_predictive(Linear(), LABELS.X)
    model, case = model_of("normal")
    with pytest.raises(ValueError, match=r"exposure is no keyword .*\['offset'\]"):
        sample_predictive(model, case.X, exposure=np.ones(48))
    with pytest.raises(ValueError, match="n must"):
        sample_predictive(model, case.X, 0)
    with pytest.raises(ValueError, match="among the classes"):
        quantile_residuals(fitted("two classes"), case.X, np.full(48, "perhaps"))
