"""What a log joint that a user passes says of a posterior: weights and corrections."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri

from skboost._math import mean_and_se
from skboost.approximation import (
    effective_sample_size,
    log_mean_weight,
    psis,
    squared_hellinger,
)
from skboost.posterior._marginal import check_level
from skboost.targets import Target


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

    Examples
    --------
    >>> import autograd.numpy as np
    >>> from skboost import boost_posterior
    >>> def log_density(theta):
    ...     return np.sum(2 * theta - np.exp(theta), axis=1)
    >>> posterior = boost_posterior(log_density, 2, random_state=0).posterior
    >>> posterior.hellinger(posterior, random_state=0).distance
    0.0
    """

    distance: float
    se: float
    squared: float
    squared_se: float


def hellinger_distance(first, second, n, rng):
    """`HellingerEstimate` from `n` draws, half from each mixture.

    Under ``r = (p + q) / 2``, ``H^2 = E_r[(sqrt p - sqrt q)^2 / (p + q)]`` has terms in
    [0, 1].
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


@dataclass(frozen=True)
class ErrorEstimates:
    """Distances between an approximation q and its target p, estimated.

    Every number comes from draws of q alone and is an ESTIMATE, the bounds included:
    they are bounds with an estimated distance put in. What q never reaches does not
    show: for q = N(0, 1) and p = N(0, 1) / 2 + N(25, 5) / 2, of Figure 1b, the squared
    Hellinger distance is estimated as 0, and is 0.293.

    Attributes
    ----------
    hellinger_squared, hellinger_squared_se : float
        ``H^2 = 1 - integral sqrt(p q)``, between 0 and 1, estimated by
        ``1 - mean(sqrt w) / sqrt(mean w)`` with ``w = exp(log joint) / q`` (Campbell
        & Li 2019, equation 9), and its standard error.
    total_variation : tuple of float
        ``(H^2, H sqrt(2 - H^2))``, between which lies the largest difference in
        probability of any event (Proposition 4).
    wasserstein_1, wasserstein_2 : float
        ``2 H^(1/l) (E_q |x - m|^(2l) + E_p |x - m|^(2l))^(1/2l)`` for l = 1 and 2, m
        the mean of q: at least the Wasserstein distances in the Euclidean metric
        (Proposition 5). The first bounds the distance between the means of p and q,
        the second the difference of their root mean squares about any point. They
        mean nothing where a component of q has no such moments.
    forward_kl : float
        ``KL(p || q)`` in nats, by importance weights.
    forward_kl_bound : float
        ``2 sqrt(2) H sqrt(1 + E_p[(1 + R)^2; R > 0])`` with ``R = ln(p / q)``
        (Proposition 6, with 2 sqrt(2) where it prints 2: under this H its lower bound
        of H by R, from which that of the divergence follows, lacks a factor sqrt(2),
        as any two Gaussians close to each other show).
    importance_error : float
        ``alpha = (n^(-1/4) + 2 sqrt(H))^2``: the expected absolute error of the mean
        of n weighted draws of any function f, in units of ``sqrt(E_p[f^2])``, when
        the normaliser of p is known (Proposition 7). See `exceedance` for when it is
        not.
    khat : float
        Pareto shape of the weights; above 0.7 the numbers here are not reliable.
    n : int
        Draws.

    References
    ----------
    Campbell & Li 2019, Universal Boosting Variational Inference, Propositions 4 to 8.
    """

    hellinger_squared: float
    hellinger_squared_se: float
    total_variation: tuple
    wasserstein_1: float
    wasserstein_2: float
    forward_kl: float
    forward_kl_bound: float
    importance_error: float
    khat: float
    n: int

    @property
    def hellinger(self):
        """Hellinger distance, the root of `hellinger_squared`."""
        return float(np.sqrt(self.hellinger_squared))

    def exceedance(self, t):
        """Probability, at most, that a self-normalised importance average errs by much.

        ``(1 + 4 sqrt(1 + t) / t) importance_error``, capped at one, that its error
        exceeds t (a positive float) times ``sqrt(E_p[f^2])`` (Proposition 7).
        """
        if not t > 0:
            raise ValueError(f"t must be positive; got {t!r}.")
        bound = (1.0 + 4.0 * np.sqrt(1.0 + t) / t) * self.importance_error
        return float(min(bound, 1.0))


def estimate_errors(draws, log_ratio, smoothed):
    """`ErrorEstimates` from draws of q: ``ln p - ln q`` there, raw and smoothed."""
    squared, squared_se = squared_hellinger(log_ratio)
    h = np.sqrt(squared)
    p = np.exp(smoothed.log_weights - smoothed.log_weights.max())
    p /= p.sum()
    distance = np.linalg.norm(draws - draws.mean(axis=0), axis=1)
    # R = ln(p / q) = ln(n w) at the draws.
    ratio = np.log(np.where(p > 0, p.size * p, 1.0))
    above = np.where(ratio > 0, (1.0 + ratio) ** 2, 0.0)
    return ErrorEstimates(
        hellinger_squared=squared,
        hellinger_squared_se=squared_se,
        total_variation=(squared, float(h * np.sqrt(2.0 - squared))),
        wasserstein_1=_wasserstein(1, h, distance, p),
        wasserstein_2=_wasserstein(2, h, distance, p),
        forward_kl=max(float(p @ ratio), 0.0),
        forward_kl_bound=float(2.0 * np.sqrt(2.0) * h * np.sqrt(1.0 + p @ above)),
        importance_error=float((len(draws) ** -0.25 + 2.0 * np.sqrt(h)) ** 2),
        khat=smoothed.khat,
        n=len(draws),
    )


def _wasserstein(order, h, distance, p):
    """The bound of Proposition 5; `p` weighs the draws towards the target."""
    power = distance ** (2 * order)
    return float(2.0 * h ** (1 / order) * (power.mean() + p @ power) ** (0.5 / order))


class BeyondWarp:
    """The mapped mixture itself: a density of the coordinates after the warp."""

    def __init__(self, mixture, warp):
        self._mixture, self._warp = mixture, warp

    def stratified_draws(self, n, rng):
        """Draws, their weights and their components, as of a mixture."""
        z, row_weights, source = self._mixture.stratified_draws(n, rng)
        return self._warp.forward(z), row_weights, source

    def log_density(self, y):
        """Log density at y (n, dim), nats."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = self._warp.inverse(y)
            value = self._mixture.log_density(z) - self._warp.log_jacobian(z)
        # Where z overflows there is no mass.
        return np.fmax(value, -np.inf)


