"""What a run carries from one iteration to the next, and what it reports."""

from dataclasses import dataclass

from skboost.approximation import Estimate, FreshDraws, RemainingKL
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
    def pool(self):
        """Cached draws of the components."""
        return self.iterate.pool

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

    @property
    def kind(self):
        """What became of the proposal; see `Move`."""
        return self.move.kind

    @property
    def gamma(self):
        """Step length."""
        return self.move.gamma

    @property
    def progressed(self):
        """Whether the iterate changed."""
        return self.kind == "split" or (self.kind != "rejected" and self.gamma > 0)
