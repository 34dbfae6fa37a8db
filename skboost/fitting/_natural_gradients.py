"""Estimators that run natural gradients from several starts, and keep the best run."""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real
from time import perf_counter

import numpy as np

from skboost._parallel import chunked_map
from skboost._random import generator
from skboost._renamed import MOVED_OF_SVI
from skboost._sklearn import InstanceOf, Interval, StrOptions
from skboost.fitting._checkpoint import RunKeeper, check_agrees, session_of
from skboost.fitting._estimator import FittingEstimator
from skboost.svi import (
    LEARNING_RATES,
    LearningRate,
    RunObserver,
    Stream,
    as_learning_rate,
    run,
)

# Streams of one fit: what runs start from, and their steps.
START, STEPS = 0, 1

_POSITIVE = Interval(Real, 0, None, closed="neither")
_COUNT = Interval(Integral, 1, None, closed="left")

SVI_CONSTRAINTS = {
    "n_components": [_COUNT],
    "batch_size": [_COUNT, None],
    "effective_batch_size": [_POSITIVE, callable, None],
    "learning_rate": [
        StrOptions({"auto", *LEARNING_RATES}),
        Interval(Real, 0, 1, closed="right"),
        InstanceOf(LearningRate, "skboost.strategies"),
    ],
    "n_init": [_COUNT],
    "max_iter": [_COUNT],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_time": [_POSITIVE, None],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}


def check_same_model(what, before, now, advice):
    """Refuse to go on from a fit of another model, whose parameters these are."""
    if before != now:
        raise ValueError(
            f"{what} goes on with the same model; got {now} after {before}. {advice}"
        )


class Silence:
    """What a run says while it goes on: nothing."""

    def __init__(self, estimator, index):
        pass

    def iteration(self, n_iter, bound):
        """After an epoch."""

    def end(self, converged, bound):
        """After the last."""


class SVIEstimator(FittingEstimator):
    """Estimators that run engines of natural gradients, and take streams in."""

    _moved = MOVED_OF_SVI

    @property
    def _previous(self):
        """The `SVIRun` that `warm_start` goes on with, or None."""
        return vars(self).get("_run") if self.warm_start else None

    def _rate(self, auto):
        """The `LearningRate`, where that of "auto" is given."""
        chosen = auto if self.learning_rate == "auto" else self.learning_rate
        return as_learning_rate(chosen)

    def _engines(self, make, start, n_rows, auto):
        """One for each run: ``make(start=, ...)`` of what ``start(rng)`` gives."""
        whole = self.batch_size is None or self.batch_size >= n_rows
        going_on = self._previous is not None
        return [
            make(
                start=None if going_on else start(generator(self._seed, START, i)),
                learning_rate=self._rate(1.0 if whole else auto),
                batch_size=self.batch_size,
                effective_batch_size=self.effective_batch_size,
                seed=int(generator(self._seed, STEPS, i).integers(2**31)),
            )
            for i in ([self._kept] if going_on else range(self.n_init))
        ]

    def _run_all(self, engines, limits, data, attributes, lines=Silence):
        """Run all engines, and set every fitted attribute from the best.

        ``attributes(natural)`` gives those that follow from natural parameters.
        """
        context = self._init_callback_context(max_subtasks=len(engines))
        context.call_on_fit_task_begin(estimator=self, **data)
        tasks = [
            context.subcontext(task_name="init", max_subtasks=self.max_iter)
            for _ in engines
        ]
        limits = replace(limits, began=perf_counter()).after(self._previous)
        self._weight = engines[0].total_weight
        fit = _Fit(
            self, data, limits, self._previous, attributes, lines, session_of(self),
            [None] * len(engines),
        )  # fmt: skip
        items = list(zip(range(len(engines)), engines, tasks, strict=True))
        try:
            runs = chunked_map(fit.run_one, items, self.n_jobs)
            kept = self._keep_best(runs, attributes)
        except KeyboardInterrupt:
            fit.interrupted = True
            runs = [None if done is None else done.interrupted() for done in fit.runs]
            if any(done is not None for done in runs):
                self._keep_best(runs, attributes)
            raise
        context.call_on_fit_task_end(
            estimator=self, reconstruction_attributes=lambda: kept, **data
        )
        return self

    def _keep_best(self, runs, attributes):
        """Set every fitted attribute, and return them."""
        kept = attributes_of_best(runs, attributes)
        _check_numbers(kept)
        if self._previous is not None:
            bounds = self.elbo_by_init_.copy()
            bounds[self._kept] = kept["elbo_"]
            kept |= {"elbo_by_init_": bounds, "_kept": self._kept}
        vars(self).pop("_stream", None)
        vars(self).update(kept)
        return kept

    @property
    def _stream_so_far(self):
        """The `Stream` that goes on after a fit or other batches; None before any."""
        if "_run" in vars(self):
            return Stream.after(self._run.state, self._weight)
        return vars(self).get("_stream")

    def _forget_run(self):
        """Take away the report of `fit`, which does not hold after `partial_fit`."""
        own = ("elbo_path_", "elbo_by_init_", "converged_", "message_", "history_")
        for name in ("_run", "_kept", *own):
            vars(self).pop(name, None)

    def _keep_stream(self, stream, attributes):
        """Set what follows from a stream after one more batch."""
        # A batch run could not be continued from here, nor does its report hold.
        self._forget_run()
        vars(self).update(
            attributes,
            _stream=stream,
            elbo_=stream.elbo,
            noise_shrunk_=stream.n_shrunk / max(1, stream.n_groups),
            n_iter_=stream.step,
        )


@dataclass
class _Fit:
    """What the runs of one fit share, and each after its last whole epoch."""

    estimator: object
    data: dict
    limits: object
    previous: object
    attributes: object
    lines: object
    session: object
    # None has no whole epoch; what runs in other processes have done is not known here.
    runs: list
    # Runs that still go on when the main thread was interrupted end when they see it.
    interrupted: bool = False

    def run_one(self, item):
        """One of the runs, from the number, the engine and the callbacks' context."""
        index, engine, context = item
        observer = _Observer(self, index, context)
        done = run(engine, self.limits, self.previous, observer)
        observer.finish(done)
        return done


class _Observer(RunObserver):
    """Tells callbacks and lines of progress of one run."""

    def __init__(self, fit, index, context):
        self._fit, self._index, self._context = fit, index, context
        self._lines = fit.lines(fit.estimator, index)
        session = fit.session
        self._keeper = None if session is None else RunKeeper(session, str(index))
        context.call_on_fit_task_begin(estimator=fit.estimator, **fit.data)

    def resumed(self, engine):
        return None if self._keeper is None else self._keeper.resumed(None)

    @contextmanager
    def keeping(self, engine, run):
        keeper = self._keeper
        if keeper is None:
            yield None
            return
        if run is not None and run is not self._fit.previous:
            check_agrees(lambda: engine.recomputed(run.state), keeper)
        try:
            yield keeper.keep
        finally:
            keeper.write()

    def begin(self):
        self._task = self._context.subcontext(task_name="iteration")
        self._task.call_on_fit_task_begin(
            estimator=self._fit.estimator, **self._fit.data
        )

    def end(self, run):
        self._lines.iteration(run.n_iter, run.history[-1].elbo)
        return self._told(self._task, run)

    def finish(self, run):
        """After the last epoch."""
        self._lines.end(run.converged, run.history[-1].elbo)
        self._told(self._context, run)

    def _told(self, task, run):
        fit = self._fit
        fit.runs[self._index] = run
        return fit.interrupted or task.call_on_fit_task_end(
            estimator=fit.estimator,
            reconstruction_attributes=lambda: attributes_of_best([run], fit.attributes),
            **fit.data,
        )


def attributes_of_best(runs, attributes):
    """Fitted attributes of the best of several runs; None is one without epochs."""
    begun = [k for k, done in enumerate(runs) if done is not None]
    elbos = np.full(len(runs), np.nan)
    elbos[begun] = [runs[k].history[-1].elbo for k in begun]
    best = begun[int(np.argmax(elbos[begun]))]
    done = runs[best]
    state = replace(done.state, ahead=None)
    history = [vars(info).copy() for info in done.history]
    return attributes(state.natural) | {
        "elbo_": float(elbos[best]),
        "elbo_path_": np.array([record["elbo"] for record in history]),
        "elbo_by_init_": elbos,
        "n_iter_": done.n_iter,
        "converged_": done.converged,
        "message_": done.message,
        "history_": history,
        "noise_shrunk_": state.n_shrunk / max(1, state.n_groups),
        "_run": replace(done, state=state),
        "_kept": best,
    }


def _check_numbers(attributes):
    """Refuse a fit whose numbers left the range of floating point."""
    for name, value in attributes.items():
        # Runs that a limit of time left no room for have no bound.
        known = isinstance(value, float | np.ndarray) and name != "elbo_by_init_"
        if name.endswith("_") and known and np.isnan(value).any():
            raise ValueError(
                f"The fit left the range of floating point: {name} is not a number. "
                "Scale X to values near one, and the scales among the parameters with "
                "it. What was fitted before stays."
            )
