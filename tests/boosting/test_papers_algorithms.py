"""The published pseudo-code, recomputed beside the engine step by step.

Locatello et al. 2018 and Dresdner et al. 2021, Algorithm 1 in both, and Campbell and
Li 2019, Algorithm 1: one start, no refinement, no early stopping.
"""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize, minimize_scalar

from skboost.families import Gaussian
from skboost.frank_wolfe import as_step_size
from skboost.objectives import ResidualGain
from skboost.strategies import AdaptiveBacktracking, StepSize

N_STEPS = 5
SLACK = 0.01
PUBLISHED = AdaptiveBacktracking(safeguard=False, max_increases=10, slack=SLACK)


def lopsided(theta):
    """Two normals of different width that overlap."""
    x = theta[:, 0]
    narrow, wide = -0.5 * ((x + 2.0) / 0.6) ** 2, -0.5 * (x - 1.0) ** 2
    return anp.logaddexp(narrow + np.log(0.5), wide + np.log(0.7))


class Overheard(StepSize):
    """A rule that keeps what it was asked about and what it said."""

    def __init__(self, rule):
        self.rule, self.calls = rule, []
        self.monotone = rule.monotone

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        step = self.rule.choose(objective, weights, direction, memory, iteration)
        self.calls.append((objective, weights, iteration, step))
        return step


class Watched(ResidualGain):
    """The unstopped residual ELBO that keeps its problems and their solutions."""

    solved = ()

    def candidate(self, problem, x, value):
        self.solved = (*self.solved, (problem, x, value))
        return super().candidate(problem, x, value)


def slopes_of(table, weights):
    """``E_{s_k}[ln q - log joint]`` for every component, from the table's columns."""
    log_q = np.log(np.maximum(table.ratio @ weights, 1e-20))
    return np.mean(table.ratio * log_q[:, None] + table.offset, axis=0)


def value_of(table, weights):
    """The divergence of a mixture from the target, up to a constant."""
    q = np.maximum(table.ratio @ weights, 1e-20)
    return np.mean(q * np.log(q) - q + table.offset @ weights)


def corrected(corrective, slope, weights):
    """v_t as weights over all components, and gamma_max; s_t is the last of them.

    Dresdner et al. 2021, Algorithm 1, line 4, and appendix A.
    """
    used = np.flatnonzero(weights)
    worst = used[np.argmax(slope[used])]
    new, old = np.zeros(len(weights)), np.zeros(len(weights))
    new[-1] = old[worst] = 1.0
    if corrective == "pairwise":
        return new - old, weights[worst]
    if corrective == "away" and len(used) > 1:
        toward, away = slope @ (weights - new), slope @ (old - weights)
        if toward < away:
            return weights - old, weights[worst] / (1.0 - weights[worst])
    return new - weights, 1.0


def best_step(table, weights, d, gamma_max):
    def value(gamma):
        return value_of(table, weights + gamma * d)

    bounds, options = (0.0, gamma_max), {"xatol": 1e-10}
    found = minimize_scalar(value, bounds=bounds, method="bounded", options=options)
    return min((0.0, found.x, gamma_max), key=value)


def backtracked(table, weights, d, gamma_max, t, curvature):
    """Dresdner et al. 2021, Algorithm 2: the step, and the curvature handed on."""
    gap, start = -slopes_of(table, weights) @ d, value_of(table, weights)
    curvature = 0.5 * curvature
    for i in range(12):
        gamma = min(gap / curvature, 1.0, gamma_max)
        model = start - gamma * gap + 0.5 * curvature * gamma**2
        if value_of(table, weights + gamma * d) <= model + 2.0 * SLACK / t**2:
            return max(gamma, 0.0), curvature
        if i < 11:
            curvature = 2.0 * curvature
    return min(2.0 / (t + 2.0), gamma_max), curvature


