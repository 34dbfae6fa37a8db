"""The exact posterior of a linear model whose noise is not known either."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student_t

from skboost.online._loops import add_outer, is_refreshed
from skboost.online._streams import FullStream, check_bounds, dense, first_out_of_bounds


@dataclass(frozen=True)
class ConjugateStream(FullStream):
    """Normal-inverse-gamma posterior of coefficients and noise variance.

    Given the noise variance v the coefficients are N(mean, v covariance), and v is
    inverse gamma.

    Attributes
    ----------
    noise, prior_noise : ndarray of shape (2,)
        Shape and rate, and those of the prior.

    All else is as in `FullStream`, precisions and covariances in units of the noise.
    """

    noise: np.ndarray | None = None
    prior_noise: np.ndarray | None = None

    @classmethod
    def begin(cls, rule, scale, noise):
        """The prior; `scale` is in units of the noise."""
        noise = np.asarray(noise, dtype=float)
        return replace(super().begin(rule, scale), noise=noise, prior_noise=noise)

    def losses(self, record, y):
        """``-ln p(y)`` under the predictive Student-t density of every row, nats."""
        location, scale, df = record.T
        return -student_t.logpdf(y, df, location, scale)

    def predictive(self, X):
        """Location, scale and degrees of freedom of every row, (n, 3)."""
        shape, rate = self.noise
        spread = np.einsum("ij,ij->i", X @ self.covariance, X)
        scale = np.sqrt(rate / shape * (1.0 + spread))
        return np.column_stack([X @ self.mean, scale, np.full(len(X), 2.0 * shape)])

    def absorb(self, X, y, weight):
        """One update for each row: as `absorb_batch` of each, without its inverse.

        Returns
        -------
        stream : ConjugateStream
        record : ndarray of shape (n, 3)
            Predictive location, scale and degrees of freedom of every row, before its
            update.
        """
        if self.rule.forgetting < 1.0:
            return self._one_by_one(dense(X), y, weight)
        X, new = dense(X), self._copy()
        schedule = self.rule.schedule(self.n_steps, len(y))
        record = np.empty((len(y), 3))
        for i, (x, w) in enumerate(zip(X, weight, strict=True)):
            (shape, rate), reach = new.noise, new.covariance @ x
            spread = max(x @ reach, 0.0)
            scale = np.sqrt(rate / shape * (1.0 + spread))
            record[i] = x @ new.mean, scale, 2.0 * shape
            size, error = w * schedule[i, 0], y[i] - record[i, 0]
            new.total[:] += w * new.mean
            new.clock[:] += 1.0, w
            new.noise[:] += 0.5 * size, 0.5 * size * error**2 / (1.0 + size * spread)
            new.pull[:] += size * y[i] * x
            add_outer(new.precision, size, x)
            if is_refreshed(self.n_steps + i + 1):
                new.covariance[:] = np.linalg.inv(new.precision)
                new.mean[:] = new.covariance @ new.pull
                continue
            reach /= 1.0 + size * spread
            new.mean[:] += size * error * reach
            add_outer(new.covariance, -size * (1.0 + size * spread), reach)
        failed = first_out_of_bounds(record[:, 0], record[:, 1], y)
        step = self.n_steps + failed + 1
        check_bounds(step, record[:, 0], failed, schedule[failed, 0])
        return replace(new, n_steps=self.n_steps + len(y)), record

    def absorb_batch(self, X, y, weight):
        """One update for all rows, which are predicted before it."""
        X, now = dense(X), self.discounted()
        ((size, _),) = self.rule.schedule(self.n_steps, 1)
        record = now.predictive(X)
        failed = first_out_of_bounds(record[:, 0], record[:, 1], y)
        check_bounds(self.n_steps + 1, record[:, 0], failed, size)
        tempered = size * weight
        pull = now.pull + X.T @ (tempered * y)
        done = now.updated(pull, now.precision + (X.T * tempered) @ X, weight)
        # The increment of the rate without cancellation: errors before times after.
        lost = 0.5 * tempered @ ((y - record[:, 0]) * (y - X @ done.mean))
        return replace(done, noise=now.noise + [0.5 * tempered.sum(), lost]), record

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
