"""The joint gain: the greedy objective of ``objective="kl"``."""

import numpy as np

from skboost._math import log_sum_exp
from skboost.approximation import finite
from skboost.objectives._base import Candidate, Objective
from skboost.objectives._joint import JointELBO


class JointGain(Objective):
    """Gain in ELBO of adding the component with its best weight (``"kl"``).

    It needs no entropy weight, and can not degenerate: a component that collapses is
    charged ``ln(gamma s)``, one that spreads gains nothing.
    """

    def rank_starts(self, context, family, starts, base_draws, rng, settings):
        """Gain of every start at its best weight; see `Objective.rank_starts`."""
        return ranked_by_joint_gain(context, family, starts, base_draws, settings)

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
        (params,), shares = problem.unpack(x)
        return Candidate(problem.components[0][0], params, float(shares[-1]))


def ranked_by_joint_gain(context, family, starts, base_draws, settings):
    """Gain of every start at its best weight, and that weight.

    A start that gains nothing yet is best searched from a large weight: at a small
    one its slope vanishes.
    """
    weights = np.array(settings.start_weights)
    few = base_draws[: settings.n_rank]
    values = joint_gains(context, family, starts, few, weights)
    best = np.where(values.max(axis=1) > 0, values.argmax(axis=1), 0)
    return values[range(len(starts)), best], weights[best]


def joint_gains(context, family, starts, base_draws, weights):
    """Gain in ELBO of every start at every weight, on common draws.

    Parameters
    ----------
    context : SearchContext
    family : VariationalFamily
    starts : list of ndarray of shape (n_params,)
    base_draws : ndarray of shape (n, base_dim)
    weights : sequence of float
        Of the new component.

    Returns
    -------
    ndarray of shape (n_starts, n_weights)
        Nats.
    """
    target, fixed = context.target, context.fixed
    theta = [family.transport(params, base_draws) for params in starts]
    everywhere = np.concatenate(theta)
    cuts = np.cumsum([len(t) for t in theta])[:-1]
    if context.exact:
        expected = target.expected_values([family.structure(p) for p in starts])
    else:
        log_joint = np.split(finite(target.log_density(everywhere)), cuts)
        expected = [values.mean() for values in log_joint]
    log_fixed = np.split(fixed.mixture.log_density(everywhere), cuts)
    alone = fixed.expected - fixed.share @ fixed.log_density
    values = np.empty((len(starts), len(weights)))
    for k, params in enumerate(starts):
        here = np.column_stack([log_fixed[k], family.log_density(theta[k], params)])
        there = np.column_stack(
            [fixed.log_density, family.log_density(fixed.theta, params)]
        )
        for j, weight in enumerate(weights):
            logs = np.log([1.0 - weight, weight])
            gained = expected[k] - log_sum_exp(here, logs).mean()
            kept = fixed.expected - fixed.share @ log_sum_exp(there, logs)
            values[k, j] = weight * gained + (1.0 - weight) * kept - alone
    return np.where(np.isnan(values), -np.inf, values)
