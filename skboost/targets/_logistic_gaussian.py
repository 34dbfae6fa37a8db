"""Expectations of logistic functions of one Gaussian variable, without noise.

Every function folds the mean to ``|mean|`` (so that tails keep their relative
accuracy), bins the pairs by standard deviation and gives each bin the cheapest rule
that holds 1e-11: Gauss-Hermite while the integrand is nearly a polynomial over the
Gaussian, a trapezoid rule in the Gaussian variable up to standard deviation 3, and
beyond it a midpoint rule in the frequency domain, where a wide Gaussian is narrow.
"""

from functools import lru_cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.linalg import helmert
from scipy.special import ndtri
from scipy.stats import qmc

from skboost._parallel import row_blocks

# (largest standard deviation, number of nodes, step; None is Gauss-Hermite): the fewest
# nodes whose error, searched over means, stays below 3e-12.
_DIRECT = (
    (1e-6, 1, None),
    (0.003, 2, None),
    (0.02, 3, None),
    (0.07, 4, None),
    (0.1, 5, None),
    (0.15, 6, None),
    (0.25, 8, None),
    (0.35, 10, None),
    (0.5, 13, None),
    (0.7, 19, None),
    (0.85, 23, 0.62),
    (1.0, 27, 0.54),
    (1.25, 31, 0.46),
    (1.5, 37, 0.40),
    (2.0, 49, 0.30),
    (2.5, 57, 0.26),
    (3.0, 67, 0.22),
)
# (largest standard deviation, |mean|/sd beyond which the tail is below 1e-12), and the
# frequency beyond which nothing is left.
_FOURIER = ((4.0, 11.0), (5.5, 9.2), (np.inf, 8.0))
_FREQUENCY_CUT = 7.8
# In place of a rule where the mean is beyond.
_NOTHING = len(_DIRECT) + len(_FOURIER)


