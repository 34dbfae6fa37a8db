"""What remains at least and at most, by tails, missed mass and short chains."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skboost._math import N_ERRORS, log_sum_exp, log_weights, responsibilities
from skboost.approximation import Mixture, effective_sample_size
from skboost.families import MAX_FULL_DIM, VariationalFamily, whitening_by

# Length of leapfrog steps in standard deviations of the mixture: six of these took
# draws of a logistic posterior in 101 dimensions half of the way to it in two
# trajectories.
_STEP = 0.3


class Scatter:
    """Where a mixture lies, and coordinates of unit scatter, finite without
    covariance."""

    def __init__(self, mixture):
        location = mixture.component_locations()
        self.location = mixture.weights @ location
        apart = location - self.location
        if mixture.dim > MAX_FULL_DIM:
            scale = mixture.component_scales()
            self.variance = mixture.weights @ (scale**2 + apart**2)
            self.whitening = whitening_by(self.variance, None)
            return
        scatter = (mixture.weights[:, None] * apart).T @ apart
        for weight, component in zip(mixture.weights, mixture.components, strict=True):
            _, variance, factor = component.spread()
            if factor is not None:
                scatter += weight * factor @ factor.T
            if variance is not None:
                scatter[np.diag_indices_from(scatter)] += weight * variance
        self.variance = np.diagonal(scatter).copy()
        # Units of their own: a ridge on correlations is small in all of them.
        std = np.sqrt(self.variance)
        correlation = scatter / np.outer(std, std)
        # Components may lie on a line.
        correlation[np.diag_indices_from(correlation)] += 1e-9
        factor = std[:, None] * np.linalg.cholesky(correlation)
        self.whitening = whitening_by(None, factor)


@dataclass(frozen=True)
class Chains:
    """Points and scores (n, dim) and log joints (n,) of many chains, and the longest
    step."""

    theta: np.ndarray
    log_joint: np.ndarray
    score: np.ndarray
    step: float = _STEP

    @classmethod
    def at(cls, target, theta):
        """Chains that begin at these points."""
        return cls(theta, *target.value_and_score(theta))

    def moved(self, target, whitening, rng):
        """One trajectory of six leapfrog steps later, taken or refused.

        Every chain leaves the target as it is, and so needs no tuning to be right; the
        length of the next steps follows from the share that was accepted.
        """
        n = len(self.theta)
        # A target whose scale changes from place to place (a funnel) has no one step
        # that serves, and so every chain has its own.
        step = self.step * rng.uniform(0.25, 1.0, n)[:, None]
        start = rng.standard_normal(self.theta.shape)
        # Points of zero density have no slope, and their trajectories are refused.
        with np.errstate(over="ignore", invalid="ignore"):
            end, momentum = self, start
            for _ in range(6):
                momentum = momentum + 0.5 * step * whitening.pull(end.score)
                theta = end.theta + whitening.lift(step * momentum)
                theta = np.where(np.isfinite(theta), theta, self.theta)
                end = Chains.at(target, theta)
                momentum = momentum + 0.5 * step * whitening.pull(end.score)
            kinetic = 0.5 * (np.square(momentum) - np.square(start)).sum(axis=1)
            change = end.log_joint - self.log_joint - kinetic
        taken = np.log(rng.random(n)) < change
        share = taken.mean()
        factor = 1.5 if share > 0.9 else 1 / 1.5 if share < 0.6 else 1.0
        return Chains(
            np.where(taken[:, None], end.theta, self.theta),
            np.where(taken, end.log_joint, self.log_joint),
            np.where(taken[:, None], end.score, self.score),
            min(self.step * factor, 2.0 * _STEP),
        )


# --- the interval


# Effective draws from which chains are started at least.
_FEWEST = 10.0


class KLInterval(NamedTuple):
    """Of the remaining KL, as far as chains reach; inf where nothing is known."""

    lower: float
    upper: float


def lower_end(remaining):
    """The estimate from the mixture's own draws less two standard errors; at least 0.

    Mass that the mixture does not reach makes the estimate too small. Where k-hat is
    above 1 smoothing may make it too large: what smoothing added is taken off.
    """
    value = remaining.value - N_ERRORS * remaining.se
    if remaining.khat > 1.0:
        value -= max(remaining.smoothing, 0.0)
    return float(value) if value > 0 else 0.0


def n_chains(n_evaluations):
    """Chains that a tenth of a run's evaluations pays for, in a fixed range."""
    # Each takes 18: see `remaining_kl_interval`.
    return int(np.clip(0.1 * n_evaluations / 18, 64, 256))


