"""Posterior predictive of multinomial models: integrals over a mixture.

Probabilities of up to four classes under Gaussian components are computed by
quadrature over contrasts of the classes; everything else by fixed quasi-random draws
of the posterior that are the same at every call.
"""

from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.special import log_softmax, logsumexp, softmax, xlogy

from skboost.linear_model._latent import blocks_of, posterior_draws
from skboost.linear_model._predictive import entropy_of
from skboost.serving import ContrastsPart
from skboost.targets import class_contrasts, has_product_rule, softmax_expectation

# Quadrature has single precision, whose exponentials end near 1e-38.
_LEAST = 1e-30


def by_quadrature(mixture, n_classes):
    """Whether probabilities are integrals over contrasts of the classes."""
    return mixture.gaussian and has_product_rule(n_classes)


def contrasts_part(family, params, n_classes):
    """`ContrastsPart` of a component over classes x (coefficients, intercept)."""
    contrasts = class_contrasts(n_classes)
    mean, variance, factor = family.structure(params)
    mean = mean.reshape(n_classes, -1).T @ contrasts
    if factor is not None:
        each = factor.reshape(n_classes, -1, factor.shape[1])
        each = np.einsum("kc,kdr->cdr", contrasts, each)
        stacked = each.reshape(-1, factor.shape[1])
        if stacked.shape[1] > stacked.shape[0]:
            # The same covariance from fewer columns.
            stacked = np.linalg.qr(stacked.T, mode="r").T
        each = stacked.reshape(n_classes - 1, -1, stacked.shape[1])
        factor = each.transpose(1, 0, 2).reshape(each.shape[1], -1)
    if variance is not None:
        outer = contrasts[:, :, None] * contrasts[:, None, :]
        variance = variance.reshape(n_classes, -1).T @ outer.reshape(n_classes, -1)
    return ContrastsPart(mean, factor, variance)


class SoftmaxPredictive:
    """Predictive quantities of a model with more than two classes.

    Parameters
    ----------
    mixture : Mixture
        Over classes x (coefficients, intercept), class-major.
    fit_intercept : bool
    n_classes : int
    """

    def __init__(self, mixture, fit_intercept, n_classes):
        self.mixture = mixture.drop_zero_weights()
        self.fit_intercept = fit_intercept
        self.n_classes = n_classes

    @cached_property
    def _draws(self):
        return posterior_draws(self.mixture)

    def latent(self, X):
        """Mean and standard deviation of every linear predictor, (n, n_classes)."""
        mean = np.empty((X.shape[0], self.n_classes))
        std = np.empty_like(mean)
        for rows, eta in self._etas(X):
            mean[rows], std[rows] = eta.mean(axis=1), eta.std(axis=1)
        return mean, std

    def proba(self, X):
        """Predictive probabilities, (n, n_classes)."""
        out = np.zeros((X.shape[0], self.n_classes))
        if by_quadrature(self.mixture, self.n_classes):
            components = self.mixture.components
            parts = [contrasts_part(*one, self.n_classes) for one in components]
            # Rows that share a rule are computed together: the more the better.
            for rows, block in blocks_of(X, self.fit_intercept, width=0):
                squares = block.multiply(block) if sparse.issparse(block) else block**2
                for weight, part in zip(self.mixture.weights, parts, strict=True):
                    moments = part.moments(block, squares)
                    out[rows] += weight * softmax_expectation(*moments)
        else:
            for rows, p in self._probabilities(X):
                out[rows] = p.mean(axis=1)
        return out / out.sum(axis=1, keepdims=True)

    def log_proba(self, X):
        """Logarithms of the probabilities, (n, n_classes), however small they are."""
        p = self.proba(X)
        lost = (p < _LEAST).any(axis=1)
        out = np.log(np.where(lost[:, None], 1.0, p))
        if lost.any():
            out[lost] = self._log_by_draws(X[lost])
        return out

    def _log_by_draws(self, X):
        out = np.empty((X.shape[0], self.n_classes))
        for rows, eta in self._etas(X):
            out[rows] = logsumexp(log_softmax(eta, axis=2), axis=1)
        return out - logsumexp(out, axis=1, keepdims=True)

    def interval(self, X, level):
        """Credible intervals of every probability, (n, n_classes, 2)."""
        tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
        out = np.empty((X.shape[0], self.n_classes, 2))
        for rows, p in self._probabilities(X):
            out[rows] = np.moveaxis(np.quantile(p, tails, axis=1), 0, -1)
        return out

    def uncertainty(self, X):
        """Total, aleatoric and epistemic entropy of every row, nats, (n,) each."""
        total = entropy_of(self.proba(X))
        aleatoric = np.empty(X.shape[0])
        for rows, p in self._probabilities(X):
            aleatoric[rows] = -xlogy(p, p).sum(axis=2).mean(axis=1)
        return total, aleatoric, np.maximum(total - aleatoric, 0.0)

    def _etas(self, X):
        draws = self._draws.reshape(len(self._draws) * self.n_classes, -1).T
        width = draws.shape[1]
        for rows, block in blocks_of(X, self.fit_intercept, width):
            eta = np.asarray(block @ draws)
            yield rows, eta.reshape(-1, len(self._draws), self.n_classes)

    def _probabilities(self, X):
        for rows, eta in self._etas(X):
            yield rows, softmax(eta, axis=2)