def unwarped(posterior):
    """A posterior's density of unconstrained coordinates, and its constraints without a
    warp; None where nothing is constrained."""
    mixture, constraints = posterior._mixture.exact, posterior.constraints
    if constraints is None or constraints.warp is None:
        return mixture, constraints
    base = constraints.base
    return BeyondWarp(mixture, constraints.warp), None if base.trivial else base


# --- weights and corrections by a log joint that a user passes


class ImportanceWarning(UserWarning):
    """Importance weights have too heavy a tail to be trusted."""


class Evidence(NamedTuple):
    """Log evidence ``ln Z`` of a log joint density, from draws of q; nats.

    Attributes
    ----------
    elbo, elbo_se : float
        ``E_q[log joint - ln q]`` and its standard error. The ELBO itself is a lower
        bound of ln Z; this is its Monte Carlo estimate. -inf, with no standard
        error, where the log joint is -inf at a draw.
    log_evidence, log_evidence_se : float
        Importance-sampling estimate of ln Z and its standard error, which is inf
        where the weights say that it cannot be trusted. Draws of copies with heavy
        tails reach what q lacks around it (Hesterberg 1995; Owen & Zhou 2000); what is
        beyond, such as another mode, neither of the two knows.
    interval : tuple of float
        ``(low, high)``: the ELBO less its Monte Carlo error, and the estimate plus
        its own. `low` is below ln Z with at least the confidence asked for, as far as
        the error of the ELBO's average is normal, `high` above it where no mass is
        beyond the draws.
    khat : float
        Pareto shape of the weights: above 0.7 `log_evidence` is not reliable where a
        few draws carry them, and a small value is no proof that it is.
    """

    elbo: float
    elbo_se: float
    log_evidence: float
    log_evidence_se: float
    interval: tuple
    khat: float

    @classmethod
    def of(cls, log_ratio, value, se, khat, level):
        """Of ``log joint - ln q`` at draws of q, and an estimate of ln Z."""
        width = float(ndtri(0.5 * (1.0 + check_level(level))))
        elbo, elbo_se = mean_and_se(log_ratio)
        low = elbo if elbo == -float("inf") else elbo - width * elbo_se
        return cls(elbo, elbo_se, value, se, (low, value + width * se), khat)


