"""Methods of every linear model with a posterior, and checks of what they are given."""

from numbers import Real

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skboost._columns import refuse_dates, validate_data
from skboost._sklearn import Interval
from skboost.linear_model._predictive import plain_rows
from skboost.linear_model._preprocessors import affine_map, steps_before
from skboost.posterior import check_level
from skboost.serving import onnx_model, write_module
from skboost.targets import NormalNoise

POSITIVE = Interval(Real, 0, None, closed="neither")


def export(self, path, preprocessor=None):
    """Write the fitted model as one Python file that needs NumPy only.

    The file predicts where skboost, scikit-learn and SciPy are not installed. It
    has `predict`, and `predict_proba` for classifiers, as functions of dense rows;
    regressors take `return_std`. Its arrays are inside, so its size is that of the
    posterior: several classes whose components are not Gaussian take 1024 draws of it.

    Parameters
    ----------
    path : str or os.PathLike
        Usually ends with ``.py``. An earlier file is replaced when the new one is
        complete.
    preprocessor : transformer, default=None
        The steps before the model, ``pipeline[:-1]``, where rows come as they were
        before these: `SimpleImputer`, `OneHotEncoder`, `OrdinalEncoder`,
        `TargetEncoder`, and scalers, projections and selections of columns, which are
        affine maps of numbers, in any `Pipeline` and `ColumnTransformer`. Others are
        refused by name. Rows are arrays with the columns of the fit in its order, or
        DataFrames, whose columns are found by name; those of a `formula` are the ones
        that it makes, ``feature_names_in_``.

    Raises
    ------
    ValueError
        For labels and categories that are no strings, numbers or booleans, and for a
        preprocessor with other steps, or that does not give the model's columns.

    Notes
    -----
    The file runs as any Python module does: import only those that you wrote.
    """
    plain = _plain_model(self, preprocessor)
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
        The steps before the model, ``pipeline[:-1]``: affine maps of numbers, such as
        scalers, projections and selections of columns. `export` takes more.

    Returns
    -------
    onnx.ModelProto
        Of a classifier with outputs ``label`` and ``probabilities``, of a linear
        regression with ``mean`` and ``std`` (noise included). Write it with
        ``onnx.save``. They agree with the estimator to 1e-8.

    Raises
    ------
    NotImplementedError
        For other models: counts, those fitted with offsets, and, of two classes,
        components that are not Gaussian. `export` writes those.
    """
    plain = _plain_model(self, preprocessor)
    if getattr(self._model_, "exposed", False):
        raise NotImplementedError(
            "to_onnx writes no models that were fitted with offsets; export does."
        )
    before = affine_map(preprocessor, self.n_features_in_)
    return onnx_model(plain, dtype, before)


def _plain_model(estimator, preprocessor):
    """The plain model that an estimator predicts with."""
    check_is_fitted(estimator)
    plain = getattr(estimator, "_forecast", estimator._predictive)().model
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


def coef_interval(self, level=0.9):
    """Central credible intervals of the coefficients, of shape (n_features, 2).

    Parameters
    ----------
    level : float, default=0.9
        Posterior probability inside, in (0, 1).
    """
    return coefficient_ends(self, level)[0]


def weighted_draws(posterior, n):
    """Some `n` draws (m, dim), the same at every call, and their masses (m,).

    Under orbits all images of draws that are known, with their shares: new ones would
    cost an evaluation for each image of each.
    """
    if posterior._mixture.orbiting:
        return posterior._mixture.weighted_images()
    return posterior.sample(n, 0), np.full(n, 1.0 / n)


# --- for the faces: rows in, draws and intervals out


def checked_rows(estimator, X):
    """Rows as the plain model of a fitted estimator takes them."""
    check_is_fitted(estimator)
    kind = {"accept_sparse": "csr", "dtype": np.float64}
    X = validate_data(estimator, estimator._made(X), reset=False, **kind)
    return plain_rows(X, estimator._model_.layout.intercept)


def drawn_parameters(estimator, n, random_state):
    """Draws of coefficients, intercepts and further parameters; see `Layout.split`."""
    check_is_fitted(estimator)
    draws = estimator.posterior_.sample(n, random_state)
    return estimator._model_.layout.split(draws)


def drawn_coordinates(estimator, n, rng, reported=False):
    """Draws (n, dim) of what predicts, in which orbits have no part, or of what is
    reported.
    """
    fit = vars(estimator).get("_fit")
    if reported or fit is None:
        return estimator.posterior_._mixture.sample(n, rng)
    return fit.mixture.base.sample(n, rng)


def coefficient_ends(estimator, level):
    """Ends of the coefficients' intervals, (n_outputs, n_features, 2)."""
    check_is_fitted(estimator)
    ends = estimator.posterior_.interval(level).T
    return np.moveaxis(estimator._model_.layout.split(ends)[0], 0, -1)


# --- checks


def check_quantiles(quantiles):
    """Probabilities strictly between 0 and 1, as an array (n_levels,)."""
    try:
        p = np.atleast_1d(np.asarray(quantiles, dtype=float))
    except (TypeError, ValueError):
        p = np.empty(0)
    if p.ndim != 1 or not p.size or not np.all((p > 0) & (p < 1)):
        raise ValueError(
            "quantiles must be probabilities strictly between 0 and 1; got "
            f"{quantiles!r}."
        )
    return p


def tails_of(level):
    """The two probabilities between which a central interval holds `level`."""
    tail = 0.5 * (1.0 - check_level(level))
    return np.array([tail, 1.0 - tail])


def checked_numbers(estimator, X, y):
    """Responses as finite floats, (n_samples,); a ValueError where they are not."""
    y = one_for_each_row(estimator, X, one_response(y))
    refuse_dates(y, "y")
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    return NormalNoise().checked(y, len(y))


def one_response(y):
    """Refuse several responses for each row; a column is for scikit-learn to say."""
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y must have one dimension; got shape {shape}. For several responses wrap "
            "the estimator in sklearn.multioutput.MultiOutputRegressor, which fits one "
            "for each column."
        )
    return y


def one_for_each_row(estimator, X, y):
    """Responses, (n_samples,); a ValueError where they are missing or others."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            "None."
        )
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    return y
