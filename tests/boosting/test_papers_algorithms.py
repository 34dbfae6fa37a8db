"""The published pseudo-code, recomputed beside the engine step by step.

Locatello et al. 2018 and Dresdner et al. 2021, Algorithm 1 in both, and Campbell and
Li 2019, Algorithm 1: one start, no refinement, no early stopping. That directions and
step sizes are the published ones is tested in ``tests/frank_wolfe``.
"""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from skboost.boosting import _root_combination
from skboost.families import FullGaussian
from skboost.frank_wolfe import DIRECTIONS, as_step_size, best_coefficients
from skboost.objectives import ResidualGain
from skboost.strategies import StepSize

from .conftest import normal_mixture

N_STEPS = 3


# Two normals of different width that overlap.
LOPSIDED = normal_mixture([-2.0, 1.0], [0.6, 1.0], [0.3, 0.7])


class Overheard(StepSize):
    """A rule that keeps what it was asked about and what it said."""

    def __init__(self, rule):
        self.rule, self.calls = rule, []
        self.monotone = rule.monotone

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        step = self.rule.choose(objective, weights, direction, memory, iteration)
        self.calls.append((objective, weights, direction, memory, iteration, step))
        return step


class Watched(ResidualGain):
    """The unstopped residual ELBO that keeps its problems and their solutions."""

    solved = ()

    def candidate(self, problem, x, value):
        self.solved = (*self.solved, (problem, x, value))
        return super().candidate(problem, x, value)


def kept_columns(before, after, objective):
    """Which of the old components and the new one are left."""
    problem, x, _ = objective.solved[-1]
    columns = [component.params for component in before.mixture.components]
    columns.append(problem.unpack(x).params)
    return [
        next(k for k, p in enumerate(columns) if np.array_equal(p, component.params))
        for component in after.mixture.components
    ]


@pytest.mark.parametrize(
    ("step_size", "corrective"),
    [
        ("predefined", "none"),
        ("line-search", "away"),
        ("adaptive", "pairwise"),
        pytest.param(0.3, "none", marks=pytest.mark.slow),
    ],
)
def test_the_weights_take_the_step_of_the_rule(engine, step_size, corrective):
    rule = Overheard(as_step_size(step_size))
    objective = Watched(early_stopping=False)
    boosting = engine(
        LOPSIDED, objective=objective, step_size=rule, corrective=corrective,
        refine=False, tol=0.0, starts=np.ones((1, 1)), search_modes=True,
    )  # fmt: skip
    state, _ = boosting.init()
    memory = None
    for t in range(1, N_STEPS + 1):
        before = state
        state, info = boosting.step(before)
        table, weights, direction, *asked, step = rule.calls[-1]
        assert asked == [memory, t]
        assert_allclose(weights, np.append(before.mixture.weights, 0.0))
        # Line 4: the direction for the slope there, with the new component as s_t.
        slope = table.slope(weights)
        expected = DIRECTIONS[corrective](slope, weights, len(weights) - 1)
        assert_allclose(direction.d, expected.d)
        assert direction.gamma_max == expected.gamma_max
        # Steps that minimise are refused where they lose on fresh draws.
        assert info.move.kind != "rejected" or (rule.monotone and t > 1)
        if info.move.kind != "rejected":
            after = np.zeros(len(weights))
            after[kept_columns(before, state, objective)] = state.mixture.weights
            moved = weights + step.gamma * step.direction.d
            assert_allclose(after, moved, atol=1e-12)
            memory = step.memory
    assert len(objective.solved) == N_STEPS


def in_many(dim):
    """`LOPSIDED` in the first coordinate, normal ones of several widths beside it."""
    stds = np.linspace(0.5, 2.0, dim)[1:]
    log_density, gradient = LOPSIDED

    def density(theta):
        rest = -0.5 * np.sum((theta[:, 1:] / stds) ** 2, axis=1)
        return log_density(theta[:, :1]) + rest

    def score(theta):
        return np.column_stack([gradient(theta[:, :1]), -theta[:, 1:] / stds**2])

    return density, score


