"""The Kullback-Leibler divergence as a convex function of the mixture weights: over
draws, and in closed form where components do not overlap.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, xlogy

from skboost._math import log_sum_exp, log_weights, mean_and_se
from skboost._parallel import row_blocks

# Below this the mixture's density over the pool's is summed from logarithms, which do
# not underflow: far from all components their products have lost digits.
_SUMMED_FROM_LOGS = 1e-290
# Nats in place of the logarithm of a density of zero, so that sums stay finite: that of
# a Gaussian at 141,000 standard deviations, which doublings of a curvature reach.
_LEAST_LOG = -1e10
# For the solver of all weights alone: a component far from all others that is worth a
# weight of 1e-100 has a steep slope at zero and second derivatives that overflow.
_LEAST_DENSITY = 1e-20


@dataclass(frozen=True, eq=False)
class WeightObjective:
    """Divergence of a mixture from its target as a function of the weights.

    With draws z_n from the pool r and their log joint l, ``mean_n[(A alpha) ln(A alpha)
    - A alpha + B alpha] + 1`` estimates KL(q_alpha || p) up to the log normaliser,
    nats. It is exactly convex, and gap, backtracking, line search and weights all come
    from it. `log_ratio` is ln A, ``ln s_i(z_n) - ln r(z_n)``, `offset` is ``B = A (ln r
    - l)``; both (n_draws, n_components). A constant near the ELBO is to be subtracted
    from l first, since the noise of the means of A would multiply it. `log_pool` is ln
    r; without it uniform.
    """

    log_ratio: np.ndarray
    offset: np.ndarray
    log_pool: np.ndarray | None = None

    @cached_property
    def ratio(self):
        """A, densities of the components over the pool's."""
        return np.exp(self.log_ratio)

    @cached_property
    def _mean_offset(self):
        return self.offset.mean(axis=0)

    def _density(self, weights):
        """Density of the mixture over the pool's at each draw, and its logarithm."""
        q = self.ratio @ weights
        few = np.flatnonzero(q < _SUMMED_FROM_LOGS)
        log_q = np.log(np.maximum(q, _SUMMED_FROM_LOGS))
        summed = log_sum_exp(self.log_ratio[few], log_weights(weights))
        log_q[few] = np.maximum(summed, _LEAST_LOG)
        return q, log_q

    def value(self, weights):
        """D(weights), in nats up to the target's log normaliser."""
        q, log_q = self._density(weights)
        return float((q @ log_q - q.sum()) / len(q) + self._mean_offset @ weights + 1.0)

    def slope(self, weights):
        """Gradient of D: mean_n[A_i ln(A alpha) + B_i], shape (n_components,)."""
        log_q = self._density(weights)[1]
        return log_q @ self.ratio / len(log_q) + self._mean_offset

    def value_and_slope(self, weights):
        """`value` and `slope` as `hessian` knows them, for the solver of all weights.

        Below `_LEAST_DENSITY` x ln x is continued by its tangent, so that a component
        whose best weight is below it has no slope that keeps a certificate from others.
        """
        q = self.ratio @ weights
        floored = np.maximum(q, _LEAST_DENSITY)
        log_q = np.log(floored)
        value = (q @ log_q - floored.sum()) / len(q) + self._mean_offset @ weights
        return float(value + 1.0), log_q @ self.ratio / len(q) + self._mean_offset

    def hessian(self, weights, columns=None):
        """Second derivatives ``mean_n[A_i A_j / (A alpha)]`` of all or some columns."""
        q = np.maximum(self.ratio @ weights, _LEAST_DENSITY)
        scale = 1.0 / np.sqrt(len(q) * q)[:, None]
        table = self.ratio if columns is None else self.ratio[:, columns]
        hessian = np.zeros((table.shape[1], table.shape[1]))
        for rows in row_blocks(*table.shape):
            scaled = table[rows] * scale[rows]
            hessian += scaled.T @ scaled
        return hessian

    def along(self, weights, end):
        """Derivative of D((1 - t) weights + t end) in t, without cancellation near t
        = 1."""
        change = self.ratio @ (end - weights) / len(self.ratio)
        constant = self._mean_offset @ (end - weights)

        def derivative(t):
            log_q = self._density((1.0 - t) * weights + t * end)[1]
            return float(change @ log_q + constant)

        return derivative

    def difference(self, weights, other):
        """D(weights) - D(other) on the common draws, nats, and its error by plain
        sampling."""
        (q, log_q), (p, log_p) = self._density(weights), self._density(other)
        terms = q * log_q - q - (p * log_p - p)
        return mean_and_se(terms + self.offset @ (weights - other))

    def at(self, draws):
        """The same estimated on some of the draws, given by their positions."""
        log_pool = None if self.log_pool is None else self.log_pool[draws]
        return WeightObjective(self.log_ratio[draws], self.offset[draws], log_pool)

    def squared_distance(self, i, weights):
        """Integral of ``(s_i - q)^2``, in units of the highest density of the pool."""
        difference = self.ratio[:, i] - self.ratio @ weights
        if self.log_pool is None:
            return float((difference**2).mean())
        density = np.exp(self.log_pool - self.log_pool.max())
        return float((difference**2 * density).mean())

    def divergence(self, i, weights):
        """KL(s_i || q) in nats, never negative, as the integrals of both are known."""
        a, (q, log_q) = self.ratio[:, i], self._density(weights)
        terms = xlogy(a, a) - a * log_q - a + q
        return float(max(terms.mean(), 0.0))


