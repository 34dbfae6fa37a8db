"""Coordinate ascent in a conjugate mixture: starts, runs at once, widths, alignment."""

from functools import partial

import numpy as np
from scipy.optimize import linear_sum_assignment

from skboost._math import responsibilities
from skboost.conjugate._natural import Optimum
from skboost.conjugate.gaussian_mixture._family import log_parts

# Least share of the information about an assignment that a width allows for.
_LEAST_SHARE = 1e-3
_EPSILON = np.finfo(float).eps


def coordinate_ascent(target, natural, max_iter, tol, budget=None, prior=None):
    """Coordinate ascent until an iteration gains less than `tol` nats."""
    prior, bound = target.prior if prior is None else prior, -np.inf
    for left in reversed(range(max_iter)):
        prior = prior.updated(natural)
        model = prior.model()
        target.ledger.spend()
        expected = model.expect(natural, target.rows, target.weight)
        before, bound = bound, prior.elbo(model, natural, expected.evidence)
        over = budget is not None and budget.cuts()
        if not left or bound - before < tol or over:
            break
        natural = model.updated(natural, expected.statistics[0])
    return Optimum(natural, bound, prior)


def sweeps(prior, naturals, rows, weight, n_sweeps, budget=None):
    """Sweeps in all runs of a prior: natural parameters, and how many rows (n_runs,)
    moved last."""
    n_runs = len(naturals)
    if not prior.stacks and n_runs > 1:
        runs = [(prior.take([i]), [own]) for i, own in enumerate(naturals)]
        parts = [sweeps(*run, rows, weight, n_sweeps, budget) for run in runs]
        return [own for (own,), _ in parts], np.concatenate([m for _, m in parts])
    (natural,) = naturals if n_runs == 1 else (_on_leaves(_joined, *naturals),)
    counts = moved = 0.0
    for _ in range(n_sweeps):
        prior = prior.updated(natural)
        model = prior.model()
        (statistics,) = model.expect(natural, rows, weight).statistics
        natural = model.updated(natural, statistics)
        moved, counts = np.abs(statistics["count"] - counts), statistics["count"]
        if budget is not None and budget.cuts():
            break
    moved = moved.reshape(n_runs, -1).max(axis=1)
    return split(natural, n_runs), moved


def split(natural, n_runs):
    """Natural parameters of every run, of those of all."""
    if n_runs == 1:
        return [natural]
    return [_on_leaves(partial(_part, n_runs, i), natural) for i in range(n_runs)]


def _joined(*parts):
    return np.concatenate(parts)


def _part(n_runs, i, leaf):
    return leaf.reshape(n_runs, -1, *leaf.shape[1:])[i]


def _on_leaves(func, *trees):
    """A function of every leaf of trees of one structure."""
    if isinstance(trees[0], dict):
        return {
            key: _on_leaves(func, *(tree[key] for tree in trees)) for key in trees[0]
        }
    return func(*trees)


# --- starts


def _by_k_means(values, weight, n, rng):
    # Loaded when it is used: it brings a third of scikit-learn.
    from sklearn.cluster import KMeans

    seed = int(rng.integers(2**31))
    return KMeans(n, n_init=1, random_state=seed).fit(values, None, weight).labels_


def _by_seeds(values, weight, n, rng):
    from sklearn.cluster import kmeans_plusplus

    seed = int(rng.integers(2**31))
    centers, _ = kmeans_plusplus(values, n, sample_weight=weight, random_state=seed)
    return _nearest(values, centers)


def _by_rows(values, weight, n, rng):
    return _nearest(values, values[rng.choice(len(values), n, replace=False)])


def _nearest(values, centers):
    squares = [((values - center) ** 2).sum(axis=1) for center in centers]
    return np.argmin(squares, axis=0)


def _at_random(values, weight, n, rng):
    resp = rng.random((len(values), n)) + _EPSILON
    return resp / resp.sum(axis=1, keepdims=True)


# Rows to labels, or to responsibilities.
STARTS = {
    "kmeans": _by_k_means,
    "k-means++": _by_seeds,
    "random": _at_random,
    "random_from_data": _by_rows,
}
INITS = tuple(STARTS)


