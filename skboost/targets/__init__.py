"""Log joint densities: generalised linear models and their priors."""

from skboost.targets._base import Target, failure_tolerant
from skboost.targets._callable import CallableTarget
from skboost.targets._composed import ComposedTarget
from skboost.targets._describe import coordinate_label, shown_point, what_came
from skboost.targets._failures import (
    FailedEvaluationError,
    FailedEvaluationWarning,
    LogDensityError,
)
from skboost.targets._glm import GLMTarget
from skboost.targets._gradient_check import warn_of_wrong_gradient
from skboost.targets._likelihood import Likelihood
from skboost.targets._logistic import Logistic
from skboost.targets._logistic_gaussian import (
    entropy_expectation,
    logistic_gaussian_expectations,
    sigmoid_expectation,
)
from skboost.targets._logistic_laplace import laplace_sigmoid_expectation
from skboost.targets._logistic_student_t import student_t_sigmoid_expectation
from skboost.targets._multinomial import Multinomial
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
from skboost.targets._quadrature import gaussian_expectation_1d
from skboost.targets._transformed import TransformedTarget

# Likelihoods of a `GLMTarget`.
LIKELIHOODS = {"logistic": Logistic, "multinomial": Multinomial}

__all__ = [
    "LIKELIHOODS",
    "PRIORS",
    "CallableTarget",
    "ComposedTarget",
    "FailedEvaluationError",
    "FailedEvaluationWarning",
    "FlatPrior",
    "GLMTarget",
    "LaplacePrior",
    "Likelihood",
    "LogDensityError",
    "Logistic",
    "Multinomial",
    "NormalPrior",
    "Prior",
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