# Weight over which the slope toward a component of weight zero is taken.
LEAST_STEP = 1e-2
# Weights whose logarithm is taken, at least; and those that are divided by.
_TINY, _LEAST = 1e-300, 1e-20


@dataclass(frozen=True, eq=False)
class NodeObjective:
    """``sum_k a_k (ln a_k - ln Z_k)``, minus the ELBO in nats of components that do not
    overlap.

    Z_k is the target's mass that component k stands for, `log_masses` (n_components,)
    their logarithms; the least value is ``-ln sum_k Z_k``, at ``a_k = Z_k / sum Z``.
    Slopes of minus infinity are differences divided by a step of `LEAST_STEP`.
    """

    log_masses: np.ndarray

    def value(self, weights):
        """Minus the ELBO, in nats up to the constant of the masses."""
        return float(weights @ (self._log(weights) - self.log_masses))

    def slope(self, weights):
        """Gradient, shape (n_components,); at weight zero the divided difference."""
        inside = 1.0 + self._log(weights)
        return np.where(weights > 0, inside, np.log(LEAST_STEP)) - self.log_masses

    def along(self, weights, end):
        """Derivative at ``(1 - t) weights + t end`` as a function of t alone."""
        d = end - weights
        constant = -float(d @ self.log_masses)
        return lambda t: float(d @ self._log((1.0 - t) * weights + t * end)) + constant

    def best_step(self, weights, end):
        """Where on the way to an `end` it is least; None where a search has to say."""
        (place,) = np.nonzero(end)
        if len(place) > 1 or weights[place[0]] > 0.0:
            return None
        return float(expit(self.value(weights) + self.log_masses[place[0]]))

    def difference(self, weights, other):
        """The change of `value` from `other` to `weights`, and its error, which is
        zero."""
        return self.value(weights) - self.value(other), 0.0

    def divergence(self, i, weights):
        """KL of component i from the mixture, ``-ln a_i``; 46 nats at weight zero."""
        return -float(np.log(np.clip(weights[i], _LEAST, 1.0)))

    def squared_distance(self, i, weights):
        """Squared distance of component i from the mixture in the space of weights."""
        away = -np.asarray(weights, dtype=float)
        away[i] += 1.0
        return float(away @ away)

    def best(self, kept):
        """The weights of the components that a mask keeps at which it is least."""
        masses = np.exp(self.log_masses - self.log_masses.max()) * kept
        return masses / masses.sum()

    # --- rules that take the objective on some draws take all of it

    @property
    def ratio(self):
        """One row: there are no draws."""
        return np.ones((1, len(self.log_masses)))

    def at(self, draws):
        """The objective itself, whatever draws are asked for."""
        return self

    @staticmethod
    def _log(weights):
        return np.log(np.maximum(weights, _TINY))
