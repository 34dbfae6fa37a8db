"""Responsibilities to start a mixture from, as scikit-learn names them."""

import numpy as np
from threadpoolctl import threadpool_limits


def kmeans(values, weight, n_components, rng):
    """Each row belongs to its k-means cluster."""
    # Loaded when it is used: it brings a third of scikit-learn.
    from sklearn.cluster import KMeans

    n_clusters = min(n_components, len(values))
    seed = int(rng.integers(2**31))
    # One thread, also in OpenMP: the order of its sums would show in the labels.
    with threadpool_limits(limits=1):
        labels = (
            KMeans(n_clusters, n_init=1, random_state=seed)
            .fit(values, sample_weight=weight)
            .labels_
        )
    return _one_hot(np.arange(len(values)), labels, len(values), n_components)


def random(values, weight, n_components, rng):
    """Uniform numbers, normalised over the clusters."""
    resp = rng.random((len(values), n_components))
    return resp / resp.sum(axis=1, keepdims=True)


def random_from_data(values, weight, n_components, rng):
    """Each cluster holds one row of its own, drawn at random by weight."""
    n_clusters = min(n_components, len(values))
    share = weight / weight.sum()
    index = rng.choice(len(values), n_clusters, replace=False, p=share)
    return _one_hot(index, np.arange(n_clusters), len(values), n_components)


def plusplus(values, weight, n_components, rng):
    """Each cluster holds one row, drawn by k-means++."""
    from sklearn.cluster import kmeans_plusplus

    n_clusters = min(n_components, len(values))
    seed = int(rng.integers(2**31))
    with threadpool_limits(limits=1):
        _, index = kmeans_plusplus(
            values, n_clusters, sample_weight=weight, random_state=seed
        )
    return _one_hot(index, np.arange(n_clusters), len(values), n_components)


STARTS = {
    "kmeans": kmeans,
    "k-means++": plusplus,
    "random": random,
    "random_from_data": random_from_data,
}


def _one_hot(rows, clusters, n_rows, n_components):
    resp = np.zeros((n_rows, n_components))
    resp[rows, clusters] = 1.0
    return resp
