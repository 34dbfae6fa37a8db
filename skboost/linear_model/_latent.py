"""Linear predictors under a posterior: what predictions of every model begin with."""

import numpy as np
from scipy import sparse

from skboost._parallel import row_blocks

# Draws of the posterior where no quadrature serves.
N_DRAWS = 1024
SEED = 0


def with_columns(X, fit_intercept, n_zeros=0):
    """A block of rows with a column of ones, and with columns of zeros after it."""
    more = [np.ones((X.shape[0], 1))] if fit_intercept else []
    if n_zeros:
        more.append(np.zeros((X.shape[0], n_zeros)))
    if not more:
        return X
    if sparse.issparse(X):
        return sparse.hstack([X, *more], format="csr")
    return np.hstack([X, *more])


def blocks_of(X, fit_intercept, width, n_zeros=0):
    """Blocks of rows, each with its further columns, whose temporaries stay small."""
    for rows in row_blocks(X.shape[0], width + X.shape[1]):
        yield rows, with_columns(X[rows], fit_intercept, n_zeros)


def posterior_draws(mixture):
    """Fixed quasi-random draws of a mixture, (n, dim)."""
    return mixture.sample(N_DRAWS, np.random.default_rng(SEED))


class LatentPredictive:
    """The linear predictor of a model with one of them for each row.

    Parameters
    ----------
    mixture : Mixture
        Over (coefficients, intercept, further parameters).
    fit_intercept : bool
    n_further : int, default=0
        Parameters with no part in the linear predictor.
    """

    def __init__(self, mixture, fit_intercept, n_further=0):
        self.mixture = mixture.drop_zero_weights()
        self.fit_intercept = fit_intercept
        self.n_further = n_further

    @property
    def gaussian(self):
        """Whether every component has Gaussian linear predictors."""
        return self.mixture.gaussian

    def latent(self, X):
        """Mean and standard deviation of the linear predictor, (n,) each."""
        mean, second = np.empty(X.shape[0]), np.empty(X.shape[0])
        weights = self.mixture.weights
        for rows, block in self._blocks(X):
            means, stds = self.mixture.linear_moments(block)
            mean[rows] = means @ weights
            second[rows] = (stds**2 + (means - mean[rows, None]) ** 2) @ weights
        return mean, np.sqrt(second)

    def _blocks(self, X, width=None):
        width = self.mixture.dim * self.mixture.n_components if width is None else width
        return blocks_of(X, self.fit_intercept, width, self.n_further)
