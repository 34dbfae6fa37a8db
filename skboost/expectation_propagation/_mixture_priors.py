"""Expectation propagation under priors that are mixtures of normal ones over scales.

Every coefficient is a linear predictor itself, whose site is that of its prior. A
Laplace distribution is normal with an exponential variance, Student's t with an inverse
gamma one (Andrews and Mallows 1974); on a grid of the logarithm of the variance all
expectations are closed.
"""

from dataclasses import dataclass

import numpy as np

from skboost._math import LOG_2PI, log_sum_exp
from skboost.expectation_propagation import _probits
from skboost.expectation_propagation._fits import Sites
from skboost.expectation_propagation._predictors import Moments, Predictors, Primal
from skboost.expectation_propagation._scales import SignedRows

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


@dataclass(frozen=True)
class MixedDual(Predictors):
    """Rows, and after them coefficients of deviation `width` in units of the prior.

    By the covariance matrix of the rows: for more coefficients than rows.
    """

    width: float

    def of(self, which):
        """See `Predictors`."""
        return MixedDual(self.scaled[which], self.scales[which], self.width)

    def _solved(self, precision, shift):
        """Means and, without rows, variances of coefficients in units of the prior.

        With them what rows take from these, twice a matrix of rows, and
        ``ln |I + T K|``.
        """
        n, back = self.scaled.shape[1], self.scaled.transpose(0, 2, 1)
        own = 1.0 + self.width**2 * precision[:, n:]
        free, root = 1.0 / own, np.sqrt(precision[:, :n])
        narrowed = self.scaled * free[:, None, :]
        inner = root[:, :, None] * (narrowed @ back) * root[:, None, :]
        factor = np.linalg.cholesky(inner + np.eye(n))
        log_det = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        log_det += np.log(own).sum(axis=1)
        taken = np.linalg.inv(factor) @ (root[:, :, None] * narrowed)
        pulled = self._pulled(shift[:, :n]) + self.width * shift[:, n:]
        seen = taken @ pulled[:, :, None]
        mean = free * pulled - (taken.transpose(0, 2, 1) @ seen)[:, :, 0]
        return mean, free, taken, log_det

    def moments(self, precision, shift):
        """`Moments` given sites."""
        mean, free, taken, log_det = self._solved(precision, shift)
        back = self.scaled.transpose(0, 2, 1)
        rows = np.einsum("gnp,gp,gnp->gn", self.scaled, free, self.scaled)
        rows = rows - ((taken @ back) ** 2).sum(axis=1)
        own = self.width**2 * (free - (taken**2).sum(axis=1))
        mean = (self.scaled @ mean[:, :, None])[:, :, 0], self.width * mean
        return Moments(np.hstack(mean), np.hstack([rows, own]), log_det)

    def marginals(self, precision, shift):
        """Means and variances (n_priors, dim) of the parameters given sites."""
        mean, free, taken, _ = self._solved(precision, shift)
        variance = np.maximum(free - (taken**2).sum(axis=1), 1e-12 * free)
        return self.scales * mean, self.scales**2 * variance

    def posterior(self, precision, shift):
        """Means (n_priors, dim) and covariances of the parameters given sites."""
        mean, free, taken, _ = self._solved(precision, shift)
        taken = taken * self.scales[:, None, :]
        covariance = -taken.transpose(0, 2, 1) @ taken
        every = np.arange(free.shape[1])
        covariance[:, every, every] += self.scales**2 * free
        return self.scales * mean, covariance


@dataclass(frozen=True)
class MixedRows(SignedRows):
    """`SignedRows` of coefficients under a `ScaleMixture`, `marginal` without room."""

    mixture: ScaleMixture
    marginal: bool = False

    @property
    def counts(self):
        """How often the factor of every site counts."""
        return np.append(self.weights, np.ones(self.X.shape[1]))

    def evidence(self, mean, variance):
        """`log_evidence` of rows and, after them, of the prior's factors."""
        return self._of_both("log_evidence", mean, variance)

    def expected(self, mean, variance):
        """`expected_log` of rows and, after them, of the prior's factors."""
        return self._of_both("expected_log", mean, variance)

    def _of_both(self, name, mean, variance):
        n = len(self.X)
        rows = getattr(_probits, name)(mean[:, :n] + self.offset, variance[:, :n])
        prior = getattr(self.mixture, name)(mean[:, n:], variance[:, n:])
        return tuple(map(np.hstack, zip(rows, prior, strict=True)))

    def initial(self, n_priors):
        """Sites to begin with, those of the coefficients after those of the rows."""
        n_rows, dim = self.X.shape
        sites = Sites.initial(n_priors, n_rows + dim)
        sites.precision[:, n_rows:], sites.shift[:, n_rows:] = 1.0, 0.0
        return sites

    def too_wide(self, predictors):
        """See `SignedRows`: the widest part of a prior says nothing."""
        return np.zeros(len(predictors.scales), dtype=bool)

    def predictors(self, variances):
        """Those of the rows and the coefficients, for squared scales of the prior."""
        width = self.mixture.width
        scales = width * np.sqrt(variances)
        if len(self.X) < scales.shape[1]:
            return MixedDual(self.X * scales[:, None, :], scales, width)
        own = np.tile(width * np.eye(scales.shape[1]), (len(scales), 1, 1))
        rows = np.concatenate([self.X * scales[:, None, :], own], axis=1)
        return Primal(rows, scales)
