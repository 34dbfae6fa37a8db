"""Latent Dirichlet allocation as a conjugate exponential-family model."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skboost._parallel import SharedWithWorkers, chunked_map, row_blocks
from skboost.conjugate._dirichlet import DirichletFactor
from skboost.conjugate._natural import Expectation
from skboost.conjugate.topics._proportions import LocalSettings, WordTable, local_step


class TopicWords(DirichletFactor):
    """Factor q(beta) = prod_k Dirichlet(lambda_k), lambda (n_words, n_topics)."""

    name, key = "topics", "lambda"

    def __init__(self, eta, n_words, n_topics):
        self.eta = float(eta)
        super().__init__(np.full((n_words, n_topics), self.eta))


def _settled(table, settings, rows, item):
    chunk, gamma = item
    return local_step(rows[chunk], table, settings, gamma)


class LocalFactors(NamedTuple):
    """Proportions of all documents, and the bound that they reach."""

    gamma: np.ndarray
    natural: dict
    evidence: float

    def __len__(self):
        return len(self.gamma)


class TopicModel:
    """Latent Dirichlet allocation (Blei, Ng, Jordan 2003; Hoffman, Blei, Bach 2010)."""

    def __init__(
        self, n_topics, n_words, alpha, eta, temperature=1.0, n_jobs=None, **local
    ):
        self.topics = TopicWords(eta, n_words, n_topics)
        self.local = LocalSettings(alpha, **local)
        self.temperature, self.n_jobs = temperature, n_jobs
        self.factors = (self.topics,)
        self.prior = {self.topics.name: self.topics.prior}

    @property
    def n_topics(self):
        """Number of topics."""
        return self.topics.prior["lambda"].shape[1]

    @property
    def settings(self):
        """What two models must share for one to go on from the other."""
        return {
            "n_components": self.n_topics,
            "n_features": len(self.topics.prior["lambda"]),
            "doc_topic_prior": self.local.alpha,
            "topic_word_prior": self.topics.eta,
            "temperature": self.temperature,
        }

    def rows(self, X):
        """Documents of a dense or sparse matrix of non-negative entries."""
        return Documents.of(X)

    # --- documents

    def gamma(self, natural, rows):
        """Dirichlet parameters of the documents, shape (n_documents, n_topics)."""
        settled = self._proportions(self._table(natural), rows)
        return np.concatenate([part.gamma for _, part in settled])

    def expect(self, natural, rows, *weightings, local=None):
        """Expected statistics of each weighting of documents, and the evidence of
        the first."""
        table, weight = self._table(natural), weightings[0]
        settled = self._proportions(table, rows)
        evidence = _evidence(settled, weight)
        # Equal proportions lead to better topics than those of rounds before, which no
        # document ever leaves again, but may lose ground near the end.
        if local is not None:
            before = self.elbo(local.natural, local.evidence)
            if self.elbo(natural, evidence) < before:
                others = self._proportions(table, rows, local.gamma)
                for (part, own), (_, other) in zip(settled, others, strict=True):
                    own.improve(other, part)
                evidence = _evidence(settled, weight)
        statistics = tuple({"count": _counts(table, settled, w)} for w in weightings)
        gamma = np.concatenate([part.gamma for _, part in settled])
        return Expectation(statistics, evidence, LocalFactors(gamma, natural, evidence))

    def _table(self, natural):
        return WordTable.of(self.topics.expected_log(natural["topics"]))

    def _proportions(self, table, rows, gamma=None):
        """Pairs of documents and their optimal `Proportions`, by chunk."""
        chunks, settle = rows.chunks(), partial(_settled, table, self.local)
        items = [(chunk, None if gamma is None else gamma[chunk]) for chunk in chunks]
        settled = chunked_map(settle, items, self.n_jobs, shared=rows)
        return [(rows[c], own) for c, own in zip(chunks, settled, strict=True)]

    def log_predictive(self, natural, gamma, rows):
        """``ln sum_k E[theta_dk] E[beta_kw]`` of every entry, given its document's
        other words; nats."""
        means = self.topics.mean(natural["topics"])
        shares = gamma / gamma.sum(axis=1, keepdims=True)
        documents = np.repeat(np.arange(len(rows)), rows.lengths)
        words, p = rows.counts.indices, np.empty(rows.counts.nnz)
        for block in row_blocks(len(words), 2 * self.n_topics):
            p[block] = np.einsum(
                "nk,nk->n", shares[documents[block]], means[words[block]]
            )
        return np.log(p)

    def elbo(self, natural, evidence):
        """The evidence lower bound, nats, with every constant that depends on q."""
        kl = self.topics.kl(natural["topics"])
        return float(self.temperature * evidence - kl)


def _evidence(settled, weight):
    """Weighted sum of the documents' parts of the bound, nats."""
    evidence = np.concatenate([part.evidence for _, part in settled])
    return float(evidence.sum() if weight is None else weight @ evidence)


