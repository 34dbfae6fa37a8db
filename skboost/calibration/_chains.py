"""Short chains from draws of a mixture towards the target (Hamiltonian Monte Carlo)."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from skboost.families import MAX_FULL_DIM

# Length of leapfrog steps in standard deviations of the mixture: six of these took
# draws of a logistic posterior in 101 dimensions half of the way to it in two
# trajectories.
_STEP = 0.3


class Coordinates:
    """Coordinates in which a mixture has unit scatter.

    The scatter is the covariance of the components' locations plus their spread: a
    covariance where there is one, and finite where there is none.

    Parameters
    ----------
    mixture : Mixture
    """

    def __init__(self, mixture):
        location = mixture.component_locations()
        self.location = mixture.weights @ location
        apart = location - self.location
        if mixture.dim > MAX_FULL_DIM:
            scale = mixture.component_scales()
            self.variance = mixture.weights @ (scale**2 + apart**2)
            self.factor = None
            return
        scatter = (mixture.weights[:, None] * apart).T @ apart
        for weight, (family, params) in zip(
            mixture.weights, mixture.components, strict=True
        ):
            _, variance, factor = family.spread(params)
            if factor is not None:
                scatter += weight * factor @ factor.T
            if variance is not None:
                scatter[np.diag_indices_from(scatter)] += weight * variance
        self.variance = np.diagonal(scatter).copy()
        # Units of their own: a ridge on correlations is small in all of them.
        std = np.sqrt(self.variance)
        correlation = scatter / np.outer(std, std)
        # Components may lie on a line.
        correlation[np.diag_indices_from(correlation)] += 1e-9
        self.factor = std[:, None] * np.linalg.cholesky(correlation)

    def out(self, z):
        """Steps in these coordinates as steps of theta, rows of (n, dim)."""
        return z * np.sqrt(self.variance) if self.factor is None else z @ self.factor.T

    def into(self, apart):
        """Steps of theta as steps in these coordinates, the inverse of `out`."""
        if self.factor is None:
            return apart / np.sqrt(self.variance)
        return solve_triangular(self.factor, apart.T, lower=True).T

    def pull(self, score):
        """Gradients in theta as gradients in these coordinates."""
        if self.factor is None:
            return score * np.sqrt(self.variance)
        return score @ self.factor

    def times_scatter(self, score):
        """``S score`` of every row, S the scatter."""
        return self.out(self.pull(score))


@dataclass(frozen=True)
class Chains:
    """Where many chains are.

    Attributes
    ----------
    theta, score : ndarray of shape (n, dim)
    log_joint : ndarray of shape (n,)
        Nats.
    step : float
        Longest of the steps, in standard deviations of the mixture.
    """

    theta: np.ndarray
    log_joint: np.ndarray
    score: np.ndarray
    step: float = _STEP

    @classmethod
    def at(cls, target, theta):
        """Chains that begin at these points."""
        return cls(theta, *target.value_and_score(theta))

    def inside(self):
        """The chains that are where the density is not zero."""
        inside = self.log_joint > -np.inf
        return replace(
            self,
            theta=self.theta[inside],
            log_joint=self.log_joint[inside],
            score=self.score[inside],
        )

    def moved(self, target, coordinates, rng):
        """One trajectory of six leapfrog steps later, taken or refused.

        Every chain leaves the target as it is, and so needs no tuning to be right; the
        length of the next steps follows from the share that was accepted.

        Parameters
        ----------
        target : Target
            Of which failures are points of zero density.
        coordinates : Coordinates
        rng : numpy.random.Generator

        Returns
        -------
        Chains
        """
        n = len(self.theta)
        # A target whose scale changes from place to place (a funnel) has no one step
        # that serves, and so every chain has its own.
        step = self.step * rng.uniform(0.25, 1.0, n)[:, None]
        start = rng.standard_normal(self.theta.shape)
        # Points of zero density have no slope, and their trajectories are refused.
        with np.errstate(over="ignore", invalid="ignore"):
            end, momentum = self._trajectory(target, coordinates, step, start)
            kinetic = 0.5 * (np.square(momentum) - np.square(start)).sum(axis=1)
            change = end.log_joint - self.log_joint - kinetic
        taken = np.log(rng.random(n)) < change
        share = taken.mean()
        factor = 1.5 if share > 0.9 else 1 / 1.5 if share < 0.6 else 1.0
        return Chains(
            np.where(taken[:, None], end.theta, self.theta),
            np.where(taken, end.log_joint, self.log_joint),
            np.where(taken[:, None], end.score, self.score),
            min(self.step * factor, 2.0 * _STEP),
        )

    def _trajectory(self, target, coordinates, step, momentum):
        """Leapfrog steps, and the momentum at their end."""
        at = self
        for _ in range(6):
            momentum = momentum + 0.5 * step * coordinates.pull(at.score)
            theta = at.theta + coordinates.out(step * momentum)
            theta = np.where(np.isfinite(theta), theta, self.theta)
            at = replace(Chains.at(target, theta), step=self.step)
            momentum = momentum + 0.5 * step * coordinates.pull(at.score)
        return at, momentum
