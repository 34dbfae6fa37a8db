"""Boosting with conjugate components: the posterior of a Bayesian mixture model.

Everything but the search for components is `Boosting`: draws, weights, diagnostics.
"""

from dataclasses import dataclass

import numpy as np

from skboost._random import BASE, generator
from skboost.boosting._conjugate_search import find_modes, first_component, propose
from skboost.boosting._engine import Boosting
from skboost.boosting._modes import Modes
from skboost.objectives import JointGain, Residual, Rest
from skboost.posterior import Mixture


@dataclass(frozen=True)
class ConjugateBoosting(Boosting):
    """Boosting whose components are conjugate products; parameters as in `Boosting`.

    The target is a `ConjugateTarget`, the family its own; `objective` is the joint
    gain, `refine` and `starts` have no meaning here.

    Parameters
    ----------
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}
        How the first start is made.
    """

    init_params: str = "kmeans"

    # Proposals start where the residual is large, near the mixture or not.
    unprobed = False

    @classmethod
    def of(cls, target, **settings):
        """The engine of a target; settings of `Boosting` that matter, by name."""
        fixed = {"objective": JointGain(), "refine": False, "starts": np.zeros((1, 1))}
        return cls(target=target, family=target.family, **fixed, **settings)

    def _beginning(self):
        found = find_modes(
            self.target, self.init_params, self.n_restarts, self.seed, self.n_jobs
        )
        rng = generator(self.seed, 0, BASE)
        params, leads = first_component(self.target, found, rng)
        # Runs of coordinate ascent end where climbs would; none weighs more here.
        modes = Modes(leads, (0.0,) * len(leads), (1,) * len(leads))
        return modes, Mixture.single(self.family, params)

    def _around(self, mixture, modes, *key):
        # Every proposal runs coordinate ascent anew from where the residual is large.
        return modes

    def missed(self, mixture, modes, log_evidence, *key):
        return ()

    def _candidate(self, state, leads):
        rest = Rest.of(state.mixture, state.pool)
        residual = Residual(self.target, rest, state.iteration, False, leads)
        params = propose(residual, state.pool, self.n_restarts, self.seed, self.n_jobs)
        return self.family, params

    def _runaway(self, mixture, t):
        # Priors are proper, so nothing can grow without end.
        return ""
