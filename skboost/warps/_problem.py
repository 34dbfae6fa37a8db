"""The ELBO of one Gaussian through a warp, on fixed draws."""

import numpy as np

from skboost._math import LOG_2PI
from skboost.approximation import finite_value_and_score
from skboost.transforms import Warp
from skboost.transforms._warp import Arguments, Tails, soft_clip

# Weight of the squares of everything that is not linear: what draws do not decide
# stays small.
_RIDGE = 1e-3


class WarpedELBO:
    """ELBO of a standard normal through a warp, in the parameters of the warp.

    The warp acts in coordinates w in which a first Gaussian is standard normal,
    ``theta = mean + factor w``, and starts as the identity.

    Parameters
    ----------
    target : Target
    mean : ndarray of shape (dim,)
    factor : ndarray of shape (dim, dim)
    base : ndarray of shape (n, dim)
        Fixed standard normal draws.
    edges : Edges
        Which entries of `scales` and `curves` may differ from zero.
    limit : float
        Of log scales, as in `Warp`.
    """

    def __init__(self, target, mean, factor, base, edges, limit):
        self.edges, self.limit = edges, limit
        self.target, self.mean, self.factor, self.base = target, mean, factor, base
        self.squares = base**2 - 1.0
        self.arguments = Arguments.of(base)
        dim = len(mean)
        # In many dimensions the linear part is diagonal: dim^2 numbers would fit noise.
        linear = np.ones((dim, dim)) if dim <= 50 else np.eye(dim)
        self._masks = (linear.astype(bool), *edges)
        n_entries, *n_edges = (int(mask.sum()) for mask in self._masks)
        self._ends = np.cumsum([dim, n_entries, dim, dim, *n_edges])
        self._log_volume = np.linalg.slogdet(factor)[1] + 0.5 * dim * (1.0 + LOG_2PI)

    @property
    def dim(self):
        """Number of coordinates."""
        return len(self.mean)

    @property
    def start(self):
        """The identity."""
        x = np.zeros(self._ends[-1])
        x[self.dim : self._ends[1]] = np.eye(self.dim)[self._masks[0]]
        return x

    @property
    def limits(self):
        """Largest absolute value of every parameter."""
        limits = np.full(self._ends[-1], np.inf)
        # Logarithms of the tails' exponents.
        limits[self._ends[1] : self._ends[3]] = 1.1
        return limits

    def _split(self, x):
        """Shift, logs of both exponents, matrix, `scales` and `curves`."""
        shift, linear, *exponents, scales, curves = np.split(x, self._ends[:-1])
        dense = np.zeros((3, self.dim, self.dim))
        parts = zip((linear, scales, curves), self._masks, dense, strict=True)
        for values, mask, out in parts:
            out[mask] = values
        return shift, *exponents, *dense

    def unpack(self, x):
        """The warp from standard normal draws to the target's coordinates."""
        shift, right, left, matrix, scales, curves = self._split(x)
        return Warp(
            self.mean + self.factor @ shift,
            self.factor @ matrix,
            np.exp(right),
            np.exp(left),
            scales,
            curves,
            self.limit,
        )

    def value_and_gradient(self, x):
        """ELBO in nats, less the ridge, and its gradient in `x`."""
        shift, log_a, log_b, matrix, scales, curves = self._split(x)
        sign, log_volume = np.linalg.slogdet(matrix)
        if sign <= 0:
            return -np.inf, np.zeros_like(x)
        a, b = np.exp(log_a), np.exp(log_b)
        tails = Tails.of(self.arguments, a, b)
        log_scale, clip_slope = soft_clip(self.base @ scales.T, self.limit)
        scale = np.exp(log_scale)
        stretched = tails.value * scale
        u = stretched + self.squares @ curves.T
        theta = self.mean + (shift + u @ matrix.T) @ self.factor.T
        log_joint, score = finite_value_and_score(self.target, theta)
        value = log_joint.mean() + log_volume + self._log_volume
        value += (tails.log_slope + log_scale).sum(axis=1).mean()

        n = len(self.base)
        slope = score @ self.factor / n
        by_u = slope @ matrix
        t_a, t_b, l_a, l_b = tails.exponent_slopes(self.arguments, a, b)
        by_tail = by_u * scale
        by_scale = (by_u * stretched + 1.0 / n) * clip_slope
        by_matrix = slope.T @ u + np.linalg.inv(matrix).T
        linear, driving, bending = self._masks
        gradient = [
            slope.sum(axis=0),
            by_matrix[linear],
            (by_tail * t_a).sum(axis=0) + l_a.mean(axis=0),
            (by_tail * t_b).sum(axis=0) + l_b.mean(axis=0),
            (by_scale.T @ self.base)[driving],
            (by_u.T @ self.squares)[bending],
        ]
        bent = x.copy()
        bent[: self._ends[1]] = 0.0
        gradient = np.concatenate(gradient) - _RIDGE * bent
        return value - 0.5 * _RIDGE * (bent @ bent), gradient
