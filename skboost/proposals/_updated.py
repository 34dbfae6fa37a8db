"""The mixture that an update begins with, where the prior is a mixture itself."""

from dataclasses import dataclass

import numpy as np

from skboost._solver import SMALLEST_TOL
from skboost.approximation import Mixture, kept_components
from skboost.families import Component
from skboost.modes import Modes
from skboost.objectives import SingleELBO
from skboost.proposals._density import DensityProposer
from skboost.proposals._gaussian import natural_gaussian

# Of the probability of all components, below which one is left out: rows of the update
# move scales little, and components cost by their number in every later step.
_LIGHTEST = 1e-2


@dataclass(frozen=True)
class UpdateProposer(DensityProposer):
    """Begins with a Gaussian for every component of the prior.

    The posterior under ``sum_k w_k p_k`` is ``sum_k w_k Z_k p(. | k)``: so many
    ordinary problems, and each one's ELBO stands for ``ln Z_k``.
    """

    @staticmethod
    def serves(target, family):
        """Whether each has a Gaussian that needs no draws, under a likelihood with one
        mode: others, such as those of noise, take longer by it and are no better."""
        full = family.exact_expectations and family.full_covariance
        return full and target.modes_known and target.prior_components is not None

    def way(self, target):
        """See `Proposer`."""
        return "a component for every one of the prior"

    def find_modes(self, target, fresh, modes, settings, *key):
        """None further where every one has its component from the beginning."""
        if target.modes_known:
            return modes
        return super().find_modes(target, fresh, modes, settings, *key)

    def initial(self, target, settings):
        """The mixture over components of the prior, by their evidence."""
        components, logs, start = [], [], None
        nats = max(settings.tol, SMALLEST_TOL)
        # The heaviest first, where limits leave no room for all.
        heaviest_first = sorted(target.prior_components, key=lambda part: -part[0])
        for weight, given in heaviest_first:
            if components and target.ledger.budget.cuts():
                break
            # Relative to the ELBO, which is known from the second one on.
            tol = nats / max(1.0, abs(logs[-1])) if logs else 1e-4
            parts = given.dim, target.ledger.budget, tol, start or given.first_guess
            moments = natural_gaussian(given.expected_curvature, *parts)
            params = self.family.from_moments(*moments)
            # The next one is near it more often than it is near its own prior.
            start = moments[0], np.linalg.cholesky(moments[1])
            components.append(Component(self.family, params))
            elbo = SingleELBO(given, components[-1], None, True).elbo(components[-1])
            logs.append(np.log(weight) + elbo)
        weights = np.exp(np.array(logs) - max(logs))
        weights[weights < _LIGHTEST * weights.sum()] = 0.0
        mixture = Mixture(tuple(components), weights / weights.sum())
        kept = kept_components(mixture.weights, settings.max_components)
        return mixture.keep(kept), Modes()
