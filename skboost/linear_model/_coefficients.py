"""What every linear model with a posterior knows of its coefficients."""

from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost._sklearn import Interval
from skboost.linear_model._outputs import over_outputs
from skboost.linear_model._predictive import plain_rows
from skboost.posterior import check_level
from skboost.serving import onnx_model, write_module

POSITIVE = Interval(Real, 0, None, closed="neither")


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
    y = one_for_each_row(estimator, X, y)
    return check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")


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


def affine_map(preprocessor, n_features):
    """Matrix and shift of a fitted transformer, found by trying it; None for None."""
    if preprocessor is None:
        return None
    check_is_fitted(preprocessor)
    n_raw = preprocessor.n_features_in_
    names = getattr(preprocessor, "feature_names_in_", None)

    def transformed(X):
        if names is not None:
            import pandas as pd

            X = pd.DataFrame(X, columns=names)
        out = preprocessor.transform(X)
        return np.asarray(out.toarray() if sparse.issparse(out) else out, dtype=float)

    # Of all sizes: a map that clips is constant in places.
    others = np.random.default_rng(0).standard_normal((64, n_raw))
    others *= np.geomspace(1e-3, 1e9, 64)[:, None]
    try:
        with np.errstate(all="ignore"):
            shift = transformed(np.zeros((1, n_raw)))
            matrix = (transformed(_STEP * np.eye(n_raw)) - shift) / _STEP
            found = transformed(others)
    except (TypeError, ValueError) as error:
        raise ValueError(_NOT_AFFINE) from error
    if shift.shape[1] != n_features:
        raise ValueError(
            f"preprocessor must give the {n_features} columns of the model; got "
            f"{shift.shape[1]}. Pass the steps that it was fitted after, pipeline[:-1]."
        )
    size = 1.0 + np.abs(shift) + np.abs(others) @ np.abs(matrix)
    if not np.all(np.abs(found - others @ matrix - shift) <= 1e-9 * size):
        raise ValueError(_NOT_AFFINE)
    return matrix, shift[0]


# So long that what columns are shifted by costs their slopes no digits.
_STEP = 2.0**30
_NOT_AFFINE = (
    "preprocessor must be an affine map of columns of numbers, such as scalers, "
    "projections and selections of columns; this one is not. Apply it before the call, "
    "and export without it."
)


class Served:
    """Estimators that give ``_served()``, the plain model that they predict with."""

    def export(self, path, preprocessor=None):
        """Write the fitted model as one Python file that needs NumPy only.

        The file predicts where skboost, scikit-learn and SciPy are not installed. It
        has `predict`, and `predict_proba` for classifiers, as functions of dense rows;
        regressors take `return_std`. Its arrays are inside, so its size is that of the
        posterior: a classifier with more than four classes holds 1024 draws of it.

        Parameters
        ----------
        path : str or os.PathLike
            Usually ends with ``.py``. An earlier file is replaced when the new one is
            complete.
        preprocessor : transformer, default=None
            The steps before the model, ``pipeline[:-1]``, where rows come as they were
            before these. Scalers, projections and selections of columns are affine maps
            of numbers, alone or in a `ColumnTransformer`; others are refused.

        Raises
        ------
        ValueError
            For labels that are no strings, numbers or booleans, and for a preprocessor
            that is not an affine map of numbers to the model's columns.
        OSError
            If the file can not be written; an earlier one stays.

        Notes
        -----
        The file holds the lines that the estimator itself predicts with. It runs as any
        Python module does: import only those that you wrote.
        """
        check_is_fitted(self)
        served, before = self._served_after(preprocessor)
        write_module(path, served, type(self).__name__, before)

    def to_onnx(self, dtype="float64", preprocessor=None):
        """The fitted model as an ONNX graph (extra ``onnx``).

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float64"
            Of the input ``X`` of shape (n_samples, n_features). Arithmetic is in double
            precision in either case.
        preprocessor : transformer, default=None
            As in `export`.

        Returns
        -------
        onnx.ModelProto
            Of a classifier with outputs ``label`` and ``probabilities``, of a linear
            regression with ``mean`` and ``std`` (noise included). Write it with
            ``onnx.save``. Two classes agree with the estimator to 1e-9, five and more
            to rounding; three, by a rule with 1,600 nodes, to 1e-4 on rows like those
            of the fit and to 0.02 however far out.

        Raises
        ------
        NotImplementedError
            For other models: four classes, several responses, counts, and, of two
            classes, components that are not Gaussian. `export` writes those.
        ImportError
            Without onnx.
        """
        check_is_fitted(self)
        served, before = self._served_after(preprocessor)
        return onnx_model(served, dtype, before)

    def _checked(self, X):
        check_is_fitted(self)
        kind = {"accept_sparse": "csr", "dtype": np.float64}
        return self._plain_rows(validate_data(self, X, reset=False, **kind))

    def _plain_rows(self, X):
        return plain_rows(X, self._has_intercept)

    def _served_after(self, preprocessor):
        """The plain model, and what comes before it."""
        served = self._served()
        if preprocessor is not None and hasattr(served, "factors"):
            raise ValueError(
                "preprocessor must be None for models with groups, whose columns are "
                "not all numbers. Apply it before the call."
            )
        return served, affine_map(preprocessor, self.n_features_in_)


