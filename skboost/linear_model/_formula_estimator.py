"""Boosted regressions: rows by formula, some with missing values, and one fit."""

import re
from inspect import signature
from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length

from skboost._columns import column_of, missing_in
from skboost._row_blocks import RowBlocks
from skboost._sklearn import num_samples, rows_of
from skboost.fitting import BoostedEstimator, FromFit, callback_data
from skboost.linear_model._formula import (
    Design,
    check_columns,
    check_values,
    response_of,
    right_of,
    sides_of,
)
from skboost.linear_model._formula_reader import columns_of, refused
from skboost.linear_model._model import PARAMETERS_ELSEWHERE
from skboost.linear_model._row_keywords import NewRows, of_columns, without


class FormulaEstimator(NewRows, BoostedEstimator):
    """What boosted regressions, with parameters `formula` and `missing`, share.

    Subclasses have ``_learn(rows, data, again)``: rows are a list of X, y and what else
    `fit` takes for each of them, `data` what callbacks are given.
    """

    _elsewhere = PARAMETERS_ELSEWHERE
    orbiting_ = FromFit("report.orbiting")

    # Parameters that the formula says, with the values that say nothing.
    _said_by_formula = {"fit_intercept": True}
    _takes_groups = False

    @classmethod
    def from_formula(cls, formula, data, **parameters):
        """The model of a formula, fitted to a data frame.

        ``cls(formula=formula, **parameters).fit(data, **keywords)``.

        Parameters
        ----------
        formula : str
            Such as ``"reaction ~ days"``, with groups ``"reaction ~ days + (days |
            subject)"``; see `formula` of the class. It runs no code. Of products such
            as ``recipe * temp`` priors that follow the data are said of what the
            columns in them leave, the same wherever ``temp`` has its zero.
        data : DataFrame of shape (n_samples, n_columns)
            Of pandas or polars, with the columns that the formula names.
        **parameters
            Of the class, and keywords of its ``fit`` such as ``sample_weight``.

        Returns
        -------
        estimator
            Its ``predict`` takes data frames with these columns.

        Raises
        ------
        ValueError
            For a formula that can not be read, and for columns that are missing.
        """
        known = signature(cls.fit).parameters
        keywords = {name: parameters.pop(name) for name in known & parameters.keys()}
        return cls(formula=formula, **parameters).fit(data, **keywords)

    def _fit_rows(self, X, y, again=False, named=None, **keywords):
        """The estimator after a fit of rows and their `keywords`; with `again` after
        one that goes on, of classes that were `named`.
        """
        with self._keeping_old_fit():
            data = callback_data(X, y, **keywords)
            try:
                rows = self._read(X, y, again, **keywords)
                return self._learn(rows, data, again, named)
            except ValueError as error:
                self._advise(error, X, [y, *keywords.values()])
                raise

    def _advise(self, error, X, arrays):
        """Say in an error about missing values what leaves their rows out."""
        if self.missing == "drop" or not re.search("nan|missing", str(error), re.I):
            return
        if _in_memory(X) and any(one.any() for one in _gaps(X, arrays)):
            advice = "missing='drop' leaves out rows that lack a value."
            error.args = (f"{error}\n{advice}",)

    def _columns_said(self, named):
        """Columns that parameters name, which stay features or groups where keywords
        `named` them, too; a ValueError for positions, which these would move.
        """
        found = []
        for parameter in _NAMING:
            value = getattr(self, parameter, None)
            # Else a text is the name of a prior.
            if isinstance(value, dict) or parameter in ("groups", "nested", "fixed"):
                found += _listed(value)
            places = [one for one in found if isinstance(one, Integral)]
            if places := [one for one in places if not isinstance(one, bool)]:
                (keyword, column), *_ = named.items()
                raise ValueError(
                    f"{parameter} must have names of columns, no positions, where "
                    f"{keyword}={column!r} takes a column out of X; got {places[0]}. "
                    f"Name columns, or pass {keyword}=X[{column!r}]."
                )
        return found

    @property
    def _said(self):
        """What says which columns are what: the formula, or the parameters."""
        return self._design or self

    def _read(self, X, y, again=False, **keywords):
        """X, y and keywords of rows as arrays: by the formula, and without rows that
        have missing values where these are dropped.

        With `again` categories and knots are those of the fit so far.
        """
        again = again and "_model_" in vars(self)
        named = {key: one for key, one in keywords.items() if isinstance(one, str)}
        if again:
            X, *values = self._named_in(X, **keywords)
            X = self._less(X, self._by_name.values())
        else:
            self._design, self._by_name = None, named
            values = of_columns(X, **keywords)
            if named and self.formula is None:
                X = without(X, named.values(), self._columns_said(named))
        values, parts = dict(zip(keywords, values, strict=True)), None
        if self.formula is not None:
            for name, value in self._said_by_formula.items():
                if getattr(self, name) is not value:
                    raise ValueError(
                        f"{name} must be left out where formula is given, which says "
                        f"it; got {name}={getattr(self, name)!r}, "
                        f"formula={self.formula!r}."
                    )
            parts = (
                self.formula,
                sides_of(self.formula, X, self._takes_groups, named.values()),
            )
        X, y, values, n_dropped = self._complete(X, y, values, parts)
        if not again:
            self.n_dropped_ = n_dropped
        if parts is not None:
            X, y = self._designed(X, y, values, *parts)
        return [X, y, *values.values()]

    def _designed(self, X, y, values, formula, parts):
        """Columns and responses that a formula makes; keywords are changed in place."""
        if y is None:
            y, trials = response_of(formula, parts, X)
            if trials is not None and values.get("trials", 0) is not None:
                raise refused(
                    formula,
                    "cbind(successes, failures) is for logistic regressions, without "
                    "trials beside it",
                )
            values |= {} if trials is None else {"trials": trials}
        if self._design is None:
            correlated = getattr(self, "correlated", True)
            self._design = Design.of(formula, parts, X, correlated)
        if not (self._design.fit_intercept or hasattr(self, "fit_intercept")):
            raise refused(formula, "thresholds take the place of the intercept: no 0 +")
        if self._design.offsets and "offset" not in values:
            raise refused(formula, f"{type(self).__name__} has no offset")
        if self._design.offsets:
            _, values["offset"] = self._found(X, offset=values["offset"])
        return self._design.frame(X), y

    def _complete(self, X, y, values, parts):
        """Rows without missing values, and how many others there were."""
        if self.missing == "raise" and parts is None:
            return X, y, values, 0
        if not _in_memory(X):
            raise ValueError(
                "missing must be 'raise' where X is no array or data frame; got "
                f"missing={self.missing!r} for a {type(X).__name__}."
            )
        used = None
        if parts is not None:
            left = [parts[1].left] if parts[1].left and y is None else []
            used = right_of(parts[1]) + columns_of(*left)
            check_columns(used, X, self.formula)
            if self.missing == "raise":
                check_values(used, X, self.formula)
                return X, y, values, 0
        arrays = [one for one in (y, *values.values()) if np.ndim(one)]
        check_consistent_length(X, *arrays)
        missing = np.zeros(num_samples(X), dtype=bool)
        for one in _gaps(X, arrays, used):
            missing |= one.reshape(len(missing), -1).any(axis=1)
        kept = np.flatnonzero(~missing)
        if not len(kept):
            raise ValueError(
                "missing='drop' must leave rows; got a missing value in every row "
                f"(n_rows={len(missing)}). Leave out columns, or impute."
            )
        if missing.any():
            X, y = rows_of(X, kept), y if y is None else rows_of(y, kept)
            values = {
                name: rows_of(one, kept) if np.ndim(one) else one
                for name, one in values.items()
            }
        return X, y, values, int(missing.sum())


# Parameters that name columns of X.
_NAMING = (
    "groups", "nested", "fixed", "slopes", "group_intercepts", "correlated",
    "scale_prior", "prior",
)  # fmt: skip


def _listed(value):
    """Whatever stands in lists within a parameter, keys of dicts among it."""
    value = value.items() if isinstance(value, dict) else value
    if isinstance(value, str) or not np.iterable(value):
        return [value]
    return [one for part in value for one in _listed(part)]


def _in_memory(X):
    """Whether rows are those of an array, a list or a data frame."""
    return not (isinstance(X, RowBlocks) or sparse.issparse(X) or hasattr(X, "dask"))


def _gaps(X, arrays, used=None):
    """Which entries are missing, of every column that is used and of arrays."""
    if not hasattr(X, "columns"):
        # Numbers beside strings stay numbers.
        X = np.asarray(X, dtype=object if isinstance(X, list | tuple) else None)
    for k in range(np.shape(X)[1]) if np.ndim(X) == 2 else ():
        if used is None or X.columns[k] in used:
            yield missing_in(column_of(X, k))
    for one in arrays:
        if np.ndim(one):
            yield missing_in(np.asarray(one))
