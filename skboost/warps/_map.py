"""A sparse triangular map of R^n to itself: skewness, funnels and bananas.

Its tails are increasing functions of one number; constraints may stand behind it.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from skboost.transforms import Constraints, Part, Transform

# The function is constant further out, where no density of a mixture is left.
FARTHEST = 1e8
_MAX_STEPS, _CLOSE = 50, 4.0 * np.finfo(float).eps


class Tails(NamedTuple):
    """``T(z) = expm1(a u) / 2a - expm1(-b u) / 2b``, ``u = asinh z``, a = b = 1 the
    identity.

    T grows like ``z^a`` to the right and ``-|z|^b`` to the left, and has slope 1 at 0.
    """

    value: np.ndarray
    log_slope: np.ndarray
    u: np.ndarray
    up: np.ndarray
    down: np.ndarray

    @classmethod
    def of(cls, z, a, b):
        """The function with exponents a to the right and b to the left."""
        z = np.clip(z, -FARTHEST, FARTHEST)
        u = np.arcsinh(z)
        up, down = np.exp(a * u), np.exp(-b * u)
        value = (up - 1.0) / (2.0 * a) - (down - 1.0) / (2.0 * b)
        log_slope = np.log(0.5 * (up + down)) - 0.5 * np.log1p(z**2)
        return cls(value, log_slope, u, up, down)

    def log_slope_slope(self, z, a, b):
        """Derivative of ``ln T'`` in z."""
        z = np.clip(z, -FARTHEST, FARTHEST)
        share = self.up / (self.up + self.down)
        square = 1.0 + z**2
        return (a * share - b * (1.0 - share)) / np.sqrt(square) - z / square

    def exponent_slopes(self, a, b):
        """Derivatives of ``T`` and of ``ln T'``, each in ``ln a`` and in ``ln b``."""
        _, _, u, up, down = self
        share = up / (up + down)
        value_a = 0.5 * (u * up - (up - 1.0) / a)
        value_b = 0.5 * (u * down + (down - 1.0) / b)
        return value_a, value_b, a * u * share, -b * u * (1.0 - share)


def inverse_tails(t, a, b):
    """Where ``T`` has the values t, (n,), by Newton's method in ``asinh z``."""
    nearer = np.where(t > 0, a, b)
    # Without the other tail: further out than the answer.
    u = np.sign(t) * np.log1p(2.0 * nearer * np.abs(t)) / nearer
    for _ in range(_MAX_STEPS):
        excess = np.expm1(a * u) / (2.0 * a) - np.expm1(-b * u) / (2.0 * b) - t
        step = 2.0 * excess / (np.exp(a * u) + np.exp(-b * u))
        u = u - step
        if (np.abs(step) <= _CLOSE * (1.0 + np.abs(u))).all():
            break
    return np.sinh(u)


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
    >>> from skboost.warps import Warp
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
        tails = Tails.of(z, self.right, self.left)
        log_scale, clip_slope = soft_clip(z @ self.scales.T, self.limit)
        u = tails.value * np.exp(log_scale) + (z**2 - 1.0) @ self.curves.T
        return _Pieces(z, tails, log_scale, clip_slope, u)

    def _pulled(self, pieces, gradient, with_jacobian=1.0):
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
        return self.mapped(z)[0]

    def log_jacobian(self, z):
        return self.mapped(z)[1]

    def log_jacobian_gradient(self, z):
        return self._pulled(self._pieces(z), np.zeros_like(z))

    def pull(self, z, gradient):
        return self._pulled(self._pieces(z), gradient, with_jacobian=0.0)

    def mapped(self, z):
        """Images (n, dim), log Jacobian (n,) in nats and the way back of gradients,
        in one pass."""
        pieces = self._pieces(z)
        y = self.shift + pieces.u @ self.matrix.T
        each = pieces.tails.log_slope + pieces.log_scale
        log_jacobian = each.sum(axis=1) + self.log_volume
        return y, log_jacobian, partial(self._pulled, pieces)

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
        names = ("shift", "matrix", "right", "left", "scales", "curves")
        arrays = {name: vars(self)[name].tolist() for name in names}
        return arrays | {"limit": self.limit}

    @classmethod
    def from_record(cls, record):
        """The map that `record` was made from."""
        return cls(**record)

    def __hash__(self):
        return hash((type(self), self.shift.tobytes(), self.matrix.tobytes()))

    def __repr__(self):
        return f"Warp(dim={self.dim}, n_edges={self.n_edges})"


class _Composed(Transform):
    """A warp, then constraints, as one transform of all coordinates together."""

    # Powers of Student-t variables may lack moments.

    def __init__(self, base, warp):
        self.base, self.warp = base, warp

    def forward(self, z):
        return self.base.forward(self.warp.forward(z))

    def inverse(self, theta):
        return self.warp.inverse(self.base.inverse(theta))

    def log_jacobian(self, z):
        return self.mapped(z)[1]

    def log_jacobian_gradient(self, z):
        y, _, pull = self.warp.mapped(z)
        return pull(self.base.log_jacobian_gradient(y))

    def pull(self, z, gradient):
        y = self.warp.forward(z)
        return self.warp.pull(z, self.base.pull(y, gradient))

    def contains(self, theta):
        return self.base.contains(theta)

    def mapped(self, z):
        y, log_jacobian, pull_warp = self.warp.mapped(z)
        theta, base_log_jacobian, pull_base = self.base.mapped(y)

        def pull(gradient):
            return pull_warp(pull_base(gradient))

        return theta, log_jacobian + base_log_jacobian, pull

    def record(self):
        return [self.base.record(), self.warp.record()]

    def __repr__(self):
        return repr(self.warp)


class WarpedConstraints(Constraints):
    """Constraints whose unconstrained coordinates are themselves a map of others.

    Everything is as in `Constraints`, with z the coordinates before the map. No
    coordinate is transformed by itself.

    Parameters
    ----------
    base : Constraints
        Of the user's scale.
    warp : Warp
        Of dimension ``base.n_free``.

    Attributes
    ----------
    dim, n_free, parts, base, warp
        As in `Constraints`, with one part, and as given.

    Examples
    --------
    >>> from skboost.transforms import Constraints
    >>> from skboost.warps import Warp, WarpedConstraints
    >>> warp = Warp([0.5], [[1.0]], [1.0], [1.0], [[0.0]], [[0.0]])
    >>> WarpedConstraints(Constraints("positive", dim=1), warp).n_free
    1
    """

    def __init__(self, base, warp):
        if warp.dim != base.n_free:
            raise ValueError(
                f"warp must have dimension {base.n_free}, the number of unconstrained "
                f"coordinates; got dimension {warp.dim}."
            )
        self.base, self.warp = base, warp
        self.dim, self.n_free = base.dim, base.n_free
        columns, free = np.arange(self.dim), np.arange(self.n_free)
        self.parts = (Part(_Composed(base, warp), columns, free),)

    def mapped(self, z):
        return self.parts[0].transform.mapped(z)

    @property
    def periodic(self):
        return self.base.periodic

    def range_of(self, i):
        return self.base.range_of(i)

    def violated_by(self, point):
        return self.base.violated_by(point)

    def record(self):
        return self.parts[0].transform.record()

    @classmethod
    def from_record(cls, record, dim):
        """The constraints that `record` was made from."""
        base, warp = record
        return cls(Constraints.from_record(base, dim), Warp.from_record(warp))

    def __hash__(self):
        return hash((self.dim, self.warp))

    def __repr__(self):
        return f"WarpedConstraints({self.base!r}, {self.warp!r})"
