"""What a new component maximises, by its public name."""

import warnings
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator

from skboost.objectives._base import Candidate
from skboost.objectives._joint import JointELBO
from skboost.objectives._relbo import ResidualELBO


class DegenerateComponentWarning(UserWarning):
    """The residual ELBO proposes a component at an infinite scale, or at a point."""


class Objective(BaseEstimator):
    """Base class of what a new component maximises.

    Attributes
    ----------
    seeks_gain : bool
        Whether a better search means a larger gain.
    early_stopping : bool
        Whether the solver's path is stopped where the joint gain is largest.
    """

    seeks_gain = True
    early_stopping = False


class JointGain(Objective):
    """Gain in ELBO of adding the component with its best weight (``"kl"``).

    It needs no entropy weight, and can not degenerate: a component that collapses is
    charged ``ln(gamma s)``, one that spreads gains nothing.
    """

    def problem(self, residual, component, share, base_draws):
        """The problem that the solver sees; see `JointELBO`.

        Parameters
        ----------
        residual : Residual
        component : (family, params)
            Where the search starts.
        share : float
            Weight of the component where the search starts.
        base_draws : ndarray of shape (n, base_dim)
        """
        return JointELBO(
            residual.target,
            [component],
            [base_draws],
            np.array([share]),
            residual.rest,
            residual.exact,
        )

    def judge(self, residual, component, share, base_draws):
        """The problem whose value at its start decides between components."""
        return self.problem(residual, component, share, base_draws)

    def candidate(self, problem, x, value):
        """The component at the solver's last point."""
        (params,), shares = problem.unpack(x)
        chart = problem.charts[0]
        at_limit = chart.at_limit(x[: chart.size])
        return Candidate(
            problem.components[0][0], params, float(shares[-1]), value, at_limit
        )


class ResidualGain(Objective):
    """Residual ELBO (``"relbo"``): Locatello et al. 2018, equation 9.

    Parameters
    ----------
    entropy_weight : float or callable, default=None
        Price of entropy, lambda: a number of at least 0, or a function of the boosting
        step t, counted from 1, that returns one. None is the schedule of Locatello et
        al. 2018, ``1 / sqrt(t + 1)``; 1.0 is the multiplier of Dresdner et al. 2021,
        Algorithm 1, line 3.
    early_stopping : bool, default=True
        Stop the solver on its way to the maximum where the *joint* gain, the gain in
        ELBO of adding the component with its best weight, is largest. Locatello et al.
        2018, section 4, advise fewer iterations of the solver without saying how many.
        False solves to convergence, as their pseudo-code is written, and often ends at
        components that are of no use.
    """

    # Its maximum lies beyond what the mixture lacks: the better found, the worse.
    seeks_gain = False

    def __init__(self, entropy_weight=None, early_stopping=True):
        self.entropy_weight = entropy_weight
        self.early_stopping = early_stopping

    def weight_at(self, iteration):
        """Entropy weight of boosting step t = 1, 2, ...; the first component has none.

        Raises
        ------
        ValueError
            If it is no finite number of at least 0.
        """
        weight = self.entropy_weight
        if weight is None:
            return 1.0 / np.sqrt(iteration + 1.0)
        weight = weight(iteration) if callable(weight) else weight
        if not (isinstance(weight, Real) and 0 <= weight < np.inf):
            raise ValueError(
                "entropy_weight must be a finite number >= 0, or a function of the "
                f"step t = 1, 2, ... that returns one; got {weight!r} at t = "
                f"{iteration}. Change entropy_weight, or leave it None."
            )
        return float(weight)

    def problem(self, residual, component, share, base_draws):
        """The problem that the solver sees; as in `JointGain`, the share unused."""
        if not isinstance(self.early_stopping, (bool, np.bool_)):
            raise ValueError(
                f"early_stopping must be True or False; got {self.early_stopping!r}. "
                "Change early_stopping of the objective."
            )
        return ResidualELBO(
            residual.target,
            residual.rest.mixture,
            *component,
            base_draws,
            self.weight_at(residual.iteration),
            residual.exact,
        )

    def judge(self, residual, component, share, base_draws):
        """The problem whose value at its start decides between components."""
        decides = JointGain() if self.early_stopping else self
        return decides.problem(residual, component, share, base_draws)

    def candidate(self, problem, x, value):
        """The component at a point of the search; warns where it degenerated.

        Parameters
        ----------
        problem : ResidualELBO
        x : ndarray
        value : float
            Residual ELBO, or the joint gain under early stopping: a component at the
            end of its range that gains something is wide or far off, not degenerate.
        """
        params = problem.unpack(x)
        at_limit = bool(np.any(np.abs(x) > 0.98 * problem.limits))
        if at_limit and not (self.early_stopping and value > 0):
            warnings.warn(
                "objective='relbo' degenerated: the new component ran to the end of "
                "the range of its search. The residual ELBO is unbounded where the "
                "mixture has lighter tails than the target, and collapses to a point "
                "where the entropy weight is small. Use early stopping (the default), "
                "raise entropy_weight, or use objective='kl', which has neither "
                "failure.",
                DegenerateComponentWarning,
                stacklevel=2,
            )
        return Candidate(problem.family, params, 0.5, value, at_limit)


class RootGain(Objective):
    """Overlap of square roots (``"hellinger"``): Campbell and Li 2019.

    The problems are those of `ResidualRoot` and `JointRoots`.
    """


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
    return type(found)(entropy_weight)