def remaining_kl_interval(target, mixture, elbo, remaining, n, rng, beside=(), tol=0.0):
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

    Blind to mass that no chain reaches: a mode behind a barrier. Each of `n` chains
    takes 18 evaluations; draws are made of the components `beside`, too. Of a
    log-concave target of which draws see less than `tol` nats left there is no need for
    chains.
    """
    lower = lower_end(remaining)
    # Conjugate distributions have no wider copies, and their targets no gradient.
    widens = all(isinstance(c.family, VariationalFamily) for c in mixture.components)
    if not widens or not np.isfinite(elbo.value):
        return KLInterval(lower, np.inf)
    if target.log_concave and remaining.spread <= tol:
        # No mass hides beside draws at which the log ratio hardly varies.
        upper = max(remaining.spread, remaining.value + N_ERRORS * remaining.se)
        return KLInterval(lower, float(max(upper, lower)))
    # Copies of the mixture, their widths, and their shares of the draws that chains are
    # started from: mass beside the mixture is found by draws, not by chains alone.
    copies = [mixture.widen(width) for width in (1.0, 1.2, 1.5, 3.0, 10.0)]
    shares = np.array([0.6, 0.1, 0.1, 0.1, 0.1])
    lacking = _lacking(mixture, beside)
    # And of components at known modes that the mixture lacks.
    share_beside = 0.2
    if lacking is not None:
        copies.append(lacking)
        shares = np.append((1.0 - share_beside) * shares, share_beside)
    starts, owner = _starts(target, copies, shares, n, rng)
    if not len(starts):
        return KLInterval(lower, np.inf)
    try:
        excess = _excess(target, mixture, copies, starts, rng)
    except (np.linalg.LinAlgError, NotImplementedError):
        return KLInterval(lower, np.inf)
    if not np.isfinite(excess).all():
        return KLInterval(lower, np.inf)
    value, se = _clustered(excess, owner)
    upper = value - elbo.value + N_ERRORS * np.hypot(se, elbo.se)
    # The estimate itself lies inside.
    return KLInterval(lower, float(max(upper, lower, np.nan_to_num(remaining.value))))


def _clustered(excess, owner):
    """Mean, and its error where chains that share a start are not independent."""
    _, group = np.unique(owner, return_inverse=True)
    sums = np.bincount(group, excess - excess.mean())
    n_groups = len(sums)
    if n_groups < 2:
        return excess.mean(), np.inf
    error = np.sqrt(n_groups / (n_groups - 1) * (sums**2).sum()) / len(excess)
    return excess.mean(), error


def _lacking(mixture, beside):
    """Components that are far denser at their centres than a mixture; None without."""
    lacking = []
    for component in beside:
        centre = component.location()[None]
        if component.log_density(centre) > mixture.log_density(centre) + 2.0:
            lacking.append(component.widen(1.2))
    if not lacking:
        return None
    return Mixture(tuple(lacking), np.full(len(lacking), 1.0 / len(lacking)))


def _starts(target, copies, shares, n, rng):
    """Draws of the copies resampled by their weights, and which ones; none of few."""
    counts = np.ceil(5 * n * shares).astype(int)
    pairs = zip(copies, counts, strict=True)
    theta = np.concatenate([copy.sample(m, rng) for copy, m in pairs])
    log_r = log_sum_exp(_table(copies, theta), np.log(counts / counts.sum()))
    log_w = target.log_density(theta) - log_r
    # From fewer effective draws nothing can be said.
    if not (log_w > -np.inf).any() or effective_sample_size(log_w) < _FEWEST:
        return theta[:0], np.empty(0, dtype=int)
    cumulative = np.cumsum(np.exp(log_w - log_w.max()))
    points = (np.arange(n) + rng.random()) / n * cumulative[-1]
    index = rng.permutation(np.searchsorted(cumulative, points))
    return theta[index], index


def _table(copies, theta):
    return np.column_stack([copy.log_density(theta) for copy in copies])


def _excess(target, mixture, copies, starts, rng):
    """``log joint - ln r`` of every chain, averaged over its trajectories, (n,)."""
    whitening = Scatter(mixture).whitening
    chains = Chains.at(target, starts)
    log_joint, tables = [], []
    # Starts are near the target: more trajectories than two moved the upper end by a
    # few per cent.
    for _ in range(2):
        chains = chains.moved(target, whitening, rng)
        log_joint.append(chains.log_joint)
        tables.append(_table(copies, chains.theta))
    first = np.arange(len(starts)) % 2 == 0
    excess = np.empty((len(tables), len(starts)))
    for half in (first, ~first):
        shares = _fitted_shares(np.concatenate([table[~half] for table in tables]))
        for k, table in enumerate(tables):
            log_r = log_sum_exp(table[half], log_weights(shares))
            excess[k, half] = log_joint[k][half] - log_r
    return excess.mean(axis=0)


def _fitted_shares(table):
    """Shares of densities under which draws are likeliest, by EM."""
    shares = np.full(table.shape[1], 1.0 / table.shape[1])
    for _ in range(50):
        shares = responsibilities(table + np.log(shares))[0].mean(axis=0)
        # No chain is left without a density.
        shares = np.maximum(shares, 1e-3)
        shares /= shares.sum()
    return shares
