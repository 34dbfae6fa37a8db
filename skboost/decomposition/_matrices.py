"""Matrices as users pass them: observed entries, settings of the model, errors."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy import sparse

from skboost._columns import validate_data
from skboost._entries import Entries
from skboost._sklearn import Interval, StrOptions

_SCALE = [Interval(Real, 0, None, closed="neither"), StrOptions({"infer"})]
FACTOR_CONSTRAINTS = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "noise_scale": _SCALE,
    "prior_scale": _SCALE,
    "biases": ["boolean"],
}


def magnitude_of(entries):
    """Root mean square of values; 1 where all are zero, which say nothing of it."""
    squares = np.square(entries.values, dtype=float)
    return float(np.sqrt(squares.mean())) or 1.0


def observed_entries(estimator, X, dtype, reset=False):
    """The observed entries of what a user passes as `X`, validated."""
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse=("coo", "csr", "csc"),
        dtype=np.dtype(dtype),
        ensure_all_finite="allow-nan",
        advice="For labels of users and items in two columns, use "
        "RatingRegressor().fit(X[[user, item]], ratings).",
    )
    if reset and _like_triples(X):
        warnings.warn(
            "X looks like triples of row, column and value, and is taken for a matrix "
            f"of {X.shape[0]} rows and 3 columns. If they are triples, pass "
            "scipy.sparse.coo_array((values, (rows, columns))), or use "
            "RatingRegressor().fit(X[:, :2], X[:, 2]).",
            UserWarning,
            # Past `fit` and the wrapper of scikit-learn, where the user called.
            stacklevel=4,
        )
    entries = Entries.of(X, dtype)
    if reset and not len(entries):
        raise ValueError("X must have at least one observed entry; got none.")
    return entries


def _like_triples(X):
    """Whether a matrix has three columns, the first two of them distinct positions."""
    if sparse.issparse(X) or X.shape[1] != 3 or X.shape[0] < 10:
        return False
    places = X[:, :2]
    # Ratings are whole numbers, too, but small ones, and their pairs are repeated.
    whole = np.isfinite(X).all() and (places >= 0).all() and (places % 1 == 0).all()
    return bool(
        whole and places.max() >= 10 and len(np.unique(places, axis=0)) == len(X)
    )


def global_bias(estimator, entries):
    """The mean of all entries with `biases`, 0 without."""
    return float(np.mean(entries.values, dtype=float)) if estimator.biases else 0.0


def model_settings(estimator, shape, magnitude):
    """Arguments of `MatrixFactorizationModel`, other than a dtype."""
    scales = {name: vars(estimator)[name] for name in ("noise_scale", "prior_scale")}
    return {
        "shape": tuple(int(n) for n in shape),
        "n_components": int(estimator.n_components),
        **{name: None if s == "infer" else s for name, s in scales.items()},
        "magnitude": magnitude,
        "biases": bool(estimator.biases),
    }
