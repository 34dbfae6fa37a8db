"""Components of a posterior that predict as one: fewer integrals for every row."""

import numpy as np
from scipy import sparse

from skboost.families import FullGaussian
from skboost.serving import GaussianPart
from skboost.targets import sigmoid_expectation

# What merging may change of a probability, and of its logarithm, at rows of the fit;
# how many of them are looked at.
_CLOSE, _CLOSE_LOG, _N_ROWS = 1e-4, 1e-3, 32
# Pairs of components that are looked at before two of them are merged.
_N_PAIRS = 8


def moments_at_rows(mixture, rows, intercept):
    """Of linear predictors under every component, at every so many rows of a fit.

    Weights (n_components,), means and standard deviations (n_rows, n_components); None
    where no components may be merged.
    """
    parts = mixture.components
    if len(parts) == 1 or {type(one.family) for one in parts} != {FullGaussian}:
        return None
    table = rows.every(max(1, len(rows) // _N_ROWS))
    X = table.X.toarray() if sparse.issparse(table.X) else table.X
    if intercept:
        X = np.column_stack([X, np.ones(len(table))])
    centres, _, factors = FullGaussian().structure(np.array([p.params for p in parts]))
    means, sds = X @ centres.T, np.linalg.norm(X @ factors, axis=2).T
    if table.offset is not None:
        means = means + table.offset[:, None]
    return mixture.weights, means, sds


def groups_of(weights, means, sds):
    """The group of every component (n_components,), as few as merging pairs gives.

    A group predicts as one Gaussian that has its mean and covariance. Bounds for all
    rows are too wide to be of use: whether predictions are close is seen at rows of the
    fit. None where no components may be merged.
    """
    exact = sigmoid_expectation(means, sds) @ weights
    # Of each row the rarer class, whose probability has all its digits.
    means = np.where(exact > 0.5, -1.0, 1.0)[:, None] * means
    moments = weights * np.array([np.ones_like(sds), means, sds**2 + means**2])
    labels, each = np.arange(len(weights)), weights * sigmoid_expectation(means, sds)
    exact = each.sum(axis=1, keepdims=True)
    allowed = np.minimum(_CLOSE, _CLOSE_LOG * np.maximum(exact, 1e-300))
    while each.shape[1] > 1:
        one, two = _near_pairs(moments, exact * (1.0 - exact))
        both = moments[:, :, one] + moments[:, :, two]
        merged = both[0] * sigmoid_expectation(*_matched(both))
        change = merged - each[:, one] - each[:, two]
        now = each.sum(axis=1, keepdims=True) + change
        moved = np.abs((now - exact) / allowed).max(axis=0)
        pair = int(moved.argmin())
        if moved[pair] > 1.0:
            break
        kept, gone = one[pair], two[pair]
        moments[:, :, kept], each[:, kept] = both[:, :, pair], merged[:, pair]
        moments, each = np.delete(moments, gone, axis=2), np.delete(each, gone, axis=1)
        labels[labels == gone] = kept
        labels -= labels > gone
    return labels if each.shape[1] < len(labels) else None


def _near_pairs(moments, slope):
    """Indices of the pairs of groups that are worth a look, by distances between them
    as they change probabilities."""
    one, two = np.triu_indices(moments.shape[2], 1)
    places = np.concatenate([slope * part for part in _matched(moments)])
    shares = moments[0, 0]
    lost = ((places[:, one] - places[:, two]) ** 2).sum(axis=0)
    lost *= shares[one] * shares[two] / (shares[one] + shares[two])
    few = np.argsort(lost)[:_N_PAIRS]
    return one[few], two[few]


def _matched(moments):
    """Means and standard deviations at rows of groups with these sums of moments."""
    shares, first, second = moments
    mean = first / shares
    return mean, np.sqrt(np.maximum(second / shares - mean**2, 0.0))


def merged_parts(mixture, labels):
    """Weights and parts of a plain model, one for each group of components."""
    params = np.array([one.params for one in mixture.components])
    centres, _, factors = FullGaussian().structure(params)
    weights, parts = [], []
    for label in range(labels.max() + 1):
        some = np.flatnonzero(labels == label)
        share = mixture.weights[some]
        weights.append(share.sum())
        share = np.sqrt(share / share.sum())
        mean = share**2 @ centres[some]
        away = (share[:, None] * (centres[some] - mean)).T
        root = _root(np.hstack([*(share[:, None, None] * factors[some]), away]))
        parts.append(GaussianPart(mean, None, root))
    return np.array(weights), tuple(parts)


def _root(factor):
    """A square factor of the same covariance."""
    try:
        return np.linalg.cholesky(factor @ factor.T)
    except np.linalg.LinAlgError:
        # Of columns that say the same; this takes longer.
        return np.linalg.qr(factor.T, mode="r").T
