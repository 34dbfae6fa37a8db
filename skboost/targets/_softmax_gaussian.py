"""Expectations of the softmax under correlated Gaussian predictors, of any classes.

What all predictors share changes no probability, so K classes leave an integral over
K - 1 contrasts. It is an average over fixed quasi-random nodes.
"""

from functools import lru_cache

import numpy as np
from scipy.linalg import helmert
from scipy.special import ndtri
from scipy.stats import qmc

from skboost._parallel import row_blocks

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
