"""Means and covariances: of combinations, arguments and base draws."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.stats import qmc

from skboost._parallel import row_blocks

# Scrambling Sobol' points takes longer than all else that is done with them above it.
_MOST_DIMENSIONS = 1000


def linear_moments(X, mean, variance, factor):
    """Mean and standard deviation of ``x_n . theta``, in blocks of rows."""
    row_variance = np.zeros(X.shape[0])
    if variance is not None:
        row_variance += squared(X) @ variance
    if factor is not None:
        for rows in row_blocks(X.shape[0], factor.shape[1]):
            projected = X[rows] @ factor
            row_variance[rows] += np.einsum("ij,ij->i", projected, projected)
    return X @ mean, np.sqrt(row_variance)


def squared(X):
    """Squares of the entries of an array or a sparse matrix."""
    return np.square(X) if isinstance(X, np.ndarray) else X.multiply(X)


def narrowed(factor):
    """A factor of the same ``factor factor^T`` with no more columns than rows."""
    if factor.shape[1] <= factor.shape[0]:
        return factor
    return np.linalg.qr(factor.T, mode="r").T


def checked_moments(mean, covariance):
    """Arrays of a mean and of variances (dim,) or a covariance (dim, dim)."""
    mean = np.asarray(mean, dtype=float)
    covariance = np.asarray(covariance, dtype=float)
    dim = mean.size
    if mean.ndim != 1 or covariance.shape not in ((dim,), (dim, dim)):
        raise ValueError(
            "covariance must hold variances of shape (dim,) or a matrix of shape "
            f"(dim, dim) for a mean of shape (dim,); got covariance "
            f"{covariance.shape} and mean {mean.shape}."
        )
    variance = covariance if covariance.ndim == 1 else np.diagonal(covariance)
    if not (np.isfinite(variance).all() and (variance > 0).all()):
        raise ValueError(
            "covariance must have finite positive variances; the smallest is "
            f"{variance.min()}. Add a small multiple of the identity."
        )
    return mean, covariance, variance


def checked_size(shape, dim, n_params):
    """`dim`, if parameters of this shape are a component on R^dim."""
    if dim < 1 or shape != (n_params,):
        raise ValueError(
            f"params must have length n_params(dim); got shape {shape}, and "
            f"{n_params} is the length for dim={dim}. Was it made by another family?"
        )
    return dim


def whitened(eps):
    """Base draws (n, base_dim) shifted and mixed to mean 0 and covariance I."""
    eps = eps - eps.mean(axis=0)
    root = cholesky(eps.T @ eps / len(eps), lower=True)
    return solve_triangular(root, eps.T, lower=True).T


def symmetric(eps, variance):
    """The first half of draws and its mirror image, scaled to the variance; one
    stays as it is."""
    if len(eps) < 2:
        return eps
    half = eps[: len(eps) // 2]
    pairs = np.stack([half, -half], axis=1).reshape(-1, eps.shape[1])
    # Where the number is odd, one draw at the centre keeps the mean.
    both = np.concatenate([pairs, np.zeros((len(eps) % 2, eps.shape[1]))])
    return both * np.sqrt(variance / np.mean(both**2, axis=0))


def open_unit_cube(n, dim, rng):
    """Scrambled Sobol' points (n, dim) in the open cube; pseudo-random in many
    dimensions."""
    # Sobol' points are multiples of 2**-30; half a cell keeps them off 0, where the
    # inverse distribution function is infinite.
    half_cell = 2.0**-31
    if dim > _MOST_DIMENSIONS:
        return np.maximum(rng.random((n, dim)), half_cell)
    # An own generator per call: the points then depend on the state of `rng`
    # alone, not on how many children it has spawned before. SciPy before 1.15
    # knows the argument as `seed` only.
    scrambling = np.random.default_rng(rng.integers(2**63))
    points = qmc.Sobol(dim, seed=scrambling).random_base2((n - 1).bit_length())
    if dim > 40:
        # From here on some pairs of coordinates lie on a few stripes, whatever the
        # scrambling. Other pairs in every call: a search that fits the stripes of
        # its draws would meet the same ones, of random sign, in those that judge it.
        points = points[:, rng.permutation(dim)]
    return points[:n] + half_cell
