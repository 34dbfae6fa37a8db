"""What factorisations say about entries and rows, whatever their posterior is."""

import warnings
from contextlib import contextmanager
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost._entries import Entries
from skboost._random import generator
from skboost._sklearn import Interval, StrOptions
from skboost.conjugate import predicted_entries, predicted_rows

_SCALE = [Interval(Real, 0, None, closed="neither"), StrOptions({"infer"})]
FACTOR_CONSTRAINTS = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "noise_scale": _SCALE,
    "prior_scale": _SCALE,
    "biases": ["boolean"],
}


@contextmanager
def plain_errors():
    """A matrix that is not positive definite in rounding, said in the user's words."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "A posterior precision is singular in rounding: the values of X are too "
            "large for noise_scale or prior_scale, or for dtype. Divide X by its "
            "standard deviation, or use dtype='float64'."
        ) from error


class Piece(NamedTuple):
    """One component of a posterior; most have a single one.

    Attributes
    ----------
    weight : float
    rows, columns : Moments
        Of the factors.
    noise : float
        Expected variance of the noise.
    """

    weight: float
    rows: object
    columns: object
    noise: float

    @classmethod
    def of(cls, model, natural, entries=None, weight=1.0):
        """Of natural parameters: of the rows of the fit, or of others, folded in."""
        if entries is None:
            rows = model.rows.moments(natural["rows"])
        else:
            rows = model.folded_in(natural, entries)
        columns = model.columns.moments(natural["columns"])
        return cls(float(weight), rows, columns, float(model.noise.variance(natural)))

    def attributes(self, rank):
        """Fitted attributes: means of factors and of biases."""
        return {
            "components_": self.columns.mean[:, :rank].T,
            "row_factors_": self.rows.mean[:, :rank],
            "row_biases_": self.rows.mean[:, rank:].sum(axis=1),
            "column_biases_": self.columns.mean[:, rank:].sum(axis=1),
        }


def magnitude_of(entries):
    """Root mean square of values; 1 where all are zero, which say nothing of it."""
    squares = np.square(entries.values, dtype=float)
    return float(np.sqrt(squares.mean())) or 1.0


def observed_entries(estimator, X, dtype, reset):
    """The observed entries of what a user passes as `X`, validated."""
    try:
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse=("coo", "csr", "csc"),
            dtype=np.dtype(dtype),
            ensure_all_finite="allow-nan",
        )
    except ValueError as error:
        if "convert string" not in str(error):
            raise
        raise ValueError(
            f"X must be a matrix of numbers: {error}. For labels of users and items in "
            "two columns, use RatingRegressor().fit(X[[user, item]], ratings)."
        ) from error
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


class MatrixPredictions(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Prediction for estimators with a ``_model`` and ``_pieces(entries=None)``.

    Pieces are of the rows of `fit`, or of the rows of `entries`, which are about
    ``global_bias_``, folded in.
    """

    @property
    def _n_features_out(self):
        # Of the model that was fitted: parameters may have been set since.
        return self._model.rows.dim

    def _folded_in(self, X):
        """Pieces of the rows of a matrix; of those of `fit` for None."""
        check_is_fitted(self)
        if X is None:
            return self._pieces()
        return self._pieces(self._about_mean(X))

    def _model_settings(self, shape, magnitude):
        """Arguments of `MatrixFactorizationModel`, other than a dtype."""
        scales = {name: vars(self)[name] for name in ("noise_scale", "prior_scale")}
        return {
            "shape": tuple(int(n) for n in shape),
            "n_components": int(self.n_components),
            **{name: None if s == "infer" else s for name, s in scales.items()},
            "magnitude": magnitude,
            "biases": bool(self.biases),
        }

    def _set_bias(self, entries):
        mean = float(np.mean(entries.values, dtype=float))
        self.global_bias_ = mean if self.biases else 0.0

    def _shifted(self, entries):
        """Entries about ``global_bias_``."""
        values = entries.values
        return entries.with_values(values - values.dtype.type(self.global_bias_))

    def _about_mean(self, X):
        return self._shifted(observed_entries(self, X, self.dtype, reset=False))

    def transform(self, X):
        """Posterior means of the factors of rows, folded in.

        Given the factors of the columns the posterior of a row is known in closed form;
        nothing of the fit changes. The components of a mixture have no coordinates in
        common, so their factors are not averaged: these are of the heaviest.
        `reconstruct` and `predict_entries` average what all of them predict.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Observed entries, as in `fit`. A row without any has the prior's mean.

        Returns
        -------
        ndarray of shape (n_samples, n_components) or (n_samples, n_components + 1)
            With `biases` the last column is the rows' bias.
        """
        return _heaviest(self._folded_in(X)).rows.mean

    def inverse_transform(self, X):
        """Expected entries of rows with given factors.

        With several components the columns are those of the heaviest, to which the
        factors of `transform` belong.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components) or \
                (n_samples, n_components + 1)
            As `transform` returns it.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = check_array(X, dtype=np.dtype(self.dtype))
        if X.shape[1] != self._n_features_out:
            raise ValueError(
                f"X must have the {self._n_features_out} columns that transform gives; "
                f"got {X.shape[1]}."
            )
        augmented = self._model.rows.augmented(X)
        columns = _heaviest(self._pieces()).columns.augmented
        return augmented @ columns.T + X.dtype.type(self.global_bias_)

    def reconstruct(self, X=None, return_std=False):
        """All entries of rows, observed or not, as the posterior predicts them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows to fold in. None: those of the fit.
        return_std : bool, default=False

        Returns
        -------
        mean : ndarray of shape (n_samples, n_features)
        std : ndarray of shape (n_samples, n_features)
            Of the posterior predictive distribution, noise included; if asked for.
        """
        pieces = self._folded_in(X)
        found = [predicted_rows(piece.rows, piece.columns) for piece in pieces]
        return self._combined(pieces, found, return_std)

    def predict_entries(self, rows, columns, X=None, return_std=False):
        """Some entries, as the posterior predicts them.

        Parameters
        ----------
        rows, columns : array-like of int of shape (n,)
            Positions, from 0.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows to fold in, to which `rows` refers then. None: those of the fit.
        return_std : bool, default=False

        Returns
        -------
        mean : ndarray of shape (n,)
        std : ndarray of shape (n,)
            Of the posterior predictive distribution, noise included; if asked for.

        Raises
        ------
        ValueError
            For positions outside of the matrix.
        """
        pieces = self._folded_in(X)
        pairs = _pairs(pieces, rows, columns)
        found = [predicted_entries(p.rows, p.columns, pairs) for p in pieces]
        return self._combined(pieces, found, return_std)

    def _combined(self, pieces, found, return_std):
        """Mean and standard deviation of a mixture of predictions."""
        mean = sum(p.weight * own for p, (own, _) in zip(pieces, found, strict=True))
        shifted = mean + mean.dtype.type(self.global_bias_)
        if not return_std:
            return shifted
        variance = sum(
            p.weight * (own_variance + p.noise + (own - mean) ** 2)
            for p, (own, own_variance) in zip(pieces, found, strict=True)
        )
        return shifted, np.sqrt(variance)

    def score(self, X, y=None):
        """Mean log predictive density of entries that were held out, nats per entry.

        Half of the entries of each row, drawn at random but the same ones for every
        estimator, are folded in; the score is of the other half. So it tells ranks
        apart: a larger one is not always better. The predictive distribution of an
        entry is taken for the normal of its mean and standard deviation (for a
        mixture, a mixture of those). A row's only entry is predicted from nothing.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of the fit or others; only the factors of the columns are used.
        y : None
            Ignored.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If no entry of `X` is observed.
        """
        check_is_fitted(self)
        entries = self._about_mean(X)
        if not len(entries):
            raise ValueError("X must have an observed entry to be scored; got none.")
        # Which half of a row's entries `score` folds in: the same for every estimator,
        # so that their scores are of the same entries.
        known, held_out = entries.halves(generator(0))
        pairs = held_out.rows, held_out.columns
        return float(_log_density(self._pieces(known), pairs, held_out.values).mean())

    def log_density_entries(self, rows, columns, values, X=None):
        """Log posterior predictive density of values at some entries.

        Parameters
        ----------
        rows, columns : array-like of int of shape (n,)
            Positions, from 0.
        values : array-like of shape (n,)
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            As in `predict_entries`.

        Returns
        -------
        ndarray of shape (n,)
            Nats, of the distribution that `score` takes.

        Raises
        ------
        ValueError
            For positions outside of the matrix.
        """
        pieces = self._folded_in(X)
        pairs = _pairs(pieces, rows, columns)
        values = np.asarray(values, dtype=float)
        if values.shape != pairs[0].shape:
            raise ValueError(
                f"values must have shape {pairs[0].shape}, as rows and columns; got "
                f"{values.shape}."
            )
        return _log_density(pieces, pairs, values - self.global_bias_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags


def _heaviest(pieces):
    return max(pieces, key=lambda piece: piece.weight)


def _positions(name, index, n):
    index = np.asarray(index)
    if not (np.issubdtype(index.dtype, np.integer) or index.size == 0):
        raise ValueError(f"{name} must be integers; got dtype {index.dtype}.")
    if index.size and not (0 <= index.min() and index.max() < n):
        raise ValueError(
            f"{name} must be from 0 to {n - 1}; got {index.min()} to {index.max()}."
        )
    if index.ndim > 1:
        raise ValueError(
            f"{name} must be one position or a list of them; got shape {index.shape}. "
            "For a table of pairs pass rows.ravel() and columns.ravel()."
        )
    return index.astype(int).reshape(-1)


def _pairs(pieces, rows, columns):
    """Checked positions of entries, rows and columns."""
    n_rows, n_columns = (len(s.mean) for s in (pieces[0].rows, pieces[0].columns))
    pairs = (
        _positions("rows", rows, n_rows),
        _positions("columns", columns, n_columns),
    )
    if pairs[0].shape != pairs[1].shape:
        raise ValueError(
            "rows and columns must have one position each for every entry; got "
            f"{pairs[0].size} and {pairs[1].size}."
        )
    return pairs


def _log_density(pieces, pairs, values):
    """Log predictive density of values about the global bias, nats."""
    logs = []
    for weight, rows, columns, noise in pieces:
        mean, variance = predicted_entries(rows, columns, pairs)
        variance = variance + noise
        squares = (values - mean) ** 2 / variance
        log_density = -0.5 * (np.log(2.0 * np.pi * variance) + squares)
        logs.append(np.log(weight) + log_density)
    return logsumexp(logs, axis=0)
