"""Who hears of a run while it goes on: functions, or callbacks of estimators."""

from contextlib import contextmanager

from skboost.fitting._fit import Fit, history_record


class Observer:
    """Hears of every iteration of a run, and may ask it to stop; this one is silent.

    A `keeper` keeps the run on disk; see `Checkpoint`.
    """

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

    def resumed(self, engine, target):
        """The run to go on with, or None."""
        if self.keeper is None:
            return None
        family = engine.proposer.family_of(target)
        return self.keeper.resumed(family, target.ledger)

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
        context = estimator._init_callback_context(max_subtasks=estimator.max_iter)
        context.call_on_fit_task_begin(estimator=estimator, **data)
        self._context = context

    def begin(self):
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
        return task.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=lambda: self._attributes(fit()),
            **self._data,
        )
