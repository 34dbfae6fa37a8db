"""One fit of a candidate, and what its bound is."""

import warnings
from collections import Counter
from dataclasses import dataclass
from time import perf_counter
from traceback import format_exc

import numpy as np
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import get_tags

from skboost._parallel import single_threaded_blas
from skboost.model_selection._candidates import candidate, model_of


@dataclass(frozen=True)
class Fit:
    """The bound of one fit.

    Attributes
    ----------
    elbo : float
        Nats; the error score where the fit failed.
    se : float
        Monte Carlo standard error, NaN where the estimator reports none.
    restarts : tuple of float
        Bounds of all independent starts behind `elbo`.
    seconds : float
        Wall-clock time.
    error : str or None
        Traceback of a fit that failed.
    """

    elbo: float
    se: float = np.nan
    restarts: tuple = ()
    seconds: float = np.nan
    error: str | None = None


@dataclass(frozen=True)
class Task:
    """Everything that a fit needs, on its way to a worker."""

    params: dict
    repeat: int
    root: int
    context: object


def fit_candidate(task, search, data, fit_params):
    """Fit a candidate of the search's grid with the seeds of a repeat.

    Parameters
    ----------
    task : Task
    search : EvidenceSearch
    data : dict
        ``X``, ``y`` (None for models of X) and ``metadata`` for callbacks.
    fit_params : dict

    Returns
    -------
    estimator
        Fitted.
    """
    estimator = candidate(search.estimator, task.params, task.root, task.repeat)
    # An estimator that needs y says so best itself.
    needs_y = get_tags(estimator).target_tags.required
    args = [data["X"], data["y"]] if needs_y or data["y"] is not None else [data["X"]]
    with single_threaded_blas(), task.context.propagate_callback_context(estimator):
        task.context.call_on_fit_task_begin(estimator=search, **data)
        try:
            return estimator.fit(*args, **fit_params)
        finally:
            task.context.call_on_fit_task_end(estimator=search, **data)


def bound_of_fit(task, search, data, fit_params):
    """`Fit` of a task; a failure is part of it unless ``error_score="raise"``."""
    began = perf_counter()
    try:
        estimator = fit_candidate(task, search, data, fit_params)
    except Exception:
        if search.error_score == "raise":
            raise
        seconds = perf_counter() - began
        return Fit(float(search.error_score), seconds=seconds, error=format_exc())
    return bound_of(estimator, perf_counter() - began)


def bound_of(estimator, seconds=np.nan):
    """What a fitted estimator, or the last step of a pipeline, says of its bound.

    Raises
    ------
    TypeError
        If it has no ``elbo_``.
    """
    model = model_of(estimator)
    elbo = getattr(model, "elbo_", None)
    if elbo is None:
        raise TypeError(
            "estimator must have elbo_, an evidence lower bound in nats, after fit; "
            f"got {type(model).__name__}, which has none. GridSearchCV compares such "
            "estimators by held-out scores."
        )
    elbo = float(elbo)
    # An infinite evidence is a defect of the model and would always win.
    elbo = np.nan if elbo == np.inf else elbo
    se = getattr(model, "elbo_se_", None)
    restarts = np.ravel(getattr(model, "elbo_by_init_", elbo)).astype(float)
    return Fit(elbo, np.nan if se is None else float(se), tuple(restarts), seconds)


def report_failures(fits, error_score):
    """Warn about fits that failed, as `GridSearchCV` does.

    Raises
    ------
    ValueError
        If all of them did.
    """
    errors = Counter(fit.error for fit in fits if fit.error is not None)
    if not errors:
        return
    n_failed = errors.total()
    details = "\n".join(
        f"{n} fits failed with:\n{error}" for error, n in errors.items()
    )
    if n_failed == len(fits):
        raise ValueError(
            f"All the {n_failed} fits failed; error_score='raise' stops at the first. "
            f"{details}"
        )
    warnings.warn(
        f"{n_failed} of {len(fits)} fits failed; their ELBO is error_score="
        f"{error_score}. {details}",
        FitFailedWarning,
        stacklevel=4,
    )
