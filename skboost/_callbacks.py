"""The one loop over iterations, and a callback that listens to it."""

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from numbers import Integral
from time import perf_counter
from typing import NamedTuple

from skboost._budget import Budget, BudgetSpent, End
from skboost._math import N_ERRORS
from skboost._settings import GAIN_DECAY


@dataclass(frozen=True)
class Run:
    """A run of the engine so far; a longer one starts from it.

    Attributes
    ----------
    state : State
        What the next iteration needs.
    history : tuple of Info
        One report per iteration.
    stages : tuple
        What each iteration leaves to be kept: the best mixture known after it.
    end : End or None
        Why it ended; None while it runs.
    modes : Modes or None
        Known after the last look of a run that converged; None without one.
    prepared : object
        What preparing reported: a run that goes on has the same coordinates.
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
        return self._ended_by("tol", "enough")

    @property
    def interrupted(self):
        """Whether KeyboardInterrupt ended it."""
        return self._ended_by("interruption")

    @property
    def cut_short(self):
        """Whether the target is not to be evaluated again."""
        return self._ended_by("interruption", "max_time", "max_evaluations")

    def _ended_by(self, *reasons):
        return self.end is not None and self.end.by in reasons

    @property
    def n_iter(self):
        """Iterations done, the first component included."""
        return len(self.history)


class Prepared(NamedTuple):
    """What a run begins with.

    Attributes
    ----------
    engine : Boosting
    target : Target or None
        As preparing leaves it; None where the engine holds rows in its place.
    opening : tuple of (State, Info)
        The first iterations, where preparing has made them already.
    report : object
        What preparing did, which goes with the run.
    """

    engine: object
    target: object = None
    opening: tuple = ()
    report: object = None

    @property
    def at(self):
        """What methods of the engine are given first."""
        return () if self.target is None else (self.target,)


@dataclass(frozen=True)
class Limits:
    """When a run ends.

    Parameters
    ----------
    max_iter : int
        Iterations in total.
    stopping : {"gain", "gap"}
        The quantity that is compared with `tol`.
    tol : float
        Nats.
    max_time : float or None
        Seconds.
    max_evaluations : float
        Of the target, where it counts them.
    """

    max_iter: int
    stopping: str = "gain"
    tol: float = 1e-2
    max_time: float | None = None
    max_evaluations: float = float("inf")

    def reached(self, engine, history):
        """The `End` of a run whose last iteration shows convergence, or None."""
        info = history[-1]
        # Draws of the mixture never see a mode far off: a search has to look for it,
        # unless the target is one whose expectations are exact.
        if info.within_tol and engine.settings.exact:
            message = (
                f"Converged: {info.remaining.value:.2g} nats are left, below tol, as "
                "far as draws of the mixture can see."
            )
            return End("tol", message)
        if info.little_remains and not info.improper:
            return End("enough", info.little_remains)
        if info.move.kind == "first" or info.improper:
            return None
        if info.tries_again or info.inconclusive:
            return None
        message = self._within_tol(engine, info) or self._not_worth_it(engine, info)
        return End("tol", message) if message else None

    def _estimate(self, info):
        """The quantity that is compared with `tol`."""
        return info.gap if self.stopping == "gap" else info.gain

    def _within_tol(self, engine, info):
        """That the last iteration gained no more than `tol`, or None."""
        if not self._small(engine, info):
            return None
        estimate = self._estimate(info)
        return (
            f"Converged: the {self.stopping} of the best component found is "
            f"{estimate.value:.2g} {engine.combination.unit} (standard error "
            f"{estimate.se:.1g}), within tol."
        )

    def _not_worth_it(self, engine, info):
        """That the next iteration is expected to gain next to nothing, or None.

        Each gains about half of what the one before did, and takes longer.
        """
        by_gain = self.stopping == "gain" and engine.facts().judges_gains
        # A split reaches what is near: a search is tried before a run ends.
        found = info.move.kind not in ("split", "rejected") and info.move.gamma > 0
        if not (by_gain and found) or engine.combination.noisy:
            return None
        gain = info.gain
        expected = GAIN_DECAY * (gain.value + N_ERRORS * gain.se)
        # At that rate a run would need a thousand iterations.
        left = 1e-3 * info.remaining.value
        if expected <= self.tol:
            enough = "within tol"
        elif self.tol and expected <= left:
            enough = "next to nothing of what draws see left"
        else:
            return None
        return (
            f"Converged: the last component gained {gain.value:.2g} "
            f"{engine.combination.unit} (standard error {gain.se:.1g}), and the next "
            f"is expected to gain half of it, {enough}."
        )

    def _small(self, engine, info):
        """Whether an iteration's gain or gap is surely within `tol`."""
        estimate = self._estimate(info)
        # Steps that do not minimise can lose ground on their way: that is no end.
        size = estimate.value if engine.combination.monotone else abs(estimate.value)
        if not size + N_ERRORS * estimate.se <= self.tol:
            return False
        if self.stopping != "gap":
            return True
        # A search that did worse than the components that are there proves nothing, and
        # nor does a noisy one beside a single component, whose own gap is exactly zero.
        own = estimate.candidate
        return estimate.certifies and own.value + N_ERRORS * own.se <= self.tol

    def budget(self, target, clock):
        """What a run that begins now may spend, a `Budget`."""
        return Budget(self.max_time, self.max_evaluations, target.ledger, clock)

    def _stuck(self, engine, info):
        """Whether an iteration gained little although much is left, on all draws."""
        began = info.move.kind == "first" or info.tries_again
        return not began and info.inconclusive and self._small(engine, info)

    def over(self, engine, history):
        """The `End` of a run that must end without convergence, or None."""
        if history[-1].improper:
            return End("improper", history[-1].improper)
        if self._stuck(engine, history[-1]):
            message = (
                "Stopped: searches find nothing that gains more than tol, and draws "
                f"see at least {history[-1].remaining.least:.2g} nats of KL left."
            )
            return End("stuck", message)
        if len(history) < self.max_iter:
            return None
        message = f"Stopped at max_iter={self.max_iter}; more iterations may gain more."
        return End("max_iter", message)


