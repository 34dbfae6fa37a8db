"""Log joint densities: generalised linear models and their priors."""

from skboost.targets._base import Target, failure_tolerant
from skboost.targets._callable import CallableTarget
from skboost.targets._composed import ComposedTarget
from skboost.targets._describe import coordinate_label, shown_point, what_came
from skboost.targets._expectations import (
    entropy_expectation,
    gaussian_expectation_1d,
    laplace_sigmoid_expectation,
    logistic_gaussian_expectations,
    sigmoid_expectation,
)
from skboost.targets._failures import (
    FailedEvaluationError,
    FailedEvaluationWarning,
    LogDensityError,
)
from skboost.targets._glm import LogisticTarget
from skboost.targets._gradient_check import warn_of_wrong_gradient
from skboost.targets._priors import (
    PRIORS,
    FlatPrior,
    LaplacePrior,
    NormalPrior,
    Prior,
    StudentTPrior,
    as_prior,
    validate_scale,
)
from skboost.targets._softmax import SoftmaxTarget
from skboost.targets._student_t_expectations import student_t_sigmoid_expectation
from skboost.targets._transformed import TransformedTarget

TARGETS = {"logistic": LogisticTarget, "softmax": SoftmaxTarget}

__all__ = [
    "PRIORS",
    "TARGETS",
    "CallableTarget",
    "ComposedTarget",
    "FailedEvaluationError",
    "FailedEvaluationWarning",
    "FlatPrior",
    "LaplacePrior",
    "LogDensityError",
    "LogisticTarget",
    "NormalPrior",
    "Prior",
    "SoftmaxTarget",
    "StudentTPrior",
    "Target",
    "TransformedTarget",
    "as_prior",
    "coordinate_label",
    "entropy_expectation",
    "gaussian_expectation_1d",
    "laplace_sigmoid_expectation",
    "logistic_gaussian_expectations",
    "failure_tolerant",
    "shown_point",
    "sigmoid_expectation",
    "student_t_sigmoid_expectation",
    "validate_scale",
    "warn_of_wrong_gradient",
    "what_came",
]
