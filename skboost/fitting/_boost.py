"""The one way of every fit: prepare, first component, iterate, correct, report."""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter

from skboost._budget import BudgetSpent, End
from skboost._parallel import single_threaded
from skboost._sklearn import registered_callbacks
from skboost.boosting import advanced, opened
from skboost.fitting._fit import Fit, history_record
from skboost.fitting._prepare import prepared
from skboost.fitting._progress import log_end, log_iteration, log_way, shown
from skboost.fitting._run import WARM_START, Run, check_goes_on, of_checkpoint
from skboost.fitting._stopping import AUTO, Limits, why_stop
from skboost.posterior import as_posterior


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
        return self._told(self._task, lambda: Fit(problem, run, self._options))

    def finish(self, fit):
        """After the fit."""
        self._told(self._context, lambda: fit)

    def _told(self, task, fit):
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
            problem = prepared(target, options, begun)
            if begun is not None:
                resumed = begun is not options.previous
                by = of_checkpoint(observer.keeper) if resumed else options.goes_on
                check_goes_on(problem, begun, *by)
            else:
                log_way(problem.engine, problem.target)
            with observer.watching():
                for run in iterations(problem, options.limits, budget, begun, observer):
                    observer.keep(run)
            log_end(run)
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
    while True:
        if run is not None:
            facts = facts._replace(spent=budget.spent)
            end = why_stop(run.history, limits, facts)
            run = run if end is run.end else replace(run, end=end)
            if end is not None and end.converged and not end.final:
                run = run.after_look(*engine.last_look(target, run.state))
            if run.end is not None:
                yield run
                return
        observer.begin()
        try:
            if run is None:
                found = opening[0] if opening else engine.init(target)
                found = opened(engine, found, budget.spent is not None)
            elif len(opening) > run.n_iter and run.state is opening[run.n_iter - 1][0]:
                # Preparing has made this step already.
                found = opening[run.n_iter]
            else:
                found = advanced(engine, target, run.state)
        except BudgetSpent as error:
            yield run.given_up(*error.args)
            return
        run = (run or Run(prepared=report)).longer(*found)
        log_iteration(run, target)
        yield run
        if observer.end(problem, run):
            yield replace(run, end=End("callback", "Stopped by a callback."))
            return
