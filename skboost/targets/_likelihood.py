"""What a generalised linear model brings of its own: the likelihood of one row."""

from copy import copy

import numpy as np
from scipy.special import gammaln

from skboost._math import bounded_exp
from skboost._parallel import scratch
from skboost.targets._design import sum_log
from skboost.targets._logistic_gaussian import (
    logistic_gaussian_expectations,
    softmax_gaussian_expectations,
)


class WeightedRows:
    """A block of rows with responses and weights, times the temperature; one if all
    equal."""

    def __init__(self, block, temperature=1.0):
        self.block, self.y = block, block.table.y
        weight = block.table.weight
        self.weight = weight if temperature == 1.0 else temperature * weight

    @property
    def weights(self):
        """Weights as an array (n_rows,)."""
        if isinstance(self.weight, float):
            return np.full(len(self.y), self.weight)
        return self.weight

    def sum(self, values):
        """Column sums of weights times ``values``."""
        return self.weights @ values

    def sum_log(self, values, limit=512):
        """Column sums of weights times ``ln values``, destroyed, `limit` to a
        product."""
        if isinstance(self.weight, float):
            return self.weight * sum_log(values, limit)
        return self.weight @ np.log(values, out=values)

    def pull(self, slope):
        """``X^T (weights * slope)``, (dim, n_draws); destroys ``slope``."""
        if isinstance(self.weight, float):
            return self.weight * self.block.pull(slope)
        slope *= self.weight[:, None]
        return self.block.pull(slope)


class Likelihood:
    """Log likelihood of one row as a function of its linear predictors.

    A subclass with one linear predictor gives

    - ``value_and_slope(eta, y)``: the log likelihood in nats of every row and draw,
      without the part that ``linear`` gives, and its derivative in ``eta`` (n_rows,
      n_draws), which is free to be overwritten; ``y`` is (n_rows, 1);
    - ``expected(mean, sd, y)``: expectations of the whole log likelihood where
      eta ~ N(mean, sd^2), of its derivative and of minus its second one, all (n_rows,);
    - for rows with group effects ``bend(eta, y)`` and ``third(eta, y)``: minus the
      second and the third derivative, and in the parameters that rows share
      ``by_level(eta, value, slope, y)``, derivatives of the value, and
      ``curves_by_level(eta, y)``, of the slope and of the bend, (n_further, n_rows,
      n_draws);

    and may have faster sums over rows (``linear``, ``total``, ``total_and_slope``). One
    with several linear predictors has arrays (n_outputs, n_rows, n_draws) in place of
    (n_rows, n_draws), and gives ``total``, ``total_and_slope`` and ``expected_rows``.
    """

    n_outputs = 1
    # Whether the log likelihood of a row is concave in its linear predictors.
    log_concave = False
    # Whether it is linear in y, but for a constant: rows that differ in y alone are
    # then one row with the mean of y.
    linear_in_y = False
    # Parameters more that all rows share, whose logarithms ``given`` takes.
    n_further = 0
    # How far a linear predictor moves in a Newton step: an exponential may overshoot.
    longest_step = 2.0
    # Arrays of the size (n_rows, n_draws) that are alive at once; they set how many
    # rows are taken together.
    n_temporaries = 1

    def given(self, *levels):
        """The likelihood where the parameters that rows share are known."""
        return self

    def own_terms(self, y, weight, *levels):
        """What eta does not enter, over rows, and its slope in the last parameter."""
        zeros = np.zeros(len(levels[0]))
        return zeros, zeros

    def climb_bend(self, eta, y):
        """Positive curvatures for climbs; ``true_bend`` has others where ``bend`` is
        made so."""
        return self.bend(eta, y)

    def slope_and_bend(self, eta, y):
        """What a Newton step needs: a slope, and what ``climb_bend`` says."""
        return self.value_and_slope(eta.copy(), y)[1], self.climb_bend(eta, y)

    def finer(self):
        """The likelihood with smaller errors of its expectations: there are none."""
        return self

    def expected_rows(self, mean, covariance, y):
        """Expectations of the log likelihood where linear predictors are Gaussian.

        Of the whole (n_rows,), derivatives (n_outputs, n_rows), minus second ones
        (n_pairs, n_rows).
        """
        value, slope, bend = self.expected(mean[0], np.sqrt(covariance[0]), y)
        return value, slope[None], bend[None]

    def linear(self, y):
        """``a``, zero by default, of a log likelihood ``a * eta + value``, for sums
        done once."""
        return np.zeros(len(y))

    def total(self, eta, rows):
        """Weighted sum (n_draws,) without the linear part; eta may be overwritten."""
        return rows.sum(self.value_and_slope(eta, rows.y[:, None])[0])

    def total_and_slope(self, eta, rows):
        """``total`` and its gradient, (dim, n_draws) for each linear predictor."""
        value, slope = self.value_and_slope(eta, rows.y[:, None])
        return rows.sum(value), rows.pull(slope)


