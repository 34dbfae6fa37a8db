"""What a run carries on, what it reports, and whether little enough remains."""

from dataclasses import dataclass

from skboost._math import N_ERRORS
from skboost._random import SKEW, generator
from skboost._settings import GAIN_DECAY
from skboost.approximation import Estimate, FreshDraws, RemainingKL
from skboost.calibration import remaining_after_skewing
from skboost.modes import Modes


@dataclass(frozen=True)
class State:
    """Everything that the next iteration needs.

    Attributes
    ----------
    iteration : int
        Boosting iterations done, the first component included.
    iterate : SimplexIterate or RootIterate
        The current mixture with the cached draws of its components.
    fresh : FreshDraws
        Draws of `mixture` that nothing was fitted to.
    memory : float or None
        What the step size carries.
    best : FreshDraws
        The best iterate so far by fresh-draw ELBO (it holds its mixture).
    best_iteration : int
    remaining : RemainingKL
        Of `mixture`.
    modes : Modes
        Of the target, as far as climbs have found them: tried at every search.
    draw_multiplier : int
        Draws for everything, in multiples of those that the run began with.
    split_first : bool
        Whether the next step tries a split before a search.
    """

    iteration: int
    iterate: object
    fresh: FreshDraws
    memory: float | None
    best: FreshDraws
    best_iteration: int
    remaining: RemainingKL
    modes: Modes = Modes()
    draw_multiplier: int = 1
    split_first: bool = True

    @property
    def mixture(self):
        """The current approximation."""
        return self.fresh.mixture

    @property
    def log_evidence(self):
        """Of the part of the posterior that the mixture reaches, estimated, nats."""
        remaining = self.remaining.value
        # What the mixture reaches has more mass than its ELBO says.
        return self.fresh.elbo().value + (remaining if remaining > 0.0 else 0.0)

    @property
    def stage(self):
        """What the run keeps of this iteration."""
        return self.best.mixture


@dataclass(frozen=True)
class Move:
    """What was done with the weights when a component came in.

    Attributes
    ----------
    kind : str
        "first", "frank-wolfe", "away", "pairwise" or "split"; "rejected" where the
        mixture stayed as it was.
    branch : str
        What the step size did.
    gamma : float
        Step length.
    curvature : float or None
        Curvature estimate of an adaptive step.
    memory : float or None
        What the step size wants back at the next iteration.
    seconds : float
        Spent on directions, step sizes and weights.
    """

    kind: str
    branch: str
    gamma: float
    curvature: float | None = None
    memory: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Info:
    """Report of one iteration; all densities and gains in nats.

    Attributes
    ----------
    iteration : int
        Counted from 1, the first component.
    move : Move
    n_components : int
    elbo, gain, gap : Estimate
        Of the iterate from fresh draws; gain over the iterate before; duality gap of
        the iterate before, a `DualityGap` except in the first iteration.
    entropy : float
        Entropy of the proposed component, which the gap's certificate names.
    remaining : RemainingKL
        Of the iterate.
    exhausted : bool
        That probe found the posterior to be reached within the tolerance.
    seconds : float
    improper : str
        Why the iterate seems to have no end to grow to; empty where it has.
    enough : str
        That what remains is as little as ``tol="auto"`` asks for; empty where it is
        more.
    grown : bool
        Whether what follows has more draws: a small gain then ends no run.
    cut_short : bool
        Whether limits ended the searches of the first component, or left it few draws.
    """

    iteration: int
    move: Move
    n_components: int
    elbo: Estimate
    gain: Estimate
    gap: Estimate
    entropy: float
    remaining: RemainingKL
    exhausted: bool
    seconds: float
    improper: str = ""
    grown: bool = False
    enough: str = ""
    cut_short: bool = False


# --- tol="auto": a run ends once it is as good as a Gaussian fitted to exact draws


# Nats that matter where ``tol="auto"`` says nothing else.
TOL = 1e-2
# What the next component has to be expected to gain, as a share of what may remain,
# where no mode can hide. With wide priors skewed Gaussians have most of what plain
# mixtures gain: on wine with prior_scale=3 four components end .1 nats behind ten and
# take a seventh of the seconds, for the same predictions.
_WORTH = 0.1


def enough_for(target):
    """Nats that may remain under ``tol="auto"``.

    A Gaussian with the moments of 1,000 independent draws of a d-dimensional Gaussian
    is d (d + 3) / 4000 nats from it. That much is allowed where the log posterior is
    concave, three nats at most; elsewhere it would hide a mode or a bend, and only the
    part of the means is allowed, half a nat at most. Of more, draws say too little.

    Parameters
    ----------
    target : Target

    Returns
    -------
    float
    """
    d = target.dim
    if target.log_concave:
        return max(TOL, min(d * (d + 3) / 4000, 3.0))
    return max(TOL, min(d / 1000, 0.5))


def enough(engine, target, state, gain):
    """That no more remains of a state than is allowed, and a sentence on it.

    Empty where more remains, where the mixture has mass at which the density is zero,
    or where it lacks a mode that is known. The gain is that of the last component; NaN
    where there is none, or gains say nothing.
    """
    settings, remaining = engine.settings, state.remaining
    most = settings.enough
    if most is None or engine.proposer.complete:
        return "" if most is None else engine.proposer.complete
    # Of mass outside, what remains of the rest knows nothing; a few draws know little.
    if remaining.outside > 0.0 or target.ledger.budget.has_cut:
        return ""
    expected = GAIN_DECAY * (gain.value + N_ERRORS * gain.se)
    if target.log_concave and 0.0 < expected <= _WORTH * most:
        return (
            f"Converged: the last component gained {gain.value:.2g} nats, and the next "
            "is expected to gain half of it, within a tenth of what a Gaussian fitted "
            "to 1,000 exact draws would leave."
        )
    skewed = ""
    if settings.skews and remaining.value + N_ERRORS * remaining.se > most:
        rng = generator(settings.seed, SKEW, state.iteration, 1)
        after = remaining_after_skewing(target, state.mixture, rng)
        if after is not None:
            remaining, skewed = after, ", once its components are skewed"
    left = remaining.value + N_ERRORS * remaining.se
    # A tail of the weights that is too heavy hides how much is left, where it is much:
    # weights that are nearly constant have any shape of tail. Where no mode or bend can
    # hide, it is enough that their mean exists.
    heaviest = 1.0 if target.log_concave else 0.7
    if not left <= most or (left > 0.05 and remaining.khat > heaviest):
        return ""
    key = settings, SKEW, state.iteration
    if engine.proposer.missed_modes(
        target, state.mixture, state.modes, state.log_evidence, *key
    ):
        return ""
    return (
        f"Converged: at most {left:.2g} nats are left{skewed}, as few as a Gaussian "
        "fitted to 1,000 exact draws would leave, as far as draws of the mixture can "
        "see."
    )