def start(target, init, rng, scaled=False):
    """Natural parameters after one step from responsibilities that `init` makes."""
    values, n_components = target.rows.values, target.model.n_components
    if scaled:
        spread = values.std(axis=0)
        values = values / np.where(spread > 0, spread, 1.0)
    # Fewer rows than clusters leave the last clusters empty.
    resp = STARTS[init](values, target.weight, min(n_components, len(values)), rng)
    if resp.ndim == 1:
        resp = np.eye(n_components)[resp]
    resp = np.pad(resp, ((0, 0), (0, n_components - resp.shape[1])))
    return target.model.start(target.rows, resp * target.weight[:, None])


def split_and_merge(target, natural, rng):
    """One cluster shared with a similar one, another cut (Ueda et al. 2000)."""
    model, rows = target.model, target.rows
    if model.n_components < 3:
        return start(target, "random_from_data", rng, scaled=True)
    resp = model.responsibilities(natural, rows)
    weighted = resp * target.weight[:, None]
    overlap = weighted.T @ resp
    np.fill_diagonal(overlap, 0.0)
    overlap /= np.sqrt(np.outer(weighted.sum(axis=0), weighted.sum(axis=0))) + _EPSILON
    pairs = (overlap + _EPSILON).ravel() / (overlap + _EPSILON).sum()
    keep, give = np.unravel_index(rng.choice(len(pairs), p=pairs), overlap.shape)
    size = weighted.sum(axis=0)
    size[[keep, give]] = 0.0
    if not size.sum() > 0:
        return start(target, "random_from_data", rng, scaled=True)
    cut = rng.choice(len(size), p=size / size.sum())
    resp[:, keep] += resp[:, give]
    side = rows.values @ rng.standard_normal(rows.values.shape[1])
    middle = np.average(side, weights=weighted[:, cut] + _EPSILON)
    resp[:, give] = resp[:, cut] * (side > middle)
    resp[:, cut] *= side <= middle
    return model.start(rows, resp * target.weight[:, None])


# --- widths


def responsibilities_of(target, theta):
    """Responsibilities at one draw of the parameters, shape (n_rows, n_components)."""
    draws = target.family.draws_layout.tree(theta[None])
    joint = log_parts(target.model, draws, target.rows)[:, 0]
    return responsibilities(joint)[0]


def with_louis_widths(target, natural, power, prior=None, resp=None):
    """The same clusters widened by a power of Louis' formula; 0 leaves them."""
    # Coordinate ascent takes the assignments for independent of the parameters and
    # ends too narrow. What a row says about a cluster, its assignment unknown, is less:
    # the precision of a cluster's own parameters has the squares of the
    # responsibilities in place of these, and that of the weights the share of the
    # assignments' variance that is resolved.
    prior = target.prior if prior is None else prior
    model, weight = prior.updated(natural).model(), target.weight
    if resp is None:
        resp = model.responsibilities(natural, target.rows)
    count, squares = weight @ resp, weight @ resp**2
    share = np.maximum(squares / np.maximum(count, _EPSILON), _LEAST_SHARE)
    total = count.sum()
    unresolved = total - squares.sum()
    prior_variance = total - (count**2).sum() / total
    resolved = 1.0 - unresolved / max(prior_variance, _EPSILON)
    resolved = np.clip(resolved, _LEAST_SHARE, 1.0)
    counted = resp * weight[:, None] * share**power
    statistics = model.statistics(
        target.rows, counted, model.clusters.gaussians(natural)
    )
    wide = model.updated(natural, statistics)
    counts = model.temperature * resolved**power * count
    wide["weights"] = model.weights.target(natural, {"count": counts})
    return wide


# --- labels


def aligned(target, natural, reference):
    """The same distribution with clusters in the order of a reference, by the rows
    they share."""
    both = [
        target.model.responsibilities(own, target.rows) for own in (reference, natural)
    ]
    together = (both[0] * target.weight[:, None]).T @ both[1]
    return target.model.permuted(natural, aligned_to(together))


def aligned_to(together):
    """Order of the columns in which rows that are together are on the diagonal."""
    # Clusters without rows are told apart by the shares that they have.
    sizes = np.outer(together.sum(axis=1), together.sum(axis=0))
    _, order = linear_sum_assignment(-together / (np.sqrt(sizes) + _EPSILON))
    return order
