"""What topics say of documents, as users ask."""

from numbers import Integral

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_non_negative

from skboost._columns import validate_data
from skboost._random import generator, root_seed


def counts_of_words(estimator, X, whom, reset=False):
    """`X` as counts that a method of this name has been given, validated."""
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=np.float64,
        advice="Count the words of texts with "
        "sklearn.feature_extraction.text.CountVectorizer.",
    )
    check_non_negative(X, f"{type(estimator).__name__}.{whom}")
    # Steps between proportions are compared by their squares.
    if X.size and X.max() > 1e100:
        raise ValueError(
            f"X must hold counts of words, at most 1e100; got {X.max():.3g}. "
            "Divide X by its largest value."
        )
    return X


class TopicTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of estimators whose ``_topics`` are `FittedTopics`."""

    @property
    def _n_features_out(self):
        return len(self.components_)

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
        topics, rows = self._asked("transform", X)
        gamma = topics.proportions(rows)
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
        y : Ignored
        """
        topics, rows = self._asked("score", X)
        return topics.bound(rows)

    def perplexity(self, X):
        """``exp(-score(X) / n_tokens)``, a float, as scikit-learn's; `X` is as in
        `score`."""
        topics, rows = self._asked("perplexity", X)
        return topics.perplexity(rows)

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
        """
        topics, rows = self._asked("document_completion_perplexity", X)
        chosen = self.random_state if random_state is None else random_state
        return topics.completion_perplexity(rows, generator(root_seed(chosen)))

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
        """
        topics, rows = self._asked("coherence", X)
        _check_number("top_n", top_n, 2)
        return np.array([rows.coherence(top) for top in topics.top(top_n)])

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
        """
        check_is_fitted(self, "_topics")
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
        return [[names[word] for word in top] for top in self._topics.top(n)]

    def _asked(self, whom, X):
        """The topics, and the documents that a method of this name is asked about."""
        check_is_fitted(self, "_topics")
        rows = self._topics.model.rows(counts_of_words(self, X, whom))
        return self._topics, rows

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def _check_number(name, n, least):
    if not (isinstance(n, Integral) and n >= least):
        raise ValueError(f"{name} must be an integer of at least {least}; got {n!r}.")
