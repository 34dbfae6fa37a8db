"""Log joint density of a regression whose noise scale is a parameter too.

Notation: theta = (coef..., intercept, lambda) with lambda the logarithm of the noise
scale, or of the dispersion of counts; beta is theta without lambda.
"""

import numpy as np
from scipy.special import gammaln

from skboost._math import bounded_exp
from skboost.targets._design import GaussianPredictors, signed_gram
from skboost.targets._glm import GLMTarget, RowSums, WithFurther
from skboost.targets._priors import PriorExpectation
from skboost.targets._scale_priors import CheckedPrior


class NoiseScalePrior(CheckedPrior):
    """Scaled inverse chi-squared prior of the square of a noise scale.

    Its logarithm is that of `weight` rows whose residuals have the size `scale`: it
    keeps the noise scale from zero where a fit is perfect.

    Parameters
    ----------
    weight : float, default=1.0
        Degrees of freedom, in rows.
    scale : "auto" or float, default="auto"
        Size of the residuals of these rows, in the unit of the responses; ``"auto"`` is
        a hundredth of their standard deviation, below which noise is rare.

    References
    ----------
    Gelman et al., Bayesian Data Analysis, 3rd edition, 2013, section 2.6.

    Examples
    --------
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.priors import NoiseScalePrior
    >>> model = BoostedBayesianLinearRegression(noise_prior=NoiseScalePrior(weight=2.0))
    """

    def __init__(self, weight=1.0, scale="auto"):
        self.weight = weight
        self.scale = scale

    def flat(self):
        """No prior, in the same form."""
        return NoiseScalePrior(0.0, self.scale)

    @property
    def _constant(self):
        if self.weight == 0.0:
            return 0.0
        half = 0.5 * self.weight
        return np.log(2.0) + half * np.log(half * self.scale**2) - gammaln(half)

    def value_and_score(self, level):
        """Log density in nats and its derivative, arrays like ``level``."""
        square = self.scale**2 * bounded_exp(-2.0 * level)
        value = self._constant - self.weight * (level + 0.5 * square)
        return value, self.weight * (square - 1.0)

    def expected(self, mean, variance):
        """Expected log density where ln sigma ~ N(mean, variance), and derivatives."""
        square = self.scale**2 * bounded_exp(2.0 * (variance - mean))
        value = self._constant - self.weight * (mean + 0.5 * square)
        return value, self.weight * (square - 1.0), -self.weight * square


def as_noise_prior(given, spread, weight=1.0):
    """The `NoiseScalePrior` that is given, or one of this weight and the deviation."""
    prior = NoiseScalePrior(weight) if isinstance(given, str) else given
    scale = 1e-2 * spread if isinstance(prior.scale, str) else prior.scale
    return NoiseScalePrior(prior.weight, scale).checked()


class WithNoiseScale(WithFurther):
    """A prior of the coefficients with one of lambda after them."""

    def _of_further(self, theta, scale):
        value, slope = self.further.value_and_score(theta[:, 0])
        return value, slope[:, None]

    def expected(self, mean, variance, scale):
        coef = self.coef.expected(mean[:-1], variance[:-1], scale[:-1])
        value, d_mean, d_variance = self.further.expected(mean[-1], variance[-1])
        return PriorExpectation(
            coef.value + float(value),
            np.append(coef.d_mean, d_mean),
            np.append(coef.d_variance, d_variance),
        )


class NoisyRowSums(RowSums):
    """`RowSums` of a model whose last parameter is the log noise scale."""

    n_temporaries = 2

    def linear(self, table):
        """See `RowSums.linear`: at draws nothing is left out of the sums."""
        return np.zeros(table.n_features + self.intercept + 1), 0.0

    def value(self, columns, table):
        """See `RowSums.value`; the last of the columns is the log noise scale."""
        data, theta = self.rows(table), columns[0]
        return self.likelihood.at_draws(data.block.predict(theta[:-1]), theta[-1], data)

    def value_and_slope(self, columns, table):
        """See `RowSums.value_and_slope`."""
        data, theta = self.rows(table), columns[0]
        value, by_beta, by_level = self.likelihood.at_draws(
            data.block.predict(theta[:-1]), theta[-1], data, slopes=True
        )
        return value, np.vstack([by_beta, by_level])

    # --- under Gaussians

    def expected(self, mean, variance, factor, table):
        """See `RowSums.expected`."""
        given, e = self._expected_rows(table, mean, variance, factor)
        block = given.block
        slope = np.append(block.pull(e.slope), e.slope_scale.sum())
        result = [e.value.sum(), slope]
        if variance is not None:
            bend = np.append(block.pull_squares(e.bend), e.bend_scale.sum())
            result.append(-0.5 * bend)
        if factor is not None:
            spread = given.spread[0]
            by_scale = e.bend_mixed @ spread + e.bend_scale.sum() * factor[-1]
            spread *= e.bend[:, None]
            spread += e.bend_mixed[:, None] * factor[-1]
            result.append(-np.vstack([block.pull(spread), by_scale]))
        return result

    def curvature(self, mean, factor, table):
        """See `RowSums.curvature`."""
        given, e = self._expected_rows(table, mean, None, factor)
        block = given.block
        edge = block.pull(e.bend_mixed)[None]
        curvature = np.block(
            [[signed_gram(block, e.bend), edge.T], [edge, e.bend_scale.sum()]]
        )
        slope = np.append(block.pull(e.slope), e.slope_scale.sum())
        return e.value.sum(), slope, curvature

    def _expected_rows(self, table, mean, variance, factor):
        """`GaussianPredictors` of the rows, and their weighted `NoiseExpectation`."""
        data = self.rows(table)
        parts = (None if part is None else part[:-1] for part in (variance, factor))
        given = GaussianPredictors(data.block, 1, mean[:-1], *parts)
        covariance, level_variance = np.zeros(len(data.y)), 0.0
        if variance is not None:
            level_variance += variance[-1]
        if factor is not None:
            covariance = given.spread[0] @ factor[-1]
            level_variance += factor[-1] @ factor[-1]
        moments = given.covariance[0], covariance, mean[-1], level_variance
        found = self.likelihood.expected_with_scale(given.mean[0], data.y, *moments)
        return given, type(found)(*(data.weights * part for part in found))


class NoisyGLMTarget(GLMTarget):
    """Log joint density of a regression with an unknown noise scale or dispersion.

    Its logarithm is the last parameter; `scale` is that of coefficients and intercept.
    Gaussian expectations are exact, or by rules over eta and lambda.
    """

    _kind_of_sums = NoisyRowSums

    def __init__(self, rows, noise, noise_scale_prior, **settings):
        super().__init__(rows, noise, **settings)
        self._extend(WithNoiseScale(self.prior, noise_scale_prior), np.ones(1))