def _direct_rule(n_nodes, step):
    if step is None:
        nodes, weights = hermegauss(n_nodes)
    else:
        nodes = step * (np.arange(n_nodes) - n_nodes // 2)
        weights = np.exp(-0.5 * nodes**2)
    # By a product with deviations and means: minus the variable, whose exponential does
    # not overflow; nodes are symmetric.
    return np.column_stack([nodes, -np.ones_like(nodes)]), weights / weights.sum()


_DIRECT_RULES = tuple(_direct_rule(n_nodes, step) for _, n_nodes, step in _DIRECT)
_RULE_EDGES = np.array([rule[0] for rule in _DIRECT + _FOURIER[:-1]])


class _Sigmoid:
    """E sigma(-t)."""

    n_outputs = 1

    @staticmethod
    def direct(t, weights):
        exp = np.exp(t, out=t)
        return (weights @ np.divide(exp, exp + 1.0, out=exp),)

    @staticmethod
    def fourier(waves):
        return (
            0.5 - waves.sines(waves.clenshaw(lambda t, inverse_sinh: inverse_sinh)),
        )


class _Logistic:
    """E softplus(-t), E sigma(-t), E sigma'(t)."""

    n_outputs = 3

    @staticmethod
    def direct(t, weights):
        exp = np.exp(t, out=t)
        softplus = weights @ np.log1p(exp)
        upper = np.reciprocal(exp + 1.0)
        lower = np.multiply(exp, upper, out=exp)
        sigmoid = weights @ lower
        return softplus, sigmoid, weights @ np.multiply(lower, upper, out=upper)

    @staticmethod
    def fourier(waves):
        # The frequency sum of the even part of the softplus is a smoothed triangle
        # wave; a quarter of its half period makes it the even part itself.
        level = 0.5 * waves.half_width * waves.sd - 0.5 * waves.mean
        first, second = waves.clenshaw(waves.integral_and_slope)
        return (
            level - waves.cosines((first[0], second[0])),
            0.5 - waves.sines((first[1], second[1])),
            waves.cosines((first[2], second[2])),
        )


class _Entropy:
    """E h(sigma(t)) with h the binary entropy in nats."""

    n_outputs = 1

    @staticmethod
    def direct(t, weights):
        exp = np.exp(t)
        t *= exp
        exp_one = exp + 1.0
        t /= exp_one
        return (weights @ np.subtract(np.log1p(exp, out=exp), t, out=t),)

    @staticmethod
    def fourier(waves):
        return (waves.cosines(waves.clenshaw(waves.entropy_transform)),)


class _Waves:
    """Midpoint sums over frequencies for one block with large standard deviation.

    E f(t) = integral of transform(v / sd) exp(-v^2 / 2) cos or sin(v mean / sd) dv, at
    (k + 1/2) h with h so small that only tails below the tolerance overlap.
    """

    def __init__(self, mean, sd, half_width):
        self.half_width = half_width
        self.mean, self.sd = mean, sd
        self.step = np.pi / half_width
        self.angle = self.step * self.mean / sd

    @staticmethod
    def frequencies(step):
        """Midpoints up to the cut, (n,)."""
        return step * (np.arange(int(_FREQUENCY_CUT / step) + 1) + 0.5)

    def clenshaw(self, transform):
        """The two last terms of Clenshaw's recurrence, of a transform of t and ``1 /
        sinh(pi t)``."""
        twice_cosine = 2.0 * np.cos(self.angle)
        first = second = 0.0
        for v in self.frequencies(self.step)[::-1]:
            t = v / self.sd
            decay = np.expm1(-np.pi * t)
            term = transform(t, -2.0 * (decay + 1.0) / (decay * (decay + 2.0)))
            term *= self.step * np.exp(-0.5 * v * v)
            term += twice_cosine * first
            term -= second
            first, second = term, first
        return first / self.sd, second / self.sd

    def sines(self, last):
        return np.sin(0.5 * self.angle) * (last[0] + last[1])

    def cosines(self, last):
        return np.cos(0.5 * self.angle) * (last[0] - last[1])

    @staticmethod
    def integral_and_slope(t, inverse_sinh):
        """Transforms of the softplus, the sigmoid and its slope, (3, n)."""
        rows = np.empty((3, t.size))
        rows[1] = inverse_sinh
        np.divide(rows[1], t, out=rows[0])
        np.multiply(rows[1], t, out=rows[2])
        return rows

    @staticmethod
    def entropy_transform(t, inverse_sinh):
        x = np.pi * t
        square = x * x
        # x coth x - 1 cancels near zero.
        series = square * (1 / 3 - square * (1 / 45 - square * (2 / 945)))
        full = x / np.tanh(x) - 1.0
        return np.where(x < 0.03, series, full) * inverse_sinh / t


def _by_rule(kind, rule, pairs):
    """Expectations at one bin's rows, whose deviations and means are `pairs`."""
    if rule < len(_DIRECT_RULES):
        nodes, weights = _DIRECT_RULES[rule]
        return kind.direct(nodes @ pairs, weights)
    _, half_width = _FOURIER[rule - len(_DIRECT_RULES)]
    return kind.fourier(_Waves(pairs[1], pairs[0], half_width))


def _folded_expectations(kind, mean, sd):
    """Expectations at ``|mean|``, shape (n_outputs, n), for flat inputs."""
    bins = np.searchsorted(_RULE_EDGES, sd).astype(np.uint8)
    wide = np.flatnonzero(bins >= len(_DIRECT))
    half_width = np.array([width for _, width in _FOURIER])[bins[wide] - len(_DIRECT)]
    # The sums repeat beyond that, where next to nothing is left.
    bins[wide[np.abs(mean[wide]) > half_width * sd[wide]]] = _NOTHING
    counts = np.bincount(bins)[:_NOTHING]
    out, pairs = np.zeros((kind.n_outputs, mean.size)), np.array([sd, np.abs(mean)])
    for rule in np.flatnonzero(counts):
        # Temporaries of one block stay small.
        n_arrays = len(_DIRECT_RULES[rule][1]) if rule < len(_DIRECT_RULES) else 8
        size = max(512, (1 << 15) // n_arrays)
        whole = counts[rule] == mean.size
        rows = None if whole else np.flatnonzero(bins == rule)
        for start in range(0, counts[rule], size):
            block = slice(start, start + size)
            block = block if whole else rows[block]
            values = _by_rule(kind, rule, pairs[:, block])
            for k, value in enumerate(values):
                out[k, block] = value
    # Rounding can leave -1e-17 where the truth is a positive tail.
    return np.maximum(out, 0.0, out=out)


def _flat_pairs(mean, sd):
    mean, sd = np.broadcast_arrays(
        np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)
    )
    return mean.shape, mean.ravel(), sd.ravel()


def _unfold_sigmoid(mean, lower):
    return np.where(mean > 0.0, 1.0 - lower, lower)


def logistic_gaussian_expectations(mean, sd):
    """E softplus(t), E sigma(t) and E sigma'(t) for t ~ N(mean, sd^2).

    Half the last is the derivative in the variance; absolute errors are below 1e-11 for
    sd up to 1e3 and means up to 1e4.
    """
    shape, mean, sd = _flat_pairs(mean, sd)
    softplus, sigmoid, slope = _folded_expectations(_Logistic, mean, sd)
    softplus += np.maximum(mean, 0.0)
    return (
        softplus.reshape(shape),
        _unfold_sigmoid(mean, sigmoid).reshape(shape),
        slope.reshape(shape),
    )


def sigmoid_expectation(mean, sd):
    """E sigma(t) for t ~ N(mean, sd^2): the predictive probability, to 1e-11."""
    shape, mean, sd = _flat_pairs(mean, sd)
    (sigmoid,) = _folded_expectations(_Sigmoid, mean, sd)
    return _unfold_sigmoid(mean, sigmoid).reshape(shape)


def scalar_rules():
    """The rules as flat arrays, for code that takes one pair at a time.

    Rule ``searchsorted(edges, sd)`` begins at an entry of `first`; nodes are standard
    deviations in `n_direct` rules, else frequencies, for ``|mean| / sd`` up to
    `half_width`.
    """
    nodes = [nodes[:, 0] for nodes, _ in _DIRECT_RULES]
    weights = [weights for _, weights in _DIRECT_RULES]
    half_width = [np.inf] * len(nodes)
    for _, width in _FOURIER:
        step = np.pi / width
        nodes.append(_Waves.frequencies(step))
        weights.append(step * np.exp(-0.5 * nodes[-1] ** 2))
        half_width.append(width)
    first = np.concatenate([[0], np.cumsum([len(rule) for rule in nodes])])
    return (
        _RULE_EDGES,
        first,
        np.concatenate(nodes),
        np.concatenate(weights),
        np.array(half_width),
        len(_DIRECT_RULES),
    )


def entropy_expectation(mean, sd):
    """E h(sigma(t)) for t ~ N(mean, sd^2), h the binary entropy in nats, to 1e-11."""
    shape, mean, sd = _flat_pairs(mean, sd)
    (entropy,) = _folded_expectations(_Entropy, mean, sd)
    return entropy.reshape(shape)


# Rows whose contrasts have standard deviations up to 1/4 have the fewest nodes; they
# are doubled whenever a row is twice as wide, and at most so often.
_NARROW, _MOST_DOUBLINGS = 0.25, 5
# Temporaries of one block, of which four are alive.
_ENTRIES = 1 << 16


@lru_cache(maxsize=16)
def class_contrasts(n_classes):
    """Helmert's orthonormal contrasts (K, K - 1), in closed form on every machine."""
    contrasts = helmert(n_classes).T
    contrasts.flags.writeable = False
    return contrasts


def contrast_roots(covariance):
    """Matrices (n, K, K - 1) from standard normal contrasts, of (n, K - 1, K - 1),
    to predictors."""
    n_axes = covariance.shape[1]
    # Far below what any sum over nodes can tell, and enough for Cholesky's method.
    least = 1e-12 * np.trace(covariance, axis1=1, axis2=2) + 1e-300
    covariance = covariance + least[:, None, None] * np.eye(n_axes)
    return class_contrasts(n_axes + 1) @ np.linalg.cholesky(covariance)


@lru_cache(maxsize=8)
def _points(n_axes, log_n):
    """Quasi-random points (n_axes, 2^log_n) of a standard normal distribution."""
    return ndtri(qmc.Sobol(n_axes, seed=0).random_base2(log_n)).T


@lru_cache(maxsize=256)
def softmax_nodes(n_axes, n, n_before=0):
    """Quasi-random nodes (n_axes, n) in pairs, exact for quadratic functions."""
    half = max(n, 1 << (4 * n_axes - 1).bit_length()) // 2
    points = _points(n_axes, (n_before + half - 1).bit_length())
    half = points[:, n_before : n_before + half]
    nodes, n = np.concatenate([half, -half], axis=1), 2 * half.shape[1]
    nodes = np.linalg.solve(np.linalg.cholesky(nodes @ nodes.T / n), nodes)
    nodes.flags.writeable = False
    return nodes


def nodes_of_mixture(weights, n_axes, n):
    """`softmax_nodes` for each component, other ones, some `n` in all."""
    # Where errors fall with nodes to the power 3/4 and are independent, that of the
    # average is least so.
    share = np.asarray(weights) ** (2 / 3)
    counts = 1 << np.rint(np.log2(np.maximum(n * share / share.sum(), 1))).astype(int)
    nodes, n_before = [None] * len(counts), 0
    # From the most on, so that all are whole blocks of the sequence.
    for k in np.argsort(-counts, kind="stable"):
        nodes[k] = softmax_nodes(n_axes, int(counts[k]), n_before)
        n_before += nodes[k].shape[1] // 2
    return tuple(nodes)


def softmax_at(mean, roots, nodes):
    """Probabilities (n, K, n_nodes) at nodes of rows, and the logs of their sums."""
    p = roots @ nodes
    p += mean[:, :, None]
    top = p.max(axis=1)
    p -= top[:, None]
    np.exp(p, out=p)
    total = p.sum(axis=1)
    p /= total[:, None]
    return p, np.log(total, out=total) + top


def softmax_expectation(mean, covariance, nodes):
    """E softmax(t), (n, K), of contrasts with means (n, K - 1) and covariances.

    With 1,024 nodes and deviations of 3 errors are .0005 on average, .005 at most (ten
    scrambles, 200 rows, six classes).
    """
    roots = contrast_roots(covariance)
    mean = mean @ class_contrasts(mean.shape[1] + 1).T
    p = np.empty(mean.shape)
    for rows in row_blocks(len(mean), mean.shape[1] * nodes.shape[1], _ENTRIES):
        p[rows] = softmax_at(mean[rows], roots[rows], nodes)[0].mean(axis=2)
    return p


def softmax_gaussian_expectations(mean, covariance, n_nodes):
    """E ln sum_k exp(t_k) and its first two derivatives for t ~ N(mean, covariance).

    Log sums (n,), nats; ``E softmax(t)`` (n, K); ``E softmax_k(t) softmax_m(t)`` (n, K,
    K), minus the second derivative outside the diagonal. The narrowest rows have
    `n_nodes`.
    """
    n_classes = mean.shape[1]
    contrasts = class_contrasts(n_classes)
    inner = contrasts.T @ covariance @ contrasts
    roots = contrast_roots(inner)
    log_sum, products = np.empty(len(mean)), np.empty(covariance.shape)
    for rows, nodes in _by_width(inner, n_nodes):
        for block in row_blocks(len(rows), n_classes * nodes.shape[1], _ENTRIES):
            some = rows[block]
            p, log_total = softmax_at(mean[some], roots[some], nodes)
            log_sum[some] = log_total.mean(axis=1)
            products[some] = p @ p.transpose(0, 2, 1) / nodes.shape[1]
    # Probabilities sum to one at every node.
    return log_sum, products.sum(axis=2), products


def _by_width(covariance, n_nodes):
    """Rows that share their nodes, and the nodes: the more, the wider a row is."""
    width = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).max(axis=1))
    doublings = np.ceil(np.log2(np.maximum(width / _NARROW, 1.0)))
    doublings = np.minimum(doublings, _MOST_DOUBLINGS)
    for k in np.unique(doublings):
        nodes = softmax_nodes(covariance.shape[1], n_nodes << int(k))
        yield np.flatnonzero(doublings == k), nodes
