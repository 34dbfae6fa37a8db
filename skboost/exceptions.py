"""Errors and warnings of the package, to be caught or filtered by name."""

from skboost.objectives import DegenerateComponentWarning
from skboost.posterior import ImportanceWarning
from skboost.targets import (
    FailedEvaluationError,
    FailedEvaluationWarning,
    LogDensityError,
)

__all__ = [
    "DegenerateComponentWarning",
    "FailedEvaluationError",
    "FailedEvaluationWarning",
    "ImportanceWarning",
    "LogDensityError",
]
