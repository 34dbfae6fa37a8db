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
    Objective,
    ResidualGain,
    RootGain,
    as_objective,
)

__all__ = [
    "OBJECTIVES",
    "Candidate",
    "DegenerateComponentWarning",
    "JointELBO",
    "JointGain",
    "JointRoots",
    "Objective",
    "Residual",
    "ResidualELBO",
    "ResidualGain",
    "ResidualRoot",
    "Rest",
    "RootControl",
    "RootGain",
    "SingleELBO",
    "as_objective",
    "between_roots",
    "finite_value_and_score",
    "log_rule",
    "root_start_values",
    "rule_draws",
]
