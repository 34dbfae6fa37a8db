"""The published pseudo-code, written out anew, against the package, step by step.

Dresdner et al. 2021: Algorithm 1 with Algorithm 2, the corrective variants of appendix
A, the predefined step (equation 5) and line search (equation 7). The approximation is
a mixture over eight cells, the target a distribution on them, and every expectation a
sum. Component k of the table is what the greedy step of iteration k finds.
"""

import numpy as np
import pytest

from skboost.frank_wolfe import (
    DIRECTIONS,
    AdaptiveBacktracking,
    LineSearch,
    Predefined,
    WeightObjective,
    apply,
)

N_CELLS = 8
TAU, ETA, EPSILON, IMAX = 2.0, 2.0, 0.01, 10
# Curvatures before the first search; from small ones ten increases do not suffice.
INITIAL = (1.0, 0.01, 0.001)


def distributions():
    """Components that overlap or hardly, in the order found, and the target."""
    cells = np.arange(N_CELLS)
    shapes = [(1.0, 0.6), (7.0, 0.5), (2.0, 1.0), (4.5, 0.5), (0.0, 0.7), (3.5, 1.0)]
    table = np.array([np.exp(-0.5 * ((cells - m) / s) ** 2) for m, s in shapes])
    table = np.maximum(table, 1e-12)
    table /= table.sum(axis=1, keepdims=True)
    return table, np.array([0.3, 0.0, 0.1, 0.3, 0.2, 0.1]) @ table


COMPONENTS, TARGET = distributions()


def divergence(q, p):
    return float(np.sum(q * np.log(q / p)))


def corrected(variant, alpha, new):
    """v_t as a distribution, its weights, and gamma_max (appendix A)."""
    q = alpha @ COMPONENTS
    gradient = np.log(q / TARGET)
    present = [k for k in range(len(alpha)) if alpha[k] > 0]
    worst = max(present, key=lambda k: COMPONENTS[k] @ gradient)
    vertex = np.eye(len(alpha))
    if variant == "pairwise":
        return vertex[worst], alpha[worst]
    forward = (COMPONENTS[new] - q) @ -gradient
    backward = (q - COMPONENTS[worst]) @ -gradient
    if variant == "none" or forward >= backward or len(present) == 1:
        return alpha, 1.0
    away = vertex[new] - alpha + vertex[worst]
    return away, alpha[worst] / (1.0 - alpha[worst])


def find_step_size(q, d, curvature, gamma_max, t, size):
    """Algorithm 2, line by line; gamma stays in [0, gamma_max] where it does not say.

    Also returns how the loop was left.
    """
    g = -np.sum(np.log(q / TARGET) * d)
    curvature = curvature / ETA
    gamma = min(g / (curvature * size), 1.0, gamma_max)
    i = 0
    while divergence(q + gamma * d, TARGET) > (
        divergence(q, TARGET)
        - gamma * g
        + 0.5 * curvature * size * gamma**2
        + 2.0 * EPSILON / t**2
    ):
        if i > IMAX:
            return min(2.0 / (t + 2.0), gamma_max), curvature, "fallback"
        curvature = TAU * curvature
        gamma = min(g / (curvature * size), gamma_max)
        i = i + 1
    return gamma, curvature, "adaptive"


def predefined(q, d, curvature, gamma_max, t, size):
    return min(2.0 / (t + 2.0), gamma_max), None, "predefined"


def line_search(q, d, curvature, gamma_max, t, size):
    low, high = 0.0, gamma_max
    for _ in range(200):
        third = (high - low) / 3.0
        if divergence(q + (low + third) * d, TARGET) < divergence(
            q + (high - third) * d, TARGET
        ):
            high -= third
        else:
            low += third
    return low, None, "line-search"


# The second of them is of no use.
START = np.array([0.8, 0.2, 0.0, 0.0, 0.0, 0.0])


