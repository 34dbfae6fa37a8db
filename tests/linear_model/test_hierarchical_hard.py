"""Hierarchical regressions of data that are far from textbooks: refused or right."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skboost.priors import HalfTPrior
from skboost.targets import Ledger

from ..kinds import GROUPED, over

GroupedLinear, GroupedLogistic, GroupedOrdinal, GroupedPoisson = GROUPED


def rows(n=60, n_groups=6, n_others=5):
    """A frame with two factors, and the predictor of the first."""
    rng = np.random.default_rng(0)
    g = np.arange(n) % n_groups
    h = (np.arange(n) // n_groups) % n_others
    x, effects = rng.normal(size=n), rng.normal(size=n_groups)
    return pd.DataFrame({"x": x, "g": g, "h": h}), 0.5 * x + effects[g], rng


@over("kind", [GroupedLinear, GroupedPoisson], slow=[GroupedPoisson])
def test_the_default_prior_of_scales_is_the_documented_one(kind):
    X, eta, rng = rows()
    y = rng.poisson(np.exp(eta)) if kind is GroupedPoisson else eta
    size = np.std(y) if kind is GroupedLinear else 1.0
    few = {"groups": ["g"], "max_iter": 1, "random_state": 0}
    default = kind(**few).fit(X[["x", "g"]], y)
    said = kind(scale_prior=HalfTPrior(3.0, 2.5 * size), **few).fit(X[["x", "g"]], y)
    assert default.elbo_ == pytest.approx(said.elbo_, abs=1e-8)


@pytest.mark.parametrize(
    ("kind", "without", "factors"),
    [
        (GroupedLinear, 2, ["g"]),
        (GroupedLinear, 2, ["g", "h"]),
        (GroupedPoisson, 5, ["g"]),
        pytest.param(GroupedPoisson, 5, ["g", "h"], marks=pytest.mark.slow),
    ],
)
def test_a_group_whose_rows_weigh_nothing_has_the_effect_of_a_new_one(
    kind, without, factors
):
    X, eta, rng = rows()
    y = rng.poisson(np.exp(1.0 + eta)) if kind is GroupedPoisson else eta + 10.0
    weight = np.where(X["g"] == without, 0.0, 1.0)
    model = kind(groups=factors, max_iter=1, random_state=0)
    model.fit(X[["x", *factors]], y, sample_weight=weight)
    _, _, scales, effects = model.sample_posterior(1000, random_state=0)
    drawn = effects["g"][:, without, 0] / scales["sd(g)"]
    # Standard normal: four standard errors of 512 pairs of draws.
    assert abs(drawn.mean()) < 0.18
    assert drawn.std() == pytest.approx(1.0, abs=0.13)


@pytest.mark.parametrize("factors", [["g"], ["g", "h"]])
def test_responses_far_from_zero_lose_no_digits(factors):
    X, eta, rng = rows()
    X, y = X[["x", *factors]], eta + rng.normal(size=60)
    near, far = (
        GroupedLinear(
            groups=factors, intercept_scale=1e9, max_iter=1, random_state=0
        ).fit(X, y + level)
        for level in (0.0, 1e8)
    )
    sizes = [np.asarray(model.variance_components_["mean"]) for model in (near, far)]
    np.testing.assert_allclose(*sizes, rtol=0.1)
    assert far.remaining_kl_ == pytest.approx(near.remaining_kl_, abs=0.01)


def test_counts_near_ten_thousand_have_predictions_like_them():
    X, eta, rng = rows()
    y = rng.poisson(1e4 * np.exp(0.3 * eta))
    model = GroupedPoisson(
        groups=["g"], likelihood="negative_binomial", max_iter=1, random_state=0
    ).fit(X[["x", "g"]], y)
    assert model.predict(X[["x", "g"]]).mean() == pytest.approx(y.mean(), rel=0.01)


@pytest.mark.parametrize(
    ("size", "level", "offset", "message"),
    [
        (1e8, 1.0, 0.0, "standard deviations between .*; that of 'x' is"),
        (1e-200, 1.0, 0.0, "standard deviations between .*; that of 'x' is"),
        (1.0, 1e10, 0.0, "counts of 1e8 at most"),
        (1.0, 1.0, -800.0, "offset must lie between -300 and 300"),
    ],
)
def test_numbers_whose_posterior_is_rounding_are_refused(size, level, offset, message):
    X, eta, rng = rows()
    y, offset = rng.poisson(level * np.exp(0.3 * eta)), np.full(60, offset)
    with pytest.raises(ValueError, match=message):
        GroupedPoisson(groups=["g"]).fit(X[["x", "g"]] * [size, 1], y, offset=offset)


@pytest.mark.parametrize(
    ("labels", "params", "message"),
    [
        ([(1, 2), (1, 3), (2, 2)], {}, "strings or numbers in .* 'g'; got tuple"),
        ([2**70, 2**70 + 1, 1], {}, "numbers below 2\\^63"),
        ([1, 2, 3], {"slopes": {9: ["x"]}}, "slopes must have keys among .*; got 9"),
        ([1, 2, 3], {"slopes": {"g": ["x", "x"]}}, "every column of 'g' once"),
        ([1, 2, 3], {"groups": [["g"]]}, "groups must name columns of X; got"),
        ([1, 2, 3], {"nested": [("g", "x"), ("x", "g")]}, "must not be circular"),
        ([1, 2, 3], {"nested": [("g", "g")]}, "must not be circular"),
        (pd.to_datetime(["2020-01-01", None, "2020-01-02"]), {}, "got NaT in row 1"),
    ],
)
def test_labels_and_columns_that_mean_nothing_are_refused(labels, params, message):
    X = pd.DataFrame({"x": np.arange(12.0), "g": list(labels) * 4})
    with pytest.raises(ValueError, match=message):
        GroupedLinear(**({"groups": ["g"]} | params)).fit(X, X["x"])


def test_labels_above_two_to_the_53_are_told_apart():
    X, eta, _ = rows()
    X = X[["x", "g"]].astype({"g": object})
    X["g"] = [2**53 + label for label in X["g"]]
    model = GroupedLinear(groups=["g"], max_iter=1, random_state=0).fit(X, eta)
    assert len(model.group_levels_["g"]) == 6


@pytest.fixture(scope="module")
def of_one_factor():
    """A fitted model, its rows and numbers."""
    X, eta, _ = rows()
    model = GroupedLinear(groups=["g"], max_iter=1, random_state=0)
    return model.fit(X[["x", "g"]], eta), X[["x", "g"]], eta


def test_labels_of_another_kind_are_no_new_groups(of_one_factor):
    model, X, eta = of_one_factor
    with pytest.raises(ValueError, match="must have numbers in .* 'g', as in fit"):
        model.predict(X.astype({"g": str}))
    dates = X.assign(g=[datetime.datetime(2020, 1, 1 + j) for j in X["g"]])
    model = clone(model).fit(dates, eta)
    with pytest.raises(ValueError, match="must have dates in .* 'g', as in fit"):
        model.predict(X.astype({"g": str}))


def test_the_population_needs_no_column_of_groups(of_one_factor):
    model, X, _ = of_one_factor
    wanted = model.predict(X, population=True)
    for part in (X[["x"]], X[["x"]].to_numpy()):
        np.testing.assert_array_equal(model.predict(part, population=True), wanted)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X[["x"]])


@pytest.mark.slow
def test_few_effective_draws_are_warned_of():
    """Two crossed factors with two rows in each group: Laplace's method is far off."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"g": np.arange(80) % 40, "h": rng.permutation(80) % 40})
    g, h = 2.0 * rng.normal(size=(2, 40))
    y = rng.poisson(np.exp(g[X["g"]] + h[X["h"]] - 3.0))
    model = GroupedPoisson(groups=["g", "h"], max_iter=1, random_state=0)
    with pytest.warns(UserWarning, match=r"leave \d+ % of the draws effective"):
        model.fit(X, y)
    assert 0.0 < model.effects_efficiency_ < 0.3


