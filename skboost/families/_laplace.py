"""Laplace densities with independent coordinates, and roots of two multiplied.

Where two rates agree the closed forms are 0 / 0: every function here has the limit
there and every digit beside it.
"""

from math import factorial, log

import numpy as np

from skboost._parallel import scratch
from skboost.families._base import VariationalFamily
from skboost.families._component import Component, Evaluation
from skboost.families._diagonal import LocationScale
from skboost.families._moments import checked_size, symmetric


class LaplaceEvaluation(Evaluation):
    """Product of Laplace densities at points."""

    def __init__(self, location, log_scale, scale, theta):
        self._scale = scale
        # One array is kept: every other one would have to be paged in anew.
        self._z = theta - location
        self._z /= scale
        constant = -location.size * log(2) - log_scale.sum()
        self.log_density = constant - np.einsum("ij->i", self._of_z(np.abs))

    def _of_z(self, function):
        return function(self._z, out=scratch("of_z", self._z.shape))

    def score(self, rows=slice(None)):
        score = np.sign(self._z[rows])
        score /= -self._scale
        return score

    def pull(self, cotangent):
        g_location = (cotangent @ self._of_z(np.sign)) / self._scale
        g_log_scale = cotangent @ self._of_z(np.abs) - cotangent.sum()
        return np.concatenate([g_location, g_log_scale])


class Laplace(LocationScale, VariationalFamily):
    """Products of Laplace densities, ``exp(-|theta_j - m_j| / b_j) / (2 b_j)``.

    The base family of the experiments of Dresdner et al. and Locatello et al. 2018.
    ``params = (m, log b)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import Laplace
    >>> family = Laplace()
    >>> params = np.array([1.0, -1.0, 0.0, 0.0])  # locations, then logarithms of scales
    >>> family.log_density(np.zeros((1, 2)), params).round(2)
    array([-3.39])
    """

    distribution = "laplace"
    maps_to_cube = True
    root_products = True
    tail_power = 1.0
    unit_variance = 2.0
    unit_entropy = 1 + log(2)
    log_scale_step = 1.0

    def matched_draws(self, n, dim, rng):
        return symmetric(self.base_draws(n, dim, rng), self.unit_variance)

    def _quantile(self, u):
        # Both branches measure the distance to the nearer end, where it is small.
        return np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))

    def uniform(self, z):
        tail = 0.5 * np.exp(-np.sqrt(2.0) * np.abs(z))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def from_uniform(self, u):
        return self._quantile(u) / np.sqrt(2.0)

    def at(self, params, theta):
        return LaplaceEvaluation(*self.split(params), theta)

    def _log_affinity(self, a, b):
        (mean_a, log_a), (mean_b, log_b) = (np.hsplit(params, 2) for params in (a, b))
        value, d_mean, d_log_a, d_log_b = log_affinity(mean_a - mean_b, log_a, log_b)
        return (
            value.sum(axis=1),
            np.hstack([d_mean, d_log_a]),
            np.hstack([-d_mean, d_log_b]),
        )

    def root_product(self, a, b):
        return Component(LaplaceProduct(), np.concatenate([a, b]))

    def std(self, params):
        return np.sqrt(self.unit_variance) * self.split(params)[2]

    def mean_exponential(self, params, i, power):
        square = 0.5 * (power * self.std(params)[i]) ** 2
        if square >= 1:
            return np.inf
        return np.exp(power * self.mean(params)[i]) / (1.0 - square)

    def moments(self, params):
        return self.mean(params), np.diag(self.std(params) ** 2)

    def _residual(self, params, i, x):
        location, log_scale, scale = self.split(params)
        return (x - location[i]) / scale[i], log_scale[i]

    def marginal_cdf(self, params, i, x):
        z, _ = self._residual(params, i, x)
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1 - tail)

    def marginal_log_density(self, params, i, x):
        z, log_scale = self._residual(params, i, x)
        return -np.abs(z) - log_scale - log(2)


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


