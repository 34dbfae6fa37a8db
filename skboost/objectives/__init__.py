"""What is maximised over densities: the joint ELBO and the residual ELBO."""

from skboost.objectives._base import Candidate, Residual
from skboost.objectives._hellinger import (
    JointRoots,
    ResidualRoot,
    RootControl,
    between_roots,
    log_rule,
    rule_draws,
)
from skboost.objectives._hellinger import start_values as root_start_values
from skboost.objectives._joint import JointELBO, Rest, finite_value_and_score
from skboost.objectives._relbo import ResidualELBO
from skboost.objectives._single import SingleELBO
from skboost.objectives._strategies import (
    OBJECTIVES,
    DegenerateComponentWarning,
    JointGain,
    ResidualGain,
    RootGain,
)

__all__ = [
    "OBJECTIVES",
    "Candidate",
    "DegenerateComponentWarning",
    "JointELBO",
    "JointGain",
    "JointRoots",
    "Residual",
    "ResidualELBO",
    "ResidualGain",
    "ResidualRoot",
    "Rest",
    "RootControl",
    "RootGain",
    "between_roots",
    "SingleELBO",
    "finite_value_and_score",
    "log_rule",
    "root_start_values",
    "rule_draws",
]
