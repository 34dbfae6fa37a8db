"""The Kullback-Leibler divergence as a convex function of the mixture weights."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skboost._math import mean_and_se
from skboost._parallel import row_blocks

# Below this mass ratio x ln x is continued by its tangent. That keeps the function
# convex and smooth and moves it by at most DENSITY_FLOOR nats, far below rounding.
# It is needed because a new component may sit where the mixture's density has
# underflowed to 0: the slope there is -inf and the Hessian +inf, yet all that is
# lost with the floor is a component whose optimal weight is below DENSITY_FLOOR.
DENSITY_FLOOR = 1e-20


@dataclass(frozen=True, eq=False)
class WeightObjective:
    """Divergence of a mixture from its target as a function of the weights.

    With pooled draws z_n from r, the mixture of all components in proportion to their
    draws, and one log joint density l per draw, ``mean_n[(A alpha) ln(A alpha) - A
    alpha + B alpha] + 1`` estimates KL(q_alpha || p) up to the target's log normaliser,
    in nats. It is exactly convex in alpha, and its derivative is the estimate of the
    inner product of a component with the gradient of the divergence, so that gap, worst
    component, backtracking, line search and weights are all taken from one estimate.

    `ratio` is A, component densities over the pool's, ``s_i(z_n) / r(z_n)``, and
    `offset` is ``B = A (ln r - l)``, row by row; both (n_draws, n_components). A
    constant near the ELBO is to be subtracted from l first: the sample means of A are 1
    only up to noise, which a large constant would multiply. `log_pool` is ln r, for
    what is measured in densities themselves; without it r counts as uniform.
    """

    ratio: np.ndarray
    offset: np.ndarray
    log_pool: np.ndarray | None = None

    @cached_property
    def _mean_offset(self):
        return self.offset.mean(axis=0)

    def value(self, weights):
        """D(weights), in nats up to the target's log normaliser."""
        return self.value_and_slope(weights)[0]

    def slope(self, weights):
        """Gradient of D: mean_n[A_i ln(A alpha) + B_i], shape (n_components,)."""
        return self.value_and_slope(weights)[1]

    def value_and_slope(self, weights):
        """`value` and `slope` for little more than the price of one."""
        # Mixture density over the pool's at each draw.
        q = self.ratio @ weights
        floored = np.maximum(q, DENSITY_FLOOR)
        log_q = np.log(floored)
        value = (q @ log_q - floored.sum()) / len(q) + self._mean_offset @ weights
        slope = log_q @ self.ratio / len(q) + self._mean_offset
        return float(value + 1.0), slope

    def hessian(self, weights, columns=None):
        """Second derivatives ``mean_n[A_i A_j / (A alpha)]`` of all or some columns."""
        q = np.maximum(self.ratio @ weights, DENSITY_FLOOR)
        scale = 1.0 / np.sqrt(len(q) * q)[:, None]
        table = self.ratio if columns is None else self.ratio[:, columns]
        hessian = np.zeros((table.shape[1], table.shape[1]))
        for rows in row_blocks(*table.shape):
            scaled = table[rows] * scale[rows]
            hessian += scaled.T @ scaled
        return hessian

    def along(self, weights, end):
        """Derivative of D((1 - t) weights + t end) as a function of t alone.

        As a mean of two densities it loses nothing to cancellation near t = 1.
        """
        q, q_end = self.ratio @ weights, self.ratio @ end
        change = (q_end - q) / len(q)
        constant = self._mean_offset @ (end - weights)
        return lambda t: float(
            change @ _floored_log((1.0 - t) * q + t * q_end) + constant
        )

    def difference(self, weights, other):
        """D(weights) - D(other) on the common draws, nats, and its standard error.

        The error is that of plain sampling: stratified draws, as these are, only do
        better.
        """
        q, q_other = self.ratio @ weights, self.ratio @ other
        terms = _x_log_x_minus_x(q) - _x_log_x_minus_x(q_other)
        return mean_and_se(terms + self.offset @ (weights - other))

    def at(self, draws):
        """The same estimated on some of the draws, given by their positions."""
        log_pool = None if self.log_pool is None else self.log_pool[draws]
        return WeightObjective(self.ratio[draws], self.offset[draws], log_pool)

    def squared_distance(self, i, weights):
        """Integral of ``(s_i - q)^2``, in units of the highest density of the pool.

        Densities in many dimensions underflow; the unit changes a curvature that
        multiplies the distance, and no step.
        """
        difference = self.ratio[:, i] - self.ratio @ weights
        if self.log_pool is None:
            return float((difference**2).mean())
        density = np.exp(self.log_pool - self.log_pool.max())
        return float((difference**2 * density).mean())

    def divergence(self, i, weights):
        """KL(s_i || q) in nats, never negative.

        The known integrals of s_i and q, both 1, are subtracted draw by draw, which
        makes every term non-negative. A mixture that misses s_i altogether is
        charged no more than -ln(DENSITY_FLOOR), 46 nats, per unit of mass.
        """
        a = self.ratio[:, i]
        q = np.maximum(self.ratio @ weights, DENSITY_FLOOR)
        terms = a * (_floored_log(a) - np.log(q)) - a + q
        return float(max(terms.mean(), 0.0))


def _floored_log(x):
    return np.log(np.maximum(x, DENSITY_FLOOR))


def _x_log_x_minus_x(x):
    floored = np.maximum(x, DENSITY_FLOOR)
    return x * np.log(floored) - floored
