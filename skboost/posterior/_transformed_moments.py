"""Moments on the user's scale: by quadrature, and from fixed draws for blocks."""

from typing import NamedTuple

import numpy as np

from skboost._random import generator
from skboost.transforms import LowerBound, Ordered, Real

# Draws for what has no quadrature, always the same ones: at most so many, and so many
# numbers.
_MAX_DRAWS, _MAX_ENTRIES = 1 << 15, 1 << 22
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)
# Ends of the panels on one side of a component's centre, in its standard deviations:
# fine where the mass is, then out to where heavy tails still count.
_ENDS_ABOVE = np.concatenate(
    [np.arange(0.0, 40.0, 0.5), np.geomspace(40.0, 4000.0, 24)]
)
_PANEL_ENDS = np.concatenate([-_ENDS_ABOVE[:0:-1], _ENDS_ABOVE])
# Where an integrand still rises out here, in z, its integral does not exist.
_FAR = np.array([350.0, 700.0])


class FixedDraws(NamedTuple):
    """Fixed draws on the user's scale, their weights and components."""

    theta: np.ndarray
    row_weights: np.ndarray
    source: np.ndarray


def fixed_draws(mixture, constraints):
    """Quasi-random draws, the same ones at every call: 32768, fewer above dim 128."""
    n = min(_MAX_DRAWS, max(_MAX_ENTRIES // constraints.dim, 1024))
    z, row_weights, source = mixture.stratified_draws(n, generator(0))
    return FixedDraws(constraints.forward(z), row_weights, source)


def moments(mixture, constraints, draws=None):
    """Means and standard deviations on the user's scale, each of shape (dim,).

    A coordinate with a transform of its own: quadrature over the marginal of each
    component. One in a block: from fixed draws, the means of ordered ones excepted.

    Parameters
    ----------
    mixture : Mixture
        Of the unconstrained coordinates.
    constraints : Constraints
    draws : FixedDraws, default=None
        To be used for blocks.
    """
    mean, std = np.empty(constraints.dim), np.empty(constraints.dim)
    for transform, columns, free in constraints.parts:
        if isinstance(transform, Real):
            mean[columns], std[columns] = mixture.mean()[free], mixture.std()[free]
        elif transform.elementwise:
            pairs = [coordinate_moments(mixture, i, transform) for i in free]
            mean[columns], std[columns] = np.array(pairs).T
        else:
            draws = fixed_draws(mixture, constraints) if draws is None else draws
            theta, w = draws.theta[:, columns], draws.row_weights
            centre = w @ theta
            mean[columns], std[columns] = centre, np.sqrt(w @ (theta - centre) ** 2)
            if isinstance(transform, Ordered):
                mean[columns], exist = _ordered_mean(mixture, free)
                std[columns[~exist]] = np.inf
    return mean, std


def covariance(mixture, constraints):
    """Covariance on the user's scale, shape (dim, dim).

    Correlations of fixed draws times the standard deviations of `moments`; NaN
    beside an infinite variance.
    """
    draws = fixed_draws(mixture, constraints)
    _, std = moments(mixture, constraints, draws)
    centred = draws.theta - draws.row_weights @ draws.theta
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

    Gauss-Legendre on panels of half a standard deviation of each component, split
    where the transform bends: about 1e-9 of the standard deviation for smooth
    components, 1e-4 for those with kinks away from their mean. Infinite where an
    unbounded transform meets a tail that does not fall fast enough, or above e^300.
    """
    z, weights = _quadrature_rule(mixture, i, transform)
    theta, weights = transform.forward(z[weights > 0]), weights[weights > 0]
    weights /= weights.sum()
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
    """Nodes and weights of an integral against the marginal of coordinate i.

    What lies beyond the panels is put on their ends where `transform` is bounded.
    """
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
    side = 1.0 if np.isinf(transform.high) else -1.0
    for k, centre in enumerate(mixture.component_locations()[:, i]):
        log_density = mixture.marginal_log_density(k, i, centre + side * _FAR)
        near, far = log_density + power * _FAR
        if far >= near:
            return True
    return False


def _ordered_mean(mixture, free):
    """Means of ordered coordinates, and which have a variance.

    The first coordinate is z itself; each step to the next is a lognormal-like
    variable with moments by quadrature.
    """
    steps = [coordinate_moments(mixture, i, LowerBound(0.0)) for i in free[1:]]
    increments = np.array([mixture.mean()[free[0]], *(mean for mean, _ in steps)])
    spreads = np.array([mixture.std()[free[0]], *(std for _, std in steps)])
    return np.cumsum(increments), np.isfinite(np.cumsum(spreads))
