"""The expected logarithm of summed exponentials and its first two derivatives.

Classes are taken in two groups of one or two. Given what tells the members of a group
apart, the softmax is a logistic function of one Gaussian variable, whose expectations
`logistic_gaussian_expectations` knows: so K classes leave a product rule over K - 2
dimensions, and a row takes the groups that need the fewest nodes. More than four
classes are averaged over quasi-random nodes.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from skboost.targets._logistic_gaussian import logistic_gaussian_expectations
from skboost.targets._softmax_gaussian import (
    class_contrasts,
    groups_by_rule,
    has_product_rule,
    softmax_rows,
    with_ones,
)

# Quasi-random nodes: the curvature of a first component needs no more.
_N_NODES = 512
# Pairs of a row and a node that are evaluated together.
_ENTRIES = 1 << 15
# Below this tolerance the inner expectations are those of reports.
_FINE = 1e-8
# What is left of a variance beside rounding.
_ROUNDING = 1e-14


def softmax_gaussian_expectations(mean, covariance, tol=1e-10):
    """E ln sum_k exp(t_k) and its first two derivatives for t ~ N(mean, covariance).

    Parameters
    ----------
    mean : array (n, n_classes)
    covariance : array (n, n_classes, n_classes)
        Only that of differences between classes counts.
    tol : float, default=1e-10
        Error for up to four classes and differences with a standard deviation up to
        25, in units of this deviation (of `products` thirty times that). More classes
        are averaged over 512 quasi-random nodes: an error of about .005 per row at a
        standard deviation of 2.

    Returns
    -------
    log_sum : array (n,), in nats
    probability : array (n, n_classes)
        E softmax(t): the derivative in the mean.
    products : array (n, n_classes, n_classes)
        ``E softmax_k(t) softmax_m(t)``. The second derivative in the mean, twice the
        first in the covariance, is ``-products`` outside the diagonal, and its rows
        sum to zero.
    """
    n_classes = mean.shape[1]
    average = _by_groups if has_product_rule(n_classes) else _by_nodes
    log_sum, products = average(mean, covariance, tol)
    # Probabilities sum to one at every node.
    return log_sum, products.sum(axis=2), products


# --- up to four classes


class _Split(NamedTuple):
    """Two groups of classes, and the coordinates that tell all classes apart.

    Attributes
    ----------
    n_first : int
        Classes of the first group, which come first.
    orders : array (n_orders, K)
        Every way to split the classes.
    contrasts : array (K - 1, K)
        Differences within groups, then that of the groups' means.
    centred : array (K, K - 1)
        Predictors from contrasts, less the mean of the first group.
    """

    n_first: int
    orders: np.ndarray
    contrasts: np.ndarray
    centred: np.ndarray


def _split(n_first, orders):
    """The `_Split` with these orders."""
    n_classes = len(orders[0])
    groups = [range(n_first), range(n_first, n_classes)]
    means = np.zeros((2, n_classes))
    differences, halves = [], []
    for mean, group in zip(means, groups, strict=True):
        mean[group] = 1.0 / len(group)
        if len(group) == 2:
            difference = np.zeros(n_classes)
            difference[group] = 1.0, -1.0
            differences.append(difference)
            halves.append(0.5 * difference)
    between = (np.arange(n_classes) >= n_first).astype(float)
    return _Split(
        n_first,
        np.array(orders),
        np.array([*differences, means[1] - means[0]]),
        np.array([*halves, between]).T,
    )


_SPLITS = {
    2: _split(1, [[0, 1]]),
    3: _split(2, [[0, 1, 2], [0, 2, 1], [1, 2, 0]]),
    4: _split(2, [[0, 1, 2, 3], [0, 2, 1, 3], [0, 3, 1, 2]]),
}


def _lower(covariance):
    """Lower triangular roots of positive semi-definite (n, m, m)."""
    root = np.zeros_like(covariance)
    for j in range(covariance.shape[1]):
        column = covariance[:, j:, j] - np.einsum(
            "nik,nk->ni", root[:, j:, :j], root[:, j, :j]
        )
        variance = column[:, 0]
        some = variance > _ROUNDING * covariance[:, j, j]
        root[some, j:, j] = column[some] / np.sqrt(variance[some])[:, None]
    return root


def _best_split(split, covariance):
    """Order of the classes, root of the contrasts' covariance, axes that are left.

    Axes are the slopes of the predictors in the variables that stay, (n, K, K - 2).
    """
    found = []
    for order in split.orders:
        inner = (
            split.contrasts @ covariance[:, order[:, None], order] @ (split.contrasts.T)
        )
        root = _lower(inner)
        axes = split.centred @ root[:, :, :-1]
        # The nodes of an axis grow with its width.
        work = np.prod(1.0 + np.ptp(axes, axis=1), axis=1)
        found.append((work, root, axes))
    best = np.argmin([work for work, _, _ in found], axis=0)
    rows = np.arange(len(best))
    return (
        split.orders[best],
        np.stack([root for _, root, _ in found])[best, rows],
        np.stack([axes for _, _, axes in found])[best, rows],
    )


def _by_groups(mean, covariance, tol):
    """`softmax_gaussian_expectations` of two to four classes, without the sums."""
    n, n_classes = mean.shape
    split = _SPLITS[n_classes]
    order, root, axes = _best_split(split, covariance)
    mean = mean[np.arange(n)[:, None], order]
    contrasts = (mean @ split.contrasts.T)[:, :, None]
    linear = np.concatenate([root[:, :, :-1], contrasts], axis=2)
    sums = np.empty((n, 1 + n_classes**2))
    for nodes in _batches(linear, axes, tol):
        width = np.repeat(root[nodes.rows, -1, -1], nodes.counts)
        sums[nodes.rows] = _at_nodes(split, nodes, width, coarse=tol > _FINE)
    log_sum = mean[:, : split.n_first].mean(axis=1) + sums[:, 0]
    products = np.empty((n, n_classes, n_classes))
    rows = np.arange(n)[:, None, None]
    products[rows, order[:, :, None], order[:, None]] = sums[:, 1:].reshape(
        products.shape
    )
    return log_sum, products


class _Nodes(NamedTuple):
    """Some rows at the nodes of their rules, one row after the other.

    Attributes
    ----------
    rows, counts : array (n,)
        The rows, and how many nodes each has.
    contrasts : array (K - 1, n_nodes)
        The last is the mean of what is left to integrate.
    weights : array (n_nodes,)
        Those of a row sum to one.
    """

    rows: np.ndarray
    counts: np.ndarray
    contrasts: np.ndarray
    weights: np.ndarray

    def sums(self, terms):
        """Weighted sums over the nodes of every row: (n, n_terms)."""
        starts = np.cumsum(self.counts) - self.counts
        return np.add.reduceat(terms * self.weights, starts, axis=1).T


def _batches(linear, axes, tol):
    """`_Nodes` of all rows, not too many at once."""
    parts, size = [], 0
    for rows, nodes, weights in _rules(axes, tol):
        step = max(1, _ENTRIES // len(weights))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            parts.append((some, linear[some] @ nodes, weights))
            size += len(some) * len(weights)
            if size >= _ENTRIES:
                yield _joined(parts)
                parts, size = [], 0
    if parts:
        yield _joined(parts)


def _joined(parts):
    return _Nodes(
        np.concatenate([rows for rows, _, _ in parts]),
        np.repeat([len(w) for _, _, w in parts], [len(rows) for rows, _, _ in parts]),
        np.hstack([c.transpose(1, 0, 2).reshape(c.shape[1], -1) for _, c, _ in parts]),
        np.concatenate([np.tile(w, len(rows)) for rows, _, w in parts]),
    )


def _rules(axes, tol):
    """Rows that share a rule, with its nodes and weights; one node without axes."""
    if axes.shape[2]:
        return groups_by_rule(axes, tol)
    return iter([(np.arange(len(axes)), np.ones((1, 1)), np.ones(1))])


def _at_nodes(split, nodes, width, coarse):
    """Log sums above the first group's mean, and all products: (n, 1 + K^2)."""
    pairs = [_pair(difference) for difference in nodes.contrasts[:-1]]
    # A group of one class has all of its own probability.
    pairs += [(np.ones((1, len(width))), 0.0)] * (2 - len(pairs))
    (first, log_first), (last, log_last) = pairs
    gap = nodes.contrasts[-1] + (log_last - log_first)
    softplus, second, both = logistic_gaussian_expectations(gap, width, coarse)
    # Expected products of the groups' probabilities; rounding and coarse rules can
    # leave less than nothing.
    shares = np.concatenate([first, last])
    squares = (
        np.maximum((1.0 - second) - both, 0.0),
        np.maximum(second - both, 0.0),
    )
    n_classes = len(shares)
    terms = [log_first + softplus]
    upper = [(k, m) for k in range(n_classes) for m in range(k, n_classes)]
    for k, m in upper:
        inside = (k < split.n_first) == (m < split.n_first)
        factor = squares[int(k >= split.n_first)] if inside else both
        terms.append(shares[k] * shares[m] * factor)
    sums = nodes.sums(np.array(terms))
    where = np.zeros((n_classes, n_classes), dtype=int)
    for position, (k, m) in enumerate(upper, 1):
        where[k, m] = where[m, k] = position
    return sums[:, np.append(0, where.ravel())]


