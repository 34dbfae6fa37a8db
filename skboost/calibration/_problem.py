"""What a correction is given, and what draws of the mixture say before it begins."""

from dataclasses import dataclass

import numpy as np

from skboost._random import CALIBRATE, generator
from skboost.approximation import RemainingKL, effective_sample_size, psis, remaining_kl

# Draws by which a correction is chosen.
_N_PILOT = 1024


@dataclass(frozen=True)
class Problem:
    """A mixture and the target that it stands for.

    Attributes
    ----------
    target : Target
        Of which failures are points of zero density.
    mixture : Mixture
    exact : bool
        Whether closed Gaussian expectations are used where components are Gaussian.
    seed : int
    max_components : int or None
        Of the corrected mixture.
    budget : Budget or None
        That binds between evaluations, too.
    """

    target: object
    mixture: object
    exact: bool
    seed: int
    max_components: int | None = None
    budget: object = None

    @property
    def light_tails(self):
        """Whether Student-t components would leave results without a mean."""
        return getattr(self.target, "light_tails", False)

    def check_budget(self):
        """Raise `BudgetSpent` where nothing is left."""
        if self.budget is not None:
            self.budget.check()

    def rng(self, *key):
        """Generator of one of the streams of a correction."""
        return generator(self.seed, CALIBRATE, *key)

    def exact_for(self, mixture):
        """Whether a mixture's expectations are closed: it may have other families."""
        return self.exact and mixture.gaussian

    def pilot(self):
        """A first look: `Pilot`."""
        theta = self.mixture.sample(_N_PILOT, self.rng(0))
        log_joint = self.target.log_density(theta)
        log_q = self.mixture.log_density(theta)
        remaining = remaining_kl(log_joint, log_q)
        if not np.isfinite(remaining.value):
            return Pilot(remaining, 0.0)
        log_ratio = psis(log_joint - log_q).log_weights
        return Pilot(remaining, effective_sample_size(log_ratio))


@dataclass(frozen=True)
class Pilot:
    """What draws of a mixture say of the target.

    Attributes
    ----------
    remaining : RemainingKL
    effective_sample_size : float
        Of their importance weights.
    """

    remaining: RemainingKL
    effective_sample_size: float

    @property
    def kl(self):
        """Nats that are left, by what the draws see."""
        return max(self.remaining.value, 0.0)
