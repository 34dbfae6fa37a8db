"""The predictive distribution of counts, Poisson or negative binomial.

Notation as in `skboost.targets._negative_binomial`: eta is the linear predictor with
its offset, lambda the logarithm of the dispersion, None where counts are Poisson.
"""

from functools import partial

import numpy as np
from scipy.special import betaincc, expit, gammaincc, gammaln, wrightomega

from skboost._math import log_sum_exp
from skboost.fitting import warn_where_called
from skboost.linear_model._predictive import Predictive, mixture_parts, posterior_draws
from skboost.serving import CountRegressor
from skboost.targets import (
    Block,
    NegativeBinomial,
    OverdispersionWarning,
    WeightedRows,
    bounded_exp,
    normal_rule,
)

# Of rules for probabilities that are integrated over a dispersion.
_TOL = 1e-8
# Logarithm of the largest mean of counts whose probabilities are summed one by one, and
# how far that goes.
_SUMMED, _LAST_SUMMED = np.log(300.0), 1000


class CountPredictive(Predictive):
    """Predictive quantities of a regression of counts.

    The linear predictor of a row is a mixture of Gaussian variables (of points, for
    families without a quadrature and where few events were seen), so counts are a
    mixture of Poisson-lognormal distributions, one-dimensional integrals each. Where
    they have a dispersion, its logarithm is Gaussian together with the linear
    predictor; it is integrated by a fixed rule, and given its value the linear
    predictor is Gaussian again.
    """

    def __init__(self, mixture, fit_intercept, dispersed=False):
        mixture = mixture.drop_zero_weights()
        fit_intercept, n_linear = bool(fit_intercept), mixture.dim - dispersed
        weights, parts = mixture_parts(mixture, slice(n_linear))
        closed = mixture.gaussian and not _wide(mixture, n_linear - 1, fit_intercept)
        draws = None if closed else posterior_draws(mixture)
        self.levels = dispersion = tilts = None
        if dispersed and draws is not None:
            self.levels, draws = draws[:, -1], draws[:, :-1]
            dispersion = bounded_exp(self.levels)
        elif dispersed:
            moments = map(_of_level, mixture.components)
            means, sds, tilts = (np.array(part) for part in zip(*moments, strict=True))
            self.levels = list(zip(means, sds, strict=True))
            dispersion = bounded_exp(means + 0.5 * sds**2)
        base = (n_linear - fit_intercept, fit_intercept, weights, parts)
        super().__init__(CountRegressor(*base, draws, dispersion, tilts), mixture)

    def log_density(self, X, offset, y):
        """Log predictive probability of every count, (n,), nats."""
        blocks = self._parts(X, offset)
        return np.concatenate(
            [log_mixed_probability(y[rows], *parts) for rows, *parts in blocks]
        )

    def quantiles(self, X, offset, p):
        """Smallest counts whose distribution function reaches p, (n, n_levels)."""
        blocks = self._parts(X, offset)
        return np.concatenate([smallest_counts(p, *parts) for _, *parts in blocks])

    def _parts(self, X, offset):
        """Blocks of rows, as mixtures of parts whose counts have one lambda each.

        Slices, means and deviations (n, n_parts) of eta, lambda of the parts (n_parts,)
        or None, and weights.
        """
        model = self.model
        drawn = model.draws is not None
        width = 64 * len(model.parts) * (1 if self.levels is None else 16)
        for rows, block, means, stds, weights in model.gaussians(X, offset, width):
            if self.levels is None or drawn:
                yield rows, means, stds, self.levels, weights
            else:
                pieces = self._given_levels(block, means, stds, weights)
                yield rows, *map(np.hstack, zip(*pieces, strict=True))

    def _given_levels(self, block, means, stds, weights):
        """What eta is given lambda, at the nodes of a rule for every component."""
        triples = zip(self.levels, self.model.tilts, weights, strict=True)
        for k, ((level, sd), covariance, weight) in enumerate(triples):
            tilt = block @ (covariance / sd)
            rest = np.sqrt(np.maximum(stds[:, k] ** 2 - tilt**2, 0.0))
            # Probabilities are smooth in lambda on the scale of one, as in eta.
            nodes, shares = normal_rule(sd + np.abs(tilt).max(initial=0.0), _TOL)
            centres = means[:, k, None] + tilt[:, None] * nodes
            rests = np.broadcast_to(rest[:, None], centres.shape)
            yield centres, rests, level + sd * nodes, weight * shares


