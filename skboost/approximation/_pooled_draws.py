"""Draws of every component, kept with everything that was computed at them.

One evaluation of the log joint per draw, once; then every question about weights is
arithmetic on a small table (the convex estimate with the balance heuristic).
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from skboost._math import log_sum_exp, log_weights
from skboost.families import Component
from skboost.frank_wolfe import WeightObjective


@dataclass(frozen=True)
class PooledDraws:
    """Pooled draws of the components of a mixture, with cached log densities."""

    theta: np.ndarray
    # The component that each draw came from.
    source: np.ndarray
    # Of every component at every draw, (n, n_components), nats.
    log_components: np.ndarray
    # At the draws, or where the target knows it the exact ``E_{s_k}[log joint]`` of
    # every component, nats.
    log_joint: np.ndarray | None
    expected: np.ndarray | None
    # Of the components, nats.
    entropy: np.ndarray

    @classmethod
    def of(cls, target, mixture, base_draws, exact):
        """Draw ``base_draws[k]`` through component k and evaluate what is needed."""
        parts = [*map(Component.draws, mixture.components, base_draws)]
        theta = np.concatenate(parts)
        source = np.repeat(np.arange(len(parts)), [*map(len, parts)])
        return cls(
            theta=theta,
            source=source,
            log_components=mixture.log_components(theta),
            log_joint=None if exact else target.log_density(theta, strict=True),
            expected=expectations(target, mixture.components) if exact else None,
            entropy=np.array([*map(Component.entropy, mixture.components)]),
        )

    @property
    def n_components(self):
        """Number of components that the table has columns for."""
        return self.log_components.shape[1]

    @property
    def log_proposal(self):
        """Log density of the pool itself, ``r = sum_k (S_k / S) s_k``, at its draws."""
        counts = np.bincount(self.source, minlength=self.n_components)
        return log_sum_exp(self.log_components, log_weights(counts / counts.sum()))

    def join(self, other, log_other_here, log_here_other):
        """This pool and that of further components as one, from the log densities of
        either's components at the other's draws."""
        here = [self.log_components, log_other_here]
        there = [log_here_other, other.log_components]
        return PooledDraws(
            theta=np.concatenate([self.theta, other.theta]),
            source=np.concatenate([self.source, other.source + self.n_components]),
            log_components=np.block([here, there]),
            log_joint=_both(self.log_joint, other.log_joint),
            expected=_both(self.expected, other.expected),
            entropy=np.concatenate([self.entropy, other.entropy]),
        )

    def keep(self, mask):
        """The pool without the components (and their draws) where `mask` is False."""
        if mask.all():
            return self
        rows = mask[self.source]
        return replace(
            self,
            theta=self.theta[rows],
            source=(np.cumsum(mask) - 1)[self.source[rows]],
            log_components=self.log_components[np.ix_(rows, mask)],
            log_joint=None if self.log_joint is None else self.log_joint[rows],
            expected=None if self.expected is None else self.expected[mask],
            entropy=self.entropy[mask],
        )

    def weight_objective(self):
        """KL(q || p) - ln Z as a convex function of the weights, on these draws."""
        log_r = self.log_proposal
        log_ratio = self.log_components - log_r[:, None]
        ratio = np.exp(log_ratio)
        if self.expected is None:
            excess = log_r - finite(self.log_joint)
            # The unknown ln Z belongs to no weight: left in, it multiplies the noise
            # of ratios whose means are one.
            offset = ratio * (excess - excess.mean())[:, None]
        else:
            offset = -xlogy(ratio, ratio) - (self.expected + self.entropy)
        return WeightObjective(log_ratio, offset, log_r)


def expectations(target, components):
    """Exact ``E_s[log joint]`` of Gaussian components, nats."""
    structures = map(Component.structure, components)
    finer = target.finer()
    return np.array([finer.expected_log_density(*each)[0] for each in structures])


def finite(log_joint):
    """Log joint with zero densities one hundred nats below the worst other draw."""
    inside = np.isfinite(log_joint)
    if inside.all():
        return log_joint
    floor = log_joint[inside].min() if inside.any() else 0.0
    return np.where(inside, log_joint, floor - 100.0)


def finite_value_and_score(target, theta):
    """Log joint and score, zero densities only very bad; the solver refuses all
    zeros."""
    value, score = target.value_and_score(theta)
    return (finite(value) if np.isfinite(value).any() else value), score


def _both(a, b):
    return None if a is None else np.concatenate([a, b])
