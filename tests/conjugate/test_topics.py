"""Topics: the bound against enumeration and quadrature, and the local step."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import gammaln, logsumexp, psi
from scipy.stats import beta
from sklearn.decomposition import LatentDirichletAllocation

from skboost.conjugate import TopicModel
from skboost.conjugate.topics import LocalSettings, WordTable, local_step
from skboost.svi import ConstantRate, NaturalGradient, RobbinsMonro, SVILimits, run

from .conftest import corpus


def ascent(model, rows, seed, n_epochs):
    """The bound after each epoch of coordinate ascent from random topics."""
    words = np.random.default_rng(seed).gamma(
        1.0, 1.0, model.topics.prior["lambda"].shape
    )
    natural = {"topics": {"lambda": model.topics.eta + words}}
    engine = NaturalGradient(model, rows, natural, ConstantRate())
    done = run(engine, SVILimits(n_epochs, tol=-1.0))
    return np.array([info.elbo for info in done.history])


def problem(alpha=0.1, eta=0.1, seed=0, **settings):
    X, topics = corpus(seed=seed)
    model = TopicModel(4, 30, alpha, eta, **settings)
    rng = np.random.default_rng(seed)
    words = 0.1 + 300 * topics.T * rng.gamma(5.0, 0.2, topics.T.shape)
    return model, model.rows(X), {"topics": {"lambda": words}}


def table_of(model, natural):
    return WordTable.of(model.topics.expected_log(natural["topics"]))


def plain_iteration(counts, b, alpha, gamma, n_iter):
    """The fixed point of Hoffman et al., Algorithm 1, one document after another."""
    gamma = np.array(gamma)
    for row, x in zip(gamma, counts, strict=True):
        for _ in range(n_iter):
            e = np.exp(psi(row) - psi(row.sum()))
            row[:] = alpha + e * (b.T @ (x / (b @ e)))
    return gamma


def dirichlet_multinomial(counts, prior):
    """Log probability of a sequence of draws with these counts."""
    n = counts.sum(axis=-1)
    whole = prior * counts.shape[-1]
    inner = gammaln(counts + prior).sum(axis=-1) - counts.shape[-1] * gammaln(prior)
    return inner + gammaln(whole) - gammaln(whole + n)


def log_evidence(documents, n_topics, n_words, alpha, eta):
    """ln p(w) by enumeration of all assignments of all tokens."""
    words = np.concatenate(documents)
    of = np.repeat(np.arange(len(documents)), [len(d) for d in documents])
    total = []
    for z in product(range(n_topics), repeat=len(words)):
        shares = np.zeros((len(documents), n_topics))
        topics = np.zeros((n_topics, n_words))
        np.add.at(shares, (of, list(z)), 1.0)
        np.add.at(topics, (list(z), words), 1.0)
        found = dirichlet_multinomial(shares, alpha).sum()
        total.append(found + dirichlet_multinomial(topics, eta).sum())
    return logsumexp(total)


# --- the bound


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "eta"), [(0.5, 0.5), (1.0, 0.3), (5.0, 2.0)])
def test_the_bound_is_below_the_evidence_and_near_it(alpha, eta):
    documents = [[0, 0, 1], [2, 2, 1, 2]]
    X = np.array([np.bincount(d, minlength=3) for d in documents])
    exact = log_evidence([np.array(d) for d in documents], 2, 3, alpha, eta)
    model = TopicModel(2, 3, alpha, eta, max_iter=1000, tol=1e-10)
    best = max(ascent(model, model.rows(X), seed, 61)[-1] for seed in range(5))
    # Two relabelled modes are a gap of at most ln 2; mean field adds its own.
    assert exact - 2.5 < best <= exact


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_without_choices_the_bound_is_the_evidence(temperature):
    # One topic: nothing is latent but its words, whose posterior is exact.
    X, _ = corpus()
    model = TopicModel(1, 30, 0.3, 0.2, temperature)
    rows, counts = model.rows(X), temperature * X.sum(axis=0)
    natural = {"topics": {"lambda": 0.2 + counts[:, None]}}
    found = model.elbo(natural, model.expect(natural, rows, None).evidence)
    assert found == pytest.approx(dirichlet_multinomial(counts, 0.2), rel=1e-12)


def test_a_documents_part_of_the_bound_is_its_integral():
    model = TopicModel(2, 5, 0.4, 0.3)
    rng = np.random.default_rng(3)
    natural = {"topics": {"lambda": rng.gamma(1.0, 2.0, (5, 2)) + 0.1}}
    counts = np.array([[3.0, 0.0, 2.5, 1.0, 1.0]])
    expected_log = model.topics.expected_log(natural["topics"])
    found = local_step(model.rows(counts), table_of(model, natural), model.local)
    e, gamma = found.weight[0], found.gamma[0]
    phi = e * np.exp(expected_log)
    phi /= phi.sum(axis=1, keepdims=True)
    q = beta(*gamma)
    log_theta = [q.expect(np.log), q.expect(lambda t: np.log1p(-t))]
    tokens = counts[0] @ (phi * (log_theta + expected_log - np.log(phi))).sum(axis=1)
    divergence = q.expect(lambda t: q.logpdf(t) - beta.logpdf(t, 0.4, 0.4))
    assert found.evidence[0] == pytest.approx(tokens - divergence, rel=1e-7)
    # gamma is what those assignments say.
    assert_allclose(gamma, 0.4 + counts[0] @ phi, rtol=1e-10)


def test_the_divergence_of_topics_is_its_integral():
    model = TopicModel(2, 2, 0.4, 0.7)
    own = {"lambda": np.array([[3.0, 0.8], [1.5, 2.0]])}
    expected = 0.0
    for a, b in own["lambda"].T:
        q = beta(a, b)
        expected += q.expect(lambda t, q=q: q.logpdf(t) - beta.logpdf(t, 0.7, 0.7))
    assert model.topics.kl(own) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@given(
    st.integers(0, 1000),
    st.sampled_from([0.02, 0.5, 3.0]),
    st.sampled_from([0.02, 0.5]),
    st.sampled_from([1.0, 0.3]),
    st.sampled_from([2, 100]),
)
@settings(max_examples=15, deadline=None)
def test_coordinate_ascent_never_lowers_the_bound(seed, alpha, eta, power, max_iter):
    X, _ = corpus(seed=seed)
    model = TopicModel(4, 30, alpha, eta, temperature=power, max_iter=max_iter)
    bounds = ascent(model, model.rows(X), seed, 26)
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[:-1]))


# --- the local step


def test_the_local_step_is_scikit_learns():
    # Before extrapolation begins; their norm has an epsilon that ours has not.
    X, _ = corpus(60)
    X[7] = 0
    model, _, natural = problem(alpha=0.05)
    model.local = LocalSettings(0.05, max_iter=9, tol=1e-3)
    theirs = LatentDirichletAllocation(
        4, doc_topic_prior=0.05, topic_word_prior=0.1, max_doc_update_iter=9, max_iter=1
    ).fit(X)
    theirs.components_ = natural["topics"]["lambda"].T
    expected_log = model.topics.expected_log(natural["topics"])
    theirs.exp_dirichlet_component_ = np.exp(expected_log).T
    gamma = model.gamma(natural, model.rows(X))
    assert_allclose(gamma[7], 0.05)
    expected = theirs.transform(X)
    assert_allclose(
        gamma / gamma.sum(axis=1, keepdims=True), expected, atol=1e-9, rtol=0
    )
    bound = model.elbo(natural, model.expect(natural, model.rows(X), None).evidence)
    assert bound == pytest.approx(theirs.score(X), rel=1e-3)


@pytest.mark.parametrize("alpha", [0.02, 4.0])
def test_topics_left_out_of_a_document_do_not_matter(alpha):
    model, rows, natural = problem(alpha=alpha)
    b = np.exp(model.topics.expected_log(natural["topics"]))
    counts = rows.counts.toarray()
    start = np.random.default_rng(0).gamma(2.0, 1.0, (len(rows), 4)) + alpha
    expected = plain_iteration(counts, b, alpha, start, 300)
    stops = LocalSettings(alpha, max_iter=300, tol=0.0)
    found = local_step(rows, table_of(model, natural), stops, start)
    assert_allclose(found.gamma, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("alpha", [0.02, 4.0])
def test_documents_end_where_another_iteration_changes_nothing(alpha):
    model, rows, natural = problem(alpha=alpha)
    b = np.exp(model.topics.expected_log(natural["topics"]))
    stops = LocalSettings(alpha, max_iter=2000, tol=1e-9)
    found = local_step(rows, table_of(model, natural), stops)
    again = plain_iteration(rows.counts.toarray(), b, alpha, found.gamma, 1)
    assert np.abs(again - found.gamma).mean(axis=1).max() < 1e-8
    # Extrapolated steps do not lead to worse optima.
    plain = local_step(rows, table_of(model, natural), stops, np.ones_like(found.gamma))
    se = (found.evidence - plain.evidence).std() / np.sqrt(len(rows))
    assert (found.evidence - plain.evidence).mean() > -3 * se - 1e-6


def test_going_on_does_not_lower_the_bound_of_a_document():
    model, rows, natural = problem(alpha=0.05)
    table = table_of(model, natural)
    short = LocalSettings(0.05, max_iter=3, tol=0.0)
    found = local_step(rows, table, short)
    for _ in range(5):
        more = local_step(rows, table, short, found.gamma)
        assert np.all(more.evidence >= found.evidence - 1e-9 * abs(found.evidence))
        found = more


def test_documents_keep_the_better_of_two_proportions():
    model, rows, natural = problem(alpha=0.05)
    table, rng = table_of(model, natural), np.random.default_rng(0)
    stops = LocalSettings(0.05, max_iter=1, tol=0.0)
    starts = rng.gamma(1.0, 1.0, (2, len(rows), 4))
    one, other = (local_step(rows, table, stops, start) for start in starts)
    better = other.evidence > one.evidence
    assert 0 < better.sum() < len(rows)
    gamma = np.where(better[:, None], other.gamma, one.gamma)
    ratio = np.where(np.repeat(better, rows.lengths), other.ratio, one.ratio)
    evidence = np.maximum(one.evidence, other.evidence)
    one.improve(other, rows)
    assert_array_equal(one.gamma, gamma)
    assert_array_equal(one.ratio, ratio)
    assert_array_equal(one.evidence, evidence)


def test_words_that_no_topic_has_seen_go_where_the_document_is():
    model, _, natural = problem()
    words = natural["topics"]["lambda"]
    words *= 300.0 / words.sum(axis=0)
    words[-1] = 1e-3
    X, _ = corpus()
    X[:, -1] = 0
    known = model.gamma(natural, model.rows(X))
    X[:, -1] = 3
    unknown = model.gamma(natural, model.rows(X))
    # Its probability is the same in all topics: their shares hardly change.
    assert_allclose(unknown.sum(axis=1), known.sum(axis=1) + 3)
    shares = [gamma / gamma.sum(axis=1, keepdims=True) for gamma in (known, unknown)]
    assert np.median(np.abs(shares[0] - shares[1]).max(axis=1)) < 0.02


def test_tiny_priors_and_weights_stay_finite():
    X, _ = corpus()
    model = TopicModel(4, 30, 1e-4, 1e-5)
    rng = np.random.default_rng(0)
    natural = {"topics": {"lambda": 1e-5 + rng.gamma(0.1, 1.0, (30, 4))}}
    for scale in (1e-9, 1.0, 1e9):
        found = model.expect(natural, model.rows(scale * X), None)
        assert np.isfinite(found.evidence)
        total = found.statistics[0]["count"].sum()
        assert total == pytest.approx(scale * X.sum(), rel=1e-9)
    # A word of a topic that the rest of the document has nothing of.
    natural["topics"]["lambda"][:] = 1e-5
    natural["topics"]["lambda"][:15, 0] = natural["topics"]["lambda"][15:, 1] = 10.0
    document = np.zeros((1, 30))
    document[0, [0, 1, 2, 20]] = 7.0, 9.0, 8.0, 1.0
    found = model.gamma(natural, model.rows(document))
    assert found.sum() == pytest.approx(25.0 + 4e-4, rel=1e-9)


# --- expected statistics


def test_statistics_are_linear_in_the_weights():
    model, rows, natural = problem()
    rng = np.random.default_rng(1)
    a, b = rng.random(len(rows)), rng.standard_normal(len(rows))
    one, two = model.expect(natural, rows, a, b).statistics
    (both,) = model.expect(natural, rows, 2 * a + b).statistics
    assert_allclose(2 * one["count"] + two["count"], both["count"], atol=1e-10, rtol=0)
    words = np.asarray(rows.counts.T @ a)
    assert_allclose(one["count"].sum(axis=1), words, rtol=1e-10)


def test_a_weight_of_two_is_a_document_that_stands_twice():
    model, rows, natural = problem()
    twice = model.rows(sparse.vstack([rows.counts, rows.counts[:7]]))
    one = model.expect(natural, rows, np.where(np.arange(len(rows)) < 7, 2.0, 1.0))
    two = model.expect(natural, twice, None)
    assert one.evidence == pytest.approx(two.evidence, rel=1e-10)
    found, expected = (each.statistics[0]["count"] for each in (one, two))
    assert_allclose(found, expected, rtol=1e-9)


def test_chunks_and_threads_do_not_show(monkeypatch):
    model, rows, natural = problem()
    expected = model.expect(natural, rows, None)
    monkeypatch.setattr("skboost.conjugate.topics._model._CHUNK", 7)
    found = [
        TopicModel(4, 30, 0.1, 0.1, n_jobs=n).expect(natural, rows, None)
        for n in (1, 2)
    ]
    assert found[0].evidence == found[1].evidence
    count = [f.statistics[0]["count"] for f in (expected, *found)]
    assert np.array_equal(count[1], count[2])
    assert_allclose(count[1], count[0], rtol=1e-9)


# --- noise


@pytest.mark.parametrize("effective", [0.5, 5.0])
def test_noise_is_shrunk_word_by_word(effective):
    model, rows, natural = problem()
    engine = NaturalGradient(
        model, rows, natural, RobbinsMonro(), None, 10, effective, 1
    )
    state, info = engine.step(engine.initial)
    assert np.all(state.natural["topics"]["lambda"] > 0)
    assert state.n_groups == 4 * 4 * 30
    assert 0 < state.n_shrunk < state.n_groups
    assert np.isfinite(info.elbo)
