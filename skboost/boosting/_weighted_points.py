"""Mixtures of Gaussians that are fitted to weighted points by EM.

Points are the nodes of a lattice, or draws with importance weights. What is least is
KL(p || q), which leaves the means and covariances of the whole as they are.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skboost._math import (
    LOG_2PI,
    log_sum_exp,
    log_weights,
    mean_and_se,
    responsibilities,
)
from skboost.approximation import Estimate, Mixture, psis
from skboost.boosting._rounds import log_proposal
from skboost.families import Component, FullGaussian

# Iterations of EM, which end where one gains less than so many nats.
_MAX_EM, _EM_TOL = 200, 1e-5
# The same for draws, whose weights are noise.
_MAX_EM_DRAWS, _EM_TOL_DRAWS = 40, 1e-3
# Least standard deviation of a component fitted to draws, in units of all of them.
_NARROWEST = 0.2


class WeightedPoints:
    """Points ``centre + axes @ z`` with `shares` of the mass, which add up to one.

    No component is narrower than `narrowest` in coordinates z.
    """

    max_em, em_tol = _MAX_EM, _EM_TOL

    @cached_property
    def _terms(self):
        """1, z and products of z: what densities and moments are made of."""
        pairs = self.z[:, :, None] * self.z[:, None]
        ones = np.ones((len(self.z), 1))
        return np.hstack([ones, self.z, pairs.reshape(len(self.z), -1)])

    def gaussian(self):
        """The Gaussian with the moments of the density, as `Gaussians`."""
        return self._moments(self.shares[:, None])

    def split(self, found, k=None):
        """`Gaussians` of which one, the heaviest by default, is two, likelier at the
        points, by EM.
        """
        k = int(found.weights.argmax()) if k is None else k
        share = self._responsibilities(found)[0][:, k] * self.shares
        share /= share.sum()
        root = np.linalg.cholesky(found.covariances[k])
        white = np.linalg.solve(root, (self.z - found.means[k]).T).T
        # Along the skewness, where there is some.
        lean = (share * (white**2).sum(axis=1)) @ white
        size = np.linalg.norm(lean)
        lean = lean / size if size > 1e-9 else np.eye(len(lean))[0]
        away = 0.6 * root @ lean
        halves = np.stack([found.means[k] - away, found.means[k] + away])
        narrow = found.covariances[k] - np.outer(away, away)
        others = np.arange(len(found.weights)) != k
        started = Gaussians(
            np.append(found.weights[others], np.full(2, 0.5 * found.weights[k])),
            np.concatenate([found.means[others], halves]),
            np.concatenate([found.covariances[others], [narrow, narrow]]),
        )
        return self._climbed(started)

    def _climbed(self, found):
        before = -np.inf
        for _ in range(self.max_em):
            share, log_q = self._responsibilities(found)
            now = self.shares @ log_q
            if now - before < self.em_tol:
                break
            before, found = now, self._moments(share * self.shares[:, None])
        return found

    def _responsibilities(self, found):
        return responsibilities(self._table(found))

    def _table(self, found):
        # A row for each component in memory, which are summed faster.
        table = found.coefficients() @ self._terms.T
        return (table + log_weights(found.weights)[:, None]).T

    def log_density(self, found):
        """Of a mixture of `Gaussians` in the coordinates z, (n,), nats."""
        return log_sum_exp(self._table(found))

    def mixture(self, found):
        """The mixture of some `Gaussians`."""
        family = FullGaussian()
        means = self.centre + found.means @ self.axes.T
        covariances = self.axes @ found.covariances @ self.axes.T
        components = tuple(
            Component(family, family.from_moments(mean, covariance))
            for mean, covariance in zip(means, covariances, strict=True)
        )
        return Mixture(components, found.weights)

    def _moments(self, share):
        """`Gaussians` with the moments of shares (n, n_components) of the points."""
        dim = self.z.shape[1]
        sums = share.T @ self._terms
        mass = sums[:, 0]
        sums = sums / np.maximum(mass, np.finfo(float).tiny)[:, None]
        means = sums[:, 1 : 1 + dim]
        covariances = sums[:, 1 + dim :].reshape(-1, dim, dim)
        covariances = covariances - means[:, :, None] * means[:, None]
        variances, axes = np.linalg.eigh(covariances)
        variances = np.maximum(variances, self.narrowest**2)
        covariances = (axes * variances[:, None]) @ axes.swapaxes(1, 2)
        return Gaussians(mass / mass.sum(), means, covariances)


class Gaussians(NamedTuple):
    """A mixture of Gaussians in the coordinates z of `WeightedPoints`."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def coefficients(self):
        """Of log densities in 1, z and products of z, (n_components, n_terms)."""
        precision = np.linalg.inv(self.covariances)
        pulled = np.einsum("kij,kj->ki", precision, self.means)
        constant = np.einsum("ki,ki->k", pulled, self.means)
        constant += np.linalg.slogdet(self.covariances)[1]
        constant += self.means.shape[1] * LOG_2PI
        products = precision.reshape(len(constant), -1)
        return np.column_stack([-0.5 * constant, pulled, -0.5 * products])


