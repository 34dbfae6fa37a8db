"""Dirichlet factors: weights of a mixture, words of topics."""

import numpy as np
from scipy.special import gammaln, psi

from skboost.conjugate._natural import Cone


class DirichletFactor:
    """Dirichlet distributions over the first axis of ``{key: parameters}``."""

    name: str
    key: str

    def __init__(self, prior):
        self.prior = {self.key: np.asarray(prior, dtype=float)}

    @property
    def _prior(self):
        return self.prior[self.key]

    def target(self, natural, statistics):
        """Natural parameter of the optimal factor, given summed statistics."""
        return {self.key: self._prior + statistics["count"]}

    def cone(self, own):
        """The domain: every parameter is positive."""
        return Cone((own[self.key],))

    def mean(self, own):
        """Expected probabilities, of the shape of the parameters."""
        return own[self.key] / own[self.key].sum(axis=0)

    def expected_log(self, own):
        """Expected logarithms of the probabilities, of the same shape."""
        return psi(own[self.key]) - psi(own[self.key].sum(axis=0))

    def kl(self, own):
        """KL from the prior, nats."""
        rise = own[self.key] - self._prior
        gain = np.vdot(rise, self.expected_log(own))
        return gain - log_normaliser(own[self.key]) + log_normaliser(self._prior)


def log_normaliser(parameters):
    """Sum of the logarithms of the normalisers of Dirichlet densities."""
    return gammaln(parameters).sum() - gammaln(parameters.sum(axis=0)).sum()
