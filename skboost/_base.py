"""From hyperparameters to a run of the engine, and what every fit has around it."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator

from skboost._callbacks import Limits
from skboost._checkpoint import RunKeeper, session_of
from skboost._elsewhere import refuse_unknown
from skboost._pickles import VersionedPickle
from skboost._random import root_seed
from skboost._report import report, warn_unfinished
from skboost._settings import Settings
from skboost._sklearn import (
    CallbackSupportMixin,
    InstanceOf,
    Interval,
    StrOptions,
)
from skboost._stages import Corrected, boosted
from skboost.boosting import COMBINATIONS, TOL, Boosting, allowed_kl
from skboost.calibration import CALIBRATIONS
from skboost.families import FAMILIES, VariationalFamily, as_family
from skboost.frank_wolfe import CORRECTIVE, STEP_SIZES, StepSize
from skboost.objectives import OBJECTIVES, Objective, as_objective
from skboost.posterior import MixturePosterior
from skboost.proposals import CommonScaleProposer, DensityProposer

# Hyperparameters that are settings of the engine, by the same names.
_SETTINGS = ("n_draws", "n_restarts", "tol", "max_components", "refine")

BOOSTING_CONSTRAINTS = {
    "family": [
        StrOptions(set(FAMILIES)),
        InstanceOf(VariationalFamily, "skboost.families"),
    ],
    "objective": [
        StrOptions(set(OBJECTIVES)),
        InstanceOf(Objective, "skboost.strategies"),
    ],
    "step_size": [
        StrOptions(set(STEP_SIZES)),
        Interval(Real, 0, 1, closed="right"),
        InstanceOf(StepSize, "skboost.strategies"),
    ],
    "corrective": [StrOptions(set(CORRECTIVE))],
    "refine": ["boolean"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "max_components": [Interval(Integral, 1, None, closed="left"), None],
    "stopping": [StrOptions({"gain", "gap"})],
    "tol": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "n_draws": [Interval(Integral, 2, None, closed="left")],
    "n_restarts": [Interval(Integral, 1, None, closed="left")],
    "calibrate": [StrOptions(set(CALIBRATIONS)), None],
    "skew": [StrOptions({"auto"}), None],
    "temperature": [Interval(Real, 0, 1, closed="right")],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}


def make_engine(target, params, starts, seed, n_jobs, box=None):
    """The engine of a set of hyperparameters; combinations are checked here.

    Parameters
    ----------
    target : Target
    params : dict
        The hyperparameters of `BOOSTING_CONSTRAINTS`.
    starts : ndarray of shape (n_starts, dim)
    seed : int
    n_jobs : int or None
        Threads over starts.
    box : Box, default=None
        In which further starts are drawn.

    Returns
    -------
    Boosting

    Raises
    ------
    ValueError
        For a combination that means nothing; it names both parameters.
    """
    objective = as_objective(params["objective"])
    family = as_family(params["family"], target.dim)
    family = objective.component_family(family)
    combination = COMBINATIONS[objective.combination]
    for name, allowed in combination.allowed.items():
        if params[name] not in allowed:
            raise ValueError(
                f"objective={params['objective']!r} needs {name} to be one of "
                f"{list(allowed)}; got {name}={params[name]!r}. Use objective='kl' for "
                "the other values."
            )
    exact = (
        objective.uses_expectations
        and target.exact_gaussian
        and family.exact_expectations
    )
    settings = make_settings(params, seed, n_jobs, target.dim, exact)
    if params["tol"] == "auto":
        skews = params["skew"] is not None
        settings = replace(settings, allowed_kl=allowed_kl(target), skews=skews)
    learns_scale = target.scale_prior is not None
    proposer = CommonScaleProposer if learns_scale else DensityProposer
    return Boosting(
        proposer(family, objective, starts, box),
        combination.of(params["step_size"], params["corrective"]),
        settings,
    )


def make_settings(params, seed, n_jobs=None, dim=1, exact=False):
    """Settings of a run with these hyperparameters.

    Parameters
    ----------
    params : dict
        The hyperparameters of `BOOSTING_CONSTRAINTS`; those that a model lacks have
        the defaults of `Settings`.
    seed : int
    n_jobs : int, default=None
    dim : int, default=1
        Of the target: what fresh draws take of memory.
    exact : bool, default=False
        Whether closed expectations are used.

    Returns
    -------
    Settings
    """
    chosen = {name: params[name] for name in _SETTINGS if name in params}
    if chosen.get("tol") == "auto":
        chosen["tol"] = TOL
    n_draws, two_each = chosen["n_draws"], dim * (dim + 3)
    # Draws of a component whose expectations need none cost no evaluations and serve
    # the overlap of components alone, so that four times as many are affordable where
    # they are then at least two for each parameter of a full covariance, and were fewer
    # before.
    if exact and n_draws < two_each <= 4 * n_draws:
        chosen["n_draws"] = 4 * n_draws
    # Fresh draws that need no evaluations are limited by memory only.
    free = (1 << 21) // dim if exact else 0
    n_fresh = max(4 * n_draws, min(16 * n_draws, free))
    return Settings(n_fresh=n_fresh, seed=seed, n_jobs=n_jobs, exact=exact, **chosen)


def make_limits(params, max_evaluations=float("inf")):
    """When a run with these hyperparameters ends."""
    auto = params["tol"] == "auto"
    return Limits(
        params["max_iter"],
        params["stopping"],
        TOL if auto else params["tol"],
        params["max_time"],
        max_evaluations,
    )


def callback_data(X, y, sample_weight=None, **more):
    """What callbacks are given of a call to `fit`, as the user passed it."""
    metadata = {"sample_weight": sample_weight, **more}
    metadata = {name: value for name, value in metadata.items() if value is not None}
    return {"X": X, "y": y, "metadata": metadata or None}


def _check_goes_on(dim_before, dim, kind_before, kind):
    """Refuse a posterior of other parameters, or with components of no use now."""
    if dim_before != dim:
        raise ValueError(
            "warm_start=True goes on with the same data; the last fit had "
            f"{dim_before} parameters, and these data and settings have {dim}. Set "
            "warm_start=False."
        )
    if kind_before != kind:
        raise ValueError(
            "warm_start=True goes on with the same objective and family; got "
            f"{' of '.join(kind)} after {' of '.join(kind_before)}. Set "
            "warm_start=False."
        )


class FittingEstimator(VersionedPickle, CallbackSupportMixin, BaseEstimator):
    """What every estimator here does around a fit: pickles know their version, and a
    fit that fails leaves no trace.
    """

    # Parameters of other libraries and of earlier versions, and what takes their place.
    _moved = {}

    def __new__(cls, *args, **kwargs):
        refuse_unknown(cls.__name__, cls.__init__, cls._moved, kwargs)
        return super().__new__(cls)

    @contextmanager
    def _keeping_old_fit(self):
        """A fit that fails leaves the estimator as it was.

        So does one that is interrupted, unless it had a new posterior to keep: what was
        fitted is set all at once.
        """
        before = dict(vars(self))
        # What outlives a fit that fails: what scikit-learn sets on an estimator while
        # its callbacks run, and takes off after.
        surviving = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")
        try:
            yield
        except BaseException as error:
            # Another posterior, or another run, than before.
            pairs = [(vars(self).get(k), before.get(k)) for k in ("_run", "posterior_")]
            new = any(now is not None and now is not then for now, then in pairs)
            if isinstance(error, KeyboardInterrupt) and new:
                raise
            running = {k: v for k, v in vars(self).items() if k in surviving}
            vars(self).clear()
            vars(self).update(before, **running)
            raise


class BoostedEstimator(FittingEstimator):
    """What every boosted estimator does with a target: run, report, go on.

    Subclasses declare the hyperparameters of `BOOSTING_CONSTRAINTS` and give
    ``_fitted(posterior)``: the model's own attributes.
    """

    def __getstate__(self):
        """Without the run, unless `warm_start` is to go on with it.

        Its draws take twenty times as much room as the posterior: 2.7 of the 2.9 MB of
        a logistic regression with 31 coefficients.
        """
        state = super().__getstate__()
        if not self.warm_start:
            state.pop("_run", None)
        return state

    def _boost(
        self, target, data, *, starts=None, names=None, from_scratch=False, also=None
    ):
        """Set every fitted attribute: the way of a target to its report.

        Rows have become a target in ``fit``; from here it is prepare, boost, correct,
        report, as in `boost_posterior`.

        `data` is what callbacks are given: X and y as the user passed them, and
        metadata such as sample weights. An interrupted run is kept, unless it began
        `from_scratch` with the posterior before as its prior: its data could not be
        passed once more. `also` are attributes that are set with the others.
        """
        params = self._hyperparameters()
        going_on = self.warm_start and not from_scratch and "_run" in vars(self)
        previous = self._run if going_on else None
        seed = self._seed if going_on else root_seed(self.random_state)
        session = None if from_scratch else session_of(self)
        keeper = None if session is None else RunKeeper(session)
        if starts is None:
            starts = np.zeros((1, target.dim))
        # The target and the hyperparameters make an engine.
        engine = self._engine(target, params, starts, seed)
        if previous is not None:
            _check_goes_on(
                previous.state.mixture.dim, target.dim, self._kind, engine.kind
            )
        context = self._init_callback_context(max_subtasks=self.max_iter)
        context.call_on_fit_task_begin(estimator=self, **data)

        def begin_iteration(engine, target):
            task = context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self, **data)
            return partial(self._end_iteration, task, engine, target, names, data)

        def report(engine, target, done, corrected):
            attributes = self._fitted_after(engine, target, done, names, corrected)
            attributes |= also or {}
            if not (from_scratch and done.interrupted):
                vars(self).update(attributes)
            return attributes

        attributes = boosted(
            engine, target, make_limits(params), prepare=None,
            # Conjugate posteriors have nothing to correct, and no such parameters.
            correct=(params.get("calibrate"), params.get("skew")),
            report=report,
            previous=previous,
            begin_iteration=begin_iteration,
            keeper=keeper,
        )  # fmt: skip
        context.call_on_fit_task_end(
            estimator=self, reconstruction_attributes=lambda: attributes, **data
        )
        self._warn_unfinished(attributes["_run"], attributes)
        return self

    def _hyperparameters(self):
        """Those of `BOOSTING_CONSTRAINTS` among others."""
        return self.get_params(deep=False)

    def _warn_unfinished(self, done, attributes):
        warn_unfinished(done, attributes, self.get_params(deep=False))

    def _end_iteration(self, task, engine, target, names, data, done):
        """Tell callbacks that an iteration was done; True asks to stop."""
        return task.call_on_fit_task_end(
            estimator=self,
            reconstruction_attributes=lambda: self._fitted_after(
                engine, target, done, names, Corrected(done.stages[-1])
            ),
            **data,
        )

    def _engine(self, target, params, starts, seed):
        """The engine of the hyperparameters."""
        return make_engine(target, params, starts, seed, self.n_jobs)

    def _posterior(self, mixture, names):
        """What users meet as ``posterior_``."""
        return MixturePosterior(mixture, names)

    def _fitted_after(self, engine, target, done, names, corrected):
        attributes = report(
            engine, target, done, corrected, names, posterior=self._posterior
        )
        if "calibrate" not in self._hyperparameters():
            del attributes["calibration_"], attributes["skewing_"]
        attributes.update(
            self._fitted(attributes["posterior_"]),
            _run=done,
            _kind=engine.kind,
            _seed=engine.settings.seed,
        )
        return attributes
