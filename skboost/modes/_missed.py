"""What a mixture lacks, as far as climbs have seen, and how much mass is there."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skboost._math import N_ERRORS
from skboost._random import MODES, generator

# Draws around a mode by which its mass is estimated.
_N_DRAWS = 256
# A mode is outside if the mixture has less than that share of the mass around it.
_COVERED = np.log(0.1)


class WeighedMode(NamedTuple):
    """Draws of the Laplace approximation at a mode, and the log densities there.

    `mass` is the log of the mass by importance sampling, and `least` the same without
    what may be noise; nats. `fitted` has components of the family that were fitted at
    the mode, and their log masses by ELBO, once these are known.
    """

    theta: np.ndarray
    log_p: np.ndarray
    mass: float
    least: float
    fitted: tuple = ()

    @classmethod
    def of(cls, target, component, rng):
        """By draws around a mode, whose density there has to be like that beside it."""
        theta = component.sample(_N_DRAWS, rng)
        log_s = component.log_density(theta)
        centre = component.location()[None]
        *log_p, top = target.log_density(np.concatenate([theta, centre]))
        log_p = np.array(log_p)
        # Of a Gaussian half a nat for each coordinate; where the end of a climb is far
        # above all that is beside it, rounding is seen.
        with np.errstate(invalid="ignore"):
            above = top - np.median(log_p)
        if not above < 2.0 * theta.shape[1] + 5.0:
            return cls(theta, log_p, -np.inf, -np.inf)
        ratio = log_p - log_s
        most = ratio.max()
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.exp(ratio - most)
            least = share.mean() - N_ERRORS * share.std() / np.sqrt(_N_DRAWS)
            found = most + np.log([share.mean(), max(least, 0.0)])
        return cls(theta, log_p, *np.nan_to_num(found, nan=-np.inf, neginf=-np.inf))

    def excess(self, mixture):
        """By how much a mixture is above the log density around the mode, nats.

        At the median draw: of a heavy tail a few draws carry the mean.
        """
        inside = np.isfinite(self.log_p)
        log_q = mixture.log_density(self.theta[inside])
        return float(np.median(log_q - self.log_p[inside]))


class MissedMode(NamedTuple):
    """A mode that the mixture lacks, its number, and its share of the mass."""

    location: np.ndarray
    mass: float
    index: int


def weighed(target, modes, seed):
    """The modes with a `WeighedMode` for all that matter; each is weighed once."""
    known = dict(modes.weighed)
    for k in np.flatnonzero(modes.matter):
        if k not in known:
            rng = generator(seed, MODES, int(k), 1, 1)
            known[int(k)] = WeighedMode.of(target, modes.components[k], rng)
    return replace(modes, weighed=tuple(known.items()))


def missed_modes(modes, mixture, log_evidence, tol, surely=True):
    """Modes outside a mixture, heaviest first; what is left out holds at most ``tol``.

    The lightest are left out as long as all of them together have no more than that
    share of the mass.
    `log_evidence` is that of the part of the posterior that the mixture reaches, nats.
    A Laplace approximation holds little of a heavy tail: what it says of one mode is
    compared with what it says of those that the mixture has. Where a component was
    fitted at a mode, its ELBO is compared with the evidence. `surely` leaves out what
    may be noise of few draws.
    """
    known = [(k, one) for k, one in modes.weighed if np.isfinite(one.mass)]
    if not known or not np.isfinite(log_evidence):
        return []
    mass = np.array([one.mass for _, one in known])
    laplace = np.array([modes.mass[k] for k, _ in known])
    claim = np.array([one.least if surely else one.mass for _, one in known])
    there = log_evidence + np.array([one.excess(mixture) for _, one in known])
    # Heavy tails have more mass farther out, also around the modes that are covered;
    # below that none is.
    lowest = -2.0 * mixture.dim
    level = min(0.0, there.max()) if there.max() > lowest else 0.0
    covered = there >= level + _COVERED
    reached = log_evidence
    if covered.any():
        reached = min(reached, np.logaddexp.reduce(mass[covered]))
        if not surely:
            # Draws may hold next to nothing of one mode and much of another.
            lead = laplace - np.logaddexp.reduce(laplace[covered])
            claim = np.maximum(claim, reached + lead)
    for i, (_, one) in enumerate(known):
        if one.fitted:
            claim[i] = one.fitted[1] - log_evidence + reached
    outside = np.where(covered, -np.inf, claim)
    # What a few draws say of one mode by mistake dismisses no other.
    others = np.logaddexp.reduce(outside) if surely else outside
    share = np.exp(outside - np.logaddexp(reached, others))
    # A mixture without a share of the mass has KL(q || p) as large as that.
    order = np.argsort(share, kind="stable")
    missed = order[np.cumsum(share[order]) > tol][::-1]
    found = [(known[i][0], float(share[i])) for i in missed]
    return [MissedMode(modes.components[k].location(), mass, k) for k, mass in found]
