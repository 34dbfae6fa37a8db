"""What a generalised linear model sums over rows, as functions of one block.

Nothing here knows more of the data than the block, so that a sum can be taken where
the rows are.
"""

import numpy as np

from skboost._parallel import row_blocks
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
        if len(columns) == 1:
            return block.predict(columns[0])
        return np.stack([block.predict(column) for column in columns])

    # --- at draws

    def value(self, columns, block):
        """Log likelihood of every draw, without its linear part."""
        eta = self.predictors(block, columns)
        return (self.likelihood.total(eta, self.rows(block)),)

    def value_and_slope(self, columns, block):
        """The same and its gradient."""
        eta = self.predictors(block, columns)
        return self.likelihood.total_and_slope(eta, self.rows(block))

    # --- under a Gaussian, where a row has one linear predictor

    def expected(self, mean, variance, factor, block):
        """Expected log likelihood, and its slopes in mean, variance and factor."""
        spread = None if factor is None else block.apply(factor)
        value, slope, bend = self._expected_terms(block, mean, variance, spread)
        result = [value, block.pull(slope)]
        if variance is not None:
            result.append(-0.5 * block.pull_squares(bend))
        if factor is not None:
            spread *= bend[:, None]
            result.append(-block.pull(spread))
        return result

    def curvature(self, mean, factor, block):
        """Expected log likelihood, its slope in the mean and minus its Hessian."""
        spread = block.apply(factor)
        value, slope, bend = self._expected_terms(block, mean, None, spread)
        return value, block.pull(slope), signed_gram(block, bend)

    def _expected_terms(self, block, mean, variance, spread):
        """Weighted expected log likelihood, and per row E[l'] and E[-l'']."""
        centre = block.predict(mean)
        total = np.zeros_like(centre)
        if variance is not None:
            total += block.apply_squares(variance)
        if spread is not None:
            total += np.einsum("ij,ij->i", spread, spread)
        rows = self.rows(block)
        value, slope, bend = self.likelihood.expected(centre, np.sqrt(total), rows.y)
        weights = rows.weights
        return weights @ value, weights * slope, weights * bend

    # --- averaged over draws, where a row has several linear predictors

    def averaged_curvature(self, columns, block):
        """Averages over draws: value, slopes, and minus the Hessian."""
        n_pairs = len(columns) * (len(columns) + 1) // 2
        value, slope, bend = self._averaged_rows(columns, n_pairs, block)
        slope = np.stack([block.pull(column) for column in slope])
        return value, slope.ravel(), self._grams(block, bend)

    def _averaged_rows(self, columns, n_pairs, block):
        """``likelihood.curvature`` of a block, through blocks that fit all draws."""
        n_rows = len(block)
        slope, bend = np.empty((len(columns), n_rows)), np.empty((n_pairs, n_rows))
        value = 0.0
        width = self.likelihood.n_temporaries * columns.shape[2]
        for inner in row_blocks(n_rows, width):
            part = block.part(inner)
            eta = self.predictors(part, columns)
            more, slope[:, inner], bend[:, inner] = self.likelihood.curvature(
                eta, self.rows(part)
            )
            value += more
        return value, slope, bend

    def _grams(self, block, bend):
        """Likelihood curvature: one weighted Gram matrix per pair of predictors."""
        n_outputs = self.likelihood.n_outputs
        first, second = np.triu_indices(n_outputs)
        dim = block.X.shape[1] + block.intercept
        out = np.empty((n_outputs, dim, n_outputs, dim))
        for pair, (k, m) in enumerate(zip(first, second, strict=True)):
            out[k, :, m] = out[m, :, k] = signed_gram(block, bend[pair])
        return out.reshape(n_outputs * dim, n_outputs * dim)


def signed_gram(block, weights):
    """``X^T diag(weights) X`` for weights of any sign; one product where one serves."""
    if weights.min() >= 0.0:
        return block.gram(weights)
    if weights.max() <= 0.0:
        return -block.gram(-weights)
    return block.gram(np.maximum(weights, 0.0)) - block.gram(np.maximum(-weights, 0.0))
