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

from skboost._parallel import row_blocks
from skboost.targets._logistic_gaussian import logistic_gaussian_expectations
from skboost.targets._softmax_gaussian import (
    class_contrasts,
    groups_by_rule,
    softmax_rows,
    with_ones,
)

# Quasi-random nodes: the curvature of a first component needs no more.
_N_NODES = 512
# Pairs of a row and a node that are evaluated together.
_ENTRIES = 1 << 15
# What is left of a variance beside rounding.
_ROUNDING = 1e-14


def softmax_gaussian_expectations(mean, covariance, tol=1e-10):
    """E ln sum_k exp(t_k) and its first two derivatives for t ~ N(mean, covariance).

    Parameters
    ----------
    mean : array (n, n_classes)
        Of three classes or more.
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
    average = _by_groups if n_classes in _SPLITS else _by_nodes
    log_sum, products = average(mean, covariance, tol)
    # Probabilities sum to one at every node.
    return log_sum, products.sum(axis=2), products


# --- up to four classes


class _Split(NamedTuple):
    """Two groups of classes, and the coordinates that tell all classes apart.

    The first group has two classes, which come first.

    Attributes
    ----------
    orders : array (n_orders, K)
        Every way to split the classes.
    contrasts : array (K - 1, K)
        Differences within groups, then that of the groups' means.
    centred : array (K, K - 1)
        Predictors from contrasts, less the mean of the first group.
    """

    orders: np.ndarray
    contrasts: np.ndarray
    centred: np.ndarray


_SPLITS = {
    3: _Split(
        np.array([[0, 1, 2], [0, 2, 1], [1, 2, 0]]),
        np.array([[1, -1, 0], [-0.5, -0.5, 1]]),
        np.array([[0.5, -0.5, 0], [0, 0, 1]]).T,
    ),
    4: _Split(
        np.array([[0, 1, 2, 3], [0, 2, 1, 3], [0, 3, 1, 2]]),
        np.array([[1, -1, 0, 0], [0, 0, 1, -1], [-0.5, -0.5, 0.5, 0.5]]),
        np.array([[0.5, -0.5, 0, 0], [0, 0, 0.5, -0.5], [0, 0, 1, 1]]).T,
    ),
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
    """`softmax_gaussian_expectations` of three or four classes, without the sums."""
    n, n_classes = mean.shape
    split = _SPLITS[n_classes]
    order, root, axes = _best_split(split, covariance)
    mean = mean[np.arange(n)[:, None], order]
    contrasts = (mean @ split.contrasts.T)[:, :, None]
    linear = np.concatenate([root[:, :, :-1], contrasts], axis=2)
    sums = np.empty((n, 1 + n_classes**2))
    for rows, nodes, weights in groups_by_rule(axes, tol):
        for block in row_blocks(len(rows), len(weights), _ENTRIES):
            some = rows[block]
            at_nodes = (linear[some] @ nodes).transpose(1, 0, 2)
            sums[some] = _averages(at_nodes, root[some, -1, -1], weights)
    log_sum = mean[:, :2].mean(axis=1) + sums[:, 0]
    products = np.empty((n, n_classes, n_classes))
    rows = np.arange(n)[:, None, None]
    products[rows, order[:, :, None], order[:, None]] = sums[:, 1:].reshape(
        products.shape
    )
    return log_sum, products


def _averages(contrasts, width, weights):
    """Log sums above the first group's mean, and all products: (n, 1 + K^2).

    Parameters
    ----------
    contrasts : array (K - 1, n, n_nodes)
        The last is the mean of what is left to integrate.
    width : array (n,)
        Its standard deviation.
    weights : array (n_nodes,)
    """
    pairs = [_pair(difference) for difference in contrasts[:-1]]
    # A group of one class has all of its own probability.
    pairs += [(np.ones((1, *contrasts.shape[1:])), 0.0)] * (2 - len(pairs))
    (first, log_first), (last, log_last) = pairs
    gap = contrasts[-1] + (log_last - log_first)
    softplus, second, both = logistic_gaussian_expectations(gap, width[:, None])
    # Expected products of the groups' probabilities; rounding can leave less than
    # nothing.
    shares = np.concatenate([first, last])
    squares = (
        np.maximum((1.0 - second) - both, 0.0),
        np.maximum(second - both, 0.0),
    )
    n_classes = len(shares)
    terms = [log_first + softplus]
    upper = [(k, m) for k in range(n_classes) for m in range(k, n_classes)]
    for k, m in upper:
        factor = squares[int(k > 1)] if (k < 2) == (m < 2) else both
        terms.append(shares[k] * shares[m] * factor)
    where = np.zeros((n_classes, n_classes), dtype=int)
    for position, (k, m) in enumerate(upper, 1):
        where[k, m] = where[m, k] = position
    return (np.array(terms) @ weights)[np.append(0, where.ravel())].T


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
