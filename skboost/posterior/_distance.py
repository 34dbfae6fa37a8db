"""Hellinger distance between two mixtures."""

from typing import NamedTuple

import numpy as np

from skboost._math import mean_and_se


class HellingerEstimate(NamedTuple):
    """Monte Carlo estimate of the Hellinger distance between two densities.

    Attributes
    ----------
    distance : float
        ``H = sqrt(1 - integral sqrt(p q))``, between 0 and 1.
    se : float
        Its standard error.
    squared, squared_se : float
        ``H^2``, unbiased, and its standard error.
    """

    distance: float
    se: float
    squared: float
    squared_se: float


def hellinger_distance(first, second, n, rng):
    """`HellingerEstimate` from `n` draws, half from each mixture.

    Under ``r = (p + q) / 2``, ``H^2 = E_r[(sqrt p - sqrt q)^2 / (p + q)]``: terms in
    [0, 1], all zero where the mixtures agree, and no region of either is missed.
    """
    halves = [mixture.stratified_draws(n // 2, rng) for mixture in (first, second)]
    theta = np.concatenate([half[0] for half in halves])
    row_weights = 0.5 * np.concatenate([half[1] for half in halves])
    log_p, log_q = first.log_density(theta), second.log_density(theta)
    # (sqrt p - sqrt q)^2 / (p + q) = 1 - sech((ln p - ln q) / 2), without overflow.
    with np.errstate(over="ignore"):
        terms = 1.0 - 1.0 / np.cosh(0.5 * (log_p - log_q))
    squared, squared_se = mean_and_se(terms, row_weights)
    distance = np.sqrt(max(squared, 0.0))
    se = 0.0 if squared_se == 0.0 else squared_se / max(2.0 * distance, 1e-300)
    return HellingerEstimate(
        float(distance), float(min(se, np.sqrt(squared_se))), squared, squared_se
    )
