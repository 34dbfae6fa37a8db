import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.base import clone

from skboost.frank_wolfe import (
    DIRECTIONS,
    STEP_SIZES,
    AdaptiveBacktracking,
    Constant,
    LineSearch,
    Predefined,
    StepSize,
    StochasticLineSearch,
    apply,
    as_step_size,
    away_direction,
    frank_wolfe_direction,
    pairwise_direction,
)

from .conftest import PROBLEMS

RULES = {
    **{name: rule() for name, rule in STEP_SIZES.items()},
    "adaptive, no slack": AdaptiveBacktracking(slack=0.0),
    "adaptive, strict": AdaptiveBacktracking(decrease=0.9, increase=1.5),
}
# The error of a predefined step falls like 1 / t only.
TOLERANCE = {"predefined": 2e-2}


def pairs():
    """Every rule with every direction and every problem, in a third of all ways."""
    for i, name in enumerate(RULES):
        for j, corrective in enumerate(DIRECTIONS):
            of = [*PROBLEMS][(i + j) % len(PROBLEMS)]
            marks = [pytest.mark.slow] if ", " in name else []
            yield pytest.param(of, corrective, name, marks=marks)


@pytest.mark.parametrize(
    ("problem", "corrective", "name"), [*pairs()], indirect=["problem"]
)
def test_reaches_the_known_optimum(problem, descend, corrective, name):
    objective, optimum = problem.objective, problem.optimum
    strategy, rule = DIRECTIONS[corrective], RULES[name]
    start = np.full(len(optimum), 1 / len(optimum))
    n_iter = 400 if name in TOLERANCE else 100
    weights, _ = descend(objective, strategy, rule, n_iter, start)
    excess = objective.value(weights) - objective.value(optimum)
    assert excess < TOLERANCE.get(name, 3e-3)
    assert excess > -1e-12


@pytest.mark.parametrize("corrective", ["away", "pairwise"])
def test_corrective_steps_converge_linearly(problem, descend, corrective):
    strategy = DIRECTIONS[corrective]
    start = np.full(len(problem.optimum), 1 / len(problem.optimum))
    weights, _ = descend(problem.objective, strategy, LineSearch(), 200, start)
    np.testing.assert_allclose(weights, problem.optimum, atol=1e-5)
    np.testing.assert_array_equal(weights == 0, problem.optimum == 0)


