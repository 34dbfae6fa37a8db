"""What regressions of numbers and of counts share: how they read rows and answer."""

import numpy as np
from scipy.special import xlogy
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from skboost._columns import check_responses
from skboost._sklearn import check_sample_weight
from skboost.linear_model._answers import Answers, FlatAnswers, answer, with_exposure
from skboost.linear_model._drawn import DrawnCounts, DrawnNumbers
from skboost.linear_model._methods import check_quantiles, checked_numbers, tails_of
from skboost.linear_model._ratios import ratio_table
from skboost.targets import Poisson


class NumberAnswers(Answers, RegressorMixin):
    """Predictive distributions that add noise to the linear predictor."""

    def score(self, X, y, sample_weight=None, offset=None):
        """R squared of the predictive means.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        offset : array-like of shape (n_samples,), default=None
            As in `predict`.

        Returns
        -------
        float
            At most 1; see `sklearn.metrics.r2_score`.
        """
        check_responses(y)
        mean = self.predict(X, offset=offset)
        return r2_score(y, mean, sample_weight=sample_weight)

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


class CountAnswers(NumberAnswers):
    """Predictive distributions of counts; offsets are logarithms of exposures."""

    @answer
    def predict(self, X, offset=None, return_std=False, exposure=None, **of_groups):
        """Mean of the posterior predictive distribution.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        offset : array-like of shape (n_samples,) or str, default=None
            Logarithm of the exposure; the name of a column where X is a data frame.
            None is the column that `fit` was told the name of, or else zero.
        return_std : bool, default=False
            Return the standard deviation of the predictive distribution too.
        exposure : array-like of shape (n_samples,) or str, default=None
            Positive factor of the rate; its logarithm is added to `offset`.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
        std : ndarray of shape (n_samples,)
            Only where `return_std` is True.

        Warns
        -----
        UserWarning
            After a fit with exposures or offsets, where neither is given: rows are then
            taken to have an exposure of one. `cross_val_predict` passes none on; means
            are in proportion to the exposure, so that they can be multiplied by it.
            ``exposure=np.ones(n_samples)`` says that one is meant.
        """
        predictive, rows = self._asked(X, offset, exposure, **of_groups)
        mean, std = predictive.model.mean_and_std(*rows)
        return (mean, std) if return_std else mean

    predict_interval = with_exposure(NumberAnswers.predict_interval)
    predict_quantiles = with_exposure(NumberAnswers.predict_quantiles)
    log_predictive_density = with_exposure(NumberAnswers.log_predictive_density)

    def score(self, X, y, sample_weight=None, offset=None, exposure=None):
        """D squared, the share of the deviance that the predictive mean explains.

        Parameters
        ----------
        X, offset, exposure
            As in `predict`.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
            ``1 - D(y, prediction) / D(y, constant rate)``, at most 1, with the Poisson
            deviance D for either likelihood; without offsets that of
            ``sklearn.linear_model.PoissonRegressor``. Where a constant rate leaves no
            deviance, 1 for a perfect prediction and else 0.
        """
        check_is_fitted(self)
        y = self._coded(X, y)
        weight = check_sample_weight(sample_weight, y, dtype=np.float64)
        predictive, rows = self._asked(X, offset, exposure)
        mean, _ = predictive.model.mean_and_std(*rows)
        return explained_deviance(y, mean, weight, rows[-1])

    def dispersion_interval(self, level=0.9):
        """Central credible interval of the dispersion, of shape (2,).

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Raises
        ------
        AttributeError
            After a fit of the Poisson likelihood, which has none.
        """
        return self._dispersion_at("dispersion_interval", *tails_of(level))

    def rate_ratios(self, level=0.9, increment=1.0):
        """Factors by which the rate grows with each feature, with credible intervals.

        The row of the intercept has the rate where every feature and the offset are
        zero, in the median group where there are groups, whose effects stay as they
        are.

        The prior pulls factors towards one, most where rows are few: a wide one such as
        ``prior_scale=10`` reports what the rows alone say.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).
        increment : float, dict or array-like of shape (n_features,), default=1.0
            Change of each feature that its ratio is for; a dict names some of them.

        Returns
        -------
        pandas.DataFrame, or a structured ndarray where pandas is not installed
            A row for each coefficient, the intercept last, with ``rate_ratio`` and what
            else `BoostedBayesianLogisticRegression.odds_ratios` has.
        """
        check_is_fitted(self)
        return ratio_table(self, "rate_ratio", level, increment)

    @property
    def dispersion_(self):
        """Posterior median of the dispersion."""
        return float(self._dispersion_at("dispersion_", 0.5)[0])

    def _dispersion_at(self, name, *p):
        """Quantiles of the dispersion, for what has a name."""
        check_is_fitted(self)
        if not self._model_.dispersed:
            raise AttributeError(
                f"{name} needs a fit with likelihood='negative_binomial'; got one with "
                "likelihood='poisson'."
            )
        last = self.posterior_.marginal(self.posterior_.dim - 1)
        return self._as_dispersion([last.quantile(one) for one in p])

    def _coded(self, X, y):
        y = checked_numbers(self, X, y)
        return Poisson().checked(y, len(y))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class BayesianCountRegressor(FlatAnswers, CountAnswers):
    """Those of models without groups."""

    _counts = True
    _name_of_last = "dispersion"
    # The posterior is over its logarithm.
    _as_dispersion = staticmethod(np.exp)

    def _last(self, further):
        return np.exp(further[:, 0]) if self._model_.dispersed else None

    def _given(self, eta, dispersion):
        return DrawnCounts(eta, dispersion)


def explained_deviance(y, mean, weight, offset):
    """Share of the deviance from a constant rate that means explain."""
    # The constant rate does not depend on the unit of the exposures.
    size = np.ones_like(y) if offset is None else np.exp(offset - offset.max())
    constant = size * (weight @ y) / (weight @ size)
    left, all_of_it = _deviance(y, mean, weight), _deviance(y, constant, weight)
    if all_of_it <= 0.0:
        # As scikit-learn's r2_score of responses that are all the same.
        return float(left <= 0.0)
    return float(1.0 - left / all_of_it)


def _deviance(y, mean, weight):
    """Weighted Poisson deviance; zero where a mean of zero meets counts of zero."""
    tiny = np.finfo(float).tiny
    return 2.0 * weight @ (xlogy(y, y / np.maximum(mean, tiny)) - y + mean)
