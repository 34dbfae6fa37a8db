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
from skboost.objectives._joint import FixedMixture, JointELBO
from skboost.objectives._kl import JointGain, joint_gains
from skboost.objectives._relbo import (
    DegenerateComponentWarning,
    ResidualELBO,
    ResidualGain,
)
from skboost.objectives._single import SingleELBO

OBJECTIVES = {"kl": JointGain, "relbo": ResidualGain, "hellinger": RootGain}


def as_objective(objective, entropy_weight=None):
    """Objective of a name or an instance.

    Parameters
    ----------
    objective : {"kl", "relbo", "hellinger"} or Objective
    entropy_weight : float or callable, default=None
        For ``"relbo"`` by its name.

    Returns
    -------
    Objective

    Raises
    ------
    ValueError
        If the name is unknown, or `entropy_weight` has no meaning beside `objective`.
    TypeError
        If `objective` is neither a name nor an instance.
    """
    if isinstance(objective, Objective):
        found = objective
    elif not isinstance(objective, str):
        raise TypeError(
            f"objective must be one of {list(OBJECTIVES)} or an instance of one of "
            "their classes in skboost.strategies; got an object of type "
            f"{type(objective).__name__}. Pass an instance, not the class."
        )
    elif objective not in OBJECTIVES:
        raise ValueError(
            f"objective must be one of {list(OBJECTIVES)} or an instance of one of "
            f"their classes in skboost.strategies; got {objective!r}. Choose one."
        )
    else:
        found = OBJECTIVES[objective]()
    if entropy_weight is None:
        return found
    if found is objective or not isinstance(found, ResidualGain):
        advice = "Leave entropy_weight=None"
        if isinstance(found, ResidualGain):
            advice += ", and set that of the object: ResidualGain(entropy_weight=...)"
        raise ValueError(
            f"entropy_weight needs objective='relbo'; got objective={objective!r}. "
            f"{advice}."
        )
    found = type(found)(entropy_weight)
    # A function that is none of the step is found before any work.
    found.weight_at(1)
    return found


__all__ = [
    "OBJECTIVES",
    "Candidate",
    "DegenerateComponentWarning",
    "FixedMixture",
    "Objective",
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
    "as_objective",
    "between_roots",
    "defensive_draws",
    "joint_gains",
    "log_defensive_density",
    "start_values",
]