class _ThreePieces:
    """Every coordinate in three pieces: two tails, and a slope between the kinks.

    With rate alpha at the lower kink and beta at the upper one, both tails fall with
    rate alpha + beta, and the logarithm rises with rate beta - alpha in between.
    """

    def __init__(self, location_a, log_scale_a, location_b, log_scale_b):
        self.kinks = np.stack([location_a, location_b])
        self.rates = 0.5 * np.exp(-np.stack([log_scale_a, log_scale_b]))
        self.low, self.high = self.kinks.min(axis=0), self.kinks.max(axis=0)
        self.length = self.high - self.low
        alpha, beta = np.where(location_a > location_b, self.rates[::-1], self.rates)
        self.tail = 1.0 / (alpha + beta)
        # Logarithm of the middle's ratio of ends; positive if it rises.
        self.rise = (beta - alpha) * self.length
        below = self.tail * np.exp(-np.maximum(self.rise, 0.0))
        middle = self.length * faded(np.abs(self.rise))
        above = self.tail * np.exp(-np.maximum(-self.rise, 0.0))
        total = below + middle + above
        shares = (mass / total for mass in (below, middle, above))
        self.below, self.middle, self.above = shares
        # Log density at the higher kink.
        self.log_peak = -np.log(total)
        self.log_constant = self.log_peak + np.minimum(alpha, beta) * self.length

    def log_density(self, x):
        """Coordinate by coordinate, at `x` (n, dim)."""
        (a, b), (p, q) = self.kinks, self.rates
        return self.log_constant - p * np.abs(x - a) - q * np.abs(x - b)

    def _middle_moments(self):
        """Mean of the middle, from its centre, and its variance."""
        value, slope = langevin(0.5 * np.abs(self.rise))
        mean = 0.5 * self.length * np.sign(self.rise) * value
        return mean, 0.25 * self.length**2 * slope

    def moments(self):
        """Mean and variance, from those of the three pieces."""
        inside, variance = self._middle_moments()
        # Distance from the centre of the mean of either tail.
        outside = 0.5 * self.length + self.tail
        shift = self.middle * inside + (self.above - self.below) * outside
        variance = (
            self.middle * (variance + (inside - shift) ** 2)
            + self.below * (self.tail**2 + (outside + shift) ** 2)
            + self.above * (self.tail**2 + (outside - shift) ** 2)
        )
        return 0.5 * (self.low + self.high) + shift, variance

    def entropy(self):
        """Minus the mean log density, from the mean distances to both kinks."""
        inside, _ = self._middle_moments()
        half, far = 0.5 * self.length, self.length + self.tail
        to_low = self.below * self.tail + self.middle * (half + inside)
        to_high = self.above * self.tail + self.middle * (half - inside)
        to_low, to_high = to_low + self.above * far, to_high + self.below * far
        swapped = self.kinks[0] > self.kinks[1]
        to_a, to_b = np.where(swapped, [to_high, to_low], [to_low, to_high])
        return self.rates[0] * to_a + self.rates[1] * to_b - self.log_constant

    def cdf(self, x):
        """Distribution function, elementwise."""
        left = self.below * np.exp(np.minimum(x - self.low, 0.0) / self.tail)
        right = self.above * np.exp(np.minimum(self.high - x, 0.0) / self.tail)
        from_low = np.clip(x - self.low, 0.0, self.length)
        inside = self.middle * self._share(from_low)
        return np.where(x < self.high, left + inside, 1.0 - right)

    def quantile(self, u):
        """Inverse distribution function, elementwise."""
        with np.errstate(divide="ignore"):
            left = self.low + self.tail * (np.log(u) - np.log(self.below))
            right = self.high - self.tail * (np.log1p(-u) - np.log(self.above))
        tiny = np.finfo(float).tiny
        v = np.clip((u - self.below) / np.maximum(self.middle, tiny), 0.0, 1.0)
        inside = np.where(
            self.rise > 0, self.high - self._reach(1.0 - v), self.low + self._reach(v)
        )
        inside = np.where(u < self.below, left, inside)
        return np.where(1.0 - u < self.above, right, inside)

    def _share(self, from_low):
        """Share of the middle's mass within a distance of the lower kink."""
        steep = np.abs(self.rise)
        tiny = np.finfo(float).tiny
        t = from_low / np.maximum(self.length, tiny)
        t = np.where(self.rise > 0, 1.0 - t, t)
        share = t * faded(steep * t) / faded(steep)
        return np.where(self.rise > 0, 1.0 - share, share)

    def _reach(self, v):
        """Distance from the middle's higher end that holds the share v."""
        steep = np.maximum(np.abs(self.rise), np.finfo(float).tiny)
        with np.errstate(divide="ignore"):
            t = -np.log1p(v * np.expm1(-steep)) / steep
        return self.length * np.minimum(t, 1.0)


