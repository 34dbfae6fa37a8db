"""Skewing weights after a fit: what they gain, and whether they are worth keeping."""

from dataclasses import dataclass

import numpy as np

from skboost._math import N_ERRORS, log_sum_exp, mean_and_se
from skboost.approximation import (
    Estimate,
    SkewedMixture,
    Skewing,
    image_excess,
    parts_of,
    remaining_kl,
    shares_of,
)

# Draws by which it is decided, and in all: with 4,096 of them means are known to a
# hundredth of a standard deviation.
_N_PILOT, _N_DRAWS = 256, 4096
# Every component has so many at least.
_LEAST = 64
# Nats of the images of one draw that count when it is decided.
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
        Images of draws, each with its reflection, behind it.
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


def skew(target, mixture, tol, rng, pilot=None):
    """A mixture with its skewing weights, where they gain more than `tol`.

    Pozza, Durante and Szabo 2024; see `SkewedMixture`. The gain is at least
    ``sum_k alpha_k E_{s_k}[ln mean exp f - mean f]`` over images, estimated by a pilot
    first.

    Returns the mixture that came where skewing was declined, a `SkewReport`, and what
    remains after it, None where it was declined. `pilot` is the mixture's `skew_pilot`.
    """
    orbits = pilot or skew_pilot(target, mixture, rng)
    if orbits is None:
        return mixture, SkewReport(reason="its components are not symmetric."), None
    mixture = orbits.mixture
    least = orbits.least()
    if least.value - N_ERRORS * least.se > tol:
        more = Orbits.of(target, mixture, _N_DRAWS - _N_PILOT, rng)
        orbits = orbits.and_more(more)
    elif np.isfinite(least.value):
        reason = f"it gains no more than {tol:g} nats beyond its noise."
        return mixture, SkewReport(*orbits.gain(), orbits.n, reason), None
    gain = orbits.gain()
    if not np.isfinite(gain.value):
        reason = "the density is zero at draws of the posterior."
        return mixture, SkewReport(n_pairs=orbits.n, reason=reason), None
    parts = mixture.components, mixture.weights, orbits.skewings(), target
    return SkewedMixture(*parts), SkewReport(*gain, orbits.n), orbits.remaining()


def skew_pilot(target, mixture, rng):
    """Few draws by which `skew` decides: `Orbits`; None where none are symmetric."""
    mixture = mixture.drop_zero_weights()
    if not all(component.family.symmetric for component in mixture.components):
        return None
    return Orbits.of(target, mixture, _N_PILOT, rng)


def remaining_after_skewing(target, mixture, rng):
    """What would remain after `skew`, by a pilot: `RemainingKL`, or None.

    Its standard error is that of ``ln mean e^v - mean v`` on the same draws, where most
    of the noise of either cancels.
    """
    orbits = skew_pilot(target, mixture, rng)
    if orbits is None:
        return None
    value = np.concatenate([_log_mean(f) for f in orbits.f])
    relative = len(value) * np.exp(value - log_sum_exp(value[None])[0])
    with np.errstate(invalid="ignore"):
        se = mean_and_se(relative - value)[1]
    return orbits.remaining()._replace(se=se)


@dataclass(frozen=True)
class Orbits:
    """Draws of every component by their parts, and ``ln p - ln q`` at their images."""

    mixture: object
    parts: list
    f: list

    @classmethod
    def of(cls, target, mixture, n, rng):
        counts = np.maximum(np.ceil(mixture.weights * n).astype(int), _LEAST)
        parts, f = [], []
        for component, count in zip(mixture.components, counts, strict=True):
            centre = component.location()
            offsets = component.sample(int(count), rng) - centre
            parts.append(parts_of(component, offsets))
            f.append(image_excess(target, mixture, centre, parts[-1]))
        return cls(mixture, parts, f)

    @property
    def n(self):
        return sum(f.size // 2 for f in self.f)

    def and_more(self, more):
        """These draws and others."""
        parts = zip(self.parts, more.parts, strict=True)
        f = zip(self.f, more.f, strict=True)
        return Orbits(
            self.mixture,
            [np.concatenate(pair, axis=1) for pair in parts],
            [np.concatenate(pair) for pair in f],
        )

    def remaining(self):
        """What importance sampling sees beyond the ELBO of the skewed mixture.

        All images of a draw have one and the same ``ln p - ln q~`` for a single
        component, ``ln mean e^f``; for several the bound has it.
        """
        return remaining_kl(np.concatenate([_log_mean(f) for f in self.f]))

    def least(self):
        """A lower bound of the gain that outliers do not raise: `Estimate`."""
        return self.gain(most=_MOST)

    def gain(self, most=np.inf):
        """``sum_k alpha_k E[ln mean e^f - mean f]`` and its standard error, nats.

        No term is negative, so that with terms of at most `most` it is a lower bound,
        which heavy tails leave alone.
        """
        with np.errstate(invalid="ignore"):
            values = [np.minimum(_log_mean(f) - f.mean(axis=1), most) for f in self.f]
            weights, means = self.mixture.weights, np.array([v.mean() for v in values])
            errors = np.array([v.std(ddof=1) / np.sqrt(len(v)) for v in values])
        return Estimate(float(weights @ means), float(np.sqrt(weights**2 @ errors**2)))

    def skewings(self):
        """What a posterior keeps of them."""
        scales, weights = self.mixture.component_scales(), self.mixture.weights
        # Draws that a posterior keeps, to draw from where it has lost its target and
        # for ends of intervals: for each dimension (in many, weights vary more), at
        # least and at most.
        n_kept = np.clip(64 * self.mixture.dim, 1024, 2048)
        n_kept = np.maximum((weights * n_kept).astype(int), _LEAST)
        return tuple(
            Skewing.of(component, parts, shares_of(f), scale, n)
            for component, parts, f, scale, n in zip(
                self.mixture.components, self.parts, self.f, scales, n_kept, strict=True
            )
        )


def _log_mean(f):
    return log_sum_exp(f) - np.log(f.shape[1])
