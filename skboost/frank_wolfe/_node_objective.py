"""The divergence where components do not overlap: a closed function of the weights."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

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
        masses = np.where(kept, self._masses, 0.0)
        return masses / masses.sum()

    # --- rules that take the objective on some draws take all of it

    @property
    def ratio(self):
        """One row: there are no draws."""
        return np.ones((1, len(self.log_masses)))

    def at(self, draws):
        """The objective itself, whatever draws are asked for."""
        return self

    @cached_property
    def _masses(self):
        return np.exp(self.log_masses - self.log_masses.max())

    @staticmethod
    def _log(weights):
        return np.log(np.maximum(weights, _TINY))
