"""What a run begins with, and what it is after every iteration."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from skboost._budget import End
from skboost.boosting import Awaited
from skboost.fitting._checkpoint import ADVICE


class Prepared(NamedTuple):
    """An engine for a target, its `opening` iterations so far, and a `report`."""

    engine: object
    target: object
    opening: tuple = ()
    report: object = None

    def recomputed(self, state):
        """Values that a state holds, and what the target gives for them now."""
        return self.engine.recomputed(self.target, state)


@dataclass(frozen=True)
class Run:
    """A run of the engine so far; a longer one starts from it.

    `stages` has the best mixture known after each iteration, `end` is None while it
    runs, `modes` are those of the last look of a run that converged, and `prepared`
    reports what preparing did: a run that goes on has the same coordinates.
    """

    state: object = None
    history: tuple = ()
    stages: tuple = ()
    end: End | None = None
    modes: object = None
    prepared: object = None

    @property
    def mixture(self):
        """The best mixture known now."""
        best = self.stages[-1]
        return best.result if isinstance(best, Awaited) else best

    @property
    def message(self):
        """Why the run ended."""
        return "Running." if self.end is None else self.end.message

    @property
    def converged(self):
        """Whether the stopping rule ended it."""
        return self.end is not None and self.end.converged

    @property
    def cut_short(self):
        """Whether the target is not to be evaluated again."""
        limits = ("interruption", "max_time", "max_evaluations")
        return self.end is not None and self.end.by in limits

    @property
    def n_iter(self):
        """Iterations done, the first component included."""
        return len(self.history)

    @property
    def has_begun_only(self):
        """Whether all nodes are in, and nothing was searched after them."""
        return self.state.iteration == 1 and not self.history[-1].n_nodes

    def longer(self, state, info):
        """This run with one more iteration."""
        history, stages = (*self.history, info), (*self.stages, state.stage)
        return Run(state, history, stages, prepared=self.prepared)

    def after_look(self, modes, reopened):
        """This run with the modes of a last look; without an end where it reopens."""
        if reopened is None:
            return replace(self, modes=modes)
        return replace(self, state=reopened, end=None, modes=None)

    def reopened(self):
        """This run as it goes on under another `tol`: the one before ends it no
        longer."""
        last = replace(self.history[-1], little_remains="", within_tol=False)
        history = (*self.history[:-1], last)
        return replace(self, history=history, end=None, modes=None)

    def interrupted(self):
        """This run as KeyboardInterrupt leaves it, after its last whole iteration."""
        message = f"Interrupted after iteration {self.n_iter}."
        return replace(self, end=End("interruption", message), modes=None)

    def given_up(self, end):
        """This run where a limit was reached within the next iteration."""
        message = f" Iteration {self.n_iter + 1} was given up: it did not fit in."
        return replace(self, end=end._replace(message=end.message + message))


def agree(recorded, now):
    """Whether log joint densities that a state holds are those of now."""
    # Another machine rounds in another way.
    return np.allclose(recorded, now, rtol=1e-8, atol=1e-8, equal_nan=True)


# What asks for a run to go on, and what to do where it can not, for messages.
WARM_START = "warm_start=True", "Set warm_start=False."


def of_checkpoint(keeper):
    """The same of a run that goes on from a file."""
    return f"The checkpoint {keeper.path!r}", ADVICE


def check_goes_on(problem, run, what, advice):
    """Refuse to go on with another density."""
    try:
        recorded, now = problem.recomputed(run.state)
    except (ValueError, IndexError, KeyError):
        recorded, now = np.zeros(1), np.full(1, np.nan)
    if not agree(recorded, now):
        before, after = np.ravel(recorded)[0], np.ravel(now)[0]
        raise ValueError(
            f"{what} goes on with the same data and the same model; a log joint "
            f"density that was {before:.6g} is {after:.6g} now. {advice}"
        )
