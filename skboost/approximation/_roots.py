"""Square roots of densities: the components of universal boosting (UBVI).

``root = sum_k lambda_k sqrt(s_k)`` has unit norm, and its square is the density: a
mixture with one component for every pair of roots (Campbell and Li 2019, section 4).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from skboost._math import log_sum_exp
from skboost.approximation._mixture import Mixture

# Pairs that carry less than this of the density are left out of it.
_NEGLIGIBLE = 1e-10


def gram(family, params):
    """``<sqrt(s_i), sqrt(s_j)>`` of components (K, n_params), shape (K, K)."""
    table = np.eye(len(params))
    if len(params) > 1:
        rows, columns = np.triu_indices(len(params), 1)
        log_affinity = family.log_affinity(params[rows], params[columns])[0]
        table[rows, columns] = table[columns, rows] = np.exp(log_affinity)
    return table


@dataclass(frozen=True, eq=False)
class Roots:
    """A non-negative combination of square roots of densities, of unit norm.

    Parameters
    ----------
    family : VariationalFamily
        Its square roots have products in closed form.
    params : ndarray of shape (K, n_params)
    gram : ndarray of shape (K, K)
        Inner products of the roots.
    coefficients : ndarray of shape (K,)
        The lambda of Campbell and Li 2019; ``coefficients @ gram @ coefficients``
        is one.
    """

    family: object
    params: np.ndarray
    gram: np.ndarray
    coefficients: np.ndarray

    @classmethod
    def of(cls, family, params, coefficients):
        """Roots with the Gram matrix worked out and the norm set to one."""
        params = np.atleast_2d(params)
        return cls(family, params, gram(family, params), coefficients)._normalised()

    def _normalised(self):
        norm = np.sqrt(self.coefficients @ self.gram @ self.coefficients)
        return Roots(self.family, self.params, self.gram, self.coefficients / norm)

    def with_coefficients(self, coefficients):
        """The same roots in another combination, its norm set to one."""
        return Roots(self.family, self.params, self.gram, coefficients)._normalised()

    def keep(self, mask):
        """The roots where `mask` is True, the norm set to one."""
        return Roots(
            self.family,
            self.params[mask],
            self.gram[np.ix_(mask, mask)],
            self.coefficients[mask],
        )._normalised()

    @property
    def n_components(self):
        """Number of roots."""
        return len(self.params)

    @property
    def dim(self):
        """Dimension of theta."""
        return self.family.dim_of(self.params[0])

    @property
    def shares(self):
        """What every root contributes to the density; they sum to one."""
        return self.coefficients * (self.gram @ self.coefficients)

    @property
    def log_peaks(self):
        """Log density of every component at its highest point, nats."""
        return np.array([self.family.log_peak(p) for p in self.params])

    @cached_property
    def components(self):
        """The components whose roots these are, as a mixture of their shares."""
        shares = np.maximum(self.shares, 0.0)
        parts = tuple((self.family, p) for p in self.params)
        return Mixture(parts, shares / shares.sum())

    def mixture(self):
        """The density: one component ``sqrt(s_i s_j)`` for every pair."""
        parts = [(self.family, p) for p in self.params]
        weights = list(self.coefficients**2)
        for i, j in combinations(range(self.n_components), 2):
            weight = 2.0 * self.coefficients[i] * self.coefficients[j] * self.gram[i, j]
            if weight > _NEGLIGIBLE:
                parts.append(self.family.root_product(self.params[i], self.params[j]))
                weights.append(weight)
        kept = np.array(weights) > _NEGLIGIBLE
        weights = np.array(weights)[kept]
        parts = tuple(part for part, keep in zip(parts, kept, strict=True) if keep)
        return Mixture(parts, weights / weights.sum())

    # --- the combination itself, as a function

    @cached_property
    def _as_mixture(self):
        """The same function as a multiple of a mixture of widened components.

        The root of an exponential tail is that tail, twice as slow.
        """
        kappa = 2.0 ** (1.0 / self.family.tail_power)
        log_integrals = self.dim * np.log(kappa) - 0.5 * self.log_peaks
        parts = tuple((self.family, self.family.widen(p, kappa)) for p in self.params)
        with np.errstate(divide="ignore"):
            logs = np.log(self.coefficients) + log_integrals
        log_total = log_sum_exp(logs[None])[0]
        weights = np.exp(logs - log_total)
        return Mixture(parts, weights / weights.sum()), log_total

    def log_root(self, theta):
        """``ln sum_k lambda_k sqrt(s_k(theta))``, shape (n,)."""
        mixture, log_total = self._as_mixture
        return log_total + mixture.log_density(theta)

    def score_and_log_root(self, theta):
        """Gradient in `theta` (n, dim) of `log_root`, and its value (n,)."""
        mixture, log_total = self._as_mixture
        score, log_density = mixture.score_and_log_density(theta)
        return score, log_total + log_density
