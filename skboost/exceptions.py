"""Errors and warnings of the package, to be caught or filtered by name."""

from skboost.fitting import CheckpointWarning, FitInterrupted
from skboost.objectives import DegenerateComponentWarning
from skboost.online import DivergedError
from skboost.posterior import ImportanceWarning
from skboost.targets import (
    FailedEvaluationError,
    FailedEvaluationWarning,
    LogDensityError,
    OverdispersionWarning,
    OverwrittenArgumentError,
)

__all__ = [
    "CheckpointWarning",
    "DegenerateComponentWarning",
    "DivergedError",
    "FailedEvaluationError",
    "FailedEvaluationWarning",
    "FitInterrupted",
    "ImportanceWarning",
    "LogDensityError",
    "OverdispersionWarning",
    "OverwrittenArgumentError",
]
