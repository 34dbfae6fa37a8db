import numpy as np
import pytest

from skboost.frank_wolfe import DIRECTIONS, apply, away_direction, pairwise_direction

WEIGHTS = np.array([0.5, 0.3, 0.2, 0.0])
SLOPE = np.array([0.0, 3.0, 0.5, -1.0])


@pytest.mark.parametrize("strategy", DIRECTIONS.values(), ids=list(DIRECTIONS))
class TestEveryDirection:
    def test_stays_in_the_simplex(self, strategy):
        weights = WEIGHTS.copy()
        direction = strategy(SLOPE, weights, 3)
        assert direction.d.sum() == pytest.approx(0.0, abs=1e-15)
        assert direction.gap == pytest.approx(-SLOPE @ direction.d)
        assert direction.gap > 0
        assert direction.new == 3
        for gamma in (0.0, 0.5 * direction.gamma_max, direction.gamma_max):
            moved = apply(weights, direction, gamma)
            assert moved.min() >= 0
            assert moved.sum() == pytest.approx(1.0, abs=1e-14)
        np.testing.assert_allclose(apply(weights, direction, 0.0), WEIGHTS)
        np.testing.assert_array_equal(weights, WEIGHTS)
        beyond = WEIGHTS + (direction.gamma_max + 1e-6) * direction.d
        assert beyond.min() < 0

    @pytest.mark.parametrize("gamma", [-0.1, 10.0, np.nan])
    def test_step_outside_is_refused(self, strategy, gamma):
        direction = strategy(SLOPE, WEIGHTS, 3)
        with pytest.raises(ValueError, match="gamma must be in"):
            apply(WEIGHTS, direction, gamma)

    def test_single_component(self, strategy):
        direction = strategy(np.array([1.0, 0.0]), np.array([1.0, 0.0]), 1)
        np.testing.assert_array_equal(direction.d, [-1.0, 1.0])
        assert direction.gamma_max == 1.0
        assert direction.kind != "away"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strategy", [away_direction, pairwise_direction])
def test_worst_component_is_dropped_exactly(strategy, seed):
    weights = np.append(np.random.default_rng(seed).dirichlet(np.ones(3)), 0.0)
    direction = strategy(SLOPE, weights, 3)
    if direction.kind != "frank-wolfe":
        assert direction.away == 1
        assert apply(weights, direction, direction.gamma_max)[1] == 0.0
        assert apply(weights, direction, 0.999 * direction.gamma_max)[1] > 0.0


def test_away_takes_the_more_promising_direction():
    direction = away_direction(np.array([0.0, 3.0, 0.5, -0.5]), WEIGHTS, 3)
    assert (direction.kind, direction.away, direction.toward) == ("away", 1, None)
    assert direction.gamma_max == pytest.approx(0.3 / 0.7)
    moved = apply(WEIGHTS, direction, 0.1)
    np.testing.assert_allclose(moved, [0.55, 0.23, 0.22, 0.0])
    direction = away_direction(np.array([0.0, 3.0, 0.5, -9.0]), WEIGHTS, 3)
    assert (direction.kind, direction.toward) == ("frank-wolfe", 3)


def test_unused_components_are_never_the_worst():
    slope = np.array([0.0, 1.0, 0.5, 9.0, 0.1])
    weights = np.append(WEIGHTS, 0.0)
    assert pairwise_direction(slope, weights, 4).away == 1
