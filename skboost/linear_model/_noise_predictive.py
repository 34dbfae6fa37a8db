"""Posterior predictive of linear regression: a mixture over linear predictor and noise.

For a Gaussian component the linear predictor eta and the log noise scale lambda of a
row are two Gaussian variables. Given lambda, eta is Gaussian and the response has
normal noise added to it in closed form, other noise by a further quadrature; lambda,
which all rows share, is integrated by a fixed rule. So the predictive distribution of
every row is a finite mixture, and density, quantiles and moments follow from it.
"""

import numpy as np

from skboost._math import log_sum_exp
from skboost.families import Gaussian, Laplace, StudentT
from skboost.linear_model._latent import (
    N_DRAWS,
    SEED,
    LatentPredictive,
    posterior_draws,
)
from skboost.linear_model._quantiles import mixture_quantiles

# Entries of the table of one piece of rows at most, where it has several rows.
_ENTRIES = 1 << 18


def _under_gaussian(family, params):
    return np.exp(2.0 * (family.mean(params)[-1] + family.std(params)[-1] ** 2))


def _under_laplace(family, params):
    """E exp(2 lambda) of exponential tails: finite for scales below a half."""
    square = 2.0 * family.std(params)[-1] ** 2
    return (
        np.exp(2.0 * family.mean(params)[-1]) / (1.0 - square) if square < 1 else np.inf
    )


def _under_student_t(family, params):
    """Tails that are powers of lambda are too heavy for any power of sigma."""
    return np.inf


def _by_draws(family, params):
    rng = np.random.default_rng(SEED)
    draws = family.transport(
        params, family.base_draws(N_DRAWS, len(family.mean(params)), rng)
    )
    return np.exp(2.0 * draws[:, -1]).mean()


# E sigma^2 by the family of (..., lambda).
_MEAN_SQUARES = {
    Gaussian: _under_gaussian,
    Laplace: _under_laplace,
    StudentT: _under_student_t,
}


class NoisePredictive(LatentPredictive):
    """Predictive quantities of a regression with noise.

    Parameters
    ----------
    mixture : Mixture
        Over (coefficients, intercept), and the log noise scale where that is inferred.
    fit_intercept : bool
    noise : Noise
    noise_scale : float or None
        None where it is inferred.
    """

    def __init__(self, mixture, fit_intercept, noise, noise_scale):
        super().__init__(mixture, fit_intercept, int(noise_scale is None))
        self.noise, self.noise_scale = noise, noise_scale

    def moments(self, X):
        """Predictive mean and standard deviation, (n,) each."""
        mean, std = self.latent(X)
        return mean, np.sqrt(std**2 + self.noise_variance())

    def noise_variance(self):
        """Of a response given its linear predictor, over the posterior."""
        return self.noise.std**2 * self._mean_square_scale()

    def _mean_square_scale(self):
        """E sigma^2 under the posterior."""
        if self.noise_scale is not None:
            return self.noise_scale**2
        squares = [
            _MEAN_SQUARES.get(type(family), _by_draws)(family, params)
            for family, params in self.mixture.components
        ]
        return self.mixture.weights @ np.array(squares)

    def log_density(self, X, y):
        """Log predictive density of every response, (n,), nats."""
        out = np.empty(X.shape[0])
        for rows, centres, scales, weights in self._parts(X):
            z = (y[rows, None] - centres) / scales
            table = self.noise.log_density(z) - np.log(scales)
            out[rows] = log_sum_exp(table, np.log(weights))
        return out

    def quantiles(self, X, p):
        """Predictive quantiles, (n, n_levels)."""
        out = np.empty((X.shape[0], len(p)))
        for rows, *parts in self._parts(X, len(p)):
            out[rows] = mixture_quantiles(self.noise, *parts, p)
        return out

    def _parts(self, X, n_levels=1):
        """Blocks of rows with centres, scales (n, n_parts) and weights of the parts."""
        draws = None if self.gaussian else posterior_draws(self.mixture)
        width = n_levels * (N_DRAWS if draws is not None else 512)
        for rows, block in self._blocks(X, width):
            if draws is not None:
                yield rows, *self._by_draws(block, draws)
                continue
            for some in self._pieces(block, n_levels):
                inner = slice(rows.start + some.start, rows.start + some.stop)
                yield inner, *self._by_quadrature(block[some])

    def _pieces(self, block, n_levels):
        """Slices of a block: a row far out needs many parts, its neighbours do not."""
        waiting = [slice(0, block.shape[0])]
        while waiting:
            rows = waiting.pop()
            n = rows.stop - rows.start
            if n == 1 or n * n_levels * self._n_parts(block[rows]) <= _ENTRIES:
                yield rows
                continue
            middle = rows.start + n // 2
            waiting += [slice(middle, rows.stop), slice(rows.start, middle)]

    def _n_parts(self, block):
        """Parts that `_by_quadrature` makes of every row of a block."""
        total = 0
        for family, params in self.mixture.components:
            mean, left, tilt, level, spread = self._pair(family, params, block)
            widest = left.max(initial=0.0, keepdims=True)
            for node in self.noise.scale_rule(level, spread, tilt)[0]:
                scale = np.exp(level + spread * node)
                total += len(self.noise.added_to(mean[:1], widest, scale)[2])
        return total

    def _by_draws(self, block, draws):
        scale = self.noise_scale
        scale = np.exp(draws[:, -1]) if scale is None else np.full(len(draws), scale)
        centres = np.asarray(block @ draws.T)
        weights = np.full(len(draws), 1.0 / len(draws))
        return centres, np.broadcast_to(scale, centres.shape), weights

    def _by_quadrature(self, block):
        centres, scales, weights = [], [], []
        pairs = zip(self.mixture.weights, self.mixture.components, strict=True)
        for weight, (family, params) in pairs:
            mean, left, tilt, level, spread = self._pair(family, params, block)
            rule = self.noise.scale_rule(level, spread, tilt)
            for node, share in zip(*rule, strict=True):
                scale = np.exp(level + spread * node)
                centre, scale, shares = self.noise.added_to(
                    mean + tilt * node, left, scale
                )
                centres.append(centre)
                scales.append(scale)
                weights.append(weight * share * shares)
        return np.hstack(centres), np.hstack(scales), np.concatenate(weights)

    def _pair(self, family, params, block):
        """(eta, lambda) as mean + tilt u + left v, level + spread u; u, v ~ N(0, 1)."""
        mean, std = family.linear_moments(params, block)
        if self.noise_scale is not None:
            return mean, std, np.zeros_like(mean), np.log(self.noise_scale), 0.0
        centre, variance, factor = family.structure(params)
        spread = float(family.std(params)[-1])
        tilt = np.zeros_like(mean)
        if factor is not None:
            tilt = block @ (factor @ factor[-1]) / spread
        left = np.sqrt(np.maximum(std**2 - tilt**2, 0.0))
        return mean, left, tilt, centre[-1], spread
