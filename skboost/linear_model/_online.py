"""What online estimators share: parameters, streams, and batches taken in."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost._base import FittingEstimator, callback_data
from skboost._report import warn_where_called
from skboost._sklearn import InstanceOf, Interval, StrOptions
from skboost.families import Component, Gaussian
from skboost.linear_model._methods import POSITIVE
from skboost.linear_model._names import NamedFeatures, distinct
from skboost.linear_model._predictive import with_ones
from skboost.linear_model._sources import row_weights
from skboost.online import (
    ONLINE_METHODS,
    ConjugateStream,
    DiagonalStream,
    FullStream,
    Rule,
)
from skboost.posterior import Mixture, MixturePosterior
from skboost.serving import GaussianPart
from skboost.svi import LearningRate
from skboost.targets import validate_scale

_SINGULAR = (
    "The precision of the coefficients is singular in floating point: columns of X lie "
    "too far from zero, or are too large. Centre and scale them. What was learned "
    "before this batch is kept."
)
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


class OnlineEstimator(NamedFeatures, FittingEstimator):
    """Estimators whose posterior is one stream for each output.

    Subclasses give ``_loss()``, the loss of a row, and ``_responses(y, reset)``, the
    checked responses of rows. Those with ``_n_outputs`` outputs give ``_outputs(y)``,
    one vector of responses for each, and ``_losses``.
    """

    # --- batches in

    def _fit(self, X, y, sample_weight):
        """Passes over the rows, from the prior."""
        with self._keeping_old_fit():
            data = callback_data(X, y, sample_weight)
            rows, y, weight = self._validated(X, y, sample_weight, reset=True)
            context = self._init_callback_context(max_subtasks=self.n_passes)
            context.call_on_fit_task_begin(estimator=self, **data)
            rng = check_random_state(self.random_state)
            self._begin()
            self._check_first_rows(rows)
            for _ in range(self.n_passes):
                order = rng.permutation(len(y)) if self.shuffle else slice(None)
                if self._pass(context, data, rows[order], y[order], weight[order]):
                    break
            self._check_precision()
            _ended(context, self, data)
            return self

    def _pass(self, context, data, X, y, weight):
        """One pass over the rows, in parts that callbacks hear of; True to stop."""
        size = _PART if self.batch_size is None else self.batch_size
        # Whole batches, so that parts change nothing.
        size *= max(1, _PART // size)
        starts = range(0, len(y), size)
        one_pass = context.subcontext(task_name="pass", max_subtasks=len(starts))
        one_pass.call_on_fit_task_begin(estimator=self, **data)
        stop = False
        for begin in starts:
            part, task = slice(begin, begin + size), one_pass.subcontext("rows")
            task.call_on_fit_task_begin(estimator=self, **data)
            self._take_in(X[part], y[part], weight[part])
            stop = _ended(task, self, data)
            if stop:
                break
        return _ended(one_pass, self, data) or stop

    def _partial_fit(self, X, y, sample_weight, **validated):
        """One more batch."""
        with self._keeping_old_fit():
            first = "_streams" not in vars(self)
            rows, y, weight = self._validated(X, y, sample_weight, first, **validated)
            if first:
                self._begin()
                self._check_first_rows(rows)
            self._go_on()
            self._take_in(rows, y, weight)
            # A row at a time, it would take longer than the update.
            if first or len(y) > self.n_features_in_:
                self._check_precision()
            return self

    def _validated(self, X, y, sample_weight, reset, **labels):
        """Rows, responses and weights of a batch; rows of no weight are left out."""
        if y is not None:
            self._check_numbers("y", y)
        X, y = validate_data(
            self, X, y, reset=reset, accept_sparse="csr", dtype=np.float64,
            order="C", ensure_all_finite=False, y_numeric=self._y_numeric,
        )  # fmt: skip
        self._check_numbers("X", X)
        y = self._responses(y, reset, **labels)
        weight = row_weights(X, sample_weight)
        if sparse.issparse(X) and not X.has_canonical_format:
            # The arrays may be the caller's.
            X = X.copy()
            X.sum_duplicates()
        used = weight > 0.0
        return (X, y, weight) if used.all() else (X[used], y[used], weight[used])

    def _check_numbers(self, name, values):
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

    def _begin(self):
        """The prior, as streams that have seen nothing."""
        self._forget_names()
        scale = validate_scale(self.prior_scale, self.n_features_in_)
        if self.fit_intercept:
            wide = self.intercept_scale
            if isinstance(wide, str):
                wide = ONLINE_METHODS[self.method].wide_scale
            scale = np.append(scale, wide)
        self._fixed = self._fixed_now()
        make = self._stream_class()
        self._streams = tuple(
            make.begin(self._rule(), scale, *self._prior_of_noise())
            for _ in range(self._n_outputs)
        )
        self.n_seen_, self.cumulative_loss_ = 0, 0.0

    # What the prior may say of a row before steps of one row each overshoot.
    _widest_spread = np.inf

    def _check_first_rows(self, X):
        """Refuse columns that overflow; say where the prior makes some too heavy."""
        if not X.shape[0]:
            return
        scale = validate_scale(self.prior_scale, self.n_features_in_)
        with np.errstate(over="ignore"):
            squares = X.multiply(X) if sparse.issparse(X) else X * X
            shares = np.ravel(squares.mean(axis=0)) * scale**2
            spread = np.sqrt(shares.sum())
        names = self._feature_names()
        if not np.isfinite(spread):
            raise ValueError(
                f"X must have columns whose squares are finite; those of "
                f"{names[np.argmax(shares)]!r} overflow. Divide them by their largest "
                "value, for example with sklearn.preprocessing.MaxAbsScaler."
            )
        if spread <= self._widest_spread:
            return
        most = [str(names[j]) for j in np.argsort(-shares)[:3]]
        warn_where_called(
            f"prior_scale={self.prior_scale!r} gives the linear predictor of the first "
            f"{X.shape[0]} rows a standard deviation of {spread:.3g} before anything "
            f"is learned; above {self._widest_spread:g}, updates overshoot and "
            f"predictions can be far off. The columns {most} contribute most. "
            "Standardise X, for example with sklearn.preprocessing.StandardScaler; "
            "where it is, lower prior_scale.",
            UserWarning,
        )

    def _go_on(self):
        """What may change between batches is taken from the parameters as they are."""
        now = self._fixed_now()
        if now != self._fixed:
            raise ValueError(
                f"partial_fit goes on with the same model; got {now} after "
                f"{self._fixed}. Begin with a clone."
            )
        rule = self._rule()
        self._streams = tuple(replace(s, rule=rule) for s in self._streams)

    def _fixed_now(self):
        names = ("method", "covariance", "fit_intercept", *self._fixed_names)
        return {name: vars(self)[name] for name in names}

    # What else cannot change between batches.
    _fixed_names = ()
    _n_outputs = 1
    _y_numeric = False

    def _prior_of_noise(self):
        return ()

    def _outputs(self, y):
        return [y]

    def _losses(self, records, y):
        """Loss of every row of a batch, before its update."""
        return self._streams[0].losses(records[0], y)

    def _rule(self):
        method, loss = ONLINE_METHODS[self.method](), self._loss()
        rate, beta = self.learning_rate, self.beta
        if isinstance(rate, str):
            rate = method.default_rate(loss.noise_scale**2)
        if isinstance(beta, str):
            # On streams of data, independent coordinates overshoot with more.
            beta = {"diag": 0.1, "full": 0.5}[self._covariance()]
        if rate == np.inf and not method.accumulates:
            raise ValueError(
                f"method={self.method!r} needs a finite learning_rate; got inf. Only "
                "method='ngvi' has that limit."
            )
        return Rule(method, loss, rate, beta, self.forgetting)

    def _covariance(self):
        """The covariance that the parameters ask for, "diag" or "full"."""
        has, chosen = ONLINE_METHODS[self.method].covariances, self.covariance
        if chosen == "auto":
            # The same limit as that of boosted estimators.
            chosen = "full" if self.n_features_in_ <= 300 else "diag"
            return chosen if chosen in has else has[0]
        if chosen not in has:
            raise ValueError(
                f"covariance={self.covariance!r} needs a method that has it; got "
                f"method={self.method!r}, which has {list(has)}. Use "
                "covariance='auto'."
            )
        return chosen

    def _stream_class(self):
        return {"diag": DiagonalStream, "full": FullStream}[self._covariance()]

    def _take_in(self, X, y, weight):
        # Between two calls Ctrl-C is heard.
        size = _PART if self.batch_size is None else self.batch_size
        for begin in range(0, len(y), size):
            part = slice(begin, begin + size)
            rows = with_ones(X[part]) if self._has_intercept else X[part]
            self._absorb(rows, y[part], weight[part])

    def _check_precision(self):
        """Refuse a posterior that floating point can not hold."""
        if not all(map(_sound, self._streams)):
            raise ValueError(_SINGULAR)

    def _absorb(self, X, y, weight):
        streams, records = [], []
        for stream, response in zip(self._streams, self._outputs(y), strict=True):
            absorb = stream.absorb if self.batch_size is None else stream.absorb_batch
            try:
                stream, record = absorb(X, response, weight)
            except np.linalg.LinAlgError as error:
                raise ValueError(_SINGULAR) from error
            streams.append(stream)
            records.append(record)
        self._streams = tuple(streams)
        self.n_seen_ += len(y)
        losses = weight * self._losses(records, y)
        # One after another, so that it is the same however rows come in batches.
        self.cumulative_loss_ = float(np.cumsum([self.cumulative_loss_, *losses])[-1])

    # --- what is known

    @property
    def _has_intercept(self):
        return self._fixed["fit_intercept"]

    @property
    def _fitted_streams(self):
        check_is_fitted(self)
        return self._streams

    def _shaped(self, vectors):
        """Coefficients (n_outputs, n_features) and intercepts (n_outputs,)."""
        values = np.stack(vectors)
        coef = values[:, : self.n_features_in_]
        return coef, values[:, -1] if self._has_intercept else np.zeros(len(values))

    def _averages(self):
        averages = [stream.average for stream in self._fitted_streams]
        if any(average is None for average in averages):
            raise AttributeError(
                "averaged_coef_ is not kept for sparse rows where coefficients decay "
                "between the rows that touch them: learning_rate=inf with "
                "forgetting=1 keeps it, and so do dense rows."
            )
        return self._shaped(averages)

    @property
    def coef_(self):
        """Posterior means."""
        return self._shaped([stream.mean for stream in self._fitted_streams])[0]

    @property
    def intercept_(self):
        """Posterior means."""
        return self._shaped([stream.mean for stream in self._fitted_streams])[1]

    @property
    def coef_std_(self):
        """Posterior standard deviations, in the shape of `coef_`."""
        return self._shaped([stream.std for stream in self._fitted_streams])[0]

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
        means = np.concatenate([stream.mean for stream in self._fitted_streams])
        covariances = [stream.covariance for stream in self._streams]
        if covariances[0].ndim == 1:
            family, covariance = Gaussian("diag"), np.concatenate(covariances)
        else:
            family = Gaussian("full")
            covariance = sparse.block_diag(covariances).toarray()
        component = Component(family, family.from_moments(means, covariance))
        return MixturePosterior(Mixture.single(component), self._names())

    def _names(self):
        names = self._feature_names()
        names = [*names, "intercept"] if self._has_intercept else names
        if self._n_outputs > 1:
            names = [f"{label}: {name}" for label in self.classes_ for name in names]
        return distinct(names)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _ended(task, estimator, data):
    """Tell callbacks that a task ended; whether they ask to stop."""
    return task.call_on_fit_task_end(
        estimator=estimator, reconstruction_attributes=dict, **data
    )


def _sound(stream):
    """Whether a stream has finite means, positive variances and a Cholesky factor."""
    mean, covariance = stream.mean, stream.covariance
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
        return False
    full = covariance.ndim == 2
    positive = variances = np.diag(covariance) if full else covariance
    if isinstance(stream, ConjugateStream):
        positive = np.concatenate([variances, stream.noise])
    if not (np.isfinite(positive).all() and positive.min() > 0.0):
        return False
    if not full:
        return True
    std = np.sqrt(variances)
    dim = len(std)
    try:
        # Of differences of large squares nothing may be left but rounding: eigenvalues
        # of a correlation matrix up to this times its size.
        rounding = 1e-14 * dim * np.eye(dim)
        np.linalg.cholesky(covariance / np.outer(std, std) - rounding)
    except np.linalg.LinAlgError:
        return False
    return True


def gaussian_part(stream):
    """The coefficients of a stream, as plain predictions see them."""
    mean, covariance = stream.mean, stream.covariance
    if covariance.ndim == 1:
        return GaussianPart(mean, covariance)
    return GaussianPart(mean, factor=np.linalg.cholesky(covariance))
