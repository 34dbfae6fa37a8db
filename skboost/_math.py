"""Small numerical helpers that several packages share."""

import numpy as np
from scipy.linalg.lapack import dtrtri

# Standard errors by which an estimate has to differ before the difference is believed:
# the one allowance for Monte Carlo noise of the whole package.
N_ERRORS = 2.0

LOG_2PI = np.log(2.0 * np.pi)


def as_floats(values):
    """Values as an array of floats; a TypeError where that would lose something."""
    # A conversion would drop imaginary parts, with a warning at best.
    if np.iscomplexobj(values):
        raise TypeError("complex numbers are not supported")
    return np.asarray(values, dtype=float)


def log_sum_exp(a, log_weights=None):
    """Row-wise ``ln sum_k exp(a_nk + log_weights_k)``; rows of -inf give -inf.

    Written out because SciPy's general version costs more than the mixture
    density that calls it.
    """
    if log_weights is not None:
        a = a + log_weights
    return _summed(a)[1]


def responsibilities(a):
    """Each ``exp(a_nk)`` over its row's sum, and the logarithms of the sums.

    In a row of -inf nothing has a share. Columns that lie together in memory, as those
    of ``np.stack(columns).T`` do, are summed faster than rows.
    """
    parts, log_total, total = _summed(a)
    # The largest part is one, so only a row of -inf has a smaller sum.
    parts /= np.maximum(total, 1.0)[:, None]
    return parts, log_total


def _summed(a):
    """Scaled parts ``exp(a)``, log sums of the rows, and sums of the scaled parts."""
    top = a.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    parts = a - top[:, None]
    np.exp(parts, out=parts)
    total = parts.sum(axis=1)
    with np.errstate(divide="ignore"):
        return parts, top + np.log(total), total


def log_weights(weights):
    """Logarithms of weights in which exact zeros are legal."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


def mean_and_se(values, row_weights=None):
    """Weighted mean and its standard error, as if the draws were independent.

    Stratified and quasi-Monte Carlo draws only do better, so this is the careful
    side. `row_weights` sum to one; None weighs all alike.
    """
    values = np.asarray(values, dtype=float)
    if values.size < 2:
        return float(values.mean()), float("inf")
    # Where a value is -inf so is the mean, and its error is no number. Values whose
    # squares overflow are those of an improper density, which the run reports.
    with np.errstate(invalid="ignore", over="ignore"):
        if row_weights is None:
            error = values.std(ddof=1) / np.sqrt(values.size)
            return float(values.mean()), float(error)
        mean = float(row_weights @ values)
        return mean, float(np.sqrt(row_weights**2 @ (values - mean) ** 2))


def robust_std(values):
    """Silverman's spread of columns: the deviation, or less where quartiles say so."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    return np.minimum(values.std(axis=0), (high - low) / 1.34)


def log_cosh(u):
    """``ln cosh u``, never negative and accurate to the last digit near zero."""
    return np.log1p(2.0 * np.sinh(0.5 * u) ** 2)


def inverse_roots(matrices):
    """Inverses of the lower Cholesky roots of matrices (n, dim, dim), and their log
    determinants (n,)."""
    roots = np.linalg.cholesky(matrices)
    log_det = 2.0 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    for root in roots:
        root[:] = dtrtri(root, lower=1)[0]
    return roots, log_det


def bounded_exp(x):
    """``exp(x)``, never zero or infinite: a wall from which searches step back."""
    # Beyond 300 the squares of exponentials leave the range of floating point.
    return np.exp(np.clip(x, -300.0, 300.0))


def sigmoid(t):
    """1 / (1 + exp(-t))."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-t))


def count_moments(eta, dispersion):
    """Mean and variance (n,) of counts, from draws of linear predictors (n, n_draws),
    and of dispersions where there are any.

    Where few events leave a rate unknown by a factor of two or more, moments are those
    of all but its largest values: of a negative binomial model the rest has none, and
    of an approximation none that the rows know of.
    """
    rate = bounded_exp(eta)
    square = (0.0 if dispersion is None else dispersion) * rate**2
    wide = eta.std(axis=1) > 0.7
    for part in (rate, square):
        if wide.any():
            ends = np.quantile(part[wide], 0.995, axis=1, keepdims=True)
            part[wide] = np.minimum(part[wide], ends)
    mean = rate.mean(axis=1)
    return mean, mean + rate.var(axis=1) + square.mean(axis=1)


def weighted_quantiles(values, row_weights, levels):
    """Weighted quantiles along the first axis, put last."""
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, 0)
    weights = row_weights[order]
    middle = np.cumsum(weights, axis=0) - 0.5 * weights
    out = np.empty((*values.shape[1:], len(levels)))
    for index in np.ndindex(values.shape[1:]):
        each = (slice(None), *index)
        out[index] = np.interp(levels, middle[each], ordered[each])
    return out
