"""Looking for modes of the target: from the starts, and far around a mixture."""

from dataclasses import dataclass

import numpy as np

from skboost._random import SCOUT, generator
from skboost._settings import Settings
from skboost.modes._climb import climb_all
from skboost.modes._curvature import knows_curvature
from skboost.modes._modes import MAX_HESSIAN_DIM, Box, Modes, add_ends

# Climbs at once, and at most, from a box and around a mixture.
_BATCH, _MOST = {"box": 64, "around": 16}, {"box": 1024, "around": 256}
# Batches follow until that many times as many climbs were made as it took to find the
# last mode: so the rarest found was found about that often.
_PATIENCE = {"box": 8, "around": 4}
# Share of all evaluations that one search may take.
_SHARE = {"box": 0.5, "around": 0.0625}
# Evaluations of a climb, roughly.
_USUAL = 30
# Widths of far draws, in units of a component's own.
_FAR = (2.0, 50.0)
# First steps, in standard deviations of the starts, that leave no basin.
_FIRST_STEP = 0.07


def far_draws(mixture, n, rng):
    """Draws far around every component, at widths from two to fifty of its own.

    Where in between a mode lies is not known, so every order of magnitude gets as
    many; and components count alike, for light ones are as good a place to look from.

    Parameters
    ----------
    mixture : Mixture
    n : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n, dim)
    """
    widths = np.exp(rng.uniform(*np.log(_FAR), n))
    owner = rng.integers(mixture.n_components, size=n)
    theta = np.empty((n, mixture.dim))
    for k, (family, params) in enumerate(mixture.components):
        rows = np.flatnonzero(owner == k)
        if len(rows):
            base = family.base_draws(len(rows), mixture.dim, rng)
            centre = family.location(params)
            away = family.transport(params, base) - centre
            theta[rows] = centre + widths[rows, None] * away
    return theta


@dataclass(frozen=True)
class ModeSearch:
    """Looks for modes.

    Parameters
    ----------
    target : Target
        As searches see it.
    family : VariationalFamily
        Of the candidates: Laplace approximations at modes.
    starts : ndarray of shape (n_starts, dim)
    box : Box or None
        Where further starts are drawn.
    settings : Settings
        A search takes a share of ``max_evaluations``.
    """

    target: object
    family: object
    starts: np.ndarray
    box: Box | None
    settings: Settings

    @property
    def looks(self):
        """Whether the target can have modes to be looked for.

        A target that knows its curvature is a regression model, whose posterior has
        one mode, or close enough.
        """
        return not knows_curvature(self.target)

    @property
    def probes(self):
        """Whether modes around mixtures are looked for."""
        return self.looks and self.target.dim <= MAX_HESSIAN_DIM

    def from_starts(self):
        """Modes that the starts lead to; none are looked for from a single start."""
        if not self.looks or (self.box is None and len(self.starts) < 2):
            return Modes()
        if self.box is None:
            return self._climbed(Modes(), self.starts, np.ones(self.target.dim))
        rng = generator(self.settings.seed, SCOUT)

        def draw(n):
            return self.box.draw(n, rng)

        scale = _FIRST_STEP * draw(_BATCH["box"]).std(axis=0)
        return self._searched("box", draw, scale, Modes())

    def around(self, mixture, known, *key):
        """The known modes and those that far draws of a mixture lead to."""
        if not (self.probes and self.settings.search_modes):
            return known
        rng = generator(self.settings.seed, SCOUT, *key)
        scale = np.min([f.scale(p) for f, p in mixture.components], axis=0)
        if not known.params:
            # Its own modes are no news.
            centres = [f.location(p) for f, p in mixture.components]
            known = self._climbed(known, np.array(centres), scale)
        return self._searched(
            "around", lambda n: far_draws(mixture, n, rng), scale, known
        )

    def _searched(self, where, draw, scale, known):
        """Climb from ``draw(n)`` until few modes can be left."""
        share = _SHARE[where] * self.settings.max_evaluations
        batch = int(np.clip(share / _USUAL, 4, _BATCH[where]))
        modes, before, left, enough = known.reset_counts(), self._spent, share, batch
        budget = self.settings.budget
        while (
            modes.n_climbs < min(enough, _MOST[where])
            and left > 0
            and budget.spent is None
        ):
            modes = self._climbed(modes, draw(batch), scale, left)
            left = share - (self._spent - before)
            enough = max(batch, _PATIENCE[where] * modes.last)
        return modes

    @property
    def _spent(self):
        return getattr(self.target, "n_evaluations", 0)

    def _climbed(self, modes, starts, scale, max_evaluations=np.inf):
        ends = climb_all(
            self.target,
            starts,
            scale,
            max_evaluations,
            budget=self.settings.budget,
        )
        return add_ends(self.target, self.family, modes, ends)
