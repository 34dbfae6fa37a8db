"""The ELBO of a mixture as a function of some of its components and their weights,
and the residual ELBO of one.

One component moving beside a fixed mixture is the greedy step; all components moving
and nothing fixed is refinement, and one component alone is ordinary variational
inference: the same problem, written once.
"""

import warnings
from dataclasses import dataclass
from numbers import Real

import numpy as np

from skboost._math import log_sum_exp, log_weights, responsibilities
from skboost.approximation import expectations, finite, finite_value_and_score
from skboost.families import Component
from skboost.objectives._base import Candidate, Objective, OneComponent

# Keeps every share above e-12 of the others within one search; weights are set to
# exact zeros by what moves weights, not here.
LOGIT_RANGE = 12.0
# Weights at which a component is tried, the largest first. Tails want a small one, and
# without it five of twelve runs did not meet a pole that makes a density improper.
START_WEIGHTS = (0.25, 0.02, 0.002)


@dataclass(frozen=True)
class FixedMixture:
    """The part of the mixture that stays where it is, with its relative weights."""

    mixture: object
    # Draws, and weights with ``sum(share * f(theta)) ~ E_mixture[f]``.
    theta: np.ndarray
    share: np.ndarray
    # Of the mixture at the draws, and its ``E[log joint]``, nats.
    log_density: np.ndarray
    expected: float

    @property
    def components(self):
        """The mixture whose components a search starts from."""
        return self.mixture

    @classmethod
    def of(cls, mixture, pool):
        """The whole of `mixture`, with expectations from the balance heuristic."""
        log_q = log_sum_exp(pool.log_components, log_weights(mixture.weights))
        share = np.exp(log_q - pool.log_proposal)
        share /= share.sum()
        if pool.expected is None:
            expected = float(share @ finite(pool.log_joint))
        else:
            expected = float(mixture.weights @ pool.expected)
        # Draws that carry nothing cost as much as those that do.
        heavy = share > 1e-9 * share.max()
        return cls(mixture, pool.theta[heavy], share[heavy], log_q[heavy], expected)


class JointELBO:
    """ELBO of ``share_0 fixed + sum_k share_k s_k`` in (moves of s_k, logits).

    Base draws stay fixed, so a quasi-Newton solver applies, and the gradient is exact.
    With `exact` the target has ``E_s[log joint]`` in closed form; without `fixed` all
    moves. Locatello et al. 2018, equation 9, leave ``gamma`` out.
    """

    def __init__(self, target, components, base_draws, shares, fixed, exact):
        self.target, self.components = target, components
        self.base_draws, self.fixed, self.exact = base_draws, fixed, exact
        sizes = [len(component.params) for component in components]
        self._cuts = np.cumsum(sizes)
        # The ELBO bends less at a small share; below this, steps become no longer.
        bends = np.maximum(shares, 1e-3)
        free = 1.0 - np.sum(shares) if fixed is not None else shares[0]
        logits = np.log(shares / max(free, 1e-12))
        logits = logits if fixed is not None else logits[1:]
        # All components where they are, the largest absolute value of every coordinate,
        # and the size of a step in it.
        self.start = np.concatenate([np.zeros(sum(sizes)), logits])
        limits = map(Component.limits, components)
        self.limits = np.concatenate([*limits, np.full(len(logits), LOGIT_RANGE)])
        moves = np.repeat(1.0 / np.sqrt(bends), sizes)
        free = bends[len(bends) - len(logits) :]
        self.scale = np.concatenate([moves, 1.0 / np.sqrt(free * (1.0 - free))])

    def unpack(self, x):
        """The components where they have moved to, and all shares, the fixed part's
        first."""
        *coordinates, logits = np.split(x, self._cuts)
        moved = [*map(Component.move, self.components, coordinates)]
        logits = np.concatenate([[0.0], logits])
        shares = np.exp(logits - logits.max())
        return moved, shares / shares.sum()

    def value_and_gradient(self, x):
        """ELBO in nats and its gradient in `x`."""
        moved, shares = self.unpack(x)
        *coordinates, _ = np.split(x, self._cuts)
        points = _Points(self, moved, shares)
        d_params, d_log_shares = points.gradients()
        pulled = map(Component.pull_move, self.components, coordinates, d_params)
        d_logits = d_log_shares - shares * d_log_shares.sum()
        return points.value, np.concatenate([*pulled, d_logits[1:]])