@pytest.mark.slow
def test_hints_of_modes_that_lead_nowhere_end_no_fit():
    """A column far from zero: climbs are in units of the posterior."""
    rng = np.random.default_rng(0)
    n = 120
    X = pd.DataFrame({"height": 460.0 + 30.0 * rng.normal(size=n)})
    X["g"], X["h"] = np.arange(n) // 3, np.arange(n) // 8
    eta = 11.0 - 0.024 * X["height"] + 0.7 * rng.normal(size=40)[X["g"]]
    y = rng.poisson(np.exp(eta))
    model = GroupedPoisson(groups=["g", "h"], max_iter=1, random_state=0).fit(X, y)
    assert abs(model.coef_[0] + 0.024) < 0.02
    assert np.isfinite(model.elbo_)


@over("kind", GROUPED, slow=[GroupedOrdinal, GroupedPoisson])
def test_a_limit_of_time_ends_a_fit_within_its_first_component(kind, evaluated):
    X, eta, rng = rows()
    y = eta if kind is GroupedLinear else rng.poisson(np.exp(0.5 * eta))
    y = np.minimum(y, 1) if kind is GroupedLogistic else y
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = kind(groups=["g", "h"], max_time=1e-9, random_state=0).fit(X, y)
    # What is left takes no search: a judgement. Others take up to ten thousand.
    assert sum(evaluated) <= 100
    assert np.isfinite(model.predict(X)).all() and np.isfinite(model.elbo_)