def run(
    engine,
    limits,
    previous=None,
    begin_iteration=None,
    finish=None,
    keeper=None,
    clock=perf_counter,
    prepare=None,
    target=None,
):
    """Iterate an engine until a limit is reached, or KeyboardInterrupt.

    Parameters
    ----------
    engine : Boosting
    limits : Limits
    previous : Run, default=None
        A run to go on with; the result is that of one long run.
    begin_iteration : callable, default=None
        Called with the prepared engine and its target before every iteration. It
        returns a function that is called with the `Run` after the iteration, and asks
        to stop by returning True.
    finish : callable, default=None
        ``finish(engine, target, run)`` makes what is returned of the run that ended;
        None returns the run itself. Engine and target are the prepared ones.
        After an interruption it is called with `interrupted` of the last iteration
        that was done, also where `finish` itself was interrupted.
    keeper : RunKeeper, default=None
        What keeps the run on disk, and may know of one to go on with.
    clock : callable, default=time.perf_counter
        Seconds; ``max_time`` is measured by it.
    prepare : callable, default=None
        ``prepare(engine, target, run)`` gives what the run begins with, `Prepared`;
        `run` is the one to go on with, or None.
    target : Target, default=None
        None where the engine holds rows in its place.

    Returns
    -------
    Run, or what `finish` returns

    Raises
    ------
    KeyboardInterrupt
        The one that came, after `finish` has kept what there is. Without a single new
        iteration there is nothing to keep, and `finish` is not called.
    """
    n_before = 0 if previous is None else previous.n_iter
    latest = previous
    try:
        budget = limits.budget(target, clock)
        binding = nullcontext()
        prepared = Prepared(engine, target)
        if target is None:
            prepared = Prepared(engine.within(budget))
        else:
            binding = target.ledger.within(budget)
        if previous is None and keeper is not None:
            previous = keeper.found(prepared)
        with binding:
            if prepare is not None:
                prepared = prepare(engine, target, previous)
            keeping = keeper and keeper.keeping(prepared, previous)
            with keeping or nullcontext() as keep:
                for done in _iterations(
                    prepared, limits, budget, previous, begin_iteration
                ):
                    latest = done
                    if keep:
                        keep(done)
            if not finish:
                return latest
            return finish(prepared.engine, prepared.target, latest)
    except KeyboardInterrupt:
        if finish and latest is not None and latest.n_iter > n_before:
            finish(prepared.engine, prepared.target, interrupted(latest))
        raise


