"""Weights on a simplex: directions, step sizes and the fully corrective solver.

This package knows a table of numbers and nothing of densities.
"""

from numbers import Real

from skboost.frank_wolfe._corrective import (
    best_coefficients,
    geodesic_step,
    minimise_on_simplex,
)
from skboost.frank_wolfe._directions import (
    Away,
    Direction,
    FrankWolfe,
    Pairwise,
    apply,
    frank_wolfe_direction,
)
from skboost.frank_wolfe._objective import DENSITY_FLOOR, WeightObjective
from skboost.frank_wolfe._step_size import (
    AdaptiveBacktracking,
    Constant,
    LineSearch,
    Predefined,
    Step,
    StepSize,
)

DIRECTIONS = {"none": FrankWolfe, "away": Away, "pairwise": Pairwise}

STEP_SIZES = {
    "line-search": LineSearch,
    "adaptive": AdaptiveBacktracking,
    "predefined": Predefined,
}

# With "fully-corrective" a Frank-Wolfe step is the warm start of the weights.
CORRECTIVE = (*DIRECTIONS, "fully-corrective")


def as_direction(corrective):
    """Direction strategy of a name.

    Parameters
    ----------
    corrective : {"none", "away", "pairwise", "fully-corrective"}
        The last one gives `FrankWolfe`, the warm start of the corrective solver.

    Returns
    -------
    strategy : FrankWolfe, Away or Pairwise

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    if corrective not in CORRECTIVE:
        raise ValueError(
            f"corrective must be one of {list(CORRECTIVE)}; got {corrective!r}. "
            "Choose one of these names."
        )
    return DIRECTIONS.get(corrective, FrankWolfe)()


def as_step_size(step_size):
    """Step-size rule of a name, a number or a rule.

    Parameters
    ----------
    step_size : {"line-search", "adaptive", "predefined"}, float or StepSize
        A float in (0, 1] is a constant step.

    Returns
    -------
    rule : StepSize

    Raises
    ------
    ValueError
        If the name is unknown or the number lies outside (0, 1].
    TypeError
        If it is none of the three.
    """
    if isinstance(step_size, StepSize):
        return step_size
    if isinstance(step_size, str):
        if step_size not in STEP_SIZES:
            raise ValueError(
                f"step_size must be one of {list(STEP_SIZES)}, a number in (0, 1] or "
                f"a StepSize; got {step_size!r}. Choose one of these."
            )
        return STEP_SIZES[step_size]()
    if isinstance(step_size, Real) and not isinstance(step_size, bool):
        if not 0 < step_size <= 1:
            raise ValueError(
                "step_size as a number is a constant step and must be in (0, 1]; "
                f"got {step_size!r}. Choose a smaller positive one, or a rule by name."
            )
        return Constant(float(step_size))
    raise TypeError(
        f"step_size must be one of {list(STEP_SIZES)}, a number in (0, 1] or a "
        f"StepSize; got an object of type {type(step_size).__name__}. Pass an "
        "instance of a StepSize subclass, not the class."
    )
