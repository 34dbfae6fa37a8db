"""Many fits as a table: one row per candidate, ready for a DataFrame."""

import numpy as np
from scipy.stats import rankdata


def table(candidates, fits):
    """Columns of the table of an evidence search.

    Parameters
    ----------
    candidates : list of dict
    fits : list of list of Fit
        The repeats of every candidate.

    Returns
    -------
    dict of str to array or list of length n_candidates
    """
    elbo = np.array([[fit.elbo for fit in row] for row in fits])
    se = np.array([[fit.se for fit in row] for row in fits])
    seconds = np.array([[fit.seconds for fit in row] for row in fits])
    best = _best_repeats(elbo)
    rows = np.arange(len(fits))
    return {
        "mean_fit_time": seconds.mean(axis=1),
        "std_fit_time": seconds.std(axis=1),
        **_param_columns(candidates),
        "params": list(candidates),
        **{f"repeat{r}_elbo": elbo[:, r] for r in range(elbo.shape[1])},
        **{f"repeat{r}_elbo_se": se[:, r] for r in range(se.shape[1])},
        "mean_elbo": _over_known(np.mean, elbo),
        "std_elbo": _over_known(np.std, elbo),
        "elbo": elbo[rows, best],
        "elbo_se": np.array(
            [_error(row, row[k].se) for row, k in zip(fits, best, strict=True)]
        ),
        "best_repeat": best,
        "n_restarts": np.array([len(_restarts(row)) for row in fits]),
        "rank_elbo": _ranks(elbo[rows, best]),
    }


def _best_repeats(elbo):
    """The repeat with the largest bound, for every row."""
    return np.where(np.isnan(elbo), -np.inf, elbo).argmax(axis=1)


def _ranks(elbo):
    """1 is the largest; what is no number comes last, after minus infinity."""
    lowest = np.isnan(elbo)
    order = rankdata(-np.where(lowest, -np.inf, elbo), method="min")
    order[lowest] = 1 + (~lowest).sum()
    return order.astype(np.int32)


def spread_of_largest(values):
    """Standard deviation of the largest of m draws with replacement from m values.

    The bootstrap of a maximum in closed form: the i-th smallest is the largest draw
    with probability (i/m)^m − ((i−1)/m)^m. Restarts end in a few optima, so their
    distribution has atoms, which is what makes the bootstrap sound here: it is zero
    where all agree, and large where only one of them got far.

    Parameters
    ----------
    values : array-like of shape (m,)

    Returns
    -------
    float
        In the units of the values.
    """
    values = np.sort(values)
    m = len(values)
    p = np.diff((np.arange(m + 1) / m) ** m)
    return float(np.sqrt(p @ (values - p @ values) ** 2))


def _restarts(row):
    """Finite bounds of all starts in all repeats of a candidate."""
    values = np.array([value for fit in row for value in fit.restarts])
    return values[np.isfinite(values)]


def _error(row, monte_carlo):
    """Standard error of the best bound: luck of the starts and Monte Carlo noise."""
    restarts = _restarts(row)
    known = [] if np.isnan(monte_carlo) else [monte_carlo]
    if len(restarts) > 1:
        known.append(spread_of_largest(restarts))
    return np.linalg.norm(known) if known else np.nan


def _over_known(statistic, elbo):
    """A statistic of every row without what is no number."""
    known = [row[~np.isnan(row)] for row in elbo]
    # A bound of minus infinity has a mean and no spread.
    with np.errstate(invalid="ignore"):
        return np.array([statistic(row) if len(row) else np.nan for row in known])


def _param_columns(candidates):
    """One masked array per parameter; masked where a candidate does not set it."""
    names = dict.fromkeys(name for params in candidates for name in params)
    return {f"param_{name}": _column(candidates, name) for name in names}


def _column(candidates, name):
    values = [params[name] for params in candidates if name in params]
    numbers = all(isinstance(value, (int, float, np.number)) for value in values)
    dtype = np.array(values).dtype if numbers else object
    column = np.ma.masked_all(len(candidates), dtype=dtype)
    for row, params in enumerate(candidates):
        if name in params:
            column[row] = params[name]
    return column
