"""Expectations of the softmax under correlated Gaussian predictors.

What all predictors share changes no probability, so K classes leave an integral over
K - 1 dimensions, taken along the principal axes of every row. Up to three axes have
product rules with as many nodes as the widths of the row ask for.
"""

from functools import lru_cache

import numpy as np

from skboost._parallel import row_blocks
from skboost.targets._quadrature import normal_rule

# Upper ends of the bins of widths, each with one rule; wider rows have the last one.
_EDGES = np.array([0.0, 0.3, 0.7, 1.2, 1.8, 2.7, 4.0, 6.0, 9.0, 14.0, 25.0])
# Temporaries of one block, of which four are alive.
_ENTRIES = 1 << 16
# No node is farther out; exponents of that size are far from overflow, also in
# single precision.
_REACH, _LARGEST_EXPONENT = 9.0, 60.0


@lru_cache(maxsize=16)
def class_contrasts(n_classes):
    """Orthonormal columns (K, K - 1), orthogonal to what all classes share.

    The softmax of predictors t depends on ``contrasts^T t`` alone.
    """
    centred = np.eye(n_classes) - 1.0 / n_classes
    contrasts = np.linalg.svd(centred)[0][:, : n_classes - 1]
    contrasts.flags.writeable = False
    return contrasts


def principal_axes(covariance):
    """Columns A (n, K, K - 1) with ``A A^T`` the covariance of the centred predictors.

    That of the contrasts (n, K - 1, K - 1) is given; the widest axis comes first.
    """
    if covariance.shape[1] == 2:
        values, vectors = _eigen_2d(covariance)
    else:
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = values[:, ::-1], vectors[:, :, ::-1]
    vectors = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return class_contrasts(covariance.shape[1] + 1) @ vectors


def _eigen_2d(matrix):
    """Eigenvalues, the largest first, and eigenvectors of symmetric (n, 2, 2)."""
    a, b, c = matrix[:, 0, 0], matrix[:, 0, 1], matrix[:, 1, 1]
    middle, half = 0.5 * (a + c), 0.5 * (a - c)
    size = np.hypot(half, b)
    angle = 0.5 * np.arctan2(b, half)
    cos, sin = np.cos(angle), np.sin(angle)
    vectors = np.stack([cos, -sin, sin, cos], axis=1).reshape(-1, 2, 2)
    return np.stack([middle + size, middle - size], axis=1), vectors


@lru_cache(maxsize=512)
def product_rule(bins, tol):
    """Nodes and weights of a product rule without its far corners.

    Nodes (n_axes + 1, n_nodes) have ones in the last row, which multiply means.
    """
    # The logarithm of summed exponentials is analytic while the phases of its terms
    # differ by less than pi.
    rules = [normal_rule(_EDGES[k] / np.pi, tol) for k in bins]
    nodes = np.array(np.meshgrid(*(nodes for nodes, _ in rules)))
    weights = np.meshgrid(*(weights for _, weights in rules))
    weights = np.prod(weights, axis=0).ravel()
    order = np.argsort(weights, kind="stable")
    kept = np.sort(order[np.cumsum(weights[order]) > tol])
    nodes = nodes.reshape(len(rules), -1)[:, kept]
    return with_ones(nodes), weights[kept] / weights[kept].sum()


def with_ones(nodes):
    return np.vstack([nodes, np.ones(nodes.shape[1])])


def _same_bins(axes):
    """Rows whose axes lie in the same bins of widths, and these bins."""
    n_axes = axes.shape[2]
    bins = np.searchsorted(_EDGES[:-1], np.ptp(axes, axis=1))
    codes = bins @ (len(_EDGES) ** np.arange(n_axes))
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        yield rows, tuple(bins[rows[0]].tolist())


def groups_by_rule(axes, tol):
    """Rows that share a product rule, with its nodes and weights."""
    for rows, bins in _same_bins(axes):
        yield rows, *product_rule(bins, tol)


def _farthest(axes, shifted):
    """The largest exponent that a node of every row can have, (n,)."""
    reach = _REACH * np.abs(axes).sum(axis=2).max(axis=1, initial=0.0)
    return reach - shifted.min(axis=1, initial=0.0)


