"""A mixture whose components are reweighted over orbits.

A finite group of maps leaves a component s_k as it is: every point has S images, its
orbit, that are alike under s_k. The target is not. With ``f = ln p - ln q``

    q~(theta) = sum_k alpha_k s_k(theta) S exp(f(theta)) / sum_orbit exp(f)

is a normalised density whatever the evidence is: a draw of s_k goes to one of its
images with the probability that is its share of ``exp(f)``. It holds that

    KL(q~ || p) <= ln Z - sum_k alpha_k E_{s_k}[ln mean_orbit exp f] <= KL(q || p),

with equality on the left for one component, so that nothing can be lost; and the middle
falls as S doubles, where each group contains the one before. Two images, a point and
its reflection, are skew-symmetric: Pozza, Durante and Szabo 2024.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from skboost._math import log_sum_exp, log_weights
from skboost._pickles import reconstruction
from skboost.approximation import Mixture
from skboost.orbits._draws import (
    ShiftGroups,
    log_mean,
    log_ratios,
    orbits_at,
    shares_of,
)

# Of coordinates in units of a component's scale, and the last score that is a number.
_KNOTS = np.linspace(-3.0, 3.0, 13)
_LAST = 8.0
# Of what it was, the mass between two knots at least.
_LEAST = 0.02


class ScoreMaps(NamedTuple):
    """Monotone cubic interpolation by knots (dim, n_knots) (Fritsch and Carlson
    1980)."""

    before: np.ndarray
    after: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, component, group, images):
        """From whitened images of draws and the masses that are added to each."""
        dim, centre, scale = component.dim, component.location(), component.scale()
        index = np.repeat(np.arange(dim), len(_KNOTS))
        at = (centre[:, None] + scale[:, None] * _KNOTS).ravel()
        cdf = component.marginal_cdf(index, at).reshape(dim, -1)
        added = np.zeros((dim, len(_KNOTS) + 1))
        for z, mass in images:
            u = (group.place(z) - centre) / scale
            bins = np.clip(np.ceil((u - _KNOTS[0]) / 0.5), 0, len(_KNOTS)).astype(int)
            for i in range(dim):
                added[i] += np.bincount(bins[:, i], mass, len(_KNOTS) + 1)
        mass = np.diff(cdf, axis=1, prepend=0.0, append=1.0)
        new = np.maximum(mass + added, _LEAST * mass)
        new /= new.sum(axis=1, keepdims=True)
        before, after = ndtri(cdf), _scores(new)
        return cls(before, after, _slopes(before, after))

    def at(self, component, index, x):
        """Scores of coordinates after, their slopes, and the scores before."""
        x = np.asarray(x, dtype=float)
        index = np.broadcast_to(index, x.shape)
        a = np.clip(_score(component, index, x), -_LAST, _LAST)
        tables = [table[index] for table in self]
        b = np.clip((a[:, None] > tables[0]).sum(axis=1) - 1, 0, len(_KNOTS) - 2)
        ends = [[t[np.arange(len(a)), b + k] for t in tables] for k in (0, 1)]
        (x0, y0, slope0), (x1, y1, slope1) = ends
        width, rise = x1 - x0, y1 - y0
        t = np.clip((a - x0) / width, 0.0, 1.0)
        p, q = width * slope0, width * slope1
        square, cube = 3.0 * rise - 2.0 * p - q, p + q - 2.0 * rise
        slope = (p + t * (2.0 * square + 3.0 * t * cube)) / width
        value = y0 + t * (p + t * (square + t * cube))
        return value + slope * (a - x0 - t * width), slope, a


def _score(component, index, x):
    """Normal scores; of the nearer end, where they keep their digits."""
    centre = component.location()[index]
    below = component.marginal_cdf(index, centre - np.abs(x - centre))
    return np.where(x < centre, 1.0, -1.0) * ndtri(below)


def _scores(mass):
    """Normal scores at the ends of bins."""
    below, above = mass.cumsum(axis=1), mass[:, ::-1].cumsum(axis=1)[:, ::-1]
    low = below[:, :-1]
    return np.where(low < 0.5, ndtri(np.minimum(low, 0.5)), -ndtri(above[:, 1:]))


def _slopes(x, y):
    """At knots: harmonic means of those beside them, so that nothing turns."""
    secant = np.diff(y, axis=1) / np.diff(x, axis=1)
    width = np.diff(x, axis=1)
    first, second = 2 * width[:, 1:] + width[:, :-1], width[:, 1:] + 2 * width[:, :-1]
    inner = (first + second) / (first / secant[:, :-1] + second / secant[:, 1:])
    return np.concatenate([secant[:, :1], inner, secant[:, -1:]], axis=1)


# --- the mixture


# The largest number of half precision.
_FARTHEST = float(np.finfo(np.float16).max)
# Draws whose images are held at once, times images.
_AT_ONCE = 1 << 16
# How much of a draw is that of the known one which it is made of: the rest is new, so
# that no draw comes twice.
_KEPT = 0.99


class KnownOrbits(NamedTuple):
    """What is known of the orbits of one component without the target."""

    # Of the group, (dim,).
    steps: np.ndarray
    # Draws (n, dim), whitened: there half precision is three digits, in any units.
    whitened: np.ndarray
    # Of the images of these draws, (n, order).
    shares: np.ndarray

    @classmethod
    def of(cls, group, z, f):
        z = np.clip(z, -_FARTHEST, _FARTHEST).astype(np.float16)
        return cls(group.steps, z, shares_of(f).astype(np.float32))


@dataclass(frozen=True, eq=False)
class OrbitMixture(Mixture):
    """A mixture whose components are reweighted over orbits; see the module."""

    # `KnownOrbits`, one for each component.
    orbits: tuple = ()
    # With None there are draws, made of known ones, moments and marginals, but no
    # density.
    target: object = None
    # Whether draws are new ones; `exact` says when.
    anew: bool = False

    orbiting = True

    def __reduce__(self):
        # Without a target that holds the data: a pickle must not carry them.
        carried = self.target is not None and self.target.portable
        parts = self.components, self.weights, self.orbits
        return reconstruction(type(self), *parts, self.target if carried else None)

    @classmethod
    def of(cls, orbits, target):
        """From `Orbits` of draws."""
        known = map(KnownOrbits.of, orbits.groups, orbits.z, orbits.f)
        mixture = orbits.mixture
        return cls(mixture.components, mixture.weights, tuple(known), target)

    @cached_property
    def base(self):
        return Mixture(self.components, self.weights)

    @cached_property
    def groups(self):
        """The groups of the components."""
        pairs = zip(self.components, self.orbits, strict=True)
        return [ShiftGroups(c, known.steps.astype(int)) for c, known in pairs]

    @property
    def parts(self):
        """The components, reweighted."""
        return tuple(OrbitPart(self, k) for k in range(self.n_components))

    @property
    def orders(self):
        """Images of a point under each component."""
        return tuple(known.shares.shape[1] for known in self.orbits)

    @property
    def exact(self):
        """The same with draws whose density is exactly `log_density`: each takes one
        evaluation of the target at every image."""
        return replace(self, anew=True)

    def log_density(self, theta):
        """``ln q~(theta)``, (n,), nats, for one evaluation of the
        target at every image under every component."""
        if self.target is None:
            raise ValueError(
                "This posterior is reweighted by the log joint density, which it has "
                "not kept: pickles and files hold no data. Give it one, as with "
                "posterior.with_log_joint(log_joint), where log_joint is your log "
                "density, or estimator.make_log_joint(X, y) of an estimator."
            )
        theta = np.asarray(theta, dtype=float)
        parts = [part.log_density(theta) for part in self.parts]
        return log_sum_exp(np.column_stack(parts), log_weights(self.weights))

    def change(self, k, theta):
        """What reweighting adds to the log density of a component, (n,), nats."""
        group, order = self.groups[k], self.orders[k]
        f = log_ratios(self.target, self.base, group, group.whiten(theta), 0, order)
        mean = log_mean(f)
        # Nothing has changed where there is mass at no image.
        return np.where(np.isneginf(mean), 0.0, f[:, 0] - mean)

    # --- draws

    def _draw(self, counts, rng):
        drawn = [np.empty((0, self.dim))]
        for k, count in enumerate(counts):
            if count:
                drawn.append(self.drawn_of(k, int(count), rng))
        return np.concatenate(drawn)

    def drawn_of(self, k, n, rng):
        """Draws of a component, each moved to an image; but for `exact` no target is
        asked."""
        group, known = self.groups[k], self.orbits[k]
        z = group.whiten(group.component.sample(n, rng))
        order, level = known.shares.shape[1], rng.random((n, 1))
        if self.anew:
            drawn = np.empty_like(z)
            parts = self.target, self.base, group, z, 0, order
            for rows, images, f in orbits_at(*parts):
                drawn[rows] = _chosen(images, shares_of(f), level[rows])
            return drawn
        index = rng.integers(len(known.shares), size=n)
        which = _which(known.shares.astype(float), level, index)
        near = group.image(known.whitened[index].astype(float), which)
        return group.place(_KEPT * near + np.sqrt(1.0 - _KEPT**2) * z)

    def _images(self, k, n=None):
        """Whitened images of known draws of a component, (m, dim), and what reweighting
        adds to the mass 1 / m of each (m,); a block at a time."""
        group, known = self.groups[k], self.orbits[k]
        n, order = len(known.shares[:n]), known.shares.shape[1]
        for begin in range(0, n, size := max(1, _AT_ONCE // order)):
            rows = slice(begin, min(begin + size, n))
            images = group.images(known.whitened[rows].astype(float), 0, order)
            added = (known.shares[rows].astype(float) - 1.0 / order) / n
            yield images.reshape(-1, self.dim), added.ravel()

    def known_images(self, n_images):
        """Some `n_images` images of known draws, (m, dim), and what reweighting adds to
        their masses (m,)."""
        theta, added = [], []
        for k, (weight, order) in enumerate(
            zip(self.weights, self.orders, strict=True)
        ):
            n = max(int(weight * n_images / order), 16)
            for images, mass in self._images(k, n):
                theta.append(self.groups[k].place(images))
                added.append(weight * mass)
        return np.concatenate(theta), np.concatenate(added)

    def weighted_images(self):
        """All images of known draws, (m, dim), and their masses (m,)."""
        theta, masses = [], []
        for k, (weight, known) in enumerate(
            zip(self.weights, self.orbits, strict=True)
        ):
            for images, added in self._images(k):
                theta.append(self.groups[k].place(images))
                masses.append(weight * (added + 1.0 / known.shares.size))
        return np.concatenate(theta), np.concatenate(masses)

    # --- marginals

    @cached_property
    def _maps(self):
        """Of the normal scores of every component's marginals."""
        return [
            ScoreMaps.of(component, group, self._images(k))
            for k, (component, group) in enumerate(
                zip(self.components, self.groups, strict=True)
            )
        ]

    def marginal_log_density(self, k, index, x):
        """Log density of coordinates under a component, nats."""
        score, slope, before = self._maps[k].at(self.components[k], index, x)
        value = super().marginal_log_density(k, index, x)
        return value + 0.5 * (before**2 - score**2) + np.log(slope)

    def marginal_cdf(self, k, index, x):
        """Distribution function of coordinates under a component."""
        return ndtr(self._maps[k].at(self.components[k], index, x)[0])

    # --- moments

    @cached_property
    def added(self):
        """What is added to the means of components, (K, dim), and to their second
        moments about their centres."""
        means, squares = np.zeros((2, self.n_components, self.dim))
        for k, group in enumerate(self.groups):
            centre = self.components[k].location()
            for images, mass in self._images(k):
                theta = group.place(images) - centre
                means[k] += mass @ theta
                squares[k] += mass @ theta**2
        return means, squares

    def mean(self):
        """Mean, shape (dim,)."""
        return self.base.mean() + self.weights @ self.added[0]

    def covariance(self):
        """Covariance, shape (dim, dim)."""
        turned = sum(w * self.turned(k) for k, w in enumerate(self.weights))
        moved, cross = self._moved()
        change = turned + cross + cross.T - np.outer(moved, moved)
        return self.base.covariance() + change

    def turned(self, k):
        """What is added to second moments of a component about its centre."""
        whitening, out = self.components[k].whitening(), 0.0
        for images, mass in self._images(k):
            theta = whitening.lift(images)
            out = out + (mass[:, None] * theta).T @ theta
        return out

    def std(self):
        """Standard deviations, shape (dim,)."""
        moved, _ = self._moved()
        apart = self.component_means() - self.base.mean()
        change = self.weights @ (self.added[1] + 2.0 * self.added[0] * apart)
        return np.sqrt(self.base.std() ** 2 + change - moved**2)

    def _moved(self):
        """By how much the mean moves, and what that adds to the covariance between."""
        shifts = self.added[0]
        apart = self.component_means() - self.base.mean()
        return self.weights @ shifts, (self.weights[:, None] * shifts).T @ apart


