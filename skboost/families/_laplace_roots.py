"""Affinity of Laplace densities, and the functions that it is made of.

Where two rates agree the closed forms are 0 / 0: every function here has the limit
there and every digit beside it.
"""

from math import factorial

import numpy as np

# Up to here series are used; they then give every digit.
_NEAR = 1.0
_TERMS = np.arange(10)
# (cosh z - sinh z / z) / z^2 and sinh z / z in powers of z^2, highest first.
_BEND = np.array([2 * (m + 1) / factorial(2 * m + 3) for m in _TERMS])[::-1]
_SINHC = np.array([1 / factorial(2 * m + 1) for m in _TERMS])[::-1]


def _split_at(z, near, far):
    """`near(z)` for small z, else `far(z)`; neither sees the other's arguments."""
    is_near = z < _NEAR
    return np.where(
        is_near, near(np.where(is_near, z, 0.0)), far(np.where(is_near, _NEAR, z))
    )


def faded(y):
    """``(1 - e^-y) / y`` for y >= 0."""
    y = np.maximum(y, np.finfo(float).tiny)
    return -np.expm1(-y) / y


def bend(z):
    """``e^-z (cosh z - sinh z / z) / z^2`` for z >= 0."""

    def far(z):
        fade = np.exp(-2 * z)
        return ((1 + fade) - (1 - fade) / z) / (2 * z**2)

    return _split_at(z, lambda z: np.exp(-z) * np.polyval(_BEND, z**2), far)


def langevin(z):
    """``coth z - 1 / z`` and its derivative, for z >= 0.

    Twice the mean of an exponential density cut to [-1/2, 1/2], of rate 2 z, and
    four times its variance.
    """

    def ratio(z):
        return np.polyval(_BEND, z**2) / np.polyval(_SINHC, z**2)

    def near(z):
        return 1.0 - (z * ratio(z)) ** 2 - 2.0 * ratio(z)

    def far(z):
        fade = np.exp(-2 * z)
        return 1.0 / z**2 - 4.0 * fade / (1.0 - fade) ** 2

    value = _split_at(z, lambda z: z * ratio(z), lambda z: 1 / np.tanh(z) - 1 / z)
    return value, _split_at(z, near, far)


def log_affinity(apart, log_a, log_b):
    """``ln integral sqrt(s_a s_b)`` of Laplace densities, and its slopes.

    With rates p = 1 / 2 b_a and q = 1 / 2 b_b, x = sqrt(p q) |apart| and
    v = ln(p / q) / 2, the integral of Campbell and Li's closed form reads
    ``e^(-x cosh v) [cosh(x sinh v) / cosh v + sinh(x sinh v) / sinh v]``.

    Parameters
    ----------
    apart, log_a, log_b : ndarray
        Difference of the locations, and the log scales, elementwise.

    Returns
    -------
    value, d_apart, d_log_a, d_log_b : ndarray
    """
    v = 0.5 * (log_b - log_a)
    w, sech = np.abs(v), 1.0 / np.cosh(v)
    root = 0.5 * np.exp(-0.5 * (log_a + log_b))
    x = root * np.abs(apart)
    d = x * np.sinh(w)
    same, other = 0.5 * (1.0 + np.exp(-2 * d)) * sech, x * faded(2 * d)
    both = same + other
    value = np.minimum(np.log(both) - x * np.exp(-w), 0.0)
    by_x = -sech * other / both
    by_v = np.sign(v) * x**2 * d * bend(d) * sech / both - np.tanh(v)
    return (
        value,
        np.sign(apart) * root * by_x,
        0.5 * (-x * by_x - by_v),
        0.5 * (-x * by_x + by_v),
    )
