"""Roots of two Laplace densities multiplied: what ``Laplace.root_product`` returns."""

import numpy as np

from skboost.families._base import VariationalFamily
from skboost.families._evaluation import Evaluation
from skboost.families._laplace_roots import faded, langevin
from skboost.families._moments import checked_size


class _Pieces:
    """Every coordinate in three pieces: two tails, and a slope between the kinks.

    With rate alpha at the lower kink and beta at the upper one, both tails fall with
    rate alpha + beta, and the logarithm rises with rate beta - alpha in between.

    Parameters
    ----------
    location_a, log_scale_a, location_b, log_scale_b : ndarray of shape (dim,)
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
        masses = np.stack(
            [
                self.tail * np.exp(-np.maximum(self.rise, 0.0)),
                self.length * faded(np.abs(self.rise)),
                self.tail * np.exp(-np.maximum(-self.rise, 0.0)),
            ]
        )
        total = masses.sum(axis=0)
        self.below, self.middle, self.above = masses / total
        # Log density at the higher kink.
        self.log_peak = -np.log(total)
        self.log_constant = self.log_peak + np.minimum(alpha, beta) * self.length

    def of(self, i):
        """The pieces of one coordinate."""
        one = object.__new__(_Pieces)
        one.__dict__ = {name: part[..., i] for name, part in self.__dict__.items()}
        return one

    def log_density(self, x):
        """Coordinate by coordinate, at `x` (n, dim)."""
        (a, b), (p, q) = self.kinks, self.rates
        return self.log_constant - p * np.abs(x - a) - q * np.abs(x - b)

    def moments(self):
        """Mean and variance, from those of the three pieces."""
        value, slope = langevin(0.5 * np.abs(self.rise))
        centre = 0.5 * (self.low + self.high)
        # Distances from the centre: of the middle's mean and of either tail's.
        inside = 0.5 * self.length * np.sign(self.rise) * value
        outside = 0.5 * self.length + self.tail
        shift = self.middle * inside + (self.above - self.below) * outside
        variance = (
            self.middle * (0.25 * self.length**2 * slope + (inside - shift) ** 2)
            + self.below * (self.tail**2 + (outside + shift) ** 2)
            + self.above * (self.tail**2 + (outside - shift) ** 2)
        )
        return centre + shift, variance

    def entropy(self):
        """Minus the mean log density, from the mean distances to both kinks."""
        value, _ = langevin(0.5 * np.abs(self.rise))
        inside = 0.5 * self.length * np.sign(self.rise) * value
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

    def pull(self, cotangent):
        raise NotImplementedError(
            "LaplaceProduct is the product of two fitted components and is not "
            "searched over; search over the Laplace components."
        )


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
    """

    symmetric = False

    def n_params(self, dim):
        return 4 * dim

    def dim_of(self, params):
        dim = params.shape[0] // 4
        return checked_size(params, dim, 4 * dim)

    def scale_mask(self, dim):
        return np.repeat([False, True, False, True], dim)

    def _pieces(self, params):
        return _Pieces(*params.reshape(4, self.dim_of(params)))

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
        dim = self.dim_of(params)
        mean = np.tile(self.mean(params), 4)
        width = np.tile(np.broadcast_to(width, dim), 4)
        locations = mean + width * (params - mean)
        scales = self.scale_mask(dim)
        return np.where(scales, params + np.log(width), locations)

    def recentre(self, params, mean):
        shift = np.tile(mean - self.mean(params), 4)
        return np.where(self.scale_mask(len(mean)), params, params + shift)

    def marginal(self, params, indices):
        return params.reshape(4, -1)[:, indices].ravel()

    def marginal_cdf(self, params, i, x):
        return self._pieces(params).of(i).cdf(x)

    def marginal_log_density(self, params, i, x):
        return self._pieces(params).of(i).log_density(x)
