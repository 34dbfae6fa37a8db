"""The safeguard of adaptive steps: no freeze, and no step that is known to lose."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skboost.frank_wolfe import (
    DIRECTIONS,
    AdaptiveBacktracking,
    LineSearch,
    WeightObjective,
    apply,
    away_direction,
    frank_wolfe_direction,
    pairwise_direction,
)

from .conftest import log_weights

FORMS = ("curvature", "lipschitz", "distance")


def cells(components, target):
    """Objective of a mixture over cells, each of them one draw."""
    ratio = np.array(components).T * len(target)
    log_ratio = -np.log(len(target)) - np.log(np.array(target))
    return WeightObjective(log_weights(ratio), ratio * log_ratio[:, None])


def change(objective, weights, step):
    moved = apply(weights, step.direction, step.gamma)
    return objective.value(moved) - objective.value(weights)


# The new component comes last and has its cells for itself, so that the curvature of
# the KL divergence at gamma = 0 is infinite.
DISJOINT = {
    "frank-wolfe": (
        frank_wolfe_direction,
        [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]],
        [0.25, 0.25, 0.25, 0.25],
        [1.0, 0.0],
    ),
    # A tenth of what is there lies where the target has nothing.
    "away": (
        away_direction,
        [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]],
        [1.0, 1e-30],
        [0.9, 0.1, 0.0],
    ),
    "pairwise": (
        pairwise_direction,
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [0.5, 0.1, 0.4],
        [0.5, 0.5, 0.0],
    ),
}


@pytest.fixture(params=list(DISJOINT))
def disjoint(request):
    strategy, components, target, weights = DISJOINT[request.param]
    objective, weights = cells(components, target), np.array(weights)
    new = len(weights) - 1
    direction = strategy(objective.slope(weights), weights, new)
    assert direction.kind == request.param
    return SimpleNamespace(objective=objective, weights=weights, direction=direction)


@pytest.mark.parametrize("form", FORMS)
def test_half_of_what_line_search_gains_at_least(disjoint, form):
    objective, weights, direction = vars(disjoint).values()
    rule = AdaptiveBacktracking(form=form, slack=0.0)
    # Cells are no draws: their spread is not noise.
    exact = SimpleNamespace(
        slope=objective.slope,
        divergence=objective.divergence,
        squared_distance=objective.squared_distance,
        along=objective.along,
        difference=lambda new, old: (objective.value(new) - objective.value(old), 0.0),
    )
    best = change(objective, weights, LineSearch().choose(exact, weights, direction))
    assert best < -0.1
    for asked in ((None, 1), (1e-6, 1), (1e9, 1), (None, 99), (1e-6, 99)):
        step = rule.choose(exact, weights, direction, *asked)
        assert change(objective, weights, step) <= 0.5 * best


def test_the_published_rule_falls_back_unseen_where_the_safeguarded_one_looks(table):
    def two_bumps(z):
        return np.logaddexp(-2 * (z + 4) ** 2, -2 * (z - 4) ** 2 + np.log(0.1 / 0.9))

    objective = table([-4, 4], [0.5, 0.5], two_bumps)
    weights = np.array([1.0, 0.0])
    direction = frank_wolfe_direction(objective.slope(weights), weights, 1)
    for form in FORMS:
        blind = AdaptiveBacktracking(form=form, safeguard=False).choose(
            objective, weights, direction
        )
        assert blind.branch == "fallback"
        assert change(objective, weights, blind) > 0.5
        step = AdaptiveBacktracking(form=form).choose(objective, weights, direction)
        assert change(objective, weights, step) < 0.5 * np.log(0.9)


@st.composite
def situations(draw):
    """A table of draws, weights, a direction, and a rule with a memory of its own."""
    n, k = draw(st.integers(3, 10)), draw(st.integers(2, 4))
    entries = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))
    ratio = draw(arrays(float, (n, k), elements=entries))
    log_joint = draw(arrays(float, n, elements=st.floats(-30, 30)))
    shares = st.one_of(st.just(0.0), st.floats(1e-3, 1))
    weights = draw(arrays(float, k, elements=shares))
    weights[-1] = 0.0
    assume(weights.sum() > 0)
    weights /= weights.sum()
    objective = WeightObjective(log_weights(ratio), -ratio * log_joint[:, None])
    strategy = draw(st.sampled_from(list(DIRECTIONS.values())))
    direction = strategy(objective.slope(weights), weights, k - 1)
    rule = AdaptiveBacktracking(
        decrease=draw(st.floats(0.01, 1.0)),
        increase=draw(st.floats(1.01, 5.0)),
        max_increases=draw(st.integers(0, 64)),
        form=draw(st.sampled_from(FORMS)),
        slack=draw(st.one_of(st.just("noise"), st.floats(0, 10))),
    )
    memory = draw(st.one_of(st.none(), st.floats(1e-9, 1e9)))
    return objective, weights, direction, rule, memory, draw(st.integers(1, 50))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(situations())
def test_no_step_is_worse_than_none_or_the_fallback(situation):
    objective, weights, direction, rule, memory, iteration = situation
    step = rule.choose(objective, weights, direction, memory, iteration)
    assert 0 <= step.gamma <= step.direction.gamma_max
    assert step.memory is None or 0 < step.memory < np.inf
    before = objective.value(weights)
    value = before + change(objective, weights, step)
    rounding = 1e-10 * (
        1 + np.abs(objective.ratio).max() + np.abs(objective.offset).max()
    )
    assert value <= before + rounding
    forward = frank_wolfe_direction(objective.slope(weights), weights, len(weights) - 1)
    for line in (direction, forward):
        gamma = min(2 / (iteration + 2), line.gamma_max)
        fallback = objective.value(apply(weights, line, gamma))
        if direction.gap > 0:
            assert value <= fallback + rounding
        else:
            assert step.gamma == 0


class Rising:
    """Every step raises the objective by 0.015 nats, of which 0.01 may be noise."""

    def slope(self, weights):
        return np.array([0.0, -1e-6])

    def difference(self, moved, weights):
        return 0.015, 0.01


def test_two_standard_errors_of_noise_are_slack():
    objective, weights = Rising(), np.array([1.0, 0.0])
    direction = frank_wolfe_direction(objective.slope(weights), weights, 1)
    noisy = AdaptiveBacktracking(safeguard=False, max_increases=2)
    exact = AdaptiveBacktracking(safeguard=False, max_increases=2, slack=0.0)
    assert noisy.choose(objective, weights, direction).branch == "adaptive"
    assert exact.choose(objective, weights, direction).branch == "fallback"
