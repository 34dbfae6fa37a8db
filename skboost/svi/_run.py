"""Runs of epochs: the one loop of natural gradients, and when it ends."""

from dataclasses import dataclass, replace
from time import perf_counter

from skboost._budget import Budget, End


@dataclass(frozen=True)
class SVILimits:
    """What a run may take, and the gain in nats at which coordinate ascent ends."""

    max_iter: int
    tol: float = 1e-3
    max_time: float | None = None
    # When seconds began to count, by ``time.perf_counter``; None is with the run.
    began: float | None = None
    # Epochs that `max_iter` does not count.
    before: int = 0

    def after(self, previous):
        """Those of a run that goes on: as many more where it has `max_iter` epochs."""
        done = 0 if previous is None else previous.n_iter
        return replace(self, before=done) if done >= self.max_iter else self


def why_stop(history, limits, monotone, spent=None):
    """The `End` of a run, `spent` if a limit set it, or None; stochastic runs never
    converge."""
    if not history:
        return None
    gain = history[-1].gain
    if monotone and gain <= limits.tol:
        message = f"Converged: the last round gained {gain:.2g} nats, within tol."
        return End("tol", message)
    if len(history) - limits.before >= limits.max_iter:
        return End("max_iter", f"Stopped at max_iter={limits.max_iter}.")
    return spent


@dataclass(frozen=True)
class SVIRun:
    """A run of an engine so far, one report for each epoch; a longer one goes on."""

    state: object
    history: tuple = ()
    end: End | None = None

    @property
    def message(self):
        """Why the run ended."""
        return "Running." if self.end is None else self.end.message

    @property
    def converged(self):
        """Whether coordinate ascent gained no more than `tol`."""
        return self.end is not None and self.end.by == "tol"

    @property
    def n_iter(self):
        """Epochs done."""
        return len(self.history)

    def interrupted(self):
        """This run as a KeyboardInterrupt leaves it."""
        if self.end is None:
            message = f"Interrupted after iteration {self.n_iter}."
            return replace(self, end=End("interruption", message))
        message = f"{self.message} Then the fit was interrupted."
        return replace(self, end=self.end._replace(message=message))


def run(engine, limits, previous=None, begin_epoch=None, clock=perf_counter):
    """Epochs until a limit is reached; ``begin_epoch()`` returns what is called
    after each."""
    budget = Budget(limits.max_time, clock=clock, began=limits.began)
    done = SVIRun(engine.initial)
    if previous is not None:
        state, same = engine.resumed(previous.state)
        # Gains over the bound of other rows would say nothing.
        done = SVIRun(state, previous.history if same else (), previous.end)
        limits = limits if same else replace(limits, before=0)
    while True:
        end = why_stop(done.history, limits, engine.monotone, budget.spent)
        if end is not None:
            return replace(done, end=end)
        end_epoch = begin_epoch() if begin_epoch else None
        state, info = engine.step(done.state, budget)
        done = SVIRun(state, (*done.history, info))
        if end_epoch and end_epoch(done):
            return replace(done, end=End("callback", "Stopped by a callback."))
