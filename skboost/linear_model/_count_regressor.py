"""What a regression of counts answers."""

import numpy as np
from scipy.special import xlogy
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost._sklearn import check_sample_weight
from skboost.linear_model._count_predictive import CountPredictive
from skboost.linear_model._regressor import (
    BayesianRegressor,
    check_quantiles,
    tails_of,
)
from skboost.linear_model._served import Served, served_counts
from skboost.targets import Poisson, validate_offset


class CountRegressor(Served, BayesianRegressor):
    """Predictive distributions of counts; offsets are logarithms of exposures."""

    def _predictive(self, mixture=None):
        mixture = self.posterior_.mixture if mixture is None else mixture
        return CountPredictive(mixture, self._has_intercept)

    def _served(self):
        return served_counts(self)

    def _with_offset(self, X, offset):
        X = self._checked(X)
        return X, None if offset is None else validate_offset(offset, X.shape[0])

    def predict(self, X, offset=None, return_std=False):
        """Mean of the posterior predictive distribution.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        offset : array-like of shape (n_samples,), default=None
            Logarithm of the exposure; None is zero.
        return_std : bool, default=False
            Return the standard deviation of the predictive distribution too.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
        std : ndarray of shape (n_samples,)
            Only where `return_std` is True.
        """
        X, offset = self._with_offset(X, offset)
        predictive = self._predictive()
        mean = predictive.mean(X, offset)
        return (mean, predictive.std(X, offset)) if return_std else mean

    def predict_interval(self, X, level=0.9, offset=None):
        """Central interval of the predictive distribution of the count.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9
            At least this predictive probability lies between the ends, which are
            counts; in (0, 1).
        offset : array-like of shape (n_samples,), default=None

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper end, both inside.
        """
        X, offset = self._with_offset(X, offset)
        return self._predictive().quantiles(X, tails_of(level), offset)

    def predict_quantiles(self, X, quantiles=(0.05, 0.5, 0.95), offset=None):
        """Quantiles of the predictive distribution of the count.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        quantiles : float or array-like of shape (n_quantiles,), \
                default=(0.05, 0.5, 0.95)
            In (0, 1).
        offset : array-like of shape (n_samples,), default=None

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles)
            Smallest counts whose distribution function reaches the probability.
        """
        X, offset = self._with_offset(X, offset)
        return self._predictive().quantiles(X, check_quantiles(quantiles), offset)

    def log_predictive_density(self, X, y, offset=None):
        """Log probability of the counts under the predictive distribution.

        A proper score: larger is better, and only the truth has the largest mean.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        offset : array-like of shape (n_samples,), default=None

        Returns
        -------
        ndarray of shape (n_samples,)
            Nats.
        """
        X, y, offset = self._with_counts(X, y, offset)
        return self._predictive().log_density(X, y, offset)

    def score(self, X, y, sample_weight=None, offset=None):
        """D squared, the share of the deviance that the predictive mean explains.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        offset : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
            ``1 - D(y, prediction) / D(y, constant rate)``, at most 1; without
            offsets that of ``sklearn.linear_model.PoissonRegressor``.
        """
        X, y, offset = self._with_counts(X, y, offset)
        weight = check_sample_weight(sample_weight, X, dtype=np.float64)
        # The constant rate does not depend on the unit of the exposures.
        exposure = np.ones_like(y) if offset is None else np.exp(offset - offset.max())
        constant = exposure * (weight @ y) / (weight @ exposure)
        explained = _deviance(y, self._predictive().mean(X, offset), weight)
        return float(1.0 - explained / _deviance(y, constant, weight))

    def _with_counts(self, X, y, offset):
        check_is_fitted(self)
        kind = {"accept_sparse": "csr", "dtype": np.float64, "y_numeric": True}
        X, y = validate_data(self, X, y, reset=False, **kind)
        offset = None if offset is None else validate_offset(offset, X.shape[0])
        return X, Poisson().checked(y, X.shape[0]), offset

    def staged_predict(self, X, offset=None):
        """Predictive means after every iteration; the last is the final one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        offset : array-like of shape (n_samples,), default=None

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        X, offset = self._with_offset(X, offset)
        for mixture in self._stages:
            yield self._predictive(mixture).mean(X, offset)

    def _fitted(self, posterior):
        return self._fitted_coefficients(posterior)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _deviance(y, mean, weight):
    """Weighted Poisson deviance; zero where a mean of zero meets counts of zero."""
    tiny = np.finfo(float).tiny
    return 2.0 * weight @ (xlogy(y, y / np.maximum(mean, tiny)) - y + mean)
