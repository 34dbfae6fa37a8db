"""Noise of a regression: the log density of a residual, and its expectations.

Notation: z = (y - eta) / sigma is a standardised residual, f its log density, eta the
linear predictor, lambda = ln sigma. The log likelihood of a row is f(z) - lambda.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from skboost._math import LOG_2PI, bounded_exp
from skboost.targets._likelihood import Likelihood
from skboost.targets._quadrature import normal_rule


class NoiseExpectation(NamedTuple):
    """Expected log likelihood of every row, slopes and bends in eta and the log
    scale."""

    value: np.ndarray
    slope: np.ndarray
    slope_scale: np.ndarray
    bend: np.ndarray
    bend_mixed: np.ndarray
    bend_scale: np.ndarray


class Noise(Likelihood):
    """Log density f of a standardised residual z.

    A subclass gives ``log_density(z)``, nats, ``derivatives(z)``, f' and f'',
    ``cdf(z)``, ``quantile(p)`` and ``sample(rng, shape)``.
    """

    n_temporaries = 4
    n_further = 1
    # The residual's standard deviation in units of its scale; inf is legal.
    std = 1.0
    # Half-width in z of the strip around the real line where exp(f) is tame.
    strip = 1.0

    def checked(self, y, n_samples):
        """Responses as an array (n_samples,); a ValueError where they mean nothing."""
        y = np.asarray(y, dtype=float)
        if y.shape != (n_samples,) or not np.isfinite(y).all():
            raise ValueError(
                f"y must hold finite numbers, shape ({n_samples},); got shape "
                f"{y.shape} and values such as {y.ravel()[:5]}."
            )
        # Their squares overflow.
        if np.max(np.abs(y), initial=0.0) > 1e100:
            raise ValueError(
                f"y must hold numbers of 1e100 at most; got {y[np.argmax(np.abs(y))]}. "
                "Scale it."
            )
        return y

    def given(self, level):
        return KnownScale(self, bounded_exp(level))

    def at_draws(self, eta, level, rows, slopes=False):
        """Sums of the log likelihood; with `slopes` also derivatives (dim, n_draws),
        in lambda."""
        precision, mass = bounded_exp(-level), rows.weights.sum()
        z = (rows.y[:, None] - eta) * precision
        found = [rows.sum(self.log_density(z)) - mass * level]
        if slopes:
            first, _ = self.derivatives(z)
            by_level = -mass - rows.sum(z * first)
            found += [-rows.pull(first) * precision, by_level]
        return found

    def scale_rule(self, level, sd, tilt):
        """Nodes and weights for lambda ~ N(level, sd^2), with which eta moves by
        tilt."""
        if sd == 0.0:
            return normal_rule(0.0)
        smallest = self.strip * bounded_exp(level - 2.0 * sd)
        return normal_rule(4.0 * sd / np.pi + np.abs(tilt).max(initial=0.0) / smallest)

    def added_to(self, centre, sd, scale):
        """The response as a mixture (n_rows, n_parts), eta ~ N(centre, sd^2), scale
        known."""
        nodes, weights = normal_rule(sd.max(initial=0.0) / (self.strip * scale))
        centres = centre[:, None] + sd[:, None] * nodes
        return centres, np.full_like(centres, scale), weights

    def expected_with_scale(self, mean, y, variance, covariance, level, level_variance):
        """Expectations where (eta, lambda) of every row is Gaussian."""
        sd = np.sqrt(level_variance)
        tilt = covariance / sd if sd > 0 else np.zeros_like(covariance)
        left = np.sqrt(np.maximum(variance - tilt**2, 0.0))
        total = 0.0
        for node, share in zip(*self.scale_rule(level, sd, tilt), strict=True):
            scale = bounded_exp(level + sd * node)
            inner, shares = normal_rule(left.max(initial=0.0) / (self.strip * scale))
            away = (y - mean - tilt * node)[:, None] - left[:, None] * inner
            z = away / scale
            first, second = self.derivatives(z)
            mixed = first + z * second
            slopes = [-first / scale, -1.0 - z * first]
            bends = [-second / scale**2, -mixed / scale, -z * mixed]
            terms = np.stack([self.log_density(z), *slopes, *bends])
            total = total + share * terms @ shares
        # Lambda itself has the mean `level`.
        total[0] -= level
        return NoiseExpectation(*total)


class NormalNoise(Noise):
    """``f(z) = -z^2 / 2 - ln(2 pi) / 2``; every expectation is closed."""

    # exp(f) is entire, and grows by exp(9 / 2) this far from the real line.
    strip = 3.0

    def log_density(self, z):
        return -0.5 * (z * z + LOG_2PI)

    def derivatives(self, z):
        return -z, -np.ones_like(z)

    def kept_bend(self, z):
        return np.ones_like(z), np.zeros_like(z)

    def cdf(self, z):
        return ndtr(z)

    def quantile(self, p):
        return ndtri(p)

    def sample(self, rng, shape):
        return rng.standard_normal(shape)

    def added_to(self, centre, sd, scale):
        """See `Noise.added_to`: normal noise on a Gaussian is one Gaussian."""
        return centre[:, None], np.hypot(sd, scale)[:, None], np.ones(1)

    def expected_with_scale(self, mean, y, variance, covariance, level, level_variance):
        """See `Noise.expected_with_scale`; exp(-2 lambda) shifts the mean of eta."""
        precision = bounded_exp(2.0 * (level_variance - level))
        shifted = y - mean + 2.0 * covariance
        square = precision * (shifted**2 + variance)
        return NoiseExpectation(
            -0.5 * (LOG_2PI + square) - level,
            precision * shifted,
            square - 1.0,
            np.full_like(mean, precision),
            2.0 * precision * shifted,
            2.0 * square,
        )


class StudentTNoise(Noise):
    """Student-t residuals: outliers are expected, and lose their pull."""

    def __init__(self, df):
        self.df = df
        self.strip = np.sqrt(df)
        self.std = np.sqrt(df / (df - 2.0)) if df > 2.0 else np.inf
        self._constant = (
            gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * np.log(np.pi * df)
        )

    def log_density(self, z):
        return self._constant - 0.5 * (self.df + 1.0) * np.log1p(z * z / self.df)

    def derivatives(self, z):
        shrink = (self.df + 1.0) / (self.df + z * z)
        return -z * shrink, shrink * (2.0 * z * z / (self.df + z * z) - 1.0)

    def kept_bend(self, z):
        """-f''(z), bent so that it stays positive where that is zero, and its
        derivative."""
        total = self.df + z * z
        _, second = self.derivatives(z)
        slope = 2.0 * (self.df + 1.0) * z * (z * z - 3.0 * self.df) / total**3
        size = np.hypot(second, 0.1 * (self.df + 1.0) / self.df)
        kept = 0.5 * (size - second)
        return kept, kept * slope / size

    def cdf(self, z):
        if self.df != 4.0:
            return stdtr(self.df, z)
        # The closed form of four degrees of freedom takes a tenth of the time.
        z = np.clip(z, -1e100, 1e100)
        square = z * z + 4.0
        sine = np.abs(z) / np.sqrt(square)
        tail = (4.0 / (square * (1.0 + sine))) ** 2 * (0.5 + 0.25 * sine)
        return np.where(z < 0.0, tail, 1.0 - tail)

    def quantile(self, p):
        return stdtrit(self.df, p)

    def sample(self, rng, shape):
        return rng.standard_t(self.df, shape)


class KnownScale(Likelihood):
    """A regression whose noise scale is given: one linear predictor, nothing else."""

    # Steps by `climb_bend` never go down.
    longest_step = np.inf

    def __init__(self, noise, scale):
        self.noise, self.scale = noise, scale

    def value_and_slope(self, eta, y):
        z = (y - eta) / self.scale
        slope = -self.noise.derivatives(z)[0] / self.scale
        return self.noise.log_density(z) - np.log(self.scale), slope

    def expected(self, mean, sd, y):
        found = self.noise.expected_with_scale(
            mean, y, sd**2, np.zeros_like(mean), np.log(self.scale), 0.0
        )
        return found.value, found.slope, found.bend

    # Residuals of heavy tails have curvatures below zero, and a Hessian may be near
    # singular: what Laplace's method divides by stays positive (see Vanhatalo, Jylänki
    # and Vehtari 2009, Advances in Neural Information Processing Systems 22). Steps go
    # by weights of the normal distributions that such noise is a mixture of (Lange,
    # Little and Taylor 1989, Journal of the American Statistical Association 84).

    def bend(self, eta, y):
        return self.noise.kept_bend((y - eta) / self.scale)[0] / self.scale**2

    def true_bend(self, eta, y):
        """Minus the second derivative."""
        return -self.noise.derivatives((y - eta) / self.scale)[1] / self.scale**2

    def climb_bend(self, eta, y):
        square = (y - eta) ** 2 / self.noise.df
        return (1.0 + 1.0 / self.noise.df) / (self.scale**2 + square)

    def third(self, eta, y):
        return self.noise.kept_bend((y - eta) / self.scale)[1] / self.scale**3

    def by_level(self, eta, value, slope, y):
        return ((y - eta) * slope - 1.0)[None]

    def curves_by_level(self, eta, y):
        z = (y - eta) / self.scale
        first, second = self.noise.derivatives(z)
        kept, slope = self.noise.kept_bend(z)
        by_slope = (first + z * second) / self.scale
        return by_slope[None], -(2.0 * kept + z * slope)[None] / self.scale**2


# By the public name. With four degrees of freedom a residual of ten scales pulls less
# than one of two, and a variance is left; fewer mistake skewed noise for outliers.
NOISES = {"normal": NormalNoise, "student_t": lambda: StudentTNoise(4.0)}
