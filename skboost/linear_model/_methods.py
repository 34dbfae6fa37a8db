"""Rows, draws and intervals of linear models, and checks of what these are given."""

from numbers import Real

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skboost._columns import check_responses, validate_data
from skboost._sklearn import Interval
from skboost.linear_model._predictive import plain_rows
from skboost.posterior import check_level
from skboost.targets import NormalNoise

POSITIVE = Interval(Real, 0, None, closed="neither")


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
    check_responses(y)
    y = one_for_each_row(estimator, X, one_response(y))
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
        # `RowBlocks` have responses, and are no array: their own error comes first.
        np.asarray(X)
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            "None."
        )
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    return y
