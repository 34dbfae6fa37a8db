"""Along which axes a posterior is curved, and which axis changes which.

Everything is read off one batch of draws of a Gaussian and the target's scores there,
in coordinates in which the Gaussian is standard normal. With the residual score
``r = grad ln p(w) + w``, by Stein's identity ``E[r He_k(w)]`` are the third and fourth
derivatives of ln p, averaged over the Gaussian: zero where the target is Gaussian.
"""

from typing import NamedTuple

import numpy as np

from skboost._math import N_ERRORS

# Lengths below which a vector has no direction.
_SHORT = 1e-6


class ScoredDraws(NamedTuple):
    """Draws of a standard normal and residual scores there, each (n, dim)."""

    w: np.ndarray
    residual: np.ndarray

    def rotated(self, axes):
        """The same in coordinates along orthonormal `axes`, the columns."""
        return ScoredDraws(self.w @ axes, self.residual @ axes)


class Edges(NamedTuple):
    """Which coordinate k changes the scale, and which the mean, of which later one
    j."""

    scales: np.ndarray
    curves: np.ndarray


def find_edges(sample):
    """Edges that draws show beyond their noise, coordinates in the order of the map."""
    w, residual = sample
    return Edges(_significant(residual * w, w), _significant(residual, w**2 - 1.0))


def _significant(rows, drivers):
    """Pairs (j, k), k < j, with a mean of ``rows_j drivers_k`` that is not noise."""
    n = len(rows)
    mean = rows.T @ drivers / n
    square = (rows**2).T @ drivers**2 / n
    error = np.sqrt(np.maximum(square - mean**2, 0.0) / n)
    # One error more than other estimates ask for, since there are dim^2 candidates; and
    # the first order of the gain has to be more than so many nats.
    clear = np.abs(mean) > (N_ERRORS + 1.0) * error
    return np.tril(clear & (0.25 * mean**2 > 2e-4), -1)


def drivers_first(sample, axes):
    """Axes ordered by own third and fourth derivatives: drivers of others come
    first."""
    w, residual = sample.rotated(axes)
    third = (residual * (w**2 - 1.0)).mean(axis=0)
    fourth = (residual * w * (w**2 - 3.0)).mean(axis=0)
    order = np.argsort(-(third**2 / 6.0 + fourth**2 / 24.0), kind="stable")
    return axes[:, order]


def candidate_axes(sample):
    """Orthonormal axes worth a fit, each of shape (dim, dim), drivers first.

    The coordinates; eigenvectors of the squared third derivatives; and axes of greatest
    contrast, which tell apart directions that are curved alike.
    """
    dim = sample.w.shape[1]
    axes = {"coordinates": np.eye(dim)}
    # Third derivatives are dim^3 numbers, and fourth ones dim^4.
    if 1 < dim <= 32:
        third = _third_derivatives(sample)
        axes["curvature"] = np.linalg.eigh(_energy(third))[1]
    if 1 < dim <= 24:
        axes["contrast"] = _Contrast(third, _fourth_derivatives(sample)).best_axes()
    return {name: drivers_first(sample, found) for name, found in axes.items()}


def _third_derivatives(sample):
    """Averaged third derivatives of ln p, shape (dim, dim, dim)."""
    w, residual = sample
    n, dim = w.shape
    third = residual.T @ (_pairs(w, w) - np.eye(dim).ravel()) / n
    third = third.reshape((dim,) * 3)
    # Each average has a derivative that comes first; their mean is symmetric.
    return (third + third.transpose(1, 0, 2) + third.transpose(2, 1, 0)) / 3.0


def _fourth_derivatives(sample):
    """Averaged fourth derivatives of ln p, shape (dim, dim, dim, dim)."""
    w, residual = sample
    n, dim = w.shape
    fourth = (_pairs(residual, w).T @ _pairs(w, w) / n).reshape((dim,) * 4)
    fourth -= 3.0 * np.einsum("ij,kl->ijkl", residual.T @ w / n, np.eye(dim))
    return sum(fourth.transpose(order) for order in _ORDERS) / len(_ORDERS)


# One of each set of orders of four indices that differ in the last two only.
_ORDERS = [
    (i, j, *(k for k in range(4) if k not in (i, j)))
    for i in range(4)
    for j in range(4)
    if i != j
]


def _pairs(a, b):
    """All products of two columns, shape (n, dim^2)."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)


def _energy(third):
    """Squares of the derivatives that have a direction in them, as a matrix."""
    return np.einsum("ijk,ljk->il", third, third)


class _Contrast(NamedTuple):
    """What a map with a given axis as driver gains, to first order, nats.

    ``(|T3(v, v, .)|^2 + |T3(v, ., .)|^2) / 4 + T4(v, v, v, v)^2 / 12`` of averaged
    third and fourth derivatives: for bends of the mean, for scales and for tails (Comon
    1994).
    """

    third: np.ndarray
    fourth: np.ndarray

    def _forms(self, axes):
        """``T3(v, v, .)``, ``T4(v, v, v, .)`` and ``T3(v, ., .)`` of columns v."""
        dim, m = axes.shape
        matrix = np.tensordot(self.third, axes, 1)
        third = np.einsum("ijm,jm->im", matrix, axes)
        squares = (axes[:, None] * axes[None]).reshape(-1, m)
        fourth = (self.fourth.reshape(dim**2, -1) @ squares).reshape(dim, dim, m)
        return third, np.einsum("ijm,jm->im", fourth, axes), matrix

    def __call__(self, axes):
        """Of every column, shape (n_axes,)."""
        third, fourth, matrix = self._forms(axes)
        bending = 0.25 * ((third**2).sum(axis=0) + (matrix**2).sum(axis=(0, 1)))
        return bending + (fourth * axes).sum(axis=0) ** 2 / 12.0

    def best_axes(self):
        """Orthonormal axes by deflation: the best one, the best beside it, ..."""
        dim = len(self.third)
        axes = np.empty((dim, 0))
        while axes.shape[1] < dim:
            # Orthonormal basis of what is left.
            basis = np.linalg.qr(axes, mode="complete")[0][:, axes.shape[1] :]
            found = basis @ self._climbed(basis)
            axes = np.column_stack([axes, found / np.linalg.norm(found)])
        return axes

    def _climbed(self, basis):
        """Coordinates in `basis` of the best direction that power iterations find."""
        energy = _energy(self.third)
        widest = np.linalg.eigh(basis.T @ energy @ basis)[1]
        # The coordinates' own axes, as far as they lie in the basis.
        size = np.linalg.norm(basis.T, axis=0)
        v = np.column_stack(
            [widest, (basis.T / np.maximum(size, _SHORT))[:, size > _SHORT]]
        )
        for _ in range(40):
            axes = basis @ v
            third, fourth, matrix = self._forms(axes)
            slope = np.einsum("ijm,im->jm", matrix, third) + 0.5 * energy @ axes
            slope = slope + (2.0 / 3.0) * (fourth * axes).sum(axis=0) * fourth
            slope = basis.T @ slope
            size = np.linalg.norm(slope, axis=0)
            # Damped: some of the old direction is kept.
            v = slope / np.where(size > 0, size, 1.0) + 0.3 * v
            size = np.linalg.norm(v, axis=0)
            v = v[:, size > _SHORT] / size[size > _SHORT]
        return v[:, np.argmax(self(basis @ v))]
