"""Residual ELBO: the greedy objective of Locatello et al. 2018, equation 9."""

import warnings
from numbers import Real

import numpy as np

from skboost.objectives._base import Candidate, Objective
from skboost.objectives._joint import JointGain, SingleELBO, ranked_by_joint_gain


class DegenerateComponentWarning(UserWarning):
    """The residual ELBO ran to an infinite scale or collapsed to a point."""


class ResidualELBO(SingleELBO):
    """``E_s[log joint] + lam H(s) - E_s[ln q]``, q the mixture, in the moves of s."""

    def __init__(self, target, mixture, component, base_draws, entropy_weight, exact):
        super().__init__(target, component, base_draws, exact)
        self.mixture, self.entropy_weight = mixture, entropy_weight
        # Where the objective has no maximum the search ends there: far enough to tell,
        # near enough that the component and its draws are still of use.
        mask = component.family.scale_mask(component.dim)
        self.limits = np.where(mask, 2.0, 20.0)

    def value_and_gradient(self, x):
        """RELBO in nats and its gradient in `x`."""
        moved = self.unpack(x)
        theta = moved.draws(self.base_draws)
        score, log_q = self.mixture.score_and_log_density(theta)
        value, gradient = self.expected_log_joint(moved)
        value += self.entropy_weight * moved.entropy() - log_q.mean()
        gradient = gradient + self.entropy_weight * moved.entropy_gradient()
        gradient = gradient - moved.pull_draws(self.base_draws, score / len(theta))
        return float(value), self.component.pull_move(x, gradient)


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

    Examples
    --------
    >>> from skboost import BoostedBayesianPoissonRegression
    >>> from skboost.strategies import ResidualGain
    >>> model = BoostedBayesianPoissonRegression(objective=ResidualGain(1.0))
    """

    # Its maximum lies beyond what the mixture lacks: the better found, the worse.
    seeks_gain = False

    def __init__(self, entropy_weight=None, early_stopping=True):
        self.entropy_weight = entropy_weight
        self.early_stopping = early_stopping

    def check(self):
        if not isinstance(self.early_stopping, (bool, np.bool_)):
            raise ValueError(
                f"early_stopping must be True or False; got {self.early_stopping!r}. "
                "Change early_stopping of the objective."
            )
        # A function that is none of the step is found before any work.
        self.weight_at(1)

    def weight_at(self, iteration):
        """Entropy weight of step t = 1, 2, ...; a ValueError unless finite and at
        least 0."""
        weight = self.entropy_weight
        if weight is None:
            return 1.0 / np.sqrt(iteration + 1.0)
        if callable(weight):
            try:
                weight = weight(iteration)
            except Exception as error:
                raise ValueError(
                    "entropy_weight must be a function of the step t = 1, 2, ..., such "
                    f"as lambda t: 1 / (t + 1); got one that failed with {error!r} at "
                    f"t = {iteration}."
                ) from error
        if not (isinstance(weight, Real) and 0 <= weight < np.inf):
            raise ValueError(
                "entropy_weight must be a finite number >= 0, or a function of the "
                f"step t = 1, 2, ... that returns one; got {weight!r} at t = "
                f"{iteration}. Change entropy_weight, or leave it None."
            )
        return float(weight)

    def rank_starts(self, context, starts, base_draws, rng, settings):
        return ranked_by_joint_gain(context, starts, base_draws)

    def problem(self, context, component, weight, base_draws):
        """The problem that the solver sees, in which the weight has no part."""
        return ResidualELBO(
            context.target,
            context.fixed.mixture,
            component,
            base_draws,
            self.weight_at(context.iteration),
            context.exact,
        )

    def judge(self, context, component, weight, base_draws):
        """The problem whose value at its start decides between components."""
        decides = JointGain() if self.early_stopping else self
        return decides.problem(context, component, weight, base_draws)

    def candidate(self, problem, x, value):
        """The component at a point of the search; warns where it degenerated."""
        at_limit = bool(np.any(np.abs(x) > 0.98 * problem.limits))
        # Under early stopping the value is the joint gain: a component at the end of
        # its range that gains something is wide or far off, not degenerate.
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
        return Candidate(problem.unpack(x), None)