# From starts that are off, this objective has no upper end.
@pytest.mark.filterwarnings("ignore::skboost.exceptions.DegenerateComponentWarning")
@pytest.mark.parametrize(("entropy_weight", "dim"), [(1.0, 1), (None, 4)], ids=str)
def test_the_component_maximises_the_residual_elbo(engine, entropy_weight, dim):
    objective, density = Watched(entropy_weight, early_stopping=False), in_many(dim)
    boosting = engine(
        density, dim, objective=objective, step_size="predefined", corrective="none",
        family="gaussian-diag", refine=False, tol=0.0,
        starts=np.ones((1, dim)),
    )  # fmt: skip
    state, _ = boosting.init()
    for t in range(1, N_STEPS + 1):
        mixture = state.mixture
        state, _ = boosting.step(state)
        problem, x, value = objective.solved[-1]
        weight = 1.0 if entropy_weight else 1.0 / np.sqrt(t + 1.0)

        def relbo(z, problem=problem, mixture=mixture, weight=weight):
            # Line 3, and equation 9 of Locatello et al., on the draws of the search.
            component = problem.unpack(z)
            theta = component.draws(problem.base_draws)
            residual = density[0](theta) - mixture.log_density(theta)
            return residual.mean() + weight * component.entropy()

        assert_allclose(relbo(x), value, rtol=1e-9)
        # From where the solver ended no other solver finds anything better.
        bounds = [(-limit, limit) for limit in problem.limits]
        method = "L-BFGS-B" if dim > 2 else "Nelder-Mead"
        best = minimize(lambda z: -relbo(z), x, bounds=bounds, method=method)
        assert value > -best.fun - 1e-3
        assert value > relbo(problem.start) or np.array_equal(x, problem.start)
        assert np.array_equal(
            state.mixture.components[-1].params, problem.unpack(x).params
        )


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

    def make(density, starts, refine=False, n_draws=1024):
        settings = {"objective": "hellinger", "n_draws": n_draws, "tol": 0.0}
        return engine(density, refine=refine, starts=np.array(starts), **settings)

    return make


def test_the_first_root_has_the_largest_overlap(roots):
    state, _ = roots(skewed, [[0.0]]).init()
    z = np.linspace(-15, 15, 6001)[:, None]
    family = FullGaussian()

    def overlap(params):
        both = skewed(z) + family.log_density(z, params)
        return np.trapezoid(np.exp(0.5 * both), z[:, 0])

    best = minimize(lambda p: -overlap(p), np.zeros(2))
    (component,) = state.mixture.components
    assert overlap(component.params) > -best.fun * (1.0 - 1e-4)


def test_several_first_roots_stay_where_they_are_without_refinement(roots):
    plain, moved = (
        roots(two_far, [[0.0], [20.0]], refine, 64).init()[0]
        for refine in (False, True)
    )
    opened = plain.iterate.roots.params
    assert len(opened) == 2
    assert not np.array_equal(opened, moved.iterate.roots.params)


@pytest.mark.parametrize("dim", [2, 5])
def test_all_roots_have_the_published_coefficients(engine, dim, monkeypatch):
    """Algorithm 1, lines 7 to 9: Z, beta and lambda, from Gaussians written out."""
    solved = []

    def heard(gram, overlaps):
        solved.append((gram, overlaps, best_coefficients(gram, overlaps)))
        return solved[-1][2]

    monkeypatch.setattr(_root_combination, "best_coefficients", heard)
    boosting = engine(
        in_many(dim), dim, objective="hellinger", family="gaussian-diag", refine=False,
        starts=np.ones((1, dim)), n_draws=128, tol=0.0,
    )  # fmt: skip
    state, _ = boosting.init()
    for _ in range(N_STEPS):
        roots = state.iterate.roots
        state, _ = boosting.step(state)
    assert len(solved) >= N_STEPS
    for gram, d, found in solved:
        inverse = np.linalg.inv(gram)
        best = minimize(
            lambda b, inverse=inverse, d=d: (
                b @ inverse @ b + 2.0 * b @ inverse @ d,
                2.0 * inverse @ (b + d),
            ),
            np.zeros(len(d)), jac=True, bounds=[(0.0, None)] * len(d), tol=1e-14,
        )  # fmt: skip
        weights = inverse @ (best.x + d)
        assert_allclose(found, weights / np.sqrt(weights @ gram @ weights), atol=1e-5)
    # The Gram matrix of the last one that was kept, by the formula for Gaussians.
    means, stds = roots.params[:, :dim], np.exp(roots.params[:, dim:])
    squares = stds[:, None] ** 2 + stds[None] ** 2
    apart = (means[:, None] - means[None]) ** 2 / squares
    gram = np.exp(
        0.5 * np.log(2.0 * stds[:, None] * stds[None] / squares) - 0.25 * apart
    ).prod(axis=-1)
    assert_allclose(roots.gram, gram, rtol=1e-9)
