"""Expectations of any smooth function of one Gaussian variable."""

import numpy as np


def gaussian_expectation_1d(func, mean, sd, tol=1e-10, max_halvings=10):
    """E func(t) for t ~ N(mean, sd^2), ``func`` smooth, by a trapezoid rule.

    The step is halved until the largest change falls below ``tol`` (absolute, and
    relative above 1).

    Parameters
    ----------
    func : callable
        Maps an array (n_nodes, n) of points, column j distributed around
        ``mean[j]``, to an array (n_nodes, n) or (n_outputs, n_nodes, n).
    mean, sd : arrays (n,)
    tol : float, default=1e-10
    max_halvings : int, default=10

    Returns
    -------
    expectation : array (n,) or (n_outputs, n)
    """
    mean, sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)

    def weighted_sum(nodes):
        weights = np.exp(-0.5 * nodes**2)
        values = np.asarray(func(mean + nodes[:, None] * sd), dtype=float)
        return np.tensordot(weights, values, axes=(0, values.ndim - 2)), weights.sum()

    step, reach = 0.5, 9.0
    total, mass = weighted_sum(step * np.arange(-18, 19))
    estimate = total / mass
    for _ in range(max_halvings):
        middle = np.arange(-reach + 0.5 * step, reach, step)
        more, more_mass = weighted_sum(middle)
        total, mass, step = total + more, mass + more_mass, 0.5 * step
        previous, estimate = estimate, total / mass
        change = np.abs(estimate - previous) / np.maximum(1.0, np.abs(estimate))
        if np.max(change, initial=0.0) < tol:
            break
    return estimate
