"""A posterior corrected after its fit, by a log joint that the user passes."""

import warnings

from skboost._random import root_seed
from skboost.calibration import CALIBRATIONS, calibrate
from skboost.targets import CallableTarget, TransformedTarget


class CalibrationWarning(UserWarning):
    """A correction that was asked for was declined: the posterior is as before."""


def calibrated(posterior, log_joint, gradient, method, random_state):
    """The mixture of a posterior after a correction, and what became of it.

    Parameters
    ----------
    posterior : MixturePosterior
    log_joint : callable or object with ``log_density``
        On the scale of the posterior's users.
    gradient : callable or None
    method : str
    random_state : int, RandomState instance or None

    Returns
    -------
    Mixture, Calibration
    """
    if method not in CALIBRATIONS:
        raise ValueError(f"method must be one of {list(CALIBRATIONS)}; got {method!r}.")
    seed = root_seed(random_state)
    target = log_joint
    if gradient is not None or not hasattr(log_joint, "value_and_score"):
        function = getattr(log_joint, "log_density", log_joint)
        # Three to five rows, and not `dim` of them: see `CallableTarget`.
        n = next(n for n in (3, 4, 5) if n != posterior.dim)
        probe = posterior.sample(n, random_state=0)
        target = CallableTarget(
            function, posterior.dim, gradient, probe=probe, name="log_joint"
        )
        target.light_tails = getattr(log_joint, "light_tails", False)
    if posterior.constraints is not None:
        target = TransformedTarget(target, posterior.constraints)
    mixture, calibration = calibrate(target, posterior.mixture, method, seed)
    if not calibration.applied:
        warnings.warn(
            f"calibrate declined the correction: {calibration.reason} The posterior is "
            "as before.",
            CalibrationWarning,
            stacklevel=3,
        )
    return mixture, calibration
