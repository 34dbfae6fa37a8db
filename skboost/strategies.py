"""Step-size rules of the boosted estimators, for the parameter ``step_size``."""

from skboost.frank_wolfe import (
    AdaptiveBacktracking,
    Constant,
    LineSearch,
    Predefined,
    StepSize,
)

__all__ = ["AdaptiveBacktracking", "Constant", "LineSearch", "Predefined", "StepSize"]