@dataclass(frozen=True)
class WeightedDraws(WeightedPoints):
    """Draws in coordinates in which their weighted mean is zero and their weighted
    covariance is I.
    """

    centre: np.ndarray
    axes: np.ndarray
    z: np.ndarray
    shares: np.ndarray

    max_em, em_tol, narrowest = _MAX_EM_DRAWS, _EM_TOL_DRAWS, _NARROWEST

    @classmethod
    def of(cls, points, shares):
        """Those of points (n, dim) with shares of the mass (n,)."""
        centre = shares @ points
        away = points - centre
        axes = np.linalg.cholesky((away.T * shares) @ away)
        z = np.linalg.solve(axes, away.T).T
        return cls(centre, axes, z, shares)


# Draws of a round, beside so many for each coordinate.
_FEWEST, _EACH = 400, 150
# Widths of the copies that draws come from, and their shares of them.
_WIDTHS, _SHARES = (1.0, 2.0, 5.0), (0.5, 0.3, 0.2)
# Nats that one more component has to gain.
_LEAST_GAIN = 0.01


@dataclass(frozen=True)
class Weighed:
    """Draws with importance weights, and a mixture of a few Gaussians fitted to them.

    All draws are weighed by the mixture of what they came from (Cornuet, Marin, Mira
    and Robert: Adaptive multiple importance sampling, Scandinavian Journal of
    Statistics 39, 2012). `values` are log joint densities, and the log evidence has
    its standard error and Pareto shape.
    """

    mixture: Mixture
    points: np.ndarray
    values: np.ndarray
    pairs: tuple
    log_evidence: Estimate
    khat: float
    n_effective: float

    @classmethod
    def begun(cls, mixture):
        """No draws yet, and the mixture that the first come from."""
        none = np.empty((0, mixture.dim))
        return cls(mixture, none, none[:, 0], (), Estimate(np.nan, np.inf), np.inf, 0.0)

    def longer(self, target, rng, most):
        """With a round of draws more, and up to `most` Gaussians fitted to all."""
        copies = [self.mixture.widen(width) for width in _WIDTHS]
        weights = np.outer(_SHARES, copies[0].weights).ravel()
        wide = Mixture(tuple(c for copy in copies for c in copy.components), weights)
        new = wide.sample(_FEWEST + _EACH * target.dim, rng)
        points = np.concatenate([self.points, new])
        values = np.concatenate([self.values, target.log_density(new)])
        pairs = (*self.pairs, (wide, len(new)))
        log_w = values - log_proposal(pairs, points)
        found, shares = psis(log_w), np.exp(log_w - log_w.max())
        mean, se = mean_and_se(shares)
        evidence = Estimate(float(log_w.max() + np.log(mean)), float(se / mean))
        smoothed = np.exp(found.log_weights - found.log_weights.max())
        smoothed /= smoothed.sum()
        mixture = _fitted(WeightedDraws.of(points, smoothed), most)
        n_effective = float(1.0 / (smoothed @ smoothed))
        return Weighed(
            mixture, points, values, pairs, evidence, found.khat, n_effective
        )


def _fitted(draws, most):
    """Gaussians, split as long as one more gains enough."""
    found, gain = draws.gaussian(), np.inf
    while len(found.weights) < most and gain > _LEAST_GAIN:
        longer = draws.split(found)
        gain = draws.shares @ (draws.log_density(longer) - draws.log_density(found))
        found = longer if gain > _LEAST_GAIN else found
    return draws.mixture(found)
