"""What online estimators share: batches read, streams begun, rows taken in."""

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skboost._columns import validate_data
from skboost._sklearn import InstanceOf, Interval, StrOptions, fit_context
from skboost.fitting import (
    FittingEstimator,
    callback_data,
    row_weights,
    warn_where_called,
)
from skboost.linear_model._methods import POSITIVE
from skboost.linear_model._model import Layout, feature_names
from skboost.online import ONLINE_METHODS, gaussian_of
from skboost.posterior import Mixture, MixturePosterior
from skboost.svi import LearningRate
from skboost.targets import validate_scale

# Rows between two looks at callbacks and Ctrl-C.
_PART = 8192

ONLINE_CONSTRAINTS = {
    "covariance": [StrOptions({"auto", "diag", "full"})],
    "learning_rate": [StrOptions({"auto"}), Interval(Real, 0, np.inf, closed="right"),
                      InstanceOf(LearningRate, "skboost.strategies")],
    "beta": [StrOptions({"auto"}), POSITIVE],
    "forgetting": [Interval(Real, 0, 1, closed="right")],
    "prior_scale": ["array-like", POSITIVE],
    "fit_intercept": ["boolean"],
    "intercept_scale": [POSITIVE],
    "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    "n_passes": [Interval(Integral, 1, None, closed="left")],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
}  # fmt: skip


class Batch(NamedTuple):
    """Rows of positive weight, their responses as streams take them, and weights."""

    X: object
    y: np.ndarray
    weight: np.ndarray

    def some(self, index):
        """The rows at an index."""
        return Batch(*(part[index] for part in self))


def read_batch(estimator, X, y, sample_weight, code, reset, y_numeric=False):
    """A `Batch`, checked; ``code(y)`` gives responses as streams take them."""
    if y is not None:
        check_numbers("y", y)
    X, y = validate_data(
        estimator, X, y, reset=reset, accept_sparse="csr", dtype=np.float64,
        order="C", ensure_all_finite=False, y_numeric=y_numeric,
    )  # fmt: skip
    check_numbers("X", X)
    y = code(y)
    weight = row_weights(X, sample_weight)
    if sparse.issparse(X) and not X.has_canonical_format:
        # The arrays may be the caller's.
        X = X.copy()
        X.sum_duplicates()
    batch, used = Batch(X, y, weight), weight > 0.0
    return batch if used.all() else batch.some(used)


def check_numbers(name, values):
    """Refuse NaN and infinity, and name the row."""
    numbers = values.data if sparse.issparse(values) else np.asarray(values)
    if numbers.dtype.kind != "f" or np.isfinite(np.sum(numbers)):
        return
    wrong = ~np.isfinite(numbers)
    if not wrong.any():
        return
    position = np.argwhere(wrong)[0, 0]
    if sparse.issparse(values):
        position = np.searchsorted(values.indptr, position, side="right") - 1
    what = "NaN" if np.isnan(numbers[wrong]).any() else "infinity"
    raise ValueError(
        f"{name} must be finite; got {what}, first in row {position} of this "
        "batch. Drop or impute it; what was learned before this batch is kept."
    )


def check_first_rows(X, model, prior_scale):
    """Refuse columns that overflow; say where the prior makes some too heavy."""
    if not X.shape[0]:
        return
    names, widest = model.layout.features, model.widest_spread
    scale = validate_scale(prior_scale, X.shape[1])
    with np.errstate(over="ignore"):
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        shares = np.ravel(squares.mean(axis=0)) * scale**2
        spread = np.sqrt(shares.sum())
    if not np.isfinite(spread):
        raise ValueError(
            f"X must have columns whose squares are finite; those of "
            f"{names[np.argmax(shares)]!r} overflow. Divide them by their largest "
            "value, for example with sklearn.preprocessing.MaxAbsScaler."
        )
    if spread <= widest:
        return
    most = [str(names[j]) for j in np.argsort(-shares)[:3]]
    warn_where_called(
        f"prior_scale={prior_scale!r} gives the linear predictor of the first "
        f"rows a standard deviation of {spread:.3g} before anything "
        f"is learned; above {widest:g}, updates overshoot and "
        f"predictions can be far off. The columns {most} contribute most. "
        "Standardise X, for example with sklearn.preprocessing.StandardScaler; "
        "where it is, lower prior_scale.",
        UserWarning,
    )


