"""What rows come with beside X and y: trials of counts, offsets, columns by name."""

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, column_or_1d

from skboost._columns import check_responses
from skboost._row_blocks import RowBlocks
from skboost._sklearn import check_sample_weight, num_samples, rows_of
from skboost.fitting import warn_where_called
from skboost.linear_model._methods import checked_numbers
from skboost.linear_model._sources import check_labels
from skboost.targets import validate_offset, with_exposure


def binomial_rows(X, y, trials, sample_weight=None, offset=None):
    """Rows, labels, weights and offsets of successes and failures in counted trials.

    Every row stands twice: with label 1 and the number of successes as its weight, and
    with label 0 and that of failures. Without `trials` all is as it came.
    """
    if trials is None:
        return X, y, sample_weight, offset
    if isinstance(X, RowBlocks) or hasattr(X, "dask") or y is None:
        raise ValueError(
            "trials needs X as an array or a data frame, and y, the number of "
            f"successes of every row; got X as a {type(X).__name__}. Pass rows of "
            "single trials with sample_weight instead."
        )
    failures, successes = counted_classes(X, y, trials)
    weight = check_sample_weight(sample_weight, X, dtype=np.float64)
    both = np.tile(np.arange(len(failures)), 2)
    labels = np.repeat([0, 1], len(failures))
    if offset is not None:
        offset = validate_offset(offset, len(failures))[both]
    weight = weight[both] * np.concatenate([failures, successes])
    return rows_of(X, both), labels, weight, offset


def counted_classes(X, y, trials, classes=(0, 1)):
    """Failures and successes of every row; of more than two classes a ValueError."""
    if len(classes) > 2:
        raise ValueError(
            f"trials must be None for {len(classes)} classes; got some. Counts of "
            "successes and failures are of two."
        )
    successes, trials = _whole("y", y), checked_trials(X, trials)
    check_consistent_length(X, successes)
    strange = np.flatnonzero(successes > trials)
    if strange.size:
        row = strange[0]
        raise ValueError(
            "y must not exceed trials, of which it counts the successes; got "
            f"{successes[row]:g} of {trials[row]:g} in row {row}."
        )
    return trials - successes, successes


def checked_trials(X, trials):
    """Numbers of trials of every row, (n,); a string is the name of a column of X."""
    (trials,) = of_columns(X, trials=trials)
    if np.ndim(trials) == 0:
        trials = np.full(num_samples(X), trials)
    trials = _whole("trials", trials)
    check_consistent_length(X, trials)
    return trials


def _whole(name, values):
    """Counts as floats, (n,); a ValueError for what is none."""
    check_responses(values, name, "Convert them.")
    values = column_or_1d(values, dtype=np.float64)
    # A proportion times its trials is a whole number but for rounding.
    whole = np.rint(values)
    with np.errstate(invalid="ignore"):
        good = (whole >= 0) & (np.abs(values - whole) <= 1e-9 * np.maximum(whole, 1))
    if not good.all():
        raise ValueError(
            f"{name} must hold whole numbers from 0 on where trials are given; got "
            f"{values[~good][0]:g}. Multiply proportions by their trials."
        )
    return whole


def score_of_trials(self, X, y, sample_weight=None, trials=None, offset=None):
    """Accuracy: the share of rows, or of trials, whose class is the predicted one.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Labels, or the number of successes among `trials`.
    sample_weight : array-like of shape (n_samples,), default=None
    trials : int, array-like of shape (n_samples,) or str, default=None
    offset : array-like of shape (n_samples,), default=None
        As in `fit`, which may have named columns: those of `X` are meant without any.

    Returns
    -------
    float
    """
    X, trials, offset = self._named_in(X, trials=trials, offset=offset)
    X, y, sample_weight, offset = binomial_rows(X, y, trials, sample_weight, offset)
    predicted = self.predict(X, offset=offset)
    check_labels(np.asarray(y))
    return accuracy_score(y, predicted, sample_weight=sample_weight)


def of_columns(X, **keywords):
    """Keywords for each row; a text is the name of a column of X, a data frame."""
    for name, value in keywords.items():
        if isinstance(value, str):
            if value not in getattr(X, "columns", ()):
                raise ValueError(
                    f"{name} must be numbers, or the name of a column where X is a "
                    f"data frame; got {value!r}, which is none."
                )
            keywords[name] = np.asarray(X[value])
    return [*keywords.values()]


def without(X, names, kept=()):
    """Rows without the columns of some names, but for those that are kept."""
    out = {name for name in names if name not in kept}
    if not out.intersection(getattr(X, "columns", ())):
        return X
    return X[[name for name in dict.fromkeys(X.columns) if name not in out]]


class NewRows:
    """What a formula makes of new rows, and keywords that the fit had by name."""

    # What a formula makes of data frames, and the columns that keywords of fit named.
    _design = None
    _by_name = {}

    def _made(self, X, wanted=None):
        """Columns that the formula makes; without one those of no keyword."""
        if self._design is None:
            return self._less(X, self._by_name.values())
        return self._design.frame(X, wanted)

    def _less(self, X, names):
        """Rows without what only keywords name; a formula says itself what counts."""
        known = getattr(self, "feature_names_in_", ())
        return X if self._design is not None else without(X, names, known)

    def _named_in(self, X, **keywords):
        """Rows without columns that keywords name, and these as arrays, by the names
        that the fit had where there are none.
        """
        held = getattr(X, "columns", ())
        for name, column in self._by_name.items():
            if name in keywords and keywords[name] is None and column in held:
                keywords[name] = column
        names = [one for one in keywords.values() if isinstance(one, str)]
        return [self._less(X, names), *of_columns(X, **keywords)]

    def _found(self, X, **keywords):
        """The same; offsets have those that the formula has."""
        rest, offset, *more = self._named_in(X, **keywords)
        own = None if self._design is None else self._design.offset_of(X)
        if own is not None and offset is not None:
            own = own + validate_offset(offset, len(own))
        return [rest, offset if own is None else own, *more]


# --- offsets: what is added to linear predictors


def checked_offset(offset, exposure, n_rows):
    """Offset and logarithm of the exposure together; None where there is none."""
    offset = None if offset is None else validate_offset(offset, n_rows)
    return with_exposure(offset, exposure, n_rows)


def less_offset(estimator, X, y, offset):
    """Responses less the offsets of their rows, as they come without any."""
    if offset is None:
        return y
    if isinstance(X, RowBlocks):
        raise ValueError(
            "offset must be None where X is RowBlocks: yield responses less their "
            "offsets."
        )
    if hasattr(X, "dask"):
        return y - offset
    y = checked_numbers(estimator, X, y)
    return y - validate_offset(offset, len(y))


def warn_of_missing_offset(exposed, offset, counts=False):
    """Say that rows without an offset are asked of a fit that had some."""
    if offset is None and exposed:
        told, zero, name = _COUNTS if counts else _OTHERS
        request = f"request({name.split('=')[0]}=True)"
        warn_where_called(
            f"The fit was told {told}; these have none, and are taken to have {zero}. "
            f"Pass {name}; in pipelines and searches by the method's request, such as "
            f"set_predict_{request} and set_score_{request}. cross_val_predict passes "
            "none on" + (": multiply its means by the exposures." if counts else "."),
            UserWarning,
        )


_COUNTS = (
    "the exposure of its counts", "an exposure of one each", "exposure= or offset="
)  # fmt: skip
_OTHERS = "the offset of its rows", "an offset of zero", "offset="