@pytest.mark.parametrize("corrective", ["none", "away", "pairwise"])
@pytest.mark.parametrize("step_size", ["predefined", "line-search", PUBLISHED, 0.3])
@pytest.mark.parametrize("entropy_weight", [1.0, None], ids=["P0", "P1"])
def test_algorithm_1_of_boosting(engine, corrective, step_size, entropy_weight):
    rule = Overheard(as_step_size(step_size))
    objective = Watched(entropy_weight, early_stopping=False)
    boosting = engine(
        lopsided, objective=objective, step_size=rule, corrective=corrective,
        refine=False, tol=0.0, starts=np.ones((1, 1)),
    )  # fmt: skip
    state, _ = boosting.init()
    curvature = 1.0
    for t in range(1, N_STEPS + 1):
        before = state
        state, info = boosting.step(before)
        table, weights, iteration, _ = rule.calls[-1]
        assert iteration == t
        assert_allclose(weights, np.append(before.mixture.weights, 0.0))
        # Lines 4 to 6: the direction, the step, and the new weights.
        d, gamma_max = corrected(corrective, slopes_of(table, weights), weights)
        if step_size == "line-search":
            gamma = best_step(table, weights, d, gamma_max)
        elif step_size is PUBLISHED:
            gamma, curvature = backtracked(table, weights, d, gamma_max, t, curvature)
        else:
            gamma = 2.0 / (t + 2.0) if step_size == "predefined" else step_size
        gamma = min(gamma, gamma_max)
        atol = 1e-5 if step_size == "line-search" else 1e-12
        # Steps that minimise are refused where they lose on fresh draws.
        assert info.kind != "rejected" or (rule.monotone and t > 1)
        if info.kind != "rejected":
            moved = weights + gamma * d
            after = np.zeros(len(weights))
            after[kept_columns(before, state, objective)] = state.mixture.weights
            assert_allclose(after, moved, atol=atol)
    assert len(objective.solved) == N_STEPS


def kept_columns(before, after, objective):
    """Which of the old components and the new one are left."""
    problem, x, _ = objective.solved[-1]
    columns = [params for _, params in before.mixture.components]
    columns.append(problem.unpack(x))
    return [
        next(k for k, p in enumerate(columns) if np.array_equal(p, params))
        for _, params in after.mixture.components
    ]


@pytest.mark.parametrize("entropy_weight", [1.0, None], ids=["P0", "P1"])
def test_the_component_maximises_the_residual_elbo(engine, entropy_weight):
    objective = Watched(entropy_weight, early_stopping=False)
    boosting = engine(
        lopsided, objective=objective, step_size="predefined", corrective="none",
        refine=False, tol=0.0, starts=np.ones((1, 1)),
    )  # fmt: skip
    state, _ = boosting.init()
    for t in range(1, N_STEPS + 1):
        mixture = state.mixture
        state, _ = boosting.step(state)
        problem, x, value = objective.solved[-1]
        weight = 1.0 if entropy_weight else 1.0 / np.sqrt(t + 1.0)

        def relbo(z, problem=problem, mixture=mixture, weight=weight):
            # Line 3, and equation 9 of Locatello et al., on the draws of the search.
            family, params = problem.family, problem.unpack(z)
            theta = family.transport(params, problem.base_draws)
            residual = lopsided(theta) - mixture.log_density(theta)
            return residual.mean() + weight * family.entropy(params)

        assert_allclose(relbo(x), value, rtol=1e-9)
        # From where the solver ended no other solver finds anything better.
        bounds = [(-limit, limit) for limit in problem.limits]
        best = minimize(lambda z: -relbo(z), x, bounds=bounds, method="Nelder-Mead")
        assert value > -best.fun - 1e-3
        assert value > relbo(problem.start) or np.array_equal(x, problem.start)
        assert np.array_equal(state.mixture.components[-1][1], problem.unpack(x))


# --- UBVI


def skewed(theta):
    x = theta[:, 0]
    return -0.5 * x**2 - anp.log1p(anp.exp(-3.0 * x))


def two_far(theta):
    x = theta[:, 0]
    return anp.logaddexp(skewed(theta), -0.5 * (x - 20.0) ** 2)


@pytest.fixture
def roots(engine):
    """``roots(density, starts, refine)``: an engine under the Hellinger distance."""

    def make(density, starts, refine=False):
        return engine(
            density,
            objective="hellinger",
            refine=refine,
            n_draws=1024,
            tol=0.0,
            starts=np.array(starts),
        )

    return make


def test_the_first_root_has_the_largest_overlap(roots):
    state, _ = roots(skewed, [[0.0]]).init()
    z = np.linspace(-15, 15, 6001)[:, None]
    family = Gaussian("full")

    def overlap(params):
        both = skewed(z) + family.log_density(z, params)
        return np.trapezoid(np.exp(0.5 * both), z[:, 0])

    best = minimize(lambda p: -overlap(p), np.zeros(2))
    ((_, params),) = state.mixture.components
    assert overlap(params) > -best.fun * (1.0 - 1e-4)


def test_several_first_roots_stay_where_they_are_without_refinement(roots):
    plain, moved = (
        roots(two_far, [[0.0], [20.0]], refine).init()[0] for refine in (False, True)
    )
    opened = plain.iterate.roots.params
    assert len(opened) == 2
    assert not np.array_equal(opened, moved.iterate.roots.params)
