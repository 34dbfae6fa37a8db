"""What a linear regression with a posterior over its coefficients answers."""

from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skboost.linear_model._answers import Answers, FlatAnswers, answer
from skboost.linear_model._drawn import DrawnNumbers
from skboost.linear_model._methods import (
    check_quantiles,
    checked_numbers,
    tails_of,
)
from skboost.linear_model._row_keywords import score_with_offset


class NumberAnswers(Answers, RegressorMixin):
    """Predictive distributions that add noise to the linear predictor."""

    score = score_with_offset

    @answer
    def predict(self, X, return_std=False, offset=None, **of_groups):
        """Mean of the posterior predictive distribution.

        Student-t noise of at most one degree of freedom has no mean: what is returned
        is that of the linear predictor.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_std : bool, default=False
            Return the standard deviation of the predictive distribution too, noise
            included; inf for Student-t noise of at most two degrees of freedom, and
            where the noise scale is inferred under Student-t components, whose tails
            leave it no second moment, as less than two rows by weight leave a stream
            none (intervals and quantiles are finite there).
        offset : array-like of shape (n_samples,) or str, default=None
            Added to the linear predictor; the name of a column where X is a data frame.
            None is the column that `fit` was told the name of, or else zero, with a
            warning after a fit that had some.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
        std : ndarray of the same shape
            Only where `return_std` is True.
        """
        predictive, rows = self._asked(X, offset, **of_groups)
        mean, std = predictive.model.mean_and_std(*rows)
        return (mean, std) if return_std else mean

    @answer
    def predict_interval(self, X, level=0.9, offset=None, **of_groups):
        """Central interval of the predictive distribution, noise included.

        Parameters
        ----------
        X, offset
            As in `predict`.
        level : float, default=0.9
            Predictive probability inside, in (0, 1); of counts at least so much.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper end; of counts both are inside.
        """
        return self.predict_quantiles(X, tails_of(level), offset, **of_groups)

    @answer
    def predict_quantiles(
        self, X, quantiles=(0.05, 0.5, 0.95), offset=None, **of_groups
    ):
        """Quantiles of the predictive distribution, noise included.

        Parameters
        ----------
        X, offset
            As in `predict`.
        quantiles : float or array-like of shape (n_quantiles,), \
                default=(0.05, 0.5, 0.95)
            In (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles)
            Of counts the smallest whose distribution function reaches the probability.
        """
        p = check_quantiles(quantiles)
        predictive, rows = self._asked(X, offset, **of_groups)
        return predictive.quantiles(*rows, p)

    @answer
    def log_predictive_density(self, X, y, offset=None, **of_groups):
        """Log density of the predictive distribution at the responses, of counts log
        probability.

        A proper score: larger is better, and only the truth has the largest mean.

        Parameters
        ----------
        X, offset
            As in `predict`.
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
            Nats.
        """
        check_is_fitted(self)
        y = self._coded(X, y)
        predictive, rows = self._asked(X, offset, **of_groups)
        return predictive.log_density(*rows, y)

    def _coded(self, X, y):
        return checked_numbers(self, X, y)


class BayesianRegressor(FlatAnswers, NumberAnswers):
    """Those of models without groups."""

    _name_of_last = "noise_scale"

    def _last(self, further):
        return self._model_.noise_scales(further)

    def _given(self, eta, scale):
        return DrawnNumbers(eta, self._model_.noise, scale)
