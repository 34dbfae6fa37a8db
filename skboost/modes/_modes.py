"""Modes of the target: climbs from many points, told apart and counted."""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from skboost._budget import BudgetSpent
from skboost._random import MODES, generator
from skboost._settings import Settings
from skboost._solver import climb
from skboost.approximation import noise_at
from skboost.families import Component
from skboost.modes._climb import climb_all
from skboost.modes._curvature import MAX_HESSIAN_DIM, laplace_approximation

# Two ends are one mode within that many standard deviations of its Laplace
# approximation, or where the density dips by less than that many nats between them.
_SAME, _DIP = 0.25, 0.02
# First steps of climbs from starts, in standard deviations of the narrowest component.
_SHORT = 1e-2
# Nats that a Newton step from the end of a climb may gain at most: climbs that end at a
# mode leave a hundredth of it. Others go on, so many times: a bowl needs one or two.
_RESTLESS, _MOST_CLIMBS = 1e-3, 3
# Share of the heaviest mode's mass below which another does not matter.
_LIGHTEST = 1e-5
# Nats above what is usual, from where heights may be noise.
_FAR_ABOVE = 10.0
# Climbs of a search, at least, where several modes are known.
_IF_SEVERAL = 128
# Climbs that begin together at most.
_MOST_AT_ONCE = 64
# Draws of which each climb begins at one, also where several modes are known; and modes
# that a draw is held against.
_DRAWN_EACH, _DRAWN_IF_SEVERAL, _NEAREST = 16, 512, 3


@dataclass(frozen=True)
class Modes:
    """Modes that climbs have led to: a Laplace approximation at each.

    Their log masses are those of Laplace's method, nats; -inf where the density beside
    a climb's end does not confirm it. The last search made `n_climbs`, those included
    that ended nowhere, and as many as `last` until it had found the last mode that
    matters. `counts` are climbs of all searches by the mode where they ended, `total`
    is their number, and `weighed` has a `WeighedMode` for every mode that was weighed.
    """

    components: tuple = ()
    mass: tuple = ()
    n_climbs: int = 0
    last: int = 0
    counts: tuple = ()
    total: int = 0
    weighed: tuple = ()

    @property
    def matter(self):
        """Which modes carry mass, as far as Laplace's method knows; unbounded spikes
        do not."""
        return self._heavier(_LIGHTEST)

    def _heavier(self, share):
        """Which modes have more than a share of the heaviest mode's mass."""
        mass = np.array(self.mass)
        return mass > mass.max(initial=-np.inf) + np.log(share)

    @property
    def several(self):
        """Whether a second mode has mass that matters beside the heaviest, and is no
        bump."""
        # Below a hundredth of the mass another mode is none for a mixture.
        return bool(self._heavier(0.01).sum() > 1)

    @property
    def rare(self):
        """Which of several modes that matter a single climb of all led to.

        Of the climbs still to be made about as large a share would lead to modes that
        none has led to (Good 1953).
        """
        # Optima of conjugate models are not counted.
        if not (self.several and self.counts):
            return np.zeros(len(self.components), dtype=bool)
        return (np.array(self.counts) < 2) & self._heavier(0.01)

    @property
    def n_rare(self):
        """How many of them there are."""
        return int(self.rare.sum())

    def heaviest(self, n):
        """Laplace approximations at the modes that matter, at most `n`."""
        order = np.argsort(-np.array(self.mass), kind="stable")[:n]
        return tuple(self.components[k] for k in order if self.matter[k])


@dataclass(frozen=True)
class Box:
    """Where starts are drawn: uniformly between two ends on the user's scale.

    `place` maps points (n, dim) of the box to unconstrained coordinates (n, n_free).
    """

    low: np.ndarray
    high: np.ndarray
    place: object

    def draw(self, n, rng):
        """Unconstrained points of shape (n, n_free)."""
        return self.place(
            self.low + (self.high - self.low) * rng.random((n, len(self.low)))
        )


