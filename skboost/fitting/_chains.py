"""Short chains from draws of a mixture towards the target (Hamiltonian Monte Carlo)."""

from dataclasses import dataclass

import numpy as np

from skboost.families import MAX_FULL_DIM, whitening_by

# Length of leapfrog steps in standard deviations of the mixture: six of these took
# draws of a logistic posterior in 101 dimensions half of the way to it in two
# trajectories.
_STEP = 0.3


class Scatter:
    """Where a mixture lies, and coordinates of unit scatter, finite without
    covariance."""

    def __init__(self, mixture):
        location = mixture.component_locations()
        self.location = mixture.weights @ location
        apart = location - self.location
        if mixture.dim > MAX_FULL_DIM:
            scale = mixture.component_scales()
            self.variance = mixture.weights @ (scale**2 + apart**2)
            self.whitening = whitening_by(self.variance, None)
            return
        scatter = (mixture.weights[:, None] * apart).T @ apart
        for weight, component in zip(mixture.weights, mixture.components, strict=True):
            _, variance, factor = component.spread()
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
        factor = std[:, None] * np.linalg.cholesky(correlation)
        self.whitening = whitening_by(None, factor)


@dataclass(frozen=True)
class Chains:
    """Points and scores (n, dim) and log joints (n,) of many chains, and the longest
    step."""

    theta: np.ndarray
    log_joint: np.ndarray
    score: np.ndarray
    step: float = _STEP

    @classmethod
    def at(cls, target, theta):
        """Chains that begin at these points."""
        return cls(theta, *target.value_and_score(theta))

    def moved(self, target, whitening, rng):
        """One trajectory of six leapfrog steps later, taken or refused.

        Every chain leaves the target as it is, and so needs no tuning to be right; the
        length of the next steps follows from the share that was accepted.
        """
        n = len(self.theta)
        # A target whose scale changes from place to place (a funnel) has no one step
        # that serves, and so every chain has its own.
        step = self.step * rng.uniform(0.25, 1.0, n)[:, None]
        start = rng.standard_normal(self.theta.shape)
        # Points of zero density have no slope, and their trajectories are refused.
        with np.errstate(over="ignore", invalid="ignore"):
            end, momentum = self, start
            for _ in range(6):
                momentum = momentum + 0.5 * step * whitening.pull(end.score)
                theta = end.theta + whitening.lift(step * momentum)
                theta = np.where(np.isfinite(theta), theta, self.theta)
                end = Chains.at(target, theta)
                momentum = momentum + 0.5 * step * whitening.pull(end.score)
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
