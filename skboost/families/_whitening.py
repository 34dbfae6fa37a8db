"""Coordinates in which a component is a standard normal, without a dense inverse."""

import numpy as np
from scipy.linalg import solve_triangular


class Triangular:
    """Whitening by a Cholesky factor L: ``theta = L z``."""

    def __init__(self, factor):
        self.factor = factor

    def whiten(self, rows):
        """Differences ``theta - mean`` as rows z."""
        return solve_triangular(self.factor, rows.T, lower=True).T

    def pull(self, rows):
        """Gradients in theta as gradients in z."""
        return rows @ self.factor

    def lift(self, rows):
        """Rows z as differences ``theta - mean``."""
        return rows @ self.factor.T


class Diagonal:
    """Whitening by marginal scales."""

    def __init__(self, std):
        self.std = std

    def whiten(self, rows):
        """As `Triangular.whiten`."""
        return rows / self.std

    def pull(self, rows):
        """As `Triangular.pull`."""
        return rows * self.std

    def lift(self, rows):
        """As `Triangular.lift`."""
        return rows * self.std


class LowRank:
    """Whitening by ``S^(1/2) (I + U U^T)^(1/2)``: rank x rank problems only."""

    def __init__(self, variance, factor):
        self.std = np.sqrt(variance)
        whitened = factor / self.std[:, None]
        values, vectors = np.linalg.eigh(whitened.T @ whitened)
        root = np.sqrt(1.0 + np.maximum(values, 0.0))
        # (root - 1) / values and (1 / root - 1) / values, free of cancellation.
        self._left = whitened @ (vectors / (1.0 + root))
        self._inverse = -self._left / root
        self._right = whitened @ vectors

    def whiten(self, rows):
        """As `Triangular.whiten`."""
        rows = rows / self.std
        return rows + (rows @ self._right) @ self._inverse.T

    def pull(self, rows):
        """As `Triangular.pull`."""
        rows = rows * self.std
        return rows + (rows @ self._right) @ self._left.T

    def lift(self, rows):
        """As `Triangular.lift`."""
        return self.std * (rows + (rows @ self._right) @ self._left.T)


def whitening_by(variance, factor):
    """Whitening by the matrix diag(variance) + factor factor^T; see `spread`."""
    if variance is None:
        return Triangular(factor)
    if factor is None:
        return Diagonal(np.sqrt(variance))
    return LowRank(variance, factor)
