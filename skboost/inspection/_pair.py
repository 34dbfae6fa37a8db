"""Joint density of two coordinates of a posterior, on a grid."""

import numpy as np
from scipy.ndimage import gaussian_filter

from skboost._math import log_sum_exp, log_weights, robust_std


def joint_density(posterior, indices, x, y):
    """Density of two coordinates on the user's scale, shape (len(y), len(x)).

    By change of variables where each has a transform of its own, else by kernels
    from draws.

    Parameters
    ----------
    posterior : MixturePosterior
    indices : pair of int
    x, y : ndarray
        Evenly spaced values of the first and of the second coordinate.
    """
    if posterior.constraints is None:
        return pair_density(posterior.mixture, indices, x, y)
    mapped = [posterior.constraints.elementwise(i) for i in indices]
    if None in mapped:
        # Inside a simplex or among ordered coordinates.
        draws = posterior.sample(40_000, random_state=0)
        return kernel_density(draws[:, indices], x, y)
    inside = [t.inside(v) for (t, _), v in zip(mapped, (x, y), strict=True)]
    z = [
        t.inverse(v[mask])
        for (t, _), v, mask in zip(mapped, (x, y), inside, strict=True)
    ]
    slope_x, slope_y = (t.derivative(v) for (t, _), v in zip(mapped, z, strict=True))
    density = np.zeros((len(y), len(x)))
    core = pair_density(posterior.mixture, [free for _, free in mapped], *z)
    density[np.ix_(inside[1], inside[0])] = core / np.outer(slope_y, slope_x)
    return density


def kernel_density(draws, x, y):
    """Density of draws (n, 2) on an even grid, shape (len(y), len(x))."""
    steps = np.array([x[1] - x[0], y[1] - y[0]])
    edges = [
        np.append(v, v[-1] + step) - 0.5 * step
        for v, step in zip((x, y), steps, strict=True)
    ]
    counts = np.histogram2d(*draws.T, bins=edges)[0] / (len(draws) * steps.prod())
    width = robust_std(draws) * len(draws) ** (-1 / 6)
    return gaussian_filter(counts.T, (width / steps)[::-1])


def pair_density(mixture, indices, x, y):
    """Density of two coordinates, shape (len(y), len(x)).

    Parameters
    ----------
    mixture : Mixture
    indices : pair of int
    x, y : ndarray
        Values of the first and of the second coordinate.
    """
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    columns = [
        family.log_density(points, family.marginal(params, list(indices)))
        for family, params in mixture.components
    ]
    log_q = log_sum_exp(np.column_stack(columns), log_weights(mixture.weights))
    return np.exp(log_q).reshape(len(y), len(x))


def highest_density_levels(density, masses):
    """Densities above which lie the given shares of the mass on an even grid.

    Parameters
    ----------
    density : ndarray
    masses : sequence of float
        Decreasing, so that the levels increase.
    """
    ordered = np.sort(density.ravel())[::-1]
    cumulative = np.cumsum(ordered)
    cumulative /= cumulative[-1]
    index = np.searchsorted(cumulative, masses)
    return ordered[np.minimum(index, ordered.size - 1)]
