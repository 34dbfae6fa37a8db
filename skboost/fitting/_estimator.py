"""What every estimator has around a fit, and what every boosted one does with a fit."""

from contextlib import contextmanager

import numpy as np
from sklearn.base import BaseEstimator

from skboost._parameters import ParameterNames, refuse_unknown
from skboost._pickles import read, written
from skboost._random import root_seed
from skboost._sklearn import CallbackSupportMixin, check_sample_weight
from skboost.fitting._boost import EstimatorObserver, Options, RunInterrupted, boost
from skboost.fitting._checkpoint import keeper_of, refuse_checkpoints
from skboost.fitting._engines import check_together, make_engine, make_limits
from skboost.fitting._fit import FromFit
from skboost.fitting._messages import warn_unfinished, warn_where_called
from skboost.posterior import as_posterior


def callback_data(X, y, sample_weight=None, **more):
    """What callbacks are given of a call to `fit`, as the user passed it."""
    metadata = {"sample_weight": sample_weight, **more}
    metadata = {name: value for name, value in metadata.items() if value is not None}
    return {"X": X, "y": y, "metadata": metadata or None}


def row_weights(X, sample_weight):
    """Weights of the rows of a fit as floats, (n_samples,), none of them negative."""
    weight = check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    warn_of_weights(weight.sum(), np.count_nonzero(weight))
    return weight


def warn_of_weights(total, n_rows):
    """Say that rows have the information of one at most: normalised weights do."""
    if n_rows > 1 and total <= 1.0 + 1e-6:
        warn_where_called(
            f"sample_weight adds up to {total:.3g} for n_rows={n_rows}: a weight "
            "counts rows, so that all of these have the information of one, and little "
            "more than the prior is found. Multiply normalised weights by the number "
            "of rows.",
            UserWarning,
        )


class FittingEstimator(ParameterNames, CallbackSupportMixin, BaseEstimator):
    """What every estimator here does around a fit: pickles know their version, and a
    fit that fails leaves no trace.
    """

    # Parameters of other libraries, and what takes their place.
    _elsewhere = {}
    # Of a fit that takes long, where no `Checkpoint` keeps it.
    _instead_of_checkpoint = ""
    # What to say of a matrix that is not positive definite in rounding.
    _if_singular = (
        "A covariance of the parameters is singular in rounding: columns of X are of "
        "too different sizes, or priors too wide for them. Standardise X."
    )

    def __new__(cls, *args, **kwargs):
        refuse_unknown(cls.__name__, cls.__init__, cls._elsewhere, kwargs)
        return super().__new__(cls)

    def set_callbacks(self, *callbacks):
        """Set what hears of `fit`, and return self.

        Parameters
        ----------
        *callbacks : callback instances
            As those of `skboost.callbacks`, or of scikit-learn.

        Raises
        ------
        ValueError
            For a `Checkpoint` where no fit of this estimator would be kept by it.
        """
        if self._instead_of_checkpoint:
            refuse_checkpoints(self, callbacks, self._instead_of_checkpoint)
        return super().set_callbacks(*callbacks)

    def __getstate__(self):
        return written(super().__getstate__())

    def __setstate__(self, state):
        vars(self).update(read(state))

    @contextmanager
    def _keeping_old_fit(self):
        """A fit that fails leaves the estimator as it was.

        So does one that is interrupted, unless it had a new posterior to keep: what was
        fitted is set all at once. A singular matrix becomes a `ValueError` that says
        what to do.
        """
        before = dict(vars(self))
        # What scikit-learn sets on an estimator while its callbacks run, and takes off
        # after.
        surviving = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")
        try:
            yield
        except BaseException as error:
            # Another posterior, or another run, than before.
            names = ("_fit", "_run", "posterior_")
            pairs = [(vars(self).get(k), before.get(k)) for k in names]
            new = any(now is not None and now is not then for now, then in pairs)
            if isinstance(error, KeyboardInterrupt) and new:
                raise
            running = {k: v for k, v in vars(self).items() if k in surviving}
            vars(self).clear()
            vars(self).update(before, **running)
            if isinstance(error, np.linalg.LinAlgError):
                raise ValueError(self._if_singular) from error
            raise