class Logistic(Likelihood):
    """``ln p(y | eta) = y eta - ln(1 + exp(eta))``, ``(y - 1/2) eta`` and an even
    part."""

    log_concave = True
    linear_in_y = True

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
        value = -np.abs(eta)
        slope = np.exp(value)
        slope += 1.0
        value *= 0.5
        value -= np.log(slope)
        # 1 / (1 + exp(-|eta|)) - 1/2 = tanh(|eta| / 2) / 2
        np.reciprocal(slope, out=slope)
        slope -= 0.5
        return value, np.copysign(slope, -eta, out=slope)

    def bend(self, eta, y):
        return 0.25 / np.cosh(np.clip(0.5 * eta, -300.0, 300.0)) ** 2

    def third(self, eta, y):
        return self.bend(eta, y) * np.tanh(0.5 * eta)

    def expected(self, mean, sd, y):
        softplus, sigmoid, bend = logistic_gaussian_expectations(mean, sd)
        return y * mean - softplus, y - sigmoid, bend


class OverdispersionWarning(UserWarning):
    """Counts vary more around their means than the Poisson likelihood allows."""


class Poisson(Likelihood):
    """``ln p(y | eta) = y eta - exp(eta) - ln(y!)``, also of counts that are no
    integers."""

    log_concave = True
    linear_in_y = True
    n_temporaries = 2

    def checked(self, y, n_samples):
        """Responses as an array (n_samples,); a ValueError where they mean nothing."""
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


class Multinomial(Likelihood):
    """``ln p(y | eta) = eta_y - ln(sum_k exp(eta_k))``; classes have own
    coefficients."""

    log_concave = True

    def __init__(self, n_classes):
        self.n_outputs = n_classes
        self.n_temporaries = n_classes + 2
        # Nodes for the narrowest rows; they are doubled for wider ones.
        self.n_nodes = 64
        # Sums of n_classes terms of at most 1 stay far from overflow in a product.
        self._limit = max(1, min(512, int(600 / np.log(n_classes))))

    def linear(self, y):
        return (y[:, None] == np.arange(self.n_outputs)).astype(float)

    def _exponentials(self, eta):
        """exp(eta - top), their sum over classes and top = max over classes (n, S)."""
        top = eta.max(axis=0)
        eta -= top
        np.exp(eta, out=eta)
        return eta, eta.sum(axis=0), top

    def total(self, eta, rows):
        """Minus the weighted sum of the logs of the normalisers."""
        _, total, top = self._exponentials(eta)
        return -(rows.sum(top) + rows.sum_log(total, self._limit))

    def total_and_slope(self, eta, rows):
        exp, total, top = self._exponentials(eta)
        exp *= rows.weights[:, None] / total
        slope = np.stack([rows.block.pull(part) for part in exp])
        return -(rows.sum(top) + rows.sum_log(total, self._limit)), -slope

    def finer(self):
        """The same with eight times the nodes: a search follows errors of its own."""
        view = copy(self)
        view.n_nodes = 8 * self.n_nodes
        return view

    def expected_rows(self, mean, covariance, y):
        """Expectations for Gaussian linear predictors; see `Likelihood`."""
        first, second = np.triu_indices(self.n_outputs)
        full = np.empty((mean.shape[1], self.n_outputs, self.n_outputs))
        full[:, first, second] = full[:, second, first] = covariance.T
        log_sum, probability, products = softmax_gaussian_expectations(
            mean.T, full, self.n_nodes
        )
        every = np.arange(self.n_outputs)
        # The rows of the second derivatives sum to zero; so written, none is negative.
        products[:, every, every] -= products.sum(axis=2)
        slope = (y == every[:, None]) - probability.T
        return (
            mean[y, np.arange(len(y))] - log_sum,
            slope,
            -products[:, first, second].T,
        )
