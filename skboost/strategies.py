"""Strategy objects: step sizes of boosting, learning rates of natural gradients."""

from skboost.frank_wolfe import (
    AdaptiveBacktracking,
    Constant,
    LineSearch,
    Predefined,
    StepSize,
)
from skboost.svi import ConstantRate, LearningRate, RobbinsMonro

__all__ = [
    "AdaptiveBacktracking",
    "Constant",
    "ConstantRate",
    "LearningRate",
    "LineSearch",
    "Predefined",
    "RobbinsMonro",
    "StepSize",
]
