"""What a new component maximises, by its public name."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator

from skboost.objectives._base import Candidate
from skboost.objectives._joint import JointELBO
from skboost.objectives._relbo import ResidualELBO


class DegenerateComponentWarning(UserWarning):
    """The residual ELBO ran to an infinite scale or collapsed to a point."""


class JointGain(BaseEstimator):
    """Gain in ELBO of adding the component with its best weight (``"kl"``).

    It needs no entropy weight, and can not degenerate: a component that collapses is
    charged ``ln(gamma s)``, one that spreads gains nothing.
    """

    # Whether a better search means a larger gain.
    seeks_gain = True

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

    def candidate(self, problem, x, value):
        """The component at the solver's last point."""
        (params,), shares = problem.unpack(x)
        chart = problem.charts[0]
        at_limit = chart.at_limit(x[: chart.size])
        return Candidate(
            problem.components[0][0], params, float(shares[-1]), value, at_limit
        )


class ResidualGain(BaseEstimator):
    """Residual ELBO (``"relbo"``): Locatello et al. 2018, equation 9.

    Parameters
    ----------
    entropy_weight : float or callable, default=None
        Price of entropy, or a function of the iteration t that returns it. None is
        the papers' ``1 / sqrt(t + 1)``.
    """

    # Its maximum lies beyond what the mixture lacks: the better found, the worse.
    seeks_gain = False

    def __init__(self, entropy_weight=None):
        self.entropy_weight = entropy_weight

    def weight_at(self, iteration):
        """Entropy weight of one iteration, t counted from 0."""
        if self.entropy_weight is None:
            return 1.0 / np.sqrt(iteration + 1.0)
        if callable(self.entropy_weight):
            return float(self.entropy_weight(iteration))
        return float(self.entropy_weight)

    def problem(self, residual, component, share, base_draws):
        """The problem that the solver sees; as in `JointGain`, the share unused."""
        return ResidualELBO(
            residual.target,
            residual.rest.mixture,
            *component,
            base_draws,
            self.weight_at(residual.iteration),
            residual.exact,
        )

    def candidate(self, problem, x, value):
        """The component at the solver's last point; warns where it degenerated."""
        params = problem.unpack(x)
        at_limit = bool(np.any(np.abs(x) > 0.98 * problem.limits))
        if at_limit:
            warnings.warn(
                "objective='relbo' degenerated: the new component ran to the end of "
                "the range of its search. The residual ELBO is unbounded where the "
                "mixture has lighter tails than the target, and collapses to a point "
                "where the entropy weight is small. Raise entropy_weight, or use "
                "objective='kl', which has neither failure.",
                DegenerateComponentWarning,
                stacklevel=2,
            )
        return Candidate(problem.family, params, 0.5, value, at_limit)


class RootGain(BaseEstimator):
    """Overlap of square roots (``"hellinger"``): Campbell and Li 2019.

    The problems are those of `ResidualRoot` and `JointRoots`.
    """


OBJECTIVES = {"kl": JointGain, "relbo": ResidualGain, "hellinger": RootGain}
