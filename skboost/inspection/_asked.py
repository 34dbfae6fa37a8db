"""What questions about rows share: a fitted model with draws, and columns of rows."""

from contextlib import suppress
from copy import copy
from inspect import signature

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skboost._columns import declared_order, holds_labels
from skboost._sklearn import num_samples, rows_of
from skboost.posterior import as_generator, check_size


def pipeline_method(pipe, method, *args, **kwargs):
    """Call a method of a pipeline's last step, on rows that the others transform.

    A `Pipeline` of scikit-learn has ``predict`` and ``predict_proba`` of its last step
    and no other methods, such as ``predict_proba_interval`` and ``odds_ratios``. This
    function finds them there. Rows go through the steps before, and coefficients have
    the names that these give to columns of a DataFrame, also where their output is
    sparse and has none.

    Parameters
    ----------
    pipe : Pipeline, or a search over one
        Fitted. Of a search its ``best_estimator_`` is taken.
    method : str
        Name of a method of the last step. Where its first parameter is ``X``, rows are
        given as the pipeline takes them.
    *args, **kwargs
        What the method is given.

    Returns
    -------
    object
        What the method returns. The last step itself is not changed.

    Raises
    ------
    AttributeError
        If the last step has no such method.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.inspection import pipeline_method
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BoostedBayesianLogisticRegression(random_state=0)
    >>> pipe = make_pipeline(StandardScaler(), model).fit(X[:, :4], y)
    >>> pipeline_method(pipe, "predict_proba_interval", X[:6, :4], 0.9).shape
    (6, 2)
    """
    pipe = getattr(pipe, "best_estimator_", pipe)
    if not isinstance(pipe, Pipeline):
        raise TypeError(
            f"pipe must be a Pipeline or a search over one; got {type(pipe).__name__}, "
            "whose methods can be called themselves."
        )
    check_is_fitted(pipe)
    last, _ = last_step(pipe)
    call = getattr(last, method, None)
    if not callable(call):
        raise AttributeError(
            f"The last step of pipe has no method {method!r}: it is a "
            f"{type(last).__name__}."
        )
    if next(iter(signature(call).parameters), None) == "X":
        if args:
            args = (last_step(pipe, args[0])[1], *args[1:])
        elif "X" in kwargs:
            kwargs = kwargs | {"X": last_step(pipe, kwargs["X"])[1]}
    return call(*args, **kwargs)


def last_step(model, X=None):
    """What a search or a pipeline ends with, or the model, and rows as that takes them.

    Where only the steps before know names, the last step is a copy that has them.
    """
    model = getattr(model, "best_estimator_", model)
    if not isinstance(model, Pipeline):
        return model, X
    before, last = model[:-1], model[-1]
    if X is not None and len(before):
        X = before.transform(X)
    asks = hasattr(model, "feature_names_in_") and hasattr(last, "set_feature_names")
    if asks and not hasattr(last, "feature_names_in_"):
        # A step that names nothing leaves the model without names.
        with suppress(AttributeError):
            last = copy(last).set_feature_names(before.get_feature_names_out())
    return last, X


# --- a fitted model with draws


# Keywords with a value for each row, which may be the name of a column.
BY_ROW = ("offset", "exposure", "trials")


class Asked:
    """A fitted model, or a pipeline that ends with one, and the same posterior draws
    for all."""

    def __init__(self, model, n, random_state, keywords, reported=True):
        self.model = getattr(model, "best_estimator_", model)
        piped = isinstance(self.model, Pipeline)
        if piped:
            check_is_fitted(self.model)
        self.last, _ = last_step(self.model)
        if not hasattr(self.last, "_responses"):
            raise TypeError(
                "model must be a regression or a classifier of skboost.linear_model, "
                "or a pipeline or a search that ends with one; got "
                f"{type(self.last).__name__}."
            )
        check_is_fitted(self.last)
        self.before = self.model[:-1] if piped and len(self.model) > 1 else None
        known = keywords_of(self.last)
        for name in keywords:
            if name not in known:
                raise ValueError(
                    f"{name} is no keyword of {type(self.last).__name__}, which takes "
                    f"{sorted(known)}. Leave it out."
                )
        self.keywords = {k: one for k, one in keywords.items() if one is not None}
        self.rng = as_generator(random_state)
        self.drawn = self.last._drawn(check_size("n", n), self.rng, reported)

    def rows(self, X):
        """Rows as the last step takes them, and the keywords of these."""
        keywords = dict(self.keywords)
        if self.before is not None:
            for name in BY_ROW:
                if isinstance(keywords.get(name), str):
                    values = values_of(X, keywords[name], name)
                    keywords[name] = np.asarray(values, dtype=float)
            X = self.before.transform(X)
        return X, keywords

    def responses(self, X):
        """Blocks of rows, and their responses under draws."""
        X, keywords = self.rows(X)
        return self.last._responses(self.drawn, X, **keywords)

    def of_rows(self, some):
        """The same about some of the rows, with their keywords."""
        other = copy(self)
        other.keywords = {
            name: rows_of(value, some) if name in BY_ROW and np.ndim(value) else value
            for name, value in self.keywords.items()
        }
        return other

    def kind(self, X):
        """What an expected response is called."""
        first = [0] if num_samples(X) else []
        _, responses = next(iter(self.of_rows(first).responses(rows_of(X, first))))
        return responses.kind

    def coded(self, X, y):
        """Responses of rows as numbers or codes."""
        X, keywords = self.rows(X)
        _, trials = self.last._named_in(X, trials=keywords.get("trials"))
        return self.last._coded(X, y, **({} if trials is None else {"trials": trials}))

    @property
    def classes(self):
        """Labels of classes; None of numbers, and of successes among trials."""
        tried = "trials" in self.keywords | self.last._by_name
        return None if tried else getattr(self.last, "classes_", None)

    def averages(self, X, shares):
        """Expected responses (n_averages, n_draws[, n_classes]), averaged over rows
        by `shares`."""
        total = 0.0
        for rows, responses in self.responses(X):
            mean = responses.mean()
            part = shares[:, rows] @ mean.reshape(len(mean), -1)
            total = total + part.reshape(shares.shape[0], *mean.shape[1:])
        return total


