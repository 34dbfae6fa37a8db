"""Distributions of mixture weights: Dirichlet, or stick-breaking.

Stick-breaking is a Dirichlet process whose posterior is truncated.
"""

import numpy as np
from scipy.special import betaln, psi

from skboost.conjugate._dirichlet import DirichletFactor, log_normaliser
from skboost.conjugate._natural import Cone

_TINY = np.finfo(float).tiny


class DirichletWeights(DirichletFactor):
    """Factor q(pi) = Dirichlet(alpha); a row adds its responsibilities."""

    name, key = "weights", "alpha"
    # Whether the order of the clusters means nothing.
    exchangeable = True

    @property
    def shapes(self):
        """Shapes of what one draw holds."""
        return {"weights": self._prior.shape}

    def permuted(self, own, order):
        """The same distribution of clusters in another order."""
        return {"alpha": np.take(own["alpha"], order)}

    def moments(self, own):
        """Mean and covariance of the weights, by name."""
        mean = self.mean(own)
        covariance = np.diag(mean) - np.outer(mean, mean)
        return {"weights": (mean, covariance / (own["alpha"].sum() + 1.0))}

    def entropy(self, own):
        """Differential entropy, nats."""
        alpha = own["alpha"]
        return log_normaliser(alpha) - (alpha - 1.0) @ self.expected_log(own)

    def statistics(self, draws):
        """Sufficient statistics of draws: ln pi, (n_draws, n_components)."""
        return {"alpha": np.log(np.maximum(draws["weights"], _TINY))}

    def log_density(self, own, draws):
        """Log densities of draws["weights"], shape (n_draws,)."""
        log_pi = self.statistics(draws)["alpha"]
        return log_pi @ (own["alpha"] - 1.0) - log_normaliser(own["alpha"])

    def sample(self, own, n, rng):
        """``{"weights": (n, n_components)}``, strictly positive."""
        log_gamma = log_gammas(own["alpha"], n, rng)
        log_gamma -= log_gamma.max(axis=1, keepdims=True)
        weights = np.maximum(np.exp(log_gamma), _TINY)
        return {"weights": weights / weights.sum(axis=1, keepdims=True)}


def log_gammas(shape, n, rng):
    """Logarithms of Gamma draws, (n, len(shape)), finite for every shape."""
    # Gammas of tiny shape underflow to zero, and densities at zero are infinite.
    draws = np.log(rng.standard_gamma(shape + 1.0, (n, len(shape))))
    draws += np.log1p(-rng.random((n, len(shape)))) / shape
    return draws


