"""A run of an engine, and the one loop over its iterations."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from skboost._budget import BudgetSpent, End


class Prepared(NamedTuple):
    """What a run begins with: an engine for a target, as preparing leaves them.

    `opening` holds (state, info) of iterations that preparing has made already, and
    `report` says what it did.
    """

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

    state: object
    history: tuple
    stages: tuple
    end: End | None = None
    modes: object = None
    prepared: object = None

    @property
    def message(self):
        """Why the run ended."""
        return "Running." if self.end is None else self.end.message

    @property
    def converged(self):
        """Whether the stopping rule ended it."""
        return self.end is not None and self.end.converged

    @property
    def was_interrupted(self):
        """Whether KeyboardInterrupt ended it."""
        return self.end is not None and self.end.by == "interruption"

    @property
    def cut_short(self):
        """Whether the target is not to be evaluated again."""
        limits = ("interruption", "max_time", "max_evaluations")
        return self.end is not None and self.end.by in limits

    @property
    def n_iter(self):
        """Iterations done, the first component included."""
        return len(self.history)

    def interrupted(self):
        """This run as KeyboardInterrupt leaves it, after its last whole iteration."""
        message = f"Interrupted after iteration {self.n_iter}."
        return replace(self, end=End("interruption", message), modes=None)

    def given_up(self, end):
        """This run where a limit was reached within the next iteration."""
        message = f" Iteration {self.n_iter + 1} was given up: it did not fit in."
        return replace(self, end=end._replace(message=end.message + message))


def iterations(prepared, limits, budget, run, observer):
    """The run after every iteration; the last one has its end.

    Parameters are the `Prepared` problem, limits with ``why_stop(history, facts)``, the
    `Budget`, the `Run` to go on with (None for a new one), and an `Observer`.
    """
    while True:
        if run is not None:
            run = _with_end(prepared, limits, budget, run)
            if run.end is not None:
                yield run
                return
        observer.begin()
        try:
            run = _longer(prepared, run)
        except BudgetSpent as error:
            yield run.given_up(*error.args)
            return
        yield run
        if observer.end(prepared, run):
            yield replace(run, end=End("callback", "Stopped by a callback."))
            return


def _with_end(prepared, limits, budget, run):
    """The run after an iteration, as it ends or as it goes on."""
    engine, target = prepared.engine, prepared.target
    end, modes = limits.why_stop(run.history, engine.facts(budget.spent)), None
    if end is not None and end.converged and not end.final:
        # Where the mixture lacks a mode that is found now, the run goes on.
        modes, reopened = engine.last_look(target, run.state)
        if reopened is not None:
            return replace(run, state=reopened, end=None, modes=None)
    return replace(run, end=end, modes=modes)


def _longer(prepared, run):
    """The run with one more iteration, which preparing may have made already."""
    engine, target, opening, report = prepared
    n = 0 if run is None else run.n_iter
    # A last look may have changed the state, and then the step from it is another.
    if n < len(opening) and (n == 0 or run.state is opening[n - 1][0]):
        state, info = opening[n]
    elif n == 0:
        state, info = engine.init(target)
    else:
        state, info = engine.step(target, run.state)
    history, stages = ((), ()) if run is None else (run.history, run.stages)
    return Run(state, (*history, info), (*stages, state.stage), prepared=report)
