"""Likelihood of multinomial logistic regression."""

from copy import copy

import numpy as np

from skboost.targets._likelihood import Likelihood
from skboost.targets._softmax_gaussian import has_product_rule
from skboost.targets._softmax_moments import softmax_gaussian_expectations

# Errors of the expectations of a row, in reports and in searches: with four classes a
# digit costs twice the nodes, and 1e-5 is far below what a search can tell.
_TOLERANCES = {4: (1e-5, 1e-3)}
_TOLERANCE = (1e-10, 1e-7)


class Multinomial(Likelihood):
    """``ln p(y | eta) = eta_y - ln(sum_k exp(eta_k))`` for y in 0, ..., n_classes - 1.

    Every class has its own coefficients (the symmetric parameterisation); the prior
    identifies them.

    Parameters
    ----------
    n_classes : int
    """

    log_concave = True

    def __init__(self, n_classes):
        self.n_outputs = n_classes
        self.n_temporaries = n_classes + 2
        self.exact_gaussian = has_product_rule(n_classes)
        self._tol, self._search_tol = _TOLERANCES.get(n_classes, _TOLERANCE)
        # Sums of n_classes terms of at most 1 stay far from overflow in a product.
        self._limit = max(1, min(512, int(600 / np.log(max(2, n_classes)))))

    def checked(self, y, n_samples):
        y = np.asarray(y)
        valid = y.shape == (n_samples,) and np.issubdtype(y.dtype, np.integer)
        if not valid or y.min() < 0 or y.max() >= self.n_outputs:
            raise ValueError(
                f"y must hold integers in 0..{self.n_outputs - 1}, shape "
                f"({n_samples},); encode the classes first."
            )
        return y

    def linear(self, y):
        return (y[:, None] == np.arange(self.n_outputs)).astype(float)

    def _exponentials(self, eta):
        """exp(eta - top), their sum over classes and top = max over classes (n, S)."""
        top = eta.max(axis=0)
        eta -= top
        np.exp(eta, out=eta)
        return eta, eta.sum(axis=0), top

    def _sum_normaliser(self, total, top, rows):
        value = rows.sum(top)
        return value + rows.sum_log(total, self._limit)

    def total(self, eta, rows):
        """Minus the weighted sum of the logs of the normalisers."""
        _, total, top = self._exponentials(eta)
        return -self._sum_normaliser(total, top, rows)

    def total_and_slope(self, eta, rows):
        exp, total, top = self._exponentials(eta)
        exp *= rows.weights[:, None] / total
        slope = np.stack([rows.block.pull(part) for part in exp])
        return -self._sum_normaliser(total, top, rows), -slope

    def expected_rows(self, mean, covariance, y):
        """Expectations for Gaussian linear predictors; see `Likelihood`."""
        first, second = np.triu_indices(self.n_outputs)
        full = np.empty((mean.shape[1], self.n_outputs, self.n_outputs))
        full[:, first, second] = full[:, second, first] = covariance.T
        log_sum, probability, products = softmax_gaussian_expectations(
            mean.T, full, self._tol
        )
        every = np.arange(self.n_outputs)
        # The rows of the second derivatives sum to zero; so written, none is negative.
        products[:, every, every] -= products.sum(axis=2)
        slope = (y == every[:, None]) - probability.T
        return (
            mean[y, np.arange(len(y))] - log_sum,
            slope,
            -products[:, first, second].T,
        )

    def coarse(self):
        view = copy(self)
        view._tol = self._search_tol
        return view
