"""Log densities and scores of all components of a mixture at once."""

from functools import cached_property

import numpy as np

from skboost._math import responsibilities
from skboost.posterior._gaussian_stack import GaussianStack


class ComponentDensities:
    """Components of a mixture, without weights, ready for evaluation.

    Full-covariance Gaussians are stacked into one matrix; the others are asked one
    by one.

    Parameters
    ----------
    components : tuple of (VariationalFamily, ndarray of shape (n_params,))
    dim : int
    """

    def __init__(self, components, dim):
        self.components = components
        self.dim = dim

    @cached_property
    def _stacked(self):
        """Indices of the full-covariance Gaussians and their stack."""
        index, structures = [], []
        for k, (family, params) in enumerate(self.components):
            if not hasattr(family, "structure"):
                continue
            mean, variance, factor = family.structure(params)
            if variance is None:
                index.append(k)
                structures.append((mean, factor))
        return index, GaussianStack.of(structures) if index else None

    @cached_property
    def _others(self):
        stacked = set(self._stacked[0])
        return [k for k in range(len(self.components)) if k not in stacked]

    def _checked(self, theta):
        theta = np.asarray(theta, dtype=float)
        if theta.ndim != 2 or theta.shape[1] != self.dim:
            raise ValueError(
                f"theta must have shape (n, {self.dim}); got {theta.shape}. Pass one "
                "draw per row."
            )
        return theta

    def _blocks(self, n):
        stack = self._stacked[1]
        return [slice(0, n)] if stack is None else stack.blocks(n)

    def log_density(self, theta):
        """Log densities at `theta` (n, dim), shape (n, K), nats."""
        theta = self._checked(theta)
        out = np.empty((len(theta), len(self.components)))
        for rows in self._blocks(len(theta)):
            self._evaluate(theta[rows], out[rows])
        return out

    def mixture_score(self, theta, log_weights):
        """Score (n, dim) and log density (n,) of the mixture with these weights."""
        theta = self._checked(theta)
        score, log_q = np.empty_like(theta), np.empty(len(theta))
        for rows in self._blocks(len(theta)):
            score[rows], log_q[rows] = self._score_block(theta[rows], log_weights)
        return score, log_q

    def _evaluate(self, theta, out):
        """Fill `out` with log densities; what their scores need is returned."""
        index, stack = self._stacked
        residuals = None
        if stack is not None:
            residuals = stack.residuals(theta)
            out[:, index] = stack.log_density(residuals)
        evaluations = []
        for k in self._others:
            family, params = self.components[k]
            evaluations.append(family.at(params, theta))
            out[:, k] = evaluations[-1].log_density
        return residuals, evaluations

    def _score_block(self, theta, log_weights):
        log_components = np.empty((len(theta), len(self.components)))
        residuals, evaluations = self._evaluate(theta, log_components)
        share, log_q = responsibilities(log_components + log_weights)
        index, stack = self._stacked
        score = np.zeros_like(theta)
        if stack is not None:
            score += stack.score(residuals, share[:, index])
        for k, evaluation in zip(self._others, evaluations, strict=True):
            score += share[:, k, None] * evaluation.score()
        return score, log_q
