"""Counts that vary more than Poisson counts: the negative binomial likelihood.

Notation: mu = exp(eta) is the mean of a count, alpha its dispersion: the variance is
mu + alpha mu^2. lambda = ln alpha, r = 1 / alpha, t = eta + lambda, and
s(t) = ln(1 + exp(t)), whose derivative is sigma(t). A Poisson rate that is mu times a
gamma variable of mean 1 and variance alpha gives such counts.

    ln p(y) = y eta - (y + r) s(t) + D(y, r) - ln(y!)
    D(y, r) = ln Gamma(y + r) - ln Gamma(r) - y ln r
"""

import numpy as np
from scipy.special import digamma, expit, gammaln, polygamma
from sklearn.base import clone

from skboost._math import LOG_2PI, bounded_exp
from skboost.targets._likelihood import Likelihood
from skboost.targets._logistic_gaussian import logistic_gaussian_expectations
from skboost.targets._noise import NoiseExpectation
from skboost.targets._quadrature import normal_rule
from skboost.targets._scale_priors import CheckedPrior

# Beyond it differences of gamma functions cancel, and their expansions are exact.
_LARGE = 100.0


class NegativeBinomial(Likelihood):
    """Counts with a dispersion that all rows share; for `NoisyGLMTarget`.

    Model NB2 of Cameron and Trivedi 2013, section 3.3, also of counts that are no
    integers.
    """

    n_further = 1
    n_temporaries = 4

    def linear(self, y):
        return y

    def given(self, level):
        return GivenDispersion(_bounded(level))

    def own_terms(self, y, weight, level):
        """What eta does not enter, D(y, r) - ln(y!), over rows; its slope in lambda."""
        # What depends on the count alone is computed once for equal counts.
        counts, code = np.unique(y, return_inverse=True)
        weight = np.bincount(code, weight)
        own, slope, _ = gamma_terms(counts[:, None], bounded_exp(-level), False)
        return weight @ (own - gammaln(counts + 1.0)[:, None]), -(weight @ slope)

    def log_probability(self, y, eta, level):
        """ln p(y) of arrays that are broadcast against each other, nats."""
        level = _bounded(level)
        shape = bounded_exp(-level)
        soft = np.logaddexp(0.0, eta + level)
        own = gamma_terms(y, shape, False)[0] - gammaln(y + 1.0)
        return y * eta - (y + shape) * soft + own

    def at_draws(self, eta, level, rows, slopes=False):
        """See `Noise.at_draws`."""
        level = _bounded(level)
        y, shape = rows.y[:, None], bounded_exp(-level)
        own, slope = self.own_terms(rows.y, rows.weights, level)
        soft = np.logaddexp(0.0, eta + level)
        found = [rows.sum(y * eta - (y + shape) * soft) + own]
        if slopes:
            pulled = (y + shape) * np.exp(eta + level - soft)
            by_level = rows.sum(shape * soft - pulled) + slope
            found += [rows.pull(y - pulled), by_level]
        return found

    def expected_with_scale(self, mean, y, variance, covariance, level, level_variance):
        """Expectations where (eta, lambda) of every row is Gaussian: r only shifts
        t's mean."""
        level = _bounded(level)
        sd = np.sqrt(np.maximum(variance + 2.0 * covariance + level_variance, 0.0))
        shape = bounded_exp(0.5 * level_variance - level)
        t = mean + level
        soft, sigmoid, bend = logistic_gaussian_expectations(t, sd)
        tilted = logistic_gaussian_expectations(t - covariance - level_variance, sd)
        r_soft, r_sigmoid, r_bend = (shape * part for part in tilted)
        own, by_level, by_level_twice = _expected_gamma_terms(y, level, level_variance)
        pulled, bent = y * sigmoid + r_sigmoid, y * bend + r_bend
        return NoiseExpectation(
            y * (mean - soft) - r_soft + own - gammaln(y + 1.0),
            y - pulled,
            r_soft - pulled + by_level,
            bent,
            bent - r_sigmoid,
            bent - 2.0 * r_sigmoid + r_soft - by_level_twice,
        )


def _bounded(level):
    """Logarithms of dispersions within the wall of `bounded_exp`."""
    return np.clip(level, -300.0, 300.0)