class CoefficientPosterior(Served):
    """Draws and intervals of coefficients, and the rows that predictions start from.

    For estimators with ``posterior_`` over (coefficients, intercept) of every output,
    further parameters last, with ``n_features_in_`` and ``_predictive(mixture=None)``.
    """

    # Linear predictors of a row, and parameters with no part in them.
    _n_outputs = 1
    _n_further = 0

    @property
    def _has_intercept(self):
        """Whether the fit has an intercept, whatever the parameter says by now."""
        dim = self.posterior_.dim - self._n_further
        return dim > self._n_outputs * self.n_features_in_

    def _served(self):
        return self._predictive().model

    def _by_output(self, parameters):
        """Coefficients (..., n_outputs, n_features) and intercepts (..., n_outputs)."""
        *outer, dim = parameters.shape
        linear = parameters[..., : dim - self._n_further]
        linear = linear.reshape(*outer, self._n_outputs, -1)
        coef = linear[..., : self.n_features_in_]
        if linear.shape[-1] > self.n_features_in_:
            return coef, linear[..., -1]
        return coef, np.zeros(coef.shape[:-1])

    def _draws(self, n, random_state):
        """Draws of coefficients, intercepts and further parameters."""
        check_is_fitted(self)
        draws = self.posterior_.sample(n, random_state)
        return *self._by_output(draws), draws[:, draws.shape[1] - self._n_further :]

    def _coef_ends(self, level):
        """Ends of the coefficients' intervals, (n_outputs, n_features, 2)."""
        check_is_fitted(self)
        ends = self.posterior_.interval(level).T
        return np.moveaxis(self._by_output(ends)[0], 0, -1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class BayesianRegressor(RegressorMixin, CoefficientPosterior):
    """The linear predictor and the coefficients of a regression.

    For estimators with ``posterior_`` and ``_predictive(mixture=None)``.
    """

    # One estimator for each response, where there are several.
    _models = None

    @over_outputs
    def predict_latent(self, X):
        """Mean and standard deviation of the linear predictor, without any noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        mean, std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        X = self._checked(X)
        return self._predictive().latent(X)

    @over_outputs
    def coef_interval(self, level=0.9):
        """Central credible intervals of the coefficients.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (n_features, 2) or (n_outputs, n_features, 2)
            Lower and upper ends.
        """
        return self._coef_ends(level)[0]

    def _fitted_coefficients(self, posterior, n_further=0):
        """Coefficients as scikit-learn's regressors lay them out."""
        # Before skewing: ``predict`` is the line that they say.
        linear = posterior.mixture.mean()[: posterior.dim - n_further]
        coef = linear[: self.n_features_in_].copy()
        intercept = float(linear[-1]) if len(linear) > len(coef) else 0.0
        return {"coef_": coef, "intercept_": intercept}
