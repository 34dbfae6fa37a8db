"""Likelihood of Poisson regression with a log link."""

import numpy as np
from scipy.special import gammaln

from skboost.targets._likelihood import Likelihood
from skboost.targets._noise import bounded_exp


class Poisson(Likelihood):
    """``ln p(y | eta) = y eta - exp(eta) - ln(y!)`` for y not negative.

    Counts that are no integers are taken as they are, ``y!`` as a gamma function.
    """

    log_concave = True
    n_temporaries = 2
    light_tails = True

    def checked(self, y, n_samples):
        y = np.asarray(y, dtype=float)
        if y.shape != (n_samples,) or not np.isfinite(y).all() or np.any(y < 0):
            raise ValueError(
                f"y must hold counts (finite, not negative), shape ({n_samples},); "
                f"got shape {y.shape} and the smallest value {np.min(y, initial=0)}."
            )
        return y

    def linear(self, y):
        return y

    def value_and_slope(self, eta, y):
        rate = bounded_exp(eta)
        return -rate - gammaln(y + 1.0), -rate

    def expected(self, mean, sd, y):
        rate = bounded_exp(mean + 0.5 * sd**2)
        return y * mean - rate - gammaln(y + 1.0), y - rate, rate
