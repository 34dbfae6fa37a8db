"""Marginals and moments on the user's scale.

Exact or by quadrature where a coordinate is transformed by itself, from fixed draws
inside of blocks.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skboost._math import LOG_2PI, log_sum_exp, robust_std
from skboost._random import generator
from skboost.posterior._marginal import BaseMarginal
from skboost.transforms import LowerBound, Ordered, Real

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)
# Ends of the panels on one side of a component's centre, in its standard deviations:
# fine where the mass is, then out to where heavy tails still count.
_ENDS_ABOVE = np.concatenate(
    [np.arange(0.0, 40.0, 0.5), np.geomspace(40.0, 4000.0, 24)]
)
_PANEL_ENDS = np.concatenate([-_ENDS_ABOVE[:0:-1], _ENDS_ABOVE])


# --- marginals


@dataclass(frozen=True, eq=False)
class TransformedMarginal(BaseMarginal):
    """Marginal of an increasing function of one coordinate, by change of variables.

    Parameters
    ----------
    base : Marginal
        Of the unconstrained coordinate.
    transform : Elementwise

    Examples
    --------
    >>> import autograd.numpy as np
    >>> from skboost import boost_posterior
    >>> def log_gamma(theta):  # Gamma(3, 1)
    ...     return 2 * np.log(theta[:, 0]) - theta[:, 0]
    >>> result = boost_posterior(log_gamma, 1, constraints="positive", random_state=0)
    >>> bool(result.posterior.marginal(0).quantile(0.01) > 0)
    True
    """

    base: object
    transform: object

    @property
    def weights(self):
        """Weights of the components, shape (n_components,)."""
        return self.base.weights

    def __repr__(self):
        return f"TransformedMarginal({self.base!r}, {self.transform!r})"

    def _inside(self, x):
        x = np.asarray(x, dtype=float)
        return x, self.transform.inside(x)

    def component_locations(self):
        """Where the components are: images of their means, shape (n_components,)."""
        return self.transform.forward(self.base.component_locations())

    def component_log_pdf(self, x):
        """Log densities of the components, nats, shape ``(*x.shape, n_components)``."""
        x, inside = self._inside(x)
        out = np.full((*x.shape, len(self.weights)), -np.inf)
        z = self.transform.inverse(x[inside])
        slope = self.transform.log_derivative(z)
        out[inside] = self.base.component_log_pdf(z) - slope[:, None]
        return out

    def cdf(self, x):
        """Probability of values up to x, the shape of x."""
        x, inside = self._inside(x)
        out = np.where(x >= self.transform.high, 1.0, 0.0)
        out[inside] = self.base.cdf(self.transform.inverse(x[inside]))
        if self.transform.period:
            # From the cut on, where what lies beyond `high` comes first.
            low, cut = self.transform.low, self.transform.cut
            before = self.base.cdf(self.transform.inverse(np.array([low])))[0]
            out[inside] += (x[inside] >= cut) * float(cut > low) - before
        return np.where(np.isnan(x), np.nan, out)[()]

    @property
    def _ends(self):
        return self.transform.low, self.transform.high

    def _inner_quantile(self, p):
        return self.transform.forward(self.base.quantile(p))


@dataclass(frozen=True, eq=False)
class SampledMarginal(BaseMarginal):
    """Marginal of one coordinate of a block, from weighted draws.

    Distribution function and quantiles are those of `draws` (n,) with `row_weights` and
    a component each, `source`, good to 1e-3 in probability; the density is a kernel
    estimate on the scale of `range`, good to a few per cent. `weights` are those of
    components.
    """

    draws: np.ndarray
    row_weights: np.ndarray
    source: np.ndarray
    weights: np.ndarray
    range: object

    def __repr__(self):
        return f"SampledMarginal(n={self.draws.size})"

    def component_locations(self):
        """Where the components are: means of their draws, shape (n_components,)."""
        members = [self.source == k for k in range(self.weights.size)]
        return np.array([self.draws[member].mean() for member in members])

    @cached_property
    def _kernels(self):
        """Bin centres, their weights and a bandwidth for each component."""
        ends = np.nextafter([self.range.low, self.range.high], [1.0, 0.0])
        z = self.range.inverse(np.clip(self.draws, *ends))
        return [_binned(z[self.source == k]) for k in range(self.weights.size)]

    @cached_property
    def _empirical_cdf(self):
        """Sorted draws and the probability up to the middle of each."""
        order = np.argsort(self.draws, kind="stable")
        weights = self.row_weights[order]
        return self.draws[order], np.cumsum(weights) - 0.5 * weights

    def component_log_pdf(self, x):
        """Log densities of the components, nats, shape ``(*x.shape, n_components)``."""
        x = np.asarray(x, dtype=float)
        inside = self.range.inside(x)
        out = np.full((*x.shape, self.weights.size), -np.inf)
        z = self.range.inverse(x[inside])
        slope = self.range.log_derivative(z)
        for k, (centres, weights, width) in enumerate(self._kernels):
            residual = (z[:, None] - centres) / width
            log_kernel = -0.5 * residual**2 - 0.5 * LOG_2PI - np.log(width)
            out[inside, k] = log_sum_exp(log_kernel, np.log(weights)) - slope
        return out

    def cdf(self, x):
        """Probability of values up to x, the shape of x."""
        return np.interp(x, *self._empirical_cdf, left=0.0, right=1.0)[()]

    @property
    def _ends(self):
        return self.range.low, self.range.high

    def _inner_quantile(self, p):
        if not self.range.period:
            return np.interp(p, *self._empirical_cdf[::-1])
        # Around the circle, from the cut on.
        along = replace(self, draws=self.range.unrolled(self.draws), range=Real())
        return self.range.rolled(along.quantile(p))


def _binned(z):
    """Draws as weighted bin centres, and a bandwidth by Silverman's rule."""
    width = 0.9 * robust_std(z) * z.size**-0.2
    width = max(width, 1e-12 * max(1.0, np.abs(z).max()))
    # Twelve bins per kernel bandwidth.
    n_bins = int(np.clip(12 * np.ptp(z) / width, 1, 1 << 14))
    counts, edges = np.histogram(z, n_bins)
    full = counts > 0
    centres = 0.5 * (edges[1:] + edges[:-1])
    return centres[full], counts[full] / z.size, width