class OnlineEstimator(FittingEstimator):
    """Estimators whose posterior is one stream for each output of an `OnlineModel`."""

    _instead_of_checkpoint = (
        "Pass some rows at a time to partial_fit, and pickle the estimator in between."
    )
    _if_singular = (
        "The precision of the coefficients is singular in floating point: columns of X "
        "lie too far from zero, or are too large. Centre and scale them. What was "
        "learned before this batch is kept."
    )

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Learn from the rows in their order, from the prior. Returns self.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers, or labels of at least two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative: a row's loss is multiplied by it. Rows of weight zero are left
            out. A weight of two is one update that is twice as strong, where a row that
            stands twice makes two updates; under ``method="ewa"`` these are the same.

        Raises
        ------
        ValueError
            For data or combinations of parameters that mean nothing. What was fitted
            before stays usable.
        skboost.exceptions.DivergedError
            A FloatingPointError, if the steps overshoot; it names the step. What was
            fitted before stays.

        Warns
        -----
        UserWarning
            If columns of `X` are so large, or so many, that under `prior_scale` the
            linear predictor varies too widely for updates that bear it; of linear
            regressions, if their covariance is diagonal.
        """
        with self._keeping_old_fit():
            batch = self._read(X, y, sample_weight, reset=True)
            self._begin(self._model(first=True), batch)
            return self._passes(batch, callback_data(X, y, sample_weight))

    # --- batches in

    def _first_layout(self, outputs=()):
        return Layout(feature_names(self), self.fit_intercept, outputs)

    def _begin(self, model, batch):
        """The prior, as streams that have seen nothing."""
        scale = validate_scale(self.prior_scale, self.n_features_in_)
        if self.fit_intercept:
            wide = self.intercept_scale
            if isinstance(wide, str):
                wide = ONLINE_METHODS[self.method].wide_scale
            scale = np.append(scale, wide)
        self._model_ = model = model.about(batch, scale[: self.n_features_in_])
        self._streams = model.begin(scale)
        self.n_seen_, self.cumulative_loss_ = 0, 0.0
        check_first_rows(model.centred(batch.X), model, self.prior_scale)

    def _passes(self, batch, data):
        """Passes over the rows, of which callbacks hear; they may ask to stop."""
        context = self._init_callback_context(max_subtasks=self.n_passes)
        context.call_on_fit_task_begin(estimator=self, **data)
        rng = check_random_state(self.random_state)
        for _ in range(self.n_passes):
            order = rng.permutation(len(batch.y)) if self.shuffle else slice(None)
            if self._pass(context, data, batch.some(order)):
                break
        self._check_precision()
        _ended(context, self, data)
        return self

    def _pass(self, context, data, batch):
        """One pass over the rows, in parts that callbacks hear of; True to stop."""
        size = _PART if self.batch_size is None else self.batch_size
        # Whole batches, so that parts change nothing.
        size *= max(1, _PART // size)
        starts = range(0, len(batch.y), size)
        one_pass = context.subcontext(task_name="pass", max_subtasks=len(starts))
        one_pass.call_on_fit_task_begin(estimator=self, **data)
        stop = False
        for begin in starts:
            task = one_pass.subcontext("rows")
            task.call_on_fit_task_begin(estimator=self, **data)
            self._take_in(batch.some(slice(begin, begin + size)))
            stop = _ended(task, self, data)
            if stop:
                break
        return _ended(one_pass, self, data) or stop

    def _one_more(self, model, batch):
        """One batch of a stream, the first or another."""
        first = "_streams" not in vars(self)
        if first:
            self._begin(model, batch)
        else:
            self._model_, self._streams = model.going_on(self._model_, self._streams)
        self._take_in(batch)
        # A row at a time, it would take longer than the update.
        if first or len(batch.y) > self.n_features_in_:
            self._check_precision()
        return self

    def _take_in(self, batch):
        # Between two calls Ctrl-C is heard.
        size = _PART if self.batch_size is None else self.batch_size
        for begin in range(0, len(batch.y), size):
            X, y, weight = batch.some(slice(begin, begin + size))
            self._streams, losses = self._model_.absorb(self._streams, X, y, weight)
            self.n_seen_ += len(y)
            # One after another: the same however rows come in batches.
            total = np.cumsum([self.cumulative_loss_, *losses])
            self.cumulative_loss_ = float(total[-1])

    def _check_precision(self):
        """Refuse a posterior that floating point can not hold."""
        if not all(stream.sound for stream in self._streams):
            raise ValueError(self._if_singular)

    # --- what is known

    def _vectors(self, name):
        """Coefficients and intercepts of what every stream has by a name."""
        check_is_fitted(self)
        return self._model_.shaped([getattr(one, name) for one in self._streams])

    def _averages(self):
        check_is_fitted(self)
        averages = [stream.average for stream in self._streams]
        if any(average is None for average in averages):
            raise AttributeError(
                "averaged_coef_ is not kept for sparse rows where coefficients decay "
                "between the rows that touch them: learning_rate=inf with "
                "forgetting=1 keeps it, and so do dense rows."
            )
        return self._model_.shaped(averages)

    @property
    def coef_(self):
        """Posterior means."""
        return self._vectors("mean")[0]

    @property
    def intercept_(self):
        """Posterior means."""
        return self._vectors("mean")[1]

    @property
    def coef_std_(self):
        """Posterior standard deviations, in the shape of `coef_`."""
        return self._vectors("std")[0]

    @property
    def averaged_coef_(self):
        """Average of the coefficients that predicted each row."""
        return self._averages()[0]

    @property
    def averaged_intercept_(self):
        """Average of the intercepts that predicted each row."""
        return self._averages()[1]

    @property
    def posterior_(self):
        """Of coefficients and intercept, a `MixturePosterior` of one component."""
        check_is_fitted(self)
        streams, names = self._streams, self._model_.layout.names
        one = streams[0].component if len(streams) == 1 else gaussian_of(streams)
        return MixturePosterior(Mixture.single(self._model_.component_back(one)), names)


def _ended(task, estimator, data):
    """Tell callbacks that a task ended; whether they ask to stop."""
    return task.call_on_fit_task_end(
        estimator=estimator, reconstruction_attributes=dict, **data
    )
