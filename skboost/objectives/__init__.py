"""What is maximised over densities: the joint ELBO, the residual ELBO, overlaps."""

from skboost.objectives._base import Candidate, Objective, SearchContext
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
from skboost.objectives._joint import (
    FixedMixture,
    JointELBO,
    JointGain,
    SingleELBO,
    joint_gains,
)
from skboost.objectives._relbo import (
    DegenerateComponentWarning,
    ResidualELBO,
    ResidualGain,
)

OBJECTIVES = {"kl": JointGain, "relbo": ResidualGain, "hellinger": RootGain}


def as_objective(objective):
    """Objective of a name or an instance.

    Parameters
    ----------
    objective : {"kl", "relbo", "hellinger"} or Objective

    Returns
    -------
    Objective

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If `objective` is neither a name nor an instance.
    """
    if isinstance(objective, Objective):
        objective.check()
        return objective
    if not isinstance(objective, str):
        raise TypeError(
            f"objective must be one of {list(OBJECTIVES)} or an instance of one of "
            "their classes in skboost.strategies; got an object of type "
            f"{type(objective).__name__}. Pass an instance, not the class."
        )
    if objective not in OBJECTIVES:
        raise ValueError(
            f"objective must be one of {list(OBJECTIVES)} or an instance of one of "
            f"their classes in skboost.strategies; got {objective!r}. Choose one."
        )
    return OBJECTIVES[objective]()
