"""Pareto-smoothed importance sampling (Vehtari et al. 2024, JMLR 25(72))."""

from typing import NamedTuple

import numpy as np

from skboost._math import log_sum_exp

# Log weights that agree to this many nats are equal up to rounding.
_ROUNDING = 1e-9


class SmoothedWeights(NamedTuple):
    """Smoothed log weights on the scale of the raw ones, and the shape of the tail."""

    log_weights: np.ndarray
    # Below 0.5 the variance is finite, above 0.7 estimates of practical size are not
    # reliable.
    khat: float


def fit_generalized_pareto(exceedances):
    """Shape and scale of a generalised Pareto distribution, from sorted exceedances.

    Zhang & Stephens 2009, the shape pulled towards 0.5 by ten draws (Vehtari et al.
    2024, Appendix C); inf where a quarter of the exceedances is zero.
    """
    x = np.asarray(exceedances, dtype=float)
    n = x.size
    quartile = x[int(n / 4 + 0.5) - 1]
    if quartile <= np.finfo(float).tiny:
        return np.inf, np.nan
    n_grid = 30 + int(np.sqrt(n))
    steps = np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))
    slopes = 1.0 / x[-1] + (1.0 - steps) / (3.0 * quartile)
    # A slope of exactly zero is the exponential distribution's removable limit.
    slopes = np.where(slopes == 0.0, np.finfo(float).eps / x[-1], slopes)
    shapes = np.log1p(-slopes[:, None] * x).mean(axis=1)
    profile = n * (np.log(-slopes / shapes) - shapes - 1.0)
    slope = np.exp(profile - _log_sum(profile)) @ slopes
    shape = np.log1p(-slope * x).mean()
    scale = -shape / slope
    return float((n * shape + 5.0) / (n + 10.0)), float(scale)


def psis(log_weights):
    """Smoothed log weights and Pareto k-hat (Vehtari et al. 2024, Algorithm 1).

    The ``min(n / 5, 3 sqrt(n))`` largest weights become order statistics of a fitted
    Pareto distribution. ``khat`` is 0 where all are equal, inf where the tail has fewer
    than five distinct draws or one carries it. Log weights of -inf are zero.
    """
    raw = np.asarray(log_weights, dtype=float)
    if raw.ndim != 1 or raw.size == 0:
        raise ValueError(
            f"log_weights must be a non-empty vector; got shape {raw.shape}."
        )
    if np.isnan(raw).any() or (raw == np.inf).any():
        raise ValueError(
            "log_weights must be finite or -inf; got NaN or +inf. Check the log "
            "densities that they were made from."
        )
    top = raw.max()
    if top == -np.inf:
        raise ValueError(
            "log_weights are all -inf: no draw has positive density under the "
            "target. Draw from a distribution that overlaps it."
        )
    if top - raw.min() < _ROUNDING:
        return SmoothedWeights(raw.copy(), 0.0)
    n_tail = int(np.ceil(min(0.2 * raw.size, 3.0 * np.sqrt(raw.size))))
    order = np.argsort(raw, kind="stable")
    cut = max(raw[order[-n_tail - 1]] if n_tail < raw.size else -np.inf, top - 700.0)
    tail = order[raw[order] > cut]
    # Below this many tail draws the Pareto fit says nothing.
    min_tail = 5
    if tail.size < min_tail:
        return SmoothedWeights(raw.copy(), np.inf)
    base = np.exp(cut - top)
    # expm1 keeps the exceedances of nearly equal weights.
    exceedances = base * np.expm1(raw[tail] - cut)
    shape, scale = fit_generalized_pareto(exceedances)
    if not np.isfinite(shape):
        return SmoothedWeights(raw.copy(), np.inf)
    # Expected order statistics; an infinite one is cut down to the largest raw weight.
    log_upper = np.log1p(-(np.arange(1, tail.size + 1) - 0.5) / tail.size)
    expected = -scale * log_upper
    if abs(shape) >= 1e-12:
        with np.errstate(over="ignore"):
            expected = scale * np.expm1(-shape * log_upper) / shape
    smoothed = raw.copy()
    smoothed[tail] = np.minimum(np.log(base + expected), 0.0) + top
    return SmoothedWeights(smoothed, shape)


def effective_sample_size(log_weights):
    """``(sum w)^2 / sum w^2`` of unnormalised log weights (Kish)."""
    return float(np.exp(2.0 * _log_sum(log_weights) - _log_sum(2.0 * log_weights)))


def log_mean_weight(log_weights):
    """Log of the mean weight, in nats, and its standard error (delta method)."""
    n = log_weights.size
    total = _log_sum(log_weights)
    if n < 2:
        return float(total), float("inf")
    relative = n * np.exp(log_weights - total)
    return float(total - np.log(n)), float(relative.std(ddof=1) / np.sqrt(n))


def _log_sum(values):
    return log_sum_exp(values[None])[0]
