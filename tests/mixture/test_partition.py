"""The point partition: its expected distance against that of all partitions."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal

from skboost.mixture import BoostedGaussianMixture

from .conftest import two_groups


def _partitions(n):
    """All partitions of n rows, as labels in order of appearance."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*one, k] for one in found for k in range(max(one) + 2)]
    return np.array(found)


def _distances(these, others):
    """Variation of information of each with each, nats."""
    first, second = (each[:, :, None] == each[:, None] for each in (these, others))
    both = first[:, None] & second

    def entropy(together):
        return -np.log(together.mean(axis=-1)).mean(axis=-1)

    return 2.0 * entropy(both) - entropy(first)[:, None] - entropy(second)


def _drawn(fit, X, n_draws):
    """Draws of assignments by SciPy's densities."""
    rng, draws = np.random.default_rng(1), fit.posterior_.sample(n_draws, 1)
    found = []
    for s in range(n_draws):
        covariances = np.linalg.inv(draws["precisions"][s])
        pairs = zip(draws["means"][s], covariances, strict=True)
        logs = [multivariate_normal(*pair).logpdf(X) for pair in pairs]
        shares = softmax(np.log(draws["weights"][s])[:, None] + logs, axis=0)
        found.append((rng.random(len(X)) > shares[0]).astype(int))
    return np.array(found)


def test_no_partition_of_six_rows_is_nearer_to_independent_draws(chains):
    X, model = chains
    # Rows of either group, and those between them.
    some = X[np.argsort(X.sum(axis=1))[[0, 3, 18, 20, 36, 39]]]
    drawn, times = np.unique(_drawn(model, some, 100), axis=0, return_counts=True)
    every = _partitions(6)
    distances = _distances(every, drawn)
    expected = distances @ times / times.sum()
    (found,) = _distances(model.partition(some)[None], drawn)
    excess = found - distances[expected.argmin()]
    mean = excess @ times / times.sum()
    spread = np.sqrt((excess - mean) ** 2 @ times / times.sum())
    # Both sides have draws of their own, 256 and 100.
    assert mean <= 3.0 * spread * np.sqrt(1 / 256 + 1 / 100)


def test_labels_are_compact_and_the_same_again(chains):
    X, model = chains
    labels = model.partition(X)
    assert set(labels) == set(range(labels.max() + 1)) and len(labels) == len(X)
    assert np.array_equal(labels, model.partition(X))


def test_other_posteriors_have_none():
    X, _ = two_groups(20)
    with pytest.raises(ValueError, match="needs posterior='gibbs'"):
        BoostedGaussianMixture(2).fit(X).partition(X)