class BoostedEstimator(FittingEstimator):
    """What every boosted estimator does with a target: boost it, keep the fit, go on.

    Subclasses declare the hyperparameters of `BOOSTING_CONSTRAINTS`.
    """

    def _validate_params(self):
        super()._validate_params()
        check_together(self.get_params(deep=False))

    posterior_ = FromFit("posterior")
    elbo_ = FromFit("report.elbo")
    elbo_se_ = FromFit("report.elbo_se")
    converged_ = FromFit("converged")
    history_ = FromFit("history")
    elbo_path_ = FromFit("elbo_path")
    remaining_kl_ = FromFit("report.remaining_kl")
    remaining_kl_se_ = FromFit("report.remaining_kl_se")
    remaining_kl_interval_ = FromFit("report.remaining_kl_interval")
    pareto_k_ = FromFit("report.pareto_k")
    message_ = FromFit("report.message")

    def _await(self, known, fitted):
        """Set what is known; ``fitted()`` gives the rest when it is asked for."""
        for name in _OF_FITS:
            vars(self).pop(name, None)
        vars(self).update(known, _later=fitted)

    def __getattr__(self, name):
        of_fit = name in _OF_FITS or isinstance(
            getattr(type(self), name, None), FromFit
        )
        if of_fit and "_later" in vars(self):
            vars(self).update(vars(self)["_later"]())
            vars(self).pop("_later")
        # Where it is none of them, the error is that of the first look.
        return object.__getattribute__(self, name)

    def __dir__(self):
        # Notebooks look at all that is listed, which must not begin a fit.
        known = vars(self) if "_later" in vars(self) else super().__dir__()
        names = object.__dir__(self)
        return [one for one in names if one in known or one.strip("_") + "_" != one]

    def __getstate__(self):
        """Without the run, unless `warm_start` is to go on with it.

        Its draws take twenty times as much room as the posterior: 2.7 of the 2.9 MB of
        a logistic regression with 31 coefficients.
        """
        if "_later" in vars(self):
            self._fit  # noqa: B018  (computed here, once)
        state = super().__getstate__()
        if "_fit" in state and not self.warm_start:
            state["_fit"] = state["_fit"].without_run()
        return state

    def _boost(
        self,
        target,
        data,
        attributes,
        *,
        starts=None,
        names=None,
        constraints=None,
        posterior=as_posterior,
        engine_of=make_engine,
        params=None,
        update=False,
        iterated=None,
        warn=warn_unfinished,
    ):
        """Boost a target and set every fitted attribute.

        `data` is what callbacks are given (see `callback_data`), `starts` are points
        (n_starts, dim) or what finds them where a search asks, ``attributes(fit)``
        gives the model's own fitted attributes, ``posterior(mixture, names,
        constraints)`` makes ``posterior_`` of a mixture, and `params` are the
        hyperparameters, by default the estimator's own. ``iterated(run)`` hears of
        every iteration, and ``warn(fit, params)`` warns of a fit that is unfinished.
        An `update` has the posterior before as its prior: it begins anew, and is not
        kept where it is interrupted, since its rows could not be passed once more.
        """
        own = self.get_params(deep=False)
        params = own if params is None else params
        before = self.warm_start and not update and getattr(self, "_fit", None) or None
        seed = root_seed(self.random_state) if before is None else before.seed
        starts = np.zeros((1, target.dim)) if starts is None else starts
        engine = engine_of(target, params, starts, seed, self.n_jobs)
        _check_goes_on(before, engine, target)
        options = Options(
            engine,
            make_limits(params),
            previous=None if before is None else before.run,
            orbit=params.get("orbit"),
            names=names,
            constraints=constraints,
            posterior=posterior,
            verbose=params["verbose"],
        )

        def set_of(fit):
            return common_attributes(fit) | attributes(fit)

        keeper = None if update else keeper_of(self)
        observer = EstimatorObserver(self, data, options, set_of, keeper, iterated)
        try:
            fit = boost(target, options, observer)
        except RunInterrupted as error:
            if not update:
                vars(self).update(set_of(error.fit))
            raise error.__cause__ from None
        vars(self).pop("_later", None)
        vars(self).update(set_of(fit))
        observer.finish(fit)
        warn(fit, own)
        return self


_OF_FITS = (
    "coef_",
    "intercept_",
    "_fit",
    "gain_path_",
    "duality_gap_",
    "duality_gap_se_",
    "duality_gap_path_",
    "n_iter_",
)


def common_attributes(fit):
    """Fitted attributes that every boosted estimator has at once."""
    # Without the records of iterations, which may ask for draws.
    history = fit.run.history
    gains = np.array([info.gain.value for info in history])
    gaps = np.array([info.gap.value for info in history])
    values = fit, gains, gaps[-1], history[-1].gap.se, gaps, fit.n_iter
    return dict(zip(_OF_FITS[2:], values, strict=True))


def _check_goes_on(before, engine, target):
    """Refuse a fit of other parameters, or with components of no use now."""
    if before is None:
        return
    dim = before.mixture.dim
    if dim != target.dim:
        raise ValueError(
            "warm_start=True goes on with the same data; the number of parameters was "
            f"{dim} in the last fit, and is {target.dim} now. Set "
            "warm_start=False."
        )
    if before.kind != engine.kind:
        raise ValueError(
            "warm_start=True goes on with the same objective and family; got "
            f"{' of '.join(engine.kind)} after {' of '.join(before.kind)}. Set "
            "warm_start=False."
        )
