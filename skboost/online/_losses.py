"""Losses of one row as functions of its linear predictor, a Gaussian variable.

Each has the first two derivatives of ``E[-ln p(y | t)]``, t ~ N(mean, sd^2), in the
mean; half the second is the derivative in the variance. ``one`` takes one row and is
written so that numba can compile it; ``many`` takes arrays.
"""

import numpy as np

from skboost.targets import logistic_gaussian_expectations, scalar_rules

_EDGES, _FIRST, _NODES, _WEIGHTS, _HALF_WIDTH, _N_DIRECT = scalar_rules()
# A walk over so few is faster than a call.
_EDGES = tuple(_EDGES.tolist())

# Beyond it the logistic function is flat in double precision, and its exponential soon
# infinite.
_FLAT = 600.0


def _logistic(mean, sd, y, noise_scale):
    rule = 0
    for edge in _EDGES:
        if sd <= edge:
            break
        rule += 1
    begin, end = _FIRST[rule], _FIRST[rule + 1]
    nodes, weights = _NODES[begin:end], _WEIGHTS[begin:end]
    if rule < _N_DIRECT:
        lower = 1.0 / (1.0 + np.exp(sd * nodes + min(abs(mean), _FLAT)))
        sigmoid = weights @ lower
        slope = sigmoid - weights @ (lower * lower)
    else:
        # The transform of the slope is t / sinh(pi t), that of the sigmoid 1 / sinh.
        decay = np.expm1(-np.pi / sd * nodes)
        weighted = -2.0 * weights * (decay + 1.0) / (decay * (decay + 2.0)) / sd
        angle = nodes * min(abs(mean) / sd, _HALF_WIDTH[rule])
        sigmoid = max(0.5 - weighted @ np.sin(angle), 0.0)
        slope = max((weighted * np.cos(angle)) @ nodes / sd, 0.0)
    return (1.0 - sigmoid if mean > 0.0 else sigmoid) - y, slope


def _gaussian(mean, sd, y, noise_scale):
    precision = 1.0 / (noise_scale * noise_scale)
    return (mean - y) * precision, precision


class LogisticLoss:
    """``-ln p(y | t) = ln(1 + exp(t)) - y t`` for y of 0 and 1, nats."""

    noise_scale = 1.0
    one = staticmethod(_logistic)

    def many(self, mean, sd, y):
        """Derivatives for arrays of rows."""
        _, sigmoid, slope = logistic_gaussian_expectations(mean, sd)
        return sigmoid - y, slope

    def at(self, eta, y):
        """Loss of linear predictors that are known."""
        return np.logaddexp(0.0, eta) - y * eta


class GaussianLoss:
    """``-ln N(y; t, noise_scale^2)``, nats.

    Parameters
    ----------
    noise_scale : float
    """

    one = staticmethod(_gaussian)

    def __init__(self, noise_scale):
        self.noise_scale = float(noise_scale)

    def many(self, mean, sd, y):
        """Derivatives for arrays of rows."""
        precision = self.noise_scale**-2.0
        return (mean - y) * precision, np.full(len(mean), precision)

    def at(self, eta, y):
        """Loss of linear predictors that are known."""
        scale = self.noise_scale
        return 0.5 * ((y - eta) / scale) ** 2 + np.log(scale * np.sqrt(2.0 * np.pi))
