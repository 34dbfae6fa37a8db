"""What a generalised linear model sums over rows, as functions of one block.

Nothing here knows more of the data than the block, so that a sum can be taken where
the rows are.
"""

import numpy as np

from skboost._parallel import scratch
from skboost.targets._gaussian_predictors import GaussianPredictors
from skboost.targets._likelihood import WeightedRows


class RowSums:
    """Sums over a block of rows; every method returns a tuple or list of them.

    Parameters
    ----------
    likelihood : Likelihood
    temperature : float
        Power of the likelihood.
    """

    # Arrays of the width of the parameters that are alive at once under Gaussians.
    n_temporaries = 1

    def __init__(self, likelihood, temperature):
        self.likelihood, self.temperature = likelihood, temperature

    def rows(self, block):
        """The block as likelihoods sum over it."""
        return WeightedRows(block, self.temperature)

    def linear(self, block):
        """What is linear in theta: its slopes (dim,), and what offsets add to it."""
        rows = self.rows(block)
        linear = (rows.weights * self.likelihood.linear(rows.y).T).T
        constant = 0.0 if block.offset is None else float((block.offset @ linear).sum())
        return block.pull(linear).T.ravel(), constant

    @staticmethod
    def predictors(block, columns):
        """Linear predictors (n_rows, n_draws), or (n_outputs, n_rows, n_draws)."""
        eta = scratch("predictors", (len(columns), len(block), columns[0].shape[1]))
        for column, out in zip(columns, eta, strict=True):
            found = block.predict(column, out)
            if found is not out:
                out[:] = found
        return eta[0] if len(columns) == 1 else eta

    # --- at draws

    def value(self, columns, block):
        """Log likelihood of every draw, without its linear part."""
        eta = self.predictors(block, columns)
        return (self.likelihood.total(eta, self.rows(block)),)

    def value_and_slope(self, columns, block):
        """The same and its gradient."""
        eta = self.predictors(block, columns)
        return self.likelihood.total_and_slope(eta, self.rows(block))

    # --- under a Gaussian

    def expected(self, mean, variance, factor, block):
        """Expected log likelihood, and its slopes in mean, variance and factor."""
        given = self._given(block, mean, variance, factor)
        value, slope, bend = self._expected_terms(block, given)
        return [value, *given.pull(slope, bend)]

    def values(self, gaussians, block):
        """Expected log likelihood under several Gaussians, as one array."""
        rows, found = self.rows(block), []
        shapes = [
            self._given(block, np.zeros(gaussians.dim), *shape).covariance
            for shape in gaussians.shapes
        ]
        means = np.array([mean for mean, _, _ in gaussians.members])
        n_outputs = self.likelihood.n_outputs
        # One product with the rows for all means.
        predicted = block.predict(means.reshape(len(means) * n_outputs, -1).T).T
        predicted = predicted.reshape(len(means), n_outputs, -1)
        for mean, (_, shape, scale) in zip(predicted, gaussians.members, strict=True):
            value, *_ = self.likelihood.expected_rows(
                mean, scale * shapes[shape], rows.y
            )
            found.append(rows.weights @ value)
        return (np.array(found),)

    def curvature(self, mean, factor, block):
        """Expected log likelihood, its slope in the mean and minus its Hessian."""
        given = self._given(block, mean, None, factor)
        value, slope, bend = self._expected_terms(block, given)
        return value, given.pull_mean(slope), given.grams(bend)

    def _given(self, block, *moments):
        return GaussianPredictors(block, self.likelihood.n_outputs, *moments)

    def _expected_terms(self, block, given):
        """Weighted expected log likelihood, and per row E[l'] and E[-l'']."""
        rows = self.rows(block)
        value, slope, bend = self.likelihood.expected_rows(
            given.mean, given.covariance, rows.y
        )
        weights = rows.weights
        return weights @ value, weights * slope, weights * bend
