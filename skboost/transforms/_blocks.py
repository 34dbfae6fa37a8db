"""Transforms of several coordinates together, in the forms of Stan."""

import numpy as np

from skboost.transforms._base import Transform
from skboost.transforms._elementwise import Interval, Real, clipped, within

# A coordinate of a simplex never underflows to zero, where a density may be infinite.
_SMALLEST = 1e-300
# How far from one the coordinates of a point of the simplex may add up to.
SUM_TOLERANCE = 1e-8


class Simplex(Transform):
    """Positive coordinates that add up to one, by stick breaking.

    Of what the coordinates before it left, coordinate k takes the share
    ``1 / (1 + exp(-y_k))`` with ``y_k = z_k - ln(K - k)``; the last takes the rest.
    z = 0 is the centre. Densities are those of the first K - 1 coordinates (Stan
    Reference Manual, "Unit simplex").
    """

    min_size = 2
    n_dropped = 1
    each = Interval()

    @staticmethod
    def _sticks(z):
        """Log share and log rest of every break, and the log stick before it."""
        n_breaks = z.shape[1]
        y = z - np.log(np.arange(n_breaks, 0, -1))
        log_share, log_rest = -np.logaddexp(0.0, -y), -np.logaddexp(0.0, y)
        log_stick = np.cumsum(log_rest, axis=1)
        before = np.column_stack([np.zeros(len(z)), log_stick])
        return log_share, log_rest, before

    def forward(self, z):
        log_share, _, before = self._sticks(z)
        first = np.exp(log_share + before[:, :-1])
        theta = np.column_stack([first, np.exp(before[:, -1])])
        return np.maximum(theta, _SMALLEST)

    def inverse(self, theta):
        after = np.cumsum(theta[:, ::-1], axis=1)[:, -2::-1]
        n_breaks = theta.shape[1] - 1
        odds = np.log(theta[:, :-1]) - np.log(after)
        return odds + np.log(np.arange(n_breaks, 0, -1))

    def log_jacobian(self, z):
        log_share, log_rest, before = self._sticks(z)
        return (log_share + log_rest + before[:, :-1]).sum(axis=1)

    def log_jacobian_gradient(self, z):
        share = np.exp(self._sticks(z)[0])
        return 1.0 - np.arange(z.shape[1] + 1, 1, -1) * share

    def pull(self, z, gradient):
        share = np.exp(self._sticks(z)[0])
        terms = gradient * self.forward(z)
        # A larger share of break k is paid for by all that come after it.
        onwards = np.cumsum(terms[:, ::-1], axis=1)[:, :0:-1]
        return terms[:, :-1] - share * onwards

    def contains(self, theta):
        total = np.abs(theta.sum(axis=1) - 1.0) <= SUM_TOLERANCE
        return (theta > 0).all(axis=1) & total

    def from_box(self, theta):
        return theta / theta.sum(axis=1, keepdims=True)

    def record(self):
        return "simplex"


class Ordered(Transform):
    """Increasing coordinates: the first is real, then ``exp(z_k)`` is added each time.

    Exact for abs(z) up to 700, constant beyond. Neighbours never tie (Stan Reference
    Manual, "Ordered vector").
    """

    exponential = True
    min_size = 2
    each = Real()

    def forward(self, z):
        theta = z.copy()
        step = np.exp(clipped(z))
        for k in range(1, z.shape[1]):
            before = theta[:, k - 1]
            theta[:, k] = np.maximum(before + step[:, k], np.nextafter(before, np.inf))
        return theta

    def inverse(self, theta):
        return np.column_stack([theta[:, 0], np.log(np.diff(theta, axis=1))])

    def log_jacobian(self, z):
        return clipped(z[:, 1:]).sum(axis=1)

    def log_jacobian_gradient(self, z):
        gradient = within(z)
        gradient[:, 0] = 0.0
        return gradient

    def pull(self, z, gradient):
        onwards = np.cumsum(gradient[:, ::-1], axis=1)[:, ::-1]
        step = np.exp(clipped(z)) * within(z)
        step[:, 0] = 1.0
        return step * onwards

    def contains(self, theta):
        rising = (np.diff(theta, axis=1) > 0).all(axis=1)
        return rising & np.isfinite(theta).all(axis=1)

    def from_box(self, theta):
        return np.sort(theta, axis=1)

    def record(self):
        return "ordered"