class StickBreakingWeights:
    """Factor q(V) = prod_k Beta(a_k, b_k) of the sticks that make up the weights.

    ``pi_k = V_k prod_{j<k} (1 - V_j)``, ``V_k ~ Beta(1, alpha_k)`` for infinitely many
    k (Blei and Jordan 2006, section 3.2). Only the posterior is truncated: clusters
    beyond the last have no rows and keep their prior, so the bound is one on the
    evidence of the infinite mixture, and the weights leave a rest, ``prod_k (1 -
    V_k)``. A row adds its responsibilities to ``a``, and those of later clusters to
    ``b``.
    """

    name = "weights"
    exchangeable = False

    def __init__(self, alpha):
        alpha = np.asarray(alpha, dtype=float)
        self.prior = {"a": np.ones_like(alpha), "b": alpha}

    @property
    def shapes(self):
        """Shapes of what one draw holds."""
        return {"weights": self.prior["a"].shape, "leftover": ()}

    # --- updates

    def target(self, natural, statistics):
        """Natural parameter of the optimal factor, given summed statistics."""
        count = statistics["count"]
        return {
            "a": self.prior["a"] + count,
            "b": self.prior["b"] + _sum_of_later(count),
        }

    def cone(self, own):
        """The domain: both parameters of every Beta distribution are positive."""
        return Cone((own["a"], own["b"]))

    def permuted(self, own, order):
        """The optimal factor for another order of clusters, since sticks are not
        exchangeable."""
        count = own["a"] - self.prior["a"]
        return self.target(None, {"count": np.take(count, order)})

    # --- summaries

    def mean(self, own):
        """Expected weights over their sum, shape (n_components,), as scikit-learn's."""
        stick = own["a"] / (own["a"] + own["b"])
        weights = stick * np.append(1.0, np.cumprod(1.0 - stick[:-1]))
        return weights / weights.sum()

    def moments(self, own):
        """Means and covariances of weights and leftover, by name."""
        # The leftover is what a stick of length one would take.
        a, b = np.append(own["a"], 1.0), np.append(own["b"], 0.0)
        stick = a / (a + b)
        square = stick * (a + 1.0) / (a + b + 1.0)
        mean = stick * _product_of_earlier(1.0 - stick)
        # E[(1 - V)^2] of the earlier sticks, E[V (1 - V)] of the first of a pair.
        both = _product_of_earlier(1.0 - 2.0 * stick + square)
        second = np.zeros((len(a), len(a)))
        for j in range(len(a)):
            between = _product_of_earlier(1.0 - stick[j + 1 :])
            mixed = both[j] * (stick[j] - square[j])
            second[j, j] = both[j] * square[j]
            second[j, j + 1 :] = mixed * stick[j + 1 :] * between
            second[j + 1 :, j] = second[j, j + 1 :]
        covariance = second - np.outer(mean, mean)
        return {
            "weights": (mean[:-1], covariance[:-1, :-1]),
            "leftover": (mean[-1], covariance[-1, -1]),
        }

    def expected_log(self, own):
        """E[ln pi], shape (n_components,)."""
        log_stick, log_rest = self._expected_logs(own)
        return log_stick + np.append(0.0, np.cumsum(log_rest[:-1]))

    def kl(self, own):
        """KL from the prior, nats."""
        gain = self._inner(own, self.prior)
        return gain - _log_beta_normaliser(own) + _log_beta_normaliser(self.prior)

    def entropy(self, own):
        """Differential entropy, nats."""
        flat = {"a": 1.0, "b": 1.0}
        sticks = _log_beta_normaliser(own) - self._inner(own, flat)
        # From sticks to weights: each is a share of what the earlier ones leave.
        _, log_rest = self._expected_logs(own)
        return sticks + np.sum(np.cumsum(log_rest[:-1]))

    # --- draws

    def statistics(self, draws):
        """Sufficient statistics of draws: ln V and ln (1 - V), (n_draws, ...)."""
        whole, rest = _remainders(draws)
        log_whole = np.log(whole)
        weights = np.maximum(draws["weights"], _TINY)
        return {"a": np.log(weights) - log_whole, "b": np.log(rest) - log_whole}

    def log_density(self, own, draws):
        """Log densities of draws["weights"], shape (n_draws,)."""
        logs = self.statistics(draws)
        log_density = logs["a"] @ (own["a"] - 1.0) + logs["b"] @ (own["b"] - 1.0)
        jacobian = np.log(_remainders(draws)[0]).sum(axis=1)
        return log_density - jacobian - _log_beta_normaliser(own)

    def sample(self, own, n, rng):
        """``{"weights": (n, n_components), "leftover": (n,)}``, strictly positive."""
        taken, left = (log_gammas(own[key], n, rng) for key in ("a", "b"))
        both = np.logaddexp(taken, left)
        log_rest = np.cumsum(left - both, axis=1)
        earlier = np.pad(log_rest[:, :-1], ((0, 0), (1, 0)))
        weights = np.exp(taken - both + earlier)
        return {
            "weights": np.maximum(weights, _TINY),
            "leftover": np.maximum(np.exp(log_rest[:, -1]), _TINY),
        }

    def _expected_logs(self, own):
        """E[ln V] and E[ln (1 - V)]."""
        total = psi(own["a"] + own["b"])
        return psi(own["a"]) - total, psi(own["b"]) - total

    def _inner(self, own, other):
        log_stick, log_rest = self._expected_logs(own)
        rise = (own["a"] - other["a"]) * log_stick
        return np.sum(rise + (own["b"] - other["b"]) * log_rest)


def _sum_of_later(count):
    """For each entry the sum of those after it."""
    return np.append(np.cumsum(count[:0:-1])[::-1], 0.0)


def _product_of_earlier(factors):
    """For each entry the product of those before it."""
    return np.append(1.0, np.cumprod(factors[:-1]))[: len(factors)]


def _remainders(draws):
    """What is left before each stick is broken and after it, (n_draws, ...)."""
    # Sums of what comes later: differences from one would cancel.
    weights = np.maximum(draws["weights"], _TINY)
    ends = np.maximum(np.asarray(draws["leftover"])[:, None], _TINY)
    parts = np.concatenate([weights, ends], axis=1)
    sums = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1]
    return sums[:, :-1], sums[:, 1:]


def _log_beta_normaliser(own):
    return betaln(own["a"], own["b"]).sum()
