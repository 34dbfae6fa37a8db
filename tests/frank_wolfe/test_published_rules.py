"""The published pseudo-code, written out anew, against the package, step by step.

Dresdner et al. 2021: Algorithm 1 with Algorithm 2, the corrective variants of appendix
A, the predefined step (equation 5), line search (equation 7) and all weights at once.
Component k of the table is what the greedy step of iteration k finds. Expectations are
sums over eight cells, or means over draws of Gaussians in two and in thirty dimensions,
where components hardly see each other.
"""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

from skboost.frank_wolfe import (
    DIRECTIONS,
    AdaptiveBacktracking,
    LineSearch,
    Predefined,
    WeightObjective,
    apply,
    minimise_on_simplex,
)

N_COMPONENTS = 6
TAU, ETA, EPSILON, IMAX = 2.0, 2.0, 0.01, 10
# Curvatures before the first search; from small ones ten increases do not suffice.
INITIAL = (1.0, 0.01, 0.001)
SHARES = [0.3, 0.0, 0.1, 0.3, 0.2, 0.1]


class World:
    """Log densities of components, target and draws, and expectations over points.

    An integral is a mean over points of the integrand over the density of the points,
    as importance sampling has it. For cells that density is one over their number.
    """

    def __init__(self, log_s, log_p, log_r):
        self.log_s, self.log_p, self.log_r = log_s, log_p, log_r

    def log_density(self, alpha):
        return logsumexp(self.log_s, b=alpha, axis=1)

    def integral(self, log_density, values):
        """Of a density times values; a density of zero has no part in it."""
        share = np.exp(log_density - self.log_r)
        return float(np.mean(np.where(share > 0, share * values, 0.0)))

    def divergence(self, alpha, log_p=None):
        """KL(q || p), or from another density, less the error of the integral of q."""
        log_q, log_p = self.log_density(alpha), self.log_p if log_p is None else log_p
        return self.integral(log_q, log_q - log_p - 1.0) + 1.0

    def slopes(self, alpha):
        """Inner products of the components with the gradient of the divergence."""
        gradient = self.log_density(alpha) - self.log_p
        return np.array([self.integral(s, gradient) for s in self.log_s.T])

    def size(self, alpha, new):
        """KL(s || q), the integrals of both densities taken as they are."""
        log_q, vertex = self.log_density(alpha), np.eye(N_COMPONENTS)[new]
        return self.divergence(vertex, log_q) - 1.0 + self.integral(log_q, 1.0)

    def table(self, n):
        log_ratio = self.log_s[:, :n] - self.log_r[:, None]
        log_ratio_p = (self.log_r - self.log_p)[:, None]
        return WeightObjective(log_ratio, np.exp(log_ratio) * log_ratio_p)


def cells():
    """Components that overlap or hardly, in the order found, and the target."""
    at = np.arange(8)
    shapes = [(1.0, 0.6), (7.0, 0.5), (2.0, 1.0), (4.5, 0.5), (0.0, 0.7), (3.5, 1.0)]
    table = np.array([np.exp(-0.5 * ((at - m) / s) ** 2) for m, s in shapes])
    table = np.maximum(table, 1e-12)
    table /= table.sum(axis=1, keepdims=True)
    return World(np.log(table.T), np.log(SHARES @ table), np.full(8, -np.log(8)))


def gaussians(dim):
    rng = np.random.default_rng(dim)
    means = rng.standard_normal((N_COMPONENTS, dim))
    stds = np.exp(0.3 * rng.standard_normal((N_COMPONENTS, dim)))
    z = means[:, None] + stds[:, None] * rng.standard_normal((N_COMPONENTS, 50, dim))
    z = z.reshape(-1, 1, dim)
    log_s = norm.logpdf(z, means, stds).sum(axis=-1)
    log_p = logsumexp(log_s, b=SHARES, axis=1)
    return World(log_s, log_p, logsumexp(log_s, axis=1) - np.log(N_COMPONENTS))


WORLDS = {"cells": cells(), "2-D": gaussians(2), "30-D": gaussians(30)}


@pytest.fixture(params=WORLDS)
def world(request):
    return WORLDS[request.param]


