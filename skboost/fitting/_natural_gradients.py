"""Estimators that run natural gradients from several starts, and keep the best run."""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from time import perf_counter

import numpy as np

from skboost._parallel import chunked_map
from skboost._random import generator
from skboost._sklearn import InstanceOf, Interval, StrOptions
from skboost.fitting._estimator import FittingEstimator
from skboost.svi import LEARNING_RATES, LearningRate, absorb, as_learning_rate, run

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


class SVIEstimator(FittingEstimator):
    """Estimators that run engines of natural gradients, and take streams in."""

    _instead_of_checkpoint = (
        "With warm_start=True a fit goes on where the last one ended: fit some epochs "
        "at a time, and pickle the estimator in between."
    )

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

    def _run_all(self, engines, limits, data, attributes, lines=None):
        """Run all engines, and set every fitted attribute from the best.

        ``attributes(natural)`` gives those that follow from natural parameters, and
        ``lines(estimator, number)`` what is told of a run.
        """
        context = self._init_callback_context(max_subtasks=len(engines))
        context.call_on_fit_task_begin(estimator=self, **data)
        limits = replace(limits, began=perf_counter()).after(self._previous)
        previous, runs = self._previous, [None] * len(engines)
        fit = _Fit(self, data, limits, previous, attributes, lines, runs)
        tasks = [
            context.subcontext(task_name="init", max_subtasks=self.max_iter)
            for _ in engines
        ]
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
        """The `SVIState` after a fit or other batches; None before any."""
        return self._run.state if "_run" in vars(self) else vars(self).get("_stream")

    def _absorbed(self, stream, model, rows, weight, auto, total=None):
        """The stream after one more batch, by the rate and the noise of batches."""
        rate, size = self._rate(auto), self.effective_batch_size
        return absorb(stream, model, rows, weight, rate, size, self._seed, total)

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
    # None has no whole epoch; what runs in other processes have done is not known here.
    runs: list
    # Runs that still go on when the main thread was interrupted end when they see it.
    interrupted: bool = False

    def run_one(self, item):
        """One of the runs, from the number, the engine and the callbacks' context."""
        index, engine, context = item
        told = {"estimator": self.estimator, **self.data}
        lines = self.lines and self.lines(self.estimator, index)
        context.call_on_fit_task_begin(**told)

        def ended(task, done):
            self.runs[index] = done
            return self.interrupted or task.call_on_fit_task_end(
                reconstruction_attributes=lambda: attributes_of_best(
                    [done], self.attributes
                ),
                **told,
            )

        def begin_epoch():
            task = context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(**told)

            def end_epoch(done):
                if lines:
                    lines.iteration(done.n_iter, done.history[-1].elbo)
                return ended(task, done)

            return end_epoch

        done = run(engine, self.limits, self.previous, begin_epoch)
        if lines:
            lines.end(done.converged, done.history[-1].elbo)
        ended(context, done)
        return done


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