def softmax_rows(mean, covariance, tol, groups, dtype=np.float64):
    """Gaussian predictors of many rows, evaluated at the nodes of their rules.

    Every row is measured from its largest mean where no predictor can then overflow,
    which takes two passes over all nodes less than measuring every node from its
    largest predictor.

    Parameters
    ----------
    mean : array (n, K)
    covariance : array (n, K - 1, K - 1)
        Of the contrasts.
    tol : float
    groups : callable
        ``groups(axes, tol)`` yields rows that share a rule, its nodes and weights.
    dtype : type, default=float
        Precision at the nodes.

    Yields
    ------
    tuple
        Rows, exponentials (n, K, n_nodes), their sums, levels and weights.
    """
    axes, top_mean = principal_axes(covariance), mean.max(axis=1, keepdims=True)
    shifted = mean - top_mean
    linear = np.concatenate([axes, shifted[:, :, None]], axis=2)
    linear = linear.astype(dtype, copy=False)
    safe = _farthest(axes, shifted).max(initial=0.0) < _LARGEST_EXPONENT
    n_classes = mean.shape[1]
    for rows, nodes, weights in groups(axes, tol):
        nodes = nodes.astype(dtype, copy=False)
        weights = weights.astype(dtype, copy=False)
        for block in row_blocks(len(rows), n_classes * len(weights), _ENTRIES):
            some = rows[block]
            exp = linear[some].reshape(-1, len(nodes)) @ nodes
            exp = exp.reshape(len(some), n_classes, -1)
            level = top_mean[some]
            if not safe:
                top = exp.max(axis=1)
                exp -= top[:, None]
                level = level + top
            np.exp(exp, out=exp)
            yield some, exp, np.add.reduce(exp, axis=1), level, weights


def has_product_rule(n_classes):
    """Whether expectations have the accuracy that they are asked for."""
    # Product rules are affordable along three axes: four take thousands of nodes.
    return n_classes <= 4


def softmax_expectation(mean, covariance, tol=1e-4, dtype=np.float32):
    """E softmax(t) of up to four classes: the predictive probabilities.

    Along the axes of a product rule ``exp(t)`` is a product, so that exponentials are
    taken for every axis and not for every node.

    Parameters
    ----------
    mean : array (n, K - 1)
        Of the contrasts, ``class_contrasts(K).T @ t``.
    covariance : array (n, K - 1, K - 1)
    tol : float, default=1e-4
        Absolute error of rows that are no wider than the last rule; 3e-3 was seen at
        a standard deviation of 60.
    dtype : type, default=numpy.float32
        Precision of the exponentials: single ones leave errors of 1e-6.

    Returns
    -------
    probability : array (n, K)
    """
    mean = mean @ class_contrasts(mean.shape[1] + 1).T
    # Tolerance of one rule, as a share of the error of a row: of 29,000 random rows of
    # two to four classes, at most 20 wide, the worst had nearly four times that of its
    # rules.
    rule_share = 0.25
    axes, rule_tol = principal_axes(covariance), rule_share * tol
    shifted = mean - mean.max(axis=1, keepdims=True)
    beyond = _farthest(axes, shifted) >= _LARGEST_EXPONENT
    near, far = np.flatnonzero(~beyond), np.flatnonzero(beyond)
    probability = np.empty(mean.shape)
    # Exponentials so far out have to be scaled at every node.
    rows = softmax_rows(mean[far], covariance[far], rule_tol, groups_by_rule, dtype)
    for some, p, total, _, weights in rows:
        np.divide(weights, total, out=total)
        probability[far[some]] = (p @ total[:, :, None])[:, :, 0]
    axes, shifted = axes.astype(dtype, copy=False), shifted.astype(dtype, copy=False)
    for group, bins in _same_bins(axes[near]):
        rules = [normal_rule(_EDGES[k] / np.pi, rule_tol) for k in bins]
        n_nodes = int(np.prod([len(weights) for _, weights in rules]))
        for block in row_blocks(len(group), n_nodes, _ENTRIES):
            some = near[group[block]]
            probability[some] = _on_grid(axes[some], shifted[some], rules)
    return probability


def _on_grid(axes, shifted, rules):
    """Probabilities (n, K) of rows that share the rules of their axes."""
    factors = [
        np.exp(axes[:, :, a, None] * nodes.astype(axes.dtype))
        for a, (nodes, _) in enumerate(rules)
    ]
    weights = [weights.astype(axes.dtype) for _, weights in rules]
    factors[0] *= np.exp(shifted)[:, :, None]
    if len(factors) == 1:
        factors.append(np.ones((*shifted.shape, 1), axes.dtype))
        weights.append(np.ones(1, axes.dtype))
    # Narrow axes together are about as many nodes as the widest.
    while len(factors) > 2:
        a, b = factors.pop(), factors.pop()
        product = a[:, :, :, None] * b[:, :, None, :]
        factors.append(product.reshape(*shifted.shape, -1))
        weights.append(np.outer(weights.pop(), weights.pop()).ravel())
    wide, narrow = factors
    share = wide.transpose(0, 2, 1) @ narrow
    np.divide(np.outer(*weights), share, out=share)
    return ((wide @ share) * narrow).sum(axis=2)
