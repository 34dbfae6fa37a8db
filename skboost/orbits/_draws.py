"""Draws of every component with their orbits: what orbits gain, and what remains."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skboost._budget import BudgetSpent
from skboost._math import N_ERRORS, log_sum_exp, mean_and_se
from skboost.approximation import Estimate, Mixture, remaining_kl
from skboost.orbits._shift_groups import MAX_ORDER, ShiftGroups, log_ratios_of_all

# Every component has so many draws at least.
_LEAST = 16
# Images up to which a tail is followed that few images show.
_CLEAR = 8
# Share of what remains that the components carry whose orbits are doubled together.
_SHARE = 0.8
# Nats of one draw that count when it is decided whether orbits gain anything.
_MOST = 1.0


def log_mean(f):
    """``ln mean exp f`` of rows."""
    return log_sum_exp(f) - np.log(f.shape[1])


def shares_of(f):
    """Probabilities of images, (n, n_images); equal where there is mass at none."""
    nowhere = np.isneginf(f).all(axis=1, keepdims=True)
    f = np.where(nowhere, 0.0, f)
    return np.exp(f - log_sum_exp(f)[:, None])


@dataclass(frozen=True)
class Orbits:
    """Draws of a mixture, by components: whitened, and ``ln p - ln q`` at images."""

    mixture: Mixture
    groups: tuple
    z: tuple
    f: tuple
    # Nats that each component gained by its last doubling.
    last: np.ndarray

    @classmethod
    def of(cls, target, mixture, n, rng):
        """Draws of reflected components, `n` in proportion to weights."""
        groups = tuple(ShiftGroups.of(c, rng) for c in mixture.components)
        none = tuple(np.empty((0, mixture.dim)) for _ in groups)
        f = tuple(np.empty((0, 2)) for _ in groups)
        empty = cls(mixture, groups, none, f, np.zeros(len(groups)))
        return empty.with_more(target, n, rng)

    def with_more(self, target, n, rng):
        """These and more draws, `n` in all."""
        counts = np.maximum(np.ceil(self.mixture.weights * n).astype(int), _LEAST)
        lacking = np.maximum(counts - [len(z) for z in self.z], 0)
        new = self._new(lacking, rng)
        parts = [
            (group, z, 0, f.shape[1])
            for group, z, f in zip(self.groups, new, self.f, strict=True)
        ]
        at = log_ratios_of_all(target, self.mixture, parts)
        z, f = (
            tuple(map(np.concatenate, zip(*pair, strict=True)))
            for pair in ((self.z, new), (self.f, at))
        )
        return replace(self, z=z, f=f)

    def _new(self, counts, rng):
        """Whitened draws, by one sequence of points where all are full Gaussians."""
        components = self.mixture.components
        families, n = [one.family for one in components], np.maximum(counts, 1)
        if not all(f.exact_expectations and f.full_covariance for f in families):
            base = [
                one.base_draws(int(k), rng)
                for one, k in zip(components, n, strict=True)
            ]
        else:
            base = components[0].base_draws(int(n.sum()), rng)
            base = np.split(base, n.cumsum()[:-1])
        return [
            group.whiten(group.component.draws(part))[:count]
            for group, part, count in zip(self.groups, base, counts, strict=True)
        ]

    # --- what they say

    @property
    def orders(self):
        """Images of a draw of each component."""
        return np.array([f.shape[1] for f in self.f])

    @property
    def n_evaluations(self):
        return sum(f.size for f in self.f)

    @cached_property
    def row_weights(self):
        """Of all draws, one component after the other; they sum to one."""
        parts = zip(self.mixture.weights, self.z, strict=True)
        weights = np.concatenate([np.full(len(z), w / len(z)) for w, z in parts])
        return weights / weights.sum()

    @cached_property
    def values(self):
        """``ln mean exp f`` over the orbit of every draw."""
        return np.concatenate([log_mean(f) for f in self.f])

    def remaining(self):
        """What remains after reweighting, `RemainingKL`; of several components by
        the bound."""
        found = remaining_kl(self.values, self.row_weights)
        # A fit to the tail that has no mean says nothing: that of the weights has one.
        extra = max(found.smoothing, 0.0) if found.khat > 1.0 else 0.0
        smoothing = found.smoothing - extra
        return found._replace(value=found.value - extra, smoothing=smoothing)

    def error(self):
        """Of ``ln mean e^v - mean v`` on the same draws, where most of the noise of
        either cancels."""
        with np.errstate(invalid="ignore"):
            return mean_and_se(self._parts(), self.row_weights)[1]

    def _parts(self):
        """What every draw has of the remaining KL, none of them negative."""
        log_weights = np.log(self.row_weights)
        relative = self.values - log_sum_exp((self.values + log_weights)[None])[0]
        return np.exp(relative) - 1.0 - relative

    def undone(self):
        """Nats of the remaining KL by components."""
        parts = self.row_weights * self._parts()
        ends = np.cumsum([len(z) for z in self.z])[:-1]
        return np.array([part.sum() for part in np.split(parts, ends)])

    def gain(self, most=np.inf):
        """``sum_k alpha_k E[ln mean e^f - mean f]``: `Estimate`, with terms up to
        `most` a bound."""
        inside = np.concatenate([np.isfinite(f).mean(axis=1) for f in self.f])
        with np.errstate(invalid="ignore"):
            sums = [np.where(np.isfinite(f), f, 0.0).sum(axis=1) for f in self.f]
            means = np.concatenate(
                [
                    s / np.isfinite(f).sum(axis=1)
                    for s, f in zip(sums, self.f, strict=True)
                ]
            )
            values = np.minimum(self.values - means, most)
        value, se = mean_and_se(values, self.row_weights)
        # As the ELBO before: of the mixture restricted to where the density is.
        with np.errstate(divide="ignore"):
            return Estimate(value - float(np.log(self.row_weights @ inside)), se)

    def gains_more_than(self, nats):
        """Whether that much is gained beyond noise, whatever outliers say."""
        least = self.gain(most=_MOST)
        return least.value - N_ERRORS * least.se > nats

    # --- doubling

    def doubled(self, target, which):
        """These, with twice as many images of the components `which`, a mask."""
        f, last, which = list(self.f), self.last.copy(), np.flatnonzero(which)
        parts = [
            (self.groups[k], self.z[k], f[k].shape[1], 2 * f[k].shape[1]) for k in which
        ]
        found = log_ratios_of_all(target, self.mixture, parts)
        for k, new in zip(which, found, strict=True):
            more = np.concatenate([f[k], new], axis=1)
            with np.errstate(invalid="ignore"):
                gained = np.mean(log_mean(more) - log_mean(f[k]))
            last[k] = self.mixture.weights[k] * np.nan_to_num(gained, nan=np.inf)
            f[k] = more
        return replace(self, f=tuple(f), last=last)

    def doubled_until(self, target, tol, most=MAX_ORDER, at_once=False):
        """Orbits doubled where most remains, to less than `tol` nats or the order
        `most`."""
        orbits = self
        largest = np.array([min(one.max_order, most) for one in self.groups])
        with np.errstate(invalid="ignore"):
            while True:
                undone = np.maximum(orbits.undone(), orbits.last)
                free = orbits.orders < largest
                if undone.sum() < tol or not free.any():
                    return orbits
                which = free if at_once else _heaviest(undone, free)
                try:
                    orbits = orbits.doubled(target, which)
                except BudgetSpent:
                    return orbits


def _heaviest(undone, free):
    """Mask of the fewest components with most of what the free ones carry."""
    # A sum of the largest numbers would overflow.
    carried = np.where(free, np.nan_to_num(undone, posinf=1e300), -1.0)
    order = np.argsort(-carried, kind="stable")
    below = np.cumsum(carried[order]) < _SHARE * carried[free].sum()
    which = np.zeros_like(free)
    which[order[: below.sum() + 1]] = True
    return which & free


def remaining_after_orbits(
    target, mixture, is_enough, nats, most, rng, careful=False, n=256, bends=None
):
    """What would remain after `reweighted`, by few draws: `RemainingKL` and `Orbits`,
    or None.

    Orbits are doubled while at the last pace less than `nats` may remain in the end,
    and to `_CLEAR` images while ``bends(remaining)``. A `careful` error adds those of
    both terms.
    """
    orbits = pilot(target, mixture, n, rng)
    if orbits is None:
        return None
    while True:
        remaining = orbits.remaining()
        if not careful:
            remaining = remaining._replace(se=orbits.error())
        order = orbits.orders.max()
        n_left = np.log2(most / order)
        # Noise may say that the last one lost something: none does.
        hopeless = remaining.least - n_left * max(orbits.last.sum(), 0.0) > nats
        clear = bends is None or order >= _CLEAR or not bends(remaining)
        enough = is_enough(remaining) and clear
        if enough or n_left < 1 or (order > 2 and hopeless):
            return remaining, orbits
        doubled = orbits.doubled_until(target, 0.0, 2 * order, at_once=True)
        if doubled is orbits:
            return remaining, orbits
        orbits = doubled


def pilot(target, mixture, n, rng):
    """`Orbits` of few draws; None where a component has no images."""
    mixture = mixture.drop_zero_weights()
    if not all(component.family.symmetric for component in mixture.components):
        return None
    return Orbits.of(target, mixture, n, rng)
