"""Gaussian linear predictors of rows under several priors at once.

The prior of the parameters is Gaussian around zero, with variances (n_priors, dim);
sites are Gaussian factors ``exp(shift x - precision x^2 / 2)`` of the predictors.

Of several classes parameters are classes x columns, and every class has the same prior.
A row's site is ``exp(h' f - f' M f / 2)`` of its predictors f, one for each class, with
precision ``M = diag(a) - a a' / sum(a)``, as second derivatives of the softmax have it;
it does not change when a number is added to all of f.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtri

from skboost._math import inverse_roots

# Numbers of a matrix of rows from which on one prior is taken at a time, since caches
# do not hold those of several.
_CACHED = 50_000
# Shares of the diagonal that are added in turn where rounding leaves a matrix without
# a root: what is added to all classes has the prior's precision alone.
_ADDED = (0.0, 1e-15, 1e-13, 1e-11)
# Rows of a triangular matrix from which its own inversion beats the general one.
_LARGE = 24


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


def _root(matrices):
    """Cholesky roots of matrices (n, dim, dim), after rounding too."""
    width = np.diagonal(matrices, axis1=1, axis2=2)[:, :, None] * np.eye(
        matrices.shape[1]
    )
    for added in _ADDED:
        try:
            return np.linalg.cholesky(matrices + added * width)
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError("Matrix is not positive definite")


def _inverted(lower):
    """Inverses of lower triangular matrices (..., n, n)."""
    n = lower.shape[-1]
    if n < _LARGE:
        return np.linalg.inv(lower)
    # In columns, as LAPACK has them.
    each = [dtrtri(one.T, lower=0)[0].T for one in lower.reshape(-1, n, n)]
    return np.reshape(each, lower.shape)


class ClassMoments(NamedTuple):
    """Means (n_priors, n_rows, K), covariances (..., K, K), and ``ln |I + M K|``."""

    mean: np.ndarray
    covariance: np.ndarray
    log_det: np.ndarray


class _ClassPredictors(Predictors):
    def _in_units(self, mean, covariance):
        """Moments of the parameters, from those in units of the prior."""
        scales = np.tile(self.scales, mean.shape[1])
        mean = mean.reshape(len(mean), -1) * scales
        covariance = covariance * scales[:, :, None] * scales[:, None, :]
        return mean, 0.5 * (covariance + covariance.transpose(0, 2, 1))


class ClassPrimal(_ClassPredictors):
    """By the precision matrix of all parameters: for many rows."""

    def _root(self, a):
        """A root R of the inverse ``R^T R``, and its log determinant, negative."""
        n_priors, _, n_classes = a.shape
        p = self.scaled.shape[2]
        inner = np.empty((n_priors, n_classes, p, n_classes, p))
        back, share = self.scaled.transpose(0, 2, 1), a / a.sum(axis=2, keepdims=True)
        for k in range(n_classes):
            for j in range(k + 1):
                weight = (k == j) * a[:, :, k] - a[:, :, k] * share[:, :, j]
                block = back @ (weight[:, :, None] * self.scaled)
                inner[:, k, :, j] = block
                inner[:, j, :, k] = block.transpose(0, 2, 1)
        inner = inner.reshape(n_priors, n_classes * p, n_classes * p)
        root = _root(inner + np.eye(n_classes * p))
        log_det = 2.0 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        return _inverted(root), log_det

    def _turned(self, root, h):
        pulled = h.transpose(0, 2, 1) @ self.scaled
        return root @ pulled.reshape(len(root), -1, 1)

    def moments(self, a, h):
        """`ClassMoments` given sites (n_priors, n_rows, K)."""
        root, log_det = self._root(a)
        by_class = root.reshape(*root.shape[:2], a.shape[2], -1)
        known = np.einsum("gdkp,gnp->gnkd", by_class, self.scaled, optimize=True)
        mean = known @ self._turned(root, h)[:, None]
        return ClassMoments(mean[..., 0], known @ known.swapaxes(2, 3), log_det)

    def posterior(self, a, h):
        """Means (n_priors, dim) and covariances of the parameters given sites."""
        root, _ = self._root(a)
        back = root.transpose(0, 2, 1)
        mean = (back @ self._turned(root, h)).reshape(len(a), a.shape[2], -1)
        return self._in_units(mean, back @ root)


class ClassDual(_ClassPredictors):
    """By K covariances of n predictors (Rasmussen and Williams 2006, section 3.5)."""

    def _parts(self, a):
        prior = self.scaled @ self.scaled.transpose(0, 2, 1)
        root = np.sqrt(a.transpose(0, 2, 1))
        inner = root[..., :, None] * prior[:, None] * root[..., None, :]
        inner = np.linalg.cholesky(inner + np.eye(prior.shape[1]))
        log_det = 2.0 * np.log(np.diagonal(inner, axis1=2, axis2=3)).sum(axis=(1, 2))
        inner = _inverted(inner) * root[..., None, :]
        told = inner.swapaxes(2, 3) @ inner
        whole = np.linalg.cholesky(told.sum(axis=1))
        log_det += 2.0 * np.log(np.diagonal(whole, axis1=1, axis2=2)).sum(axis=1)
        log_det -= np.log(a.sum(axis=2)).sum(axis=1)
        return prior, told, _inverted(whole), log_det

    @staticmethod
    def _of_sites(prior, told, whole, h):
        """What sites amount to for every row, (n_priors, K, n_rows)."""
        h = h.transpose(0, 2, 1)[..., None]
        seen = told @ (prior[:, None] @ h)
        common = whole.swapaxes(1, 2) @ (whole @ seen.sum(axis=1))
        return (h - seen + told @ common[:, None])[..., 0]

    def moments(self, a, h):
        """`ClassMoments` given sites (n_priors, n_rows, K)."""
        prior, told, whole, log_det = self._parts(a)
        weights = self._of_sites(prior, told, whole, h)
        mean = (prior[:, None] @ weights[..., None])[..., 0]
        seen = told @ prior[:, None]
        spread = (whole[:, None] @ seen).transpose(0, 3, 1, 2)
        covariance = spread @ spread.swapaxes(2, 3)
        own = np.diagonal(prior, axis1=1, axis2=2)[:, None]
        own = own - (prior[:, None] * seen).sum(axis=2)
        every = np.arange(a.shape[2])
        covariance[:, :, every, every] += own.transpose(0, 2, 1)
        return ClassMoments(mean.transpose(0, 2, 1), covariance, log_det)

    def posterior(self, a, h):
        """Means (n_priors, dim) and covariances of the parameters given sites."""
        prior, told, whole, _ = self._parts(a)
        n_priors, n_classes, p = len(a), a.shape[2], self.scaled.shape[2]
        mean = self._of_sites(prior, told, whole, h) @ self.scaled
        seen = told @ self.scaled[:, None]
        spread = (whole[:, None] @ seen).transpose(0, 2, 1, 3)
        spread = spread.reshape(n_priors, -1, n_classes * p)
        covariance = spread.swapaxes(1, 2) @ spread
        own = np.eye(p) - self.scaled[:, None].swapaxes(2, 3) @ seen
        for k in range(n_classes):
            here = slice(k * p, (k + 1) * p)
            covariance[:, here, here] += own[:, k]
        return self._in_units(mean, covariance)