class _Points:
    """All draws of one evaluation, with the densities of everything and the ELBO."""

    def __init__(self, problem, components, shares):
        self.problem, fixed = problem, problem.fixed
        self.components = components
        self.theta = [*map(Component.draws, components, problem.base_draws)]
        self.cuts = np.cumsum([len(t) for t in self.theta])
        self.moving = shares if fixed is None else shares[1:]
        self.fixed_share = None if fixed is None else shares[0]
        own = np.concatenate(self.theta)
        everywhere = own if fixed is None else np.concatenate([own, fixed.theta])
        self.evaluations = [component.at(everywhere) for component in components]
        self._mix(own)
        if problem.exact:
            self._expected = [
                problem.target.expected_log_density(*component.structure())
                for component in components
            ]
            self.expected = np.array([e[0] for e in self._expected])
            self.score = np.zeros_like(own)
        else:
            value, self.score = finite_value_and_score(problem.target, own)
            values = np.split(value, self.cuts[:-1])
            self.expected = np.array([v.mean() for v in values])
        value = self.moving @ self.expected - self._mass @ self.log_m
        if fixed is not None:
            value += self.fixed_share * fixed.expected
        self.value = float(value)

    def _mix(self, own):
        fixed = self.problem.fixed
        # Weight of each draw in the sum that estimates ``E_m``.
        mass = [
            np.full(len(t), a / len(t))
            for t, a in zip(self.theta, self.moving, strict=True)
        ]
        log_parts = [e.log_density for e in self.evaluations]
        logs = [np.log(a) for a in self.moving]
        if fixed is not None:
            mass.append(self.fixed_share * fixed.share)
            self.fixed_score, log_fixed = fixed.mixture.score_and_log_density(own)
            log_parts.append(np.concatenate([log_fixed, fixed.log_density]))
            logs.append(np.log(self.fixed_share))
        self._mass = np.concatenate(mass)
        table = np.stack(log_parts).T + np.array(logs)
        self.responsibility, self.log_m = responsibilities(table)

    def gradients(self):
        """Gradients in the parameters of each moving component, and in ln shares."""
        *cuts, n = self.cuts
        rho = self.responsibility
        score_m = np.zeros_like(self.score)
        for j, e in enumerate(self.evaluations):
            part = e.score(slice(n))
            part *= rho[:n, j, None]
            score_m += part
        if self.fixed_share is not None:
            score_m = score_m + rho[:n, -1, None] * self.fixed_score
        through = self._mass[:n, None] * (self.score - score_m)
        through = np.split(through, cuts)
        drawn = self.components, self.problem.base_draws, through
        d_params = [*map(Component.pull_draws, *drawn)]
        for j, component in enumerate(self.components):
            # What the log density of a component at every point costs.
            d_params[j] -= self.evaluations[j].pull(self._mass * rho[:, j])
            if self.problem.exact:
                slopes = component.pull_structure(*self._expected[j][1:])
                d_params[j] += self.moving[j] * slopes
        # In the logarithm of each share on its own: the simplex comes later.
        *spent, rest = np.split(self._mass * self.log_m, [*cuts, n])
        gains = self.moving * self.expected - [s.sum() for s in spent]
        used = self._mass @ rho
        if self.fixed_share is not None:
            kept = self.fixed_share * self.problem.fixed.expected - rest.sum()
            gains, used = np.concatenate([[kept], gains]), np.roll(used, 1)
        return d_params, gains - used


# --- the greedy objective of objective="kl"


