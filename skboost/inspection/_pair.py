"""Joint density of two coordinates of a mixture, on a grid."""

import numpy as np

from skboost._math import log_sum_exp, log_weights
from skboost.families import Gaussian, Laplace


def pair_density(mixture, indices, x, y):
    """Density of two coordinates, shape (len(y), len(x)).

    Parameters
    ----------
    mixture : Mixture
    indices : pair of int
    x, y : ndarray
        Values of the first and of the second coordinate.
    """
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    columns = [
        _log_pair(family, params, list(indices), points)
        for family, params in mixture.components
    ]
    log_q = log_sum_exp(np.column_stack(columns), log_weights(mixture.weights))
    return np.exp(log_q).reshape(len(y), len(x))


def _log_pair(family, params, indices, points):
    if isinstance(family, Gaussian):
        return _log_gaussian_pair(*family.structure(params), indices, points)
    if isinstance(family, Laplace):
        return sum(
            family.marginal_log_density(params, i, points[:, j])
            for j, i in enumerate(indices)
        )
    raise ValueError(
        "kind='pair' knows the joint density of two coordinates of Gaussian and "
        f"Laplace components; got {type(family).__name__}. Use kind='density'."
    )


def _log_gaussian_pair(mean, variance, factor, indices, points):
    covariance = np.zeros((2, 2))
    if factor is not None:
        covariance += factor[indices] @ factor[indices].T
    if variance is not None:
        covariance += np.diag(variance[indices])
    whiten = np.linalg.inv(np.linalg.cholesky(covariance))
    z = (points - mean[indices]) @ whiten.T
    constant = np.log(np.diag(whiten)).sum() - np.log(2.0 * np.pi)
    return constant - 0.5 * np.einsum("nd,nd->n", z, z)


def highest_density_levels(density, masses):
    """Densities above which lie the given shares of the mass on an even grid.

    Parameters
    ----------
    density : ndarray
    masses : sequence of float
        Decreasing, so that the levels increase.
    """
    ordered = np.sort(density.ravel())[::-1]
    cumulative = np.cumsum(ordered)
    cumulative /= cumulative[-1]
    index = np.searchsorted(cumulative, masses)
    return ordered[np.minimum(index, ordered.size - 1)]
