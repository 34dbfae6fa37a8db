"""What every greedy objective shares: what it knows, and what a search returns."""

from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from skboost._solver import SMALLEST_TOL
from skboost.families import Component


class Candidate(NamedTuple):
    """A component that a search proposes, and the weight that it gives it."""

    component: Component
    weight: float


class SearchContext(NamedTuple):
    """What the search for a component knows about the run."""

    target: object
    # The approximation so far, and the same in the form that the objective asks for,
    # `FixedMixture` or `RootControl`: it stays where it is while the new component
    # moves. Its ``components`` are a mixture of the family.
    mixture: object
    fixed: object
    # Cached draws of its components.
    pool: object
    # Counted from 1, the first step after the first component.
    iteration: int
    # Whether Gaussian expectations of the log joint are exact.
    exact: bool
    # Components at known modes, worth trying whatever the mixture says.
    mode_candidates: tuple = ()


class Objective(BaseEstimator):
    """Base class of what a new component maximises.

    Attributes
    ----------
    seeks_gain : bool
        Whether a better search means a larger gain of the mixture.
    early_stopping : bool
        Whether the solver's path is stopped where the joint gain is largest.
    short_tolerance : float
        Gain of a quasi-Newton step below which a short search ends that only chooses
        among starts.

    Examples
    --------
    >>> from skboost.strategies import JointGain, Objective
    >>> isinstance(JointGain(), Objective)
    True
    """

    seeks_gain = True
    early_stopping = False
    short_tolerance = 1e-5
    # How components are combined, and whether closed expectations of the log joint
    # are of use.
    combination = "simplex"
    uses_expectations = True

    def check(self):
        """Refuse hyperparameters that mean nothing by a ValueError, before any work."""

    def component_family(self, family):
        """The family of components that a user's stands for, or a ValueError."""
        return family

    def tolerance(self, settings):
        """Gain of a step below which a search ends: a hundredth of the nats that
        matter."""
        return max(1e-2 * settings.tol, SMALLEST_TOL)

    def base_draws(self, family, n, dim, rng):
        """Fixed base draws (n, base_dim) of one search."""
        return family.matched_draws(n, dim, rng)

    def rank_starts(self, context, starts, base_draws, rng, settings):
        """How much every start, a `Component`, promises, and the weight to begin
        with: (n_starts,)."""
        raise NotImplementedError(f"{type(self).__name__} must define rank_starts.")

    def problem(self, context, component, weight, base_draws):
        """The problem that the solver sees, where it starts at a `component` of that
        `weight`."""
        raise NotImplementedError(f"{type(self).__name__} must define problem.")

    def judge(self, context, component, weight, base_draws):
        """The problem whose value at its start decides between components."""
        return self.problem(context, component, weight, base_draws)

    def candidate(self, problem, x, value):
        """The `Candidate` at a point `x` of a problem, whose search says `value`,
        nats."""
        raise NotImplementedError(f"{type(self).__name__} must define candidate.")


class OneComponent:
    """What problems of one component, on fixed base draws, show to the solver."""

    def __init__(self, target, component, base_draws):
        self.target, self.component, self.base_draws = target, component, base_draws
        # The component where it is, and the largest absolute value of each coordinate.
        self.start = np.zeros(len(component.params))
        self.limits = component.limits()

    def unpack(self, x):
        """The component where it has moved to."""
        return self.component.move(x)
