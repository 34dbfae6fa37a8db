"""Components that do not overlap: everything is known in closed form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, brentq

from skboost.boosting import SimplexCombination
from skboost.frank_wolfe import (
    STEP_SIZES,
    NodeObjective,
    StochasticLineSearch,
    WeightObjective,
)
from skboost.frank_wolfe._step_size import exact_step

MASSES = np.array([0.36, 0.31, 0.13, 0.12, 0.05, 0.02, 0.01])
WEIGHTS = np.array([0.1, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1])


@pytest.fixture(params=[300.0, -800.0])
def objective(request):
    """Masses are known up to a factor, of any size."""
    return NodeObjective(np.log(MASSES) + request.param)


def test_it_is_the_table_with_one_draw_of_each(objective):
    n, log_z = len(MASSES), objective.log_masses
    log_ratio = np.log(np.maximum(n * np.eye(n), 1e-300))
    table = WeightObjective(log_ratio, n * np.diag(-np.log(n) - log_z))
    assert_allclose(objective.value(WEIGHTS), table.value(WEIGHTS))
    # Slopes are those of the simplex, and may differ by a constant.
    found, expected = objective.slope(WEIGHTS), table.slope(WEIGHTS)
    assert_allclose(found - found[0], expected - expected[0], atol=1e-9)


def test_derivatives_are_those_of_the_value(objective):
    slope = approx_fprime(WEIGHTS, objective.value, 1e-7)
    assert_allclose(objective.slope(WEIGHTS), slope, atol=1e-4)
    end = np.eye(7)[2]
    along = objective.along(WEIGHTS, end)
    for t in (0.0, 0.4, 1.0 - 1e-9):
        middle = (1.0 - t) * WEIGHTS + t * end
        assert along(t) == pytest.approx(objective.slope(middle) @ (end - WEIGHTS))


def test_toward_a_new_node_the_slope_is_a_divided_difference(objective):
    before = np.array([0.5, 0.5, 0, 0, 0, 0, 0])
    step = 0.01
    alone = lambda k: step * (np.log(step) - objective.log_masses[k])  # noqa: E731
    slope = objective.slope(before)
    for new in range(2, 7):
        assert slope[new] == pytest.approx(alone(new) / step)


def test_the_least_is_at_the_masses(objective):
    best = objective.best(np.ones(7, bool))
    assert_allclose(best, MASSES / MASSES.sum())
    # It is convex, and least where no direction on the simplex leads down.
    assert np.ptp(objective.slope(best)) < 1e-8
    kept = np.arange(7) < 3
    assert_allclose(objective.best(kept)[:3], MASSES[:3] / MASSES[:3].sum())
    assert objective.best(kept)[3:].sum() == 0.0


def curve(step_size, corrective, n, order=None):
    """Nats left after 1, ..., n iterations, and the gammas; nodes in their order or by
    the smallest slope."""
    objective = NodeObjective(np.log(MASSES))
    rule = SimplexCombination.of(step_size, corrective)
    weights, memory = np.eye(7)[0], None
    left, gammas = [objective.value(weights)], [1.0]
    for t in range(1, n):
        new = t if order else int(objective.slope(weights).argmin())
        weights, move = rule.moved(
            objective, weights, new, memory, t, lambda w: objective.best(w > 0)
        )
        memory = move.step_memory
        left.append(objective.value(weights))
        gammas.append(move.gamma)
    return np.array(left), np.array(gammas)


@pytest.mark.parametrize(
    ("step_size", "corrective"),
    [
        ("line-search", "away"),
        ("predefined", "fully-corrective"),
        ("adaptive", "fully-corrective"),
    ],
)
def test_line_search_is_fully_corrective(step_size, corrective):
    """The ELBO after t nodes is the logarithm of the sum of their masses."""
    left, gammas = curve(step_size, corrective, 7, order=True)
    total = np.cumsum(MASSES)
    assert_allclose(left, -np.log(total / total[-1]), atol=1e-9)
    if step_size == "line-search":
        # gamma = Z / (Z + exp ELBO).
        assert_allclose(gammas[1:], MASSES[1:] / total[1:], atol=1e-9)


@pytest.mark.parametrize(
    ("step_size", "corrective", "n", "most"),
    [
        ("predefined", "none", 40, 0.05),
        ("adaptive", "away", 20, 0.02),
        ("line-search", "pairwise", 20, 0.01),
    ],
)
def test_an_oracle_that_returns_converges(step_size, corrective, n, most):
    left, _ = curve(step_size, corrective, n)
    assert left[-1] < most
    # Where a step may lose, it goes on to less all the same.
    if step_size != "predefined":
        assert (np.diff(left) < 1e-12).all()


def test_distances_are_those_of_weights():
    objective = NodeObjective(np.log(MASSES))
    assert objective.divergence(1, WEIGHTS) == pytest.approx(-np.log(0.3))
    assert objective.divergence(0, np.eye(7)[1]) > 40.0
    assert objective.squared_distance(0, np.eye(7)[0]) == 0.0
    assert objective.squared_distance(0, np.eye(7)[1]) == 2.0


@pytest.mark.parametrize("form", ["curvature", "lipschitz", "distance"])
def test_every_rule_takes_it(form):
    rules = [STEP_SIZES[name]() for name in STEP_SIZES]
    rules[1].set_params(form=form)
    for rule in (*rules, StochasticLineSearch()):
        objective = NodeObjective(np.log(MASSES))
        combination = SimplexCombination.of(rule, "none")
        weights, move = combination.moved(objective, WEIGHTS, 0, None, 1)
        assert 0.0 <= move.gamma <= 1.0
        assert weights.sum() == pytest.approx(1.0)


def test_a_step_to_a_new_node_is_that_of_a_search():
    objective = NodeObjective(np.log([0.5, 0.3, 0.15, 1e-30]))
    weights, end = np.array([0.9, 0.1, 0.0, 0.0]), np.eye(4)
    derivative = objective.along(weights, end[2])
    found = exact_step(objective, weights, end[2])
    assert found == pytest.approx(brentq(derivative, 1e-12, 1.0), rel=1e-9)
    assert exact_step(objective, weights, end[3]) == 0.0
    assert objective.best_step(weights, end[1]) is None
