"""Topics of documents: what a fit begins with, and what a posterior says of others."""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer

from skboost.conjugate import TopicModel

# Rounds of k-means: rough clusters are enough to start from.
_N_ROUNDS, _N_CLUSTERED = 10, 10_000
# Share of each first topic that is the words of all documents: topics that begin far
# apart never exchange words again. Tuned on newspaper articles, at 0.5 to 0.95.
_COMMON = 0.7


def random(rows, n_components, rng):
    """Independent Gamma(100, 0.01), as in scikit-learn."""
    return rng.gamma(100.0, 0.01, (rows.n_words, n_components))


def kmeans(rows, n_components, rng):
    """Words of clusters of documents by tf-idf, mixed with those of all documents."""
    # Loaded when it is used: it brings a third of scikit-learn.
    from sklearn.cluster import KMeans

    n_rows = len(rows)
    if n_rows > _N_CLUSTERED:
        rows = rows[np.sort(rng.choice(n_rows, _N_CLUSTERED, replace=False))]
    counts = sparse.csr_matrix(rows.counts)
    n_clusters = min(n_components, counts.shape[0])
    vectors = TfidfTransformer(sublinear_tf=False).fit_transform(counts.log1p())
    seed = int(rng.integers(2**31))
    with warnings.catch_warnings():
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


@dataclass(frozen=True)
class FittedTopics:
    """Topics by their natural parameters, and what they say of documents."""

    model: TopicModel
    natural: dict

    @property
    def attributes(self):
        """Fitted attributes."""
        topics, own = self.model.topics, self.natural["topics"]
        return {
            "components_": own["lambda"].T.copy(),
            "exp_dirichlet_component_": np.exp(topics.expected_log(own).T.copy()),
            "doc_topic_prior_": self.model.local.alpha,
            "topic_word_prior_": topics.eta,
            "_topics": self,
        }

    def proportions(self, rows):
        """Dirichlet parameters of the documents, (n_documents, n_topics)."""
        return self.model.gamma(self.natural, rows)

    def bound(self, rows):
        """Bound of the documents' log likelihood, less the topics' divergence, nats."""
        evidence = self.model.expect(self.natural, rows, None).evidence
        return float(evidence - self.model.topics.kl(self.natural["topics"]))

    def perplexity(self, rows):
        """``exp(-bound / n_tokens)``."""
        return float(np.exp(-self.bound(rows) / _n_tokens(rows.counts)))

    def completion_perplexity(self, rows, rng):
        """Perplexity of one half of each document's tokens, given the other half."""
        given, held_out = rows.halves(rng)
        n_tokens = _n_tokens(held_out.counts)
        gamma = self.proportions(given)
        log_p = self.model.log_predictive(self.natural, gamma, held_out)
        return float(np.exp(-(held_out.counts.data @ log_p) / n_tokens))

    def top(self, n):
        """Positions of the n most probable words, one row for each topic."""
        words = self.natural["topics"]["lambda"].T
        return np.argsort(-words, axis=1, kind="stable")[:, :n]


def _n_tokens(counts):
    total = float(counts.sum())
    if not total > 0:
        raise ValueError(
            "X must have tokens to compute a perplexity; got documents without any."
        )
    return total
