"""Weights on a simplex: directions, step sizes and the fully corrective solver.

This package knows a table of numbers and nothing of densities.
"""

from skboost.frank_wolfe._backtracking import AdaptiveBacktracking
from skboost.frank_wolfe._corrective import best_coefficients, minimise_on_simplex
from skboost.frank_wolfe._directions import (
    apply,
    away_direction,
    frank_wolfe_direction,
    pairwise_direction,
)
from skboost.frank_wolfe._objective import NodeObjective, WeightObjective
from skboost.frank_wolfe._step_size import (
    Constant,
    LineSearch,
    Predefined,
    Step,
    StepSize,
    StochasticLineSearch,
)

DIRECTIONS = {
    "none": frank_wolfe_direction,
    "away": away_direction,
    "pairwise": pairwise_direction,
}

STEP_SIZES = {
    "line-search": LineSearch,
    "adaptive": AdaptiveBacktracking,
    "predefined": Predefined,
}

# With "fully-corrective" a Frank-Wolfe step is the warm start of the weights.
CORRECTIVE = (*DIRECTIONS, "fully-corrective")


def as_step_size(step_size):
    """Step-size rule of a name, a rule, or a number in (0, 1]: a constant step."""
    if isinstance(step_size, bool):
        raise TypeError(
            f"step_size must be one of {list(STEP_SIZES)}, a number in (0, 1] or a "
            "StepSize; got an object of type bool. Pass an instance of a StepSize "
            "subclass, not the class."
        )
    if isinstance(step_size, str):
        return STEP_SIZES[step_size]()
    return step_size if isinstance(step_size, StepSize) else Constant(float(step_size))
