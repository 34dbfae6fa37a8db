"""Responses and columns that say nothing: answers stay near what was seen."""

import warnings
from itertools import product

import numpy as np
import pytest

from skboost.strategies import GreedySearch

from ..kinds import FLAT, GROUPED, OnlineLinear, over

Linear, Logistic, _, Poisson = FLAT
GroupedLinear, _, _, GroupedPoisson = GROUPED

N_ROWS = 60
ROUNDING = 1e-13 * np.random.default_rng(1).standard_normal(N_ROWS)
RESPONSES = {
    **{str(c): np.full(N_ROWS, c) for c in (0.0, 0.1, 1e6 + 0.1, 1e-300)},
    "rounding": 37.2 * (1.0 + ROUNDING),
}
OF_NUMBERS = {
    "learned scale": lambda: Linear(),
    "known scale": lambda: Linear(prior_scale=1.0),
    "online": lambda: OnlineLinear(),
    "groups": lambda: GroupedLinear(groups=[3]),
}


def rows(copied=False):
    X = np.random.default_rng(0).standard_normal((N_ROWS, 4))
    X[:, 3] = X[:, 0] if copied else np.repeat(np.arange(6), 10)
    return X


@pytest.fixture(autouse=True)
def no_raw_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


@over("name", OF_NUMBERS, slow=["known scale"])
def test_a_constant_response(name):
    """Also one that binary fractions cannot write, and one with rounding as noise."""
    X = rows()
    for y in RESPONSES.values():
        mean, std = OF_NUMBERS[name]().fit(X, y).predict(X, return_std=True)
        size = 0.1 + np.abs(y).max()
        assert np.abs(mean - y).max() < 1e-3 * size
        assert 0.0 < std.min() <= std.max() < 0.1 * size


@pytest.mark.parametrize("count", [0, 3])
def test_equal_counts_have_a_score(count):
    X, y = rows(), np.full(N_ROWS, float(count))
    model = Poisson(random_state=0).fit(X, y)
    assert model.score(X, y) == 0.0


COUNTS = {
    "flat": (Poisson, {}),
    "known scale": (Poisson, {"prior_scale": 1.0}),
    "no orbits": (Poisson, {"orbit": None}),
    "groups": (GroupedPoisson, {"groups": [3]}),
    "a Laplace prior": (
        GroupedPoisson, {"groups": [3], "prior": "laplace"},
    ),
    "crossed": (GroupedPoisson, {"groups": [2, 3]}),
}  # fmt: skip


QUICK = [("flat", "poisson", 1), ("flat", "negative_binomial", 0)]


@pytest.mark.parametrize(
    ("name", "likelihood", "events"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * (case not in QUICK))
        for case in product(COUNTS, ("poisson", "negative_binomial"), (0, 1))
    ],
)
def test_counts_of_no_event_or_one(name, likelihood, events, evaluated):
    """Tails that no row knows of do not decide what is said of a mean."""
    kind, settings = COUNTS[name]
    X, y = rows(), np.zeros(N_ROWS)
    X[:, 2] = np.random.default_rng(3).integers(0, 4, N_ROWS)
    y[7] = events
    model = kind(likelihood=likelihood, random_state=0, **settings)
    mean, std = model.fit(X, y).predict(X, return_std=True)
    # Fits that chase these tails take millions.
    assert sum(evaluated) < 400_000
    # Under a gamma prior of the rate, of shape a half, as Jeffreys' is.
    rate = (events + 0.5) / N_ROWS
    assert 0.02 * rate < np.median(mean) and mean.mean() < 3.0 * rate
    assert std.max() < 10.0 * np.sqrt(mean.max() + mean.max() ** 2 / (events + 0.5))


def test_a_covariance_that_nothing_makes_proper_is_refused():
    """Rounding in columns near 1e-5, 1e12 and 1e4, under a wide prior."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3, 3)) * [1e-5, 1e12, 1e4]
    model = Logistic(
        temperature=1e-6,
        prior_scale=1e8,
        search=GreedySearch(max_components=1),
        random_state=0,
    )
    try:
        probability = model.fit(X, [0, 1, 1]).predict_proba(X)
    except ValueError as error:
        assert "Standardise" in str(error)
    else:
        assert np.isfinite(probability).all()
