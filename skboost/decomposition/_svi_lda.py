"""Latent Dirichlet allocation by natural gradients: coordinate ascent, SVI and SVI+."""

from functools import partial
from numbers import Integral, Real

import numpy as np

from skboost._parallel import single_threaded
from skboost._parameters import keeps_parameters
from skboost._random import generator, root_seed
from skboost._sklearn import Interval, StrOptions, fit_context
from skboost.conjugate import TopicModel
from skboost.decomposition._topic_methods import TopicTransformer, counts_of_words
from skboost.decomposition._topics import STARTS, FittedTopics
from skboost.fitting import (
    START,
    SVI_CONSTRAINTS,
    SVIEstimator,
    callback_data,
    check_same_model,
)
from skboost.svi import NaturalGradient, RobbinsMonro, SVILimits, SVIState

# The stream of one fit after those of its starts and steps.
_BOUND = 2
# Documents by which the bound of stochastic runs is estimated: that of all would cost
# as much as the steps, and gains of the same documents have little noise.
_N_BOUND = 250
# As in scikit-learn: early batches count for less.
_RATE_OF_BATCHES = RobbinsMonro(10.0, 0.7)

_POSITIVE = Interval(Real, 0, None, closed="neither")
_COUNT = Interval(Integral, 1, None, closed="left")


