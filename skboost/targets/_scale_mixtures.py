"""Priors as mixtures of normal distributions over scales.

A Laplace distribution is normal with an exponential variance, Student's t with an
inverse gamma one (Andrews and Mallows 1974); on a grid of the logarithm of the variance
all expectations are closed.
"""

from dataclasses import dataclass

import numpy as np

from skboost._math import LOG_2PI, log_sum_exp

# Step of the grid, and the largest logarithm of a variance: a deviation of 3,000.
_STEP, _HIGHEST = 0.5, 16.0
# Logarithms of local scales of the horseshoe: the density of sixteen is within 2 % of
# that of all, from a hundredth of the scale up to a hundred times it.
_LOCAL = np.linspace(-5.0, 6.0, 16)


@dataclass(frozen=True)
class ScaleMixture:
    """Log weights and log variances of normal distributions; the widest is the base."""

    log_weights: np.ndarray
    log_variances: np.ndarray

    @property
    def width(self):
        """Standard deviation of the widest."""
        return np.exp(0.5 * self.log_variances[-1])

    def log_evidence(self, mean, variance):
        """``ln E f(x)`` for Gaussian x, its slope in the mean and minus its bend."""
        fall = self._fall
        shrunk = 1.0 + fall * variance[..., None]
        pull = fall / shrunk
        logs = self._heights - 0.5 * (np.log(shrunk) + mean[..., None] ** 2 * pull)
        value, share = _summed(logs)
        first = (share * pull).sum(axis=-1)
        spread = (share * (pull - first[..., None]) ** 2).sum(axis=-1)
        # Tails that are wider than the cavity would have sites of negative precision.
        return value, -mean * first, np.maximum(first - mean**2 * spread, 0.0)

    def expected_log(self, mean, variance):
        """A lower bound of ``E ln f(x)``, which is convex in the square of x."""
        square = (mean**2 + variance)[..., None]
        value, share = _summed(self._heights - 0.5 * self._fall * square)
        first = share @ self._fall
        return value, -mean * first, first

    def log_density(self, z):
        """Log density and score of points, arrays like them."""
        logs = self.log_weights - 0.5 * (
            self.log_variances + z[..., None] ** 2 * np.exp(-self.log_variances)
        )
        value, share = _summed(logs)
        return value - 0.5 * LOG_2PI, -z * (share @ np.exp(-self.log_variances))

    @property
    def _fall(self):
        return np.exp(-self.log_variances) - 1.0 / self.width**2

    @property
    def _heights(self):
        """Logarithms of the parts at zero, over the widest."""
        return self.log_weights - 0.5 * (self.log_variances - self.log_variances[-1])


def _summed(logs):
    """Logarithms of sums of exponentials over the last axis, and shares of it."""
    value = log_sum_exp(logs.reshape(-1, logs.shape[-1])).reshape(logs.shape[:-1])
    return value, np.exp(logs - value[..., None])


def laplace_mixture():
    """The Laplace distribution of scale 1."""
    log_v = np.arange(-16.0, 5.0, _STEP)
    log_density = log_v - np.log(2.0) - 0.5 * np.exp(log_v)
    return ScaleMixture(log_density + np.log(_STEP), log_v)


def student_t_mixture(df):
    """Student's t distribution of scale 1."""
    # With many degrees of freedom the variance is all but known.
    step = np.clip(1.0 / np.sqrt(df), 1e-3, _STEP)
    highest = max(_HIGHEST, 80.0 / df)
    log_v = step * np.arange(-0.5 * _HIGHEST / step, highest / step).round()
    height = -0.5 * df * (log_v + np.exp(-log_v))
    height -= log_sum_exp(height[None])
    matters = (height > height.max() - 40.0) & (log_v < _HIGHEST)
    return ScaleMixture(height[matters], log_v[matters])


def horseshoe_mixture():
    """The horseshoe of scale 1: a half-Cauchy distribution of the deviation."""
    height = _LOCAL - np.log1p(np.exp(2.0 * _LOCAL))
    return ScaleMixture(height - log_sum_exp(height[None]), 2.0 * _LOCAL)
