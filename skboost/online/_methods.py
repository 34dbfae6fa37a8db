"""The published updates of a Gaussian posterior after one loss.

With independent coordinates the loss of a batch enters by two vectors, times the size
of the step: ``grad``, the gradient of its expectation in the means, and ``curv``, whose
j-th entry is ``sum_i E[-l_i''] x_ij^2``, so that the derivative in the j-th standard
deviation is ``curv_j sd_j``. Besides, a step gives a share of the old natural
parameters back to the prior. What differs by method is three small functions of the
rows of a ``state``, whose first is the mean; numba can compile them.

``h(x) = sqrt(1 + x^2) - x`` of the papers is 1 / (sqrt(1 + x^2) + x), which cancels
nothing for x of at least 0.
"""

import numpy as np

from skboost.svi import LearningRate
from skboost.targets import logistic_gaussian_expectations, scalar_rules

# --- losses of one row as functions of its linear predictor, a Gaussian variable
#
# Each has the first two derivatives of E[-ln p(y | t)], t ~ N(mean, sd^2), in the mean;
# half the second is the derivative in the variance. ``one`` takes one row and is
# written so that numba can compile it; ``many`` takes arrays.

_EDGES, _FIRST, _NODES, _WEIGHTS, _HALF_WIDTH, _N_DIRECT = scalar_rules()
# A walk over so few is faster than a call.
_EDGES = tuple(_EDGES.tolist())


def _logistic(mean, sd, y, noise_scale):
    rule = 0
    for edge in _EDGES:
        if sd <= edge:
            break
        rule += 1
    begin, end = _FIRST[rule], _FIRST[rule + 1]
    nodes, weights = _NODES[begin:end], _WEIGHTS[begin:end]
    if rule < _N_DIRECT:
        # Beyond 600 the logistic function is flat in double precision, and its
        # exponential soon infinite.
        lower = 1.0 / (1.0 + np.exp(sd * nodes + min(abs(mean), 600.0)))
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
    """``-ln N(y; t, noise_scale^2)``, nats."""

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


# --- learning rates: positive numbers, not bounded by 1


class PowerRate(LearningRate):
    """``rate * step ** power`` at a step counted from 1.

    Parameters
    ----------
    rate : float, default=1.0
        Rate of the first step, positive.
    power : float, default=-0.5
        -0.5 is the rate of the regret bounds of order sqrt(T); 1 lets the
        natural-gradient method keep what it has learned.

    Examples
    --------
    >>> from skboost import OnlineBayesianLogisticRegression
    >>> from skboost.strategies import PowerRate
    >>> OnlineBayesianLogisticRegression(learning_rate=PowerRate(0.5))
    OnlineBayesianLogisticRegression(learning_rate=PowerRate(rate=0.5))
    """

    def __init__(self, rate=1.0, power=-0.5):
        self.rate = rate
        self.power = power

    def at(self, step):
        return self.rate * float(step) ** self.power


# --- the updates


def _sva_variance(state, scale):
    x = state[1]
    sd = scale / (np.hypot(1.0, x) + x)
    return sd * sd


def _sva_discount(state, scale, factor):
    state[0] *= factor
    state[1] *= factor


def _sva_step(state, scale, variance, grad, curv, share):
    state[0] -= scale * scale * grad
    state[1] += 0.5 * scale * np.sqrt(variance) * curv


def _svb_variance(state, scale):
    return state[1] * state[1]


def _svb_discount(state, scale, factor):
    # Natural parameters of the state move toward those of the prior.
    prior = 1.0 / (scale * scale)
    precision = 1.0 / (state[1] * state[1])
    new = prior + factor * (precision - prior)
    state[0] *= factor * precision / new
    state[1] = 1.0 / np.sqrt(new)


def _svb_step(state, scale, variance, grad, curv, share):
    state[0] -= variance * grad
    x = 0.5 * variance * curv
    state[1] /= np.hypot(1.0, x) + x


def _ngvi_variance(state, scale):
    return 1.0 / state[1]


def _ngvi_discount(state, scale, factor):
    prior = 1.0 / (scale * scale)
    new = prior + factor * (state[1] - prior)
    state[0] *= factor * state[1] / new
    state[1] = new


def _ngvi_step(state, scale, variance, grad, curv, share):
    if share > 0.0:
        prior = 1.0 / (scale * scale)
        state[1] += share * (prior - state[1]) + curv
        state[0] -= (share * prior * state[0] + grad) / state[1]
    else:
        state[1] += curv
        state[0] -= grad / state[1]


class OnlineMethod:
    """One way to take a loss in; what is public of it."""

    covariances = ("diag",)
    # Whether an infinite learning rate has a meaning.
    accumulates = False
    # A scale for coefficients of which nothing is known that its steps bear: those of
    # gradient methods grow with the square.
    wide_scale = 10.0

    def default_rate(self, noise_variance):
        """Learning rate of ``learning_rate="auto"``."""
        # Chosen on two streams, generated rows of a logistic model and breast cancer,
        # and for the linear model on generated rows and diabetes.
        return 1.0

    def start(self, scale):
        """The state of the prior N(0, diag(scale^2))."""
        raise NotImplementedError

    def schedule(self, rates, beta):
        """Size of every step and its share of the prior, shape (n, 2)."""
        return np.column_stack([rates, np.zeros_like(rates)])


class SVA(OnlineMethod):
    """Sequential variational approximation (Alquier 2019, Algorithm 3)."""

    # It follows the sum of all gradients so far from the prior, each times the rate of
    # its own step. The state is the mean, and the argument of h: half the sum of the
    # gradients in the standard deviations, times the prior's.

    wide_scale = 1.0
    variance = staticmethod(_sva_variance)
    discount = staticmethod(_sva_discount)
    step = staticmethod(_sva_step)

    def default_rate(self, noise_variance):
        return PowerRate(0.2 * noise_variance, -0.5)

    def start(self, scale):
        return np.zeros((2, len(scale)))


class SVB(OnlineMethod):
    """Streaming variational Bayes: a row's prior is the posterior before it."""

    # The state is the mean and the standard deviations.

    wide_scale = 1.0
    variance = staticmethod(_svb_variance)
    discount = staticmethod(_svb_discount)
    step = staticmethod(_svb_step)

    def default_rate(self, noise_variance):
        return 0.1 * noise_variance

    def start(self, scale):
        return np.stack([np.zeros(len(scale)), scale])


class NGVI(OnlineMethod):
    """Natural-gradient variational inference (Khan and Lin 2017)."""

    # The state is the mean and the precisions.

    covariances = ("diag", "full")
    accumulates = True
    variance = staticmethod(_ngvi_variance)
    discount = staticmethod(_ngvi_discount)
    step = staticmethod(_ngvi_step)

    def default_rate(self, noise_variance):
        return np.inf

    def start(self, scale):
        return np.stack([np.zeros(len(scale)), scale**-2.0])

    def schedule(self, rates, beta):
        share = beta / (rates + beta)
        # rates * share, which an infinite rate leaves finite.
        return np.column_stack([beta / (1.0 + beta / rates), share])


class EWA(OnlineMethod):
    """Exponentially weighted aggregation (Alquier 2019, Algorithm 2)."""

    # Exact for the linear model with normal noise; there it is a natural-gradient step
    # that gives nothing back to the prior.

    covariances = ("full",)


ONLINE_METHODS = {"sva": SVA, "svb": SVB, "ngvi": NGVI, "ewa": EWA}
