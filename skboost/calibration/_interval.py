"""What remains at least and at most: an interval that tails and missed mass move."""

from typing import NamedTuple

import numpy as np

from skboost._math import (
    N_ERRORS,
    log_sum_exp,
    log_weights,
    mean_and_se,
    responsibilities,
)
from skboost.approximation import Mixture, effective_sample_size
from skboost.calibration._chains import Chains, Coordinates
from skboost.targets import failure_tolerant

# Copies of the mixture, their widths, and their shares of the draws that chains are
# started from: mass beside the mixture is found by draws, not by chains alone.
_WIDTHS = (1.0, 1.2, 1.5, 3.0, 10.0)
_SHARES = (0.6, 0.1, 0.1, 0.1, 0.1)
# Draws to choose a chain's start from, and trajectories of every chain: starts are
# already near the target, and more moved the upper end by a few per cent.
_N_CANDIDATES, _N_TRAJECTORIES = 5, 2
_COST = 18
# Evaluations, in shares of those that the run spent, and the range of the chains.
SHARE = 0.1
_N_CHAINS = (64, 256)
# Effective draws below which nothing can be said.
_LEAST_EFFECTIVE = 5.0
# Every copy has at least that share of the reference: no chain is left with no density.
_LEAST_SHARE = 1e-3
_N_STEPS = 50


class Interval(NamedTuple):
    """Nats that remain: at least, and at most as far as chains from q reach.

    Attributes
    ----------
    lower, upper : float
        `upper` is inf where nothing can be said.
    """

    lower: float
    upper: float


def lower_end(remaining):
    """The estimate from the mixture's own draws less two standard errors; at least 0.

    Its bias has one sign: mass that the mixture does not reach makes it too small.
    """
    value = remaining.value - N_ERRORS * remaining.se
    return float(value) if value > 0 else 0.0


def n_chains(n_evaluations):
    """Chains that a tenth of a run's evaluations pays for, in a fixed range."""
    return int(np.clip(SHARE * n_evaluations / _COST, *_N_CHAINS))


def remaining_kl_interval(target, mixture, elbo, remaining, n, rng):
    """An interval for KL(q || p), one-sided: its upper end is meant to hold.

    For draws x of p and any density r, ``E_p[ln p(x) - ln r(x)] >= 0``. So

        KL(q || p) = ln Z - ELBO <= E_p[log joint - ln r] - ELBO,

    an average of logarithms, which a heavy tail or missed mass raises, where the
    average of weights behind `remaining` misses it. Draws of p are those of short
    chains: started at draws of q and of widened copies of q, resampled by their
    weights, and moved by two trajectories of Hamiltonian Monte Carlo. The density r is
    a mixture of the same copies, its weights fitted to one half of the chains and used
    on the other.
    The excess over the truth is KL(p || r), about the truth itself where q is good.

    Blind to mass that no chain reaches: a mode behind a barrier.

    Parameters
    ----------
    target : Target
        Nothing can be said without its gradient.
    mixture : Mixture
        Nor where its components cannot be widened.
    elbo : Estimate
        Of the mixture, from other draws.
    remaining : RemainingKL
        Of the mixture, from its own draws.
    n : int
        Chains; each takes 18 evaluations.
    rng : numpy.random.Generator

    Returns
    -------
    Interval
    """
    lower = lower_end(remaining)
    widens = all(hasattr(family, "widen") for family, _ in mixture.components)
    climbs = widens and hasattr(target, "value_and_score")
    if not climbs or not np.isfinite(elbo.value):
        return Interval(lower, np.inf)
    target = failure_tolerant(target)
    copies = [_widened(mixture, width) for width in _WIDTHS]
    starts = _starts(target, copies, n, rng)
    if starts is None:
        return Interval(lower, np.inf)
    try:
        excess = _excess(target, mixture, copies, starts, rng)
    except np.linalg.LinAlgError:
        return Interval(lower, np.inf)
    if not np.isfinite(excess).all():
        return Interval(lower, np.inf)
    value, se = mean_and_se(excess)
    upper = value - elbo.value + N_ERRORS * np.hypot(se, elbo.se)
    # The estimate itself lies inside.
    return Interval(lower, float(max(upper, lower, np.nan_to_num(remaining.value))))


def _widened(mixture, width):
    parts = tuple((f, f.widen(np.array(p), width)) for f, p in mixture.components)
    return Mixture(parts, mixture.weights)


def _starts(target, copies, n, rng):
    """Draws of the copies resampled by their importance weights; None from too few."""
    counts = np.ceil(_N_CANDIDATES * n * np.array(_SHARES)).astype(int)
    theta = np.concatenate(
        [copy.sample(m, rng) for copy, m in zip(copies, counts, strict=True)]
    )
    log_r = log_sum_exp(_table(copies, theta), np.log(counts / counts.sum()))
    log_w = target.log_density(theta) - log_r
    if not (log_w > -np.inf).any():
        return None
    if effective_sample_size(log_w) < _LEAST_EFFECTIVE:
        return None
    cumulative = np.cumsum(np.exp(log_w - log_w.max()))
    points = (np.arange(n) + rng.random()) / n * cumulative[-1]
    index = np.minimum(np.searchsorted(cumulative, points), len(theta) - 1)
    return theta[rng.permutation(index)]


def _table(copies, theta):
    return np.column_stack([copy.log_density(theta) for copy in copies])


def _excess(target, mixture, copies, starts, rng):
    """``log joint - ln r`` of every chain, averaged over its trajectories, (n,)."""
    coordinates = Coordinates(mixture)
    chains = Chains.at(target, starts)
    log_joint, tables = [], []
    for _ in range(_N_TRAJECTORIES):
        chains = chains.moved(target, coordinates, rng)
        log_joint.append(chains.log_joint)
        tables.append(_table(copies, chains.theta))
    first = np.arange(len(starts)) % 2 == 0
    excess = np.empty((_N_TRAJECTORIES, len(starts)))
    for half in (first, ~first):
        shares = _fitted_shares(np.concatenate([table[~half] for table in tables]))
        for k, table in enumerate(tables):
            log_r = log_sum_exp(table[half], log_weights(shares))
            excess[k, half] = log_joint[k][half] - log_r
    return excess.mean(axis=0)


def _fitted_shares(table):
    """Shares of densities under which draws are likeliest, by EM."""
    shares = np.full(table.shape[1], 1.0 / table.shape[1])
    for _ in range(_N_STEPS):
        shares = responsibilities(table + np.log(shares))[0].mean(axis=0)
        shares = np.maximum(shares, _LEAST_SHARE)
        shares /= shares.sum()
    return shares