def published(
    variant, find, curvature=None, lipschitz=False, alpha=START, steps=(2, 3, 4, 5)
):
    """Weights, curvature and branch of every iteration of Algorithm 1."""
    trace = []
    for t in steps:
        s = np.eye(len(COMPONENTS))[t]
        v, gamma_max = corrected(variant, alpha, t)
        q, d = alpha @ COMPONENTS, (s - v) @ COMPONENTS
        size = divergence(COMPONENTS[t], q) if lipschitz else 1.0
        gamma, curvature, branch = find(q, d, curvature, gamma_max, t, size)
        alpha = alpha + gamma * (s - v)
        trace.append((alpha, curvature, branch))
    return trace


def packaged(variant, rule, alpha=START, steps=(2, 3, 4, 5)):
    """The same from the package, on a table whose every draw is one cell."""
    ratio = COMPONENTS.T * N_CELLS
    memory, trace = None, []
    for t in steps:
        log_ratio = (-np.log(N_CELLS) - np.log(TARGET))[:, None]
        table = WeightObjective(ratio[:, : t + 1], ratio[:, : t + 1] * log_ratio)
        weights = alpha[: t + 1]
        direction = DIRECTIONS[variant](table.slope(weights), weights, t)
        step = rule.choose(table, weights, direction, memory, t)
        alpha = np.zeros(len(COMPONENTS))
        alpha[: t + 1] = apply(weights, step.direction, step.gamma)
        memory = step.memory
        trace.append((alpha, memory, step.branch))
    return trace


def agree(trace, other, atol=1e-12):
    for t, (one, two) in enumerate(zip(trace, other, strict=True), start=1):
        np.testing.assert_allclose(one[0], two[0], atol=atol, err_msg=f"step {t}")
        assert one[2] == two[2]
        if one[1] is not None:
            assert two[1] == pytest.approx(one[1], rel=1e-9), f"step {t}"


def backtracking(initial, **options):
    values = {
        "decrease": 1 / ETA, "increase": TAU, "max_increases": IMAX, "slack": EPSILON,
        "initial": initial, "safeguard": False,
    }  # fmt: skip
    return AdaptiveBacktracking(**(values | options))


@pytest.mark.parametrize("initial", INITIAL)
@pytest.mark.parametrize("variant", DIRECTIONS)
def test_algorithm_2(variant, initial):
    trace = published(variant, find_step_size, initial)
    agree(trace, packaged(variant, backtracking(initial)))


@pytest.mark.parametrize("initial", INITIAL)
def test_algorithm_2_in_the_lipschitz_form(initial):
    trace = published("none", find_step_size, initial, lipschitz=True)
    agree(trace, packaged("none", backtracking(initial, form="lipschitz")))


@pytest.mark.parametrize("variant", DIRECTIONS)
def test_both_branches_are_taken(variant):
    traces = [published(variant, find_step_size, initial) for initial in INITIAL]
    branches = {branch for trace in traces for *_, branch in trace}
    assert branches == {"adaptive", "fallback"}


@pytest.mark.parametrize("variant", DIRECTIONS)
def test_predefined_steps(variant):
    agree(published(variant, predefined), packaged(variant, Predefined()))


@pytest.mark.parametrize("new", [3, 4, 5])
@pytest.mark.parametrize("variant", DIRECTIONS)
def test_line_search(variant, new):
    # One step at a time: after an exact step two components are equally bad, and
    # rounding decides which is the worst.
    alpha = np.array([0.5, 0.3, 0.2, 0.0, 0.0, 0.0])
    one = published(variant, line_search, alpha=alpha, steps=[new])
    # Comparing values finds a minimiser to the root of their rounding.
    agree(one, packaged(variant, LineSearch(), alpha=alpha, steps=[new]), 1e-6)


def test_the_variants_differ():
    ends = [published(variant, find_step_size, 1.0)[-1][0] for variant in DIRECTIONS]
    for k in range(3):
        assert not np.allclose(ends[k], ends[k - 1], atol=1e-3)
