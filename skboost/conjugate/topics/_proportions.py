"""Topic proportions of documents given the topics: the local step of a topic model.

With the assignments of the tokens eliminated (Hoffman, Blei, Bach 2010, Algorithm 1),

    gamma_dk <- alpha + e_dk sum_w n_dw b_kw / sum_j e_dj b_jw,
    e = exp E[ln theta], b = exp E[ln beta].

Documents of like length are padded into blocks, so that both sums are products of
batches of small matrices. After few iterations most topics hold nothing of most
documents: each phase of the iteration gathers only those that still matter in one.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, psi, xlogy

_TINY = np.finfo(float).tiny
# Under priors below about 1/300 the exponentials of a topic that a word or a document
# lacks would underflow; no token must be left without a topic.
_LEAST = 1e-140


class LocalSettings(NamedTuple):
    """When a document's iteration ends: `tol` is a mean change in tokens."""

    alpha: float
    max_iter: int = 100
    tol: float = 1e-3


class WordTable(NamedTuple):
    """exp E[ln beta] (n_words, n_topics), each row scaled to at most one."""

    values: np.ndarray
    shift: np.ndarray

    @classmethod
    def of(cls, expected_log):
        """The table of E[ln beta], shape (n_words, n_topics)."""
        shift = expected_log.max(axis=1)
        scaled = np.exp(expected_log - shift[:, None])
        return cls(np.maximum(scaled, _LEAST, out=scaled), shift)


class Proportions:
    """Optimal factors of documents, and their parts of the bound."""

    def __init__(self, gamma, n_entries):
        self.gamma = gamma
        # e_dk of the assignments up to a factor, and n_dw / sum_k e_dk b_kw.
        self.weight = np.zeros_like(gamma)
        self.ratio = np.zeros(n_entries)
        self.evidence = np.zeros(len(gamma))

    def improve(self, other, rows):
        """Take over the factors of documents whose bound is better in another."""
        better = other.evidence > self.evidence
        for name in ("gamma", "weight", "evidence"):
            vars(self)[name][better] = vars(other)[name][better]
        entries = np.repeat(better, rows.lengths)
        self.ratio[entries] = other.ratio[entries]


def local_step(rows, table, settings, start=None):
    """Iterate the proportions of each document until they settle."""
    # From a start they go on without extrapolation: the bound is not lower than there.
    alpha, left, fresh = settings.alpha, settings.max_iter, start is None
    if fresh:
        # The first iteration is the same product for all documents.
        equal = table.values / table.values.sum(axis=1, keepdims=True)
        start, left = alpha + rows.counts @ equal, left - 1
    local = Proportions(np.array(start), rows.counts.nnz)
    docs, done = np.flatnonzero(rows.lengths), 0
    # Iterations of each phase; the last phase takes what is left of them.
    for n_iter in (5, 5, 20, 30, settings.max_iter):
        n_iter = min(n_iter, max(left, 1) - done)
        if n_iter <= 0 or not len(docs):
            break
        stops = settings._replace(max_iter=n_iter)
        active = _active(local.gamma[docs] - settings.alpha)
        if not (fresh or done):
            # What held nothing under earlier topics may hold something now.
            active[:] = True
        # From this iteration on every other step is extrapolated.
        extrapolates = fresh and done >= 10
        docs = _phase(rows, table, local, docs, active, stops, extrapolates)
        done += n_iter
    local.evidence = _evidence(rows, table, local, settings.alpha)
    return local


def _evidence(rows, table, local, alpha):
    """Expected log likelihoods less the divergences of both local factors, nats."""
    counts, n_topics = rows.counts, local.gamma.shape[1]
    log_norm = np.log(counts.data / local.ratio) + table.shift[counts.indices]
    total = np.concatenate([[0.0], np.cumsum(counts.data * log_norm)])
    tokens = total[counts.indptr[1:]] - total[counts.indptr[:-1]]
    tokens -= xlogy(local.gamma - alpha, local.weight).sum(axis=1)
    rise = (gammaln(local.gamma) - gammaln(alpha)).sum(axis=1)
    whole = n_topics * alpha
    return tokens + rise - gammaln(whole + rows.totals) + gammaln(whole)


def _active(held):
    """Which topics play a part in documents, from the tokens that each holds."""
    # Share of a document's tokens below which a topic plays no further part in it.
    active = held > 1e-10 * held.sum(axis=1, keepdims=True)
    # Whole rows of the table lie together: many topics cost no more than all.
    # Share of the topics above which all are gathered.
    active[active.sum(axis=1) > 0.3 * active.shape[1]] = True
    return active


def _phase(rows, table, local, docs, active, settings, extrapolates):
    """Some iterations of some documents; the positions of those that go on."""
    n_active, lengths = active.sum(axis=1), rows.lengths[docs]
    order = np.lexsort((docs, n_active, lengths))
    going_on = []
    for part in _blocks(lengths[order], n_active[order]):
        some = order[part]
        block = _Block(rows, table, local, docs[some], active[some], settings.alpha)
        going_on.append(block.iterate(settings, extrapolates))
    return np.concatenate(going_on)


