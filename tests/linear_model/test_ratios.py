"""Ratios of odds and rates are exponentials of what the posterior knows."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

from skboost.strategies import GreedySearch

from ..kinds import (
    GroupedLogistic,
    GroupedPoisson,
    Logistic,
    OnlineLogistic,
    Poisson,
    over,
)
from .conftest import logistic_data

SETTINGS = {"max_iter": 1, "search": GreedySearch(64), "random_state": 0}
COUNTS = np.random.default_rng(0).poisson(2.0, 60)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[::3], np.array(["a", "b", "c"])[y[::3]]


@pytest.fixture(scope="module")
def three(iris):
    return Logistic(orbit=None, **SETTINGS).fit(*iris)


def columns(table, *names):
    return np.array([table[name] for name in names])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_odds_ratios_of_two_classes_are_those_of_the_marginals(fit_intercept):
    model = Logistic(fit_intercept=fit_intercept, **SETTINGS)
    model.fit(*logistic_data(60, [1.0, -2.0]))
    table = model.odds_ratios(0.8, increment=[1.0, 3.0])
    ends = np.log(columns(table, "lower", "upper")).T
    assert len(ends) == 2 + fit_intercept
    assert_allclose(ends[:2], model.coef_interval(0.8)[0] * [[1.0], [3.0]])
    assert_allclose(ends[2:], model.posterior_.interval(0.8)[2:])
    medians = [model.posterior_.marginal(i).quantile(0.5) for i in range(len(ends))]
    expected = np.array(medians) * [1.0, 3.0, 1.0][: len(ends)]
    assert_allclose(np.log(table["odds_ratio"]), expected)
    positive = model.posterior_.summary()["probability_positive"]
    assert_allclose(table["probability_above_1"], positive)


def test_odds_of_three_classes_are_against_one_of_them(three):
    coef, intercept = three.sample_posterior(40_000, 1)
    draws = np.dstack([coef, intercept])
    table = three.odds_ratios(0.8, reference="b")
    expected = np.concatenate([draws[:, k] - draws[:, 1] for k in (0, 2)], axis=1)
    # Ends of 16,384 draws: their standard error is a hundredth of a deviation.
    for name, level in (("lower", 0.1), ("odds_ratio", 0.5), ("upper", 0.9)):
        error = np.log(table[name]) - np.quantile(expected, level, axis=0)
        assert np.all(np.abs(error) < 0.06 * expected.std(axis=0))
    names = list(table.index[[0, 4, 5]])
    assert names == ["a vs b: x0", "a vs b: intercept", "c vs b: x0"]
    turned = three.odds_ratios(0.8, reference="c")
    there = columns(table, "odds_ratio", "upper", "probability_above_1")[:, 5:]
    back = columns(turned, "odds_ratio", "lower", "probability_above_1")[:, 5:]
    assert_allclose(there[:2] * back[:2], 1.0, rtol=0.01)
    assert_allclose(there[2] + back[2], 1.0)
    assert_allclose(
        columns(three.odds_ratios(), "upper"),
        columns(three.odds_ratios(reference="a"), "upper"),
    )


def test_odds_with_orbits_are_those_of_known_images(iris, monkeypatch):
    """New draws would cost an evaluation of the density for every image of each."""
    few = Logistic(orbit=8, prior_scale=1.0, **SETTINGS)
    few.fit(*iris)
    draws = few.sample_posterior(3000, 1)
    draws = np.dstack(draws)
    contrasts = (draws[:, 1:] - draws[:, :1]).reshape(len(draws), -1)
    monkeypatch.setattr(type(few.posterior_), "sample", None)
    table = few.odds_ratios(0.8)
    # A quantile of 3,000 draws has a standard error of .03 deviations.
    for name, level in (("lower", 0.1), ("odds_ratio", 0.5), ("upper", 0.9)):
        error = np.log(table[name]) - np.quantile(contrasts, level, axis=0)
        assert np.all(np.abs(error) < 0.25 * contrasts.std(axis=0))
    above = (contrasts > 0).mean(axis=0)
    assert_allclose(table["probability_above_1"], above, atol=0.06)


def test_streams_have_odds_against_all_others(iris):
    model = OnlineLogistic(random_state=0).fit(*iris)
    table = model.odds_ratios(0.8)
    ends = model.posterior_.interval(0.8).T
    assert_allclose(np.log(columns(table, "lower", "upper")), ends)
    with pytest.raises(ValueError, match="reference must be None.*all others"):
        model.odds_ratios(reference="a")


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_rate_ratios_leave_the_dispersion_out(likelihood):
    X = np.random.default_rng(1).standard_normal((60, 2))
    model = Poisson(likelihood=likelihood, orbit=None, **SETTINGS)
    # Features that a dict does not name have an increment of one.
    table = model.fit(X, COUNTS).rate_ratios(0.8, increment={"x1": 10.0})
    ends = model.posterior_.interval(0.8)[:3].T * [1.0, 10.0, 1.0]
    assert_allclose(np.log(columns(table, "lower", "upper")), ends)


@over("kind", [GroupedLogistic, GroupedPoisson], slow=[GroupedLogistic])
def test_ratios_within_groups_leave_scales_out(kind):
    y = COUNTS > 2 if kind is GroupedLogistic else COUNTS
    hours = np.random.default_rng(1).standard_normal(60)
    X = pd.DataFrame({"hours": hours, "school": np.arange(60) % 10})
    model = kind(groups=["school"], max_iter=1, random_state=0).fit(X, y)
    method = getattr(model, "odds_ratios", None) or model.rate_ratios
    table = method(0.8, increment=2.0)
    assert list(table.index) == ["hours", "intercept"]
    ends = model.posterior_.interval(0.8)[:2].T * [2.0, 1.0]
    assert_allclose(np.log(columns(table, "lower", "upper")), ends)
    # They say under which prior they stand, as summaries do.
    assert table.columns.name == "normal prior"
    assert "normal prior of scale 'auto'" in table.attrs["prior"]
    said = " ".join(str(model.summary()).split())
    assert "Shrunk towards 0 by a normal prior of scale 'auto'; prior_scale=10" in said


def test_what_means_nothing_is_refused(three):
    for increment in (0.0, [1.0, 2.0], -1.0, np.inf, "one", {"x7": 10.0}):
        with pytest.raises(ValueError, match="increment must be a positive number"):
            three.odds_ratios(increment=increment)
    with pytest.raises(ValueError, match="reference must be one of the classes"):
        three.odds_ratios(reference="d")
    with pytest.raises(ValueError, match="level"):
        three.odds_ratios(90)
    two = Logistic(**SETTINGS)
    two.fit(*logistic_data(60, [1.0, -2.0]))
    with pytest.raises(ValueError, match="reference must be None"):
        two.odds_ratios(reference=1)


@pytest.mark.parametrize(
    ("settings", "short", "told"),
    [
        ({}, "principal prior, learned", "a principal prior whose scale is learned ("),
        ({"prior": "normal"}, "normal prior, learned", "a normal prior whose scale is"),
        ({"prior_scale": 2.0}, "normal prior", "a normal prior of scale 2.0; "),
        ({"prior_scale": [1.0, 2.0]}, "normal prior", "a scale for each column; "),
        (
            {"prior": "laplace", "prior_scale": 1.0, "max_iter": 1},
            "laplace prior",
            "a laplace prior of scale 1.0; ",
        ),
    ],
)
def test_tables_say_under_which_prior_they_stand(settings, short, told):
    X, y = logistic_data(60, [1.0, -2.0])
    model = Logistic(random_state=0, **settings).fit(X, y)
    table = model.odds_ratios()
    assert table.columns.name == short
    assert table.attrs["prior"].startswith("Shrunk towards 1 by a ")
    assert told in table.attrs["prior"]
    assert table.attrs["prior"].endswith("10 / X.std(axis=0) leaves nearly none.")


def test_what_leaves_nearly_no_prior_is_what_tables_say():
    X, y = logistic_data(60, [1.0, -2.0])
    X = X * [1.0, 50.0]
    model = Logistic(random_state=0)
    learned = model.fit(X, y).coef_
    wide = model.set_params(prior_scale=10.0 / X.std(axis=0)).fit(X, y).coef_
    widest = model.set_params(prior_scale=100.0 / X.std(axis=0)).fit(X, y).coef_
    assert_allclose(wide, widest, rtol=0.03)
    assert np.all(np.abs(learned) < 0.98 * np.abs(wide))