def corrected(world, variant, alpha, new):
    """v_t by its weights, and gamma_max (appendix A)."""
    slopes = world.slopes(alpha)
    level = float(slopes @ alpha)
    present = [k for k in range(len(alpha)) if alpha[k] > 0]
    worst = max(present, key=lambda k: slopes[k])
    vertex = np.eye(len(alpha))
    if variant == "pairwise":
        return vertex[worst], alpha[worst]
    forward, backward = level - slopes[new], slopes[worst] - level
    if variant == "none" or forward >= backward or len(present) == 1:
        return alpha, 1.0
    away = vertex[new] - alpha + vertex[worst]
    return away, alpha[worst] / (1.0 - alpha[worst])


def find_step_size(world, alpha, d, curvature, gamma_max, t, size):
    """Algorithm 2, line by line; gamma stays in [0, gamma_max] where it does not say.

    Also returns how the loop was left.
    """
    g = -float(world.slopes(alpha) @ d)
    curvature = curvature / ETA
    # A direction that promises nothing gives no step.
    gamma = min(max(g, 0.0) / (curvature * size), 1.0, gamma_max)
    i = 0
    while world.divergence(moved(alpha, gamma, d)) > (
        world.divergence(alpha)
        - gamma * g
        + 0.5 * curvature * size * gamma**2
        + 2.0 * EPSILON / t**2
    ):
        if i > IMAX:
            return min(2.0 / (t + 2.0), gamma_max), curvature, "fallback"
        curvature = TAU * curvature
        gamma = min(max(g, 0.0) / (curvature * size), gamma_max)
        i = i + 1
    return gamma, curvature, "adaptive" if gamma > 0 else "zero"


def moved(alpha, gamma, d):
    return np.maximum(alpha + gamma * d, 0.0)


def predefined(world, alpha, d, curvature, gamma_max, t, size):
    return min(2.0 / (t + 2.0), gamma_max), None, "predefined"


def line_search(world, alpha, d, curvature, gamma_max, t, size):
    low, high = 0.0, gamma_max
    for _ in range(60):
        third = (high - low) / 3.0
        if world.divergence(moved(alpha, low + third, d)) < world.divergence(
            moved(alpha, high - third, d)
        ):
            high -= third
        else:
            low += third
    return low, None, "line-search"


# The second of them is of no use.
START = np.array([0.8, 0.2, 0.0, 0.0, 0.0, 0.0])
STEPS = (2, 3, 4, 5)


def published(
    world, variant, find, curvature=None, lipschitz=False, alpha=START, steps=STEPS
):
    """Weights, curvature and branch of every iteration of Algorithm 1."""
    trace = []
    for t in steps:
        s = np.eye(N_COMPONENTS)[t]
        v, gamma_max = corrected(world, variant, alpha, t)
        size = world.size(alpha, t) if lipschitz else 1.0
        d = s - v
        gamma, curvature, branch = find(world, alpha, d, curvature, gamma_max, t, size)
        alpha = moved(alpha, gamma, d)
        trace.append((alpha, curvature, branch))
    return trace


def packaged(world, variant, rule, alpha=START, steps=STEPS):
    """The same from the package, on a table of the same points."""
    memory, trace = None, []
    for t in steps:
        table, weights = world.table(t + 1), alpha[: t + 1]
        direction = DIRECTIONS[variant](table.slope(weights), weights, t)
        step = rule.choose(table, weights, direction, memory, t)
        alpha = np.zeros(N_COMPONENTS)
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


@pytest.mark.parametrize("variant", DIRECTIONS)
def test_algorithm_2(world, variant):
    for initial in INITIAL:
        trace = published(world, variant, find_step_size, initial)
        agree(trace, packaged(world, variant, backtracking(initial)))


def test_algorithm_2_in_the_lipschitz_form(world):
    for initial in INITIAL:
        trace = published(world, "none", find_step_size, initial, lipschitz=True)
        agree(trace, packaged(world, "none", backtracking(initial, form="lipschitz")))


@pytest.mark.parametrize("variant", DIRECTIONS)
def test_both_branches_are_taken(variant):
    cells = WORLDS["cells"]
    traces = [published(cells, variant, find_step_size, first) for first in INITIAL]
    branches = {branch for trace in traces for *_, branch in trace}
    assert branches == {"adaptive", "fallback"}


@pytest.mark.parametrize("variant", DIRECTIONS)
def test_predefined_steps(world, variant):
    agree(published(world, variant, predefined), packaged(world, variant, Predefined()))


