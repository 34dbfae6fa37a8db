"""What is maximised over densities: the joint ELBO, the residual ELBO, overlaps."""

from skboost.objectives._base import Candidate, GreedyObjective, SearchContext
from skboost.objectives._hellinger import (
    JointRoots,
    ResidualRoot,
    RootControl,
    RootGain,
    between_roots,
    defensive_draws,
    log_defensive_density,
    start_values,
)
from skboost.objectives._joint import FixedMixture, JointELBO
from skboost.objectives._kl import JointGain, joint_gains
from skboost.objectives._relbo import (
    DegenerateComponentWarning,
    ResidualELBO,
    ResidualGain,
)
from skboost.objectives._single import SingleELBO

OBJECTIVES = {"kl": JointGain, "relbo": ResidualGain, "hellinger": RootGain}

__all__ = [
    "OBJECTIVES",
    "Candidate",
    "DegenerateComponentWarning",
    "FixedMixture",
    "GreedyObjective",
    "JointELBO",
    "JointGain",
    "JointRoots",
    "ResidualELBO",
    "ResidualGain",
    "ResidualRoot",
    "RootControl",
    "RootGain",
    "SearchContext",
    "SingleELBO",
    "between_roots",
    "defensive_draws",
    "joint_gains",
    "log_defensive_density",
    "start_values",
]