def test_a_climb_that_time_cuts_short_is_no_mode():
    """Far modes had most of the weight, and probabilities were NaN."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.integers(0, 4, 30), "x": rng.normal(size=30)})
    eta = X["x"] + rng.normal(size=4)[X["g"]]
    y = (rng.random(30) < 1 / (1 + np.exp(-eta))).astype(int)
    model = GroupedLogistic(
        groups=["g"], slopes={"g": ["x"]}, max_time=1e-6, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert (model.variance_components_["mean"] < 20.0).all()
    assert np.isfinite(model.predict_proba(X)).all()
    # Draws of effects may take as long as all else.
    coef, *_ = model.sample_posterior(1000, random_state=0)
    assert len(np.unique(coef)) <= 128


def wide_rows(kind):
    """Sixty rows, and classes or columns that leave eleven to fourteen coordinates."""
    rng = np.random.default_rng(0)
    g, X = rng.integers(0, 6, 60), rng.normal(size=(60, 12))
    eta = X[:, 0] + rng.normal(size=6)[g]
    if kind is GroupedOrdinal:
        # Eight classes of as many rows each.
        taste = eta + rng.logistic(size=60)
        y = np.digitize(taste, np.quantile(taste, np.arange(1, 8) / 8))
        return np.column_stack([X[:, :3], g]), y, {"groups": [3]}
    y = rng.poisson(np.exp(eta)) if kind is GroupedPoisson else eta > 0.0
    return np.column_stack([X, g]), y, {"groups": [12], "prior": "laplace"}


@over("kind", [GroupedOrdinal, GroupedLogistic, GroupedPoisson], slow=[GroupedPoisson])
def test_many_coordinates_take_no_more_than_one_iteration(kind, monkeypatch):
    """Searches on surrogates of such grades took two million values."""
    spent, spend = [], Ledger.spend
    monkeypatch.setattr(
        Ledger, "spend", lambda ledger, n=1: spent.append(n) or spend(ledger, n)
    )
    X, y, options = wide_rows(kind)
    model = kind(random_state=0, **options).fit(X, y)
    assert model.converged_ and model.remaining_kl_interval_[1] < 0.1
    # Four rounds of draws, with the orbits of others of at most 64 images, and a search
    # for the mode.
    dim = 14
    assert sum(spent) < 4 * (400 + 150 * dim) + 256 * 64 + 4096 + 200


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_evaluated_fast_has_no_surrogate(caplog):
    """Seventeen coordinates, in which draws with much weight are few."""
    rng, k = np.random.default_rng(0), np.arange(48)
    X, few = np.column_stack([rng.normal(size=48), k % 6]), {"max_time": 1e-3}
    with caplog.at_level("DEBUG", logger="skboost"):
        GroupedOrdinal(groups=[1], random_state=0, **few).fit(X, k % 16)
    assert "Begins with components by search; effects" in caplog.text