class SVILatentDirichletAllocation(TopicTransformer, SVIEstimator):
    """Topics of documents, fitted in batches of any size, with tuneable noise.

    Variational inference in latent Dirichlet allocation: with all documents as one
    batch it is coordinate ascent, as ``learning_method="batch"`` of
    `sklearn.decomposition.LatentDirichletAllocation`; with `batch_size` it is
    stochastic variational inference (SVI), as ``"online"`` there; with a smaller
    `effective_batch_size` the steps carry the noise of batches of that size (SVI+).

    Parameters
    ----------
    n_components : int, default=10
        Number of topics.
    doc_topic_prior : float, default=None
        Of the symmetric Dirichlet prior of a document's topics; None is
        ``1 / n_components``.
    topic_word_prior : float, default=None
        Of the symmetric Dirichlet prior of a topic's words; None is
        ``1 / n_components``.
    batch_size : int, default=None
        Documents in a step's batch; None is all documents, and so is more than there
        are. Then the topics of each document, 8 bytes for each document and topic, are
        kept from one step to the next, so that the bound never falls.
    effective_batch_size, n_init, max_time, warm_start, random_state
        As in `SVIGaussianMixture`, with the same defaults.
    learning_rate : {"auto", "constant", "robbins-monro"}, float or LearningRate, \
            default="auto"
        Weight of a step. "auto" is 1 with all documents as the batch, and
        ``(t + 10) ** -0.7`` at the t-th step otherwise:
        ``RobbinsMonro(delay=learning_offset, forgetting=learning_decay)`` is
        scikit-learn's schedule.
    temperature : float, default=1.0
        Power of the likelihood of each document in (0, 1]; 1 is Bayes.
    init_params : {"kmeans", "random"}, default="kmeans"
        First topics: words of clusters of documents (of at most 10,000 of them), mixed
        with those of all, or, as in scikit-learn, random numbers.
    max_iter : int, default=100
        Epochs in total: passes over the documents.
    tol : float, default=1e-4
        Nats per token and epoch below which coordinate ascent has converged. Stochastic
        runs use all epochs.
    max_doc_update_iter : int, default=100
        Most iterations for the topics of a document; at least two are made, and none
        after one that moves .001 tokens in the mean over topics.
    total_samples : float, default=None
        Documents of the whole stream for `partial_fit`, where that is known. None
        counts them.
    n_jobs : int, default=None
        Threads over runs, and over chunks of 1,024 documents.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Parameters of the topics' Dirichlet distributions: as counts of the words in
        each topic. ``components_ / components_.sum(axis=1, keepdims=True)`` are
        probabilities.
    exp_dirichlet_component_ : ndarray of shape (n_components, n_features)
        Exponentials of the expected logarithms of the words' probabilities.
    doc_topic_prior_, topic_word_prior_ : float
        The priors in use.
    elbo_ : float
        Evidence lower bound of all documents, nats, up to the multinomial coefficients
        of the counts, which no parameter has a part in. With batches it is estimated
        from 250 documents, drawn once by the seed, as if all tokens were like theirs;
        after `partial_fit` from the last batch. `score` evaluates all.
    elbo_path_, elbo_by_init_, n_iter_, converged_, message_, history_
        As of `SVIGaussianMixture`.
    noise_shrunk_ : float
        Share of the entries of `components_`, over all steps, whose noise had to be
        shrunk because it would have made them negative; 0 without noise.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        As in scikit-learn.

    See Also
    --------
    sklearn.decomposition.LatentDirichletAllocation : Without added noise, restarts, a
        bound of the whole fit, or document completion.
    SVIGaussianMixture : The same steps for clusters of vectors.

    References
    ----------
    Blei, Ng, Jordan: Latent Dirichlet Allocation, 2003. Hoffman, Blei, Bach: Online
    Learning for Latent Dirichlet Allocation, 2010 (Algorithms 1 and 2). Paisley,
    Fazelnia, Barr: Stochastic Variational Inference with Tuneable Stochastic Annealing,
    2025 (Algorithm 1, section IV-B).

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.decomposition import SVILatentDirichletAllocation
    >>> X = np.array([[4, 3, 0, 0], [5, 2, 0, 0], [0, 0, 3, 4], [0, 1, 2, 5]])
    >>> lda = SVILatentDirichletAllocation(n_components=2, random_state=0).fit(X)
    >>> lda.transform(X).shape
    (4, 2)
    >>> [sorted(words) for words in sorted(lda.top_words(list("abcd"), 2))]
    [['a', 'b'], ['c', 'd']]
    """

    _parameter_constraints = {
        **SVI_CONSTRAINTS,
        "doc_topic_prior": [_POSITIVE, None],
        "topic_word_prior": [_POSITIVE, None],
        "temperature": [Interval(Real, 0, 1, closed="right")],
        "init_params": [StrOptions(set(STARTS))],
        "max_doc_update_iter": [_COUNT],
        "total_samples": [_POSITIVE, None],
    }

    @keeps_parameters
    def __init__(
        self,
        n_components=10,
        *,
        doc_topic_prior=None,
        topic_word_prior=None,
        batch_size=None,
        effective_batch_size=None,
        learning_rate="auto",
        temperature=1.0,
        init_params="kmeans",
        n_init=1,
        max_iter=100,
        tol=1e-4,
        max_doc_update_iter=100,
        total_samples=None,
        max_time=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
    ):
        pass

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Fit the posterior of the topics. Returns self.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents, or other non-negative weights: a weight of
            one half is half a token. Documents without any words are legal.
        y : Ignored

        Raises
        ------
        ValueError
            For negative entries, or a warm start of another model. What was fitted
            before stays usable.
        KeyboardInterrupt
            Once more, after the epochs done were kept with every fitted attribute.
        """
        with self._keeping_old_fit(), single_threaded():
            X_counts = counts_of_words(self, X, "fit", reset=True)
            model = self._model(
                self._previous, "warm_start=True", "Set warm_start=False."
            )
            rows = model.rows(X_counts)
            tol = self.tol * float(rows.counts.sum())
            return self._run_all(
                self._engines_of(model, rows),
                SVILimits(self.max_iter, tol, self.max_time),
                callback_data(X, y),
                partial(_attributes, model),
            )

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Take one more batch of a stream in; earlier ones are not needed again.

        The first batch sets the vocabulary and the first topics: let it have more
        documents than topics. Batches beyond `batch_size` are cut. With `total_samples`
        steps are those of a stream of that length; without, all documents so far are
        the data, and the rate of a step is at least the batch's share of them.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As `fit` does, and for a model that has changed since the first batch.
        """
        with self._keeping_old_fit(), single_threaded():
            begun = self._stream_so_far
            X = counts_of_words(self, X, "partial_fit", reset=begun is None)
            model = self._model(begun, "partial_fit", "Begin with a clone.")
            rows = model.rows(X)
            size = len(rows) if self.batch_size is None else self.batch_size
            for begin in range(0, len(rows), size):
                self._take_in(model, rows[begin : begin + size])
            return self

    def _take_in(self, model, rows):
        stream, total = self._stream_so_far, self.total_samples
        if stream is None:
            share = 1.0 if total is None else total / len(rows)
            rng = generator(self._seed, START, 0)
            stream = SVIState(self._start(model, rows, rng, share))
        weight = np.ones(len(rows))
        stream = self._absorbed(stream, model, rows, weight, _RATE_OF_BATCHES, total)
        self._keep_stream(stream, _attributes(model, stream.natural))

    # --- model and engines

    def _model(self, begun, what, advice):
        """The model; where a run or a stream has `begun`, it must be the same."""
        equal = 1.0 / self.n_components
        alpha, eta = self.doc_topic_prior, self.topic_word_prior
        # Tolerances and threads may change.
        model = TopicModel(
            self.n_components,
            self.n_features_in_,
            equal if alpha is None else float(alpha),
            equal if eta is None else float(eta),
            self.temperature,
            self.n_jobs,
            max_iter=self.max_doc_update_iter,
        )
        if begun is None:
            self._seed = root_seed(self.random_state)
        else:
            before = self._topics.model.settings
            check_same_model(what, before, model.settings, advice)
        return model

    def _engines_of(self, model, rows):
        """One for each run."""
        bound_rows, scale = self._bound_rows(rows)
        make = partial(
            NaturalGradient,
            model,
            rows,
            weight=np.ones(len(rows)),
            bound_rows=bound_rows,
            bound_scale=scale,
        )
        start = partial(self._start, model, rows)
        return self._engines(make, start, len(rows), _RATE_OF_BATCHES)

    def _bound_rows(self, rows):
        """Documents by which the bound is estimated; all tokens over theirs."""
        if len(rows) <= _N_BOUND:
            return None, 1.0
        rng = generator(self._seed, _BOUND)
        some = np.sort(rng.choice(len(rows), _N_BOUND, replace=False))
        tokens = rows[some].counts.sum()
        return (some, float(rows.counts.sum()) / tokens) if tokens else (None, 1.0)

    def _start(self, model, rows, rng, share=1.0):
        """Natural parameters of a start, for `share` times these rows."""
        words = STARTS[self.init_params](rows, self.n_components, rng)
        prior = model.topics.prior["lambda"]
        return {"topics": {"lambda": prior + share * words}}


def _attributes(model, natural):
    return FittedTopics(model, natural).attributes