def add_ends(target, family, modes, ends):
    """The modes with those of further climbs."""
    assignment = _ModeAssignment(target, family, ends, modes)
    owner, n_climbs = assignment.owner, modes.n_climbs + len(ends.points)
    found, mass = tuple(assignment.components), tuple(assignment.mass)
    counts = np.bincount(owner[owner >= 0], minlength=len(found))
    counts[: len(modes.counts)] += np.array(modes.counts, dtype=int)
    grown = replace(
        modes,
        components=found,
        mass=mass,
        n_climbs=n_climbs,
        counts=tuple(counts.tolist()),
        total=modes.total + len(ends.points),
    )
    new = grown.matter & (np.arange(len(found)) >= len(modes.components))
    rows = np.flatnonzero(np.isin(owner, np.flatnonzero(new)))
    if not len(rows):
        return grown
    first = np.unique(owner[rows], return_index=True)[1]
    return replace(grown, last=modes.n_climbs + 1 + int(rows[first].max()))


class _ModeAssignment:
    """Ends of climbs shared out among modes, the highest first."""

    def __init__(self, target, family, ends, known):
        self.target, self.family, self.ends = target, family, ends
        self.components, self.mass = list(known.components), list(known.mass)
        self.owner = np.full(len(ends.points), -1)
        self.open = ends.settled & np.isfinite(ends.heights)
        self.usual = self._usual_height()
        for k in range(len(self.components)):
            self._claim(k)
        # The highest first, so that a budget that ends leaves out the others.
        with suppress(BudgetSpent):
            for i in np.argsort(-ends.heights, kind="stable"):
                if self.open[i]:
                    self._settle(i)

    def _usual_height(self):
        """That of the highest known mode, or else of half of the ends."""
        known = zip(self.components, self.mass, strict=True)
        heights = [mass - mode.entropy() for mode, mass in known if mass > -np.inf]
        ends = self.ends.heights[self.open]
        return max(heights) if heights else np.median(ends) if len(ends) else 0.0

    def _settle(self, i):
        point, height = self.ends.points[i], self.ends.heights[i]
        k = self._known(point)
        if k is None:
            component, mass = self._laplace(point, height)
            lightest = max(self.mass, default=-np.inf) + np.log(_LIGHTEST)
            for _ in range(_MOST_CLIMBS):
                if not mass > lightest:
                    break
                further, top = self._climbed_on(component, point)
                if not top > height + _RESTLESS:
                    # At rest, or at a kink.
                    break
                point, height = further, top
                k = self._known(point)
                if k is not None:
                    break
                component, mass = self._laplace(point, height)
            else:
                # A ridge that still rises has its mode elsewhere.
                mass = -np.inf
        if k is None:
            k = len(self.components)
            self.components.append(component)
            self.mass.append(mass)
            self._claim(k)
        self.owner[i], self.open[i] = k, False

    def _known(self, point):
        """The mode that is nearest, where the density says that it is the same."""
        distance = [component.distance(point[None]) for component in self.components]
        if not distance:
            return None
        k = int(np.argmin(distance))
        return k if self._connected(point, self.components[k]) else None

    def _laplace(self, point, height):
        params, confirmed = laplace_approximation(self.target, self.family, point)
        component = Component(self.family, params)
        if confirmed and height > self.usual + _FAR_ABOVE:
            draws = component.sample(4, np.random.default_rng(0))
            confirmed = noise_at(self.target, draws, component) is None
        return component, height + component.entropy() if confirmed else -np.inf

    def _promised(self, component, point, z=0.0):
        """Nats that a Newton step would gain, the log density, and its whitened slope
        at `z` standard deviations from a point."""
        whitening = component.whitening()
        theta = point + whitening.lift(z + np.zeros((1, len(point))))
        value, score = self.target.value_and_score(theta)
        slope = whitening.pull(score)[0]
        return 0.5 * (slope @ slope), value[0], slope

    def _climbed_on(self, component, point):
        """Where a climb leads that is not at rest by the curvature at its end.

        Along a narrow ridge that bends quasi-Newton steps get short long before the
        mode; in units of what the curvature says they are long again.
        """
        gain, height, _ = self._promised(component, point)
        if not gain > _RESTLESS:
            return point, height
        z, top = climb(
            lambda z: self._promised(component, point, z)[1:],
            np.zeros(len(point)),
            {"maxiter": 200, "gtol": np.sqrt(_RESTLESS / len(point))},
            natural=True,
            budget=self.target.ledger.budget,
        )
        return point + component.whitening().lift(z[None])[0], top

    def _claim(self, k):
        distance = self.components[k].distance(self.ends.points)
        near = self.open & (distance < _SAME)
        self.owner[near], self.open[near] = k, False

    def _connected(self, a, component):
        """Whether the density hardly dips on the way from a point to a mode."""
        n_between, b = 9, component.location()
        way = np.linspace(0.0, 1.0, n_between + 2)[:, None]
        heights = self.target.log_density(a + way * (b - a))
        return heights.min() > min(heights[0], heights[-1]) - _DIP