def _counts(table, settled, weight):
    """Expected counts of words in topics, shape (n_words, n_topics)."""
    total, done = np.zeros_like(table.values), 0
    for part, local in settled:
        counts = part.counts
        ratios = sparse.csr_array(
            (local.ratio, counts.indices, counts.indptr), counts.shape
        )
        shares = local.weight
        if weight is not None:
            shares = shares * weight[done : done + len(part), None]
        total += ratios.T @ shares
        done += len(part)
    return total * table.values


# Documents of one chunk of work: enough to put many of like length together.
_CHUNK = 1024


@dataclass(frozen=True)
class Documents(SharedWithWorkers):
    """Rows of a matrix of counts, a csr_array of positive entries only."""

    counts: sparse.csr_array

    @classmethod
    def of(cls, X):
        """Documents of a dense or sparse matrix without negative entries."""
        # A copy: zeros and duplicates are not to leave the user's own arrays.
        counts = sparse.csr_array(X, dtype=float, copy=True)
        counts.sum_duplicates()
        counts.eliminate_zeros()
        return cls(counts)

    def __len__(self):
        return self.counts.shape[0]

    def __getitem__(self, index):
        """Some of the documents, by a slice or an array of positions."""
        return Documents(self.counts[index])

    @property
    def n_words(self):
        """Size of the vocabulary."""
        return self.counts.shape[1]

    @property
    def lengths(self):
        """Different words of each document, shape (n_documents,)."""
        return np.diff(self.counts.indptr)

    @property
    def totals(self):
        """Tokens of each document, shape (n_documents,)."""
        return np.asarray(self.counts.sum(axis=1)).reshape(-1)

    def chunks(self):
        """Slices of documents that do not depend on the number of workers."""
        return row_blocks(len(self), 1, _CHUNK) or [slice(0, 0)]

    def halves(self, rng):
        """Each document's tokens dealt at random into two sets of documents."""
        counts = self.counts
        pieces = np.ceil(counts.data).astype(int)
        entry = np.repeat(np.arange(counts.nnz), pieces)
        weight = np.ones(len(entry))
        # The last piece of an entry is what is left of its count.
        weight[np.cumsum(pieces) - 1] = counts.data - (pieces - 1)
        document = np.repeat(np.arange(len(self)), self.lengths)[entry]
        order = np.lexsort((rng.random(len(entry)), document))
        size = np.bincount(document, minlength=len(self))
        rank = np.arange(len(entry)) - np.repeat(np.cumsum(size) - size, size)
        first = rank < (size // 2)[document[order]]
        dealt = []
        for part in (order[first], order[~first]):
            half = counts.copy()
            half.data = np.bincount(entry[part], weight[part], counts.nnz)
            dealt.append(Documents.of(half))
        return tuple(dealt)

    def coherence(self, words):
        """Mean normalised pointwise mutual information of pairs of words, or NaN."""
        holds = (self.counts[:, words] > 0).astype(float)
        together = np.asarray((holds.T @ holds).todense()) / max(len(self), 1)
        alone = np.diagonal(together)
        i, j = np.triu_indices(len(words), 1)
        occur = (alone[i] > 0) & (alone[j] > 0)
        if not occur.any():
            return np.nan
        i, j = i[occur], j[occur]
        joint = together[i, j]
        # Pairs that never meet are -1, those in every document together 1.
        npmi = np.where(joint > 0, 1.0, -1.0)
        some = (joint > 0) & (joint < 1)
        log_joint = np.log(joint[some])
        gain = log_joint - np.log(alone[i[some]]) - np.log(alone[j[some]])
        npmi[some] = -gain / log_joint
        return float(npmi.mean())
