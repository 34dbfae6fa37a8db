"""All constraints of a parameter vector as one transform."""

from collections.abc import Mapping
from numbers import Integral
from numbers import Real as RealNumber
from typing import NamedTuple

import numpy as np

from skboost.transforms._blocks import Correlation, Ordered, Simplex
from skboost.transforms._elementwise import (
    Interval,
    LowerBound,
    Periodic,
    Real,
    Scale,
    Transform,
    interval,
)

TRANSFORMS = {
    "real": Real,
    "positive": LowerBound,
    "unit_interval": Interval,
    "periodic": Periodic,
    "simplex": Simplex,
    "ordered": Ordered,
    "correlation": Correlation,
}


def as_transform(value):
    """The transform of one entry: a name, None, a pair (low, high), or a tuple that
    begins with a name."""
    if value is None:
        return Real()
    if isinstance(value, Transform):
        return value
    if isinstance(value, str) and value in TRANSFORMS:
        return TRANSFORMS[value]()
    named = isinstance(value, tuple | list) and len(value) > 1
    if named and isinstance(value[0], str):
        name, *numbers = value
        known = all(_is_number(number) and np.isfinite(number) for number in numbers)
        if known and name == "scale" and len(numbers) == 1 and numbers[0] > 0.0:
            return Scale(*numbers)
        if known and name == "periodic" and len(numbers) in (2, 3):
            return _checked_period(*numbers)
    elif _is_interval(value):
        return _checked_interval(*value)
    raise ValueError(
        f"constraints: an entry must be one of {list(TRANSFORMS)}, None, a pair "
        "(low, high) of numbers, None for an open end, ('scale', size) with a "
        "positive size, or ('periodic', low, high) with finite ends; got "
        f"{value!r}."
    )


def _is_interval(value):
    """Two entries, each a number or None."""
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(end is None or _is_number(end) for end in value)
    )


def _is_number(value):
    return isinstance(value, RealNumber) and not isinstance(value, bool | np.bool_)


def _checked_interval(low, high):
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    # Also False for NaN, for (inf, inf), and where the width overflows.
    if not (low < high and low < np.inf and high > -np.inf):
        raise ValueError(
            f"constraints: (low, high) needs low < high; got ({low}, {high})."
        )
    if np.isfinite(low) and np.isfinite(high) and not np.isfinite(high - low):
        raise ValueError(
            f"constraints: the interval ({low}, {high}) is too wide for floating "
            "point. Use None for an open end."
        )
    return interval(float(low), float(high))


def _checked_period(low, high, cut=None):
    _checked_interval(low, high)
    if cut is not None and not low <= cut < high:
        raise ValueError(
            "constraints: ('periodic', low, high, cut) needs low <= cut < high; got "
            f"({low}, {high}, {cut}). Leave the cut out to have it found."
        )
    return Periodic(low, high, cut)


def parse(constraints, dim, names=None):
    """Transforms with their coordinates; one elementwise transform for all that
    share it."""
    elementwise, blocks = {}, []
    taken = np.zeros(dim, dtype=bool)
    for value, coordinates in _entries(constraints, dim, names):
        transform = as_transform(value)
        _claim(taken, coordinates)
        problem = transform.problem_with(len(coordinates))
        if problem:
            raise ValueError(
                f"constraints: {transform!r} needs {problem}; got {len(coordinates)}, "
                f"{tuple(coordinates)}. Pass a tuple of coordinates as key."
            )
        if transform.elementwise:
            elementwise.setdefault(transform, []).extend(coordinates)
        else:
            blocks.append((transform, tuple(coordinates)))
    free = np.flatnonzero(~taken).tolist()
    if free:
        elementwise.setdefault(Real(), []).extend(free)
    shared = [(transform, tuple(sorted(c))) for transform, c in elementwise.items()]
    return sorted(shared, key=lambda part: part[1]) + sorted(blocks, key=lambda p: p[1])


def _entries(constraints, dim, names):
    """Pairs of an entry and the coordinates that it is for."""
    if constraints is None:
        return []
    if isinstance(constraints, Mapping):
        return [
            (value, _coordinates(key, dim, names)) for key, value in constraints.items()
        ]
    everything = isinstance(constraints, str | Transform)
    if everything or isinstance(constraints, tuple) and _is_interval(constraints):
        return [(constraints, list(range(dim)))]
    if not isinstance(constraints, list | tuple) or len(constraints) != dim:
        raise ValueError(
            "constraints must be a dict, one string or tuple (low, high) for all "
            f"coordinates, or a sequence of length {dim}, one each; got "
            f"{constraints!r}."
        )
    for entry in constraints:
        if isinstance(entry, str) and not as_transform(entry).elementwise:
            raise ValueError(
                f"constraints: {entry!r} is for several coordinates together and can "
                "not be an entry of a sequence. Pass a dict whose key is a tuple of "
                "coordinates."
            )
    return [(entry, [i]) for i, entry in enumerate(constraints)]


def _coordinates(key, dim, names):
    """Indices of the coordinates that a key of the dict means."""
    if isinstance(key, slice):
        return list(range(dim)[key])
    if isinstance(key, tuple | list | range | np.ndarray):
        return [_coordinate(one, dim, names) for one in key]
    return [_coordinate(key, dim, names)]


def _coordinate(key, dim, names):
    if isinstance(key, str):
        if names is None or key not in names:
            known = "there are none" if names is None else list(names)
            raise ValueError(
                f"constraints: a key must be one of the names ({known}) or an index; "
                f"got {key!r}."
            )
        return list(names).index(key)
    whole = isinstance(key, Integral) and not isinstance(key, bool | np.bool_)
    if not whole or not -dim <= key < dim:
        raise ValueError(
            f"constraints: a coordinate must be an index below dim={dim} or a name; "
            f"got {key!r}."
        )
    return int(key) % dim


def _claim(taken, coordinates):
    if not coordinates:
        raise ValueError(
            "constraints: a key must mean at least one coordinate; got an empty one."
        )
    for i in coordinates:
        if taken[i]:
            raise ValueError(
                f"constraints: coordinate {i} is named more than once. Give each "
                "coordinate one constraint."
            )
        taken[i] = True


# --- all of them as one transform


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
