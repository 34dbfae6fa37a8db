"""The one way of every fit: prepare, first component, iterate, correct, report."""

import logging
import os
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from multiprocessing import current_process
from threading import current_thread, main_thread
from time import perf_counter

from skboost._budget import BudgetSpent, End
from skboost._parallel import single_threaded
from skboost._sklearn import registered_callbacks
from skboost.boosting import advance, open_run
from skboost.fitting._fit import Fit, history_record
from skboost.fitting._run import WARM_START, Run, check_goes_on, of_checkpoint, prepare
from skboost.fitting._stopping import AUTO, Limits, n_searched, why_stop
from skboost.posterior import as_posterior

_LOGGER = logging.getLogger("skboost")


def log_iteration(run, target):
    """Records of the last iteration: one at INFO, and one of its details at DEBUG."""
    # What a record says may have to be drawn.
    if not _LOGGER.isEnabledFor(logging.INFO):
        return
    info = run.history[-1]
    _LOGGER.info(
        "Iteration %d: ELBO %.6g (standard error %.1g), %.2g nats of KL left, "
        "%d component%s%s.",
        info.iteration,
        info.elbo.value,
        info.elbo.se,
        info.remaining.value,
        info.n_components,
        "s" if info.n_components > 1 else "",
        # Only functions of users are counted.
        f", {target.n_evaluations} evaluations" if target.ledger.counts else "",
        extra={"iteration": info.iteration, "searched": n_searched(run.history)},
    )
    _LOGGER.debug(
        "Iteration %d: %s, weight %.2g, gain %.2g (standard error %.1g), k-hat %.2g, "
        "%.2g s.",
        info.iteration,
        info.move.kind,
        info.move.gamma,
        *info.gain,
        info.remaining.khat,
        info.seconds,
    )


def log_way(engine, target):
    """A record of how a run begins, which depends on the shape of data, at DEBUG."""
    if not _LOGGER.isEnabledFor(logging.DEBUG):
        return
    begins = engine.begins_with or engine.proposer.way(target)
    _LOGGER.debug("Begins with %s%s.", begins, target.way)


@contextmanager
def shown(verbose, limits, budget, ledger):
    """Inside, records go to the standard error, and where `rich` is there a bar
    moves below."""
    if not verbose:
        yield
        return
    level, before = logging.INFO if verbose == 1 else logging.DEBUG, _LOGGER.level
    handler = _Shown(limits, budget, ledger)
    handler.setLevel(level)
    with _bar(handler):
        # Where a bar is drawn, lines written to this stream appear above it.
        handler.setStream(sys.stderr)
        _LOGGER.addHandler(handler)
        _LOGGER.setLevel(min(level, _LOGGER.getEffectiveLevel()))
        try:
            yield
            handler.done = True
        finally:
            _LOGGER.removeHandler(handler)
            _LOGGER.setLevel(before)


class _Shown(logging.StreamHandler):
    """Writes records, and knows from them how far the run is."""

    def __init__(self, limits, budget, ledger):
        super().__init__()
        self._limits, self._budget, self._ledger = limits, budget, ledger
        self._n_iter, self._n_searched, self.done = 0, 0, False

    def emit(self, record):
        self._n_iter = getattr(record, "iteration", self._n_iter)
        self._n_searched = getattr(record, "searched", self._n_searched)
        super().emit(record)

    def look(self):
        """What stands beside a bar, and the used share of the limit that is nearest."""
        n = self._n_iter
        text = f"{n} iteration{'' if n == 1 else 's'}"
        if self._ledger.counts:
            text += f", {self._ledger.n_evaluations:,} evaluations"
        used = self._limits.share_used(n, self._n_searched)
        used = max(used, self._budget.used)
        return text, 1.0 if self.done else min(used, 1.0)


def _bar(handler):
    """A context in which a bar moves; an empty one where none can be drawn."""
    # Processes and threads of a search share a terminal, which has room for one bar.
    main = current_process().name == "MainProcess"
    if not main or current_thread() is not main_thread():
        return nullcontext()
    try:
        from rich import console, progress
    except ImportError:
        return nullcontext()
    terminal = console.Console(stderr=True, soft_wrap=True)
    if not terminal.is_terminal:
        return nullcontext()

    class Bar(progress.Progress):
        """Looks at the run whenever it is drawn, ten times a second."""

        def get_renderables(self):
            for task in self.tasks:
                text, done = handler.look()
                self.update(task.id, description=text, completed=done)
            return super().get_renderables()

    bar = Bar(
        *progress.Progress.get_default_columns()[:-1],
        progress.TimeElapsedColumn(),
        console=terminal,
        # What is written to a file does not belong on the terminal.
        redirect_stdout=os.isatty(1),
    )
    bar.add_task("", total=1.0)
    return bar


# --- what a user asks


@dataclass(frozen=True)
class Options:
    """What a user asks of a fit, beside its target.

    `engine` has ``init``, ``step`` and ``last_look``; `previous` is the `Run` to go on
    with, and `goes_on` what asks for that, for messages. `warp`, `orbit` and
    `verbose` have the values of these parameters.
    ``posterior(mixture, names, constraints)`` makes what users meet of a mixture.
    """

    engine: object
    limits: Limits
    previous: object = None
    goes_on: tuple = WARM_START
    warp: str | None = None
    orbit: str | int | None = None
    names: object = None
    constraints: object = None
    posterior: object = as_posterior
    clock: object = perf_counter
    verbose: int = 0


