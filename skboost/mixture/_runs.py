"""Several runs of the natural-gradient engine, and what the best leaves."""

from dataclasses import replace
from functools import partial

import numpy as np

from skboost._base import FittingEstimator
from skboost._callbacks import run
from skboost._parallel import chunked_map
from skboost.svi import Stream, SVILimits


class NaturalGradientRuns(FittingEstimator):
    """Estimators that run engines; they give ``_parameters(natural)``."""

    def _fit_all(self, engines, data, going_on):
        """Run all engines and keep the best."""
        context = self._init_callback_context(max_subtasks=len(engines))
        context.call_on_fit_task_begin(estimator=self, **data)
        tasks = [
            context.subcontext(task_name="init", max_subtasks=self.max_iter)
            for _ in engines
        ]
        previous = self._run if going_on else None
        # No closure: a backend may have to pickle it.
        one = partial(self._fit_one, previous, data)
        runs = chunked_map(one, list(zip(engines, tasks, strict=True)), self.n_jobs)
        attributes = self._fitted_after(runs)
        if going_on:
            bounds = self.elbo_by_init_.copy()
            bounds[self._kept] = attributes["elbo_"]
            attributes |= {"elbo_by_init_": bounds, "_kept": self._kept}
        state = attributes["_run"].state
        seen = float(engines[0].weight.sum())
        counts = (state.step, state.n_groups, state.n_shrunk, state.elbo)
        attributes["_stream"] = Stream(state.natural, seen, *counts)
        vars(self).update(attributes)
        context.call_on_fit_task_end(
            estimator=self, reconstruction_attributes=lambda: attributes, **data
        )
        return self

    def _fit_one(self, previous, data, pair):
        engine, context = pair
        context.call_on_fit_task_begin(estimator=self, **data)

        def begin_iteration():
            task = context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self, **data)
            return lambda done: task.call_on_fit_task_end(
                estimator=self,
                reconstruction_attributes=lambda: self._fitted_after([done]),
                **data,
            )

        limits = SVILimits(self.max_iter, self.tol, self.max_time)
        done = run(engine, limits, previous, begin_iteration)
        context.call_on_fit_task_end(
            estimator=self,
            reconstruction_attributes=lambda: self._fitted_after([done]),
            **data,
        )
        return done

    # --- what was fitted

    def _fitted_after(self, runs):
        """Fitted attributes of the best of several runs."""
        elbos = np.array([done.history[-1].elbo for done in runs])
        kept = int(np.argmax(elbos))
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
