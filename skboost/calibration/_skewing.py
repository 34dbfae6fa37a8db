"""Skewing weights after a fit: what they gain, and whether they are worth keeping."""

from dataclasses import dataclass

import numpy as np

from skboost._math import N_ERRORS
from skboost.approximation import (
    Estimate,
    SkewedMixture,
    Skewing,
    pair_excess,
    remaining_kl,
)

# Pairs by which it is decided, and in all: with 4,096 of them means are known to a
# hundredth of a standard deviation.
_N_PILOT, _N_PAIRS = 512, 4096
# Pairs that a posterior keeps, to draw from where it has lost its target.
_N_KEPT = 1024
# Every component has so many at least.
_LEAST = 64
# Nats of one pair that count when it is decided.
_MOST = 1.0


@dataclass(frozen=True)
class SkewReport:
    """What skewing the components of a posterior did, or why it did nothing.

    Attributes
    ----------
    gain, gain_se : float
        ELBO after less ELBO before, nats, from draws that nothing was fitted to, and
        its standard error. With several components a lower bound of the gain. NaN
        where nothing was measured.
    n_pairs : int
        Draws, each with its reflection, behind it.
    reason : str
        Why it was declined; empty where it was applied.
    """

    gain: float = float("nan")
    gain_se: float = float("nan")
    n_pairs: int = 0
    reason: str = ""

    @property
    def applied(self):
        """Whether the posterior is the skewed one."""
        return not self.reason


def skew(target, mixture, tol, rng):
    """A mixture with its skewing weights, where they gain more than `tol`.

    Pozza, Durante and Szabo 2024; see `SkewedMixture`. The gain is at least
    ``sum_k alpha_k E_{s_k}[ln cosh o_k]``, estimated by a pilot first.

    Parameters
    ----------
    target : Target
    mixture : Mixture
    tol : float
        Nats.
    rng : numpy.random.Generator

    Returns
    -------
    mixture : Mixture or SkewedMixture
        The one that came, where skewing was declined.
    SkewReport
    remaining : RemainingKL or None
        What remains after it; None where it was declined.

    Raises
    ------
    BudgetSpent
        Where the target is watched by a budget that ends.
    """
    mixture = mixture.drop_zero_weights()
    if not _is_symmetric(mixture):
        return mixture, SkewReport(reason="its components are not symmetric."), None
    tolerant = target.tolerant()
    pairs = _Pairs.of(tolerant, mixture, _N_PILOT, rng)
    least = pairs.gain(most=_MOST)
    if least.value - N_ERRORS * least.se > tol:
        more = _Pairs.of(tolerant, mixture, _N_PAIRS - _N_PILOT, rng)
        pairs = pairs.and_more(more)
    elif np.isfinite(least.value):
        reason = f"it gains no more than {tol:g} nats beyond its noise."
        return mixture, SkewReport(*pairs.gain(), pairs.n, reason), None
    gain = pairs.gain()
    if not np.isfinite(gain.value):
        reason = "the density is zero at draws of the posterior."
        return mixture, SkewReport(n_pairs=pairs.n, reason=reason), None
    parts = mixture.components, mixture.weights, pairs.skewings(), tolerant
    return SkewedMixture(*parts), SkewReport(*gain, pairs.n), pairs.remaining()


def remaining_after_skewing(target, mixture, rng):
    """What would remain after `skew`, by a pilot: `RemainingKL`, or None."""
    mixture = mixture.drop_zero_weights()
    if not _is_symmetric(mixture):
        return None
    return _Pairs.of(target.tolerant(), mixture, _N_PILOT, rng).remaining()


def _is_symmetric(mixture):
    return all(family.symmetric for family, _ in mixture.components)


@dataclass(frozen=True)
class _Pairs:
    """Draws of every component, and ``f = ln p - ln q`` on both sides of its centre."""

    mixture: object
    offsets: list
    here: list
    there: list

    @classmethod
    def of(cls, target, mixture, n, rng):
        counts = np.maximum(np.ceil(mixture.weights * n).astype(int), _LEAST)
        offsets, here, there = [], [], []
        for (family, params), count in zip(mixture.components, counts, strict=True):
            eps = family.base_draws(int(count), mixture.dim, rng)
            centre = family.location(params)
            offsets.append(family.transport(params, eps) - centre)
            pair = pair_excess(target, mixture, centre, offsets[-1])
            here.append(pair[0])
            there.append(pair[1])
        return cls(mixture, offsets, here, there)

    @property
    def n(self):
        return sum(len(f) for f in self.here)

    @property
    def odd(self):
        """Odd parts of f, nats; nan where there is mass on neither side."""
        with np.errstate(invalid="ignore"):
            pairs = zip(self.here, self.there, strict=True)
            return [0.5 * (here - there) for here, there in pairs]

    def and_more(self, more):
        """These pairs and others."""

        def both(name):
            pairs = zip(getattr(self, name), getattr(more, name), strict=True)
            return [np.concatenate(pair) for pair in pairs]

        return _Pairs(self.mixture, both("offsets"), both("here"), both("there"))

    def remaining(self):
        """What importance sampling sees beyond the ELBO of the skewed mixture.

        A draw and its reflection have one and the same ``ln p - ln q~`` for a single
        component, ``ln (e^f(here) + e^f(there)) / 2``; for several the bound has it.
        """
        f = np.logaddexp(np.concatenate(self.here), np.concatenate(self.there))
        return remaining_kl(f, np.full(len(f), np.log(2.0)))

    def gain(self, most=np.inf):
        """``sum_k alpha_k E ln cosh o_k`` and its standard error, nats.

        No term is negative, so that with terms of at most `most` it is a lower bound,
        which heavy tails leave alone.
        """
        # ln cosh o without overflow.
        size = [np.abs(odd) for odd in self.odd]
        values = [s + np.log1p(np.exp(-2.0 * s)) - np.log(2.0) for s in size]
        values = [np.minimum(v, most) for v in values]
        weights = self.mixture.weights
        means = np.array([v.mean() for v in values])
        with np.errstate(invalid="ignore"):
            errors = np.array([v.std(ddof=1) / np.sqrt(len(v)) for v in values])
        return Estimate(float(weights @ means), float(np.sqrt(weights**2 @ errors**2)))

    def skewings(self):
        """What a posterior keeps of them."""
        scales, weights = self.mixture.component_scales(), self.mixture.weights
        n_kept = np.maximum((weights * _N_KEPT).astype(int), _LEAST)
        return tuple(
            Skewing.of(offsets, np.tanh(odd), scale, n)
            for offsets, odd, scale, n in zip(
                self.offsets, self.odd, scales, n_kept, strict=True
            )
        )
