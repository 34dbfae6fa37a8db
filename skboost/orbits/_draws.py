"""Groups of shifts, and draws with their orbits: what these gain, what remains."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skboost._budget import BudgetSpent
from skboost._math import N_ERRORS, log_sum_exp, mean_and_se
from skboost.approximation import Estimate, Mixture, remaining_kl
from skboost.families import Component

MAX_ORDER = 1024
# So far from zero and one are coordinates in the cube at least: a component's centre,
# shifted by a half, would be infinitely far away.
_EDGE = 1e-16
# Numbers in the images that are made together.
_AT_ONCE = 1 << 20


class ShiftGroups(NamedTuple):
    """The groups of one component; `steps` (dim,) are odd integers."""

    component: Component
    steps: np.ndarray

    @classmethod
    def of(cls, component, rng):
        """With random steps: below 512, so that all shifts of 1,024 images differ."""
        return cls(component, 2 * rng.integers(256, size=component.dim) + 1)

    @property
    def max_order(self):
        """The largest group that leaves the component as it is; one without any."""
        family = self.component.family
        if family.maps_to_cube:
            return MAX_ORDER
        return 2 if family.symmetric else 1

    def whiten(self, theta):
        """Points (n, dim) from the centre, in coordinates of unit spread."""
        component = self.component
        return component.whitening().whiten(theta - component.location())

    def place(self, z):
        """The points of whitened ones (..., dim)."""
        flat = z.reshape(-1, z.shape[-1])
        theta = self.component.whitening().lift(flat) + self.component.location()
        return theta.reshape(z.shape)

    def images(self, z, begin, end):
        """Images `begin` to `end` of points, (n, n_images, dim): itself, its
        reflection, ..."""
        shifts, half = _shifts(end // 2)[begin // 2 :], z[:, None][:, :0]
        if begin == 0:
            shifts, half = shifts[1:], z[:, None]
        if len(shifts):
            family = self.component.family
            turns = np.outer(shifts, self.steps)
            u = (family.uniform(z)[:, None] + turns) % 1.0
            shifted = family.from_uniform(np.clip(u, _EDGE, 1.0 - _EDGE))
            half = np.concatenate([half, shifted], axis=1)
        return np.stack([half, -half], axis=2).reshape(len(z), end - begin, z.shape[1])

    def image(self, z, which):
        """Of every whitened point (n, dim) one image, by its number among `images`."""
        turn, moved = which // 2, z.copy()
        some = turn > 0
        if some.any():
            family, shifts = self.component.family, _shifts(1 + int(turn.max()))
            u = family.uniform(z[some]) + np.outer(shifts[turn[some]], self.steps)
            u = np.clip(u % 1.0, _EDGE, 1.0 - _EDGE)
            moved[some] = family.from_uniform(u[:, None])[:, 0]
        return np.where(which % 2, -1.0, 1.0)[:, None] * moved


def _shifts(n):
    """Multiples of 1 / n below one: those of 1 / (n / 2) come first."""
    shifts = np.zeros(1)
    while len(shifts) < n:
        shifts = np.concatenate([shifts, shifts + 0.5 / len(shifts)])
    return shifts


def orbits_at(target, mixture, group, z, begin, end):
    """Slices of whitened points, images `begin` to `end` and ``ln p - ln q`` there."""
    size = max(1, _AT_ONCE // ((end - begin) * z.shape[1]))
    for first in range(0, len(z), size):
        rows = slice(first, min(first + size, len(z)))
        images = group.place(group.images(z[rows], begin, end))
        f = _ratios(target, mixture, images.reshape(-1, z.shape[1]))
        yield rows, images, f.reshape(images.shape[:2])


def log_ratios_of_all(target, mixture, parts):
    """`log_ratios` of several groups with points and images, at once where they are
    few."""
    sizes = [len(z) * (end - begin) for _, z, begin, end in parts]
    if not 0 < sum(sizes) * mixture.dim <= _AT_ONCE:
        return [log_ratios(target, mixture, *part) for part in parts]
    theta = [
        group.place(group.images(z, begin, end)).reshape(-1, mixture.dim)
        for group, z, begin, end in parts
    ]
    f = np.split(_ratios(target, mixture, np.concatenate(theta)), np.cumsum(sizes))
    shapes = [(len(z), end - begin) for _, z, begin, end in parts]
    return [one.reshape(shape) for one, shape in zip(f[:-1], shapes, strict=True)]


def _ratios(target, mixture, theta):
    # Images lie up to eight standard deviations out, where a density may overflow.
    with np.errstate(all="ignore"):
        f = target.log_density(theta) - mixture.log_density(theta)
    # Where neither has mass.
    return np.nan_to_num(f, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def log_ratios(target, mixture, group, z, begin, end):
    """``ln p - ln q`` at images `begin` to `end` of whitened points, (n, n_images)."""
    f = np.empty((len(z), end - begin))
    for rows, _, ratios in orbits_at(target, mixture, group, z, begin, end):
        f[rows] = ratios
    return f


# --- draws with their orbits


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
