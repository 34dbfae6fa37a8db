"""Topics of documents: what a fit begins with, and what fitted ones say."""

import warnings
from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.utils.validation import check_is_fitted

from skboost._random import generator, root_seed
from skboost.conjugate import Documents

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


def npmi(counts, words):
    """Mean normalised pointwise mutual information of pairs of words.

    Parameters
    ----------
    counts : csr_array of shape (n_documents, n_words)
    words : ndarray of int

    Returns
    -------
    float
        Probabilities are shares of documents. NaN where no pair occurs.
    """
    n_documents = max(counts.shape[0], 1)
    holds = (counts[:, words] > 0).astype(float)
    together = np.asarray((holds.T @ holds).todense()) / n_documents
    alone = np.diagonal(together)
    i, j = np.triu_indices(len(words), 1)
    occur = (alone[i] > 0) & (alone[j] > 0)
    if not occur.any():
        return np.nan
    i, j = i[occur], j[occur]
    joint = together[i, j]
    # Pairs that never meet are -1, those in every document together 1.
    found = np.where(joint > 0, 1.0, -1.0)
    some = (joint > 0) & (joint < 1)
    log_joint = np.log(joint[some])
    gain = log_joint - np.log(alone[i[some]]) - np.log(alone[j[some]])
    found[some] = -gain / log_joint
    return float(found.mean())


class FittedTopics(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods for estimators that hold ``_model`` and ``_natural``."""

    def _parameters(self, natural):
        """Fitted attributes that follow from the natural parameters."""
        topics = self._model.topics
        return {
            "components_": natural["topics"]["lambda"].T.copy(),
            "exp_dirichlet_component_": np.exp(
                topics.expected_log(natural["topics"]).T.copy()
            ),
            "doc_topic_prior_": self._model.local.alpha,
            "topic_word_prior_": topics.eta,
            "_natural": natural,
        }

    @property
    def _n_features_out(self):
        return len(self.components_)

    def _rows(self, X, whom):
        check_is_fitted(self, "_natural")
        return self._model.rows(self._validated(X, reset=False, whom=whom))

    def transform(self, X, *, normalize=True):
        """Posterior mean proportions of the topics in documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; words that no document of the fit had say nothing about topics.
        normalize : bool, default=True
            False gives the Dirichlet parameters of the proportions.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        rows = self._rows(X, "transform")
        gamma = self._model.gamma(self._natural, rows)
        if normalize:
            gamma /= gamma.sum(axis=1, keepdims=True)
        return gamma

    def score(self, X, y=None):
        """Bound of the log likelihood of documents, nats, as scikit-learn's.

        The documents' part of the bound, less the divergence of the topics from their
        prior, which does not shrink with the number of documents: compare scores on the
        same documents, and prefer `document_completion_perplexity` on new ones.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        float
        """
        return self._bound(self._rows(X, "score"))

    def perplexity(self, X):
        """``exp(-score(X) / n_tokens)``, as scikit-learn's.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        float
        """
        rows = self._rows(X, "perplexity")
        return float(np.exp(-self._bound(rows) / _n_tokens(rows.counts)))

    def _bound(self, rows):
        evidence = self._model.expect(self._natural, rows, None).evidence
        return float(evidence - self._model.topics.kl(self._natural["topics"]))

    def document_completion_perplexity(self, X, random_state=None):
        """Perplexity of one half of each document's tokens, given the other half.

        Tokens are dealt at random. The proportions of topics come from one half, and
        each token w of the other is predicted with ``sum_k E[theta_dk] E[beta_kw]``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; what is left of a fractional count is a token of that weight.
        random_state : int, RandomState instance or None, default=None
            Who gets which half. None: the estimator's own.

        Returns
        -------
        float
            exp of the mean negative log probability of a token; lower is better. The
            only token of a document is predicted from the prior's proportions.

        Raises
        ------
        ValueError
            If no document has a token.
        """
        rows = self._rows(X, "document_completion_perplexity")
        chosen = self.random_state if random_state is None else random_state
        given, held_out = halves(rows, generator(root_seed(chosen)))
        n_tokens = _n_tokens(held_out.counts)
        gamma = self._model.gamma(self._natural, given)
        log_p = self._model.log_predictive(self._natural, gamma, held_out)
        return float(np.exp(-(held_out.counts.data @ log_p) / n_tokens))

    def coherence(self, X, top_n=10):
        """Coherence of each topic: how its top words go together in documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Documents to count in: those of the fit, or others of the same words.
        top_n : int, default=10
            Words of a topic that are compared, at least 2.

        Returns
        -------
        ndarray of shape (n_components,)
            Mean over pairs of words of the normalised pointwise mutual information of
            their occurrence in documents (Bouma 2009): 1 is always together, 0
            independent, -1 never. Pairs with a word that no document has are left out,
            and a topic without other pairs has NaN.

        Raises
        ------
        ValueError
            If `top_n` is no integer of at least 2.
        """
        rows = self._rows(X, "coherence")
        _check_number("top_n", top_n, 2)
        return np.array([npmi(rows.counts, top) for top in self._top(top_n)])

    def top_words(self, feature_names=None, n=10):
        """The most probable words of each topic, in order.

        Parameters
        ----------
        feature_names : array-like of shape (n_features,), default=None
            Such as ``CountVectorizer.get_feature_names_out()``; None is the names that
            `X` had in `fit`, or else the numbers of the words.
        n : int, default=10

        Returns
        -------
        list of list
            One for each topic.

        Raises
        ------
        ValueError
            If `feature_names` has another length, or `n` is no positive integer.
        """
        check_is_fitted(self, "_natural")
        _check_number("n", n, 1)
        if feature_names is None:
            numbers = np.arange(self.n_features_in_)
            feature_names = vars(self).get("feature_names_in_", numbers)
        names = list(feature_names)
        if len(names) != self.n_features_in_:
            raise ValueError(
                f"feature_names must have a name for each of the {self.n_features_in_} "
                f"words; got {len(names)}."
            )
        return [[names[word] for word in top] for top in self._top(n)]

    def _top(self, n):
        """Positions of the n most probable words, one row for each topic."""
        return np.argsort(-self.components_, axis=1, kind="stable")[:, :n]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def halves(rows, rng):
    """Each document's tokens dealt at random into two sets of documents.

    Of an odd number the second half gets one more.
    """
    counts = rows.counts
    pieces = np.ceil(counts.data).astype(int)
    entry = np.repeat(np.arange(counts.nnz), pieces)
    weight = np.ones(len(entry))
    # The last piece of an entry is what is left of its count.
    weight[np.cumsum(pieces) - 1] = counts.data - (pieces - 1)
    document = np.repeat(np.arange(len(rows)), rows.lengths)[entry]
    order = np.lexsort((rng.random(len(entry)), document))
    size = np.bincount(document, minlength=len(rows))
    rank = np.arange(len(entry)) - np.repeat(np.cumsum(size) - size, size)
    first = rank < (size // 2)[document[order]]
    found = []
    for part in (order[first], order[~first]):
        half = counts.copy()
        half.data = np.bincount(entry[part], weight[part], counts.nnz)
        found.append(Documents.of(half))
    return tuple(found)


def _n_tokens(counts):
    total = float(counts.sum())
    if not total > 0:
        raise ValueError(
            "X must have tokens to compute a perplexity; got documents without any."
        )
    return total


def _check_number(name, n, least):
    if not (isinstance(n, Integral) and n >= least):
        raise ValueError(f"{name} must be an integer of at least {least}; got {n!r}.")
