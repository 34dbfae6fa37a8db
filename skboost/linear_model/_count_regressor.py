"""What a regression of counts answers."""

import numpy as np
from scipy.special import gammaincc, gammaln, wrightomega, xlogy
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost._math import log_sum_exp
from skboost._sklearn import check_sample_weight
from skboost.linear_model._coefficients import (
    BayesianRegressor,
    check_quantiles,
    tails_of,
)
from skboost.linear_model._predictive import (
    Predictive,
    mixture_parts,
    posterior_draws,
)
from skboost.serving import CountRegressor
from skboost.targets import Poisson, bounded_exp, validate_offset


class BayesianCountRegressor(BayesianRegressor):
    """Predictive distributions of counts; offsets are logarithms of exposures."""

    def _predictive(self, mixture=None):
        mixture = self.posterior_.mixture if mixture is None else mixture
        return CountPredictive(mixture, self._has_intercept)

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
        mean, std = self._predictive().model.mean_and_std(X, offset)
        return (mean, std) if return_std else mean

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
        explained = _deviance(
            y, self._predictive().model.mean_and_std(X, offset)[0], weight
        )
        return float(1.0 - explained / _deviance(y, constant, weight))

    def _with_counts(self, X, y, offset):
        check_is_fitted(self)
        kind = {"accept_sparse": "csr", "dtype": np.float64, "y_numeric": True}
        X, y = validate_data(self, X, y, reset=False, **kind)
        offset = None if offset is None else validate_offset(offset, X.shape[0])
        return self._plain_rows(X), Poisson().checked(y, X.shape[0]), offset

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
            yield self._predictive(mixture).model.mean_and_std(X, offset)[0]

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


# --- the predictive distribution


class CountPredictive(Predictive):
    """Predictive quantities of a Poisson regression: Poisson-lognormal mixtures.

    The linear predictor of a row is a mixture of Gaussian variables (of points, for
    families without a quadrature), so counts are a mixture of Poisson-lognormal
    distributions, one-dimensional integrals each.

    Parameters
    ----------
    mixture : Mixture
        Over (coefficients, intercept).
    fit_intercept : bool
    """

    def __init__(self, mixture, fit_intercept):
        mixture = mixture.drop_zero_weights()
        draws = None if mixture.gaussian else posterior_draws(mixture)
        fit_intercept = bool(fit_intercept)
        base = (mixture.dim - fit_intercept, fit_intercept)
        super().__init__(CountRegressor(*base, *mixture_parts(mixture), draws), mixture)

    def log_density(self, X, y, offset):
        """Log predictive probability of every count, (n,), nats."""
        out = np.empty(X.shape[0])
        for rows, means, stds, weights in self._parts(X, offset):
            counts = np.broadcast_to(y[rows, None], means.shape)
            table = log_probability(counts, means, stds)
            out[rows] = log_sum_exp(table, np.log(weights))
        return out

    def quantiles(self, X, p, offset):
        """Smallest counts whose distribution function reaches p, (n, n_levels)."""
        out = np.empty((X.shape[0], len(p)))
        for rows, *parts in self._parts(X, offset):
            for k, level in enumerate(p):
                out[rows, k] = _smallest_count(level, *parts)
        return out

    def _parts(self, X, offset):
        """Blocks of rows with means and deviations (n, n_parts) of eta, and weights."""
        return self.model.gaussians(X, offset, 64 * len(self.model.parts))


def log_probability(y, mean, std):
    """``ln E Poisson(y | exp(eta))`` where eta ~ N(mean, std^2), arrays of one shape.

    The integrand is log-concave; a trapezoid rule around its highest point, which is
    known in closed form, resolves it with an error near 1e-10.
    """
    out = y * mean - bounded_exp(mean) - gammaln(y + 1.0)
    wide = std > 1e-8
    if wide.any():
        y, mean, std = (a[wide] for a in (y, mean, std))
        found = np.empty(y.shape)
        for some in np.array_split(np.arange(y.size), max(1, y.size // 2048)):
            found[some] = _log_integral(y[some], mean[some], std[some])
        out[wide] = found - gammaln(y + 1.0)
    return out


def _log_integral(y, mean, std):
    """``ln E exp(y eta - exp(eta))``, arrays (n,)."""
    variance = std**2
    # Where y - exp(eta) = (eta - mean) / variance: Wright's omega function.
    shift = mean + variance * y
    rate = wrightomega(np.log(variance) + shift) / variance
    top = shift - variance * rate
    root = np.sqrt(1.0 / variance + rate)
    step = np.minimum(0.35 / root, 0.25)
    # The right side falls faster than a Gaussian, the left more slowly.
    poisson = np.where(rate > 104.0, 10.2 / np.sqrt(rate), 1.0 + 36.0 / rate)
    left, right = np.minimum(8.5 * std, poisson), 8.0 / root
    n = int(np.ceil(((left + right) / step).max())) + 1
    eta = top + np.linspace(-left, right, min(n, 4001))
    log_terms = y * eta - bounded_exp(eta) - 0.5 * ((eta - mean) / std) ** 2
    width = (left + right) / (len(eta) - 1)
    total = log_sum_exp(log_terms.T)
    return total + np.log(width / std) - 0.5 * np.log(2.0 * np.pi)


def _smallest_count(level, means, stds, weights):
    """Smallest count k of every row with P(count <= k) at least `level`, (n,)."""
    low = np.full(len(means), -1.0)
    high = np.ceil(bounded_exp(np.minimum(means.max(axis=1), 30.0)))
    short = _distribution(high, means, stds, weights) < level
    # Larger counts are not resolved one by one.
    while short.any() and high.max() < 2.0**52:
        low[short] = high[short]
        high[short] = 2.0 * high[short] + 1.0
        found = _distribution(high[short], means[short], stds[short], weights)
        short[short] = found < level
    while np.any(open_ := high - low > 1.0):
        middle = np.floor(0.5 * (low + high))[open_]
        found = _distribution(middle, means[open_], stds[open_], weights)
        enough = found >= level
        high[open_] = np.where(enough, middle, high[open_])
        low[open_] = np.where(enough, low[open_], middle)
    return high


def _distribution(k, means, stds, weights):
    """``P(count <= k)`` of every row, (n,), by a trapezoid rule in eta."""
    step = np.minimum(0.7 * stds, 0.42 / np.sqrt(k + 1.0)[:, None])
    n = np.ceil(15.0 * stds / np.maximum(step, 1e-300)).max(initial=1.0)
    n = int(min(n, 4001)) if stds.any() else 1
    nodes = np.linspace(-7.5, 7.5, n) if n > 1 else np.zeros(1)
    shares = np.exp(-0.5 * nodes**2)
    shares /= shares.sum()
    out = np.empty(len(k))
    size = max(1, (1 << 20) // (n * means.shape[1]))
    for a in range(0, len(k), size):
        rows = slice(a, a + size)
        eta = means[rows, :, None] + stds[rows, :, None] * nodes
        below = gammaincc(k[rows, None, None] + 1.0, bounded_exp(eta))
        out[rows] = (below @ shares) @ weights
    return out