def keywords_of(estimator):
    """Names of what the predictions of an estimator take beside rows."""
    methods = estimator.predict, estimator.log_predictive_density
    names = {name for one in methods for name in signature(one).parameters}
    return names - {"X", "y", "return_std"}


# --- columns of arrays and of data frames


def place_of(X, column, parameter):
    """Position of a column; a ValueError where there is none."""
    if sparse.issparse(X):
        raise ValueError(
            "X must be an array or a data frame where columns are named; got "
            f"{type(X).__name__}. Pass X.toarray(), or some rows of it."
        )
    names = list(getattr(X, "columns", ()))
    if names:
        if column in names:
            return names.index(column)
        known = f"It has {names}"
    elif isinstance(column, int | np.integer) and 0 <= column < np.shape(X)[1]:
        return int(column)
    else:
        known = f"Those of an array are 0 to {np.shape(X)[1] - 1}"
    raise ValueError(f"{parameter} must name columns of X; got {column!r}. {known}.")


def values_of(X, column, parameter):
    """A column of rows, an array or a series."""
    place = place_of(X, column, parameter)
    if hasattr(X, "columns"):
        return X[column]
    return np.asarray(X)[:, place]


def levels_of(X, column, parameter):
    """Levels of a column of labels, in their order; None of a column of numbers."""
    place = place_of(X, column, parameter)
    if not holds_labels(X if hasattr(X, "columns") else np.asarray(X), place):
        return None
    declared = declared_order(X, place)
    if declared is not None:
        return list(declared)
    return np.unique(np.asarray(values_of(X, column, parameter), dtype=str)).tolist()


def with_values(X, column, values):
    """Rows with other values in a column: one for each row, or one for all."""
    if hasattr(X, "columns"):
        old = X[column]
        if np.ndim(values) == 0:
            values = [values] * len(X)
        declared = declared_order(X, list(X.columns).index(column)) is not None
        if hasattr(X, "iloc"):
            new = type(old)(values, index=X.index)
            new = new.astype(old.dtype) if declared else new
            return X.assign(**{column: new})
        # Of polars.
        new = type(old)(column, list(values))
        return X.with_columns(new.cast(old.dtype) if declared else new)
    X = np.array(X)
    if X.dtype.kind in "iub":
        X = X.astype(float)
    X[:, column] = values
    return X


def groups_of(by, X, sample_weight):
    """Labels of groups of rows, and the shares (n_groups, n_rows) of rows in each."""
    n = num_samples(X)
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    got = f"shape {weight.shape}" if weight.shape != (n,) else ""
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if got or bad.size:
        raise ValueError(
            "sample_weight must hold one finite number from 0 on for each row of X, "
            f"({n},); got {got or f'{weight[bad[0]]} in row {bad[0]}'}."
        )
    if by is None:
        labels, codes = [None], np.zeros(n, dtype=int)
    else:
        named = isinstance(by, str | int | np.integer)
        values = np.asarray(values_of(X, by, "by") if named else by)
        if values.shape != (n,):
            raise ValueError(
                "by must be a column of X, or hold one label for each row, "
                f"shape {(n,)}; got shape {values.shape}."
            )
        labels, codes = np.unique(values, return_inverse=True)
    total = np.bincount(codes, weight)
    if not (total > 0).all():
        raise ValueError("sample_weight must be positive in some row of every group.")
    # As many groups as rows are legal.
    share = weight / total[codes]
    places = codes, np.arange(n)
    return list(labels), sparse.csc_array((share, places), (len(labels), n))