def _wide(mixture, intercept, fit_intercept):
    """Whether so few events were seen that every rate is unknown by a factor of two or
    more: moments of exponentials are then of tails that are not Gaussian.
    """
    if not fit_intercept:
        return False
    parts = [component.structure() for component in mixture.components]
    # Given the coefficients: no row has a linear predictor that varies less.
    squares = [
        factor[intercept, intercept] ** 2 if variance is None else variance[intercept]
        for _, variance, factor in parts
    ]
    return mixture.weights @ squares > 0.5


def _of_level(component):
    """Mean and deviation of the last coordinate, its covariance with the others."""
    mean, _, factor = component.structure()
    others = np.zeros(len(mean) - 1) if factor is None else factor[:-1] @ factor[-1]
    return mean[-1], component.std()[-1], others


# --- probabilities of counts where eta is Gaussian


def log_mixed_probability(y, means, stds, levels, weights):
    """`log_probability` of counts (n,) under mixtures; parts as `smallest_counts`."""
    counts = np.broadcast_to(y[:, None], means.shape)
    if levels is not None:
        levels = np.broadcast_to(levels, means.shape)
    return log_sum_exp(log_probability(counts, means, stds, levels), np.log(weights))


def log_probability(y, mean, std, level=None):
    """``ln E p(y | eta)`` where eta ~ N(mean, std^2), arrays of one shape.

    The integrand is log-concave; a trapezoid rule around its highest point resolves it
    with an error near 1e-10.
    """
    if level is None:
        out, integral = y * mean - bounded_exp(mean) - gammaln(y + 1.0), _poisson
        arrays = (y, mean, std)
    else:
        out = NegativeBinomial().log_probability(y, mean, level)
        arrays, integral = (y, mean, std, level), _negative_binomial
    wide = std > 1e-8
    if wide.any():
        arrays = [a[wide] for a in arrays]
        logs = np.empty(arrays[0].shape)
        for some in np.array_split(np.arange(logs.size), max(1, logs.size // 2048)):
            logs[some] = integral(*(a[some] for a in arrays))
        out[wide] = logs
    return out


def _poisson(y, mean, std):
    """`log_probability` of Poisson counts, arrays (n,)."""
    variance = std**2
    # Where y - exp(eta) = (eta - mean) / variance: Wright's omega function.
    shift = mean + variance * y
    rate = wrightomega(np.log(variance) + shift) / variance
    top = shift - variance * rate
    root = np.sqrt(1.0 / variance + rate)
    step = np.minimum(0.35 / root, 0.25)
    # The right side falls faster than a Gaussian, the left more slowly.
    poisson = np.where(rate > 104.0, 10.2 / np.sqrt(rate), 1.0 + 36.0 / rate)
    left, right = np.minimum(8.5 * std, poisson), 8.0 / root
    n = int(np.ceil(((left + right) / step).max())) + 1
    eta = top + np.linspace(-left, right, min(n, 4001))
    log_terms = y * eta - bounded_exp(eta) - 0.5 * ((eta - mean) / std) ** 2
    return _summed(log_terms, left + right, std) - gammaln(y + 1.0)


def _negative_binomial(y, mean, std, level):
    """`log_probability` of negative binomial counts, arrays (n,)."""
    likelihood, shape = NegativeBinomial(), bounded_exp(-level)
    top, root = _highest(y, mean, std, level, shape)

    def log_terms(eta):
        value = likelihood.log_probability(y, eta, level)
        return value - 0.5 * ((eta - mean) / std) ** 2

    floor = log_terms(top) - 36.0
    # Both ends go on until nothing is left, at most to where the Gaussian ends.
    left, right = (_reach(log_terms, top, floor, sign / root, std) for sign in (-1, 1))
    step = np.minimum(0.35 / root, 0.25)
    n = int(np.ceil(((left + right) / step).max())) + 1
    eta = top + np.linspace(-left, right, min(n, 4001))
    return _summed(log_terms(eta), left + right, std)


def _highest(y, mean, std, level, shape):
    """Highest point of the log-concave integrand, and the root of its curvature."""
    precision = std**-2.0
    low, high = mean - shape / precision, mean + y / precision
    eta = np.clip(np.log(y + 0.5), low, high)
    for _ in range(60):
        share = expit(eta + level)
        slope = y - (y + shape) * share - (eta - mean) * precision
        bend = precision + (y + shape) * share * (1.0 - share)
        low, high = np.where(slope > 0, eta, low), np.where(slope > 0, high, eta)
        new = eta + slope / bend
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        moved, eta = np.abs(new - eta) * np.sqrt(bend), new
        # Where the rule is centred makes no difference to its sum.
        if moved.max(initial=0.0) < 1e-2:
            break
    return eta, np.sqrt(bend)


def _reach(log_terms, top, floor, step, std):
    """How far from `top` a log-concave function stays above `floor`, arrays (n,)."""
    reach = 8.0 * np.abs(step)
    # Three hundred steps grow by a factor of 1e43.
    for _ in range(300):
        open_ = (log_terms(top + np.sign(step) * reach) > floor) & (reach < 8.5 * std)
        if not open_.any():
            break
        reach = np.where(open_, 1.4 * reach, reach)
    return np.minimum(reach, 8.5 * std)


def _summed(log_terms, width, std):
    """Logarithm of the trapezoid sum over the first axis, as a Gaussian expectation."""
    spacing = width / (len(log_terms) - 1)
    total = log_sum_exp(log_terms.T)
    return total + np.log(spacing / std) - 0.5 * np.log(2.0 * np.pi)


# --- quantiles


def smallest_counts(p, means, stds, levels, weights):
    """Smallest counts whose distribution function reaches p, (n, n_levels).

    `means` and `stds` (n, n_parts) are those of eta in the parts of a mixture, `levels`
    their lambda or None.
    """
    counts = np.full((len(means), len(p)), np.nan)
    if levels is not None:
        small = (means + 2.0 * stds).max(axis=1) < _SUMMED
        counts[small] = _by_summing(p, means[small], stds[small], levels, weights)
    for k, level in enumerate(p):
        large = np.isnan(counts[:, k])
        if large.any():
            parts = means[large], stds[large], levels, weights
            counts[large, k] = _smallest_count(level, *parts)
    return counts


def _smallest_count(p, means, stds, levels, weights):
    """Smallest count k of every row with P(count <= k) at least `p`, (n,)."""
    low = np.full(len(means), -1.0)
    high = np.ceil(bounded_exp(np.minimum(means.max(axis=1), 30.0)))
    short = _distribution(high, means, stds, levels, weights) < p
    # Larger counts are not resolved one by one.
    while short.any() and high.max() < 2.0**52:
        low[short] = high[short]
        high[short] = 2.0 * high[short] + 1.0
        below = _distribution(high[short], means[short], stds[short], levels, weights)
        short[short] = below < p
    while np.any(open_ := high - low > 1.0):
        middle = np.floor(0.5 * (low + high))[open_]
        below = _distribution(middle, means[open_], stds[open_], levels, weights)
        reached = below >= p
        high[open_] = np.where(reached, middle, high[open_])
        low[open_] = np.where(reached, low[open_], middle)
    return high


def _distribution(k, means, stds, levels, weights):
    """``P(count <= k)`` of every row, (n,), by a rule in eta."""
    nodes, shares = _predictor_rule(k, stds, levels)
    out = np.empty(len(k))
    size = max(1, (1 << 20) // (len(nodes) * means.shape[1]))
    for a in range(0, len(k), size):
        rows = slice(a, a + size)
        eta = means[rows, :, None] + stds[rows, :, None] * nodes
        out[rows] = (below_count(k[rows, None, None], eta, levels) @ shares) @ weights
    return out


def _predictor_rule(k, stds, levels):
    """Nodes and shares for eta around its mean, in standard deviations."""
    # A distribution function changes in eta on the scale of a count's deviation.
    scale = 1.0 / np.sqrt(k + 1.0)[:, None]
    if levels is not None:
        wide = np.sqrt(scale**2 + np.minimum(bounded_exp(levels), 1.0))
        return normal_rule((stds / wide).max(initial=0.0), _TOL)
    step = np.minimum(0.7 * stds, 0.42 * scale)
    n = np.ceil(15.0 * stds / np.maximum(step, 1e-300)).max(initial=1.0)
    n = int(min(n, 4001)) if stds.any() else 1
    nodes = np.linspace(-7.5, 7.5, n) if n > 1 else np.zeros(1)
    shares = np.exp(-0.5 * nodes**2)
    return nodes, shares / shares.sum()


def _by_summing(p, means, stds, levels, weights):
    """Smallest counts (n, n_levels) from one probability after the other.

    NaN where that would go too far.
    """
    out = np.full((len(means), len(p)), np.nan)
    nodes, shares = _predictor_rule(np.full(len(means), 300.0), stds, levels)
    size = max(1, (1 << 17) // (len(nodes) * means.shape[1]))
    for a in range(0, len(means), size):
        rows = slice(a, a + size)
        t = means[rows, :, None] + stds[rows, :, None] * nodes + levels[:, None]
        soft, shape = np.logaddexp(0.0, t), bounded_exp(-levels)[:, None]
        term = np.exp(-shape * soft) * (weights[:, None] * shares)
        ratio = np.exp(t - soft)
        offset, counts, total = shape * ratio, out[rows], 0.0
        for k in range(_LAST_SUMMED):
            total = total + term.sum(axis=(1, 2))
            counts[np.isnan(counts) & (total[:, None] >= p)] = k
            if not np.isnan(counts).any():
                break
            # p(k + 1) / p(k) = (k + r) / (k + 1) of the odds.
            term *= (k * ratio + offset) / (k + 1.0)
    return out


def below_count(k, eta, levels):
    """``P(count <= k)`` at predictors (n, n_parts, n_nodes)."""
    if levels is None:
        return gammaincc(k + 1.0, bounded_exp(eta))
    level = levels[:, None]
    return betaincc(k + 1.0, bounded_exp(-level), expit(eta + level))


# --- do counts vary more than Poisson counts?


def warn_of_overdispersion(rows, coef, intercept):
    """Compare the residuals of rows with what Poisson counts have; may warn."""
    *sums, weight = rows.sum(partial(_residuals, coef, intercept), len(coef), 4)
    # Of fewer rows the prior decides, and residuals are no noise.
    if weight > len(coef):
        warn_where_larger(*sums)


def warn_where_larger(excess, squares, total):
    """Warns by Dean's score test (1992) of sums of rows, see `excess_of`."""
    # The variance of counts per mean above which intervals of 90 % cover less than
    # 86 %, and the standard errors by which it has to be above one: of 1,000 Poisson
    # samples of 30 to 300 rows at most 0.2 % are warned of where means are above 0.1,
    # and 0.7 % where they are 0.05.
    ratio, error = 1.0 + excess / total, np.sqrt(2.0 * squares) / total
    largest_ratio, n_errors = 1.25, 4.0
    if ratio > largest_ratio and ratio - 1.0 > n_errors * error:
        warn_where_called(
            "y varies more than Poisson counts: the variance of a count is "
            f"{ratio:.2f} times its mean, on average, and would be 1.00 times with a "
            f"standard error of {error:.2f}. Predictive intervals and those of "
            "coefficients are too narrow. Use likelihood='negative_binomial', which "
            "learns how much counts vary, or add features that explain more.",
            OverdispersionWarning,
        )


def excess_of(y, mean):
    """Of every row what its variance has beyond its mean, by estimate, the square of
    the mean and the mean.

    The first is zero on average not only of Poisson counts, but also of events that
    end their own exposure, such as deaths, however small means are: with time the
    residual is a martingale, and the number of events grows as its square does.
    """
    return (y - mean) ** 2 - y, mean**2, mean


def _residuals(coef, intercept, table):
    rows = WeightedRows(Block(table, intercept))
    mean = bounded_exp(rows.block.predict(coef))
    each = excess_of(rows.y, mean)
    return [*(rows.sum(values) for values in each), rows.weights.sum()]
