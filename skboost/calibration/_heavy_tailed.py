"""Components with the tails of the target, in few dimensions."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from skboost._math import log_sum_exp, log_weights
from skboost.approximation import (
    FreshDraws,
    Mixture,
    effective_sample_size,
    elbo_gain,
    kept_components,
    psis,
)
from skboost.calibration._judge import allowed_loss, beyond_noise, refusal
from skboost.calibration._record import Calibration, Declined
from skboost.calibration._student_fit import LEAST_WEIGHT, student_fit

# Draws of a round for each dimension, and at most: in eleven dimensions 1,024 left the
# energy distance at .03, 4,096 at .006, 11,000 at .002. At least that many.
_N_GUARDED, _N_FULL, _N_LEAST = (400, 4096), (1000, 12_288), 1024
# Weights are refused above that shape where less than this share of draws counts: the
# shape alone says little where weights are nearly constant.
_MAX_KHAT, _LEAST_SHARE = 0.7, 0.25
# Nats that one draw counts for at most.
_MOST = 4.0


@dataclass(frozen=True)
class HeavyTails:
    """Student-t components by adaptive importance sampling; see `student_fit`.

    Parameters
    ----------
    guarded : bool
        Whether the new components stand beside the old ones, under the weights that
        minimise ``KL(q || p) + KL(p || q)`` on the draws of the fit, and the ELBO may
        fall by little. Without it the new components replace the old ones. See
        `allowed_loss`.
    """

    guarded: bool

    def corrected(self, problem, pilot):
        """The mixture with new components, and the record; raises `Declined`."""
        dim = problem.mixture.dim
        mixture, pool, proposal = student_fit(
            problem, self._n_draws(dim), problem.rng(1)
        )
        if self.guarded:
            both = problem.mixture.components + mixture.components
            mixture = jointly_weighted(both, problem, pool)
            mixture = mixture.keep(
                kept_components(mixture.weights, problem.max_components)
            )
        record = self._judged(problem, mixture, proposal, len(pool.theta))
        reason = refusal(record, self._allowed(record, pilot))
        if reason:
            raise Declined(replace(record, step=0.0, reason=reason))
        return mixture, record

    def _allowed(self, record, pilot):
        """Nats of the ELBO that the new components may cost."""
        allowed = allowed_loss(self.guarded, pilot.kl)
        # Of an ELBO without a lower end draws see little but a large standard error.
        return allowed if self.guarded else beyond_noise(allowed, record)

    def _n_draws(self, dim):
        """Draws of every round of the fit."""
        per_dim, most = _N_GUARDED if self.guarded else _N_FULL
        return int(np.clip(per_dim * dim, _N_LEAST, most))

    def _judged(self, problem, mixture, proposal, n_draws):
        """What as many fresh draws say of the new mixture; raises `Declined`.

        A draw counts for no more than `_MOST` nats: far out in the tails the gain has
        no bound, and few draws would carry its mean. What is left of it is less.
        """
        method = "gaussian" if problem.light_tails else "heavy-tailed"
        before, after, apart = (
            FreshDraws.of(problem.target, each, n_draws // 3, problem.rng(2, k), False)
            for k, each in enumerate((problem.mixture, mixture, proposal))
        )
        theta, log_joint, rows = (
            np.concatenate([getattr(draws, name) for draws in (before, after, apart)])
            for name in ("theta", "log_joint", "row_weights")
        )
        each = (problem.mixture, mixture, proposal)
        log_old, log_new, log_apart = (one.log_density(theta) for one in each)
        log_r = log_sum_exp(np.stack([log_old, log_new, log_apart]).T)
        smoothed, khat = psis(log_joint - log_r + np.log(rows))
        n_effective = effective_sample_size(smoothed)
        if khat > _MAX_KHAT and n_effective < _LEAST_SHARE * len(theta):
            reason = (
                f"a few of {len(theta)} draws carry the weights that judge it (k-hat "
                f"{khat:.2f})."
            )
            raise Declined(Calibration(method, pareto_k=khat, reason=reason))
        gain, se = _weighted_mean(np.minimum(log_new - log_old, _MOST), smoothed)
        change = elbo_gain(before, after)
        return Calibration(method, 1.0, *change, gain, se, khat)


def _weighted_mean(values, log_w):
    """Self-normalised mean and its standard error (delta method)."""
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    mean = float(w @ values)
    return mean, float(np.sqrt(w**2 @ (values - mean) ** 2))


def jointly_weighted(components, problem, pool):
    """Old and new components under weights with the least KL in both directions.

    ``KL(q || p) + KL(p || q)`` is convex in the weights; both are averages over the
    draws of the pool, by importance weights towards q and towards p.

    Parameters
    ----------
    components : tuple of (VariationalFamily, ndarray of shape (n_params,))
    problem : Problem
        Whose mixture's components come first: half of the weight begins there.
    pool : Pool

    Returns
    -------
    Mixture
    """
    old = problem.mixture
    n_new = len(components) - old.n_components
    start = np.append(0.5 * old.weights, np.full(n_new, 0.5 / n_new))
    inside = pool.log_joint > -np.inf
    table = Mixture(components, start).log_components(pool.theta)[inside]
    log_joint, weights = pool.log_joint[inside], pool.weights[inside]
    log_proposal = pool.log_proposal[inside]
    densities = np.exp(table - log_proposal[:, None]) / len(pool.theta)
    centre = weights @ (log_joint - log_proposal)

    def value_and_gradient(logits):
        problem.check_budget()
        alpha = softmax(logits)
        log_q = log_sum_exp(table, log_weights(alpha))
        excess = log_q - log_joint + centre
        value = (densities @ alpha) @ excess - weights @ log_q
        share = np.exp(table - log_q[:, None])
        slope = densities.T @ (excess + 1.0) - weights @ share
        return value, alpha * (slope - alpha @ slope)

    found = minimize(
        value_and_gradient, np.log(np.maximum(start, LEAST_WEIGHT)), jac=True,
        method="BFGS", options={"maxiter": 200},
    )  # fmt: skip
    alpha = softmax(found.x)
    return Mixture(components, alpha).keep(alpha > LEAST_WEIGHT)
