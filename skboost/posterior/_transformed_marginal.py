"""Marginals on the user's scale: exact where a coordinate is transformed by itself."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skboost._math import LOG_2PI, log_sum_exp, log_weights, robust_std
from skboost.posterior._marginal import BaseMarginal, checked_probabilities

# Bins per kernel bandwidth, and the most bins.
_BINS_PER_WIDTH, _MAX_BINS = 12, 1 << 14


@dataclass(frozen=True, eq=False)
class TransformedMarginal(BaseMarginal):
    """Marginal of an increasing function of one coordinate, by change of variables.

    Parameters
    ----------
    base : Marginal
        Of the unconstrained coordinate.
    transform : Elementwise
    """

    base: object
    transform: object

    def __repr__(self):
        return f"TransformedMarginal({self.base!r}, {self.transform!r})"

    def _inside(self, x):
        x = np.asarray(x, dtype=float)
        return x, self.transform.inside(x)

    def component_locations(self):
        """Where the components are: images of their means, shape (n_components,)."""
        return self.transform.forward(self.base.component_locations())

    def component_log_pdf(self, x):
        """Log densities of the components, nats, shape ``(*x.shape, n_components)``."""
        x, inside = self._inside(x)
        n_components = self.base.mixture.n_components
        out = np.full((*x.shape, n_components), -np.inf)
        z = self.transform.inverse(x[inside])
        slope = self.transform.log_derivative(z)
        out[inside] = self.base.component_log_pdf(z) - slope[:, None]
        return out

    def log_pdf(self, x):
        """Log density at x, the shape of x, nats; -inf outside the constraint."""
        x, inside = self._inside(x)
        out = np.full(x.shape, -np.inf)
        z = self.transform.inverse(x[inside])
        out[inside] = self.base.log_pdf(z) - self.transform.log_derivative(z)
        return out[()]

    def cdf(self, x):
        """Probability of values up to x, the shape of x."""
        x, inside = self._inside(x)
        out = np.where(x >= self.transform.high, 1.0, 0.0)
        out[inside] = self.base.cdf(self.transform.inverse(x[inside]))
        return np.where(np.isnan(x), np.nan, out)[()]

    def quantile(self, p):
        """Values with probability `p` below, the shape of p.

        Raises
        ------
        ValueError
            If an entry of p lies outside [0, 1].
        """
        p = checked_probabilities(p)
        theta = self.transform.forward(np.asarray(self.base.quantile(p)))
        theta = np.where(p == 0, self.transform.low, theta)
        return np.where(p == 1, self.transform.high, theta)[()]


@dataclass(frozen=True, eq=False)
class SampledMarginal(BaseMarginal):
    """Marginal of one coordinate of a block, from weighted draws.

    The distribution function and the quantiles are those of the draws, good to about
    1e-3 in probability. The density is a kernel estimate on the scale of `range`, one
    bandwidth for each component, good to a few per cent, and smoother than the truth.

    Parameters
    ----------
    draws, row_weights, source : ndarray of shape (n,)
        Of the coordinate; their weights, which sum to one; their components.
    weights : ndarray of shape (n_components,)
        Of the components.
    range : Elementwise
        Transform whose range the coordinate has.
    """

    draws: np.ndarray
    row_weights: np.ndarray
    source: np.ndarray
    weights: np.ndarray
    range: object

    def __repr__(self):
        return f"SampledMarginal(n={self.draws.size})"

    def component_locations(self):
        """Where the components are: means of their draws, shape (n_components,)."""
        members = [self.source == k for k in range(self.weights.size)]
        return np.array([self.draws[member].mean() for member in members])

    @cached_property
    def _kernels(self):
        """Bin centres, their weights and a bandwidth for each component."""
        ends = np.nextafter([self.range.low, self.range.high], [1.0, 0.0])
        z = self.range.inverse(np.clip(self.draws, *ends))
        return [_binned(z[self.source == k]) for k in range(self.weights.size)]

    @cached_property
    def _empirical_cdf(self):
        """Sorted draws and the probability up to the middle of each."""
        order = np.argsort(self.draws, kind="stable")
        weights = self.row_weights[order]
        return self.draws[order], np.cumsum(weights) - 0.5 * weights

    def component_log_pdf(self, x):
        """Log densities of the components, nats, shape ``(*x.shape, n_components)``."""
        x = np.asarray(x, dtype=float)
        inside = self.range.inside(x)
        out = np.full((*x.shape, self.weights.size), -np.inf)
        z = self.range.inverse(x[inside])
        slope = self.range.log_derivative(z)
        columns = [_log_kernel_sum(z, *kernel) for kernel in self._kernels]
        out[inside] = np.column_stack(columns) - slope[:, None]
        return out

    def log_pdf(self, x):
        """Log density at x, the shape of x, nats; -inf outside the constraint."""
        x = np.asarray(x, dtype=float)
        columns = self.component_log_pdf(x).reshape(x.size, self.weights.size)
        return log_sum_exp(columns, log_weights(self.weights)).reshape(x.shape)[()]

    def cdf(self, x):
        """Probability of values up to x, the shape of x."""
        return np.interp(x, *self._empirical_cdf, left=0.0, right=1.0)[()]

    def quantile(self, p):
        """Values with probability `p` below, the shape of p.

        Raises
        ------
        ValueError
            If an entry of p lies outside [0, 1].
        """
        p = checked_probabilities(p)
        values = np.interp(p, *self._empirical_cdf[::-1])
        values = np.where(p == 0, self.range.low, values)
        return np.where(p == 1, self.range.high, values)[()]


def _binned(z):
    """Draws as weighted bin centres, and a bandwidth by Silverman's rule."""
    width = 0.9 * robust_std(z) * z.size**-0.2
    width = max(width, 1e-12 * max(1.0, np.abs(z).max()))
    n_bins = int(np.clip(_BINS_PER_WIDTH * np.ptp(z) / width, 1, _MAX_BINS))
    counts, edges = np.histogram(z, n_bins)
    full = counts > 0
    centres = 0.5 * (edges[1:] + edges[:-1])
    return centres[full], counts[full] / z.size, width


def _log_kernel_sum(z, centres, weights, width):
    residual = (z[:, None] - centres) / width
    log_kernel = -0.5 * residual**2 - 0.5 * LOG_2PI - np.log(width)
    return log_sum_exp(log_kernel, np.log(weights))
