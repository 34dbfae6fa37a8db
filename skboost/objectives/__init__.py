"""What is maximised over densities: the joint ELBO, the residual ELBO, overlaps."""

from skboost.objectives._base import Candidate, Objective, SearchContext
from skboost.objectives._hellinger import (
    JointRoots,
    ResidualRoot,
    RootControl,
    RootGain,
    between_roots,
    defensive_draws,
    defensive_weights,
    log_defensive_density,
    lower_confidence_sum,
)
from skboost.objectives._joint import (
    START_WEIGHTS,
    DegenerateComponentWarning,
    FixedMixture,
    JointELBO,
    JointGain,
    ResidualELBO,
    ResidualGain,
    SingleELBO,
    joint_gains,
)

OBJECTIVES = {"kl": JointGain, "relbo": ResidualGain, "hellinger": RootGain}


def as_objective(objective):
    """Objective of a name or an instance, whose own hyperparameters are checked."""
    if isinstance(objective, str):
        return OBJECTIVES[objective]()
    objective.check()
    return objective