class JointGain(Objective):
    """Gain in ELBO of adding the component with its best weight (``"kl"``).

    It needs no entropy weight, and can not degenerate: a component that collapses is
    charged ``ln(gamma s)``, one that spreads gains nothing.

    Examples
    --------
    >>> from skboost import BoostedBayesianPoissonRegression
    >>> from skboost.strategies import JointGain
    >>> model = BoostedBayesianPoissonRegression(objective=JointGain())
    """

    def rank_starts(self, context, starts, base_draws, rng, settings):
        """As `Objective.rank_starts`; what gains nothing yet is searched from a
        large weight."""
        return ranked_by_joint_gain(context, starts, base_draws)

    def problem(self, context, component, weight, base_draws):
        """The problem that the solver sees; see `JointELBO`."""
        return JointELBO(
            context.target,
            [component],
            [base_draws],
            np.array([weight]),
            context.fixed,
            context.exact,
        )

    def candidate(self, problem, x, value):
        """The component at the solver's last point."""
        (component,), shares = problem.unpack(x)
        return Candidate(component, float(shares[-1]))


def ranked_by_joint_gain(context, starts, base_draws):
    """Gain in ELBO of every start at its best weight, and that weight."""
    weights = np.array(START_WEIGHTS)
    # They rank, and need no precision.
    values = joint_gains(context, starts, base_draws[:64], weights)
    best = np.where(values.max(axis=1) > 0, values.argmax(axis=1), 0)
    return values[range(len(starts)), best], weights[best]


def joint_gains(context, starts, base_draws, weights):
    """Gain in ELBO (n_starts, n_weights) of starts at weights, on common draws."""
    target, fixed = context.target, context.fixed
    theta = [start.draws(base_draws) for start in starts]
    everywhere = np.concatenate(theta)
    cuts = np.cumsum([len(t) for t in theta])[:-1]
    if context.exact:
        expected = expectations(target, starts)
    else:
        log_joint = np.split(finite(target.log_density(everywhere)), cuts)
        expected = [values.mean() for values in log_joint]
    log_fixed = np.split(fixed.mixture.log_density(everywhere), cuts)
    alone = fixed.expected - fixed.share @ fixed.log_density
    values = np.empty((len(starts), len(weights)))
    for k, start in enumerate(starts):
        here = np.column_stack([log_fixed[k], start.log_density(theta[k])])
        there = np.column_stack([fixed.log_density, start.log_density(fixed.theta)])
        for j, weight in enumerate(weights):
            logs = np.log([1.0 - weight, weight])
            gained = expected[k] - log_sum_exp(here, logs).mean()
            kept = fixed.expected - fixed.share @ log_sum_exp(there, logs)
            values[k, j] = weight * gained + (1.0 - weight) * kept - alone
    return np.where(np.isnan(values), -np.inf, values)


# --- one component, its entropy in closed form


class SingleELBO(OneComponent):
    """ELBO of one component in all its parameters: ordinary variational inference."""

    def __init__(self, target, component, base_draws, exact):
        super().__init__(target, component, base_draws)
        self.exact = exact

    def elbo(self, component):
        """ELBO in nats of a component, on the problem's draws."""
        if self.exact:
            expected = self.target.expected_log_density(*component.structure())[0]
        else:
            theta = component.draws(self.base_draws)
            expected = finite(self.target.log_density(theta)).mean()
        return float(expected + component.entropy())

    def expected_log_joint(self, moved):
        """``E_s[log joint]`` in nats, and its gradient in the parameters."""
        if self.exact:
            value, *slopes = self.target.expected_log_density(*moved.structure())
            return value, moved.pull_structure(*slopes)
        theta = moved.draws(self.base_draws)
        log_joint, score = finite_value_and_score(self.target, theta)
        gradient = moved.pull_draws(self.base_draws, score / len(theta))
        return log_joint.mean(), gradient

    def value_and_gradient(self, x):
        """ELBO in nats and its gradient in `x`."""
        moved = self.unpack(x)
        value, gradient = self.expected_log_joint(moved)
        gradient = gradient + moved.entropy_gradient()
        return float(value + moved.entropy()), self.component.pull_move(x, gradient)


# --- residual ELBO: the greedy objective of Locatello et al. 2018, equation 9


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
