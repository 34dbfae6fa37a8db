"""The logistic function as eight probits: expectations under Gaussians are closed."""

import numpy as np
from scipy.special import ndtr

# Monahan and Stefanski 1989, as Nolan and Wand 2017 give them: weights and slopes of
# normal distribution functions whose sum is the logistic one, to 2e-9.
_WEIGHTS = (
    0.003246343272134,
    0.051517477033972,
    0.195077912673858,
    0.315569823632818,
    0.274149576158423,
    0.131076880695470,
    0.027912418727972,
    0.001449567805354,
)
_SLOPES = (
    1.365340806296348,
    1.059523971016916,
    0.830791313765644,
    0.650732166639391,
    0.508135425366489,
    0.396313345166341,
    0.308904252267995,
    0.238212616409306,
)
_TERMS = tuple(zip(_WEIGHTS, _SLOPES, strict=True))
_DENSITY = 1.0 / np.sqrt(2.0 * np.pi)
# Below it the logistic function is the exponential, whose relative error is smaller
# than that of probits.
_TAIL = -10.0


def _smoothed(mean, variance):
    """Slope and argument of every probit after smoothing by Gaussians, and density."""
    for weight, slope in _TERMS:
        a = slope / np.sqrt(1.0 + slope**2 * variance)
        u = a * mean
        yield weight, a, u, _DENSITY * np.exp(-0.5 * u * u)


def log_evidence(mean, variance):
    """``ln E sigma(x)`` for Gaussian x, its slope in the mean and minus its bend."""
    z, first, second = np.full(mean.shape, 1e-300), 0.0, 0.0
    for weight, a, u, density in _smoothed(mean, variance):
        z += weight * ndtr(u)
        term = (weight * a) * density
        first = first + term
        second = second - a * u * term
    value, slope = np.log(z), first / z
    bend = slope**2 - second / z
    far = mean + variance + 3.0 * np.sqrt(variance) < _TAIL
    if far.any():
        value = np.where(far, mean + 0.5 * variance, value)
        slope, bend = np.where(far, 1.0, slope), np.where(far, 0.0, bend)
    return value, slope, np.maximum(bend, 0.0)


def expected_log(mean, variance):
    """``E ln sigma(x)`` for Gaussian x, its slope in the mean and minus its bend."""
    value = slope = bend = 0.0
    for weight, a, u, density in _smoothed(mean, variance):
        below = weight * ndtr(-u)
        term = weight * density
        value = value + mean * below - term / a
        slope = slope + below
        bend = bend + a * term
    return value, slope, bend