def _blocks(lengths, n_active):
    """Slices whose documents, padded to the longest, fill about one block."""
    begin, n = 0, len(lengths)
    while begin < n:
        widest = np.maximum.accumulate(n_active[begin:])
        size = np.arange(1, n - begin + 1) * lengths[begin:] * widest
        # Entries of a block's words times topics: twice the second-level cache, which
        # costs less than more blocks would.
        end = begin + max(1, int(np.searchsorted(size, 1 << 18, side="right")))
        yield slice(begin, end)
        begin = end


class _Block:
    """Documents padded to one number of words and of topics."""

    def __init__(self, rows, table, local, docs, active, alpha):
        self.local, self.docs, self.alpha = local, docs, alpha
        begin, lengths = rows.counts.indptr[docs], rows.lengths[docs]
        column = np.arange(lengths.max())
        self.real = column < lengths[:, None]
        self.entries = np.where(self.real, begin[:, None] + column, begin[:, None])
        words = rows.counts.indices[self.entries].astype(np.intp)
        self.counts = np.where(self.real, rows.counts.data[self.entries], 0.0)
        width, n_topics = active.sum(axis=1).max(), active.shape[1]
        self.topics = np.argsort(~active, axis=1, kind="stable")[:, :width]
        self.gamma = np.take_along_axis(local.gamma[docs], self.topics, axis=1)
        if width == n_topics:
            self.topics = np.broadcast_to(np.arange(n_topics), self.topics.shape)
            self.gamma = local.gamma[docs]
            self.table = table.values[words]
        else:
            flat = (words * n_topics)[:, :, None] + self.topics[:, None, :]
            self.table = table.values.reshape(-1)[flat]
        self.open = np.ones(len(docs), dtype=bool)

    def iterate(self, settings, extrapolates):
        """Iterate; the positions of documents that have not settled."""
        least = settings.tol * self.local.gamma.shape[1]
        first, settled = None, np.zeros(len(self.docs), dtype=bool)
        for left in range(settings.max_iter - 1, -1, -1):
            gamma, weight, ratio = self._step()
            change = gamma - self.gamma
            settled = self.open & (np.abs(change).sum(axis=1) < least)
            ends = settled if left else self.open
            if ends.any():
                self._keep(ends, gamma, weight, ratio)
            self.open &= ~settled
            if not left or not self.open.any():
                break
            if first is None or not extrapolates:
                first, self.gamma = change, gamma
            else:
                self.gamma = _extrapolated(gamma, first, change, self.alpha)
                first = None
            if 4 * np.count_nonzero(self.open) < 3 * len(self.open):
                first = None if first is None else first[self.open]
                self._drop_settled()
        return self.docs[self.open]

    def _step(self):
        """One iteration of every document: gamma, and weights and ratios behind it."""
        weight = psi(self.gamma)
        weight -= weight.max(axis=1, keepdims=True)
        weight = np.maximum(np.exp(weight, out=weight), _LEAST, out=weight)
        ratio = self.counts / (self.table @ weight[:, :, None])[:, :, 0]
        gamma = (ratio[:, None, :] @ self.table)[:, 0]
        gamma *= weight
        gamma += self.alpha
        return gamma, weight, ratio

    def _keep(self, ends, gamma, weight, ratio):
        """Write down what an iteration found of the documents that end with it."""
        local, docs, real = self.local, self.docs[ends], self.real[ends]
        local.gamma[docs], local.weight[docs] = self.alpha, 0.0
        where = docs[:, None], self.topics[ends]
        local.gamma[where] = gamma[ends]
        local.weight[where] = weight[ends]
        local.ratio[self.entries[ends][real]] = ratio[ends][real]

    def _drop_settled(self):
        """Go on with the documents that have not settled."""
        for name in _OF_DOCUMENTS:
            vars(self)[name] = vars(self)[name][self.open]
        self.open = np.ones(len(self.docs), dtype=bool)


_OF_DOCUMENTS = (
    "docs", "real", "entries", "counts", "topics", "gamma", "table",
)  # fmt: skip


def _extrapolated(gamma, first, second, alpha):
    """The limit that two steps point to (Varadhan and Roland 2008, S3)."""
    bend = second - first
    length = np.sqrt((first**2).sum(axis=1) / np.maximum((bend**2).sum(axis=1), _TINY))
    length = np.clip(length, 1.0, 16.0)[:, None]
    before = gamma - second - first
    far = before + 2.0 * length * first + length**2 * bend
    # Each topic keeps a tenth of the tokens that the last step gave it.
    return np.maximum(far, alpha + 0.1 * (gamma - alpha))
