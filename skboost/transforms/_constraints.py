"""All constraints of a parameter vector as one transform."""

from typing import NamedTuple

import numpy as np

from skboost.transforms._base import Transform
from skboost.transforms._elementwise import Periodic, Real
from skboost.transforms._parse import parse


class Part(NamedTuple):
    """One transform, its columns on the user's scale and on the unconstrained one."""

    transform: Transform
    columns: np.ndarray
    free: np.ndarray


class Constraints:
    """Where each coordinate of a parameter lives, and the map from all of R^n_free.

    Parameters
    ----------
    constraints : dict, str, tuple, sequence or None
        A dict from coordinates to constraints. A key is an index, a name, or a
        tuple or range of them (a slice from Python 3.12 on, where it can be a key).
        A constraint is one of

        - ``"positive"``: above zero;
        - ``"unit_interval"``: between 0 and 1;
        - ``("scale", size)``: above zero, for standard deviations and other scales
          whose density need not vanish at zero; see `Scale`;
        - ``(low, high)``: between two numbers; None for no end on that side;
        - ``"periodic"``: an angle from 0 to 2 pi, where the ends are one point, and
          ``("periodic", low, high)`` for other periods; see `Periodic`;
        - ``"simplex"``: positive, with sum one; needs two coordinates or more;
        - ``"ordered"``: increasing; needs two coordinates or more;
        - ``"correlation"``: a correlation matrix of K variables; its K (K - 1) / 2
          coordinates are ``R[np.tril_indices(K, -1)]``; see `Correlation`;
        - ``"real"`` or None: anywhere.

        The first five hold for each coordinate of a key by itself. A single string
        or a tuple (low, high) holds for all coordinates; a sequence of `dim` entries
        has one for each.
    dim : int
        Number of coordinates on the user's scale.
    names : sequence of str, default=None
        Names of the coordinates, to be used as keys.

    Attributes
    ----------
    n_free : int
        Number of unconstrained coordinates: `dim`, less the last of each simplex.
    dim, parts, warp : int, tuple of Part, Warp or None
        See `WarpedConstraints` for the last, a map of the unconstrained coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.transforms import Constraints
    >>> constraints = Constraints({0: "positive", (1, 2, 3): "simplex"}, dim=4)
    >>> constraints.n_free
    3
    >>> constraints.forward(np.zeros((1, 3))).round(3)
    array([[1.   , 0.333, 0.333, 0.333]])
    """

    warp = None

    def __init__(self, constraints, dim, names=None):
        parsed = parse(constraints, dim, names)
        self.dim = dim
        free = np.ones(dim, dtype=bool)
        for transform, columns in parsed:
            if transform.n_dropped:
                free[list(columns[-transform.n_dropped :])] = False
        position = np.cumsum(free) - 1
        self.n_free = int(free.sum())
        self.parts = tuple(
            Part(transform, columns, position[columns[free[columns]]])
            for transform, columns in ((t, np.array(c)) for t, c in parsed)
        )

    @property
    def trivial(self):
        """Whether nothing is constrained."""
        return all(isinstance(part.transform, Real) for part in self.parts)

    def forward(self, z):
        """Points on the user's scale, shape (n, dim), of z (n, n_free)."""
        theta = np.empty((len(z), self.dim))
        for transform, columns, free in self.parts:
            theta[:, columns] = transform.forward(z[:, free])
        return theta

    def inverse(self, theta):
        """Unconstrained points, shape (n, n_free), of points inside all constraints."""
        z = np.empty((len(theta), self.n_free))
        for transform, columns, free in self.parts:
            z[:, free] = transform.inverse(theta[:, columns])
        return z

    def log_jacobian(self, z):
        """Log determinant of the Jacobian at z, shape (n,), nats, without last ones
        of simplices."""
        return sum(p.transform.log_jacobian(z[:, p.free]) for p in self.parts)

    def log_jacobian_gradient(self, z):
        """Gradient of `log_jacobian`, shape (n, n_free)."""
        gradient = np.empty(z.shape)
        for transform, _, free in self.parts:
            gradient[:, free] = transform.log_jacobian_gradient(z[:, free])
        return gradient

    def pull(self, z, gradient):
        """Gradient in z of ``f(forward(z))``, (n, n_free), by that of f there, (n,
        dim)."""
        pulled = np.empty(z.shape)
        for transform, columns, free in self.parts:
            pulled[:, free] = transform.pull(z[:, free], gradient[:, columns])
        return pulled

    def mapped(self, z):
        """Points (n, dim), log Jacobian (n,) in nats and the way back of gradients,
        from z.

        The last takes the gradient of f at theta to that of ``f(forward(z)) +
        log_jacobian(z)``, (n, n_free).
        """

        def pull(gradient):
            return self.pull(z, gradient) + self.log_jacobian_gradient(z)

        return self.forward(z), self.log_jacobian(z), pull

    def contains(self, theta):
        """Which points (n, dim) lie inside all constraints, bool, shape (n,)."""
        parts = [p.transform.contains(theta[:, p.columns]) for p in self.parts]
        return np.logical_and.reduce(parts)

    def from_box(self, theta):
        """Points of a box: a simplex divided by its sum, ordered ones sorted."""
        moved = np.empty(theta.shape)
        for transform, columns, _ in self.parts:
            moved[:, columns] = transform.from_box(theta[:, columns])
        return moved

    def violated_by(self, point):
        """What a point (dim,) violates: text, or None."""
        for transform, columns, _ in self.parts:
            if not transform.contains(point[None, columns])[0]:
                if transform.elementwise:
                    columns = columns[~transform.inside(point[columns])][:1]
                return (
                    f"{transform!r} of coordinate{'s' * (columns.size > 1)} "
                    f"{', '.join(map(str, columns))} "
                    f"(there it has {point[columns].tolist()})"
                )
        return None

    def elementwise(self, i):
        """Transform and unconstrained index of coordinate i; None inside a block."""
        for transform, columns, free in self.parts:
            if transform.elementwise and i in columns:
                return transform, int(free[columns == i][0])
        return None

    @property
    def periodic(self):
        """The transforms of periodic coordinates, by their indices."""
        parts = [part for part in self.parts if part.transform.each.period]
        return {int(i): part.transform for part in parts for i in part.columns}

    def with_cuts(self, cuts):
        """The same, with periods cut at other points, a dict by coordinates."""
        found = {}
        for transform, columns, _ in self.parts:
            kept = tuple(i for i in columns.tolist() if i not in cuts)
            found |= {kept: transform} if kept else {}
        for i, cut in cuts.items():
            each = self.range_of(i)
            found[(i,)] = Periodic(each.low, each.high, cut)
        return Constraints(found, self.dim)

    def range_of(self, i):
        """An elementwise transform that has the range of coordinate i."""
        return next(p.transform.each for p in self.parts if i in p.columns)

    def record(self):
        """The constraints as JSON can hold them: list of [constraint, coordinates]."""
        return [[p.transform.record(), p.columns.tolist()] for p in self.parts]

    @classmethod
    def from_record(cls, record, dim):
        """The constraints that `record` was made from."""
        return cls({tuple(columns): what for what, columns in record}, dim)

    def __eq__(self, other):
        if not isinstance(other, Constraints):
            return NotImplemented
        return (self.dim, self.record()) == (other.dim, other.record())

    def __hash__(self):
        return hash((self.dim, self.n_free))

    def __repr__(self):
        shown = {
            _short(part.columns.tolist()): part.transform
            for part in self.parts
            if not isinstance(part.transform, Real)
        }
        return f"Constraints({shown}, dim={self.dim})"


def _short(columns):
    """Coordinates as a key that prints short."""
    if len(columns) == 1:
        return columns[0]
    together = range(columns[0], columns[-1] + 1)
    return together if columns == list(together) else tuple(columns)