class LaplaceProductEvaluation(Evaluation):
    """The density at points."""

    def __init__(self, pieces, theta):
        self._pieces, self._theta = pieces, theta
        self.log_density = pieces.log_density(theta).sum(axis=1)

    def score(self, rows=slice(None)):
        (a, b), (p, q) = self._pieces.kinks, self._pieces.rates
        theta = self._theta[rows]
        return -p * np.sign(theta - a) - q * np.sign(theta - b)


class LaplaceProduct(VariationalFamily):
    """Root products of two Laplace densities, coordinate by coordinate.

    The density of a coordinate is proportional to
    ``exp(-|x - a| / 2 b_i - |x - c| / 2 b_j)``: exponential in three pieces, with
    closed normaliser, distribution function and moments. ``Laplace.root_product``
    makes it, for mixtures under ``objective="hellinger"``; a search never moves one.
    ``params = (a, log b_i, c, log b_j)``, which unlike those of other families do not
    start with the mean. The base variables are uniform.

    References
    ----------
    Campbell and Li 2019, section 3: the products of two components' roots of which
    the density ``g^2`` is a mixture.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import Laplace
    >>> component = Laplace().root_product(np.array([-1.0, 0.0]), np.array([1.0, 0.0]))
    >>> component.family
    LaplaceProduct()
    """

    symmetric = False

    def n_params(self, dim):
        return 4 * dim

    def dim_of(self, params):
        dim = params.shape[0] // 4
        return checked_size(params, dim, 4 * dim)

    def scale_mask(self, dim):
        return np.repeat([False, True, False, True], dim)

    def _pieces(self, params, i=slice(None)):
        return _ThreePieces(*params.reshape(4, self.dim_of(params))[:, i])

    def _quantile(self, u):
        return u

    def transport(self, params, eps):
        return self._pieces(params).quantile(eps)

    def at(self, params, theta):
        return LaplaceProductEvaluation(self._pieces(params), theta)

    def entropy(self, params):
        return float(self._pieces(params).entropy().sum())

    def log_peak(self, params):
        return float(self._pieces(params).log_peak.sum())

    def mean(self, params):
        return self._pieces(params).moments()[0]

    def std(self, params):
        return np.sqrt(self._pieces(params).moments()[1])

    def moments(self, params):
        mean, variance = self._pieces(params).moments()
        return mean, np.diag(variance)

    def widen(self, params, width):
        dim, mean = self.dim_of(params), np.tile(self.mean(params), 4)
        width = np.tile(np.broadcast_to(width, dim), 4)
        moved = mean + width * (params - mean)
        return np.where(self.scale_mask(dim), params + np.log(width), moved)

    def recentre(self, params, mean):
        shift = np.tile(mean - self.mean(params), 4)
        return np.where(self.scale_mask(len(mean)), params, params + shift)

    def marginal_cdf(self, params, i, x):
        return self._pieces(params, i).cdf(x)

    def marginal_log_density(self, params, i, x):
        return self._pieces(params, i).log_density(x)
