"""Importance sampling from a mixture, with Pareto-smoothed weights."""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from skboost.mixtures import effective_sample_size, log_mean_weight, psis

# Above this shape no practical number of draws gives a reliable estimate.
_MAX_KHAT = 0.7


class ImportanceWarning(UserWarning):
    """Importance weights have too heavy a tail to be trusted."""


@dataclass(frozen=True, eq=False)
class ImportanceSample:
    """Weighted draws that stand for the target, and how far to trust them.

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
    """

    draws: np.ndarray
    log_weights: np.ndarray
    khat: float
    effective_sample_size: float
    log_evidence: float
    log_evidence_se: float

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


def evaluate_log_joint(log_joint, theta):
    """Log joint of the draws, checked: -inf is legal, NaN and +inf are not.

    Parameters
    ----------
    log_joint : callable or object with ``log_density``
        Maps (n, dim) to (n,).
    theta : ndarray of shape (n, dim)
    """
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


def warn_heavy_tail(khat, stacklevel):
    """`ImportanceWarning` where the Pareto shape is above 0.7."""
    if khat > _MAX_KHAT:
        warnings.warn(
            f"The importance weights have a Pareto shape of {khat:.2f}, above "
            f"{_MAX_KHAT}: a few draws carry them, and what is computed from them is "
            "not reliable. Improve the approximation (max_iter, n_draws, a family with "
            "heavier tails) rather than raise n.",
            ImportanceWarning,
            stacklevel=stacklevel + 1,
        )


def importance_sample(draws, log_q, log_joint):
    """`ImportanceSample` of draws (n, dim) with log densities `log_q`, (n,)."""
    raw = evaluate_log_joint(log_joint, draws) - log_q
    smoothed, khat = psis(raw)
    log_evidence, log_evidence_se = log_mean_weight(smoothed)
    return ImportanceSample(
        draws=draws,
        log_weights=smoothed - logsumexp(smoothed),
        khat=khat,
        effective_sample_size=effective_sample_size(smoothed),
        log_evidence=log_evidence,
        log_evidence_se=log_evidence_se,
    )


def resample(weighted, n, rng):
    """`n` equally weighted rows of an `ImportanceSample`, in random order.

    Systematic resampling: a draw of weight w comes floor(n w) or ceil(n w) times.
    """
    ladder = np.cumsum(weighted.weights)
    ticks = (np.arange(n) + rng.random()) / n * ladder[-1]
    index = np.minimum(np.searchsorted(ladder, ticks, side="right"), len(ladder) - 1)
    return ImportanceSample(
        draws=weighted.draws[rng.permutation(index)],
        log_weights=np.full(n, -np.log(n)),
        khat=weighted.khat,
        effective_sample_size=weighted.effective_sample_size,
        log_evidence=weighted.log_evidence,
        log_evidence_se=weighted.log_evidence_se,
    )
