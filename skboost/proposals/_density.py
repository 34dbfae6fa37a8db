"""Components where the density is: from starts, around mixtures, at further modes."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from skboost._budget import BudgetSpent
from skboost._random import PROBE, generator
from skboost._settings import MAX_CANDIDATES
from skboost.approximation import Mixture
from skboost.families import Component
from skboost.modes import MAX_HESSIAN_DIM, Modes, ModeSearch, missed_modes
from skboost.proposals._family import FamilyProposer
from skboost.proposals._first import initial_mixture
from skboost.proposals._improper import collapse_to_pole, drift_to_infinity


@dataclass(frozen=True)
class DensityProposer(FamilyProposer):
    """Searches near and far, and knows the modes that climbs lead to."""

    @property
    def _located(self):
        """The family of Laplace approximations at modes."""
        # Variants share their parameters' layout, and the last has the lightest tail.
        return self.family.variants()[-1].with_rank()

    def _mode_search(self, target, settings):
        return ModeSearch(target, self._located, self.starts, self.box, settings)

    def initial(self, target, settings):
        """Ordinary variational inference, at every mode that the starts lead to."""
        modes = Modes()
        with suppress(BudgetSpent):
            modes = self._mode_search(target, settings).from_starts()
        return self.at_modes(target, modes, settings), modes

    def at_modes(self, target, modes, settings):
        """Ordinary variational inference at known modes; else from the starts."""
        search = self._mode_search(target, settings)
        try:
            return initial_mixture(search, modes, self.family, settings)
        except BudgetSpent:
            # Not a single evaluation at the starts fitted in.
            params = self._located.from_moments(self.starts[0], np.ones(target.dim))
            return Mixture.single(Component(self._located, params))

    def modes_not_searched(self, target):
        return target.dim > MAX_HESSIAN_DIM and not target.knows_curvature

    def find_modes(self, target, fresh, modes, settings, *key):
        return self._mode_search(target, settings).around(fresh, modes, *key)

    def missed_modes(self, target, mixture, modes, log_evidence, settings, *key):
        search = self._mode_search(target, settings)
        return missed_modes(search, mixture, modes, log_evidence, *key)

    def located(self, modes):
        return modes.heaviest(MAX_CANDIDATES)

    def improper(self, target, mixture, settings, *key):
        rng = generator(settings.seed, PROBE, *key, 1)
        drift = drift_to_infinity(target, mixture, self.starts, rng)
        return drift or collapse_to_pole(target, mixture, rng)
