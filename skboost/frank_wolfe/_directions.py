"""Moves inside the simplex: Frank-Wolfe, away and pairwise directions."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Direction:
    """A move ``weights + gamma * d`` inside the simplex, 0 <= gamma <= gamma_max.

    `gap` is ``-slope . d``, nats per unit of gamma; `toward` and `away` gain and lose
    weight, or are None; `new` is the component just appended.
    """

    d: np.ndarray
    gap: float
    gamma_max: float
    kind: str
    toward: int | None
    away: int | None
    new: int


def frank_wolfe_direction(slope, weights, new):
    """From the mixture to the new component (Locatello et al. 2018, Algorithm 1)."""
    d = -np.asarray(weights, dtype=float)
    d[new] += 1.0
    return Direction(d, -float(slope @ d), 1.0, "frank-wolfe", new, None, new)


def away_direction(slope, weights, new):
    """Toward the new component or away from the worst one, whichever promises more.

    Dresdner et al. 2021, appendix A, with the sign of their equation 15 put right: the
    worst component is the one with the largest slope, dropped at the largest step.
    """
    toward = frank_wolfe_direction(slope, weights, new)
    worst = _worst_component(slope, weights)
    d = np.array(weights, dtype=float)
    d[worst] -= 1.0
    gap = -float(slope @ d)
    if toward.gap >= gap or np.count_nonzero(weights) < 2:
        return toward
    gamma_max = float(weights[worst] / (1.0 - weights[worst]))
    return Direction(d, gap, gamma_max, "away", None, worst, new)


def pairwise_direction(slope, weights, new):
    """From the worst component to the new one (Dresdner et al. 2021, appendix A)."""
    d = np.zeros(len(weights))
    d[new] = 1.0
    others = np.where(d > 0, 0.0, weights)
    if not others.any():
        return frank_wolfe_direction(slope, weights, new)
    worst = _worst_component(slope, others)
    d[worst] = -1.0
    gap = float(slope[worst] - slope[new])
    return Direction(d, gap, float(weights[worst]), "pairwise", new, worst, new)


def _worst_component(slope, weights):
    """Index of the component in use with the largest slope."""
    return int(np.argmax(np.where(np.asarray(weights) > 0, slope, -np.inf)))


def apply(weights, direction, gamma):
    """Weights after a step, with an exact zero for a component that was dropped."""
    if not 0 <= gamma <= direction.gamma_max:
        raise ValueError(
            f"gamma must be in [0, gamma_max] = [0, {direction.gamma_max}] for this "
            f"{direction.kind} step; got {gamma}. Clip it to gamma_max."
        )
    whole = gamma == direction.gamma_max
    # Rounding would leave 1e-17 where a whole step means nothing.
    if whole and direction.kind == "frank-wolfe":
        moved = np.zeros(len(weights))
        moved[direction.toward] = 1.0
        return moved
    moved = np.maximum(weights + gamma * direction.d, 0.0)
    if whole:
        moved[direction.away] = 0.0
    return moved / moved.sum()
