"""Log evidence between a lower bound and an estimate."""

from typing import NamedTuple

from scipy.special import ndtri

from skboost._math import mean_and_se
from skboost.mixtures import log_mean_weight, psis
from skboost.posterior._importance import evaluate_log_joint


class Evidence(NamedTuple):
    """Log evidence ``ln Z`` of a log joint density, from draws of q; nats.

    Attributes
    ----------
    elbo, elbo_se : float
        ``E_q[log joint - ln q]`` and its standard error. The ELBO itself is a lower
        bound of ln Z; this is its Monte Carlo estimate. -inf, with no standard
        error, where the log joint is -inf at a draw.
    log_evidence, log_evidence_se : float
        Importance-sampling estimate of ln Z, Pareto-smoothed, and its standard
        error. It bounds nothing: it tends to be low, by all the mass that q never
        reaches, and its standard error does not know of that.
    interval : tuple of float
        ``(low, high)``: the ELBO less its Monte Carlo error, and the estimate plus
        its own. `low` is below ln Z with at least the confidence asked for, as far as
        the error of the ELBO's average is normal. `high` is not an upper bound.
    khat : float
        Pareto shape of the weights: above 0.7 `log_evidence` is not reliable, and a
        small value is no proof that it is.
    """

    elbo: float
    elbo_se: float
    log_evidence: float
    log_evidence_se: float
    interval: tuple
    khat: float


def estimate_evidence(draws, log_q, log_joint, level):
    """`Evidence` from draws (n, dim) of q with log densities `log_q`, (n,)."""
    log_weights = evaluate_log_joint(log_joint, draws) - log_q
    elbo, elbo_se = mean_and_se(log_weights)
    smoothed, khat = psis(log_weights)
    log_z, log_z_se = log_mean_weight(smoothed)
    width = float(ndtri(0.5 * (1.0 + level)))
    low = elbo if elbo == -float("inf") else elbo - width * elbo_se
    high = log_z + width * log_z_se
    return Evidence(elbo, elbo_se, log_z, log_z_se, (low, high), khat)