def _pair(difference):
    """Shares (2, n) of two classes, and ``ln(2 cosh(difference / 2))``."""
    size = np.abs(difference)
    small = np.exp(-size)
    total = 1.0 + small
    larger = 1.0 / total
    smaller = small * larger
    ahead = difference > 0.0
    shares = [np.where(ahead, larger, smaller), np.where(ahead, smaller, larger)]
    return np.array(shares), 0.5 * size + np.log(total)


# --- more classes


@lru_cache(maxsize=16)
def _quasi_random_rule(n_axes):
    """Random nodes in pairs, with mean 0 and covariance I: exact for quadratics."""
    points = qmc.Sobol(n_axes, seed=0).random_base2(_N_NODES.bit_length() - 2)
    half = ndtri(points).T
    nodes = np.concatenate([half, -half], axis=1)
    root = np.linalg.cholesky(nodes @ nodes.T / _N_NODES)
    nodes = np.linalg.solve(root, nodes)
    return with_ones(nodes), np.full(_N_NODES, 1.0 / _N_NODES)


def _one_group(axes, tol):
    """All rows, with quasi-random nodes and weights."""
    yield np.arange(len(axes)), *_quasi_random_rule(axes.shape[2])


def _by_nodes(mean, covariance, tol):
    """`softmax_gaussian_expectations` of any number of classes, without the sums."""
    log_sum, products = np.empty(len(mean)), np.empty(covariance.shape)
    contrasts = class_contrasts(mean.shape[1])
    covariance = contrasts.T @ covariance @ contrasts
    for some, p, total, level, weights in softmax_rows(
        mean, covariance, tol, _one_group
    ):
        p /= total[:, None]
        products[some] = (p * weights) @ p.transpose(0, 2, 1)
        log_sum[some] = (np.log(total, out=total) + level) @ weights
    return log_sum, products
