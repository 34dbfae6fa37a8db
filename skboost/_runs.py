"""Several runs of the natural-gradient engine, and what the best leaves."""

from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from time import perf_counter

import numpy as np

from skboost._base import FittingEstimator
from skboost._callbacks import interrupted, run
from skboost._checkpoint import RunKeeper, session_of
from skboost._parallel import chunked_map
from skboost._random import generator
from skboost._sklearn import InstanceOf, Interval, StrOptions
from skboost.svi import LEARNING_RATES, LearningRate, SVILimits, as_learning_rate

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


@dataclass
class Progress:
    """What runs at the same time have done; their threads share it.

    Attributes
    ----------
    runs : list of Run or None
        Each after its last whole epoch; None before the first. What runs in other
        processes have done is not known here.
    interrupted : bool
        Runs that still go on when the main thread was interrupted end when they see it.
    began : float
        When the first of them did, by ``time.perf_counter``.
    """

    runs: list
    interrupted: bool = False
    began: float = field(default_factory=perf_counter)


def _left(done):
    """A run as an interruption leaves it; None has not begun."""
    if done is None:
        return None
    if done.end is None:
        return interrupted(done)
    message = f"{done.message} Then the fit was interrupted."
    return replace(done, end=done.end._replace(message=message))


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


def check_same_model(what, before, now, advice):
    """Refuse to go on from a fit of another model, whose parameters these are."""
    if before != now:
        raise ValueError(
            f"{what} goes on with the same model; got {now} after {before}. {advice}"
        )


class Silence:
    """What a run says while it goes on: nothing."""

    def iteration(self, n_iter, bound):
        """After an epoch."""

    def end(self, converged, bound):
        """After the last."""


class NaturalGradientRuns(FittingEstimator):
    """Estimators that run engines; they give ``_parameters(natural)``."""

    # What the learning rate "auto" is with batches.
    _rate_of_batches = "robbins-monro"

    def _lines(self, index):
        """What is told of a run, such as `Silence`."""
        return Silence()

    def _rate(self, whole):
        """The `LearningRate`, with all rows as the batch or not."""
        rate = self.learning_rate
        if rate == "auto":
            rate = 1.0 if whole else self._rate_of_batches
        return as_learning_rate(rate)

    def _steps_of_runs(self, n_rows, going_on):
        """Which runs there are, and of each how its engine steps."""
        whole = self.batch_size is None or self.batch_size >= n_rows
        for i in [self._kept] if going_on else range(self.n_init):
            yield (
                i,
                {
                    "learning_rate": self._rate(whole),
                    "batch_size": self.batch_size,
                    "effective_batch_size": self.effective_batch_size,
                    "seed": int(generator(self._seed, STEPS, i).integers(2**31)),
                },
            )

    def _fit_all(self, engines, data, going_on):
        """Run all engines and keep the best."""
        context = self._init_callback_context(max_subtasks=len(engines))
        context.call_on_fit_task_begin(estimator=self, **data)
        tasks = [
            context.subcontext(task_name="init", max_subtasks=self.max_iter)
            for _ in engines
        ]
        progress = Progress([None] * len(engines))
        # No closure: a backend may have to pickle it.
        session = session_of(self)
        previous = self._run if going_on else None
        one = partial(self._fit_one, previous, data, progress, session)
        items = list(zip(range(len(engines)), engines, tasks, strict=True))
        try:
            runs = chunked_map(one, items, self.n_jobs)
            attributes = self._keep_best(runs, engines, going_on)
        except KeyboardInterrupt:
            progress.interrupted = True
            runs = [_left(done) for done in progress.runs]
            if any(done is not None for done in runs):
                self._keep_best(runs, engines, going_on)
            raise
        context.call_on_fit_task_end(
            estimator=self, reconstruction_attributes=lambda: attributes, **data
        )
        return self

    def _keep_best(self, runs, engines, going_on):
        """Set every fitted attribute, and return them."""
        attributes = self._fitted_after(runs)
        _check_numbers(attributes)
        if going_on:
            bounds = self.elbo_by_init_.copy()
            bounds[self._kept] = attributes["elbo_"]
            attributes |= {"elbo_by_init_": bounds, "_kept": self._kept}
        attributes |= self._going_on(attributes["_run"].state, engines[0])
        vars(self).update(attributes)
        return attributes

    def _forget_run(self):
        """Take away the report of `fit`, which does not hold after `partial_fit`."""
        own = ("elbo_path_", "elbo_by_init_", "converged_", "message_", "history_")
        for name in ("_run", "_kept", *own):
            vars(self).pop(name, None)

    def _keep_stream(self, stream):
        """Set what follows from a stream after one more batch."""
        # A batch run could not be continued from here, nor does its report hold.
        self._forget_run()
        vars(self).update(
            self._parameters(stream.natural),
            _stream=stream,
            elbo_=stream.elbo,
            noise_shrunk_=stream.n_shrunk / max(1, stream.n_groups),
            n_iter_=stream.step,
        )

    def _going_on(self, state, engine):
        """What ``partial_fit`` needs of the state that was kept, as attributes."""
        return {}

    def _limits(self, engine, began):
        """When a run ends, `SVILimits`; `tol` is in nats per epoch here.

        `began` is when the first of all runs did: they share one limit of time.
        """
        return SVILimits(self.max_iter, self.tol, self.max_time, began)

    def _fit_one(self, previous, data, progress, session, item):
        index, engine, context = item
        lines = self._lines(index)
        context.call_on_fit_task_begin(estimator=self, **data)

        def end(task, done):
            progress.runs[index] = done
            return progress.interrupted or task.call_on_fit_task_end(
                estimator=self,
                reconstruction_attributes=lambda: self._fitted_after([done]),
                **data,
            )

        def begin_iteration(engine):
            task = context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self, **data)

            def end_iteration(done):
                lines.iteration(done.n_iter, done.history[-1].elbo)
                return end(task, done)

            return end_iteration

        limits = self._limits(engine, progress.began).after(previous)
        keeper = None if session is None else RunKeeper(session, str(index))
        done = run(engine, limits, previous, begin_iteration, keeper=keeper)
        lines.end(done.converged, done.history[-1].elbo)
        if not progress.interrupted:
            end(context, done)
        return done

    # --- what was fitted

    def _fitted_after(self, runs):
        """Fitted attributes of the best of several runs; None is one without epochs."""
        begun = [k for k, done in enumerate(runs) if done is not None]
        elbos = np.full(len(runs), np.nan)
        elbos[begun] = [runs[k].history[-1].elbo for k in begun]
        kept = begun[int(np.argmax(elbos[begun]))]
        done = runs[kept]
        state = replace(done.state, ahead=None)
        history = [vars(info).copy() for info in done.history]
        return self._parameters(state.natural) | {
            "elbo_": float(elbos[kept]),
            "elbo_path_": np.array([record["elbo"] for record in history]),
            "elbo_by_init_": elbos,
            "n_iter_": done.n_iter,
            "converged_": done.converged,
            "message_": done.message,
            "history_": history,
            "noise_shrunk_": state.n_shrunk / max(1, state.n_groups),
            "_run": replace(done, state=state),
            "_kept": kept,
        }
