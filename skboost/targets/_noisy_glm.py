"""Log joint density of a regression whose noise scale is a parameter too.

Notation: theta = (coef..., intercept, lambda) with lambda the logarithm of the noise
scale, or of the dispersion of counts; beta is theta without lambda.
"""

from functools import partial

import numpy as np
from scipy.special import gammaln

from skboost._math import bounded_exp
from skboost.targets._design import signed_gram
from skboost.targets._glm import GLMTarget, RowSums
from skboost.targets._priors import Prior, PriorExpectation


class NoiseScalePrior:
    """Scaled inverse chi-squared distribution of sigma^2, as a density of ln sigma.

    Its logarithm is that of `weight` rows whose residuals have the size `scale`: it
    keeps sigma from zero where a fit is perfect.

    Parameters
    ----------
    weight : float
        Degrees of freedom; 0 is no prior.
    scale : float

    References
    ----------
    Gelman et al., Bayesian Data Analysis, 3rd edition, 2013, section 2.6.
    """

    def __init__(self, weight, scale):
        self.weight, self.scale = weight, scale
        half = 0.5 * weight
        self._constant = 0.0
        if weight > 0:
            self._constant = (
                np.log(2.0) + half * np.log(half * scale**2) - gammaln(half)
            )

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


class WithNoiseScale(Prior):
    """A prior of the coefficients with one of lambda after them.

    Parameters
    ----------
    coef : Prior
    noise_scale : NoiseScalePrior or DispersionPrior
    """

    def __init__(self, coef, noise_scale):
        self.coef, self.noise_scale = coef, noise_scale
        self.closed = coef.closed

    def given(self, scale, s):
        """See `CommonScale.given`."""
        coef, inner = self.coef.given(scale[:-1], s)
        return WithNoiseScale(coef, self.noise_scale), np.append(inner, scale[-1])

    def log_posterior(self, theta, scale):
        """See `CommonScale.log_posterior`."""
        return self.coef.log_posterior(theta[:, :-1], scale[:-1])

    def value_and_score(self, theta, scale):
        value, score = self.coef.value_and_score(theta[:, :-1], scale[:-1])
        more, slope = self.noise_scale.value_and_score(theta[:, -1])
        return value + more, np.column_stack([score, slope])

    def expected(self, mean, variance, scale):
        coef = self.coef.expected(mean[:-1], variance[:-1], scale[:-1])
        value, *slopes = self.noise_scale.expected(mean[-1], variance[-1])
        d_mean, d_variance = slopes
        return PriorExpectation(
            coef.value + float(value),
            np.append(coef.d_mean, d_mean),
            np.append(coef.d_variance, d_variance),
        )


class NoisyRowSums(RowSums):
    """`RowSums` of a model whose last parameter is the log noise scale."""

    n_temporaries = 2

    def value(self, beta, level, table):
        """Log likelihood of every draw."""
        data = self.rows(table)
        return self.likelihood.at_draws(data.block.predict(beta), level, data)

    def value_and_slope(self, beta, level, table):
        """The same and its slopes, in the log noise scale and in beta."""
        data = self.rows(table)
        eta = data.block.predict(beta)
        return self.likelihood.at_draws(eta, level, data, slopes=True)

    # --- under Gaussians

    def expected(self, mean, variance, factor, table):
        """See `RowSums.expected`."""
        block = self.rows(table).block
        e, spread = self._expected_rows(table, mean, variance, factor)
        slope = np.append(block.pull(e.slope), e.slope_scale.sum())
        result = [e.value.sum(), slope]
        if variance is not None:
            bend = np.append(block.pull_squares(e.bend), e.bend_scale.sum())
            result.append(-0.5 * bend)
        if factor is not None:
            by_scale = e.bend_mixed @ spread + e.bend_scale.sum() * factor[-1]
            spread *= e.bend[:, None]
            spread += e.bend_mixed[:, None] * factor[-1]
            result.append(-np.vstack([block.pull(spread), by_scale]))
        return result

    def values(self, gaussians, table):
        """See `RowSums.values`."""
        found = []
        for mean, shape, scale in gaussians.members:
            variance, factor = gaussians.shapes[shape]
            factor = None if factor is None else np.sqrt(scale) * factor
            e, _ = self._expected_rows(table, mean, variance, factor)
            found.append(e.value.sum())
        return (np.array(found),)

    def curvature(self, mean, factor, table):
        """See `RowSums.curvature`."""
        block = self.rows(table).block
        e, _ = self._expected_rows(table, mean, None, factor)
        curvature = np.empty((len(mean), len(mean)))
        curvature[:-1, :-1] = signed_gram(block, e.bend)
        curvature[-1, :-1] = curvature[:-1, -1] = block.pull(e.bend_mixed)
        curvature[-1, -1] = e.bend_scale.sum()
        slope = np.append(block.pull(e.slope), e.slope_scale.sum())
        return e.value.sum(), slope, curvature

    def _expected_rows(self, table, mean, variance, factor):
        """Weighted `NoiseExpectation` of rows, and what the factor makes of them."""
        data = self.rows(table)
        block = data.block
        centre = block.predict(mean[:-1])
        spread, total = None, np.zeros_like(centre)
        covariance, level_variance = np.zeros_like(centre), 0.0
        if variance is not None:
            total += block.apply_squares(variance[:-1])
            level_variance += variance[-1]
        if factor is not None:
            spread = block.apply(factor[:-1])
            total += np.einsum("ij,ij->i", spread, spread)
            covariance = spread @ factor[-1]
            level_variance += factor[-1] @ factor[-1]
        found = self.likelihood.expected_with_scale(
            centre, data.y, total, covariance, mean[-1], level_variance
        )
        return type(found)(*(data.weights * part for part in found)), spread


class NoisyGLMTarget(GLMTarget):
    """Log joint density of a regression with an unknown noise scale or dispersion.

    Gaussian expectations are exact: for normal noise in closed form, for counts by one
    integral in one dimension, else by a product rule over the two Gaussian variables
    of a row, eta and lambda.

    Parameters
    ----------
    X, y
        As in `GLMTarget`.
    noise : Noise or NegativeBinomial
    noise_scale_prior : NoiseScalePrior or DispersionPrior
    **settings
        As in `GLMTarget`; `scale` is that of coefficients and intercept.

    Attributes
    ----------
    dim : int
        n_features [+ 1] + 1: the last parameter is the log noise scale.
    """

    _kind_of_sums = NoisyRowSums

    def __init__(self, X, y, noise, noise_scale_prior, **settings):
        super().__init__(X, y, noise, **settings)
        self.prior = WithNoiseScale(self.prior, noise_scale_prior)
        self.scale = np.append(self.scale, 1.0)
        self.dim += 1
        # The noise scale is an exponential.
        self.light_tails = True

    @property
    def scale_prior(self):
        """The `CommonScale` of the coefficients, where they have one."""
        return None if self.prior.closed else self.prior.coef

    def _log_likelihood(self, theta):
        return self._sums_at_draws(theta, self._sums.value)[0]

    def _value_and_slope(self, theta):
        value, by_scale, by_beta = self._sums_at_draws(
            theta, self._sums.value_and_slope
        )
        return value, np.column_stack([by_beta.T, by_scale])

    def _sums_at_draws(self, theta, func):
        beta, level = np.ascontiguousarray(theta[:, :-1].T), theta[:, -1]
        part = partial(func, beta, level)
        return self.rows.sum(part, 4 * len(theta), theta.size)
