"""What a run carries from one iteration to the next, and what it reports."""

from dataclasses import dataclass

from skboost.boosting._modes import Modes
from skboost.posterior import (
    Estimate,
    FreshDraws,
    Mixture,
    PooledDraws,
    RemainingKL,
)


@dataclass(frozen=True)
class State:
    """Everything that the next iteration needs.

    Attributes
    ----------
    iteration : int
        Boosting iterations done, the first component included.
    mixture : Mixture
        The current iterate.
    pool : PooledDraws
        Cached draws of its components.
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
    finer : int
        Draws for everything, in multiples of those that the run began with.
    """

    iteration: int
    mixture: Mixture
    pool: PooledDraws
    fresh: FreshDraws
    memory: float | None
    best: FreshDraws
    best_iteration: int
    remaining: RemainingKL
    modes: Modes = Modes()
    finer: int = 1

    @property
    def stage(self):
        """What the run keeps of this iteration."""
        return self.best.mixture


@dataclass(frozen=True)
class Info:
    """Report of one iteration; all densities and gains in nats.

    Attributes
    ----------
    iteration : int
        Counted from 1, the first component.
    kind : str
        "first", "frank-wolfe", "away", "pairwise", "split" or "rejected".
    branch : str
        What the step size did.
    gamma : float
        Step length.
    curvature : float or None
        Curvature estimate of an adaptive step.
    n_components : int
    elbo, gain, gap : Estimate
        Of the iterate from fresh draws; gain over the iterate before; duality gap of
        the iterate before, a `DualityGap` save in the first iteration.
    entropy : float
        Entropy of the proposed component, which the gap's certificate names.
    remaining : RemainingKL
        Of the iterate.
    exhausted : bool
        That probe found the posterior to be reached within the tolerance.
    seconds : float
    seconds_weights : float
        Of which in directions, step sizes and weights.
    improper : str
        Why the iterate seems to have no end to grow to; empty where it has.
    """

    iteration: int
    kind: str
    branch: str
    gamma: float
    curvature: float | None
    n_components: int
    elbo: Estimate
    gain: Estimate
    gap: Estimate
    entropy: float
    remaining: RemainingKL
    exhausted: bool
    seconds: float
    seconds_weights: float
    improper: str = ""

    @property
    def progressed(self):
        """Whether the iterate changed."""
        return self.kind == "split" or (self.kind != "rejected" and self.gamma > 0)
