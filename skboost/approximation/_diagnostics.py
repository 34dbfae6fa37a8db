"""What is reported about a mixture: from fresh draws, with standard errors.

The draws that were optimised flatter (a KL of -0.024 on them was +0.024 on fresh
ones), so nothing here sees a draw that any search or weight solver has seen.

Where some draws have zero density, everything is reported of the mixture *restricted*
to the support, ``q(theta) / m`` inside and zero outside, with m the mass of q inside:
its ELBO is ``E_inside[ln p - ln q] + ln m``, a lower bound of the log evidence like any
other, where that of q itself is -inf and says nothing.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skboost._math import N_ERRORS, log_sum_exp, log_weights, mean_and_se
from skboost.approximation._pooled_draws import expectations
from skboost.families import Component

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


# --- estimates by fresh draws


# Nats beyond which one draw says no more of where a mixture is wrong: single ones would
# decide.
_FAR_OFF = 3.0


class Estimate(NamedTuple):
    """A Monte Carlo estimate in nats and its standard error."""

    value: float
    se: float


@dataclass(frozen=True)
class FreshDraws:
    """Draws from a mixture that nothing has been fitted to."""

    mixture: object
    theta: np.ndarray
    # By strata; they sum to one.
    row_weights: np.ndarray
    # Component of each draw.
    source: np.ndarray
    # None where the target's Gaussian expectations are exact, and these, nats.
    log_joint: np.ndarray | None
    expected: np.ndarray | None

    # Nats to which what remains is known where no draws say it.
    known_to = None

    @classmethod
    def of(cls, target, mixture, n, rng, exact, strict=False, at_once=False):
        """Draw `n` points from `mixture` and evaluate the target where it must be."""
        theta, row_weights, source = mixture.stratified_draws(n, rng, at_once)
        log_joint = None if exact else target.log_density(theta, strict=strict)
        expected = expectations(target, mixture.components) if exact else None
        return cls(mixture, theta, row_weights, source, log_joint, expected)

    @property
    def outside(self):
        """Share of the mixture's mass that lies where the density is zero."""
        if self.log_joint is None:
            return 0.0
        return float(self.row_weights @ np.isneginf(self.log_joint))

    @cached_property
    def log_ratio(self):
        """``ln p - ln q`` at the draws, shape (n,), nats; needs `log_joint`."""
        return self.log_joint - self.mixture.log_density(self.theta)

    def underrated(self, n):
        """At most `n` draws at which ``ln p - ln q`` is a nat above its mean, or
        None."""
        if self.log_joint is None:
            return self.theta[:0]
        ratio = self.log_ratio
        above = ratio - inside_mean(ratio, self.row_weights).value
        order = np.argsort(-above, kind="stable")[:n]
        return self.theta[order[above[order] > 1.0]]

    def elbo(self):
        """ELBO of the mixture, nats, on its support; exact expectations leave little
        to draws."""
        if self.expected is None:
            return restricted_elbo(self.log_ratio, self.row_weights)
        table = self.mixture.log_components(self.theta)
        log_q = log_sum_exp(table, log_weights(self.mixture.weights))
        own = table[np.arange(len(table)), self.source]
        overlap, se = mean_and_se(own - log_q, self.row_weights)
        return Estimate(self.certain_part() + overlap, se)

    def excess(self, theta, log_joint):
        """``ln q`` and ``ln q - log joint`` at any draws, nats.

        With exact expectations components' shared log densities stand in for the log
        joint.
        """
        if log_joint is not None:
            log_q = self.mixture.log_density(theta)
            return log_q, log_q - log_joint
        table, weights = self.mixture.log_components(theta), self.mixture.weights
        log_q = log_sum_exp(table, log_weights(weights))
        share = np.exp(table + log_weights(weights) - log_q[:, None])
        own = np.where(share > 0, share * table, 0.0).sum(axis=1)
        return log_q, log_q - own

    def remaining_parts(self):
        """Nats that remain by component, up to a factor; by weights where no draw
        says it."""
        if self.log_joint is None:
            return self.mixture.weights
        centre = inside_mean(self.log_ratio, self.row_weights).value
        excess = np.clip(self.log_ratio - centre, -_FAR_OFF, _FAR_OFF)
        parts = self.row_weights * (np.exp(excess) - 1.0 - excess)
        return np.bincount(self.source, parts, self.mixture.n_components)

    def remaining_kl(self, target, n, rng, precision=0.0):
        """What importance sampling sees beyond the ELBO, `RemainingKL`.

        Without known log joints from an eighth of `n` draws, or all for `precision`
        nats.
        """
        if self.log_joint is not None:
            # Those of a single component all weigh alike, to the last digit.
            weights = self.row_weights if self.mixture.n_components > 1 else None
            found = remaining_kl(self.log_ratio, weights)
            return found._replace(outside=self.outside)
        log_ratio = np.empty(0)
        for draws in (n // 8, n - n // 8):
            theta = self.mixture.sample(draws, rng)
            here = target.log_density(theta) - self.mixture.log_density(theta)
            log_ratio = np.append(log_ratio, here)
            found = remaining_kl(log_ratio)
            if found.se <= precision:
                break
        return found

    def certain_part(self):
        """The part of the ELBO that needs no draws, nats."""
        if self.expected is None:
            return 0.0
        entropy = np.array([*map(Component.entropy, self.mixture.components)])
        return float(self.mixture.weights @ (self.expected + entropy))


def inside_mean(log_ratio, row_weights=None):
    """Mean of values above -inf and its error, nan without any; `row_weights` sum to
    one."""
    inside = log_ratio > -np.inf
    if inside.all():
        return Estimate(*mean_and_se(log_ratio, row_weights))
    if not inside.any():
        return Estimate(np.nan, np.nan)
    if row_weights is not None:
        row_weights = row_weights[inside] / row_weights[inside].sum()
    return Estimate(*mean_and_se(log_ratio[inside], row_weights))


def restricted_elbo(log_ratio, row_weights=None):
    """``E[r | r > -inf] + ln P(r > -inf)`` of ``r = ln p - ln q`` at draws of q, and
    its error; -inf, with an error of nan, where all are -inf."""
    value, se = inside_mean(log_ratio, row_weights)
    mass, se_mass = mean_and_se(log_ratio > -np.inf, row_weights)
    if mass == 0.0:
        return Estimate(-np.inf, np.nan)
    # The errors of the two terms are uncorrelated: a mean inside knows no mass.
    return Estimate(value + float(np.log(mass)), float(np.hypot(se, se_mass / mass)))


def elbo_gain(before, after):
    """ELBO of one mixture minus another's on the fresh draws of both (balance
    heuristic)."""
    theta = np.concatenate([before.theta, after.theta])
    log_joint = None
    if before.log_joint is not None:
        log_joint = np.concatenate([before.log_joint, after.log_joint])
    log_old, old = before.excess(theta, log_joint)
    log_new, new = after.excess(theta, log_joint)
    row_weights = 0.5 * np.concatenate([before.row_weights, after.row_weights])
    # The unknown ln Z is common to both integrands: left in, it multiplies the noise
    # of two densities that integrate to one.
    centre = -inside_mean(-old[: len(before.theta)], before.row_weights).value
    centre = centre if np.isfinite(centre) else 0.0
    log_r = np.logaddexp(log_old, log_new) - np.log(2.0)
    with np.errstate(invalid="ignore"):
        old, new = old - centre, new - centre
    old, spread_old = _negative_elbo(np.exp(log_old - log_r), old, row_weights)
    new, spread_new = _negative_elbo(np.exp(log_new - log_r), new, row_weights)
    _, se = mean_and_se(spread_old - spread_new, row_weights)
    certain = after.certain_part() - before.certain_part()
    return Estimate(float(old - new + certain), se)


def _negative_elbo(ratio, excess, row_weights):
    """Minus the ELBO of a restricted mixture, and what every draw adds to it."""
    outside = np.isposinf(excess)
    share = np.where(outside | (ratio == 0), 0.0, ratio * np.where(outside, 0, excess))
    total = row_weights @ share
    mass = 1.0 - row_weights @ np.where(outside, ratio, 0.0)
    if mass <= 0:
        return np.inf, share
    # The delta method again: a draw outside takes from the mass.
    lost = np.where(outside, ratio * (total / mass + 1.0), 0.0)
    return total / mass - np.log(mass), (share + lost) / mass


class DualityGap(NamedTuple):
    """Frank-Wolfe duality gap, the largest over a proposed component and all that the
    mixture has, and that of the proposed one alone, nats."""

    value: float
    se: float
    candidate: Estimate

    @property
    def certifies(self):
        """Whether the search did as well as the components of q, by two standard
        errors."""
        return bool(self.candidate.value >= -N_ERRORS * self.candidate.se)


def duality_gap(fresh, candidate, pool):
    """``E_q[ln q - log joint] - E_s[ln q - log joint]`` at the best known component s.

    Its maximum over s bounds the suboptimality of q (Locatello et al. 2018, Lemma 4);
    here s is proposed or one of q's, and the largest of noisy estimates is on the
    careful side.
    """
    proposed = candidate_gap(fresh, candidate)
    values, errors = component_gaps(fresh.mixture, pool)
    values, errors = np.append(values, proposed.value), np.append(errors, proposed.se)
    if np.isnan(values).all():
        return DualityGap(np.nan, np.nan, proposed)
    best = int(np.nanargmax(values))
    return DualityGap(float(values[best]), float(errors[best]), proposed)


def candidate_gap(fresh, candidate):
    """Duality gap of one component that may be new, from fresh draws, nats."""
    elbo = fresh.elbo()
    log_q = fresh.mixture.log_density(candidate.theta)
    if candidate.expected is None:
        # With both restricted to the support, the mass of q inside cancels.
        gain, se = inside_mean(candidate.log_joint - log_q, candidate.row_weights)
        gain += np.log1p(-fresh.outside)
    else:
        own = candidate.mixture.log_density(candidate.theta)
        gain, se = mean_and_se(own - log_q, candidate.row_weights)
        gain += candidate.certain_part()
    return Estimate(float(gain - elbo.value), float(np.hypot(se, elbo.se)))


def component_gaps(mixture, pool):
    """Duality gaps of the components of a mixture, and errors, from their own pooled
    draws.

    Their mean by weights is exactly zero; nan where no draw has positive density.
    """
    log_q = log_sum_exp(pool.log_components, log_weights(mixture.weights))
    if pool.expected is None:
        excess, certain = pool.log_joint - log_q, 0.0
    else:
        own = pool.log_components[np.arange(len(log_q)), pool.source]
        excess, certain = own - log_q, pool.expected + pool.entropy
    parts = [excess[pool.source == k] for k in range(mixture.n_components)]
    means, errors = np.array([inside_mean(part) for part in parts]).T
    nowhere = np.isnan(means)
    means, errors = np.where(nowhere, 0.0, means + certain), np.nan_to_num(errors)
    # Restricted to the support, a component counts by its mass inside.
    mass = mixture.weights * [(part > -np.inf).mean() for part in parts]
    share = mass / max(mass.sum(), np.finfo(float).tiny)
    # The draws of a component serve both expectations.
    contrast = np.eye(len(share)) - share
    values = np.where(nowhere, np.nan, contrast @ means)
    return values, np.sqrt(contrast**2 @ errors**2)


class RemainingKL(NamedTuple):
    """``ln Z - ELBO`` by importance sampling, its standard error, and k-hat.

    `spread` is half the variance of ``ln p - ln q`` plus two errors, the same to second
    order; `outside` the share of q where the density is zero; `smoothing` what Pareto
    smoothing adds.
    """

    value: float
    se: float
    khat: float
    spread: float
    outside: float = 0.0
    smoothing: float = 0.0

    @property
    def least(self):
        """The estimate less its noise, nats."""
        return self.value - N_ERRORS * self.se


def remaining_kl(log_ratio, row_weights=None):
    """How far the ELBO still is from the log evidence, by ``ln p - ln q`` at fresh
    draws of q, whose weights sum to one: blind to whatever q never reaches."""
    none = np.isneginf(log_ratio)
    outside = float(none.mean() if row_weights is None else row_weights @ none)
    if none.all():
        return RemainingKL(np.nan, np.nan, np.inf, np.inf, outside)
    raw = log_ratio
    if row_weights is not None:
        # Draws of a component of hardly any weight are few, and no more than that.
        raw = log_ratio + np.log(len(row_weights) * row_weights)
    smoothed, khat = psis(raw)
    log_z, se_z = log_mean_weight(smoothed)
    elbo, se_elbo = restricted_elbo(log_ratio, row_weights)
    centre = inside_mean(log_ratio, row_weights).value
    squares = np.where(
        none, -np.inf, 0.5 * (np.where(none, 0, log_ratio) - centre) ** 2
    )
    half, se_half = inside_mean(squares, row_weights)
    return RemainingKL(
        log_z - elbo,
        float(np.hypot(se_z, se_elbo)),
        khat,
        half + N_ERRORS * se_half,
        outside,
        log_z - log_mean_weight(raw)[0],
    )