@dataclass(frozen=True, eq=False)
class OrbitPart:
    """One component of an `OrbitMixture`, reweighted; it has methods of `Component`."""

    mixture: OrbitMixture
    k: int

    @property
    def dim(self):
        """Coordinates."""
        return self.mixture.dim

    @property
    def component(self):
        """The component as it is, without orbits."""
        return self.mixture.components[self.k]

    def log_density(self, theta):
        """Log density at (n, dim), nats."""
        return self.component.log_density(theta) + self.mixture.change(self.k, theta)

    def sample(self, n, rng):
        """Draws, (n, dim)."""
        return self.mixture.drawn_of(self.k, n, rng)

    def mean(self):
        """Mean, (dim,)."""
        return self.component.location() + self.mixture.added[0][self.k]

    def moments(self):
        """Mean and covariance matrix."""
        moved, covariance = self.mixture.added[0][self.k], self.component.moments()[1]
        turned = covariance + self.mixture.turned(self.k)
        return self.mean(), turned - np.outer(moved, moved)

    def std(self):
        """Standard deviations, (dim,)."""
        moved, squares = (part[self.k] for part in self.mixture.added)
        return np.sqrt(self.component.std() ** 2 + squares - moved**2)

    def scale(self):
        """Lengths of the component without orbits, (dim,)."""
        return self.component.scale()

    def marginal_cdf(self, i, x):
        """Distribution function of coordinates `i` at `x` (n,)."""
        return self.mixture.marginal_cdf(self.k, i, x)

    def marginal_log_density(self, i, x):
        """Log density of coordinates `i` at `x` (n,), nats."""
        return self.mixture.marginal_log_density(self.k, i, x)


def _chosen(images, shares, level):
    """One image of each draw, by the shares of its images and a uniform number."""
    return images[np.arange(len(images)), _which(shares, level)]


def _which(shares, level, index=slice(None)):
    """Numbers of the images whose part of the shares a uniform number falls in."""
    ends = shares.cumsum(axis=1)[:, :-1]
    return (ends[index] < level).sum(axis=1)
