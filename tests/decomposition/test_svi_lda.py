"""The estimator of topics: runs, scikit-learn's company, streams, and bad input."""

from copy import copy
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skboost._random import generator, root_seed
from skboost.conjugate import Documents
from skboost.decomposition import SVILatentDirichletAllocation
from skboost.svi import RobbinsMonro

from ..conjugate import conftest
from ..kinds import over

STOCHASTIC = {"batch_size": 50, "effective_batch_size": 25}


corpus = partial(conftest.corpus, n_documents=200, n_words=40, n_topics=3, length=60)
X, _ = corpus()


def made(n_components=3, **settings):
    settings = {"max_iter": 8, "random_state": 0} | settings
    return SVILatentDirichletAllocation(n_components, **settings)


@pytest.fixture(scope="module")
def fitted():
    return made().fit(X)


# --- what is found


@over("settings", [{}, STOCHASTIC], slow=[STOCHASTIC], ids=["all", "batches"])
def test_topics_are_recovered(settings):
    X, topics = corpus(n_documents=400, length=100)
    model = made(max_iter=8, n_init=2, **settings).fit(X)
    found = model.components_ / model.components_.sum(axis=1, keepdims=True)
    distance = np.abs(topics[:, None] - found[None]).sum(axis=-1) / 2.0
    order = linear_sum_assignment(distance)
    assert distance[order].max() < 0.05


def test_tol_is_nats_per_token():
    model = made(max_iter=500, tol=1e-4).fit(X)
    assert model.converged_
    gains = np.diff(model.elbo_path_)
    assert gains[-1] <= 1e-4 * X.sum() < gains[-2]


def test_a_smaller_temperature_is_less_data():
    # One topic: its parameters are the prior and that share of the counts.
    model = made(1, temperature=0.25, topic_word_prior=0.5).fit(X)
    assert_allclose(model.components_[0], 0.5 + 0.25 * X.sum(axis=0), rtol=1e-10)


def test_scikit_learns_schedule():
    rate, few = RobbinsMonro(delay=10.0, forgetting=0.7), {"batch_size": 50}
    few["max_iter"] = 2
    named = made(learning_rate=rate, **few).fit(X)
    assert np.array_equal(named.components_, made(**few).fit(X).components_)
    assert named.history_[0]["learning_rate"] == 14**-0.7


def test_bounds_are_estimated_from_some_documents():
    twice = np.vstack([X, X])
    settings = {"batch_size": 50, "max_iter": 3}
    many, few = (made(**settings).fit(rows) for rows in (twice, X))
    assert many.elbo_ != many.score(twice)
    assert many.elbo_ == pytest.approx(many.score(twice), rel=0.05)
    assert few.elbo_ == pytest.approx(few.score(X), rel=1e-12)


# --- streams


def test_a_stream_of_one_batch_is_a_full_step():
    model = made().partial_fit(X)
    start = made(max_iter=1).fit(X)
    assert_allclose(model.components_, start.components_, rtol=1e-8)
    assert model.n_iter_ == 1
    assert not hasattr(model, "elbo_path_")


@pytest.mark.parametrize("total_samples", [None, 600])
def test_a_stream_learns_the_topics(total_samples):
    X, _ = corpus(n_documents=600)
    first = made(batch_size=100, total_samples=total_samples).partial_fit(X[:100])
    before = first.document_completion_perplexity(X[500:], 0)
    # Steps of a known length have the rates of the schedule, and need more of them.
    model, n_passes = first, 1 if total_samples is None else 4
    for _ in range(n_passes):
        model.partial_fit(X[100:500])
    assert model.n_iter_ == 1 + 4 * n_passes
    assert model.document_completion_perplexity(X[500:], 0) < before
    expected = 500 if total_samples is None else 600
    tokens = model.components_.sum() / 60
    assert tokens == pytest.approx(expected, rel=0.2)
    whole = made().fit(X[:500]).document_completion_perplexity(X[500:], 0)
    assert model.document_completion_perplexity(X[500:], 0) < 1.1 * whole


# --- documents and words


@pytest.mark.parametrize("kind", ["csc_matrix", "coo_array"])
def test_every_sparse_format_is_the_same_data(kind, fitted):
    made_of = getattr(sparse, kind)(X)
    found = made().fit(made_of).transform(made_of)
    assert np.array_equal(found, fitted.transform(X))


def test_stored_zeros_and_duplicates_do_not_matter(fitted):
    stored = sparse.coo_matrix(
        (
            np.r_[X[X > 0] / 2.0, X[X > 0] / 2.0, 0.0],
            [np.r_[index, index, 0] for index in np.nonzero(X)],
        ),
        X.shape,
    ).tocsr(copy=False)
    zeros = sparse.csr_matrix(X, dtype=float)
    zeros.data[:3] = 0.0
    kept = zeros.copy()
    made().fit(zeros)
    assert (zeros != kept).nnz == 0 and zeros.nnz == kept.nnz
    assert_allclose(made().fit(stored).components_, fitted.components_)


def test_fractional_counts_are_weights():
    model = made().fit(0.5 * X)
    assert model.components_.sum() == pytest.approx(0.5 * X.sum() + 40, rel=1e-10)
    assert np.isfinite(model.document_completion_perplexity(0.5 * X, 0))


def test_documents_without_words_have_the_prior():
    empty = X.copy()
    empty[[0, 7]] = 0
    model = made().fit(empty)
    assert_allclose(model.transform(empty)[[0, 7]], 1.0 / 3.0)
    assert_allclose(model.transform(empty, normalize=False)[0], model.doc_topic_prior_)
    nothing = made().fit(np.zeros((5, 4)))
    assert_allclose(nothing.components_, 1.0 / 3.0)
    assert_allclose(nothing.transform(np.eye(4)).sum(axis=1), 1.0)


