"""What a run carries on, and what it reports of an iteration."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple

from skboost._budget import Budget, End
from skboost.approximation import Estimate, FreshDraws, RemainingKL, expectations
from skboost.modes import Modes

UNKNOWN = Estimate(float("nan"), float("nan"))


class Awaited:
    """A result that is computed where something of it is asked for; `known` is not.

    What is drawn and decides nothing can wait: most fits are only predicted with.
    Copies and pickles are of the result.
    """

    def __init__(self, compute, **known):
        self._compute = compute
        vars(self).update(known)

    @cached_property
    def result(self):
        """What it stands for."""
        result = self._compute()
        # What it was made of, such as rows, is let go once nothing can interrupt it.
        del self._compute
        return result

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.result, name)

    def __reduce__(self):
        return _same, (self.result,)


def _same(result):
    return result


@dataclass(frozen=True)
class State:
    """Everything that the next iteration needs."""

    # Boosting iterations done, the first mixture included.
    iteration: int
    # The current mixture with the cached draws of its components.
    iterate: object
    # Draws of `mixture` that nothing was fitted to.
    fresh: FreshDraws
    # What the step size carries from one iteration to the next.
    step_memory: float | None
    # Of the best iterate so far by the ELBO of held-out draws, and when it was made,
    # iterations over nodes counted, too.
    best: FreshDraws
    best_iteration: int
    # Of `mixture`.
    remaining: RemainingKL
    # Of the target, as far as climbs have found them: tried at every search.
    modes: Modes = Modes()
    # Whether the next step tries a split before a search.
    split_first: bool = True
    # `Orbits` by which the run may end with `mixture`: corrections go on from them.
    orbits: object = None
    # Iterations over nodes before the one that made the first mixture whole.
    n_before: int = 0

    mixture = property(attrgetter("fresh.mixture"), doc="The current approximation.")

    @property
    def log_evidence(self):
        """Of the part of the posterior that the mixture reaches, estimated, nats."""
        remaining = self.remaining.value
        # What the mixture reaches has more mass than its ELBO says.
        return self.fresh.elbo().value + (remaining if remaining > 0.0 else 0.0)

    # What the run keeps of this iteration.
    stage = property(attrgetter("best.mixture"))


@dataclass(frozen=True)
class Move:
    """What was done with the weights when a component came in."""

    # "first", "widths", "frank-wolfe", "away", "pairwise", "split" or "surrogate";
    # "rejected" where the mixture stayed as it was.
    kind: str
    # What the step size did.
    branch: str
    # Step length.
    gamma: float
    # Curvature estimate of an adaptive step.
    curvature: float | None = None
    # What the step size wants back at the next iteration.
    step_memory: float | None = None
    # Spent on directions, step sizes and weights.
    seconds: float = 0.0
    # Whether the next one may be expected to gain half as much.
    says_next: bool = True


FIRST = Move("first", "first", 1.0)


@dataclass(frozen=True)
class Info:
    """Report of one iteration; all densities and gains in nats."""

    # Counted from 1, the first component.
    iteration: int
    move: Move
    n_components: int
    # Of the iterate from fresh draws; gain over the iterate before; duality gap of the
    # iterate before, a `DualityGap` except in the first iteration.
    elbo: Estimate
    gain: Estimate
    gap: Estimate
    # Of the proposed component, which the gap's certificate names.
    entropy: float
    # Of the iterate, and whether that is within `tol`.
    remaining: RemainingKL
    within_tol: bool
    seconds: float
    # Why the iterate seems to have no end to grow to; empty where it has.
    improper: str = ""
    # That as little remains as ``tol="auto"`` allows; empty where more does.
    little_remains: str = ""
    # That images gain more for their evaluations than components; empty otherwise.
    dear: str = ""
    # Whether a small gain proves little: draws see that more remains.
    inconclusive: bool = False
    # Whether the next search knows more: a small gain then ends no run.
    tries_again: bool = False
    # Whether limits ended the searches of the first component, or left it few draws.
    cut_short: bool = False
    # Whether it took a component of the first mixture, which has several that were
    # found together; and how many they are, while iterations over them go on.
    at_node: bool = False
    n_nodes: int = 0
    # Whether limits that were met before do not end iterations over nodes.
    free: bool = False
    # Nats that remain before orbits by a closed form, None where draws are asked.
    known_left: float | None = None

    @classmethod
    def of(
        cls, state, mixture, move, tol, began, gain=UNKNOWN, gap=UNKNOWN, component=None
    ):
        """What is known of every iteration since it `began`: with which `mixture`, and
        what it proposed, by default the heaviest component.
        """
        awaited = isinstance(state.fresh, Awaited)
        return cls(
            iteration=state.n_before + state.iteration,
            move=move,
            n_components=mixture.n_components,
            elbo=Awaited(lambda: state.fresh.elbo()) if awaited else state.fresh.elbo(),
            gain=gain,
            gap=gap,
            entropy=(component or mixture.heaviest).entropy(),
            remaining=state.remaining,
            within_tol=not awaited and state.remaining.spread < tol,
            seconds=perf_counter() - began,
        )


class Facts(NamedTuple):
    """What stopping has to know of an engine, and of its limits, beside its history."""

    # Whether expectations are closed.
    exact: bool
    # Whether a worse iterate is refused.
    monotone: bool
    # Whether a search that finds nothing says little while draws see more.
    noisy: bool
    # Whether a gain says how good a search was.
    judges_gains: bool
    # Of the gain that is compared with `tol`.
    unit: str
    # The `End` of a run whose seconds or evaluations are used up.
    spent: End | None = None
    # Which rule ends a run of which little remains: "auto" or "tol".
    little: str = "auto"


def recomputed(target, fresh):
    """Values that fresh draws hold, and what the target gives for them now."""
    # No limit stops so few evaluations.
    with target.ledger.within(Budget()):
        if isinstance(fresh, Awaited):
            theta, log_joint = fresh.probe
            return log_joint, target.log_density(theta, strict=True)
        if fresh.log_joint is None:
            return fresh.expected, expectations(target, fresh.mixture.components)
        # A few draws tell one target from another.
        now = target.log_density(fresh.theta[:3], strict=True)
        return fresh.log_joint[:3], now


# --- what every combination of components offers


class Combination(ABC):
    """Weights of components, and how a new one gets its own.

    An *iterate* is what it keeps of a mixture: components with weights, and the cached
    draws that answer questions about weights, as ``mixture``, ``pool``, ``components``
    (of the family) and ``fixed`` (the mixture so far, to a greedy objective).
    """

    # Of the gain that is compared with ``tol``.
    unit: str
    # What is combined, as a message names it.
    kind: str
    # For a posterior that reaches where the density is zero.
    outside_advice: str
    # Whether every step minimises, so that a worse iterate can be refused.
    monotone: bool
    # Whether a component may be split, and whether in place of a search.
    splits = splits_first = False
    # Whether a search that finds nothing says little while draws see that something is
    # left.
    noisy = False
    # Whether components of a first mixture come in one by one, by the masses that they
    # stand for.
    by_nodes = False
    # Hyperparameters of which only some values have a meaning here.
    allowed = {}

    @classmethod
    @abstractmethod
    def of(cls, step_size, corrective):
        """The combination of the hyperparameters with these names."""

    @property
    def fully_corrective(self):
        """Whether all weights are set anew after every step."""
        return self.corrective == "fully-corrective"

    @abstractmethod
    def begin(self, target, mixture, settings):
        """The iterate of the mixture that a run begins with."""

    @abstractmethod
    def append(self, target, state, component, settings):
        """A new component beside the others, and all weights moved: iterate, `Move`."""

    @abstractmethod
    def refine(self, target, iterate, state, settings):
        """All components moved together, with weights on new draws."""

    @abstractmethod
    def gain(self, before, after):
        """What one iterate gains over another by their fresh draws, an `Estimate`."""

    def gap(self, target, state, component, settings):
        """The duality gap of a proposed component, an `Estimate`; nan without one."""
        return UNKNOWN

    @abstractmethod
    def least_gain(self, settings):
        """The gain above which an iterate is kept."""

    def split(self, target, state, settings):
        """The iterate with heavy components split in two, and all refined."""
        raise NotImplementedError(f"{self.kind} are not split.")

    def candidates(self, state, components):
        """Those of the components at modes that are worth a search."""
        return components
