"""What online estimators share: parameters, streams, and batches taken in."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost._base import FittingEstimator, callback_data
from skboost._report import warn_where_called
from skboost._sklearn import InstanceOf, Interval, StrOptions, check_sample_weight
from skboost.families import Gaussian
from skboost.linear_model._names import NamedFeatures, distinct
from skboost.linear_model._predictive import with_ones
from skboost.online import (
    ONLINE_METHODS,
    ConjugateStream,
    DiagonalStream,
    FullStream,
    Rule,
)
from skboost.posterior import MixturePosterior
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
_POSITIVE = Interval(Real, 0, None, closed="neither")

ONLINE_CONSTRAINTS = {
    "covariance": [StrOptions({"auto", "diag", "full"})],
    "learning_rate": [StrOptions({"auto"}), Interval(Real, 0, np.inf, closed="right"),
                      InstanceOf(LearningRate, "skboost.strategies")],
    "beta": [StrOptions({"auto"}), _POSITIVE],
    "forgetting": [Interval(Real, 0, 1, closed="right")],
    "prior_scale": ["array-like", _POSITIVE],
    "fit_intercept": ["boolean"],
    "intercept_scale": [_POSITIVE],
    "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    "n_passes": [Interval(Integral, 1, None, closed="left")],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
}  # fmt: skip


class OnlineEstimator(NamedFeatures, FittingEstimator):
    """Estimators whose posterior is one stream for each output.

    Subclasses give ``_loss()``, the loss of a row, and ``_outputs(y)``, one vector of
    responses for each output.
    """

    # --- batches in

    def _fit(self, X, y, sample_weight, **validated):
        """Passes over the rows, from the prior."""
        with self._keeping_old_fit():
            data = callback_data(X, y, sample_weight)
            rows, y, weight = self._validated(X, y, sample_weight, True, **validated)
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
        weight = check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
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
            for _ in range(self._n_streams)
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
    _n_streams = 1
    _y_numeric = False

    def _prior_of_noise(self):
        return ()

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
            self._absorb(self._design(X[part]), y[part], weight[part])

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

    def _design(self, X):
        """Rows with a column of ones where there is an intercept."""
        return with_ones(X) if self._has_intercept else X

    # --- what is known

    @property
    def _has_intercept(self):
        return self._fixed["fit_intercept"]

    def _coefficients(self, values):
        """Coefficients (n_outputs, n_features) and intercepts (n_outputs,)."""
        values = np.stack(values)
        coef = values[:, : self.n_features_in_]
        return coef, values[:, -1] if self._has_intercept else np.zeros(len(values))

    def _means(self):
        check_is_fitted(self)
        return self._coefficients([stream.mean for stream in self._streams])

    def _averages(self):
        check_is_fitted(self)
        averages = [stream.average for stream in self._streams]
        if any(average is None for average in averages):
            raise AttributeError(
                "averaged_coef_ is not kept for sparse rows where coefficients decay "
                "between the rows that touch them: learning_rate=inf with "
                "forgetting=1 keeps it, and so do dense rows."
            )
        return self._coefficients(averages)

    def _stds(self):
        check_is_fitted(self)
        return self._coefficients([np.sqrt(variances(s)) for s in self._streams])

    def _shaped(self, values):
        """What is known of each output, as users meet it."""
        return values

    @property
    def coef_(self):
        """Posterior means."""
        return self._shaped(self._means()[0])

    @property
    def intercept_(self):
        """Posterior means."""
        return self._shaped(self._means()[1])

    @property
    def coef_std_(self):
        """Posterior standard deviations, in the shape of `coef_`."""
        return self._shaped(self._stds()[0])

    @property
    def averaged_coef_(self):
        """Average of the coefficients that predicted each row."""
        return self._shaped(self._averages()[0])

    @property
    def averaged_intercept_(self):
        """Average of the intercepts that predicted each row."""
        return self._shaped(self._averages()[1])

    @property
    def posterior_(self):
        """Of coefficients and intercept, a `MixturePosterior` of one component."""
        check_is_fitted(self)
        means = np.concatenate([stream.mean for stream in self._streams])
        covariance = joined([stream.covariance for stream in self._streams])
        family = Gaussian("diag" if covariance.ndim == 1 else "full")
        component = (family, family.from_moments(means, covariance))
        return MixturePosterior.from_components([component], [1.0], self._names())

    def _names(self):
        names = self._feature_names()
        names = [*names, "intercept"] if self._has_intercept else names
        if self._n_streams > 1:
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


def warn_of_few_rows(model):
    """Say that a stream begins with too few rows to infer its noise; the model."""
    n_rows, n_coefficients = model.n_seen_, len(model._streams[0].mean)
    if n_rows < n_coefficients:
        warn_where_called(
            f"The stream begins with {n_rows} rows for {n_coefficients} coefficients: "
            "until there are more rows than coefficients, noise_scale_ and predictive "
            "intervals are little more than their prior. Begin with more rows, or give "
            "noise_scale a number.",
            UserWarning,
        )
    return model


def variances(stream):
    """Of the coefficients, (dim,)."""
    covariance = stream.covariance
    return covariance if covariance.ndim == 1 else np.diag(covariance)


def _sound(stream):
    """Whether a stream has finite means, positive variances and a Cholesky factor."""
    mean, covariance = stream.mean, stream.covariance
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
        return False
    positive = variances(stream)
    if isinstance(stream, ConjugateStream):
        positive = np.concatenate([positive, stream.noise])
    if not (np.isfinite(positive).all() and positive.min() > 0.0):
        return False
    if covariance.ndim == 1:
        return True
    std = np.sqrt(np.diag(covariance))
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


def joined(covariances):
    """Variances or block-diagonal covariance of independent streams."""
    if covariances[0].ndim == 1:
        return np.concatenate(covariances)
    return sparse.block_diag(covariances).toarray()


def checked_noise_prior(given):
    """Shape and rate of the prior of the noise, an array (2,)."""
    try:
        prior = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        prior = np.empty(0)
    if prior.shape != (2,) or not (np.isfinite(prior).all() and prior.min() > 0.0):
        raise ValueError(
            f"noise_prior must be two positive numbers, shape and rate; got {given!r}."
        )
    return prior
