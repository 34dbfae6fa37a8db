"""Posterior predictive of logistic models of two classes: integrals over a mixture.

Every quantity is one-dimensional per component and computed by quadrature; quantiles
of components that are not Gaussian, and families without a quadrature, take fixed
quasi-random draws of the posterior that are the same at every call.
"""

import numpy as np
from scipy.special import expit, log_expit, xlogy

from skboost._math import log_sum_exp
from skboost.families import Gaussian, Laplace, StudentT
from skboost.linear_model._latent import (
    N_DRAWS,
    SEED,
    LatentPredictive,
    posterior_draws,
)
from skboost.linear_model._quantiles import mixture_quantiles
from skboost.targets import (
    NormalNoise,
    entropy_expectation,
    laplace_sigmoid_expectation,
    log_laplace_sigmoid,
    log_sigmoid_expectation,
    log_student_t_sigmoid,
    sigmoid_expectation,
    student_t_sigmoid_expectation,
)


def _under_gaussian(expectation):
    def answer(family, params, block, sign):
        mean, std = family.linear_moments(params, block)
        return expectation(sign * mean, std)

    return answer


def _under_laplace(expectation):
    def answer(family, params, block, sign):
        mean = sign * (block @ family.mean(params))
        return expectation(mean, block, family.std(params) / np.sqrt(2.0))

    return answer


def _under_student_t(expectation):
    def answer(family, params, block, sign):
        location, scale = family.linear_location_scale(params, block)
        return expectation(sign * location, scale, family.df)

    return answer


def _etas_of_draws(family, params, block):
    rng = np.random.default_rng(SEED)
    draws = family.transport(params, family.base_draws(N_DRAWS, block.shape[1], rng))
    return np.asarray(block @ draws.T)


def _by_draws(family, params, block, sign):
    return expit(sign * _etas_of_draws(family, params, block)).mean(axis=1)


def _log_by_draws(family, params, block, sign):
    logs = log_expit(sign * _etas_of_draws(family, params, block))
    return log_sum_exp(logs) - np.log(N_DRAWS)


# E sigmoid(sign * x . theta) of every row, by the family of theta, and its logarithm.
_SIGMOIDS = {
    Gaussian: _under_gaussian(sigmoid_expectation),
    Laplace: _under_laplace(laplace_sigmoid_expectation),
    StudentT: _under_student_t(student_t_sigmoid_expectation),
}
_LOG_SIGMOIDS = {
    Gaussian: _under_gaussian(log_sigmoid_expectation),
    Laplace: _under_laplace(log_laplace_sigmoid),
    StudentT: _under_student_t(log_student_t_sigmoid),
}


class BinaryPredictive(LatentPredictive):
    """Predictive quantities of a two-class model; see `LatentPredictive`."""

    def proba(self, X):
        """Probability of both classes, (n, 2); by quadrature where there is one."""
        out = np.empty((X.shape[0], 2))
        for rows, block in self._blocks(X):
            out[rows, 1] = self._positive(block, 1.0)
        np.subtract(1.0, out[:, 1], out=out[:, 0])
        return out

    def log_proba(self, X):
        """Logarithms of both probabilities, (n, 2), however small they are."""
        out = np.empty((X.shape[0], 2))
        log_weights = np.log(self.mixture.weights)
        for rows, block in self._blocks(X):
            for column, sign in enumerate((-1.0, 1.0)):
                tables = [
                    _LOG_SIGMOIDS.get(type(family), _log_by_draws)(
                        family, params, block, sign
                    )
                    for family, params in self.mixture.components
                ]
                out[rows, column] = log_sum_exp(np.column_stack(tables), log_weights)
        return out

    def _positive(self, block, sign):
        """E sigmoid(sign * eta) under the mixture."""
        if self.gaussian:
            means, stds = self.mixture.linear_moments(block)
            return sigmoid_expectation(sign * means, stds) @ self.mixture.weights
        columns = [
            _SIGMOIDS.get(type(family), _by_draws)(family, params, block, sign)
            for family, params in self.mixture.components
        ]
        return np.column_stack(columns) @ self.mixture.weights

    def interval(self, X, level):
        """Central credible interval of the probability of the second class, (n, 2)."""
        tails = np.array([0.5 * (1.0 - level), 0.5 * (1.0 + level)])
        out = np.empty((X.shape[0], 2))
        draws = None if self.gaussian else posterior_draws(self.mixture)
        for rows, block in self._blocks(X, N_DRAWS):
            if draws is None:
                eta = mixture_quantiles(
                    NormalNoise(),
                    *self.mixture.linear_moments(block),
                    self.mixture.weights,
                    tails,
                )
            else:
                eta = np.quantile(block @ draws.T, tails, axis=1).T
            out[rows] = expit(eta)
        return out

    def uncertainty(self, X):
        """Total, aleatoric and epistemic entropy of every row, nats, (n,) each."""
        total = entropy_of(self.proba(X))
        aleatoric = np.empty(X.shape[0])
        draws = None if self.gaussian else posterior_draws(self.mixture)
        for rows, block in self._blocks(X, N_DRAWS):
            if draws is None:
                means, stds = self.mixture.linear_moments(block)
                aleatoric[rows] = (
                    entropy_expectation(means, stds) @ self.mixture.weights
                )
            else:
                p = expit(block @ draws.T)
                aleatoric[rows] = (-xlogy(p, p) - xlogy(1 - p, 1 - p)).mean(axis=1)
        return total, aleatoric, np.maximum(total - aleatoric, 0.0)


def entropy_of(probabilities):
    """Entropy of every row of probabilities, nats."""
    return -xlogy(probabilities, probabilities).sum(axis=1)
