"""What factorisations say of entries and rows, whatever their posterior is."""

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skboost._random import generator
from skboost.decomposition._matrices import observed_entries


class BayesianFactorization(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of estimators whose ``_predictive`` is a `MatrixPredictive`."""

    _if_singular = (
        "A posterior precision is singular in rounding: the values of X are too large "
        "for noise_scale or prior_scale, or for dtype. Divide X by its standard "
        "deviation, or use dtype='float64'."
    )

    @property
    def _n_features_out(self):
        # Of the model that was fitted: parameters may have been set since.
        return self._predictive.model.rows.dim

    def _asked(self, X):
        """What predicts, and entries of rows to fold in; None for those of `fit`."""
        check_is_fitted(self)
        entries = None if X is None else observed_entries(self, X, self.dtype)
        return self._predictive, entries

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
        predictive, entries = self._asked(X)
        return predictive.heaviest(entries).rows.mean

    def inverse_transform(self, X):
        """Expected entries of rows with given factors.

        With several components the columns are those of the heaviest, to which the
        factors of `transform` belong.

        Parameters
        ----------
        X : array-like, as `transform` returns it

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = check_array(X, dtype=np.dtype(self.dtype))
        if X.shape[1] != self._n_features_out:
            raise ValueError(
                "X must have the columns that transform gives; got "
                f"{X.shape[1]} of {self._n_features_out}."
            )
        augmented = self._predictive.model.rows.augmented(X)
        columns = self._predictive.heaviest().columns.augmented
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
        predictive, entries = self._asked(X)
        return predictive.whole_rows(entries, return_std)

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
        predictive, entries = self._asked(X)
        return predictive.entries(rows, columns, return_std, entries)

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
        y : Ignored

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If no entry of `X` is observed.
        """
        predictive, entries = self._asked(X)
        if not len(entries):
            raise ValueError("X must have an observed entry to be scored; got none.")
        # Which half of a row's entries `score` folds in: the same for every estimator,
        # so that their scores are of the same entries.
        known, held_out = entries.halves(generator(0))
        where = held_out.rows, held_out.columns
        logs = predictive.log_density(*where, held_out.values, known)
        return float(logs.mean())

    def log_density_entries(self, rows, columns, values, X=None):
        """Log posterior predictive density of values at some entries.

        Parameters
        ----------
        rows, columns, X
            As in `predict_entries`, with the same errors.
        values : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
            Nats, of the distribution that `score` takes.
        """
        predictive, entries = self._asked(X)
        values = np.asarray(values, dtype=float)
        return predictive.log_density(rows, columns, values, entries)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags
