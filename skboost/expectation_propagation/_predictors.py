"""Gaussian linear predictors of rows under several priors at once.

The prior of the parameters is Gaussian around zero, with variances (n_priors, dim);
sites are Gaussian factors ``exp(shift x - precision x^2 / 2)`` of the predictors.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skboost._math import inverse_roots

# Numbers of a matrix of rows from which on one prior is taken at a time, since caches
# do not hold those of several.
_CACHED = 50_000


class Moments(NamedTuple):
    """Means and variances (n_priors, n_rows), and ``ln |I + T K|``, T sites'
    precisions."""

    mean: np.ndarray
    variance: np.ndarray
    log_det: np.ndarray


def linear_predictors(X, variances):
    """`Primal` or `Dual` form, whichever has the smaller matrices."""
    scales = np.sqrt(variances)
    form = Primal if X.shape[1] <= X.shape[0] else Dual
    return form(X * scales[:, None, :], scales)


@dataclass(frozen=True)
class Predictors:
    """Rows in units of the prior, (n_priors, n_rows, dim), and its scales."""

    scaled: np.ndarray
    scales: np.ndarray

    def of(self, which):
        """The same for some of the priors."""
        return type(self)(self.scaled[which], self.scales[which])

    def prior_variance(self):
        """Of the predictors, (n_priors, n_rows); of several classes those of each."""
        return np.einsum("gnp,gnp->gn", self.scaled, self.scaled)

    def _pulled(self, rows):
        return (rows[:, None] @ self.scaled)[:, 0]


class Primal(Predictors):
    """By the precision matrix of the parameters: for many rows."""

    def _root(self, precision):
        """A root R of the inverse ``R^T R``, and its log determinant, negative."""
        # Of a product with itself half is computed.
        weighted = self.scaled * np.sqrt(precision)[:, :, None]
        inner = weighted.transpose(0, 2, 1) @ weighted
        inner += np.eye(inner.shape[1])
        return inverse_roots(inner)

    def moments(self, precision, shift):
        """`Moments` given sites."""
        n_priors = len(self.scaled)
        if n_priors > 1 and self.scaled[0].size > _CACHED:
            each = [
                self.of(slice(k, k + 1)).moments(precision[[k]], shift[[k]])
                for k in range(n_priors)
            ]
            return Moments(*map(np.concatenate, zip(*each, strict=True)))
        root, log_det = self._root(precision)
        turned = root @ self._pulled(shift)[:, :, None]
        known = self.scaled @ root.transpose(0, 2, 1)
        variance = np.einsum("gnp,gnp->gn", known, known)
        return Moments((known @ turned)[:, :, 0], variance, log_det)

    def marginals(self, precision, shift):
        """Means and variances (n_priors, dim) of the parameters given sites."""
        root, _ = self._root(precision)
        turned = root @ self._pulled(shift)[:, :, None]
        mean = (root.transpose(0, 2, 1) @ turned)[:, :, 0]
        return self.scales * mean, self.scales**2 * (root**2).sum(axis=1)

    def posterior(self, precision, shift):
        """Means (n_priors, dim) and covariances of the parameters given sites."""
        root, _ = self._root(precision)
        turned = root @ self._pulled(shift)[:, :, None]
        root = root * self.scales[:, None, :]
        back = root.transpose(0, 2, 1)
        return (back @ turned)[:, :, 0], back @ root


@dataclass(frozen=True)
class Dual(Predictors):
    """By the covariance matrix of the predictors: for more parameters than rows."""

    known: np.ndarray | None = None

    @cached_property
    def prior(self):
        """Covariances of the predictors under the prior, (n_priors, n_rows, n_rows)."""
        if self.known is not None:
            return self.known
        return self.scaled @ self.scaled.transpose(0, 2, 1)

    def of(self, which):
        """The same for some of the priors."""
        return Dual(self.scaled[which], self.scales[which], self.prior[which])

    def prior_variance(self):
        """See `Primal`."""
        return np.diagonal(self.prior, axis1=1, axis2=2)

    def _inverse(self, precision):
        prior = self.prior
        root = np.sqrt(precision)
        outer = root[:, :, None] * root[:, None, :]
        inner = prior * outer + np.eye(prior.shape[1])
        factor = np.linalg.cholesky(inner)
        log_det = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        return prior, outer * np.linalg.inv(inner), log_det

    def moments(self, precision, shift):
        """`Moments` given sites."""
        prior, gain, log_det = self._inverse(precision)
        # What the rows tell of the predictors, which is taken from the prior.
        told = prior @ gain
        variance = np.diagonal(prior, axis1=1, axis2=2) - (told * prior).sum(axis=2)
        pulled = (prior @ shift[:, :, None])[:, :, 0]
        mean = pulled - (told @ pulled[:, :, None])[:, :, 0]
        return Moments(mean, variance, log_det)

    def _mean_and_gain(self, precision, shift):
        prior, gain, _ = self._inverse(precision)
        pulled = (prior @ shift[:, :, None])[:, :, 0]
        mean = self._pulled(shift - (gain @ pulled[:, :, None])[:, :, 0])
        return self.scales * mean, gain

    def marginals(self, precision, shift):
        """Means and variances (n_priors, dim) of the parameters given sites."""
        mean, gain = self._mean_and_gain(precision, shift)
        told = ((gain @ self.scaled) * self.scaled).sum(axis=1)
        return mean, self.scales**2 * np.maximum(1.0 - told, 1e-12)

    def posterior(self, precision, shift):
        """Means (n_priors, dim) and covariances of the parameters given sites."""
        mean, gain = self._mean_and_gain(precision, shift)
        inner = self.scaled.transpose(0, 2, 1) @ (gain @ self.scaled)
        covariance = np.eye(inner.shape[1]) - inner
        covariance *= self.scales[:, :, None] * self.scales[:, None, :]
        covariance = 0.5 * (covariance + covariance.transpose(0, 2, 1))
        return mean, covariance
