"""Square roots of densities: the components of universal boosting (UBVI).

``root = sum_k lambda_k sqrt(s_k)`` has unit norm, and its square is the density: a
mixture with one component for every pair of roots (Campbell and Li 2019, section 4).
Draws that are kept serve every inner product, by the balance heuristic: the noise of
one iteration does not live on in the coefficients.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from skboost._math import log_sum_exp, mean_and_se
from skboost.approximation._diagnostics import Estimate
from skboost.approximation._mixture import Mixture
from skboost.families import Component


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
    """A unit combination of square roots of densities, lambda (K,) of Campbell and
    Li 2019."""

    family: object
    # (K, n_params), and the inner products of the roots, (K, K).
    params: np.ndarray
    gram: np.ndarray
    coefficients: np.ndarray

    def __post_init__(self):
        norm = np.sqrt(self.coefficients @ self.gram @ self.coefficients)
        object.__setattr__(self, "coefficients", self.coefficients / norm)

    @classmethod
    def of(cls, family, params, coefficients):
        """Roots with the Gram matrix worked out."""
        params = np.atleast_2d(params)
        return cls(family, params, gram(family, params), coefficients)

    def with_coefficients(self, coefficients):
        """The same roots in another combination."""
        return replace(self, coefficients=coefficients)

    def keep(self, mask):
        """The roots where `mask` is True."""
        inner = self.gram[np.ix_(mask, mask)]
        return Roots(self.family, self.params[mask], inner, self.coefficients[mask])

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

    @cached_property
    def each(self):
        """The components whose roots these are."""
        return tuple(Component(self.family, params) for params in self.params)

    @property
    def log_peaks(self):
        """Log density of every component at its highest point, nats."""
        return np.array([*map(Component.log_peak, self.each)])

    @cached_property
    def components(self):
        """The components whose roots these are, as a mixture of their shares."""
        shares = np.maximum(self.shares, 0.0)
        return Mixture(self.each, shares / shares.sum())

    def mixture(self):
        """The density: one component ``sqrt(s_i s_j)`` for every pair."""
        # Pairs that carry less than this of the density are left out of it.
        negligible = 1e-10
        parts, weights = [], []
        for component, weight in zip(self.each, self.coefficients**2, strict=True):
            if weight > negligible:
                parts.append(component)
                weights.append(weight)
        for i, j in combinations(range(self.n_components), 2):
            weight = 2.0 * self.coefficients[i] * self.coefficients[j] * self.gram[i, j]
            if weight > negligible:
                parts.append(self.family.root_product(self.params[i], self.params[j]))
                weights.append(weight)
        return Mixture(tuple(parts), np.array(weights) / np.sum(weights))

    # --- the combination itself, as a function

    @cached_property
    def _as_mixture(self):
        """The same function as a multiple of a mixture of widened components."""
        kappa = 2.0 ** (1.0 / self.family.tail_power)
        log_integrals = self.dim * np.log(kappa) - 0.5 * self.log_peaks
        parts = tuple(component.widen(kappa) for component in self.each)
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


@dataclass(frozen=True)
class RootDraws:
    """Pooled draws of the components behind some roots."""

    theta: np.ndarray
    log_joint: np.ndarray
    # Log densities at every draw, (n, K): of every component, and of what was drawn
    # for it.
    log_components: np.ndarray
    log_proposals: np.ndarray
    # The component of every draw.
    source: np.ndarray

    def join(self, other, here, there):
        """This pool and that of a further root, with the densities of each at the
        other's draws."""
        own = self.log_components, self.log_proposals
        others = other.log_components, other.log_proposals
        return RootDraws(
            np.concatenate([self.theta, other.theta]),
            np.concatenate([self.log_joint, other.log_joint]),
            *(np.block([[own[k], here[k]], [there[k], others[k]]]) for k in (0, 1)),
            np.concatenate([self.source, other.source + own[0].shape[1]]),
        )

    def keep(self, mask):
        """The pool of the roots where `mask` is True."""
        rows = mask[self.source]
        return replace(
            self,
            theta=self.theta[rows],
            log_joint=self.log_joint[rows],
            log_components=self.log_components[np.ix_(rows, mask)],
            log_proposals=self.log_proposals[np.ix_(rows, mask)],
            source=(np.cumsum(mask) - 1)[self.source[rows]],
        )

    @property
    def log_pool(self):
        """Log density of the pool itself at its draws."""
        counts = np.bincount(self.source, minlength=self.log_proposals.shape[1])
        return log_sum_exp(self.log_proposals, np.log(counts / counts.sum()))

    def log_overlap(self, roots):
        """``ln <sqrt(p), roots>``, p unnormalised, nats."""
        logs = 0.5 * self.log_joint + roots.log_root(self.theta) - self.log_pool
        return float(log_sum_exp(logs[None])[0] - np.log(len(logs)))

    def overlaps(self, control):
        """``<f, sqrt(s_k)>`` for every component (K,); see `RootControl`."""
        residual = control.residual(self.theta, self.log_joint)
        weights = np.exp(0.5 * self.log_components - self.log_pool[:, None])
        exact = control.roots.gram @ control.roots.coefficients
        return exact + residual @ weights / len(residual)


def squared_hellinger(log_ratio, row_weights=None):
    """Estimated squared Hellinger distance ``H^2 = 1 - integral sqrt(p q)``.

    ``1 - mean(sqrt(w)) / sqrt(mean(w))``, ``w = p / q`` on draws of q (Campbell and Li
    2019, equation 9), with its error by the delta method.
    """
    w = np.exp(log_ratio - log_ratio.max())
    w /= mean_and_se(w, row_weights)[0]
    root = np.sqrt(w)
    affinity = min(mean_and_se(root, row_weights)[0], 1.0)
    influence = root - 0.5 * affinity * w
    return Estimate(1.0 - affinity, mean_and_se(influence, row_weights)[1])


def hellinger_gain(before, after):
    """Fall in squared Hellinger distance, on the `FreshDraws` of both: `Estimate`."""
    theta = np.concatenate([before.theta, after.theta])
    log_joint = np.concatenate([before.log_joint, after.log_joint])
    row_weights = 0.5 * np.concatenate([before.row_weights, after.row_weights])
    log_old, log_new = (fresh.mixture.log_density(theta) for fresh in (before, after))
    log_r = np.logaddexp(log_old, log_new) - np.log(2.0)
    top = np.max(log_joint - log_r)
    if not np.isfinite(top):
        return Estimate(0.0, float("inf"))
    z = row_weights @ np.exp(log_joint - log_r - top)
    root = np.exp(0.5 * (log_joint - log_r - top))
    change = np.exp(0.5 * (log_new - log_r)) - np.exp(0.5 * (log_old - log_r))
    return Estimate(*mean_and_se(root * change / np.sqrt(z), row_weights))
