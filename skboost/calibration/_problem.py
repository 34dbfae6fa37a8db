"""What a correction is given, whether it is taken, and what is said of it."""

from dataclasses import dataclass

import numpy as np

from skboost._math import N_ERRORS
from skboost._random import CALIBRATE, generator


@dataclass(frozen=True)
class Problem:
    """A mixture and the target that it stands for.

    Where it is `exact`, closed Gaussian expectations are used for Gaussian components.
    A correction that is `guarded` may cost little of the ELBO; see `allowed_loss`.
    """

    target: object
    mixture: object
    exact: bool
    seed: int
    max_components: int | None = None
    guarded: bool = True

    def rng(self, *key):
        """Generator of one of the streams of a correction."""
        return generator(self.seed, CALIBRATE, *key)


@dataclass(frozen=True)
class Calibration:
    """What a correction after boosting did, or why it did nothing.

    Attributes
    ----------
    method : {"affine", "heavy-tailed", "gaussian", "none"}
        The correction that was tried: an affine map of the mixture, or Student-t
        components fitted to weighted draws, or Gaussian ones, where results are
        exponentials of coordinates; "none" where none was.
    step : float
        How far it was taken, in [0, 1]; 0 where it was declined, and the posterior is
        that before.
    elbo_change, elbo_change_se : float
        ELBO after less ELBO before, nats, from fresh draws, and its standard error. A
        correction pays some of the ELBO for moments and tails: it is mostly negative.
        NaN where nothing was judged.
    log_score_gain, log_score_gain_se : float
        Gain of ``E_p[ln q]``, nats: by how much KL(p || q) fell, by draws that nothing
        was fitted to, and its standard error.
    pareto_k : float
        Shape of the tail of the weights by which it was judged; NaN where it was judged
        by chains.
    reason : str
        Why it was declined; empty where it was applied.

    Examples
    --------
    >>> from skboost.calibration import Calibration
    >>> Calibration("affine", reason="the gain is noise").applied
    False
    """

    method: str = "none"
    step: float = 0.0
    elbo_change: float = float("nan")
    elbo_change_se: float = float("nan")
    log_score_gain: float = float("nan")
    log_score_gain_se: float = float("nan")
    pareto_k: float = float("nan")
    reason: str = ""

    @property
    def applied(self):
        """Whether the posterior is the corrected one."""
        return self.step > 0


class Declined(Exception):
    """A correction is not applied; `calibration` says why."""

    def __init__(self, calibration):
        super().__init__(calibration.reason)
        self.calibration = calibration


def allowed_loss(record, guarded, kl, dim):
    """Nats of the ELBO that a correction may cost."""
    by_chains = record.method == "affine"
    # Nats, nats for each dimension where it was made by chains, and a share of the KL
    # that remains. "moments" cost up to 1.1 nats where they were better, and 190 on a
    # horseshoe, where they were not.
    loss, per_dim, share = (0.01, 0.002, 0.1) if guarded else (2.0, 0.02, 1.0)
    allowed = max(loss, per_dim * dim if by_chains else 0.0) + share * kl
    if not guarded:
        # Of an ELBO without a lower end draws see little but a large standard error.
        return allowed - N_ERRORS * record.elbo_change_se
    if not by_chains:
        return allowed
    noise = np.hypot(record.log_score_gain_se, record.elbo_change_se)
    return min(allowed, record.log_score_gain - N_ERRORS * noise)


def refusal(record, allowed):
    """Why a correction is not taken; empty where it is."""
    gain, se = record.log_score_gain, record.log_score_gain_se
    change = record.elbo_change
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


def first_failure(target):
    """What happened at the first failed draw, as a sentence; empty without any."""
    return f" First: {target.first_failure}" if target.first_failure else ""
