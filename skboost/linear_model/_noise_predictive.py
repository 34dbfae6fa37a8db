"""The predictive distribution of a response with normal or Student-t noise."""

import numpy as np

from skboost.linear_model._predictive import (
    N_DRAWS,
    Predictive,
    mixture_log_density,
    mixture_parts,
    mixture_quantiles,
    part_of,
    posterior_draws,
)
from skboost.serving import LinearRegressor


class NoisePredictive(Predictive):
    """Predictive quantities of a regression with noise.

    For a Gaussian component the linear predictor eta and the log noise scale lambda of
    a row are two Gaussian variables. Given lambda, eta is Gaussian and the response has
    normal noise added to it in closed form, other noise by a further quadrature;
    lambda, which all rows share, is integrated by a fixed rule. So the predictive
    distribution of every row is a finite mixture, and density, quantiles and moments
    follow from it. A known noise scale is a number, an inferred one None.
    """

    def __init__(self, mixture, fit_intercept, noise, noise_scale):
        mixture = mixture.drop_zero_weights()
        self.noise, self.noise_scale = noise, noise_scale
        inferred = noise_scale is None
        n_linear = mixture.dim - inferred
        weights, parts = mixture_parts(mixture, slice(n_linear))
        square = mean_square_scale(mixture) if inferred else noise_scale**2
        fit_intercept = bool(fit_intercept)
        variance = float(noise.std**2 * square)
        base = (n_linear - fit_intercept, fit_intercept)
        super().__init__(LinearRegressor(*base, weights, parts, variance), mixture)

    def log_density(self, X, offset, y):
        """Log predictive density of every response, (n,), nats."""
        out, y = np.empty(X.shape[0]), y - (0.0 if offset is None else offset)
        for rows, *parts in self._parts(X):
            out[rows] = mixture_log_density(self.noise, y[rows], *parts)
        return out

    def quantiles(self, X, offset, p):
        """Predictive quantiles, (n, n_levels)."""
        blocks = self._parts(X, len(p))
        ends = [mixture_quantiles(self.noise, *parts, p) for _, *parts in blocks]
        return np.concatenate(ends) + (0.0 if offset is None else offset[:, None])

    def _parts(self, X, n_levels=1):
        """Blocks of rows with centres, scales (n, n_parts) and weights of the parts."""
        draws = None if self.gaussian else posterior_draws(self.mixture)
        width = n_levels * (N_DRAWS if draws is not None else 512)
        for rows, block in self.model.blocks(X, width):
            if draws is None:
                yield from self._pieces(block, rows.start, n_levels)
            else:
                yield rows, *self._by_draws(block, draws)

    def _pieces(self, block, start, n_levels):
        """What `_parts` gives of a block, in pieces that take little memory.

        A row far out needs many parts, its neighbours do not.
        """
        n = block.shape[0]
        if n == 1 or n * n_levels * self._n_parts(block) <= 1 << 18:
            yield slice(start, start + n), *self._by_quadrature(block)
            return
        middle = n // 2
        yield from self._pieces(block[:middle], start, n_levels)
        yield from self._pieces(block[middle:], start + middle, n_levels)

    def _n_parts(self, block):
        """Parts that `_by_quadrature` makes of every row of a block."""
        return sum(
            len(self.noise.added_to(mean[:1], rest.max(keepdims=True), scale)[2])
            for mean, rest, scale, _ in self._given_levels(block)
        )

    def _by_draws(self, block, draws):
        scale = self.noise_scale
        scale = np.exp(draws[:, -1]) if scale is None else np.full(len(draws), scale)
        centres = np.asarray(block @ draws[:, : block.shape[1]].T)
        weights = np.full(len(draws), 1.0 / len(draws))
        return centres, np.broadcast_to(scale, centres.shape), weights

    def _by_quadrature(self, block):
        parts = []
        for mean, rest, scale, weight in self._given_levels(block):
            centres, scales, shares = self.noise.added_to(mean, rest, scale)
            parts.append((centres, scales, weight * shares))
        centres, scales, weights = zip(*parts, strict=True)
        return np.hstack(centres), np.hstack(scales), np.concatenate(weights)

    def _given_levels(self, block):
        """Mean and deviation of eta, the noise scale and its weight, at every node."""
        pairs = zip(self.mixture.weights, self.mixture.components, strict=True)
        for weight, component in pairs:
            mean, rest, tilt, level, spread = self._pair(component, block)
            rule = self.noise.scale_rule(level, spread, tilt)
            for node, share in zip(*rule, strict=True):
                scale = np.exp(level + spread * node)
                yield mean + tilt * node, rest, scale, weight * share

    def _pair(self, component, block):
        """(eta, lambda) as mean + tilt u + rest v, level + spread u; u, v ~ N(0, 1)."""
        centre, variance, factor = component.structure()
        mean, std = part_of(component, slice(block.shape[1])).moments(block)
        if self.noise_scale is not None:
            return mean, std, np.zeros_like(mean), np.log(self.noise_scale), 0.0
        spread = float(component.std()[-1])
        tilt = np.zeros_like(mean)
        if factor is not None:
            tilt = block @ (factor[:-1] @ factor[-1]) / spread
        rest = np.sqrt(np.maximum(std**2 - tilt**2, 0.0))
        return mean, rest, tilt, centre[-1], spread


def mean_square_scale(mixture):
    """E sigma^2 where the last coordinate of a mixture is the logarithm of sigma."""
    squares = [each.mean_exponential(-1, 2.0) for each in mixture.components]
    return mixture.weights @ np.array(squares)
