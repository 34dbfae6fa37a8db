"""What every transform offers: a support on one side, all of R^k on the other."""

import numpy as np


class Transform:
    """One-to-one smooth map of z (n, k - n_dropped) to points theta (n, k) of a set.

    `n_dropped` coordinates follow from the others and have no part in the Jacobian;
    `each` has the range of a coordinate.
    """

    elementwise = False
    min_size = 1
    n_dropped = 0

    def forward(self, z):
        """Points of the set, shape (n, k)."""
        raise NotImplementedError

    def inverse(self, theta):
        """Unconstrained points, shape (n, k - n_dropped), of points in the set."""
        raise NotImplementedError

    def log_jacobian(self, z):
        """Log determinant of the Jacobian of `forward`, shape (n,), nats."""
        raise NotImplementedError

    def log_jacobian_gradient(self, z):
        """Gradient of `log_jacobian`, the shape of z."""
        raise NotImplementedError

    def pull(self, z, gradient):
        """Gradient in z of ``f(forward(z))``, given that of f in theta, (n, k)."""
        raise NotImplementedError

    def contains(self, theta):
        """Which points lie inside the set, bool, shape (n,)."""
        raise NotImplementedError

    def problem_with(self, size):
        """What a block of so many coordinates would need, as text, or None."""
        few = size < self.min_size
        return f"at least {self.min_size} coordinates" if few else None

    def from_box(self, theta):
        """Points drawn in a box, moved into the set where that is natural."""
        return theta

    def record(self):
        """What a user writes for this constraint: a string or (low, high)."""
        return self.name

    def __eq__(self, other):
        return type(self) is type(other) and self.record() == other.record()

    def __hash__(self):
        return hash((type(self), self.record()))

    def __repr__(self):
        return repr(self.record())


# What users write for some ranges.
_NAMES = {
    (None, None): "real",
    (0.0, None): "positive",
    (0.0, 1.0): "unit_interval",
}


class Elementwise(Transform):
    """Increasing function of a real number, smooth between `breakpoints`; a `period`
    is a circle."""

    elementwise = True
    low, high = -np.inf, np.inf
    breakpoints = ()
    # Length of a period, where the two ends are one point.
    period = None

    @property
    def each(self):
        return self

    def log_derivative(self, z):
        """Log of the derivative of `forward`, the shape of z."""
        raise NotImplementedError

    def log_derivative_slope(self, z):
        """Derivative of `log_derivative`, the shape of z."""
        raise NotImplementedError

    def derivative(self, z):
        """Derivative of `forward`, the shape of z."""
        return np.exp(self.log_derivative(z))

    def log_jacobian(self, z):
        return self.log_derivative(z).sum(axis=1)

    def log_jacobian_gradient(self, z):
        return self.log_derivative_slope(z)

    def pull(self, z, gradient):
        return gradient * self.derivative(z)

    def inside(self, theta):
        """Which numbers lie strictly between the ends, the shape of theta."""
        return (theta > self.low) & (theta < self.high)

    def contains(self, theta):
        return self.inside(theta).all(axis=1)

    def record(self):
        ends = (self.low, self.high)
        ends = tuple(float(end) if np.isfinite(end) else None for end in ends)
        return _NAMES.get(ends, ends)