@pytest.mark.parametrize(
    ("variant", "new"), [*zip(DIRECTIONS, (3, 4, 5), strict=True)], ids=str
)
def test_line_search(world, variant, new):
    # One step at a time: after an exact step two components are equally bad, and
    # rounding decides which is the worst.
    alpha = np.array([0.5, 0.3, 0.2, 0.0, 0.0, 0.0])
    one = published(world, variant, line_search, alpha=alpha, steps=[new])
    # Comparing values finds a minimiser to the root of their rounding.
    agree(one, packaged(world, variant, LineSearch(), alpha=alpha, steps=[new]), 1e-6)


def test_the_safeguarded_rule_takes_the_best_of_all_that_were_tried(world):
    alpha = np.array([0.5, 0.3, 0.2, 0.0, 0.0, 0.0])
    for t in (3, 4, 5):
        d = np.eye(N_COMPONENTS)[t] - alpha
        gap = -float(world.slopes(alpha) @ d)
        # Two standard errors are slack, but no trial that rises passes.
        curvatures = 0.5 * 2.0 ** np.arange(65)
        gammas = np.append(np.minimum(gap / curvatures, 1.0), 2.0 / (t + 2.0))
        values = np.array(
            [world.divergence(moved(alpha, gamma, d)) for gamma in gammas]
        )
        ((after, _, branch),) = packaged(
            world, "none", AdaptiveBacktracking(slack=0.0), alpha=alpha, steps=[t]
        )
        if gap <= 0.0:
            assert branch == "zero"
            continue
        # A search ends with the first trial that passes: what it has not tried may be
        # better, but nothing that it has.
        tested = values[:-1] - world.divergence(alpha) <= np.minimum(
            -gammas[:-1] * gap + 0.5 * curvatures * gammas[:-1] ** 2, 0.0
        )
        tried = np.append(values[: np.argmax(tested) + 1], values[-1])
        assert world.divergence(after) <= tried.min() + 1e-10


def test_all_weights_at_once(world):
    def of_logits(z):
        return world.divergence(np.exp(z - logsumexp(z)))

    weights, gap = minimise_on_simplex(world.table(N_COMPONENTS), START)
    best = minimize(of_logits, np.zeros(N_COMPONENTS), method="BFGS", tol=1e-7)
    assert gap <= 1e-10
    assert abs(world.divergence(weights) - best.fun) < 1e-7
    slopes = world.slopes(weights)
    np.testing.assert_allclose(slopes[weights > 1e-6], slopes @ weights, atol=1e-6)


def test_the_variants_differ():
    cells = WORLDS["cells"]
    ends = [published(cells, v, find_step_size, 1.0)[-1][0] for v in DIRECTIONS]
    for k in range(3):
        assert not np.allclose(ends[k], ends[k - 1], atol=1e-3)


# In standard deviations of the mixture: at sixty its density is zero in floating point.
@pytest.mark.parametrize(("dim", "far"), [(5, 20.0), (20, 60.0), (100, 60.0)])
def test_slope_toward_a_far_component_is_that_of_many_draws(dim, far):
    rng = np.random.default_rng(dim)
    away = rng.standard_normal(dim)
    means = np.array([np.zeros(dim), far * away / np.linalg.norm(away)])
    stds = np.array([[1.0], [0.5]])

    def log_s(z):
        return norm.logpdf(z[:, None], means, stds).sum(axis=-1)

    def log_p(z):
        return norm.logpdf(z, means[1] + 0.2, 2.0).sum(axis=-1)

    draws = means[:, None] + stds[:, None] * rng.standard_normal((2, 400, dim))
    z = np.concatenate([*draws])
    log_r = logsumexp(log_s(z), axis=1, b=0.5)
    log_ratio = log_s(z) - log_r[:, None]
    offset = np.exp(log_ratio) * (log_r - log_p(z))[:, None]
    table, alone = WeightObjective(log_ratio, offset), np.array([1.0, 0.0])
    long = means[1] + 0.5 * rng.standard_normal((5_000, dim))
    values = log_s(long)[:, 0] - log_p(long)
    error = values.std() * np.sqrt(1 / len(long) + 1 / len(draws[1]))
    assert values.mean() < -46.0
    assert abs(table.slope(alone)[1] - values.mean()) < 4.0 * error
    # The divergence of the component from the mixture, in closed form.
    square = 0.25 + (means[1] - means[0]) ** 2
    exact = 0.5 * (square - 1.0 - np.log(0.25)).sum()
    assert table.divergence(1, alone) == pytest.approx(exact, rel=0.05)
