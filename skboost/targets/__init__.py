"""Log joint densities: generalised linear models and their priors."""

from ._base import Target
from ._callable import CallableTarget, LogDensityError
from ._composed import ComposedTarget
from ._expectations import (
    entropy_expectation,
    gaussian_expectation_1d,
    laplace_sigmoid_expectation,
    logistic_gaussian_expectations,
    sigmoid_expectation,
)
from ._glm import LogisticTarget
from ._priors import (
    PRIORS,
    FlatPrior,
    LaplacePrior,
    NormalPrior,
    Prior,
    StudentTPrior,
    as_prior,
    validate_scale,
)
from ._softmax import SoftmaxTarget

TARGETS = {"logistic": LogisticTarget, "softmax": SoftmaxTarget}

__all__ = [
    "PRIORS",
    "TARGETS",
    "CallableTarget",
    "ComposedTarget",
    "FlatPrior",
    "LaplacePrior",
    "LogDensityError",
    "LogisticTarget",
    "NormalPrior",
    "Prior",
    "SoftmaxTarget",
    "StudentTPrior",
    "Target",
    "as_prior",
    "entropy_expectation",
    "gaussian_expectation_1d",
    "laplace_sigmoid_expectation",
    "logistic_gaussian_expectations",
    "sigmoid_expectation",
    "validate_scale",
]
