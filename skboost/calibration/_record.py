"""What became of a correction."""

from dataclasses import dataclass


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
