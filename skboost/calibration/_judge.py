"""Whether a correction is taken, from what draws that it was not fitted to say."""

import numpy as np

from skboost._math import N_ERRORS

# What a correction may lose of the ELBO: nats, nats for each dimension where it was
# made by chains, and a share of the KL that remains. "moments" cost up to 1.1 nats
# where they were better, and 190 on a horseshoe, where they were not.
_GUARDED, _FULL = (0.01, 0.002, 0.1), (2.0, 0.02, 1.0)


def allowed_loss(guarded, kl, dim=0):
    """Nats of the ELBO that a correction may cost.

    Parameters
    ----------
    guarded : bool
    kl : float
        What remains, nats.
    dim : int, default=0
        Of a correction by chains.
    """
    loss, per_dim, share = _GUARDED if guarded else _FULL
    return max(loss, per_dim * dim) + share * kl


def beyond_noise(allowed, record):
    """What is allowed of a loss that is known with two standard errors."""
    return allowed - N_ERRORS * record.elbo_change_se


def refusal(record, allowed):
    """Why a correction is not taken; empty where it is.

    Parameters
    ----------
    record : Calibration
        As it was judged.
    allowed : float
        Nats that the ELBO may fall by.

    Returns
    -------
    str
    """
    gain, se, change = (
        record.log_score_gain,
        record.log_score_gain_se,
        record.elbo_change,
    )
    if not gain > N_ERRORS * se:
        return (
            "fresh draws see no gain beyond two standard errors "
            f"({gain:.2g} nats, standard error {se:.1g})."
        )
    if not np.isfinite(change):
        return "the ELBO after it is no number."
    if change < -allowed and allowed < 0.0:
        return (
            f"its change of the ELBO, {change:.2g} nats, is hardly known (standard "
            f"error {record.elbo_change_se:.2g})."
        )
    if change < -allowed:
        return (
            f"it would cost {-change:.2g} nats of the ELBO, more than the "
            f"{allowed:.2g} allowed."
        )
    return ""
