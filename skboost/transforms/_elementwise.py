"""Transforms of one coordinate: half-lines by the exponential, intervals by logit."""

import numpy as np
from scipy.special import expit, log_ndtr


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
_NAMES = {(None, None): "real", (0.0, None): "positive", (0.0, 1.0): "unit_interval"}


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


# --- one coordinate


# exp and what users do with it (a ratio, a gradient) stay finite up to here. Beyond,
# `forward` is constant.
LIMIT = 700.0


def clipped(z):
    """z where the exponential is taken, within the limit."""
    return np.clip(z, -LIMIT, LIMIT)


def within(z):
    """One where z is within the limit, zero where `clipped` is constant."""
    return (np.abs(z) <= LIMIT).astype(float)


class Real(Elementwise):
    """No constraint: the identity."""

    def forward(self, z):
        return z

    def inverse(self, theta):
        return theta

    def log_derivative(self, z):
        return np.zeros_like(z)

    log_derivative_slope = log_derivative


class LowerBound(Elementwise):
    """``theta = low + exp(z)``, constant beyond abs(z) of 700 and never `low`."""

    def __init__(self, low=0.0):
        self.low = float(low)

    def forward(self, z):
        closest = np.nextafter(self.low, np.inf)
        return np.maximum(self.low + np.exp(clipped(z)), closest)

    def inverse(self, theta):
        return np.log(theta - self.low)

    def log_derivative(self, z):
        return clipped(z)

    def log_derivative_slope(self, z):
        return within(z)

    def derivative(self, z):
        return np.exp(clipped(z)) * within(z)


class Scale(Elementwise):
    """Positive numbers whose density may be finite at zero: ``size exp(z) Phi(z)``.

    Below `size` a density that does not vanish at zero gets the tail of a Gaussian.
    """

    low = 0.0

    def __init__(self, size=1.0):
        self.size = float(size)

    def forward(self, z):
        z = clipped(z)
        log = np.log(self.size) + z + log_ndtr(z)
        return np.maximum(np.exp(np.clip(log, -LIMIT, LIMIT)), np.nextafter(0.0, 1.0))

    def inverse(self, theta):
        log = np.log(theta) - np.log(self.size)
        # Left of the solution, from where Newton's steps on a concave function ascend.
        z = np.where(log > 0.0, log, -np.sqrt(np.maximum(-2.0 * log, 0.0)))
        for _ in range(100):
            step = (log - z - log_ndtr(z)) / (1.0 + _mills(z))
            z = z + step
            if not np.any(np.abs(step) > 1e-13 * (1.0 + np.abs(z))):
                break
        return z

    def log_derivative(self, z):
        z = clipped(z)
        return np.log(self.size) + z + log_ndtr(z) + np.log1p(_mills(z))

    def log_derivative_slope(self, z):
        ratio = _mills(clipped(z))
        return (1.0 + ratio - ratio * (clipped(z) + ratio) / (1.0 + ratio)) * within(z)

    def record(self):
        return "scale", self.size


def _mills(z):
    """Density over distribution function of a standard normal variable."""
    return np.exp(-0.5 * z * z - 0.5 * np.log(2.0 * np.pi) - log_ndtr(z))


class UpperBound(Elementwise):
    """``theta = high - exp(-z)``: increasing in z, as quantiles want it."""

    def __init__(self, high):
        self.high = float(high)

    def forward(self, z):
        closest = np.nextafter(self.high, -np.inf)
        return np.minimum(self.high - np.exp(-clipped(z)), closest)

    def inverse(self, theta):
        return -np.log(self.high - theta)

    def log_derivative(self, z):
        return -clipped(z)

    def log_derivative_slope(self, z):
        return -within(z)

    def derivative(self, z):
        return np.exp(-clipped(z)) * within(z)


