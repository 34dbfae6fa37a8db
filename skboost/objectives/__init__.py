"""What is maximised over densities: the joint ELBO and the residual ELBO."""

from skboost.objectives._base import Candidate, Residual
from skboost.objectives._joint import JointELBO, Rest, finite_value_and_score
from skboost.objectives._relbo import ResidualELBO
from skboost.objectives._strategies import (
    OBJECTIVES,
    DegenerateComponentWarning,
    JointGain,
    ResidualGain,
)

__all__ = [
    "OBJECTIVES",
    "Candidate",
    "DegenerateComponentWarning",
    "JointELBO",
    "JointGain",
    "Residual",
    "ResidualELBO",
    "ResidualGain",
    "Rest",
    "finite_value_and_score",
]