@dataclass(frozen=True, eq=False)
class ImportanceSample:
    """Weighted draws that stand for the target, and how far to trust them.

    The target was evaluated once at each draw; `evidence`, `errors` and `resample`
    evaluate it no more.

    Attributes
    ----------
    draws : ndarray of shape (n, dim)
        From the mixture; after `resample` from the target, all weights equal.
    log_weights : ndarray of shape (n,)
        Pareto-smoothed log weights of `draws`; their exponentials sum to one.
    khat : float
        Pareto shape of the raw weights' tail. Above 0.7 neither the weights nor
        the evidence are reliable. A small value is no proof either: regions that
        the mixture never reaches do not show.
    effective_sample_size : float
        Kish's, of the smoothed weights of the draws that were evaluated.
    log_evidence, log_evidence_se : float
        Estimate of the target's log normaliser and its standard error, nats.
    log_ratio : ndarray of shape (n,) or None
        ``log joint - ln q`` at `draws`, nats: the raw log weights. None after
        `resample`, whose draws are no longer those of the mixture.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao & Gabry 2024, Pareto smoothed importance sampling.

    Examples
    --------
    >>> import autograd.numpy as np
    >>> from skboost import boost_posterior
    >>> def log_density(theta):
    ...     return np.sum(2 * theta - np.exp(theta), axis=1)
    >>> posterior = boost_posterior(log_density, 2, random_state=0).posterior
    >>> weighted = posterior.importance_weights(log_density, n=1000, random_state=0)
    >>> bool(abs(weighted.evidence().log_evidence) < 0.05)
    True
    """

    draws: np.ndarray
    log_weights: np.ndarray
    khat: float
    effective_sample_size: float
    log_evidence: float
    log_evidence_se: float
    log_ratio: np.ndarray | None = None

    @classmethod
    def of(cls, draws, log_q, log_joint):
        """Weigh `draws` (n, dim) of a mixture with log density `log_q` (n,), nats.

        `log_joint` maps (n, dim) to (n,), nats; a ValueError where it is NaN or +inf,
        or -inf at all draws.
        """
        log_ratio = evaluate_log_joint(log_joint, draws) - log_q
        smoothed, khat = psis(log_ratio)
        log_evidence, log_evidence_se = log_mean_weight(smoothed)
        return cls(
            draws=draws,
            log_weights=smoothed - logsumexp(smoothed),
            khat=khat,
            effective_sample_size=effective_sample_size(smoothed),
            log_evidence=log_evidence,
            log_evidence_se=log_evidence_se,
            log_ratio=log_ratio,
        )

    @property
    def weights(self):
        """Normalised weights, shape (n,)."""
        return np.exp(self.log_weights)

    def __repr__(self):
        return (
            f"ImportanceSample(n={len(self.draws)}, khat={self.khat:.2f}, "
            f"effective_sample_size={self.effective_sample_size:.0f}, log_evidence="
            f"{self.log_evidence:.4g} +- {self.log_evidence_se:.2g})"
        )

    def evidence(self, level=0.95):
        """Log evidence between a bound and an estimate: `Evidence`.

        The estimate is that of the mixture's own draws, smoothed, which tends to be
        low by the tails that the mixture lacks: its standard error does not know of
        them. That of ``posterior.evidence`` does.

        Parameters
        ----------
        level : float, default=0.95
            Confidence of either end of ``interval`` against Monte Carlo error.

        Raises
        ------
        ValueError
            If `level` is not between 0 and 1, or the draws are those of `resample`.
        """
        given = self.log_evidence, self.log_evidence_se, self.khat
        return Evidence.of(self._known_ratio("evidence"), *given, level)

    def errors(self):
        """`ErrorEstimates` of the mixture; a ValueError for draws of `resample`."""
        log_ratio = self._known_ratio("errors")
        return estimate_errors(self.draws, log_ratio, psis(log_ratio))

    def resample(self, n, rng):
        """`n` equally weighted draws, in random order, by `rng`, a generator of NumPy.

        Systematic resampling: a draw of weight w comes floor(n w) or ceil(n w) times.
        `khat`, effective sample size and log evidence stay those of this one.
        """
        cumulative = np.cumsum(self.weights)
        points = (np.arange(n) + rng.random()) / n * cumulative[-1]
        index = np.searchsorted(cumulative, points, side="right")
        index = np.minimum(index, len(cumulative) - 1)
        return replace(
            self,
            draws=self.draws[rng.permutation(index)],
            log_weights=np.full(n, -np.log(n)),
            log_ratio=None,
        )

    def _known_ratio(self, method):
        if self.log_ratio is None:
            raise ValueError(
                f"{method} needs the weighted draws of the mixture; got the equally "
                "weighted ones of resample. Ask the sample before it is resampled."
            )
        return self.log_ratio


def evaluate_log_joint(log_joint, theta):
    """Log joint of the draws, checked: -inf is legal, NaN and +inf are not."""
    # The function itself of a callable or an object with ``log_density``.
    function = getattr(log_joint, "log_density", log_joint)
    values = np.asarray(function(theta), dtype=float)
    if values.shape != (len(theta),):
        raise ValueError(
            f"log_joint must map shape {theta.shape} to ({len(theta)},); got "
            f"{values.shape}. Return one log density per row; a function of one point "
            "can be mapped: lambda theta: [f(row) for row in theta]."
        )
    bad = np.isnan(values) | (values == np.inf)
    if bad.any():
        first = np.flatnonzero(bad)[0]
        raise ValueError(
            f"log_joint must be finite or -inf; got {values[first]} at theta = "
            f"{theta[first]}. Return -inf where the density is zero."
        )
    return values


class LogJointTarget(Target):
    """A log joint that a user passes, as a target; it has values and no gradient."""

    def __init__(self, log_joint, dim):
        self._log_joint, self.dim = log_joint, dim

    def log_density(self, theta, strict=False):
        """Values, checked; see `evaluate_log_joint`."""
        return evaluate_log_joint(self._log_joint, theta)
