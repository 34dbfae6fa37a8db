"""A sparse triangular map of R^n to itself: skewness, funnels and bananas."""

from typing import NamedTuple

import numpy as np

from skboost.transforms._base import Transform
from skboost.transforms._tails import FARTHEST, Arguments, Tails, inverse_tails


def soft_clip(x, limit):
    """x within plus or minus `limit`, nearly itself up to half of it, and its slope."""
    ratio = 1.0 + (x / limit) ** 4
    return x * ratio**-0.25, ratio**-1.25


class _Pieces(NamedTuple):
    """What forward, Jacobian and gradients have in common at z, each (n, dim)."""

    z: np.ndarray
    tails: Tails
    log_scale: np.ndarray
    clip_slope: np.ndarray
    u: np.ndarray


class Warp(Transform):
    """``y = shift + A u``, u a sparse triangular function of z.

    ``u_j = T_j(z_j) exp(s_j) + sum_k K_jk (z_k^2 - 1)`` with the log scale
    ``s_j = sum_k S_jk z_k`` softly clipped, sums over k < j, and T_j increasing with
    tails like ``z^a_j`` to the right and ``-|z|^b_j`` to the left: close to the
    sinh-arcsinh functions of Jones & Pewsey 2009, with independent tails.
    Neal's funnel and a banana are such maps of a standard normal z.

    Parameters
    ----------
    shift : array-like of shape (dim,)
    matrix : array-like of shape (dim, dim)
        A, invertible.
    right, left : array-like of shape (dim,)
        Exponents a and b of the tails, positive.
    scales, curves : array-like of shape (dim, dim)
        S and K, strictly lower triangular.
    limit : float, default=5.0
        Log scales stay within plus or minus this: a line that fits where draws are is
        not to be followed to where there are none.

    References
    ----------
    Jones, M. C. and Pewsey, A. (2009). Sinh-arcsinh distributions. Biometrika 96(4).

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.transforms import Warp
    >>> bend = [[0.0, 0.0], [0.5, 0.0]]
    >>> one, none = np.ones(2), np.zeros((2, 2))
    >>> banana = Warp(np.zeros(2), np.eye(2), one, one, none, bend)
    >>> banana.forward(np.array([[2.0, 0.0]]))
    array([[2. , 1.5]])
    """

    def __init__(self, shift, matrix, right, left, scales, curves, limit=5.0):
        as_floats = (np.asarray(x, float) for x in (shift, matrix, right, left))
        self.shift, self.matrix, self.right, self.left = as_floats
        self.scales, self.curves = np.asarray(scales, float), np.asarray(curves, float)
        self.limit = float(limit)
        self.log_volume = np.linalg.slogdet(self.matrix)[1]

    @property
    def dim(self):
        """Number of coordinates."""
        return len(self.shift)

    @property
    def n_edges(self):
        """Entries of `scales` and `curves` that are not zero."""
        return int(np.count_nonzero(self.scales) + np.count_nonzero(self.curves))

    def _pieces(self, z):
        z = np.clip(z, -FARTHEST, FARTHEST)
        tails = Tails.of(Arguments.of(z), self.right, self.left)
        log_scale, clip_slope = soft_clip(z @ self.scales.T, self.limit)
        u = tails.value * np.exp(log_scale) + (z**2 - 1.0) @ self.curves.T
        return _Pieces(z, tails, log_scale, clip_slope, u)

    def _placed(self, pieces):
        return self.shift + pieces.u @ self.matrix.T

    def _log_jacobian(self, pieces):
        each = pieces.tails.log_slope + pieces.log_scale
        return each.sum(axis=1) + self.log_volume

    def _pulled(self, pieces, gradient, with_jacobian):
        """Gradient in z of ``f(forward(z))``, and of the log Jacobian where asked."""
        z, tails, log_scale, clip_slope, _ = pieces
        slope_u = gradient @ self.matrix
        scaled = slope_u * np.exp(log_scale)
        out = scaled * np.exp(tails.log_slope)
        through_scale = scaled * tails.value + with_jacobian
        out += (through_scale * clip_slope) @ self.scales
        out += 2.0 * z * (slope_u @ self.curves)
        if with_jacobian:
            out += tails.log_slope_slope(z, self.right, self.left)
        return out

    def forward(self, z):
        return self._placed(self._pieces(z))

    def log_jacobian(self, z):
        return self._log_jacobian(self._pieces(z))

    def log_jacobian_gradient(self, z):
        return self._pulled(self._pieces(z), np.zeros_like(z), 1.0)

    def pull(self, z, gradient):
        return self._pulled(self._pieces(z), gradient, 0.0)

    def mapped(self, z):
        """Images, log Jacobian and the way back of gradients, in one pass.

        Parameters
        ----------
        z : ndarray of shape (n, dim)

        Returns
        -------
        y : ndarray of shape (n, dim)
        log_jacobian : ndarray of shape (n,)
            Nats.
        pull : callable
            From the gradient of a function f at y to that of
            ``f(forward(z)) + log_jacobian(z)``, both (n, dim).
        """
        pieces = self._pieces(z)
        return (
            self._placed(pieces),
            self._log_jacobian(pieces),
            lambda gradient: self._pulled(pieces, gradient, 1.0),
        )

    def inverse(self, theta):
        u = np.linalg.solve(self.matrix, (theta - self.shift).T).T
        z = np.zeros_like(u)
        # Where values are huge, so are what they drive; the tails bend them back.
        with np.errstate(over="ignore", invalid="ignore"):
            for j in range(self.dim):
                before = z[:, :j]
                log_scale, _ = soft_clip(before @ self.scales[j, :j], self.limit)
                bent = (before**2 - 1.0) @ self.curves[j, :j]
                t = (u[:, j] - bent) * np.exp(-log_scale)
                z[:, j] = inverse_tails(t, self.right[j], self.left[j])
        return z

    def contains(self, theta):
        return np.isfinite(theta).all(axis=1)

    def record(self):
        return {
            "shift": self.shift.tolist(),
            "matrix": self.matrix.tolist(),
            "right": self.right.tolist(),
            "left": self.left.tolist(),
            "scales": self.scales.tolist(),
            "curves": self.curves.tolist(),
            "limit": self.limit,
        }

    @classmethod
    def from_record(cls, record):
        """The map that `record` was made from."""
        return cls(**record)

    def __hash__(self):
        return hash((type(self), self.shift.tobytes(), self.matrix.tobytes()))

    def __repr__(self):
        return f"Warp(dim={self.dim}, n_edges={self.n_edges})"
