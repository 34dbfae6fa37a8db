"""Likelihoods of logistic regression with two classes and of Poisson regression."""

from copy import copy

import numpy as np
from scipy.special import gammaln

from skboost._parallel import scratch
from skboost.targets._likelihood import Likelihood
from skboost.targets._logistic_gaussian import logistic_gaussian_expectations
from skboost.targets._noise import bounded_exp


class Logistic(Likelihood):
    """``ln p(y | eta) = y eta - ln(1 + exp(eta))`` for y of 0 and 1.

    It is ``(y - 1/2) eta`` plus an even function of eta, and is summed as these two.
    """

    log_concave = True
    linear_in_y = True
    _coarse = False

    def checked(self, y, n_samples):
        y = np.asarray(y, dtype=float)
        if y.shape != (n_samples,) or np.any(y * (1.0 - y)):
            raise ValueError(
                f"y must hold 0 and 1, shape ({n_samples},); got shape "
                f"{y.shape} and values such as {y.ravel()[:5]}."
            )
        return y

    def linear(self, y):
        return y - 0.5

    def total(self, eta, rows):
        """``-sum_i w_i (|eta_i| / 2 + ln(1 + exp(-|eta_i|)))``."""
        np.abs(eta, out=eta)
        total = 0.5 * rows.sum(eta)
        np.exp(np.negative(eta, out=eta), out=eta)
        eta += 1.0
        return -(total + rows.sum_log(eta))

    def total_and_slope(self, eta, rows):
        """The same through tanh(eta / 2), which gives the slope too."""
        eta *= 0.5
        size = np.abs(eta, out=scratch("sizes", eta.shape))
        total = rows.sum(size)
        np.tanh(eta, out=eta)
        np.abs(eta, out=size)
        # ln(1 + exp(-|eta|)) = -ln((1 + tanh(|eta| / 2)) / 2)
        size += 1.0
        size *= 0.5
        total -= rows.sum_log(size)
        return -total, -0.5 * rows.pull(eta)

    def value_and_slope(self, eta, y):
        """``-|eta| / 2 - ln(1 + exp(-|eta|))``, even in eta, and its slope."""
        half = np.tanh(0.5 * eta)
        value = -0.5 * np.abs(eta) - np.log1p(np.exp(-np.abs(eta)))
        return value, -0.5 * half

    def bend(self, eta, y):
        return 0.25 / np.cosh(np.clip(0.5 * eta, -300.0, 300.0)) ** 2

    def third(self, eta, y):
        return self.bend(eta, y) * np.tanh(0.5 * eta)

    def expected(self, mean, sd, y):
        softplus, sigmoid, bend = logistic_gaussian_expectations(mean, sd, self._coarse)
        return y * mean - softplus, y - sigmoid, bend

    def coarse(self):
        view = copy(self)
        view._coarse = True
        return view


class Poisson(Likelihood):
    """``ln p(y | eta) = y eta - exp(eta) - ln(y!)`` for y not negative.

    Counts that are no integers are taken as they are, ``y!`` as a gamma function.
    """

    log_concave = True
    linear_in_y = True
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

    def bend(self, eta, y):
        return bounded_exp(eta)

    def third(self, eta, y):
        return -bounded_exp(eta)

    def expected(self, mean, sd, y):
        rate = bounded_exp(mean + 0.5 * sd**2)
        return y * mean - rate - gammaln(y + 1.0), y - rate, rate
