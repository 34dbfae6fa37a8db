"""The exact posterior of a linear model whose noise is not known either."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student_t

from skboost.families import Component, FullGaussian, StudentT
from skboost.online._streams import FullStream, dense


@dataclass(frozen=True)
class ConjugateStream(FullStream):
    """Normal-inverse-gamma posterior of coefficients and noise variance."""

    # Shape and rate of the variance, and those of the prior. Precisions and covariances
    # are in units of the noise, so that the loss of the rule is ``GaussianLoss(1.0)``.
    noise: np.ndarray | None = None
    prior_noise: np.ndarray | None = None

    _constant = ("prior", "prior_noise")

    @classmethod
    def begin(cls, rule, scale, noise):
        """The prior; `scale` is in units of the noise."""
        noise = np.asarray(noise, dtype=float)
        return replace(super().begin(rule, scale), noise=noise, prior_noise=noise)

    def losses(self, record, y):
        """``-ln p(y)`` under the predictive Student-t density of every row, nats."""
        location, scale, df = record.T
        return -student_t.logpdf(y, df, location, scale)

    @property
    def noise_variance(self):
        """Posterior mean of the variance of the noise; inf where there is none."""
        shape, rate = self.noise
        return rate / (shape - 1.0) if shape > 1.0 else np.inf

    @property
    def noise_scale(self):
        """Inverse root of the noise precision's posterior mean."""
        shape, rate = self.noise
        return float(np.sqrt(rate / shape))

    @property
    def spread_factor(self):
        variance = self.noise_variance
        return variance if np.isfinite(variance) else 1.0

    def predictor_std(self, std):
        # Infinite where the noise's variance is, but for predictors that are known.
        known = np.zeros_like(std)
        return np.multiply(np.sqrt(self.noise_variance), std, out=known, where=std > 0)

    def response(self, mean, std):
        shape, rate = self.noise
        return mean, np.sqrt(rate / shape * (1.0 + std**2)), 2.0 * shape

    @property
    def component(self):
        shape, rate = self.noise
        # The scale matrix is laid out as the covariance of a Gaussian.
        scale = rate / shape * self.covariance
        params = FullGaussian().from_moments(self.mean, scale)
        return Component(StudentT("full", df=2.0 * shape), params)

    def draw(self, n, rng):
        shape, rate = self.noise
        noise = np.sqrt(rate / rng.standard_gamma(shape, n))
        normal = rng.standard_normal((n, len(self.mean)))
        return self.mean + noise[:, None] * self._scaled(normal), noise

    @property
    def sound(self):
        finite = np.isfinite(self.noise).all()
        return bool(finite and self.noise.min() > 0.0) and super().sound

    @property
    def std(self):
        """Standard deviations of the coefficients, (dim,)."""
        return np.sqrt(self.noise_variance * np.diag(self.covariance))

    def absorb(self, X, y, weight):
        """The stream after all rows, and each one's predictive location, scale and
        df before it."""
        if self.rule.forgetting < 1.0:
            return self._one_by_one(dense(X), y, weight)
        new, eta, spread = self._absorbed(dense(X), y, weight)
        size = weight * self.rule.schedule(self.n_steps, len(y))[:, 0]
        lost = 0.5 * size * (y - eta) ** 2 / (1.0 + size * spread)
        steps = np.vstack([self.noise, np.column_stack([0.5 * size, lost])])
        noise = np.cumsum(steps, axis=0)
        return replace(new, noise=noise[-1]), predictive(eta, spread, noise[:-1])

    def updated(self, X, y, weight):
        """One update for all rows, which are predicted before it."""
        done, eta = super().updated(X, y, weight)
        size = weight * self.rule.schedule(self.n_steps, 1)[0, 0]
        # The increment of the rate without cancellation: errors before times after.
        lost = 0.5 * size @ ((y - eta) * (y - X @ done.mean))
        spread = np.einsum("ij,ij->i", X @ self.covariance, X)
        record = predictive(eta, spread, self.noise[None])
        return replace(done, noise=self.noise + [0.5 * size.sum(), lost]), record

    def _one_by_one(self, X, y, weight):
        stream, records = self, []
        for i in range(len(y)):
            one = slice(i, i + 1)
            stream, record = stream.absorb_batch(X[one], y[one], weight[one])
            records.append(record)
        return stream, np.concatenate(records)

    def discounted(self):
        """As that of a `FullStream`."""
        f, now = self.rule.forgetting, super().discounted()
        if now is self:
            return self
        # Natural parameters are those that are forgotten; the rate is not one of them.
        noise = f * self.noise + (1.0 - f) * self.prior_noise
        noise[1] += 0.5 * (self.mean - now.mean) @ now.pull
        return replace(now, noise=noise)


def predictive(eta, spread, noise):
    """Location, scale and degrees of freedom of every row, (n, 3)."""
    shape, rate = noise.T
    scale = np.sqrt(rate / shape * (1.0 + spread))
    return np.column_stack([eta, scale, np.broadcast_to(2.0 * shape, len(eta))])
