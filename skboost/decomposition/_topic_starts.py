"""Topics to start from."""

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from threadpoolctl import threadpool_limits

# Rounds of k-means: rough clusters are enough to start from.
_N_ROUNDS, _N_CLUSTERED = 10, 10_000
# Share of each first topic that is the words of all documents: topics that begin far
# apart never exchange words again. Tuned on newspaper articles, at 0.5 to 0.95.
_COMMON = 0.7


def random(rows, n_components, rng):
    """Independent Gamma(100, 0.01), as in scikit-learn."""
    return rng.gamma(100.0, 0.01, (rows.n_words, n_components))


def kmeans(rows, n_components, rng):
    """Words of clusters of documents, mixed with those of all documents.

    Clusters are of unit vectors of tf-idf with logarithmic counts.
    """
    # Loaded when it is used: it brings a third of scikit-learn.
    from sklearn.cluster import KMeans

    n_rows = len(rows)
    if n_rows > _N_CLUSTERED:
        rows = rows[np.sort(rng.choice(n_rows, _N_CLUSTERED, replace=False))]
    counts = sparse.csr_matrix(rows.counts)
    n_clusters = min(n_components, counts.shape[0])
    vectors = TfidfTransformer(sublinear_tf=False).fit_transform(counts.log1p())
    seed = int(rng.integers(2**31))
    # One thread, also in OpenMP: the order of its sums would show in the labels.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # Equal documents are one cluster; the rest stay empty.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(n_clusters, n_init=1, max_iter=_N_ROUNDS, random_state=seed)
        labels = model.fit(vectors).labels_
    one = np.ones(len(labels))
    member = sparse.csr_matrix((one, (np.arange(len(labels)), labels)))
    member.resize(len(labels), n_components)
    words = (counts.T @ member).toarray()
    common = np.asarray(counts.sum(axis=0)).reshape(-1, 1)
    common = common / max(common.sum(), np.finfo(float).tiny)
    words *= n_rows / len(rows)
    return (1.0 - _COMMON) * words + _COMMON * common * words.sum(axis=0)


STARTS = {"kmeans": kmeans, "random": random}
