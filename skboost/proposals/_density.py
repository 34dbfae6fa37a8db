"""Components of a family of densities on R^dim, by search."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skboost._random import PROBE, SEARCH, generator
from skboost.modes import (
    MAX_HESSIAN_DIM,
    Box,
    ModeSearch,
    knows_curvature,
    missed_modes,
)
from skboost.proposals._base import Proposer
from skboost.proposals._greedy import best_candidate
from skboost.proposals._initial import initial_mixture
from skboost.proposals._low_rank import add_columns_to_candidate, widest
from skboost.proposals._propriety import (
    check_reached,
    collapse_to_pole,
    drift_to_infinity,
)
from skboost.targets import failure_tolerant


@dataclass(frozen=True)
class DensityProposer(Proposer):
    """Searches over a family of densities, from starts near and far.

    Parameters
    ----------
    target : Target
        Unnormalised log posterior.
    family : VariationalFamily
        Of every component; each takes the best of its variants.
    objective : Objective
        What a new component maximises.
    starts : ndarray of shape (n_starts, dim)
        Where the first components are looked for.
    box : Box or None
        In which further starts are drawn.
    """

    target: object
    family: object
    objective: object
    starts: np.ndarray
    box: Box | None = None

    @cached_property
    def _tolerant(self):
        """The target as searches see it: they step back from where it fails."""
        return failure_tolerant(self.target)

    def mode_search(self, settings):
        """Looks for modes, from the starts and around mixtures."""
        # Variants share their parameters' layout, and the last has the lightest tail.
        family = self.family.variants()[-1].with_rank()
        return ModeSearch(self._tolerant, family, self.starts, self.box, settings)

    @property
    def modes_not_searched(self):
        large = self.target.dim > MAX_HESSIAN_DIM
        return large and not knows_curvature(self.target)

    @property
    def kind(self):
        structure = "full" if self.family.full_covariance else "diagonal"
        structure = "low-rank" if self.family.low_rank else structure
        return f"{structure} {type(self.family).__name__}"

    @property
    def seeks_gain(self):
        return self.objective.seeks_gain

    def initial(self, settings):
        """Ordinary variational inference, at every mode that the starts lead to."""
        modes = self.mode_search(settings).from_starts()
        return self.at_modes(modes, settings), modes

    def at_modes(self, modes, settings):
        """Ordinary variational inference at known modes; else from the starts."""
        search = self.mode_search(settings)
        return initial_mixture(search, modes, self.family, settings)

    def propose(self, context, settings):
        """The best component that starts of many kinds lead to."""
        family = self.family
        if family.rank_is_open:
            family = widest(family, context.mixture)
        found = best_candidate(context, self.objective, family, settings)
        if self.family.rank_is_open:
            rng = generator(settings.seed, context.iteration, SEARCH, 1)
            found = add_columns_to_candidate(
                context, self.objective, found, settings, rng
            )
        return found.family, found.params

    def find_modes(self, mixture, modes, settings, *key):
        return self.mode_search(settings).around(mixture, modes, *key)

    def n_moving(self, mixture):
        return len(mixture.components[0][1])

    def missed_modes(self, mixture, modes, log_evidence, settings, *key):
        search = self.mode_search(settings)
        return missed_modes(search, mixture, modes, log_evidence, *key)

    def check_reached(self, fresh):
        check_reached(self.target, fresh, self.starts)

    def improper(self, mixture, settings, *key):
        rng = generator(settings.seed, PROBE, *key, 1)
        return drift_to_infinity(
            self._tolerant, mixture, self.starts, rng
        ) or collapse_to_pole(self._tolerant, mixture, rng)