def test_halves_are_all_of_the_tokens():
    fractional = X[:50].astype(float)
    fractional[0] *= 0.7
    rows = Documents.of(fractional)
    found = rows.halves(np.random.default_rng(0))
    one, two = (half.counts.toarray() for half in found)
    assert_allclose(one + two, fractional)
    assert np.all(one.sum(axis=1)[1:] == 30)
    assert np.array_equal(one[1:] % 1, np.zeros_like(one[1:]))
    again = rows.halves(np.random.default_rng(0))[0].counts.toarray()
    assert np.array_equal(one, again)
    odd = Documents.of(np.array([[3.0, 0.0], [1.0, 4.0]])).halves(generator(0))
    assert [half.counts.sum(axis=1).tolist() for half in odd] == [[1, 2], [2, 3]]


def test_completion_is_by_posterior_means(fitted):
    first, second = Documents.of(X).halves(generator(root_seed(0)))
    words = fitted.components_ / fitted.components_.sum(axis=1, keepdims=True)
    held_out = second.counts.toarray()
    log_p = np.log(fitted.transform(first.counts) @ words)
    expected = np.exp(-(held_out * log_p).sum() / held_out.sum())
    found = [fitted.document_completion_perplexity(X, seed) for seed in (0, 1)]
    assert found[0] == pytest.approx(expected, rel=1e-10)
    assert found[0] != found[1] and found[0] < 40


def test_the_perplexity_of_one_topic_has_a_closed_form():
    """With one topic nothing is approximate: the bound is that of Dirichlet words."""
    counts, eta = np.array([[3, 1, 0], [1, 0, 2]]), 0.5
    model = made(1, topic_word_prior=eta).fit(counts)
    words = counts.sum(axis=0)

    def log_normaliser(parameters):
        return gammaln(parameters).sum() - gammaln(parameters.sum())

    log_evidence = log_normaliser(eta + words) - log_normaliser(np.full(3, eta))
    expected = np.exp(-log_evidence / words.sum())
    assert model.perplexity(counts) == pytest.approx(expected, rel=1e-10)


def test_coherence_of_pairs():
    counts = Documents.of(np.array([[1, 1, 0], [2, 1, 0], [0, 0, 1], [1, 0, 0]]))
    # Words 0 and 1: p = 3/4, 1/2, 1/2 together.
    pair = np.log(0.5 / (0.75 * 0.5)) / -np.log(0.5)
    assert counts.coherence(np.array([0, 1])) == pytest.approx(pair)
    # Words 0 and 2 never meet.
    assert counts.coherence(np.array([0, 2])) == -1.0
    mean = (pair - 1.0 - 1.0) / 3.0
    assert counts.coherence(np.array([0, 1, 2])) == pytest.approx(mean)
    always = Documents.of(np.ones((4, 2)))
    assert always.coherence([0, 1]) == 1.0
    assert np.isnan(Documents.of(np.zeros((4, 2))).coherence([0, 1]))


def test_top_words_have_names_and_are_coherent(fitted):
    names = [f"word{k}" for k in range(40)]
    model = made().fit(pd.DataFrame(X, columns=names))
    top = model.top_words(n=4)
    assert top == model.top_words(names, 4)
    assert [len(words) for words in top] == [4, 4, 4]
    assert top[0][0] == names[model.components_[0].argmax()]
    numbers = fitted.top_words(n=5)
    assert [f"word{k}" for k in numbers[0][:4]] == top[0]
    counts, words = Documents.of(X), np.random.default_rng(0).permutation(40)
    found = fitted.coherence(X, top_n=5)
    assert_allclose(found, [counts.coherence(np.array(some)) for some in numbers])
    random = [counts.coherence(some) for some in words[:20].reshape(4, 5)]
    assert found.mean() > np.mean(random)


# --- in scikit-learn's company


TEXTS = ["goal match team goal", "team match player"]
TEXTS = (TEXTS + ["vote party law", "law court vote vote"]) * 8


@pytest.mark.slow
def test_from_texts_to_classes():
    y = np.array(["sport", "sport", "state", "state"] * 8)
    pipeline = make_pipeline(CountVectorizer(), made(2), LogisticRegression()).fit(
        TEXTS, y
    )
    assert pipeline.score(TEXTS, y) == 1.0
    name = "svilatentdirichletallocation__n_components"
    search = GridSearchCV(pipeline, {name: [1, 2]}, n_jobs=2, cv=4).fit(TEXTS, y)
    assert search.best_params_ == {name: 2}
    names = pipeline[0].get_feature_names_out()
    sport = {"goal", "match", "team"}
    assert any(set(top) <= sport for top in pipeline[1].top_words(names, 2))


# --- bad input


@pytest.mark.parametrize("method", ["transform", "score"])
def test_bad_data_leaves_the_old_fit(method, fitted):
    model, before = copy(fitted), fitted.components_
    for bad, match in ((-X, "Negative values"), (np.full((3, 40), np.nan), "NaN")):
        with pytest.raises(ValueError, match=match):
            getattr(model, method)(bad)
    assert model.components_ is before
    assert model.transform(X).shape == (200, 3)


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("perplexity", (np.zeros((2, 40)),), "X must have tokens"),
        ("document_completion_perplexity", (np.zeros((2, 40)),), "X must have tokens"),
        ("top_words", (["one"],), "feature_names must have a name for each"),
        ("top_words", (None, 0), "n must be an integer of at least 1"),
        ("coherence", (X, 1), "top_n must be an integer of at least 2"),
        ("coherence", (-X,), "Negative values"),
    ],
)
def test_what_means_nothing_is_refused(fitted, method, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(fitted, method)(*arguments)
    with pytest.raises(NotFittedError):
        getattr(made(), method)(*arguments)
