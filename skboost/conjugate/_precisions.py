"""Precisions of normal distributions: known, or with Gamma distributions."""

import numpy as np
from scipy.special import digamma, gammaln

from skboost.conjugate._natural import Cone


class KnownPrecisions:
    """Precisions that are given.

    Parameters
    ----------
    scale : float or ndarray
        Standard deviations.
    """

    factors = ()

    def __init__(self, scale):
        self.scale = scale

    def expected(self, natural):
        """E[tau] and E[ln tau]."""
        return self.scale**-2.0, -2.0 * np.log(self.scale)

    def variance(self, natural):
        """1 / E[tau]."""
        return self.scale**2.0

    def kl(self, natural):
        """Nothing is inferred."""
        return 0.0

    def start(self, variance):
        """No natural parameters."""
        return {}


def worth_one(variance):
    """Prior of precisions that is worth one normal variable of this variance."""
    variance = np.asarray(variance, dtype=float)
    return {"shape": np.full(variance.shape, 0.5), "rate": 0.5 * variance}


class GammaPrecisions:
    """Precisions tau ~ Gamma(shape, rate): the variances are inverse-Gamma.

    Parameters
    ----------
    name : str
    prior : dict
        ``shape`` and ``rate``.
    evidence : callable
        ``evidence(natural, statistics)``: how many normal variables have these
        precisions, and their expected sums of squares.
    """

    def __init__(self, name, prior, evidence):
        self.name, self.prior, self._evidence = name, prior, evidence

    @property
    def factors(self):
        """The one factor: this."""
        return (self,)

    def target(self, natural, statistics):
        """The optimum of q."""
        count, squares = self._evidence(natural, statistics)
        return {
            "shape": self.prior["shape"] + 0.5 * count,
            "rate": self.prior["rate"] + 0.5 * squares,
        }

    def cone(self, own):
        """Shape and rate must be positive."""
        return Cone((own["shape"], own["rate"]))

    def expected(self, natural):
        """E[tau] and E[ln tau]."""
        shape, rate = natural[self.name]["shape"], natural[self.name]["rate"]
        return shape / rate, digamma(shape) - np.log(rate)

    def variance(self, natural):
        """1 / E[tau], which is finite for any number of observations."""
        return natural[self.name]["rate"] / natural[self.name]["shape"]

    def kl(self, natural):
        """KL of all of them from the prior, nats."""
        a, b = natural[self.name]["shape"], natural[self.name]["rate"]
        c, d = self.prior["shape"], self.prior["rate"]
        found = (a - c) * digamma(a) - gammaln(a) + gammaln(c)
        return float(np.sum(found + c * np.log(b / d) + a * (d / b - 1.0)))

    def start(self, variance):
        """Natural parameters with given variances, and little weight."""
        shape = self.prior["shape"] + 1.0
        return {self.name: {"shape": shape, "rate": shape * variance}}
