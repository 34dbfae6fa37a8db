"""Squared Hellinger distance of a mixture to the target, and what a change gains."""

import numpy as np

from skboost._math import mean_and_se
from skboost.approximation._diagnostics import Estimate


def squared_hellinger(log_ratio, row_weights=None):
    """Estimated squared Hellinger distance ``H^2 = 1 - integral sqrt(p q)``.

    ``1 - mean(sqrt(w)) / sqrt(mean(w))`` with ``w = p / q`` on draws of q (Campbell
    and Li 2019, equation 9); p need not be normalised. It does not see what q does not
    reach.

    Parameters
    ----------
    log_ratio : ndarray of shape (n,)
        ``ln p - ln q`` at draws of q, nats.
    row_weights : ndarray of shape (n,), default=None
        Weights of the draws, which sum to one; None weighs all alike.

    Returns
    -------
    Estimate
        Between 0 and 1, and its standard error by the delta method.
    """
    w = np.exp(log_ratio - log_ratio.max())
    w /= mean_and_se(w, row_weights)[0]
    root = np.sqrt(w)
    affinity = min(mean_and_se(root, row_weights)[0], 1.0)
    influence = root - 0.5 * affinity * w
    return Estimate(1.0 - affinity, mean_and_se(influence, row_weights)[1])


def hellinger_gain(before, after):
    """Fall in squared Hellinger distance from one mixture to another.

    On the fresh draws of both, by the balance heuristic; the normaliser is estimated
    on the same draws.

    Parameters
    ----------
    before, after : FreshDraws

    Returns
    -------
    Estimate
        Between -1 and 1.
    """
    theta = np.concatenate([before.theta, after.theta])
    log_joint = np.concatenate([before.log_joint, after.log_joint])
    row_weights = 0.5 * np.concatenate([before.row_weights, after.row_weights])
    log_old, log_new = (fresh.mixture.log_density(theta) for fresh in (before, after))
    log_r = np.logaddexp(log_old, log_new) - np.log(2.0)
    top = np.max(log_joint - log_r)
    if not np.isfinite(top):
        return Estimate(0.0, float("inf"))
    z = row_weights @ np.exp(log_joint - log_r - top)
    root = np.exp(0.5 * (log_joint - log_r - top))
    change = np.exp(0.5 * (log_new - log_r)) - np.exp(0.5 * (log_old - log_r))
    return Estimate(*mean_and_se(root * change / np.sqrt(z), row_weights))
