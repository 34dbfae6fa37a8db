"""SearchContext ELBO: the greedy objective of Locatello et al. 2018, equation 9."""

import warnings

import numpy as np

from skboost.mixtures import finite_value_and_score
from skboost.objectives._base import Candidate, GreedyObjective
from skboost.objectives._kl import ranked_by_joint_gain

# Where the objective has no maximum the search ends at this limit: far enough to tell,
# near enough that the component and its draws are still of use.
_LOG_SCALE_RANGE, _SHIFT_RANGE = 2.0, 20.0


class DegenerateComponentWarning(UserWarning):
    """The residual ELBO ran to an infinite scale or collapsed to a point."""


class ResidualELBO:
    """``E_s[log joint] + lam H(s) - E_s[ln q]`` as a function of the chart of s.

    Parameters
    ----------
    target : Target
    mixture : Mixture
        The current approximation q.
    family, params
        The component and where its search starts.
    base_draws : ndarray
        Fixed base draws.
    entropy_weight : float
        lam, the price of entropy.
    exact : bool
        Whether ``E_s[log joint]`` comes from the target in closed form.
    """

    def __init__(
        self, target, mixture, family, params, base_draws, entropy_weight, exact
    ):
        self.target, self.mixture = target, mixture
        self.family, self.params = family, params
        self.base_draws = base_draws
        self.chart = family.chart(params, len(base_draws))
        self.entropy_weight = entropy_weight
        self.exact = exact

    @property
    def start(self):
        """The starting point, the chart at zero."""
        return np.zeros(self.chart.size)

    @property
    def limits(self):
        """Largest absolute value of every coordinate: none is free."""
        return np.where(self.chart.scale_mask, _LOG_SCALE_RANGE, _SHIFT_RANGE)

    def unpack(self, x):
        """Parameters of the component."""
        return self.chart.move(x)

    def value_and_gradient(self, x):
        """RELBO in nats and its gradient in `x`."""
        family, params = self.family, self.unpack(x)
        theta = family.transport(params, self.base_draws)
        score, log_q = self.mixture.score_and_log_density(theta)
        value = self.entropy_weight * family.entropy(params) - log_q.mean()
        gradient = self.entropy_weight * family.entropy_gradient(params)
        through = -score
        if self.exact:
            expected, *slopes = self.target.expected_log_density(
                *family.structure(params)
            )
            value += expected
            gradient = gradient + family.pull_structure(params, *slopes)
        else:
            log_joint, score_joint = finite_value_and_score(self.target, theta)
            value += log_joint.mean()
            through = through + score_joint
        gradient = gradient + family.pull_transport(
            params, self.base_draws, through / len(theta)
        )
        return float(value), self.chart.pull(x, gradient)


class ResidualGain(GreedyObjective):
    """SearchContext ELBO (``"relbo"``): Locatello et al. 2018, equation 9.

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
        """Entropy weight of one iteration, t counted from 1."""
        if self.entropy_weight is None:
            return 1.0 / np.sqrt(iteration + 1.0)
        if callable(self.entropy_weight):
            return float(self.entropy_weight(iteration))
        return float(self.entropy_weight)

    def rank_starts(self, context, family, starts, base_draws, rng, settings):
        """Joint gain of every start; see `GreedyObjective.rank_starts`."""
        return ranked_by_joint_gain(context, family, starts, base_draws, settings)

    def problem(self, context, component, weight, base_draws):
        """The problem that the solver sees, in which the weight has no part."""
        return ResidualELBO(
            context.target,
            context.fixed.mixture,
            *component,
            base_draws,
            self.weight_at(context.iteration),
            context.exact,
        )

    def candidate(self, problem, x):
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
        return Candidate(problem.family, params, 0.5)
