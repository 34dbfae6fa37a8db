"""A cheap stand-in for a log density that is dear: a quadratic and a Gaussian process.

In coordinates z in which a known mixture has mean zero and covariance I, the surrogate
is ``-|z|^2 / 2 + trend(z) + kernel(z)``: a quadratic fitted to values and gradients,
and the mean of a Gaussian process on what it leaves. Outside of the ball that holds all
points whose density matters, both are held constant along rays, so that the surrogate
falls as a Gaussian does, whatever was fitted.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from skboost.targets import Target

# Nats below the highest value, beside half a nat for every coordinate, from which on
# a value need not be met closely; from `_FLAT` on only its logarithm counts, and none
# is lower than twice that.
_MATTERS, _FLAT = 5.0, 60.0
# Error allowed at values that matter, nats, and at others as a share of their depth.
_NOISE, _SHARE = 0.01, 0.1
# Points at a time, so that their kernel stays in the cache.
_CHUNK = 512


class Surrogate(Target):
    """See the module; z solves ``factor @ z = theta - centre``, factor triangular.

    The trend holds coefficients of 1, the coordinates and their products.
    """

    portable = True

    def __init__(self, centre, factor, radius, trend, kernel):
        self.dim = len(centre)
        self.centre, self.factor, self.radius = centre, factor, radius
        self.trend, self.kernel = trend, kernel

    def __getstate__(self):
        # What a fit may spend ends with it.
        return {name: held for name, held in vars(self).items() if name != "ledger"}

    def value_and_score(self, theta, strict=False):
        """Values (n,) and exact gradients (n, dim)."""
        self.ledger.spend(len(theta))
        z = whitened(np.atleast_2d(theta), self.centre, self.factor)
        size = np.sqrt((z**2).sum(axis=1))
        length, slope = _held(size, self.radius)
        share = length / np.maximum(size, 1e-300)
        value, gradient = self._above_normal(share[:, None] * z)
        # The derivative of z -> share z is share (I - u u') + slope u u'.
        unit = z / np.maximum(size, 1e-300)[:, None]
        along = (unit * gradient).sum(axis=1)
        gradient = share[:, None] * gradient + ((slope - share) * along)[:, None] * unit
        score = solve_triangular(self.factor, (gradient - z).T, lower=True, trans=1)
        return value - 0.5 * size**2, score.T

    def _above_normal(self, z):
        """Trend and kernel, and their gradients in z."""
        constant, slope, products = np.split(self.trend, [1, 1 + self.dim])
        bend = np.zeros((self.dim, self.dim))
        bend[np.triu_indices(self.dim)] = products
        pulled = z @ (bend + bend.T)
        value, gradient = self.kernel.value_and_gradient(z)
        value += constant + z @ slope + 0.5 * (z * pulled).sum(axis=1)
        return value, gradient + slope + pulled


@dataclass(frozen=True)
class Kernel:
    """A sum of Gaussian bumps of one width.

    The scale is the variance of the Gaussian process before anything is known, squared
    nats; the noise is the error allowed at each point, nats.
    """

    points: np.ndarray
    heights: np.ndarray
    length: float
    scale: float
    noise: np.ndarray

    def value_and_gradient(self, z):
        """Sum (m,) and its gradient (m, dim) at points (m, dim)."""
        parts = [self._chunk(z[a : a + _CHUNK]) for a in range(0, len(z), _CHUNK)]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def _chunk(self, z):
        bumps = np.exp(_exponents(z, self.points, self.length))
        by_height = np.column_stack([np.ones(len(self.points)), self.points])
        sums = bumps @ (self.heights[:, None] * by_height)
        return sums[:, 0], (sums[:, 1:] - sums[:, :1] * z) / self.length**2


def _exponents(a, b, length=1.0):
    """Minus half the squared distances in units of a length, (n, m).

    One matrix product is several times as fast as differences of all pairs, and points
    that are whitened lose no digit that counts.
    """
    a, b = a / length, b / length
    left = [a, -0.5 * (a**2).sum(axis=1), np.ones(len(a))]
    right = [b, np.ones(len(b)), -0.5 * (b**2).sum(axis=1)]
    return np.column_stack(left) @ np.column_stack(right).T


def whitened(theta, centre, factor):
    """Coordinates z with ``factor @ z = theta - centre``, shape (n, dim)."""
    return solve_triangular(factor, (theta - centre).T, lower=True).T


def _held(size, radius):
    """Lengths held, smoothly, within ``radius + 1``, and their derivative."""
    beyond = np.maximum(size - radius, 0.0)
    slope = np.exp(-beyond)
    return np.minimum(size, radius) + 1.0 - slope, slope


# --- the fit


def fit_surrogate(evaluations, mean, covariance):
    """The surrogate of everything that is known of a density, up to a constant.

    Mean and covariance whiten it: they are those of a distribution near the density's
    own. Points of zero density count as very low.
    """
    factor = np.linalg.cholesky(covariance)
    z = whitened(evaluations.points, mean, factor)
    depth = _depth(evaluations.values)
    matters = depth < _MATTERS + 0.5 * len(mean)
    size = np.sqrt((z**2).sum(axis=1))
    radius = max(2.0, size[depth < 2.0 * _MATTERS + 0.5 * len(mean)].max())
    near = size < 2.0 * radius
    z, depth, matters = z[near], depth[near], matters[near]
    # A value far down need only stay there.
    excess = np.where(matters, 0.0, depth - _MATTERS - 0.5 * len(mean))
    noise = np.minimum(_NOISE * (1.0 + excess**2), np.maximum(_SHARE * depth, _NOISE))
    above = 0.5 * (z**2).sum(axis=1) - depth
    slopes = evaluations.scores[near] @ factor + z
    try:
        trend = _fitted_trend(z, above, slopes, np.where(depth < _FLAT, noise, np.inf))
        kernel = _fitted_kernel(z, above - _terms(z) @ trend, noise)
    except LinAlgError:
        raise ValueError(
            'surrogate="auto" can not describe log_density: its values change too much '
            f"for one Gaussian process on the {len(z)} points asked for, as in a "
            "funnel. Pass surrogate=None."
        ) from None
    return Surrogate(mean, factor, radius, trend, kernel)


def _depth(values):
    """Nats below the highest value, of which only logarithms count beyond `_FLAT`."""
    depth = values[np.isfinite(values)].max() - values
    beyond = _FLAT * np.log(np.maximum(depth, _FLAT) / _FLAT)
    return np.minimum(depth, _FLAT) + np.minimum(beyond, _FLAT)


def _terms(z):
    """1, the coordinates and their products, shape (n, n_terms)."""
    first, second = np.triu_indices(z.shape[1])
    return np.column_stack([np.ones(len(z)), z, z[:, first] * z[:, second]])


def _fitted_trend(z, above, slopes, noise):
    """Coefficients by weighted least squares on values and, where known, slopes."""
    known = np.isfinite(slopes).all(axis=1) & np.isfinite(noise)
    weight, terms, dim = noise**-2.0, _terms(z), z.shape[1]
    # As little as a tenth of a nat at one standard deviation is believed before.
    normal = np.diag(np.append(1e-8, np.full(terms.shape[1] - 1, 0.01)))
    normal += (terms.T * weight) @ terms
    wanted = terms.T @ (weight * above)
    place = np.empty((dim, dim), dtype=int)
    place[np.triu_indices(dim)] = np.arange(1 + dim, terms.shape[1])
    place = np.triu(place) + np.triu(place, 1).T
    # A derivative in one coordinate is one of the few terms that it is in.
    for k in range(dim):
        own = np.append(1 + k, place[k])
        rows = np.column_stack([np.ones(known.sum()), z[known]])
        rows[:, 1 + k] *= 2.0
        pulled = rows.T * (0.25 * weight[known])
        normal[np.ix_(own, own)] += pulled @ rows
        wanted[own] += pulled @ slopes[known, k]
    return cho_solve(cho_factor(normal, lower=True), wanted)


def _fitted_kernel(z, rest, noise):
    """The Gaussian process of the largest marginal likelihood, on a small grid."""
    exponents = _exponents(z, z)
    weight = 1.0 / noise**2
    spread = max(np.average(rest**2, weights=weight), _NOISE**2)

    def fit(length, amplitude):
        scale = amplitude**2 * spread
        covariance = scale * np.exp(exponents / length**2)
        covariance[np.diag_indices(len(z))] += noise**2
        try:
            factor = cho_factor(covariance, lower=True, overwrite_a=True)
        except LinAlgError:
            return -np.inf, None
        heights = cho_solve(factor, rest)
        fitted = -0.5 * rest @ heights - np.log(np.diag(factor[0])).sum()
        return fitted, Kernel(z, scale * heights, length, scale, noise)

    # Lengths and amplitudes of the kernel that are tried, in whitened units and in
    # units of what the trend leaves.
    lengths = (0.45, 0.7, 1.0, 1.5, 2.2, 3.3, 5.0)
    at_lengths = {length: fit(length, 10.0) for length in lengths}
    best = max(at_lengths, key=lambda length: at_lengths[length][0])
    amplitudes = (0.3, 1.0, 3.0, 10.0, 30.0)
    found = [at_lengths[best], *(fit(best, a) for a in amplitudes if a != 10.0)]
    kernel = max(found, key=lambda item: item[0])[1]
    if kernel is None:
        raise LinAlgError("no covariance of values has a factor")
    return kernel


def least_known(surrogate, theta, n, least):
    """Which of some points a surrogate knows least, one after the other.

    Each is chosen as if those before it were known. One is known where the standard
    deviation of the Gaussian process is below `least` nats.
    """
    kernel = surrogate.kernel
    z = whitened(theta, surrogate.centre, surrogate.factor)

    def covariance(a, b):
        return kernel.scale * np.exp(_exponents(a, b, kernel.length))

    own = covariance(kernel.points, kernel.points)
    own[np.diag_indices(len(own))] += kernel.noise**2
    lower = np.linalg.cholesky(own)
    known = solve_triangular(lower, covariance(kernel.points, z), lower=True)
    variance = kernel.scale - (known**2).sum(axis=0)
    chosen, rows = [], known
    while len(chosen) < n and variance.max() > least**2:
        k = int(variance.argmax())
        with_others = covariance(z[k : k + 1], z)[0] - rows[:, k] @ rows
        row = with_others / np.sqrt(variance[k] + _NOISE**2)
        rows, variance = np.vstack([rows, row]), variance - row**2
        chosen.append(k)
    return np.array(chosen, dtype=int)
