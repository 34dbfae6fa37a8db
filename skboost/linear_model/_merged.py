"""Components of a posterior that predict as one: fewer integrals for every row."""

import numpy as np
from scipy import sparse

from skboost.families import FullGaussian
from skboost.serving import GaussianPart
from skboost.targets import sigmoid_expectation

# What merging may change of a probability, and of its logarithm, at rows of the fit;
# how many of them are looked at.
_CLOSE, _CLOSE_LOG, _N_ROWS = 1e-4, 1e-3, 32
# Numbers of groups that are tried.
_COUNTS = (1, 2, 3, 4, 6, 8, 12)


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
    """The group of every component (n_components,), the fewest that do.

    A group predicts as one Gaussian that has its mean and covariance. Bounds for all
    rows are too wide to be of use: whether predictions are close is seen at rows of the
    fit. None where no components may be merged.
    """
    whole = _log_probabilities(means, sds, weights)
    # Distances by what they do to probabilities.
    slope = np.exp(whole.sum(axis=0))[:, None]
    places = np.concatenate([slope * means, slope * sds]).T
    for count, labels in _spread(places, weights):
        if count == len(weights):
            break
        if count not in _COUNTS:
            continue
        shares, *moments = _matched(means, sds, weights, labels)
        logs = _log_probabilities(*moments, shares)
        moved = np.abs(np.exp(logs) - np.exp(whole)).max()
        if moved <= _CLOSE and np.abs(logs - whole).max() <= _CLOSE_LOG:
            return labels
    return None


def _spread(places, weights):
    """Numbers of groups and labels, with one more centre after the other.

    The next is the place that its weight and its distance to others lift most.
    """
    far, labels = np.full(len(places), np.inf), np.zeros(len(places), dtype=int)
    centre = int(weights.argmax())
    for count in range(1, len(places) + 1):
        distance = np.sum((places - places[centre]) ** 2, axis=1)
        nearer = distance < far
        far, labels = (
            np.where(nearer, distance, far),
            np.where(nearer, count - 1, labels),
        )
        yield count, labels
        if count > _COUNTS[-1]:
            return
        centre = int((weights * far).argmax())


def _matched(means, sds, weights, labels):
    """Weights of groups, and their means and standard deviations at rows."""
    member = weights * (labels == np.arange(labels.max() + 1)[:, None])
    shares = member.sum(axis=1)
    member = (member / shares[:, None]).T
    mean = means @ member
    square = (sds**2 + means**2) @ member - mean**2
    return shares, mean, np.sqrt(np.maximum(square, 0.0))


def _log_probabilities(means, sds, weights):
    """Of both classes, (2, n_rows)."""
    p = [sigmoid_expectation(sign * means, sds) @ weights for sign in (1.0, -1.0)]
    return np.log(np.maximum(p, 1e-300))


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
