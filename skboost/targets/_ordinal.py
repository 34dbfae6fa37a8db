"""Ordered classes: cumulative logits, of a linear predictor and thresholds.

Notation: a row's class is c in 0, ..., K - 1, eta its linear predictor with an
intercept, C_1 = 0 and C_k = C_(k-1) + exp(g_(k-1)) the thresholds, and
p(class < k) = sigma(C_k - eta). With C_0 = -inf and C_K = inf

    ln p(c) = ln sigma(C_(c+1) - eta) + ln sigma(eta - C_c) + ln(1 - exp(C_c - C_(c+1)))

whose last term, of classes that are neither first nor last, no row enters but by its
class.
"""

import numpy as np
from scipy.special import expit, log_expit

from skboost._math import LOG_2PI, bounded_exp
from skboost.targets._glm import GLMTarget, RowSums, WithFurther
from skboost.targets._likelihood import Likelihood

# Standard deviation of the logarithm of the distance between neighbouring thresholds,
# whose prior mean is zero: distances are between .08 and 12 with probability .9, where
# the noise has a standard deviation of 1.8.
GAP_SCALE = 1.5


class CumulativeLogits(Likelihood):
    """Of `n_classes` ordered classes; its further parameters are logarithms of gaps."""

    n_temporaries = 6

    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.n_gaps = self.n_further = n_classes - 2

    def given(self, *log_gaps):
        gaps = [bounded_exp(gap) for gap in log_gaps]
        return GivenGaps(np.stack([np.zeros(np.shape(gaps[:1])[1:] or 1), *gaps]))


class GivenGaps(Likelihood):
    """The likelihood of a row given gaps, (K - 1, n_draws), the first of which is 0."""

    log_concave = True

    def __init__(self, gaps):
        self.gaps = gaps
        thresholds, far = gaps.cumsum(axis=0), np.full((1, gaps.shape[1]), np.inf)
        self.upper = np.vstack([thresholds, far])
        self.lower = np.vstack([-far, thresholds])
        # Not by thresholds, whose difference loses gaps that are tiny beside them.
        ends, inner = np.zeros((1, gaps.shape[1])), np.log(-np.expm1(-gaps[1:]))
        self.log_masses = np.vstack([ends, inner, ends])
        # The slopes that were computed last, and those in upper thresholds.
        self._last = None, None

    def value_and_slope(self, eta, y):
        above, below = self._ends(eta, y)
        (short, upper), (rest, lower) = map(_logistic, (above, below))
        # One logarithm for both: ln(1 + a) + ln(1 + b).
        value = np.minimum(above, 0.0) + np.minimum(below, 0.0)
        value -= np.log1p(short + rest + short * rest)
        value += self.log_masses[_codes(y)]
        slope = lower - upper
        self._last = slope, upper
        return value, slope

    def bend(self, eta, y):
        return sum(_bell(end) for end in self._ends(eta, y))

    def slope_and_bend(self, eta, y):
        (_, upper), (_, lower) = map(_logistic, self._ends(eta, y))
        slope = lower - upper
        # Of either end it is p (1 - p).
        upper -= upper**2
        lower -= lower**2
        return slope, np.add(upper, lower, out=upper)

    def third(self, eta, y):
        above, below = self._ends(eta, y)
        return _bell_slope(above) - _bell_slope(below)

    def by_level(self, eta, value, slope, y):
        last, upper = self._last
        if last is not slope:
            above, below = self._ends(eta, y)
            upper, slope = expit(-above), expit(-below) - expit(-above)
        mass = -np.exp(-self.gaps[1:]) / np.expm1(-self.gaps[1:])
        return self._by_gap(y, upper, -slope, mass)

    def curves_by_level(self, eta, y):
        ends = self._ends(eta, y)
        above, below = (_bell_slope(end) for end in ends)
        upper, lower = map(_bell, ends)
        none = np.zeros(len(self.gaps) - 1)
        slopes = self._by_gap(y, upper, upper + lower, none)
        return slopes, self._by_gap(y, above, above - below, none)

    def _ends(self, eta, y):
        """C_(c+1) - eta and eta - C_c."""
        return self.upper[_codes(y)] - eta, eta - self.lower[_codes(y)]

    def _by_gap(self, y, upper, both, mass):
        """Slopes in logarithms of gaps, from those in both thresholds and the own
        gap."""
        moved, codes = np.empty((len(self.gaps) - 1, *upper.shape)), _codes(y)
        parts = zip(self.gaps[1:], mass, moved, strict=True)
        for k, (gap, more, out) in enumerate(parts, 1):
            np.multiply(both, (y > k) * gap, out=out)
            own = codes == k
            out[own] = (upper[own] + more) * gap
        return moved


def _codes(y):
    return y[:, 0].astype(int)


def _logistic(t):
    """exp(-|t|), and the logistic function of -t."""
    small = np.exp(-np.abs(t))
    return small, np.where(t > 0.0, small, 1.0) / (1.0 + small)


def _bell(t):
    """Derivative of the logistic function."""
    return expit(t) * expit(-t)


def _bell_slope(t):
    """Its second derivative."""
    return _bell(t) * (expit(-t) - expit(t))


class WithGaps(WithFurther):
    """A prior of coefficients with normal ones of the logarithms of gaps after them."""

    def __init__(self, coef, n_gaps):
        super().__init__(coef, None, n_gaps)
        if not coef.closed:
            # As of `CommonScale`, whose scale gaps have no part in.
            self.shared = np.append(coef.shared, np.zeros(n_gaps, dtype=bool))
            self.roots, self.factor = coef.roots, coef.factor
            self.log_s, self.log_mass = coef.log_s, coef.log_mass

    def _of_further(self, theta, scale):
        z = theta / scale
        constant = 0.5 * self.n_further * LOG_2PI + np.log(scale).sum()
        return -0.5 * (z * z).sum(axis=-1) - constant, -z / scale


