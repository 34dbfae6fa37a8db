"""Posterior predictive of Poisson regression: Poisson-lognormal mixtures.

The linear predictor of a row is a mixture of Gaussian variables (of points, for
families without a quadrature), so counts are a mixture of Poisson-lognormal
distributions, one-dimensional integrals each.
"""

import numpy as np
from scipy.special import gammaincc, gammaln, wrightomega

from skboost._math import log_sum_exp
from skboost.linear_model._latent import N_DRAWS, LatentPredictive, posterior_draws
from skboost.targets import bounded_exp

# Entries of one table of nodes, and nodes of one integral at most.
_ENTRIES = 1 << 20
_MOST_NODES = 4001
# Counts above this are not resolved one by one.
_LARGEST = 2.0**52


class CountPredictive(LatentPredictive):
    """Predictive quantities of a Poisson regression; see `LatentPredictive`."""

    def mean(self, X, offset):
        """Predictive mean, (n,)."""
        out = np.empty(X.shape[0])
        for rows, means, stds, weights in self._parts(X, offset):
            out[rows] = bounded_exp(means + 0.5 * stds**2) @ weights
        return out

    def std(self, X, offset):
        """Predictive standard deviation, (n,)."""
        out = np.empty(X.shape[0])
        for rows, means, stds, weights in self._parts(X, offset):
            rate = bounded_exp(means + 0.5 * stds**2) @ weights
            square = bounded_exp(2.0 * (means + stds**2)) @ weights
            out[rows] = np.sqrt(rate + np.maximum(square - rate**2, 0.0))
        return out

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
        draws = None if self.gaussian else posterior_draws(self.mixture)
        width = 64 * self.mixture.n_components if draws is None else 4 * N_DRAWS
        for rows, block in self._blocks(X, width):
            if draws is None:
                means, stds = self.mixture.linear_moments(block)
                weights = self.mixture.weights
            else:
                means = np.asarray(block @ draws.T)
                stds = np.zeros_like(means)
                weights = np.full(len(draws), 1.0 / len(draws))
            if offset is not None:
                means = means + offset[rows, None]
            yield rows, means, stds, weights


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
    eta = top + np.linspace(-left, right, min(n, _MOST_NODES))
    log_terms = y * eta - bounded_exp(eta) - 0.5 * ((eta - mean) / std) ** 2
    width = (left + right) / (len(eta) - 1)
    total = log_sum_exp(log_terms.T)
    return total + np.log(width / std) - 0.5 * np.log(2.0 * np.pi)


def _smallest_count(level, means, stds, weights):
    """Smallest count k of every row with P(count <= k) at least `level`, (n,)."""
    low = np.full(len(means), -1.0)
    high = np.ceil(bounded_exp(np.minimum(means.max(axis=1), 30.0)))
    short = _distribution(high, means, stds, weights) < level
    while short.any() and high.max() < _LARGEST:
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
    n = int(min(n, _MOST_NODES)) if stds.any() else 1
    nodes = np.linspace(-7.5, 7.5, n) if n > 1 else np.zeros(1)
    shares = np.exp(-0.5 * nodes**2)
    shares /= shares.sum()
    out = np.empty(len(k))
    size = max(1, _ENTRIES // (n * means.shape[1]))
    for a in range(0, len(k), size):
        rows = slice(a, a + size)
        eta = means[rows, :, None] + stds[rows, :, None] * nodes
        below = gammaincc(k[rows, None, None] + 1.0, bounded_exp(eta))
        out[rows] = (below @ shares) @ weights
    return out
