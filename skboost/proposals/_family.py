"""One more component of a family of densities on R^dim, by search."""

from dataclasses import dataclass

import numpy as np

from skboost._random import SEARCH, generator
from skboost.modes import Box
from skboost.proposals._base import Proposer
from skboost.proposals._gaussian import add_columns_to_candidate, widest
from skboost.proposals._greedy import best_candidate
from skboost.targets import LogDensityError, shown_point, what_came


@dataclass(frozen=True)
class FamilyProposer(Proposer):
    """Searches over a family, each component the best of its variants.

    They maximise the objective. The first are looked for from the starts, and from
    further ones drawn in the box.
    """

    family: object
    objective: object
    starts: np.ndarray
    box: Box | None = None

    def family_of(self, target):
        return self.family

    @property
    def kind(self):
        structure = "full" if self.family.full_covariance else "diagonal"
        structure = "low-rank" if self.family.low_rank else structure
        return f"{structure} {self.family.distribution or type(self.family).__name__}"

    @property
    def correlated(self):
        return self.family.full_covariance

    @property
    def seeks_gain(self):
        return self.objective.seeks_gain

    def n_moving(self, mixture):
        return len(mixture.components[0].params)

    def propose(self, target, context, settings):
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
