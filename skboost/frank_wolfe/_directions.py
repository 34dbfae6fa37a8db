"""Moves inside the simplex: Frank-Wolfe, away and pairwise directions."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Direction:
    """A move ``weights + gamma * d`` inside the simplex, 0 <= gamma <= gamma_max.

    Attributes
    ----------
    d : ndarray of shape (n_components,)
        Sums to zero.
    gap : float
        Expected decrease per unit of gamma, -slope . d, in nats.
    gamma_max : float
        Largest step that stays in the simplex.
    kind : {"frank-wolfe", "away", "pairwise"}
    toward : int or None
        Component that gains weight; None for an away step.
    away : int or None
        Component that loses weight and is dropped at gamma_max; None for a
        Frank-Wolfe step.
    new : int
        The component just appended, whatever the direction makes of it.
    """

    d: np.ndarray
    gap: float
    gamma_max: float
    kind: str
    toward: int | None
    away: int | None
    new: int


def frank_wolfe_direction(slope, weights, new):
    """From the mixture to the new component (Locatello et al. 2018, Algorithm 1).

    Parameters
    ----------
    slope : ndarray of shape (n_components,)
        Gradient of the objective at `weights`.
    weights : ndarray of shape (n_components,)
        Point of the simplex; the component just appended has weight 0.
    new : int
        Index of the component just appended.

    Returns
    -------
    direction : Direction
    """
    d = -np.asarray(weights, dtype=float)
    d[new] += 1.0
    return Direction(d, -float(slope @ d), 1.0, "frank-wolfe", new, None, new)


def away_direction(slope, weights, new):
    """Toward the new component or away from the worst one, whichever promises more.

    Dresdner et al. 2021, appendix A, with the sign of their equation 15 put right:
    the worst component is the one with the largest slope. An away step adds no
    component; at its largest step the worst one is dropped. With a single component
    in use there is no away step. Parameters as in `frank_wolfe_direction`.
    """
    toward = frank_wolfe_direction(slope, weights, new)
    worst = _worst_component(slope, weights)
    d = np.array(weights, dtype=float)
    d[worst] -= 1.0
    gap = -float(slope @ d)
    if toward.gap >= gap or np.count_nonzero(weights) < 2:
        return toward
    gamma_max = weights[worst] / (1.0 - weights[worst])
    return Direction(d, gap, gamma_max, "away", None, worst, new)


def pairwise_direction(slope, weights, new):
    """Move weight from the worst component to the new one.

    Dresdner et al. 2021, appendix A. At the largest step the worst one is dropped.
    Parameters as in `frank_wolfe_direction`.
    """
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
    """Weights after a step, with an exact zero for a component that was dropped.

    Parameters
    ----------
    weights : ndarray of shape (n_components,)
    direction : Direction
    gamma : float
        In [0, direction.gamma_max].

    Returns
    -------
    weights : ndarray of shape (n_components,)

    Raises
    ------
    ValueError
        If gamma lies outside its interval.
    """
    if not 0 <= gamma <= direction.gamma_max:
        raise ValueError(
            f"gamma must be in [0, gamma_max] = [0, {direction.gamma_max}] for this "
            f"{direction.kind} step; got {gamma}. Clip it to gamma_max."
        )
    moved = np.maximum(weights + gamma * direction.d, 0.0)
    if gamma == direction.gamma_max:
        # Rounding would leave 1e-17 where the drop step means nothing.
        if direction.kind == "frank-wolfe":
            moved[np.arange(len(moved)) != direction.toward] = 0.0
        else:
            moved[direction.away] = 0.0
    return moved / moved.sum()