class GivenDispersion(Likelihood):
    """The likelihood of a row at a dispersion for each draw, but for terms without
    eta."""

    log_concave = True

    def __init__(self, level):
        self.level, self.shape = level, bounded_exp(-level)

    def value_and_slope(self, eta, y):
        odds = bounded_exp(eta + self.level)
        # Far out the bounded exponential is too small, and the sum is its exponent.
        soft = np.maximum(np.log1p(odds), eta + self.level)
        return -(y + self.shape) * soft, -(y + self.shape) * odds / (1.0 + odds)

    def bend(self, eta, y):
        odds = bounded_exp(eta + self.level)
        return (y + self.shape) * odds / (1.0 + odds) / (1.0 + odds)

    def third(self, eta, y):
        odds = bounded_exp(eta + self.level)
        return self.bend(eta, y) * (odds - 1.0) / (1.0 + odds)

    def by_level(self, eta, value, slope, y):
        """Derivative in lambda of the value, from what `value_and_slope` returns."""
        return (slope - value * self.shape / (y + self.shape))[None]

    def curves_by_level(self, eta, y):
        """Derivatives in lambda of the slope and of the bend."""
        share = expit(eta + self.level)
        bend = self.bend(eta, y)
        rest = self.shape * share * (1.0 - share)
        slope = self.shape * share - bend
        return slope[None], (bend * (1.0 - 2.0 * share) - rest)[None]


class DispersionPrior(CheckedPrior):
    """Log-normal prior of the dispersion of counts.

    With the defaults rates of equal rows vary by about half, and with prior probability
    .9 by 10 to 260 %.

    Parameters
    ----------
    median : float, default=0.25
        Of the dispersion.
    sd : float, default=2.0
        Standard deviation of its logarithm.

    Examples
    --------
    >>> from skboost import BoostedBayesianPoissonRegression
    >>> from skboost.priors import DispersionPrior
    >>> model = BoostedBayesianPoissonRegression(
    ...     likelihood="negative_binomial", dispersion_prior=DispersionPrior(median=0.5)
    ... )
    """

    def __init__(self, median=0.25, sd=2.0):
        self.median = median
        self.sd = sd

    def flat(self):
        """No prior, in the same form."""
        return DispersionPrior(self.median, np.inf)

    def value_and_score(self, level):
        """Log density in nats and its derivative, arrays like ``level``."""
        constant = 0.0 if np.isinf(self.sd) else -np.log(self.sd) - 0.5 * LOG_2PI
        shift, precision = level - np.log(self.median), self.sd**-2.0
        return constant - 0.5 * precision * shift**2, -precision * shift

    def expected(self, mean, variance):
        """Expected log density where ln alpha ~ N(mean, variance), and derivatives."""
        value, slope = self.value_and_score(mean)
        half = 0.5 * self.sd**-2.0
        return value - half * variance, slope, -half


def as_dispersion_prior(given):
    """The `DispersionPrior` that a user has given, "auto" for the default."""
    return DispersionPrior() if isinstance(given, str) else clone(given).checked()


def gamma_terms(y, shape, bends=True):
    """D(y, r), r D'(r) and r^2 D''(r), the last without meaning unless `bends`."""
    y, shape = np.broadcast_arrays(np.asarray(y, float), np.asarray(shape, float))
    found = np.empty((3, *y.shape))
    large = shape > _LARGE
    found[:, large] = _expanded(y[large], shape[large])
    y, r = y[~large], shape[~large]
    found[0, ~large] = gammaln(y + r) - gammaln(r) - y * np.log(r)
    found[1, ~large] = r * (digamma(y + r) - digamma(r)) - y
    if bends:
        found[2, ~large] = r**2 * (polygamma(1, y + r) - polygamma(1, r)) + y
    return found


def _expanded(y, r):
    """The same by Stirling's series, whose leading terms are subtracted exactly."""
    log, both = np.log1p(y / r), y + r
    value = (both - 0.5) * log - y
    first = r * log - y + 0.5 * y / both
    second = y**2 / both - 0.5 * y * (y + 2.0 * r) / both**2
    for k, c in ((1, 1 / 12), (3, -1 / 360), (5, 1 / 1260)):
        # Of c / x^k at both ends; the powers of r make it small.
        ratio, small = (r / both) ** k, c * (1.0 / r) ** k
        value += small * (ratio - 1.0)
        first -= small * k * (ratio * r / both - 1.0)
        second += small * k * (k + 1) * (ratio * (r / both) ** 2 - 1.0)
    return value, first, second


def _expected_gamma_terms(y, level, level_variance):
    """E D, E dD/dlambda and E d2D/dlambda2 of every count, arrays (n_rows,)."""
    sd = np.sqrt(level_variance)
    # As functions of lambda the terms have their poles at an imaginary part of pi.
    nodes, weights = normal_rule(sd / np.pi)
    counts, code = np.unique(y, return_inverse=True)
    shape = bounded_exp(-(level + sd * nodes))
    own, first, second = gamma_terms(counts[:, None], shape) @ weights
    return own[code], -first[code], (first + second)[code]