class OrdinalRowSums(RowSums):
    """`RowSums` of ordered classes: the gaps come after the coefficients."""

    n_temporaries = 2

    def linear(self, table):
        """See `RowSums.linear`: at draws nothing is left out of the sums."""
        dim = table.n_features + self.intercept + self.likelihood.n_gaps
        return np.zeros(dim), 0.0

    def value(self, columns, table):
        """See `RowSums.value`."""
        return self._at_draws(columns[0], table)[:1]

    def value_and_slope(self, columns, table):
        """See `RowSums.value_and_slope`."""
        value, gaps, above, below, rows = self._at_draws(columns[0], table)
        # Derivatives in the upper and in the lower threshold of a row's class.
        upper, lower = expit(-above), -expit(-below)
        upper[rows.y == self.likelihood.n_classes - 1] = 0.0
        lower[rows.y == 0] = 0.0
        by_threshold = self._by_class(rows, upper, 0) + self._by_class(rows, lower, 1)
        counts = np.bincount(rows.y, rows.weights, self.likelihood.n_classes)[1:-1]
        # All thresholds from the gap on move with it.
        by_gap = by_threshold[::-1].cumsum(axis=0)[::-1][1:]
        by_gap -= counts[:, None] * np.exp(-gaps) / np.expm1(-gaps)
        return value, np.vstack([rows.pull(-upper - lower), by_gap * gaps])

    def expansion(self, theta, bends, table):
        """See `RowSums.expansion`."""
        value, gaps, above, below, rows = self._at_draws(theta[:, None], table)
        _, slope = self.value_and_slope((theta[:, None],), table)
        if not bends:
            return value[0], slope[:, 0]
        place, y = np.arange(len(gaps) + 1), rows.y[:, None]
        # Of each row the bends at the upper and the lower threshold of its class.
        ends = (y == place) * _bell(above), (y == place + 1) * _bell(below)
        each = -rows.weights[:, None] * sum(ends)
        crossed, own = rows.block.pull(each)[:, 1:], -each.sum(axis=0)[1:]
        # Derivatives of thresholds, which are sums of gaps, in logarithms of these.
        turn = np.tril(np.broadcast_to(gaps[:, 0], (len(gaps), len(gaps))))
        across = crossed @ turn
        corner = (turn.T * own) @ turn
        gap = gaps[:, 0]
        counts = np.bincount(rows.y, rows.weights, len(gaps) + 2)[1:-1]
        more = counts * (gap / np.expm1(-gap)) ** 2 * np.exp(-gap)
        # Gaps are exponentials, so that all slopes in their logarithms bend, too.
        corner[np.diag_indices(len(gap))] += more - slope[len(theta) - len(gap) :, 0]
        whole = rows.block.gram(-each.sum(axis=1))
        bend = np.block([[whole, across], [across.T, corner]])
        return value[0], slope[:, 0], bend

    def _at_draws(self, theta, table):
        """The value, gaps (., n_draws), and C_(c+1) - eta and eta - C_c of rows."""
        rows, n_gaps = self.rows(table), self.likelihood.n_gaps
        n = len(theta) - n_gaps
        gaps = bounded_exp(theta[n:])
        thresholds = np.vstack([np.zeros((1, gaps.shape[1])), gaps.cumsum(axis=0)])
        eta = rows.block.predict(theta[:n])
        last = rows.y == n_gaps + 1
        above = thresholds[np.where(last, 0, rows.y)] - eta
        below = eta - thresholds[np.maximum(rows.y - 1, 0)]
        logs = np.where(last[:, None], 0.0, log_expit(above))
        logs += np.where((rows.y == 0)[:, None], 0.0, log_expit(below))
        counts = np.bincount(rows.y, rows.weights, n_gaps + 2)[1:-1]
        value = rows.sum(logs) + counts @ np.log(-np.expm1(-gaps))
        return value, gaps, above, below, rows

    def _by_class(self, rows, slope, shift):
        """Weighted sums of a slope over rows of each threshold, (K - 1, n_draws)."""
        sums = np.zeros((self.likelihood.n_gaps + 1, slope.shape[1]))
        for k in range(len(sums)):
            own = rows.y == k + shift
            sums[k] = rows.weights[own] @ slope[own]
        return sums


class OrdinalTarget(GLMTarget):
    """Log joint density of a regression of ordered classes; searches take draws."""

    _kind_of_sums = OrdinalRowSums
    exact_gaussian = knows_curvature = log_concave = False

    def __init__(self, rows, likelihood, **settings):
        super().__init__(rows, likelihood, **settings)
        n_gaps = likelihood.n_gaps
        self._extend(WithGaps(self.prior, n_gaps), np.full(n_gaps, GAP_SCALE))

    def skewness(self, theta, factor):
        """See `GLMTarget`: by differences of slopes, one deviation along the
        factor's columns."""
        ends = np.concatenate([theta[None], theta + factor.T, theta - factor.T])
        ends = self.centring.back(ends)
        self.ledger.spend(len(ends))
        _, slope = self._over_rows(self._sums.value_and_slope, ends, ends.size)
        slope = self.centring.pushed(slope.reshape(self.dim, -1).T)
        return 0.5 * (slope[1:].sum(axis=0) - 2.0 * len(theta) * slope[0]), True
