"""Finite groups of maps that leave a component as it is, and images of points by them.

A component is whitened, and its coordinates are mapped to the unit cube, where it is
uniform. There a group of order 2 R consists of shifts by multiples of ``steps / R``,
modulo one, with odd integers ``steps``, and of reflections about the centre. The groups
of orders 2, 4, 8, ... contain each other.
"""

from typing import NamedTuple

import numpy as np

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
        shifts, half = (
            _shifts(end // 2)[begin // 2 :],
            np.empty((len(z), 0, z.shape[1])),
        )
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
