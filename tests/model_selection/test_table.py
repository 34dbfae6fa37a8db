"""The standard error of the best of several starts, against enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skboost.model_selection._fits import Fit, spread_of_largest, table

bounds = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=4)


@settings(max_examples=30, deadline=None)
@given(bounds)
def test_spread_of_the_largest_is_that_of_all_resamples(values):
    largest = [max(draw) for draw in product(values, repeat=len(values))]
    expected = np.std(largest)
    assert spread_of_largest(values) == pytest.approx(expected, rel=1e-7, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(bounds, st.floats(-100.0, 100.0))
def test_spread_does_not_depend_on_where_zero_is(values, shift):
    moved = spread_of_largest(np.array(values) + shift)
    assert moved == pytest.approx(spread_of_largest(values), abs=1e-6)


def test_starts_that_agree_leave_no_doubt():
    assert spread_of_largest([-3.0] * 5) == 0.0
    assert spread_of_largest([-3.0]) == 0.0
    # One of ten starts got far: the other nine could be drawn ten times, p = 0.9^10.
    alone = spread_of_largest([-103.0] * 9 + [-3.0])
    p = 0.9**10
    assert alone == pytest.approx(100.0 * np.sqrt(p * (1 - p)))
    # Nine of ten did: the tenth hardly matters, p = 0.1^10.
    assert spread_of_largest([-3.0] * 9 + [-103.0]) == pytest.approx(1e-3)


def test_the_spread_is_that_of_searches_with_a_few_optima():
    # Starts end in one of three optima; the truth is the spread of the best of ten.
    optima, shares, m = np.array([-10.0, -12.0, -20.0]), [0.2, 0.3, 0.5], 10
    rng = np.random.default_rng(0)
    draws = rng.choice(optima, size=(4000, m), p=shares)
    truth = draws.max(axis=1).std()
    estimates = np.array([spread_of_largest(row) for row in draws])
    # Right on the average within a factor that a plug-in estimate can be wrong by.
    assert 0.5 * truth < np.sqrt(np.mean(estimates**2)) < 2.0 * truth


def test_errors_join_luck_and_noise():
    starts = (-3.0, -2.0, -2.5)
    row = [Fit(-2.0, 0.1, starts), Fit(-2.2, 0.4, (-2.2,))]
    found = table([{}], [row])
    spread = spread_of_largest([*starts, -2.2])
    assert found["elbo_se"][0] == pytest.approx(np.hypot(spread, 0.1))
    assert found["best_repeat"][0] == 0
    assert found["n_restarts"][0] == 4


def test_equal_bounds_share_a_rank():
    rows = [[Fit(e)] for e in (-2.0, -1.0, -2.0, np.nan, -np.inf)]
    found = table([{} for _ in rows], rows)
    expected = stats.rankdata([2.0, 1.0, 2.0, 5.0, 4.0], method="min")
    assert found["rank_elbo"].tolist() == expected.tolist()
