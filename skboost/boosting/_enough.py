"""``tol="auto"``: a run ends once it is as good as a Gaussian fitted to exact draws."""

from skboost._math import N_ERRORS
from skboost._random import SKEW, generator
from skboost.calibration import remaining_after_skewing

# Nats that matter where ``tol="auto"`` says nothing else.
TOL = 1e-2


def enough_for(target):
    """Nats that may remain under ``tol="auto"``.

    A Gaussian with the moments of 1,000 independent draws of a d-dimensional Gaussian
    is d (d + 3) / 4000 nats from it. That much is allowed where the log posterior is
    concave; elsewhere it would hide a mode or a bend, and only the part of the means is
    allowed. Half a nat is the most: of more, draws say too little.

    Parameters
    ----------
    target : Target

    Returns
    -------
    float
    """
    d = target.dim
    left = d * (d + 3) / 4000 if target.log_concave else d / 1000
    return min(max(TOL, left), 0.5)


def enough(engine, state):
    """That no more remains of a state than is allowed, and a sentence on it.

    Parameters
    ----------
    engine : Boosting
    state : State

    Returns
    -------
    str
        Empty where more remains, or where the mixture lacks a mode that is known.
    """
    settings, remaining = engine.settings, state.remaining
    most = settings.enough
    if most is None:
        return ""
    skewed = ""
    if settings.skews and remaining.value + N_ERRORS * remaining.se > most:
        rng = generator(settings.seed, SKEW, state.iteration, 1)
        after = remaining_after_skewing(engine.target, state.mixture, rng)
        if after is not None:
            remaining, skewed = after, ", once its components are skewed"
    left = remaining.value + N_ERRORS * remaining.se
    # A tail of the weights that is too heavy hides how much is left, where it is much:
    # weights that are nearly constant have any shape of tail.
    if not left <= most or (left > 0.05 and remaining.khat > 0.7):
        return ""
    key = settings, SKEW, state.iteration
    if engine.proposer.missed_modes(
        state.mixture, state.modes, state.log_evidence, *key
    ):
        return ""
    return (
        f"Converged: at most {left:.2g} nats are left{skewed}, as few as a Gaussian "
        "fitted to 1,000 exact draws would leave, as far as draws of the mixture can "
        "see."
    )
