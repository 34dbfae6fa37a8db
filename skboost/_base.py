"""From hyperparameters to a run of the engine, and from a run to fitted attributes."""

import warnings
from contextlib import contextmanager
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from skboost._callbacks import Limits, run
from skboost._parallel import single_threaded_blas
from skboost._random import REPORT, generator, root_seed
from skboost._sklearn import CallbackSupportMixin, Interval, StrOptions
from skboost.boosting import Boosting, UniversalBoosting
from skboost.families import FAMILIES, VariationalFamily, as_family
from skboost.frank_wolfe import CORRECTIVE, STEP_SIZES, StepSize, as_step_size
from skboost.objectives import OBJECTIVES, Objective, RootGain, as_objective
from skboost.posterior import FreshDraws, MixturePosterior

# Nats of remaining KL above which an unfinished run is worth a warning.
_LARGE_KL = 0.5
# Entries of a table of draws that costs no evaluation of the target.
_FREE_ENTRIES = 1 << 21
# Draws for the importance-sampling part of the final report.
_N_REMAINING = 1024
# Modes that a message lists.
_MAX_SHOWN = 5

# What scikit-learn sets on an estimator while its callbacks run, and takes off after.
_CALLBACK_STATE = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")

# Its best combination is closed, so there is no step to choose and no duality gap.
_ROOT_PARAMETERS = {
    "step_size": ("line-search",),
    "corrective": ("fully-corrective", "none"),
    "stopping": ("gain",),
}

