"""Constraints behind a warp: one change of coordinates made of two."""

import numpy as np

from skboost.transforms._base import Transform
from skboost.transforms._constraints import Constraints, Part
from skboost.transforms._warp import Warp


class _Composed(Transform):
    """A warp, then constraints, as one transform of all coordinates together."""

    # Powers of Student-t variables may lack moments.
    exponential = True

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

    def from_box(self, theta):
        return self.base.from_box(theta)

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
    dim, n_free, parts
        As in `Constraints`; there is one part, of all coordinates together.
    base : Constraints
    warp : Warp

    Raises
    ------
    ValueError
        Where the dimensions differ.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.transforms import Constraints, Warp, WarpedConstraints
    >>> one, none = np.ones(1), np.zeros((1, 1))
    >>> warp = Warp([0.5], np.eye(1), one, one, none, none)
    >>> warped = WarpedConstraints(Constraints("positive", dim=1), warp)
    >>> warped.forward(np.zeros((1, 1))).round(4)
    array([[1.6487]])
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

    def __eq__(self, other):
        return isinstance(other, WarpedConstraints) and super().__eq__(other)

    def __hash__(self):
        return hash((self.dim, self.warp))

    def __repr__(self):
        return f"WarpedConstraints({self.base!r}, {self.warp!r})"
