"""Increasing functions of one number with a tail of its own on either side."""

from typing import NamedTuple

import numpy as np

# The function is constant further out, where no density of a mixture is left.
FARTHEST = 1e8
_MAX_STEPS, _CLOSE = 50, 4.0 * np.finfo(float).eps


class Arguments(NamedTuple):
    """What of z the tails need, whatever their exponents: fixed draws keep it.

    Attributes
    ----------
    arcsinh, half_log : ndarray of the shape of z
        ``asinh(z)`` and ``ln(1 + z^2) / 2``.
    """

    arcsinh: np.ndarray
    half_log: np.ndarray

    @classmethod
    def of(cls, z):
        """The arguments at z."""
        z = np.clip(z, -FARTHEST, FARTHEST)
        return cls(np.arcsinh(z), 0.5 * np.log1p(z**2))


class Tails(NamedTuple):
    """Values of ``T(z) = expm1(a u) / 2a - expm1(-b u) / 2b`` with ``u = asinh z``.

    T grows like ``z^a`` to the right and like ``-|z|^b`` to the left, ``T(0) = 0``,
    ``T'(0) = 1``, and a = b = 1 is the identity.

    Attributes
    ----------
    value, log_slope : ndarray of the shape of z
        ``T`` and ``ln T'``.
    up, down : ndarray of the shape of z
        ``exp(a u)`` and ``exp(-b u)``.
    """

    value: np.ndarray
    log_slope: np.ndarray
    up: np.ndarray
    down: np.ndarray

    @classmethod
    def of(cls, arguments, a, b):
        """The function with exponents a to the right and b to the left."""
        up, down = np.exp(a * arguments.arcsinh), np.exp(-b * arguments.arcsinh)
        value = (up - 1.0) / (2.0 * a) - (down - 1.0) / (2.0 * b)
        log_slope = np.log(0.5 * (up + down)) - arguments.half_log
        return cls(value, log_slope, up, down)

    def log_slope_slope(self, z, a, b):
        """Derivative of ``ln T'`` in z."""
        z = np.clip(z, -FARTHEST, FARTHEST)
        share = self.up / (self.up + self.down)
        square = 1.0 + z**2
        return (a * share - b * (1.0 - share)) / np.sqrt(square) - z / square

    def exponent_slopes(self, arguments, a, b):
        """Derivatives of ``T`` and of ``ln T'``, each in ``ln a`` and in ``ln b``."""
        u = arguments.arcsinh
        share = self.up / (self.up + self.down)
        value_a = 0.5 * (u * self.up - (self.up - 1.0) / a)
        value_b = 0.5 * (u * self.down + (self.down - 1.0) / b)
        return value_a, value_b, a * u * share, -b * u * (1.0 - share)


def inverse_tails(t, a, b):
    """Where ``T`` has the value t, by Newton's method in ``asinh z``.

    Parameters
    ----------
    t : ndarray of shape (n,)
    a, b : float
        Exponents of the right and of the left tail.
    """
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
