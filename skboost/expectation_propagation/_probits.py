"""The logistic function as eight probits: expectations under Gaussians are closed."""

import numpy as np
from scipy.special import ndtr

from skboost._parallel import row_blocks

# Monahan and Stefanski 1989, as Nolan and Wand 2017 give them: weights and slopes of
# normal distribution functions whose sum is the logistic one, to 2e-9.
_WEIGHTS = np.array([
    0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818,
    0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354,
])  # fmt: skip
_SLOPES = np.array([
    1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391,
    0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306,
])  # fmt: skip
_HEIGHTS, _WIDTHS = _WEIGHTS / np.sqrt(2.0 * np.pi), _SLOPES[:, None] ** -2
# Below it the logistic function is the exponential, whose relative error is smaller
# than that of probits.
_TAIL = -10.0
# Temporaries for a number: those of all probits stay in the cache.
_EACH = 64


def _in_blocks(func, mean, variance):
    """Three arrays of a function of the means, the slopes of probits that are smoothed
    by Gaussians, their arguments and densities, (8, n)."""
    mean, variance = np.broadcast_arrays(mean, variance)
    out, means, variances = np.empty((3, mean.size)), mean.ravel(), variance.ravel()
    for some in row_blocks(mean.size, _EACH):
        m = means[some]
        a = 1.0 / np.sqrt(variances[some] + _WIDTHS)
        u = a * m
        out[:, some] = func(m, a, u, np.exp(-0.5 * u * u))
    return out.reshape(3, *mean.shape)


def _evidence(mean, a, u, density):
    z = _WEIGHTS @ ndtr(u) + 1e-300
    density *= a
    slope = _HEIGHTS @ density / z
    u *= a
    u *= density
    return np.log(z), slope, slope**2 + _HEIGHTS @ u / z


def log_evidence(mean, variance):
    """``ln E sigma(x)`` for Gaussian x, its slope in the mean and minus its bend."""
    value, slope, bend = _in_blocks(_evidence, mean, variance)
    far = mean + variance + 3.0 * np.sqrt(variance) < _TAIL
    if far.any():
        value = np.where(far, mean + 0.5 * variance, value)
        slope, bend = np.where(far, 1.0, slope), np.where(far, 0.0, bend)
    return value, slope, np.maximum(bend, 0.0)


def _expected(mean, a, u, density):
    slope = _WEIGHTS @ ndtr(-u)
    return mean * slope - _HEIGHTS @ (density / a), slope, _HEIGHTS @ (a * density)


def expected_log(mean, variance):
    """``E ln sigma(x)`` for Gaussian x, its slope in the mean and minus its bend."""
    return tuple(_in_blocks(_expected, mean, variance))
