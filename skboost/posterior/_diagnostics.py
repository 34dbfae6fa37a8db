"""What is reported about a mixture: from fresh draws, with standard errors.

The draws that were optimised flatter (a KL of -0.024 on them was +0.024 on fresh
ones), so nothing here sees a draw that any search or weight solver has seen.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skboost._math import log_sum_exp, log_weights, mean_and_se
from skboost.posterior._draws import expectations
from skboost.posterior._psis import log_mean_weight, psis


class Estimate(NamedTuple):
    """A Monte Carlo estimate in nats and its standard error."""

    value: float
    se: float


@dataclass(frozen=True)
class FreshDraws:
    """Draws from a mixture that nothing has been fitted to.

    Parameters
    ----------
    mixture : Mixture
    theta : ndarray of shape (n, dim)
    row_weights : ndarray of shape (n,)
        Weights of the draws, by strata; they sum to one.
    source : ndarray of int of shape (n,)
        Component of each draw.
    log_joint : ndarray of shape (n,) or None
        None where the target's Gaussian expectations are exact.
    expected : ndarray of shape (n_components,) or None
        Exact ``E_{s_k}[log joint]``, nats.
    """

    mixture: object
    theta: np.ndarray
    row_weights: np.ndarray
    source: np.ndarray
    log_joint: np.ndarray | None
    expected: np.ndarray | None

    @classmethod
    def of(cls, target, mixture, n, rng, exact):
        """Draw `n` points from `mixture` and evaluate the target where it must be."""
        theta, row_weights, source = mixture.stratified_draws(n, rng)
        return cls(
            mixture,
            theta,
            row_weights,
            source,
            None if exact else target.log_density(theta),
            expectations(target, mixture.components) if exact else None,
        )

    def elbo(self):
        """ELBO of the mixture, nats.

        With exact expectations only ``E[ln s_k - ln q]`` is left to the draws: at
        most the entropy of the weights, and free of the target.
        """
        if self.expected is None:
            log_q = self.mixture.log_density(self.theta)
            return Estimate(*mean_and_se(self.log_joint - log_q, self.row_weights))
        table = self.mixture.log_components(self.theta)
        log_q = log_sum_exp(table, log_weights(self.mixture.weights))
        own = table[np.arange(len(table)), self.source]
        overlap, se = mean_and_se(own - log_q, self.row_weights)
        return Estimate(float(self.mixture.weights @ self._certain) + overlap, se)

    @property
    def _certain(self):
        entropy = [f.entropy(p) for f, p in self.mixture.components]
        return self.expected + np.array(entropy)

    def excess(self, theta, log_joint):
        """``ln m`` and ``ln m - log joint`` at any draws, nats.

        With exact expectations the components' own log densities, shared out by
        responsibility, stand in for the log joint; `certain_part` has the rest.
        """
        table = self.mixture.log_components(theta)
        log_m = log_sum_exp(table, log_weights(self.mixture.weights))
        if log_joint is not None:
            return log_m, log_m - log_joint
        log_share = table + log_weights(self.mixture.weights) - log_m[:, None]
        share = np.exp(log_share)
        own = np.where(share > 0, share * table, 0.0).sum(axis=1)
        return log_m, log_m - own

    def remaining_kl(self, target, n, rng):
        """What importance sampling sees beyond the ELBO; see `remaining_kl`."""
        theta, log_joint = self.theta, self.log_joint
        if log_joint is None:
            theta = self.mixture.sample(n, rng)
            log_joint = target.log_density(theta)
        return remaining_kl(log_joint, self.mixture.log_density(theta))

    def certain_part(self):
        """The part of the ELBO that needs no draws, nats."""
        if self.expected is None:
            return 0.0
        return float(self.mixture.weights @ self._certain)


def elbo_gain(before, after):
    """ELBO of one mixture minus that of another, on the fresh draws of both.

    The balance heuristic puts both on common draws, so that what they share cancels
    draw by draw.

    Parameters
    ----------
    before, after : FreshDraws

    Returns
    -------
    Estimate
        Gain of `after` over `before`, nats.
    """
    theta = np.concatenate([before.theta, after.theta])
    log_joint = None
    if before.log_joint is not None:
        log_joint = np.concatenate([before.log_joint, after.log_joint])
    log_old, old = before.excess(theta, log_joint)
    log_new, new = after.excess(theta, log_joint)
    row_weights = 0.5 * np.concatenate([before.row_weights, after.row_weights])
    # The unknown ln Z is common to both integrands: left in, it multiplies the noise
    # of two densities that integrate to one.
    centre = before.row_weights @ old[: len(before.theta)]
    log_r = np.logaddexp(log_old, log_new) - np.log(2.0)
    with np.errstate(invalid="ignore"):
        old, new = old - centre, new - centre
        change = _weighted(log_old - log_r, old) - _weighted(log_new - log_r, new)
    value, se = mean_and_se(change, row_weights)
    return Estimate(value + after.certain_part() - before.certain_part(), se)


def _weighted(log_weight, values):
    weight = np.exp(log_weight)
    return np.where(weight > 0, weight * values, 0.0)


def duality_gap(fresh, candidate):
    """``E_q[ln q - log joint] - E_s[ln q - log joint]`` for a proposed component s.

    Locatello et al. 2018, Lemma 4: an upper bound of the suboptimality over mixtures
    of components with at least the entropy of s, up to how well s was found.

    Parameters
    ----------
    fresh : FreshDraws
        Of the current mixture q.
    candidate : FreshDraws
        Of the component s, as a mixture of one.

    Returns
    -------
    Estimate
        In nats.
    """
    elbo = fresh.elbo()
    log_q = fresh.mixture.log_density(candidate.theta)
    if candidate.expected is None:
        gain, se = mean_and_se(candidate.log_joint - log_q, candidate.row_weights)
    else:
        own = candidate.mixture.log_density(candidate.theta)
        gain, se = mean_and_se(own - log_q, candidate.row_weights)
        gain += candidate.certain_part()
    return Estimate(gain - elbo.value, float(np.hypot(se, elbo.se)))


class RemainingKL(NamedTuple):
    """``ln Z - ELBO`` by importance sampling, its standard error, and k-hat.

    `spread` is half the variance of ``ln p - ln q`` plus two standard errors: the
    same quantity to second order, and the careful side of it.
    """

    value: float
    se: float
    khat: float
    spread: float


def remaining_kl(log_joint, log_q):
    """How far the ELBO still is from the log evidence that its draws can see.

    Parameters
    ----------
    log_joint, log_q : ndarray of shape (n,)
        At fresh draws of q, nats.

    Returns
    -------
    RemainingKL
        In nats. Blind to whatever q never reaches.
    """
    log_ratio = log_joint - log_q
    smoothed, khat = psis(log_ratio)
    log_z, se_z = log_mean_weight(smoothed)
    elbo, se_elbo = mean_and_se(log_ratio)
    with np.errstate(invalid="ignore"):
        half, se_half = mean_and_se(0.5 * (log_ratio - elbo) ** 2)
    return RemainingKL(
        log_z - elbo, float(np.hypot(se_z, se_elbo)), khat, half + 2.0 * se_half
    )