# --- looking for them, from the starts and far around a mixture


def far_draws(mixture, modes, n, rng):
    """Draws far around every component, at widths of every order of magnitude.

    One in four has a component's correlations, at two to fifty widths. The others have
    none, at two to three thousand: where each mode is narrow in directions of its
    own, the first stay in one basin. Light components count as much as heavy ones, for
    they are as good a place to look from. Where several modes are known, every other
    draw is in a box twice as wide as they lie.
    """
    owner = rng.integers(mixture.n_components, size=n)
    order, u = np.arange(n), rng.random(n)
    correlated = order % 4 == 0
    widest = np.where(correlated, 50.0, 3000.0)
    widths = 2.0 * (widest / 2.0) ** u
    noise = rng.standard_normal((n, mixture.dim))
    theta = np.empty((n, mixture.dim))
    for k, component in enumerate(mixture.components):
        centre = component.location()
        rows = owner == k
        theta[rows] = centre + (widths[:, None] * component.scale() * noise)[rows]
        rows &= correlated
        if rows.any():
            away = component.sample(int(rows.sum()), rng) - centre
            theta[rows] = centre + widths[rows, None] * away
    if modes.several:
        heavy = modes.heaviest(None)
        places = np.array([mode.location() for mode in heavy])
        scales = np.array([mode.scale() for mode in heavy])
        reach = places.std(axis=0)
        # Two modes may lie apart in a few coordinates, and a third in others.
        each = np.sqrt(np.mean((reach / scales) ** 2, axis=1))[:, None] * scales
        k, middle = rng.integers(len(heavy), size=n), (order % 8) % 3 == 1
        wide = 0.5 * np.where(middle, 8.0, 16.0) ** u
        around = places[k]
        # The next is likely about as far from their middle as they are.
        around[middle] = places.mean(axis=0)
        around += wide[:, None] * np.maximum(reach, each[k]) * noise
        rows = middle | (order % 2 == 1)
        theta[rows] = around[rows]
    return theta