# --- moments


class FixedDraws(NamedTuple):
    """Fixed draws on the user's scale, their weights and components."""

    theta: np.ndarray
    row_weights: np.ndarray
    source: np.ndarray


def fixed_draws(mixture, constraints):
    """Quasi-random draws, the same ones at every call: 32768, fewer above dim 128."""
    # At most 2^15 draws, and 2^22 numbers.
    n = min(1 << 15, max((1 << 22) // constraints.dim, 1024))
    z, row_weights, source = mixture.stratified_draws(n, generator(0))
    return FixedDraws(constraints.forward(z), row_weights, source)


def moments(mixture, constraints, draws=None):
    """Means and standard deviations on the user's scale, each of shape (dim,).

    By quadrature over marginals, or in blocks from fixed draws; see `Periodic.moments`.
    """
    mean, std = np.empty(constraints.dim), np.empty(constraints.dim)
    for transform, columns, free in constraints.parts:
        if isinstance(transform, Real):
            mean[columns], std[columns] = mixture.mean()[free], mixture.std()[free]
        elif transform.elementwise and mixture.orbiting:
            # Marginals follow known images, and no map of their tails bears an
            # exponential.
            z, mass = mixture.weighted_images()
            theta = transform.forward(z[:, free])
            mean[columns], std[columns] = _weighted(theta, mass, constraints, columns)
        elif transform.elementwise:
            pairs = [coordinate_moments(mixture, i, transform) for i in free]
            mean[columns], std[columns] = np.array(pairs).T
        else:
            draws = fixed_draws(mixture, constraints) if draws is None else draws
            theta, w = draws.theta[:, columns], draws.row_weights
            mean[columns], std[columns] = _weighted(theta, w, constraints, columns)
            if isinstance(transform, Ordered):
                mean[columns], exist = _ordered_mean(mixture, free)
                std[columns[~exist]] = np.inf
    return mean, std


def _weighted(theta, mass, constraints, columns):
    """Means and standard deviations of weighted points of some coordinates."""
    mean = mass @ theta
    std = np.sqrt(mass @ (theta - mean) ** 2)
    periodic = constraints.periodic
    for j, i in enumerate(columns):
        if i in periodic:
            mean[j], std[j] = periodic[i].moments(theta[:, j], mass)
    return mean, std


def covariance(mixture, constraints):
    """Covariance (dim, dim) on the user's scale: correlations of draws, `moments` else.

    NaN beside an infinite variance. Periodic coordinates are distances from their mean.
    """
    draws = fixed_draws(mixture, constraints)
    mean, std = moments(mixture, constraints, draws)
    theta = draws.theta.copy()
    for i, each in constraints.periodic.items():
        theta[:, i] = each.deviation(theta[:, i], mean[i])
    centred = theta - draws.row_weights @ theta
    raw = (draws.row_weights[:, None] * centred).T @ centred
    scale = np.sqrt(np.diag(raw))
    correlation = raw / np.outer(scale, scale)
    np.fill_diagonal(correlation, 1.0)
    out = correlation * np.outer(std, std)
    infinite = np.isinf(std)
    out[infinite], out[:, infinite] = np.nan, np.nan
    out[infinite, infinite] = np.inf
    return out


def coordinate_moments(mixture, i, transform):
    """Mean and standard deviation of ``transform(z_i)``.

    Gauss-Legendre on panels of half a standard deviation, split where the transform
    bends: to 1e-9, or 1e-4 with kinks. Infinite where tails do not fall fast enough, or
    above e^300.
    """
    z, weights = _quadrature_rule(mixture, i, transform)
    theta, weights = transform.forward(z[weights > 0]), weights[weights > 0]
    weights /= weights.sum()
    if transform.period:
        return transform.moments(theta, weights)
    # Distances from a typical value, so that an offset costs no digits.
    anchor = theta[np.argmax(weights)]
    mean = anchor + weights @ (theta - anchor)
    # Squares may overflow where the product with a weight does not.
    with np.errstate(over="ignore"):
        variance = np.sum((np.sqrt(weights) * (theta - mean)) ** 2)
    if not _is_bounded(transform):
        if _diverges(mixture, i, transform, 1):
            return (np.inf if np.isinf(transform.high) else -np.inf), np.inf
        if _diverges(mixture, i, transform, 2):
            return mean, np.inf
    return mean, np.sqrt(variance)


def _is_bounded(transform):
    return np.isfinite(transform.high) and np.isfinite(transform.low)


def _quadrature_rule(mixture, i, transform):
    """Nodes and weights against the marginal of coordinate i; tails are on the ends."""
    means = mixture.component_locations()[:, i]
    scales = mixture.component_scales()[:, i]
    nodes, weights = [], []
    for k in range(mixture.n_components):
        ends = np.union1d(means[k] + scales[k] * _PANEL_ENDS, transform.breakpoints)
        half = 0.5 * np.diff(ends)[:, None]
        z = (ends[:-1, None] + half * (1.0 + _NODES)).ravel()
        density = np.exp(mixture.marginal_log_density(k, i, z))
        nodes.append(z)
        weights.append(mixture.weights[k] * density * (half * _NODE_WEIGHTS).ravel())
        if _is_bounded(transform):
            outer = ends[[0, -1]]
            below = mixture.marginal_cdf(k, i, outer)
            nodes.append(outer)
            weights.append(mixture.weights[k] * np.abs(below - [0.0, 1.0]))
    return np.concatenate(nodes), np.concatenate(weights)


def _diverges(mixture, i, transform, power):
    """Whether density times ``exp(power |z|)`` does not fall, far on the open side."""
    # Where an integrand still rises out here, in z, its integral does not exist.
    z = np.array([350.0, 700.0])
    side = 1.0 if np.isinf(transform.high) else -1.0
    for k, centre in enumerate(mixture.component_locations()[:, i]):
        log_density = mixture.marginal_log_density(k, i, centre + side * z)
        near, far = log_density + power * z
        if far >= near:
            return True
    return False


def _ordered_mean(mixture, free):
    """Means of ordered coordinates, by quadrature of steps, and which have a
    variance."""
    steps = [coordinate_moments(mixture, i, LowerBound(0.0)) for i in free[1:]]
    increments = np.array([mixture.mean()[free[0]], *(mean for mean, _ in steps)])
    spreads = np.array([mixture.std()[free[0]], *(std for _, std in steps)])
    return np.cumsum(increments), np.isfinite(np.cumsum(spreads))
