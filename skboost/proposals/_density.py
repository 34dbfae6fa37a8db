"""Components of a family, by search: where the density is, and at further modes."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skboost._budget import BudgetSpent
from skboost._random import PROBE, SEARCH, generator
from skboost._settings import MAX_CANDIDATES
from skboost.approximation import Mixture, kept_components
from skboost.families import Component
from skboost.modes import (
    MAX_HESSIAN_DIM,
    Box,
    Modes,
    ModeSearch,
    missed_modes,
    weighed,
)
from skboost.proposals._base import Proposer
from skboost.proposals._first import fitted_at, initial_mixture
from skboost.proposals._gaussian import add_columns_to_candidate, widest
from skboost.proposals._greedy import best_candidate
from skboost.proposals._improper import collapse_to_pole, drift_to_infinity
from skboost.targets import LogDensityError, shown_point, what_came

# Of the heaviest component's weight, below which one that was there is dropped.
_NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class FamilyProposer(Proposer):
    """Searches over a family, each component the best of its variants.

    They maximise the objective. The first are looked for from the starts, and from
    further ones drawn in the box. Starts (n_starts, dim) may `begin` as a function that
    finds them when they are asked for: fits in closed form have no use for them.
    """

    family: object
    objective: object
    begin: object
    box: Box | None = None

    @cached_property
    def starts(self):
        """Where searches begin, (n_starts, dim)."""
        return self.begin() if callable(self.begin) else self.begin

    def family_of(self, target):
        return self.family

    @property
    def kind(self):
        structure = "full" if self.family.full_covariance else "diagonal"
        structure = "low-rank" if self.family.low_rank else structure
        return f"{structure} {self.family.distribution or type(self.family).__name__}"

    @property
    def seeks_gain(self):
        return self.objective.seeks_gain

    def propose(self, target, context, settings):
        """The best component that starts of many kinds lead to."""
        family = self.family
        if family.rank_is_open:
            family = widest(family, context.mixture)
        found = best_candidate(context, self.objective, family, settings)
        if self.family.rank_is_open and family.low_rank:
            rng = generator(settings.seed, context.iteration, SEARCH, 1)
            found = add_columns_to_candidate(
                context, self.objective, found, settings, rng
            )
        return found.component

    def check_reached(self, target, fresh):
        if fresh.outside < 1.0:
            return
        what, why = what_came(target)
        raise LogDensityError(
            f"log_density {what} at all {len(fresh.theta)} draws of the first "
            "component, which was looked for from "
            f"x0={shown_point(target, self.starts)}.{why} Pass as x0 a point well "
            "inside the support, and parameters whose scale is near one; or "
            "constraints=."
        )


@dataclass(frozen=True)
class DensityProposer(FamilyProposer):
    """Searches near and far, and knows the modes that climbs lead to."""

    @property
    def _located(self):
        """The family of Laplace approximations at modes."""
        # Variants share their parameters' layout, and the last has the lightest tail.
        return self.family.variants()[-1].with_rank()

    def _mode_search(self, target, settings):
        where = self.starts, self.box
        return ModeSearch(target, self._located, *where, settings)

    def initial(self, target, settings):
        """Ordinary variational inference, at every mode that the starts lead to."""
        modes = Modes()
        with suppress(BudgetSpent):
            modes = self._mode_search(target, settings).from_starts()
        search = self._mode_search(target, settings)
        try:
            return initial_mixture(search, modes, self.family, settings), modes
        except BudgetSpent:
            # Not a single evaluation at the starts fitted in.
            params = self._located.from_moments(self.starts[0], np.ones(target.dim))
            return Mixture.single(Component(self._located, params)), modes

    def modes_not_searched(self, target):
        return target.dim > MAX_HESSIAN_DIM and not target.knows_curvature

    def find_modes(self, target, fresh, modes, settings, *key):
        """With components fitted at modes that the mixture seems to lack: what these
        gain is compared with the ELBO of the mixture."""
        modes = self._mode_search(target, settings).around(fresh, modes, *key)
        if not modes.components:
            return modes
        modes = weighed(target, modes, settings.seed)
        known = modes, fresh.mixture, fresh.elbo().value, settings.tol
        missed = missed_modes(*known, surely=False)
        known = dict(modes.weighed)
        new = [one.index for one in missed if not known[one.index].fitted]
        located = tuple(modes.components[k] for k in new)
        fits = fitted_at(target, self.family, located, settings)
        for k, fitted in zip(new, fits, strict=True):
            known[k] = known[k]._replace(fitted=fitted)
        return replace(modes, weighed=tuple(known.items()))

    def missed_modes(self, mixture, modes, log_evidence, settings):
        return missed_modes(modes, mixture, log_evidence, settings.tol)

    def with_missed(self, mixture, log_evidence, modes, settings):
        missed = self.missed_modes(mixture, modes, log_evidence, settings)
        fitted = [dict(modes.weighed)[one.index].fitted for one in missed]
        fitted = [fit for fit in fitted if fit]
        if not fitted:
            return mixture
        components, logs = zip(*fitted, strict=True)
        weights = np.append(mixture.weights, np.exp(np.array(logs) - log_evidence))
        most = np.max(logs) - log_evidence
        if most > 0.0:
            shares = np.exp(np.array(logs) - log_evidence - most)
            weights = np.append(mixture.weights * np.exp(-most), shares)
        # What has next to no mass would be moved in vain.
        weights[weights < _NEGLIGIBLE * weights.max()] = 0.0
        grown = Mixture((*mixture.components, *components), weights / weights.sum())
        return grown.keep(kept_components(grown.weights, settings.max_components))

    def located(self, modes):
        return modes.heaviest(MAX_CANDIDATES)

    def improper(self, target, mixture, settings, *key):
        rng = generator(settings.seed, PROBE, *key, 1)
        drift = drift_to_infinity(target, mixture, self.starts, rng)
        return drift or collapse_to_pole(target, mixture, rng)