def promising(target, modes, points, n):
    """Those `n` of some draws from which climbs may lead to modes that are not known.

    At draws around a known mode the whitened score points to it, and one evaluation
    shows as much as a climb of a hundred. A quarter are the first, since modes that
    bend look like others; one is kept for each mode that a single climb led to, so that
    it is led to again; the score at the rest points least to any of the modes nearest.
    """
    known = np.flatnonzero(modes.matter)
    if not len(known) or len(points) <= n:
        return points[:n]
    _, score = target.value_and_score(points)
    agreement, distance = np.empty((2, len(points), len(known)))
    with np.errstate(all="ignore"):
        for j, k in enumerate(known):
            whitening = modes.components[k].whitening()
            z = whitening.whiten(points - modes.components[k].location())
            slope = whitening.pull(score)
            distance[:, j] = (z**2).sum(axis=1)
            size = np.sqrt(distance[:, j] * (slope**2).sum(axis=1))
            agreement[:, j] = -(z * slope).sum(axis=1) / size
    # Where the density is zero, no climb begins.
    agreement = np.nan_to_num(agreement, nan=2.0)
    near = np.argsort(distance, axis=1, kind="stable")[:, :_NEAREST]
    most = np.take_along_axis(agreement, near, axis=1).max(axis=1)
    again = agreement[:, modes.rare[known]].argmax(axis=0)[: n // 4]
    order = np.argsort(most, kind="stable")
    rows = np.concatenate([np.arange(n // 4), again, order])
    return points[rows[np.sort(np.unique(rows, return_index=True)[1])][:n]]


@dataclass(frozen=True)
class ModeSearch:
    """Looks for modes, with Laplace approximations, for a share of
    ``max_evaluations``."""

    target: object
    family: object
    starts: np.ndarray
    box: Box | None
    settings: Settings

    def from_starts(self):
        """Modes that the starts lead to; none are looked for from a single start.

        Nor where the target knows its curvature: it is a regression model, whose
        posterior has one mode, or close enough.
        """
        one_start = self.box is None and len(self.starts) < 2
        if self.target.knows_curvature or one_start:
            return Modes()
        if self.box is None:
            return self._climbed(Modes(), self.starts, np.ones(self.target.dim))
        rng = generator(self.settings.seed, MODES)

        def draw(n, modes=None):
            return self.box.draw(n, rng)

        batch = 64
        # First steps, in standard deviations of the starts, that leave no basin.
        scale = 0.07 * draw(batch).std(axis=0)
        return self._searched(draw, scale, Modes(), batch, 1024, 8, 0.5)

    def around(self, fresh, known, *key):
        """The known modes and those that draws of a mixture, near and far, lead to."""
        mixture, target = fresh.mixture, self.target
        may_have_several = not target.knows_curvature and target.dim <= MAX_HESSIAN_DIM
        if not (may_have_several and self.settings.search_modes):
            return known
        rng = generator(self.settings.seed, MODES, *key)
        scale = mixture.component_scales().min(axis=0)
        if not known.components:
            # Its own modes are no news. A mode at a start may be narrower than any
            # component, and searches from there leave it: it is a candidate, too.
            begun = mixture.component_locations(), self.starts
            for points, reach in zip(begun, (scale, _SHORT * scale), strict=True):
                known = self._climbed(known, points, reach)
        # Draws that a mixture underrates most, from which climbs begin: in 4 to 32
        # dimensions they lead to a narrow shoulder with a tenth of the mass, which
        # climbs from far miss.
        n_odd = 4
        odd = fresh.underrated(n_odd)
        if len(odd):
            known = self._climbed(known, odd, scale)

        def draw(n, modes):
            return far_draws(mixture, modes, n, rng)

        # Sixteen climbs cost 1 % of the evaluations of a fit.
        return self._searched(draw, scale, known, 16, 512, 4, 0.0625)

    def _searched(self, draw, scale, known, batch, most, patience, share):
        """Climb from ``draw(n, modes)`` until few modes can be left.

        So many climbs at once, and at most, for a share of all evaluations that a run
        may take. Batches follow until `patience` times as many climbs were made as it
        took to find the last mode: the rarest found was then found about that often.
        """
        budget = self.target.ledger.budget
        share = share * budget.whole.max_evaluations
        # A climb takes some thirty evaluations.
        batch = int(np.clip(share / 30, 4, batch))
        modes = replace(known, n_climbs=0, last=0)
        before, unspent, wanted = self.target.n_evaluations, share, batch
        while modes.n_climbs < min(wanted, most) and unspent > 0 and not budget.cuts():
            try:
                # Climbs that are needed in any case go together.
                most_now = batch if modes.several else _MOST_AT_ONCE
                n = int(np.clip(wanted - modes.n_climbs, batch, most_now))
                # In few dimensions a few draws reach everywhere.
                wide = min(_DRAWN_IF_SEVERAL, max(_DRAWN_EACH, 8 * self.target.dim**2))
                each = wide if modes.several else _DRAWN_EACH
                drawn = draw(int(min(each * n, n + 0.25 * unspent)), modes)
                starts = promising(self.target, modes, drawn, n)
                modes = self._climbed(modes, starts, scale, unspent)
            except BudgetSpent:
                break
            unspent = share - (self.target.n_evaluations - before)
            wanted = max(batch, patience * modes.last)
            if modes.several:
                # Where there are several, another is likely.
                wanted = max(_IF_SEVERAL, 2 * modes.last)
        return modes

    def _climbed(self, modes, starts, scale, max_evaluations=np.inf):
        def arrived(points):
            near = [c.distance(points) < _SAME for c in modes.components[:8]]
            return np.any([np.zeros(len(points), dtype=bool), *near], axis=0)

        ends = climb_all(self.target, starts, scale, max_evaluations, arrived)
        return add_ends(self.target, self.family, modes, ends)
