"""Methods that answer about rows, the same for models with groups and without.

They ask the estimator, by ``_asked(X, offset, ...)``, for what predicts and for the
rows as it takes them, and hand on keywords of which they know nothing.
"""

from functools import wraps
from inspect import Parameter, cleandoc, signature

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._parameters import known_parameters
from skboost.linear_model._drawn import linear_predictors
from skboost.linear_model._methods import (
    checked_rows,
    coefficient_ends,
    drawn_coordinates,
    drawn_parameters,
)
from skboost.linear_model._preprocessors import affine_map, steps_before
from skboost.linear_model._row_keywords import (
    NewRows,
    checked_offset,
    warn_of_missing_offset,
)
from skboost.serving import onnx_model, write_module

_OF_GROUPS = """
population : bool, default=False
    False uses the effects of the row's groups; those that `fit` has not seen have the
    population's spread. True is a new group for every row.
groups : {"all", "none"} or list of str, default="all"
    Factors whose effects count. Those of others are zero, and X needs no columns of
    them."""
_EXPOSURE = """
exposure
    As in `predict`."""


class Answers(NewRows):
    """What models of every kind of response share."""

    def export(self, path, preprocessor=None):
        """Write the fitted model as one Python file that needs NumPy only.

        The file predicts where skboost, scikit-learn and SciPy are not installed. It
        has `predict`, and `predict_proba` for classifiers, as functions of dense rows;
        regressors take `return_std`. Its arrays are inside, so its size is that of the
        posterior: several classes whose components are not Gaussian take 1024 draws.

        Parameters
        ----------
        path : str or os.PathLike
            Usually ends with ``.py``. An earlier file is replaced when the new one is
            complete.
        preprocessor : transformer, default=None
            The steps before the model, ``pipeline[:-1]``, where rows come as they were
            before these: `SimpleImputer`, `OneHotEncoder`, `OrdinalEncoder`,
            `TargetEncoder`, and scalers, projections and selections of columns, which
            are affine maps of numbers, in any `Pipeline` and `ColumnTransformer`.
            Others are refused by name. Rows are arrays with the columns of the fit in
            its order, or DataFrames, whose columns are found by name; those of a
            `formula` are the ones that it makes, ``feature_names_in_``.

        Raises
        ------
        ValueError
            For labels and categories that are no strings, numbers or booleans, and for
            a preprocessor with other steps, or that does not give the model's columns.

        Notes
        -----
        The file runs as any Python module does: import only those that you wrote.
        """
        plain = self._plain_model(preprocessor)
        before = steps_before(preprocessor, self.n_features_in_)
        first = self if preprocessor is None else preprocessor
        names = getattr(first, "feature_names_in_", None)
        names = None if names is None else tuple(map(str, names))
        write_module(path, plain, type(self).__name__, before, names)

    def to_onnx(self, dtype="float64", preprocessor=None):
        """The fitted model as an ONNX graph (extra ``onnx``).

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float64"
            Of the input ``X`` of shape (n_samples, n_features). Arithmetic is in double
            precision in either case.
        preprocessor : transformer, default=None
            The steps before the model, ``pipeline[:-1]``: affine maps of numbers, such
            as scalers, projections and selections of columns. `export` takes more.

        Returns
        -------
        onnx.ModelProto
            Of a classifier with outputs ``label`` and ``probabilities``, of a linear
            regression with ``mean`` and ``std`` (noise included). Write it with
            ``onnx.save``. They agree with the estimator to 1e-8.

        Raises
        ------
        NotImplementedError
            For other models: counts, ordered classes, groups, those fitted with
            offsets, and components that are not Gaussian. `export` writes those.
        """
        plain = self._plain_model(preprocessor)
        if getattr(self._model_, "exposed", False):
            raise NotImplementedError(
                "to_onnx writes no models that were fitted with offsets; export does."
            )
        before = affine_map(preprocessor, self.n_features_in_)
        return onnx_model(plain, dtype, before, type(self).__name__)

    def _plain_model(self, preprocessor):
        """The plain model that predicts."""
        check_is_fitted(self)
        plain = getattr(self, "_forecast", self._predictive)().model
        if preprocessor is not None and hasattr(plain, "factors"):
            raise ValueError(
                "preprocessor must be None for models with groups, whose columns are "
                "not all numbers. Apply it before the call."
            )
        return plain

    def set_feature_names(self, names):
        """Name the coefficients of the posterior, until the next `fit`.

        For data without names of their own, such as those that a pipeline hands on:
        ``pipe[-1].set_feature_names(pipe[:-1].get_feature_names_out())``. Those of a
        DataFrame are known without.

        Parameters
        ----------
        names : array-like of str of shape (n_features,)

        Returns
        -------
        self
            `posterior_`, its tables and its pictures have the names.
        """
        check_is_fitted(self)
        values = np.asarray(names)
        if values.shape != (self.n_features_in_,):
            raise ValueError(
                "names must hold one name for each feature, "
                f"shape {(self.n_features_in_,)}; got shape {values.shape}. Pass the "
                "names of the columns of X, without the intercept."
            )
        # Online models make their posterior when they are asked for it.
        fit = getattr(self, "_fit", None)
        self._model_ = self._model_.renamed(tuple(map(str, values)))
        if fit is not None:
            self._fit = fit.renamed(self._model_.layout.names)
        return self

    def coef_interval(self, level=0.9):
        """Central credible intervals of the coefficients, of shape (n_features, 2).

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).
        """
        return coefficient_ends(self, level)[0]