# --- who hears of a run while it goes on: functions, or callbacks of estimators


class Observer:
    """Hears of every iteration, and may ask a run to stop; a `keeper` keeps it on
    disk."""

    keeper = None

    def begin(self):
        """Before an iteration."""

    def end(self, problem, run):
        """After one; True asks the run to stop."""
        return False

    # --- the run on disk, where there is a keeper

    @contextmanager
    def watching(self):
        """Around the run: where it fails, its last whole iteration is written."""
        try:
            yield
        finally:
            if self.keeper is not None:
                self.keeper.write()

    def resumed(self, engine, target, previous):
        """The run to go on with: the previous one, that on disk, or None."""
        if self.keeper is None:
            return previous
        self.keeper.follow(engine.proposer.family_of(target), target.ledger)
        return previous or self.keeper.resumed()

    def keep(self, run):
        """After every iteration, before its end is known."""
        if self.keeper is not None:
            self.keeper.keep(run)


class FunctionObserver(Observer):
    """Functions of one record per iteration, as in ``history``."""

    def __init__(self, functions, keeper=None):
        self._functions, self.keeper = functions, keeper

    def end(self, problem, run):
        record = history_record(run.history[-1])
        # All of them hear of every iteration, whatever the first ones say.
        return any([one(record) for one in self._functions])


class EstimatorObserver(Observer):
    """Scikit-learn's callbacks of an estimator.

    `data` is what they are given: X and y as the user passed them, and metadata.
    ``attributes(fit)`` gives the fitted attributes, also of a run under way, and
    ``iterated(run)`` hears of iterations before the callbacks.
    """

    def __init__(
        self, estimator, data, options, attributes, keeper=None, iterated=None
    ):
        self._estimator, self._data = estimator, data
        self._options, self._attributes = options, attributes
        self._iterated = iterated
        self.keeper = keeper
        self._context = self._task = None
        if not registered_callbacks(estimator):
            return
        # Nobody knows beforehand how many nodes there are.
        most = estimator.max_iter
        max_subtasks = None if most == AUTO else most
        context = estimator._init_callback_context(max_subtasks=max_subtasks)
        context.call_on_fit_task_begin(estimator=estimator, **data)
        self._context = context

    def begin(self):
        if self._context is not None:
            self._task = self._context.subcontext(task_name="iteration")
            self._task.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def end(self, problem, run):
        if self._iterated is not None:
            self._iterated(run)
        return self._call_back(self._task, lambda: Fit(problem, run, self._options))

    def finish(self, fit):
        """After the fit."""
        self._call_back(self._context, lambda: fit)

    def _call_back(self, task, fit):
        return task is not None and task.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=lambda: self._attributes(fit()),
            **self._data,
        )


_SILENT = Observer()


# --- the run


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C after a whole iteration; `fit` has what was done until then."""

    def __init__(self, fit):
        super().__init__(fit.run.message)
        self.fit = fit


def boost(target, options, observer=_SILENT):
    """Approximate a target by a mixture (Algorithm 1 of Locatello et al. 2018): a
    `Fit`."""
    budget = options.limits.budget(target, options.clock)
    run = begun = None
    within = target.ledger.within(budget)
    told = shown(options.verbose, options.limits, budget, target.ledger)
    with single_threaded(), within, told:
        try:
            run = begun = observer.resumed(options.engine, target, options.previous)
            problem = prepare(target, options, begun)
            if begun is not None:
                resumed = begun is not options.previous
                by = of_checkpoint(observer.keeper) if resumed else options.goes_on
                check_goes_on(problem, begun, *by)
            else:
                log_way(problem.engine, problem.target)
            with observer.watching():
                for run in iterations(problem, options.limits, budget, begun, observer):
                    observer.keep(run)
            _LOGGER.info("%s", run.message)
            return Fit(problem, run, options, budget).judge()
        except KeyboardInterrupt as interruption:
            n_before = 0 if begun is None else begun.n_iter
            if run is None or run.n_iter == n_before:
                raise
            fit = Fit(problem, run.interrupted(), options, budget)
            raise RunInterrupted(fit) from interruption


def iterations(problem, limits, budget, run, observer):
    """The run after every iteration; the last one has its end, after a last look."""
    engine, target, opening, report = problem
    facts = engine.facts()
    # How many draws judge what remains follows from those that a run itself has made.
    aside = 0 if run is None else target.n_evaluations - run.n_evaluated
    while True:
        if run is not None:
            facts = facts._replace(spent=budget.spent)
            end = why_stop(run.history, limits, facts)
            run = run if end is run.end else replace(run, end=end)
            unseen = run.modes is None and end is not None and end.converged
            if unseen and not end.final:
                found = engine.last_look(target, run.state)
                run = run.after_look(*found, target.n_evaluations - aside)
            if run.end is not None:
                yield run
                return
        observer.begin()
        try:
            if run is None:
                found = opening[0] if opening else engine.init(target)
                found = open_run(engine, found, budget.spent is not None)
            elif len(opening) > run.n_iter and run.state is opening[run.n_iter - 1][0]:
                # Preparing has made this step already.
                found = opening[run.n_iter]
            else:
                found = advance(engine, target, run.state)
        except BudgetSpent as error:
            yield run.given_up(*error.args)
            return
        run = run or Run(prepared=report)
        run = run.longer(*found, target.n_evaluations - aside)
        log_iteration(run, target)
        yield run
        if observer.end(problem, run):
            yield replace(run, end=End("callback", "Stopped by a callback."))
            return