def interrupted(done):
    """A run that KeyboardInterrupt ended after its last whole iteration."""
    message = f"Interrupted after iteration {done.n_iter}."
    return replace(done, end=End("interruption", message), modes=None)


def _iterations(prepared, limits, budget, done, begin_iteration):
    """The run after every iteration; the last one has ended."""
    engine = prepared.engine
    while True:
        if done is not None:
            done = _looked_into(prepared, limits, budget, done)
            if done.end is not None:
                yield done
                return
        end_iteration = None
        if begin_iteration:
            end_iteration = begin_iteration(engine, *prepared.at)
        try:
            done = _extended(done, prepared)
        except BudgetSpent as error:
            # The iteration under way is given up.
            (end,) = error.args
            given_up = f" Iteration {done.n_iter + 1} was given up: it did not fit in."
            yield replace(done, end=end._replace(message=end.message + given_up))
            return
        yield done
        if end_iteration and end_iteration(done):
            yield replace(done, end=End("callback", "Stopped by a callback."))
            return


def _looked_into(prepared, limits, budget, done):
    """The run after an iteration, as it ends or as it goes on."""
    engine = prepared.engine
    over = limits.over(engine, done.history) or budget.spent
    converged, modes = limits.reached(engine, done.history), None
    if converged and not over:
        # A last look, where there is anything left to look with.
        modes, state = engine.last_look(*prepared.at, done.state)
        if state is not None:
            return replace(done, state=state, end=None, modes=None)
    return replace(done, end=converged or over, modes=modes)


def _extended(done, prepared):
    """The run with one more iteration, which preparing may have made already."""
    n, opening = 0 if done is None else done.n_iter, prepared.opening
    # A last look may have changed the state, and then the step from it is another.
    if n < len(opening) and (n == 0 or done.state is opening[n - 1][0]):
        state, info = opening[n]
    elif n == 0:
        state, info = prepared.engine.init(*prepared.at)
    else:
        state, info = prepared.engine.step(*prepared.at, done.state)
    history, stages = ((), ()) if done is None else (done.history, done.stages)
    return Run(
        state, (*history, info), (*stages, state.stage), prepared=prepared.report
    )


@dataclass
class ELBOMonitor:
    """Callback that records every iteration of a boosted estimator.

    Register it with ``estimator.set_callbacks(monitor)``. It needs no scorer, and
    works for models without `y`. Records of fits in other processes stay there.

    Parameters
    ----------
    patience : int, default=None
        Ask the fit to stop after that many iterations in a row without a gain of
        `tol` nats; None never asks.
    tol : float, default=1e-3
        Nats.
    records : list, default=[]
        Where the records go; emptied when a fit begins.

    Attributes
    ----------
    records : list of dict
        One per iteration: ``iteration``, ``elbo``, ``elbo_se``, ``gain``,
        ``n_components``, ``seconds`` and what else `history_` of the estimator has.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.callbacks import ELBOMonitor
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> monitor = ELBOMonitor()
    >>> model = BoostedBayesianLogisticRegression(max_iter=2, random_state=0)
    >>> _ = model.set_callbacks(monitor).fit(X[:, :3] / 100, y)
    >>> [record["iteration"] for record in monitor.records][0]
    1
    """

    patience: int | None = None
    tol: float = 1e-3
    records: list = field(default_factory=list)

    def __post_init__(self):
        whole = isinstance(self.patience, Integral) and self.patience >= 1
        if self.patience is not None and not whole:
            raise ValueError(
                f"patience must be a positive integer or None; got {self.patience!r}."
            )

    def setup(self, estimator, context):
        """Forget the records of an earlier fit."""
        self.records.clear()

    def on_fit_task_begin(self, estimator, context):
        """Nothing to do before an iteration."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Record an iteration; True asks the fit to stop."""
        if context.task_name != "iteration" or fitted_estimator is None:
            return False
        self.records.append(dict(fitted_estimator.history_[-1]))
        if self.patience is None or len(self.records) < self.patience:
            return False
        # The first iteration of a run has no gain: nan, which is not below `tol`.
        recent = self.records[-self.patience :]
        return all(record["gain"] < self.tol for record in recent)

    def teardown(self, estimator, context):
        """Keep the records after the fit."""
