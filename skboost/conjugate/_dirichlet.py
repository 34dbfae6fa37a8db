"""The Dirichlet distribution of mixture weights."""

import numpy as np
from scipy.special import gammaln, psi

from skboost.conjugate._natural import Cone

_TINY = np.finfo(float).tiny


class DirichletWeights:
    """Factor q(pi) = Dirichlet(alpha) of a mixture's weights.

    Natural parameter: ``{"alpha": (n_components,)}``; a row adds its responsibilities.

    Parameters
    ----------
    alpha : ndarray of shape (n_components,)
        Of the prior; ``a / n_components`` each is the finite approximation of a
        Dirichlet process with concentration a (Paisley et al., section IV-E).
    """

    name = "weights"

    def __init__(self, alpha):
        self.prior = {"alpha": np.asarray(alpha, dtype=float)}

    @property
    def shapes(self):
        """Shapes of what one draw holds."""
        return {"weights": self._prior.shape}

    def target(self, natural, statistics):
        """Natural parameter of the optimal factor, given summed statistics."""
        return {"alpha": self.prior["alpha"] + statistics["count"]}

    def cone(self, own):
        """The domain: every alpha is positive."""
        return Cone((own["alpha"],))

    def permuted(self, own, order):
        """The same distribution of clusters in another order."""
        return {"alpha": np.take(own["alpha"], order)}

    def mean(self, own):
        """Expected weights, shape (n_components,)."""
        return own["alpha"] / own["alpha"].sum()

    def moments(self, own):
        """Mean and covariance of the weights.

        Returns
        -------
        dict of str to pair of ndarray
            ``weights``: (n_components,) and (n_components, n_components).
        """
        mean = self.mean(own)
        covariance = np.diag(mean) - np.outer(mean, mean)
        return {"weights": (mean, covariance / (own["alpha"].sum() + 1.0))}

    def expected_log(self, own):
        """E[ln pi], shape (n_components,)."""
        return psi(own["alpha"]) - psi(own["alpha"].sum())

    def kl(self, own):
        """KL from the prior, nats."""
        rise = own["alpha"] - self.prior["alpha"]
        gain = rise @ self.expected_log(own)
        return gain - _log_normaliser(own["alpha"]) + _log_normaliser(self._prior)

    def entropy(self, own):
        """Differential entropy, nats."""
        return _log_normaliser(own["alpha"]) - (own["alpha"] - 1.0) @ self.expected_log(
            own
        )

    def statistics(self, draws):
        """Sufficient statistics of draws: ln pi, (n_draws, n_components)."""
        return {"alpha": np.log(np.maximum(draws["weights"], _TINY))}

    def log_density(self, own, draws):
        """Log densities of draws["weights"], shape (n_draws,)."""
        log_pi = self.statistics(draws)["alpha"]
        return log_pi @ (own["alpha"] - 1.0) - _log_normaliser(own["alpha"])

    def sample(self, own, n, rng):
        """``{"weights": (n, n_components)}``, strictly positive."""
        log_gamma = log_gammas(own["alpha"], n, rng)
        log_gamma -= log_gamma.max(axis=1, keepdims=True)
        weights = np.maximum(np.exp(log_gamma), _TINY)
        return {"weights": weights / weights.sum(axis=1, keepdims=True)}

    @property
    def _prior(self):
        return self.prior["alpha"]


def log_gammas(shape, n, rng):
    """Logarithms of Gamma draws, (n, len(shape)), finite for every shape."""
    # Gammas of tiny shape underflow to zero, and densities at zero are infinite.
    draws = np.log(rng.standard_gamma(shape + 1.0, (n, len(shape))))
    draws += np.log1p(-rng.random((n, len(shape)))) / shape
    return draws


def _log_normaliser(alpha):
    return gammaln(alpha).sum() - gammaln(alpha.sum())
