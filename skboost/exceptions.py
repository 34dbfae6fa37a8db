"""Errors and warnings of the package, to be caught or filtered by name."""

from skboost._posterior_api import FitInterrupted
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
    "FitInterrupted",
    "ImportanceWarning",
    "LogDensityError",
]
