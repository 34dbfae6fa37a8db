"""What evaluations are counted in, and what stops them."""

import logging
import pickle

import numpy as np
import pytest
from joblib import Parallel, delayed

from skboost.approximation import Mixture
from skboost.families import Component, DiagonalGaussian
from skboost.targets import (
    Budget,
    BudgetSpent,
    CallableTarget,
    ComposedTarget,
    GLMTarget,
    Ledger,
    Logistic,
    Table,
    TransformedTarget,
)
from skboost.transforms import Constraints


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def log_density(theta):
    return -0.5 * np.sum(theta**2, axis=1)


@pytest.fixture
def target():
    return CallableTarget(log_density, 2, np.negative, vectorized=True)


def regression():
    X = np.random.default_rng(0).standard_normal((20, 1))
    return GLMTarget(Table(X, np.sign(X[:, 0]), 1.0, None), Logistic())


POINTS = np.ones((3, 2))
PRIOR = Mixture.single(Component(DiagonalGaussian(), np.zeros(4)))
VIEWS = {
    "itself": lambda target: target,
    "transformed": lambda target: TransformedTarget(target, Constraints("positive", 2)),
    "with a prior": lambda target: ComposedTarget(target, PRIOR),
}


@pytest.mark.parametrize("method", ["log_density", "value_and_score"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_batch_that_does_not_fit_in_is_refused(target, view, method):
    asked = getattr(view(target), method)
    budget = Budget(max_evaluations=5, ledger=target.ledger)
    with target.ledger.within(budget):
        asked(POINTS)
        with pytest.raises(BudgetSpent, match="max_evaluations=5; 3 were made"):
            asked(POINTS)
        asked(POINTS[:2])
    assert budget.has_cut and target.n_evaluations == 5
    # No limit outlives what it was for.
    asked(POINTS)
    assert target.n_evaluations == 8 and target.ledger.budget.spent is None


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("log_density", (POINTS,)),
        ("value_and_score", (POINTS,)),
        ("expected_log_density", (np.zeros(2), np.ones(2))),
        ("expected_curvature", (np.zeros(2), np.eye(2))),
    ],
)
def test_regressions_are_stopped_and_not_counted(method, arguments):
    target, clock = regression(), Clock()
    asked = getattr(target, method)
    with target.ledger.within(Budget(max_time=1.0, clock=clock)):
        asked(*arguments)
        clock.now = 1.0
        with pytest.raises(BudgetSpent, match="max_time=1.0"):
            asked(*arguments)
    assert target.n_evaluations == 0


def test_shares_are_nested_and_tell_the_whole(target):
    ledger = target.ledger
    whole = Budget(max_evaluations=100, ledger=ledger)
    with ledger.within(whole), ledger.within(whole.share(0.1)) as tenth:
        assert ledger.budget is tenth
        with ledger.within(tenth.share(0.5)), pytest.raises(BudgetSpent):
            ledger.spend(6)
        assert ledger.budget is tenth
        ledger.spend(6)
    assert whole.has_cut and ledger.n_evaluations == 6


def test_what_is_used_is_the_larger_share(target):
    clock = Clock()
    assert Budget().used == 0.0
    budget = Budget(10.0, 4 * len(POINTS), target.ledger, clock)
    clock.now = 2.0
    assert budget.used == 0.2
    target.log_density(POINTS)
    assert budget.used == 0.25
    clock.now = 9.0
    assert budget.used == 0.9


def test_work_in_hand_ends_where_all_evaluations_are_made(target):
    budget = Budget(max_evaluations=3, ledger=target.ledger)
    with target.ledger.within(budget):
        assert budget.spent is None and not budget.cuts()
        target.log_density(POINTS)
        assert budget.spent.by == "max_evaluations" and budget.cuts()


def test_the_budget_before_is_restored_after_an_error():
    ledger = Ledger()
    with pytest.raises(KeyError), ledger.within(Budget(max_time=0.0)):
        raise KeyError
    ledger.spend(10**9)


def test_threads_share_a_count(target):
    with target.ledger.within(Budget(max_evaluations=600, ledger=target.ledger)):
        Parallel(n_jobs=2, require="sharedmem")(
            delayed(target.log_density)(POINTS) for _ in range(200)
        )
        with pytest.raises(BudgetSpent):
            target.log_density(POINTS[:1])
    assert target.n_evaluations == 600


def test_the_limit_goes_along_to_another_process(target):
    with target.ledger.within(Budget(max_evaluations=4, ledger=target.ledger)):
        target.ledger.spend(3)
        there = pickle.loads(pickle.dumps(target.ledger))
    with pytest.raises(BudgetSpent):
        there.spend(2)
    there.spend(1)
    assert there.n_evaluations == 4 and target.n_evaluations == 3


def test_a_record_is_what_another_process_goes_on_from():
    def fails(theta):
        raise ArithmeticError("there")

    target = CallableTarget(fails, 2, vectorized=True)
    other = CallableTarget(log_density, 2, np.negative)
    target.log_density(POINTS)
    assert target.n_failures == 3 and "there" in target.first_failure
    other.log_density(POINTS)
    record = target.ledger.record()
    for ledger in (other.ledger, target.ledger):
        ledger.restore(*record)
        assert ledger.record() == record


# --- seconds and shares


def test_seconds_run_out_first_for_a_part():
    clock = Clock()
    budget = Budget(max_time=4.0, clock=clock)
    clock.now = 2.5
    assert budget.part(0.5).spent and not budget.part(0.75).spent
    assert budget.spent is None and Budget().part(0.5).spent is None
    budget.check()
    clock.now = 4.0
    assert "max_time=4.0" in budget.spent.message
    with pytest.raises(BudgetSpent, match="max_time=4.0"):
        budget.check()


def test_a_share_is_one_of_what_is_left(target):
    clock = Clock()
    target.ledger.spend(20)
    budget = Budget(4.0, 40, target.ledger, clock)
    clock.now = 2.0
    target.ledger.spend(10)
    half = budget.share(0.5)
    assert (half.max_time, half.max_evaluations) == (1.0, 35)
    clock.now = 3.0
    assert half.spent is not None and budget.spent is None
    target.ledger.spend(10)
    assert "max_evaluations=40" in budget.spent.message
    assert Budget().spent is None and Budget().share(0.5).spent is None


def test_what_fits_in_follows_from_the_best_pace_that_was_seen(target):
    clock = Clock()
    budget = Budget(max_time=4.0, ledger=target.ledger, clock=clock)
    target.ledger.finish(10, (), 10.0)
    target.ledger.finish(10, (), 5.0)
    assert budget.room == 8
    assert budget.affords(100, 0.5) == 4 and budget.has_cut
    budget.check(8)
    with pytest.raises(BudgetSpent, match="max_time=4.0"):
        budget.check(9)
    clock.now = 3.0
    assert budget.room == 2


def test_slow_functions_say_that_they_go_on(target, caplog):
    with caplog.at_level(logging.INFO, logger="skboost"):
        for seconds in (6.0, 6.0, 6.0, 6.0):
            target.ledger.spend(3)
            target.ledger.finish(3, [], seconds)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["6 evaluations so far.", "12 evaluations so far."]
