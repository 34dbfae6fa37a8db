"""What hierarchical regressions of counts answer: predictions, scores, dispersion."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skboost._elsewhere import MOVED_LEVEL, known_parameters
from skboost._sklearn import check_sample_weight
from skboost.linear_model._count_predictive import (
    log_mixed_probability,
    smallest_counts,
)
from skboost.linear_model._count_regressor import (
    check_dispersed,
    checked_offset,
    explained_deviance,
    warn_of_missing_exposure,
)
from skboost.linear_model._hierarchical import HierarchicalModel
from skboost.linear_model._methods import (
    check_quantiles,
    checked_numbers,
    tails_of,
)
from skboost.linear_model._ratios import ratio_table
from skboost.serving import GroupedCounts
from skboost.targets import Poisson


class HierarchicalCountRegressor(RegressorMixin, HierarchicalModel):
    """Predictive distributions of counts in groups; offsets are log exposures."""

    # Of fits that were saved before there was a choice.
    _fitted_likelihood = "poisson"

    _plain = GroupedCounts

    @known_parameters(MOVED_LEVEL)
    def predict(
        self, X, offset=None, *, return_std=False, exposure=None, population=False
    ):
        """Mean of the posterior predictive distribution.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        offset : array-like of shape (n_samples,), default=None
            Logarithm of the exposure; None is zero.
        return_std : bool, default=False
            Return the standard deviation of the count too.
        exposure : array-like of shape (n_samples,), default=None
            Positive factor of the rate; its logarithm is added to `offset`.
        population : bool, default=False
            False uses the effects of the row's groups; those that `fit` has not seen
            have the population's spread. True is a new group for every row.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
        std : ndarray of shape (n_samples,)
            Only where `return_std` is True.
        """
        rows = self._rows(X, population, offset, exposure)
        mean, std = self._model.mean_and_std(*rows)
        return (mean, std) if return_std else mean

    def predict_interval(
        self, X, level=0.9, offset=None, exposure=None, *, population=False
    ):
        """Central interval of the predictive distribution of the count.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        level : float, default=0.9
            At least this predictive probability lies between the ends, which are
            counts; in (0, 1).
        offset : array-like of shape (n_samples,), default=None
        exposure : array-like of shape (n_samples,), default=None
            Positive factor of the rate; its logarithm is added to `offset`.
        population : bool, default=False
            A new group for every row.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper end, both inside.
        """
        return self.predict_quantiles(
            X, tails_of(level), offset, exposure, population=population
        )

    def predict_quantiles(
        self,
        X,
        quantiles=(0.05, 0.5, 0.95),
        offset=None,
        exposure=None,
        *,
        population=False,
    ):
        """Quantiles of the predictive distribution of the count.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        quantiles : float or array-like of shape (n_quantiles,), \
                default=(0.05, 0.5, 0.95)
            In (0, 1).
        offset : array-like of shape (n_samples,), default=None
        exposure : array-like of shape (n_samples,), default=None
            Positive factor of the rate; its logarithm is added to `offset`.
        population : bool, default=False
            A new group for every row.

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles)
            Smallest counts whose distribution function reaches these.
        """
        p = check_quantiles(quantiles)
        rows = self._rows(X, population, offset, exposure)
        return np.concatenate(
            [smallest_counts(p, *parts) for _, *parts in self._mixtures(*rows)]
        )

    def log_predictive_density(
        self, X, y, offset=None, exposure=None, *, population=False
    ):
        """Log probability of counts under the posterior predictive distribution.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        offset : array-like of shape (n_samples,), default=None
        exposure : array-like of shape (n_samples,), default=None
            Positive factor of the rate; its logarithm is added to `offset`.
        population : bool, default=False
            A new group for every row.

        Returns
        -------
        ndarray of shape (n_samples,)
            Nats.
        """
        y = checked_counts(self, X, y)
        rows = self._rows(X, population, offset, exposure)
        warn_of_missing_exposure(self._exposed, rows[-1])
        return np.concatenate(
            [
                log_mixed_probability(y[some], *parts)
                for some, *parts in self._mixtures(*rows)
            ]
        )

    def _rows(self, X, population, offset, exposure):
        """Numeric columns, groups and offsets of new rows."""
        split = self._split(X, population)
        return *split, checked_offset(offset, exposure, len(split[0]))

    def _mixtures(self, *rows):
        """Blocks of rows with the mixture that is the distribution of each count."""
        model = self._model
        levels = None if model.noise is None else np.log(model.noise)
        weights = np.full(len(model.coef), 1.0 / len(model.coef))
        for some, eta in model.predictors(*rows):
            yield some, eta, np.zeros_like(eta), levels, weights

    def score(self, X, y, sample_weight=None, offset=None, exposure=None):
        """D squared, the share of the deviance that the predictive mean explains.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        offset : array-like of shape (n_samples,), default=None
        exposure : array-like of shape (n_samples,), default=None
            Positive factor of the rate; its logarithm is added to `offset`.

        Returns
        -------
        float
            As of `BoostedBayesianPoissonRegression`.
        """
        y = checked_counts(self, X, y)
        weight = check_sample_weight(sample_weight, y, dtype=np.float64)
        offset = checked_offset(offset, exposure, len(y))
        warn_of_missing_exposure(self._exposed, offset)
        mean = self.predict(X, offset=offset)
        return explained_deviance(y, mean, weight, offset)

    def rate_ratios(self, level=0.9, increment=1.0):
        """Factors by which the rate grows with each feature, with credible intervals.

        The row of the intercept has the rate where every feature and the offset are
        zero, in the median group; groups stay as they are.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).
        increment : float, dict or array-like, default=1.0
            Change of each feature that its ratio is for; a dict names some of them.
            Of columns that a ``StandardScaler`` divided by ``scale_``, ``1 / scale_``
            gives ratios for one of the units before.

        Returns
        -------
        pandas.DataFrame, or a structured ndarray where pandas is not installed
            A row for each coefficient, the intercept last: ``rate_ratio``
            (posterior median), ``lower`` and ``upper`` end of the central interval, and
            ``probability_above_1``.
        """
        return ratio_table(
            self.posterior_, self._layout, "rate_ratio", level, increment
        )

    def dispersion_interval(self, level=0.9):
        """Central credible interval of the dispersion.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper end.

        Raises
        ------
        AttributeError
            After a fit of the Poisson likelihood, which has none.
        """
        check_is_fitted(self)
        check_dispersed(self._fitted_likelihood == "negative_binomial")
        return self.posterior_.interval(level)[-1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def checked_counts(estimator, X, y):
    """Counts, (n_samples,); a ValueError where they are none."""
    y = checked_numbers(estimator, X, y)
    return Poisson().checked(y, len(y))