BOOSTING_CONSTRAINTS = {
    "family": [StrOptions(set(FAMILIES)), VariationalFamily],
    "component_covariance": [StrOptions({"auto", "full", "low_rank", "diag"})],
    "objective": [StrOptions(set(OBJECTIVES)), Objective],
    "entropy_weight": [Interval(Real, 0, None, closed="left"), callable, None],
    "step_size": [
        StrOptions(set(STEP_SIZES)),
        Interval(Real, 0, 1, closed="right"),
        StepSize,
    ],
    "corrective": [StrOptions(set(CORRECTIVE))],
    "refine": ["boolean"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "max_components": [Interval(Integral, 1, None, closed="left"), None],
    "stopping": [StrOptions({"gain", "gap"})],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "n_draws": [Interval(Integral, 2, None, closed="left")],
    "n_restarts": [Interval(Integral, 1, None, closed="left")],
    "temperature": [Interval(Real, 0, 1, closed="right")],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}


def make_engine(
    target, params, starts, seed, n_jobs, box=None, max_evaluations=float("inf")
):
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
    max_evaluations : float, default=inf
        Of the target.

    Returns
    -------
    Boosting

    Raises
    ------
    ValueError
        For a combination that means nothing; it names both parameters.
    """
    family = as_family(params["family"], params["component_covariance"], target.dim)
    n_draws = params["n_draws"]
    exact = getattr(target, "exact_gaussian", False) and hasattr(family, "structure")
    objective = as_objective(params["objective"], params["entropy_weight"])
    engine = Boosting
    if isinstance(objective, RootGain):
        # The Hellinger distance has an engine of its own: its components are roots.
        _check_roots(family, params)
        engine, exact = UniversalBoosting, False
    return engine(
        target=target,
        family=family,
        objective=objective,
        step_size=as_step_size(params["step_size"]),
        corrective=params["corrective"],
        refine=params["refine"],
        n_draws=n_draws,
        n_restarts=params["n_restarts"],
        n_fresh=_n_fresh(n_draws, target.dim, exact),
        max_components=params["max_components"],
        tol=params["tol"],
        starts=starts,
        seed=seed,
        n_jobs=n_jobs,
        box=box,
        max_evaluations=max_evaluations,
    )


def _check_roots(family, params):
    """Refuse what has no meaning for square roots of densities."""
    if not family.root_products:
        raise ValueError(
            "objective='hellinger' needs a family whose square roots have products in "
            f"closed form: 'gaussian' or 'laplace'; got family={params['family']!r}."
        )
    for name, allowed in _ROOT_PARAMETERS.items():
        if params[name] not in allowed:
            raise ValueError(
                f"objective='hellinger' needs {name} to be one of {list(allowed)}; got "
                f"{name}={params[name]!r}. Use objective='kl' for the other values."
            )


def _n_fresh(n_draws, dim, exact):
    """Fresh draws per estimate; without evaluations only memory limits them."""
    free = _FREE_ENTRIES // dim if exact else 0
    return max(4 * n_draws, min(16 * n_draws, free))


def make_limits(params, max_evaluations=float("inf")):
    """When a run with these hyperparameters ends."""
    return Limits(
        params["max_iter"],
        params["stopping"],
        params["tol"],
        params["max_time"],
        max_evaluations,
    )


def history_record(info):
    """One iteration as a flat dict of plain numbers, as `history_` holds it."""
    return {
        "iteration": info.iteration,
        "kind": info.kind,
        "branch": info.branch,
        "gamma": info.gamma,
        "curvature": info.curvature,
        "n_components": info.n_components,
        "elbo": info.elbo.value,
        "elbo_se": info.elbo.se,
        "gain": info.gain.value,
        "gain_se": info.gain.se,
        "gap": info.gap.value,
        "gap_se": info.gap.se,
        "entropy": info.entropy,
        "remaining_kl": info.remaining.value,
        "remaining_kl_se": info.remaining.se,
        "pareto_k": info.remaining.khat,
        "outside": info.remaining.outside,
        "seconds": info.seconds,
        "seconds_weights": info.seconds_weights,
    }


def report(engine, done, names=None, place=np.asarray, posterior=MixturePosterior):
    """Fitted attributes of a run, by their public names, all from fresh draws.

    Parameters
    ----------
    engine : Boosting
    done : Run
    names : sequence of str, default=None
        Names of the coordinates.
    place : callable, default=numpy.asarray
        From unconstrained points (n, dim) to those that a user knows.
    posterior : callable, default=MixturePosterior
        Makes ``posterior_`` of the mixture and the names.

    Returns
    -------
    dict
    """
    mixture = done.stages[-1]
    rng = generator(engine.seed, REPORT, done.n_iter)
    fresh = FreshDraws.of(engine.target, mixture, engine.n_fresh, rng, engine.exact)
    elbo, remaining = fresh.elbo(), fresh.remaining_kl(engine.target, _N_REMAINING, rng)
    history = [history_record(info) for info in done.history]
    message = done.message
    if not engine.monotone and done.state.best_iteration != done.n_iter:
        message += f" Kept the mixture of iteration {done.state.best_iteration}."
    if fresh.outside > 0.0:
        message += (
            f" {100 * fresh.outside:.3g} % of the posterior's draws lie where the "
            f"density is zero: {engine.outside_advice}. The ELBO is that of the "
            "posterior restricted to where it is not."
        )
    if engine.unprobed:
        message += (
            f" With {engine.target.dim} coordinates modes outside the mixture were "
            "not looked for: pass starts (x0) near any that may be there."
        )
    outside = _outside(engine, done, mixture, elbo, remaining, place)
    return {
        "posterior_": posterior(mixture, names),
        "elbo_": elbo.value,
        "elbo_se_": elbo.se,
        "elbo_path_": np.array([h["elbo"] for h in history]),
        "gain_path_": np.array([h["gain"] for h in history]),
        "duality_gap_": history[-1]["gap"],
        "duality_gap_se_": history[-1]["gap_se"],
        "duality_gap_path_": np.array([h["gap"] for h in history]),
        "remaining_kl_": remaining.value,
        "remaining_kl_se_": remaining.se,
        "pareto_k_": remaining.khat,
        "n_iter_": done.n_iter,
        "converged_": done.converged and not outside,
        "message_": outside + message,
        "history_": history,
    }


def _outside(engine, done, mixture, elbo, remaining, place):
    """What to say of mass that probes find outside a mixture; empty without any."""
    # What the mixture reaches has more mass than its ELBO says.
    log_evidence = elbo.value + np.nan_to_num(max(remaining.value, 0.0))
    modes = done.state.modes
    found = engine.missed(mixture, modes, log_evidence, REPORT, done.n_iter)
    if not found:
        return ""
    places = place(np.array([one.location for one in found[:_MAX_SHOWN]]))
    shown = [[float(f"{x:.4g}") for x in row] for row in places]
    return (
        f"uncertified: probes outside the mixture found {len(found)} "
        f"mode{'s' * (len(found) > 1)} that it lacks, the heaviest with about "
        f"{100 * found[0].mass:.2g} % of the posterior's mass. Pass more iterations "
        f"(max_iter), or these with your x0: {shown}. "
    )


def warn_unfinished(done, attributes, stacklevel):
    """Warn only where much is left: stopping early is normal for an anytime method."""
    remaining = attributes["remaining_kl_"]
    if done.history[-1].improper or attributes["message_"].startswith("uncertified"):
        warnings.warn(attributes["message_"], ConvergenceWarning, stacklevel=stacklevel)
        return
    if not remaining > _LARGE_KL:
        return
    warnings.warn(
        f"{attributes['message_']} About {remaining:.2g} nats of KL remain. Raise "
        f"max_iter (or max_time), n_draws or n_restarts{_richer(attributes)}.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


def _richer(attributes):
    """Advice to use a family with full covariances, where that is not the one."""
    family, _ = attributes["posterior_"].mixture.components[0]
    covariance = getattr(family, "covariance", None)
    # Conjugate laws have no richer relatives.
    if covariance == "full" or not isinstance(family, VariationalFamily):
        return ""
    if covariance is None:
        return ", or use family='gaussian'"
    return ", or use component_covariance='full'"


def _package_version():
    from skboost import __version__

    return __version__


def callback_data(X, y, sample_weight=None):
    """What callbacks are given of a call to `fit`, as the user passed it."""
    metadata = None if sample_weight is None else {"sample_weight": sample_weight}
    return {"X": X, "y": y, "metadata": metadata}


class FittingEstimator(CallbackSupportMixin, BaseEstimator):
    """What every estimator here does around a fit: pickles know their version, and a
    fit that fails leaves no trace.
    """

    def __getstate__(self):
        return {**super().__getstate__(), "_skboost_version": _package_version()}

    def __setstate__(self, state):
        state = dict(state)
        written = state.pop("_skboost_version", None)
        if written != _package_version():
            warnings.warn(
                f"{type(self).__name__} was pickled by skboost {written} and may not "
                f"work in skboost {_package_version()}. Fit it again, or keep its "
                "posterior_ with MixturePosterior.save, which does not depend on the "
                "version.",
                stacklevel=2,
            )
        super().__setstate__(state)

    @contextmanager
    def _keeping_old_fit(self):
        """A fit that fails or is interrupted leaves the estimator as it was."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            # The callbacks are still to be torn down by scikit-learn.
            running = {k: v for k, v in vars(self).items() if k in _CALLBACK_STATE}
            vars(self).clear()
            vars(self).update(before, **running)
            raise


class BoostedEstimator(FittingEstimator):
    """What every boosted estimator does with a target: run, report, go on.

    Subclasses declare the hyperparameters of `BOOSTING_CONSTRAINTS` and give
    ``_fitted(posterior)``: the model's own attributes.
    """

    def _boost(self, target, data, *, starts=None, names=None, anew=False):
        """Run the engine on a target and set every fitted attribute at the end.

        `data` is what callbacks are given: X and y as the user passed them, and
        metadata such as sample weights.
        """
        params = self.get_params(deep=False)
        going_on = self.warm_start and not anew and hasattr(self, "_run")
        previous = self._run if going_on else None
        seed = self._seed if going_on else root_seed(self.random_state)
        if starts is None:
            starts = np.zeros((1, target.dim))
        engine = self._engine(target, params, starts, seed)
        if previous is not None and previous.state.mixture.dim != target.dim:
            raise ValueError(
                f"warm_start=True goes on with the same data; got {target.dim} "
                f"parameters after {previous.state.mixture.dim}. Set warm_start=False."
            )
        context = self._init_callback_context(max_subtasks=self.max_iter)
        context.call_on_fit_task_begin(estimator=self, **data)

        def begin_iteration():
            task = context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self, **data)
            return lambda done: task.call_on_fit_task_end(
                estimator=self,
                reconstruction_attributes=lambda: self._fitted_after(
                    engine, done, names
                ),
                **data,
            )

        with single_threaded_blas():
            done = run(engine, make_limits(params), previous, begin_iteration)
            attributes = self._fitted_after(engine, done, names)
        vars(self).update(attributes)
        context.call_on_fit_task_end(
            estimator=self, reconstruction_attributes=lambda: attributes, **data
        )
        # Past `fit` and scikit-learn's wrapper of it, where the user called.
        self._warn_unfinished(done, attributes, stacklevel=6)
        return self

    def _warn_unfinished(self, done, attributes, stacklevel):
        warn_unfinished(done, attributes, stacklevel)

    def _engine(self, target, params, starts, seed):
        """The engine of the hyperparameters."""
        return make_engine(target, params, starts, seed, self.n_jobs)

    def _posterior(self, mixture, names):
        """What users meet as ``posterior_``."""
        return MixturePosterior(mixture, names)

    def _fitted_after(self, engine, done, names):
        attributes = report(engine, done, names, posterior=self._posterior)
        attributes.update(
            self._fitted(attributes["posterior_"]),
            _run=done,
            _seed=engine.seed,
            _stages=done.stages,
        )
        return attributes
