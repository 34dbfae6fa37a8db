"""A posterior of constrained parameters, in unconstrained coordinates."""

import numpy as np

from skboost.targets._base import Target
from skboost.transforms import Ordered, Real

# Half of the way to where transforms stop to change, and more than any scale needs.
_LARGEST = 300.0
# Steeper slopes say nothing that a search could use, and their squares overflow.
_STEEPEST = 1e150


class TransformedTarget(Target):
    """``ln p(forward(z)) + ln |d forward / d z|`` for a density p on a user's scale.

    Its posterior is that of z: every draw, mapped forward, is one of p's posterior.
    On a simplex p is a density of all coordinates but the last, as in Stan.

    Parameters
    ----------
    target : Target
        Log joint density on the user's scale. It is only asked inside the
        constraints.
    constraints : Constraints
        With the dimension of `target`.

    Attributes
    ----------
    dim : int
        Number of unconstrained coordinates.
    """

    def __init__(self, target, constraints):
        self.target, self.constraints = target, constraints
        self.dim = constraints.n_free

    @property
    def ledgers(self):
        """What counts evaluations; see `CallableTarget.ledgers`."""
        return self.target.ledgers

    @property
    def n_evaluations(self):
        """Evaluations of the target, where it counts them."""
        return self.target.n_evaluations

    @property
    def n_failures(self):
        """Failed evaluations of the target, where it counts them."""
        return self.target.n_failures

    @property
    def first_failure(self):
        """What happened at the first of these, or None."""
        return self.target.first_failure

    @property
    def light_tails(self):
        """Whether a coordinate is mapped by an exponential, or the target says so."""
        mapped = any(p.transform.exponential for p in self.constraints.parts)
        return mapped or self.target.light_tails

    @property
    def largest_coordinate(self):
        """How far out coordinates may lie, shape (dim,): e^300 is no scale."""
        largest = np.full(self.dim, np.inf)
        for transform, _, free in self.constraints.parts:
            if isinstance(transform, Ordered):
                free = free[1:]
            if not isinstance(transform, Real):
                largest[free] = _LARGEST
        return largest

    def tolerant(self):
        """This target as searches see it, where the user's has such a view."""
        return TransformedTarget(self.target.tolerant(), self.constraints)

    def log_density(self, theta):
        """Log joint at unconstrained draws; see `Target`."""
        z = np.atleast_2d(theta)
        value = self.target.log_density(self.constraints.forward(z))
        return value + self.constraints.log_jacobian(z)

    def value_and_score(self, theta):
        """Log joint at unconstrained draws and its gradient; see `Target`."""
        points, log_jacobian, pull = self.constraints.mapped(np.atleast_2d(theta))
        value, score = self.target.value_and_score(points)
        with np.errstate(over="ignore", invalid="ignore"):
            pulled = pull(score)
        pulled = np.clip(np.nan_to_num(pulled), -_STEEPEST, _STEEPEST)
        # Where the density is zero its score is undefined.
        pulled[np.isneginf(value)] = 0.0
        return value + log_jacobian, pulled
