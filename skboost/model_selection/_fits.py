"""Fits of candidates, their bounds, and a table of them."""

import warnings
from collections import Counter
from dataclasses import dataclass
from time import perf_counter
from traceback import format_exc

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import get_tags

from skboost._parallel import single_threaded
from skboost._sklearn import param_columns
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
    with single_threaded(), task.context.propagate_callback_context(estimator):
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
    names = ("elbo_", "elbo_se_", "elbo_by_init_")
    elbo, se, restarts = (getattr(model, name, None) for name in names)
    if elbo is None:
        raise TypeError(
            "estimator must have elbo_, an evidence lower bound in nats, after fit; "
            f"got {type(model).__name__}, which has none. GridSearchCV compares such "
            "estimators by held-out scores."
        )
    elbo = float(elbo)
    # An infinite evidence is a defect of the model and would always win.
    elbo = np.nan if elbo == np.inf else elbo
    restarts = np.ravel(elbo if restarts is None else restarts).astype(float)
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


# --- the table


def table(candidates, fits):
    """Columns of the table of an evidence search.

    Parameters
    ----------
    candidates : list of dict
    fits : list of list of Fit
        The repeats of every candidate.

    Returns
    -------
    dict of str to array or list of length n_candidates
    """
    numbers = [[(fit.elbo, fit.se, fit.seconds) for fit in row] for row in fits]
    elbo, se, seconds = np.moveaxis(np.array(numbers), -1, 0)
    # The repeat with the largest bound, for every row.
    best = np.where(np.isnan(elbo), -np.inf, elbo).argmax(axis=1)
    rows = np.arange(len(fits))
    return {
        "mean_fit_time": seconds.mean(axis=1),
        "std_fit_time": seconds.std(axis=1),
        **dict(param_columns(candidates)),
        "params": list(candidates),
        **{f"repeat{r}_elbo": elbo[:, r] for r in range(elbo.shape[1])},
        **{f"repeat{r}_elbo_se": se[:, r] for r in range(se.shape[1])},
        "mean_elbo": _over_known(np.mean, elbo),
        "std_elbo": _over_known(np.std, elbo),
        "elbo": elbo[rows, best],
        "elbo_se": np.array(
            [_error(row, row[k].se) for row, k in zip(fits, best, strict=True)]
        ),
        "best_repeat": best,
        "n_restarts": np.array([len(_restarts(row)) for row in fits]),
        "rank_elbo": _ranks(elbo[rows, best]),
    }


def _ranks(elbo):
    """1 is the largest; what is no number comes last, after minus infinity."""
    lowest = np.isnan(elbo)
    order = rankdata(-np.where(lowest, -np.inf, elbo), method="min")
    order[lowest] = 1 + (~lowest).sum()
    return order.astype(np.int32)


def spread_of_largest(values):
    """Standard deviation of the largest of m draws with replacement from m values.

    The bootstrap of a maximum in closed form: the i-th smallest is the largest draw
    with probability (i/m)^m − ((i−1)/m)^m. Restarts end in a few optima, so their
    distribution has atoms, which is what makes the bootstrap sound here: it is zero
    where all agree, and large where only one of them got far.

    Parameters
    ----------
    values : array-like of shape (m,)

    Returns
    -------
    float
        In the units of the values.
    """
    values = np.sort(values)
    m = len(values)
    p = np.diff((np.arange(m + 1) / m) ** m)
    return float(np.sqrt(p @ (values - p @ values) ** 2))


def _restarts(row):
    """Finite bounds of all starts in all repeats of a candidate."""
    values = np.array([value for fit in row for value in fit.restarts])
    return values[np.isfinite(values)]


def _error(row, monte_carlo):
    """Standard error of the best bound: luck of the starts and Monte Carlo noise."""
    restarts = _restarts(row)
    known = [] if np.isnan(monte_carlo) else [monte_carlo]
    if len(restarts) > 1:
        known.append(spread_of_largest(restarts))
    return np.linalg.norm(known) if known else np.nan


def _over_known(statistic, elbo):
    """A statistic of every row without what is no number."""
    known = [row[~np.isnan(row)] for row in elbo]
    # A bound of minus infinity has a mean and no spread.
    with np.errstate(invalid="ignore"):
        return np.array([statistic(row) if len(row) else np.nan for row in known])
