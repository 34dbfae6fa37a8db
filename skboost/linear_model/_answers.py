"""Methods that answer about rows, the same for models with groups and without.

They ask the estimator, by ``_asked(X, offset, ...)``, for what predicts and for the
rows as it takes them, and hand on keywords of which they know nothing.
"""

from functools import wraps
from inspect import Parameter, cleandoc, signature

from sklearn.utils.validation import check_is_fitted

from skboost._parameters import known_parameters
from skboost.linear_model._drawn import linear_predictors
from skboost.linear_model._methods import (
    checked_rows,
    coef_interval,
    drawn_coordinates,
    drawn_parameters,
    export,
    predict_latent,
    set_feature_names,
    to_onnx,
)
from skboost.linear_model._row_keywords import (
    NewRows,
    checked_offset,
    warn_of_missing_offset,
)

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

    export, to_onnx, set_feature_names = export, to_onnx, set_feature_names


class FlatAnswers:
    """What models of numbers and counts share that have no groups, but ``_model_`` and
    ``_fit``; subclasses have what all rows share, ``_last(further)``.
    """

    predict_latent, coef_interval = predict_latent, coef_interval
    _counts = False

    def _predictive(self):
        """What answers about checked rows."""
        return self._model_.predictive(self._fit.mixture)

    def _asked(self, X, offset=None, exposure=None):
        """What answers about rows; these, checked, and their offsets or None."""
        check_is_fitted(self)
        offset, exposure = self._found(X, offset=offset, exposure=exposure)
        X = checked_rows(self, X)
        offset = checked_offset(offset, exposure, X.shape[0])
        warn_of_missing_offset(self._model_.exposed, offset, self._counts)
        return self._predictive(), (X, offset)

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