def test_a_stochastic_line_search_is_near_the_exact_one(table):
    f = table([-1, 1], [1, 1], lambda z: -0.5 * (z - 0.3) ** 2)
    weights = np.array([1.0, 0.0])
    direction = frank_wolfe_direction(f.slope(weights), weights, 1)
    exact = LineSearch().choose(f, weights, direction).gamma
    rule = StochasticLineSearch(n_steps=1000, rate=0.5, n_draws=1000)
    found = rule.choose(f, weights, direction)
    assert found.branch == "stochastic"
    assert 0.1 < exact < 0.9 and found.gamma == pytest.approx(exact, abs=0.02)
    assert rule.choose(f, weights, direction).gamma == found.gamma
    for name in ("n_steps", "n_draws", "rate"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            StochasticLineSearch(**{name: 0}).choose(f, weights, direction)


def test_a_step_below_the_least_one_is_the_predefined_one(table):
    f = table([-1, 1], [1, 1], lambda z: -0.5 * (z - 0.3) ** 2)
    weights = np.array([1.0, 0.0])
    direction = frank_wolfe_direction(f.slope(weights), weights, 1)
    rule = AdaptiveBacktracking(initial=1e3, safeguard=False)
    taken = rule.choose(f, weights, direction)
    assert taken.branch == "adaptive" and 0.0 < taken.gamma < 0.01
    instead = rule.set_params(min_gamma=0.01).choose(f, weights, direction)
    assert instead.branch == "fallback" and instead.gamma == 2 / 3


def test_the_squared_distance_is_an_integral(table):
    means, sds, weights = np.array([-1, 1]), np.array([1, 0.5]), np.array([0.6, 0.4])
    f = table(means, sds, lambda z: -0.5 * z**2, n_draws=20_000)

    def square(z):
        s = norm.pdf(z, means, sds)
        return (s[1] - s @ weights) ** 2

    found = f.squared_distance(1, weights) * np.exp(f.log_pool.max())
    assert found == pytest.approx(quad(square, -10, 10)[0], rel=0.03)


def test_rules_are_scikit_learn_objects():
    for rule in (*RULES.values(), Constant(0.3)):
        assert clone(rule).get_params() == rule.get_params()
        assert isinstance(rule, StepSize)


def test_predefined_and_constant_steps_and_their_cut_at_the_largest():
    direction = frank_wolfe_direction(np.zeros(2), np.array([1.0, 0.0]), 1)
    gammas = [Predefined().choose(None, None, direction, None, t).gamma for t in (1, 2)]
    assert gammas == [2 / 3, 2 / 4]
    assert Constant(0.25).choose(None, None, direction).gamma == 0.25
    weights, slope = np.array([0.9, 0.1, 0.0]), np.array([0.0, 1.0, -1.0])
    direction = pairwise_direction(slope, weights, 2)
    for rule in (Predefined(), Constant(0.5)):
        step = rule.choose(None, weights, direction, 7.0, 1)
        assert step.gamma == direction.gamma_max == 0.1
        assert step.memory == 7.0
        assert apply(weights, step.direction, step.gamma)[1] == 0.0


class TestLineSearch:
    @pytest.mark.parametrize("strategy", [frank_wolfe_direction, pairwise_direction])
    def test_returns_the_largest_step_where_it_is_optimal(self, quadratic, strategy):
        f = quadratic(np.eye(3), [-1.0, -1.0, 3.0])
        weights = np.array([0.5, 0.5, 0.0])
        direction = strategy(f.slope(weights), weights, 2)
        assert LineSearch().choose(f, weights, direction).gamma == direction.gamma_max

    def test_away_step_drops_a_useless_component(self, quadratic):
        f = quadratic(np.eye(3), [0.5, 0.5, -2.0])
        weights = np.array([0.45, 0.45, 0.1])
        direction = away_direction(f.slope(weights), weights, 0)
        assert direction.kind == "away"
        step = LineSearch().choose(f, weights, direction)
        assert step.gamma == direction.gamma_max
        assert apply(weights, step.direction, step.gamma)[2] == 0.0

    def test_finds_a_small_weight_in_empty_space(self, table):
        def log_joint(z):
            return np.logaddexp(-0.5 * (z - 40) ** 2 + np.log(1e-4), -0.5 * z**2)

        f = table([0, 40], [1, 1], log_joint)
        weights = np.array([1.0, 0.0])
        direction = frank_wolfe_direction(f.slope(weights), weights, 1)
        step = LineSearch().choose(f, weights, direction)
        assert step.gamma == pytest.approx(1e-4 / (1 + 1e-4), rel=1e-6)


class Counted:
    """A function that counts how often two of its values are compared."""

    def __init__(self, inner):
        self.inner, self.n_differences = inner, 0
        self.slope, self.value = inner.slope, inner.value

    def difference(self, weights, other):
        self.n_differences += 1
        return self.value(weights) - self.value(other), 0.0


class TestAdaptive:
    weights = np.array([0.6, 0.4, 0.0])

    def problem(self, quadratic, scale=1.0):
        f = quadratic(scale * np.eye(3), [0.3, 0.3, 0.4])
        return f, frank_wolfe_direction(f.slope(self.weights), self.weights, 2)

    def test_first_search_starts_from_one(self, quadratic):
        f, direction = self.problem(quadratic, scale=0.1)
        rule = AdaptiveBacktracking(slack=0.0, safeguard=False)
        assert rule.choose(f, self.weights, direction).curvature == 0.5

    @pytest.mark.parametrize("strategy", [away_direction, pairwise_direction])
    def test_fallback_may_lead_to_the_new_component(self, quadratic, strategy):
        # The largest step of the direction is .01 at most, the worst one's weight.
        weights = np.array([0.99, 0.01, 0.0])
        f = quadratic(np.diag([1.0, 100.0, 1.0]), [0.2, 0.0, 0.8])
        direction = strategy(f.slope(weights), weights, 2)
        assert (direction.kind != "frank-wolfe") == (strategy is pairwise_direction)
        step = AdaptiveBacktracking(slack=0.0).choose(f, weights, direction, 5.0)
        if strategy is pairwise_direction:
            assert (step.branch, step.memory) == ("fallback", 5.0)
        assert (step.direction.kind, step.direction.toward) == ("frank-wolfe", 2)

    def test_a_large_curvature_gets_its_step_and_is_remembered(self, quadratic):
        f, direction = self.problem(quadratic, scale=1e6)
        step = AdaptiveBacktracking(slack=0.0).choose(
            f, self.weights, direction, 0.5, 20
        )
        assert step.branch == "adaptive"
        assert step.gamma == pytest.approx(direction.gap / step.curvature)
        assert step.memory == step.curvature > 1e6

    def test_a_huge_memory_leaves_a_step_to_the_next_component(self, quadratic):
        f, direction = self.problem(quadratic)
        rule = AdaptiveBacktracking(slack=0.0)
        best = LineSearch().choose(f, self.weights, direction).gamma
        step = rule.choose(f, self.weights, direction, 1e12, 4)
        assert step.gamma >= min(best / 2, 2 / 6)
        assert step.memory < 10

    @pytest.mark.parametrize("safeguard", [True, False])
    def test_slack_lets_a_trial_raise_the_objective_only_as_published(
        self, quadratic, safeguard
    ):
        # The minimiser is at .2, and the fallback beyond twice that.
        f = quadratic(np.eye(3), [0.45, 0.35, 0.2])
        direction = frank_wolfe_direction(f.slope(self.weights), self.weights, 2)
        rule = AdaptiveBacktracking(slack=10.0, safeguard=safeguard)
        step = rule.choose(f, self.weights, direction, 0.1)
        moved = apply(self.weights, step.direction, step.gamma)
        assert step.gamma > 0
        assert (f.value(moved) < f.value(self.weights)) == safeguard

    def test_the_fallback_along_a_pairwise_direction_may_be_the_lowest(self, quadratic):
        weights = np.array([0.5, 0.5, 0.0])
        f = quadratic(np.eye(3), [0.5, 0.1, 0.4])
        direction = pairwise_direction(f.slope(weights), weights, 2)
        assert direction.kind == "pairwise"
        # Of the trials one is too long and the next, a thousandth of it, too short.
        rule = AdaptiveBacktracking(slack=0.0, increase=1e3)
        step = rule.choose(f, weights, direction, None, 3)
        assert (step.branch, step.gamma) == ("fallback", 2 / 5)
        assert step.direction.kind == "pairwise"

    @pytest.mark.parametrize("memory", [None, 0.7])
    @pytest.mark.parametrize(("safeguard", "n_trials"), [(True, 4), (False, 5)])
    def test_a_search_that_fails_is_bounded_and_leaves_no_memory(
        self, quadratic, safeguard, n_trials, memory
    ):
        f, direction = self.problem(quadratic, scale=1e6)
        counted = Counted(f)
        rule = AdaptiveBacktracking(slack=0.0, max_increases=3, safeguard=safeguard)
        step = rule.choose(counted, self.weights, direction, memory, 3)
        assert (step.branch, step.gamma) == ("fallback", 2 / 5)
        if safeguard:
            assert step.memory == memory
        # The fallback and, with the safeguard, that toward the new component.
        assert counted.n_differences == n_trials + 1 + safeguard

    def test_full_steps_do_not_sink_the_memory(self, quadratic):
        f = quadratic(np.eye(3), [-2.0, -2.0, 5.0])
        direction = frank_wolfe_direction(f.slope(self.weights), self.weights, 2)
        memory = None
        for _ in range(50):
            step = AdaptiveBacktracking().choose(f, self.weights, direction, memory)
            memory = step.memory
        assert step.gamma == 1.0
        assert memory == direction.gap

    @pytest.mark.parametrize(
        ("strategy", "mode", "kind"),
        [
            (frank_wolfe_direction, 2.0, "frank-wolfe"),
            (away_direction, -0.5, "away"),
            (pairwise_direction, 2.0, "pairwise"),
        ],
    )
    @pytest.mark.parametrize("form", ["lipschitz", "distance"])
    def test_other_forms_rescale_the_curvature(self, table, strategy, mode, kind, form):
        f = table([-1, 1, 3], [1, 1, 1], lambda z: -0.5 * (z - mode) ** 2)
        direction = strategy(f.slope(self.weights), self.weights, 2)
        assert direction.kind == kind
        rule = AdaptiveBacktracking(form=form, safeguard=False)
        step = rule.choose(f, self.weights, direction)
        moving = direction.away if direction.kind == "away" else 2
        sizes = {"lipschitz": f.divergence, "distance": f.squared_distance}
        size = sizes[form](moving, self.weights)
        if direction.kind == "pairwise":
            size = 1.0
        expected = min(direction.gap / (step.curvature * size), direction.gamma_max)
        assert step.gamma == pytest.approx(expected)
        moved = apply(self.weights, direction, step.gamma)
        assert f.value(moved) < f.value(self.weights)

    def test_invalid_parameters(self, quadratic):
        f, direction = self.problem(quadratic)
        wrong = {"decrease": (0.0, 1.5), "increase": (1.0,), "max_increases": (-1, 2.5)}
        wrong |= {"form": ("global",), "slack": ("none", -1.0), "initial": (0.0,)}
        for name, values in wrong.items():
            for value in values:
                rule = AdaptiveBacktracking(**{name: value})
                with pytest.raises(ValueError, match=f"{name} must be"):
                    rule.choose(f, self.weights, direction)


def test_names_numbers_and_objects():
    for name, rule in STEP_SIZES.items():
        assert type(as_step_size(name)) is rule
    assert as_step_size(0.2).value == 0.2
    rule = LineSearch()
    assert as_step_size(rule) is rule
    with pytest.raises(TypeError, match="step_size must be one of"):
        as_step_size(True)


def test_constant_refuses_values_outside():
    direction = frank_wolfe_direction(np.zeros(2), np.array([1.0, 0.0]), 1)
    for value in (0.0, 2.0, "a"):
        with pytest.raises(ValueError, match="value must be"):
            Constant(value).choose(None, None, direction)


def test_a_rule_must_choose():
    with pytest.raises(NotImplementedError, match="must define choose"):
        StepSize().choose(None, None, None)
