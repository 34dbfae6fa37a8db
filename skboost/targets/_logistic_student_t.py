"""The predictive probability of a logistic model under Student-t coefficients."""

from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv

from skboost.targets._logistic_gaussian import sigmoid_expectation


@lru_cache(maxsize=32)
def student_t_radii(df, cut=1e-13):
    """Nodes and weights for sqrt(df / w), w chi-squared with `df` degrees of freedom.

    `cut` is the mass left out at the lower end, which is a power; the upper end falls
    off like exp(-w / 2).

    A trapezoid rule in ln w, in which the density and every expectation under a
    Gaussian of this scale are analytic and fall off: its error is exponential in the
    inverse of the step, and the step is three quarters of the width of the density.
    """
    half = 0.5 * df
    step = 0.75 / np.sqrt(half + 2.0)
    # The lower tail of a gamma variable is a power: its end follows from the mass.
    low = np.log(gammaincinv(half, cut))
    high = np.log(half + 8.0 * np.sqrt(half) + 40.0)
    x = np.arange(low, high + step, step)
    weights = np.exp(half * (x - np.log(half)) - (np.exp(x) - half))
    weights /= weights.sum()
    nodes = np.sqrt(half * np.exp(-x))
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def student_t_sigmoid_expectation(location, scale, df):
    """E sigma(t) for t Student-t.

    A Student-t variable is Gaussian with a random scale, so this is an average of
    noise-free Gaussian expectations.

    Parameters
    ----------
    location, scale : array (n,)
    df : float
        Degrees of freedom.

    Returns
    -------
    probability : array (n,), absolute error below 1e-9
    """
    return sigmoid_over_scales(location, scale, *student_t_radii(float(df)))


def sigmoid_over_scales(location, scale, nodes, shares):
    """E sigma(t) for t Gaussian of scale ``node * scale``, each with its share."""
    location, scale = np.broadcast_arrays(location, scale)
    total = np.zeros(location.shape)
    for node, share in zip(nodes, shares, strict=True):
        total += share * sigmoid_expectation(location, node * scale)
    return total