class Interval(Elementwise):
    """``theta = low + (high - low) / (1 + exp(-z))``, never equal to an end."""

    # The logistic function is flat to rounding beyond 40.
    breakpoints = tuple(range(-40, 41))

    def __init__(self, low=0.0, high=1.0):
        self.low, self.high = float(low), float(high)

    def forward(self, z):
        width = self.high - self.low
        # From the nearer end, so that the distance to it keeps all its digits.
        below = self.low + width * expit(np.minimum(z, 0.0))
        above = self.high - width * expit(-np.maximum(z, 0.0))
        theta = np.where(z < 0, below, above)
        ends = np.nextafter([self.low, self.high], [self.high, self.low])
        return np.clip(theta, *ends)

    def inverse(self, theta):
        return np.log(theta - self.low) - np.log(self.high - theta)

    def log_derivative(self, z):
        distance = np.abs(z)
        width = np.log(self.high - self.low)
        return width - distance - 2.0 * np.log1p(np.exp(-distance))

    def log_derivative_slope(self, z):
        return -np.tanh(0.5 * z)


class Periodic(Elementwise):
    """Numbers whose interval is a circle: ``low <= theta < high``, the ends one point.

    An `Interval` of one period that begins and ends at `cut`; values beyond `high` come
    in again at `low`. Densities that vanish nowhere have their cut best where they are
    lowest.

    Parameters
    ----------
    low, high : float, default=0.0, 2 pi
    cut : float or None, default=None
        In ``low <= cut < high``. None is `low`; `boost_posterior` puts it where the
        density is low, unless it is given.
    """

    breakpoints = Interval.breakpoints

    def __init__(self, low=0.0, high=2.0 * np.pi, cut=None):
        self.low, self.high, self.placed = float(low), float(high), cut is not None
        self.cut = float(cut) if self.placed else self.low
        self.period = self.high - self.low
        self._arc = Interval(self.cut, self.cut + self.period)

    def rolled(self, theta):
        """Numbers of up to two periods from `low` on, moved into the interval."""
        moved = np.where(theta < self.high, theta, theta - self.period)
        return np.clip(moved, self.low, np.nextafter(self.high, self.low))

    def unrolled(self, theta):
        """Points of the interval as numbers from `cut` on, up to a period further."""
        return np.where(theta < self.cut, theta + self.period, theta)

    def forward(self, z):
        return self.rolled(self._arc.forward(z))

    def inverse(self, theta):
        low, high = self._arc.low, self._arc.high
        ends = np.nextafter([low, high], [high, low])
        return self._arc.inverse(np.clip(self.unrolled(theta), *ends))

    def log_derivative(self, z):
        return self._arc.log_derivative(z)

    def log_derivative_slope(self, z):
        return self._arc.log_derivative_slope(z)

    def inside(self, theta):
        return (theta >= self.low) & (theta < self.high)

    def deviation(self, theta, centre):
        """Distances from `centre` along the shorter way, with their sign."""
        half = 0.5 * self.period
        return np.mod(theta - centre + half, self.period) - half

    def moments(self, theta, weights):
        """Circular mean and standard deviation of weighted points, in units of theta.

        By ``exp(i angle)`` and ``sqrt(-2 ln R)``, R its length (Mardia and Jupp 2000,
        2.3).
        """
        unit = 2.0 * np.pi / self.period
        direction = np.angle(weights @ np.exp(1j * unit * (theta - self.low)))
        turned = np.mod(direction, 2.0 * np.pi) / unit
        mean = self.rolled(self.low + turned)
        # One less R from small numbers, so that narrow densities keep their digits.
        half = 0.5 * unit * self.deviation(theta, mean)
        less = min(2.0 * weights @ np.sin(half) ** 2, 1.0)
        with np.errstate(divide="ignore"):
            return mean, np.sqrt(-2.0 * np.log1p(-less)) / unit

    def record(self):
        given = "periodic", self.low, self.high
        return (*given, self.cut) if self.placed else given


def interval(low, high):
    """The transform of ``low < theta < high``; infinite ends are none."""
    if np.isinf(low):
        return Real() if np.isinf(high) else UpperBound(high)
    return LowerBound(low) if np.isinf(high) else Interval(low, high)