class FlatAnswers:
    """What models of numbers and counts share that have no groups, but ``_model_`` and
    ``_fit``; subclasses have what all rows share, ``_last(further)``.
    """

    _counts = False

    def _predictive(self):
        """What answers about checked rows."""
        return self._model_.predictive(self._fit.mixture)

    def _asked(self, X, offset=None, exposure=None):
        """What answers about rows; these, checked, and their offsets or None."""
        check_is_fitted(self)
        X, offset, exposure = self._found(X, offset=offset, exposure=exposure)
        X = checked_rows(self, X)
        offset = checked_offset(offset, exposure, X.shape[0])
        warn_of_missing_offset(self._model_.exposed, offset, self._counts)
        return self._predictive(), (X, offset)

    def predict_latent(self, X):
        """Mean and standard deviation of the linear predictor, without any noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        mean, std : ndarray of shape (n_samples,)
        """
        X = checked_rows(self, X)
        return self._predictive().latent(X)

    def sample_posterior(self, n=1, random_state=None):
        """Draws of coefficients and intercept, and of what all rows share.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        coef : ndarray of shape (n, n_features)
        intercept : ndarray of shape (n,)
        noise_scale or dispersion : ndarray of shape (n,)
            Of counts only under ``likelihood="negative_binomial"``.
        """
        coef, intercept, further = drawn_parameters(self, n, random_state)
        last = self._last(further)
        return coef[:, 0], intercept[:, 0], *([] if last is None else [last])

    # --- responses under draws; see `skboost.linear_model._drawn`

    def _drawn(self, n, rng, reported=False):
        """Draws of coefficients with the intercept, and of what all rows share."""
        theta = drawn_coordinates(self, n, rng, reported)
        n_linear = theta.shape[1] - len(self._model_.layout.further)
        return theta[:, :n_linear], self._last(theta[:, n_linear:])

    def _responses(self, drawn, X, offset=None, exposure=None):
        _, (X, offset) = self._asked(X, offset, exposure)
        theta, last = drawn
        parts = linear_predictors(X, self._model_.layout.intercept, theta, offset)
        return ((rows, self._given(eta, last)) for rows, eta in parts)

    def _named(self, drawn):
        theta, last = drawn
        more = {} if last is None else {self._name_of_last: last}
        return dict(zip(self._model_.layout.names, theta.T, strict=False)) | more, {}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def answer(method):
    """Decorator of a method whose further keywords are those of models with groups.

    Models without groups have none, and none in their signature.
    """
    declared = signature(method)
    known = [p for p in declared.parameters.values() if p.kind is not p.VAR_KEYWORD]
    method.__signature__ = declared.replace(parameters=known)
    return known_parameters(method)


def with_groups(answer):
    """The same answer of a model with groups."""
    answer = _with_keywords(answer, _OF_GROUPS, population=False, groups="all")
    rows = "array-like or DataFrame"
    answer.__doc__ = answer.__doc__.replace("{array-like, sparse matrix}", rows)
    return answer


def with_exposure(answer):
    """The same answer about counts."""
    return _with_keywords(answer, _EXPOSURE, exposure=None)


def _with_keywords(answer, text, **defaults):
    """The same answer with some of its further keywords in signature and docstring."""
    method = answer.__wrapped__

    @wraps(method)
    def widened(self, *args, **kwargs):
        return method(self, *args, **kwargs)

    known, kind = signature(method), Parameter.KEYWORD_ONLY
    more = [Parameter(name, kind, default=one) for name, one in defaults.items()]
    parameters = [*known.parameters.values(), *more]
    widened.__signature__ = known.replace(parameters=parameters)
    ends = "\n\nReturns\n"
    widened.__doc__ = cleandoc(method.__doc__).replace(ends, text + ends)
    return known_parameters(widened)
