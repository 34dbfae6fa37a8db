"""Batches, sparse rows, averages, forgetting and faults of streams."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit
from scipy.stats import t as student_t

from skboost.online import (
    EWA,
    NGVI,
    SVA,
    SVB,
    ConjugateStream,
    DiagonalStream,
    DivergedError,
    FullStream,
    GaussianLoss,
    LogisticLoss,
    PowerRate,
    Rule,
)

SCALE = np.array([1.0, 0.5, 2.0, 1.0, 1.0, 3.0, 0.2])
RULES = {
    "sva": Rule(SVA(), LogisticLoss(), PowerRate(0.5, -0.5)),
    "svb": Rule(SVB(), LogisticLoss(), 0.7),
    "svb-forgetting": Rule(SVB(), LogisticLoss(), 0.7, forgetting=0.9),
    "sva-forgetting": Rule(SVA(), LogisticLoss(), 0.2, forgetting=0.95),
    "ngvi": Rule(NGVI(), LogisticLoss(), np.inf, 0.5),
    "ngvi-decay": Rule(NGVI(), LogisticLoss(), 5.0, 0.7),
    "ngvi-growing": Rule(NGVI(), LogisticLoss(), PowerRate(2.0, 1.0)),
    "ngvi-both": Rule(NGVI(), LogisticLoss(), 5.0, 0.7, 0.9),
}
FULL = {
    "ngvi": RULES["ngvi"],
    "ngvi-both": RULES["ngvi-both"],
    "ewa": Rule(EWA(), GaussianLoss(0.5), 0.8),
    "ewa-forgetting": Rule(EWA(), GaussianLoss(0.5), 1.0, forgetting=0.9),
}
NOISE = (1.5, 0.7)


def begin(kind, name):
    if kind == "diag":
        return DiagonalStream.begin(RULES[name], SCALE)
    if kind == "full":
        return FullStream.begin(FULL[name], SCALE)
    # Whose losses are in units of the noise.
    rule = replace(FULL[name], loss=GaussianLoss(1.0))
    return ConjugateStream.begin(rule, SCALE, NOISE)


STREAMS = [("diag", name) for name in RULES] + [("full", name) for name in FULL]
STREAMS += [("conjugate", "ewa"), ("conjugate", "ewa-forgetting")]


# In turns with dense and with sparse rows.
WAYS = [np.asarray, sparse.csr_matrix] * (len(STREAMS) // 2)
each_stream = pytest.mark.parametrize(
    ("kind", "name", "as_rows"),
    [(*stream, way) for stream, way in zip(STREAMS, WAYS, strict=True)],
)


def state(stream):
    found = [stream.mean, stream.covariance]
    found += [] if stream.average is None else [stream.average]
    return found + ([stream.noise] if isinstance(stream, ConjugateStream) else [])


@each_stream
def test_a_batch_is_its_rows_one_by_one(kind, name, as_rows, rows):
    X, y, weight = rows
    whole, record = begin(kind, name).absorb(as_rows(X), y, weight)
    one, records = begin(kind, name), []
    for i in range(len(y)):
        part = slice(i, i + 1)
        one, found = one.absorb(as_rows(X[part]), y[part], weight[part])
        records.append(found)
    assert_array_equal(np.concatenate(records), record)
    for a, b in zip(state(one), state(whole), strict=True):
        assert_array_equal(a, b)
    assert one.n_steps == len(y)


@pytest.mark.parametrize("name", RULES)
def test_sparse_rows_are_dense_rows(name, rows):
    X, y, weight = rows
    dense, eta = begin("diag", name).absorb(X, y, weight)
    lazy, lazy_eta = begin("diag", name).absorb(sparse.csr_matrix(X), y, weight)
    assert_allclose(lazy_eta, eta, atol=1e-13, rtol=0)
    assert_allclose(lazy.mean, dense.mean, atol=1e-13, rtol=0)
    assert_allclose(lazy.covariance, dense.covariance, rtol=1e-12)
    still = name in ("sva", "svb", "ngvi")
    assert (lazy.average is not None) == still
    if still:
        assert_allclose(lazy.average, dense.average, atol=1e-13, rtol=0)
    mixed = begin("diag", name)
    for i, part in enumerate(np.split(np.arange(len(y)), 4)):
        block = sparse.csr_matrix(X[part]) if i % 2 else X[part]
        mixed, _ = mixed.absorb(block, y[part], weight[part])
    assert_allclose(mixed.mean, dense.mean, atol=1e-13, rtol=0)
    assert_allclose(mixed.covariance, dense.covariance, rtol=1e-12)


def test_much_decay_is_settled_on_the_way(rows, uncompiled, monkeypatch):
    X, y, weight = rows
    plain, _ = begin("diag", "ngvi-both").absorb(sparse.csr_matrix(X), y, weight)
    monkeypatch.setattr(uncompiled, "_MAX_DECAY", 1.0)
    uncompiled.sparse_loop.cache_clear()
    often, _ = begin("diag", "ngvi-both").absorb(sparse.csr_matrix(X), y, weight)
    assert_allclose(often.mean, plain.mean, atol=1e-13, rtol=0)
    assert_allclose(often.covariance, plain.covariance, rtol=1e-12)


@each_stream
def test_a_minibatch_of_one_is_one_row(kind, name, as_rows, rows):
    X, y, weight = rows
    one = many = begin(kind, name)
    for i in range(20):
        part = slice(i, i + 1)
        one, a = one.absorb(as_rows(X[part]), y[part], weight[part])
        many, b = many.absorb_batch(as_rows(X[part]), y[part], weight[part])
        assert_allclose(a, b, atol=1e-12, rtol=0)
    assert_allclose(one.mean, many.mean, atol=1e-12, rtol=0)
    assert_allclose(one.covariance, many.covariance, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("kind", "name"), [item for item in STREAMS if item[1] != "ngvi-both"]
)
def test_the_average_is_that_of_the_means_that_predicted(kind, name, rows):
    X, y, weight = rows
    stream, means = begin(kind, name), []
    for i in range(len(y)):
        before = stream
        part = slice(i, i + 1)
        stream, _ = stream.absorb(X[part], y[part], weight[part])
        # A row that changes nothing shows the mean that predicts, forgetting included.
        if before.rule.forgetting < 1.0:
            before, _ = before.absorb(0.0 * X[part], y[part], 0.0 * weight[part])
        means.append(before.mean)
    expected = np.average(means, axis=0, weights=weight)
    assert_allclose(stream.average, expected, atol=1e-12, rtol=0)


def test_exact_aggregation_equals_the_closed_form_in_any_pieces(rows):
    X, y, weight = rows
    precision = np.diag(SCALE**-2.0) + 0.8 / 0.25 * (X.T * weight) @ X
    mean = np.linalg.solve(precision, 0.8 / 0.25 * X.T @ (weight * y))
    for pieces in (1, 7, 60):
        stream = begin("full", "ewa")
        for part in np.array_split(np.arange(len(y)), pieces):
            stream, _ = stream.absorb(X[part], y[part], weight[part])
        assert_allclose(stream.mean, mean, atol=1e-12, rtol=0)
        assert_allclose(stream.covariance, np.linalg.inv(precision), atol=1e-12, rtol=0)


def normal_inverse_gamma(X, y, weight):
    """Mean, covariance in units of the noise, shape and rate, in closed form."""
    prior = np.diag(SCALE**-2.0)
    precision = prior + (X.T * weight) @ X
    mean = np.linalg.solve(precision, X.T @ (weight * y))
    rate = NOISE[1] + 0.5 * (weight @ y**2 - mean @ precision @ mean)
    return mean, np.linalg.inv(precision), (NOISE[0] + 0.5 * weight.sum(), rate)


@pytest.mark.parametrize("n_rows", [100, 1500])
@pytest.mark.parametrize("wide", [100.0, 1e4])
def test_wide_priors_cost_no_digits(n_rows, wide):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 7))
    y = X @ rng.standard_normal(7) + rng.standard_normal(n_rows)
    precision = wide**-2.0 * np.eye(7) + X.T @ X
    mean, scale = np.linalg.solve(precision, X.T @ y), np.full(7, wide)
    rule = Rule(EWA(), GaussianLoss(1.0), 1.0)
    for stream in (
        FullStream.begin(rule, scale),
        ConjugateStream.begin(rule, scale, NOISE),
    ):
        done, _ = stream.absorb(X, y, np.ones(n_rows))
        assert_allclose(done.mean, mean, atol=1e-8, rtol=0)
        inverse = np.linalg.inv(precision)
        assert_allclose(done.covariance, inverse, atol=1e-10, rtol=0)
    # The noise is added up row by row, and begins while the prior is still wide.
    rate = NOISE[1] + 0.5 * (y @ y - mean @ precision @ mean)
    assert_allclose(done.noise[1], rate, rtol=1e-12 * wide**2)


def test_losses_with_unknown_noise_sum_to_the_log_evidence(rows):
    X, y, _ = rows
    rule = Rule(EWA(), GaussianLoss(1.0), 1.0)
    stream = ConjugateStream.begin(rule, SCALE, NOISE)
    after, record = stream.absorb(X, y, np.ones(len(y)))
    # Of the whole vector y: a multivariate Student-t density.
    from scipy.stats import multivariate_t

    spread = np.eye(len(y)) + (X * SCALE**2) @ X.T
    evidence = multivariate_t.logpdf(
        y, np.zeros(len(y)), NOISE[1] / NOISE[0] * spread, df=2 * NOISE[0]
    )
    assert after.losses(record, y).sum() == pytest.approx(-evidence, abs=1e-9)
    location, scale, df = record[0]
    assert df == 2 * NOISE[0]
    first = -student_t.logpdf(y[0], df, location, scale)
    assert after.losses(record, y)[0] == pytest.approx(first)


def test_forgetting_discounts_the_rows_so_far(rows):
    X, y, _ = rows
    f, n = 0.9, len(y)
    kept = f ** np.arange(n - 1, -1, -1)
    stream, _ = begin("full", "ewa-forgetting").absorb(X, y, np.ones(n))
    precision = np.diag(SCALE**-2.0) + 4.0 * (X.T * kept) @ X
    mean = np.linalg.solve(precision, 4.0 * X.T @ (kept * y))
    assert_allclose(stream.mean, mean, atol=1e-10, rtol=0)
    unknown, _ = begin("conjugate", "ewa-forgetting").absorb(X, y, np.ones(n))
    mean, covariance, noise = normal_inverse_gamma(X, y, kept)
    assert_allclose(unknown.mean, mean, atol=1e-10, rtol=0)
    assert_allclose(unknown.covariance, covariance, atol=1e-10, rtol=0)
    assert_allclose(unknown.noise, noise, rtol=1e-10)


@each_stream
def test_a_row_that_is_too_large_is_named_by_its_step(kind, name, as_rows, rows):
    X, y, weight = rows
    X = X.copy()
    X[6] = 1e20
    stream, _ = begin(kind, name).absorb(as_rows(X[:5]), y[:5], weight[:5])
    before = [part.copy() for part in state(stream)]
    with pytest.raises(DivergedError, match="at step 7, .*learning_rate"):
        stream.absorb(as_rows(X[5:7]), y[5:7], weight[5:7])
    with pytest.raises(DivergedError, match="at step 6, .*learning_rate"):
        stream.absorb_batch(as_rows(X[5:7]), y[5:7], weight[5:7])
    for a, b in zip(before, state(stream), strict=True):
        assert_array_equal(a, b)


def test_a_schedule_with_a_rate_of_zero_is_refused(rows):
    X, y, weight = rows
    rule = Rule(SVB(), LogisticLoss(), PowerRate(0.0))
    with pytest.raises(ValueError, match="positive rates; got 0.0 at step 1"):
        DiagonalStream.begin(rule, SCALE).absorb(X, y, weight)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sva", "svb", "ngvi-both"])
@pytest.mark.parametrize("loss", [LogisticLoss(), GaussianLoss(0.9)])
@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_matrix])
def test_compiled_loops_give_the_same_numbers(
    name, loss, as_rows, rows, uncompiled, monkeypatch
):
    numba = pytest.importorskip("numba")
    X, y, weight = rows
    rule = RULES[name]
    rule = Rule(rule.method, loss, 0.1, rule.beta, rule.forgetting)
    start = DiagonalStream.begin(rule, SCALE)
    plain, eta = start.absorb(as_rows(X), y, weight)
    monkeypatch.setattr(uncompiled, "compiler", lambda: numba.njit(nogil=True))
    uncompiled.dense_loop.cache_clear()
    uncompiled.sparse_loop.cache_clear()
    fast, fast_eta = start.absorb(as_rows(X), y, weight)
    assert_allclose(fast_eta, eta, atol=1e-12, rtol=0)
    assert_allclose(fast.mean, plain.mean, atol=1e-12, rtol=0)
    assert_allclose(fast.covariance, plain.covariance, rtol=1e-11)


def test_without_the_extra_nothing_is_compiled(uncompiled, monkeypatch):
    import sys

    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "numba", None)
    assert uncompiled.compiler() is None
    assert uncompiled.compiled(begin) is begin


def test_rates_are_powers_of_the_step_counted_from_one():
    for rate, rates in (
        (PowerRate(0.5), 0.5 / np.sqrt([3.0, 4.0, 5.0])),
        (PowerRate(2.0, 1.0), [6.0, 8.0, 10.0]),
        (0.7, [0.7, 0.7, 0.7]),
    ):
        schedule = Rule(SVB(), LogisticLoss(), rate).schedule(2, 3)
        assert_allclose(schedule[:, 0], rates)


# --- derivatives of expected losses against quadrature


MEANS = [-700.0, -30.0, -3.0, -0.2, 0.0, 0.7, 12.0, 500.0]
STDS = [0.0, 1e-7, 0.01, 0.2, 0.9, 2.7, 3.5, 5.0, 40.0]


def by_quadrature(mean, sd):
    """E sigmoid(t) and E sigmoid'(t) by a fine trapezoid rule."""
    z = np.linspace(-12.0, 12.0, 8001)
    weights = np.exp(-0.5 * z**2)
    p = expit(mean + sd * z)
    return np.array([weights @ p, weights @ (p * (1.0 - p))]) / weights.sum()


@pytest.mark.parametrize("sd", STDS)
def test_one_row_of_the_logistic_loss_agrees_with_quadrature(sd):
    for mean in MEANS:
        sigmoid, slope = by_quadrature(mean, sd)
        found = LogisticLoss.one(mean, sd, 1.0, 1.0)
        assert_allclose(found, (sigmoid - 1.0, slope), atol=1e-10, rtol=0)


@pytest.mark.parametrize("loss", [LogisticLoss(), GaussianLoss(0.7)])
def test_many_rows_are_each_row(loss):
    mean, sd = (grid.ravel() for grid in np.meshgrid(MEANS, STDS))
    many = loss.many(mean, sd, np.ones_like(mean))
    one = [loss.one(m, s, 1.0, loss.noise_scale) for m, s in zip(mean, sd, strict=True)]
    assert_allclose(np.transpose(many), one, atol=1e-12, rtol=1e-13)


@pytest.mark.parametrize("loss", [LogisticLoss(), GaussianLoss(0.7)])
def test_derivatives_without_spread_are_those_of_the_loss(loss):
    eta, step = np.linspace(-3.0, 3.0, 9), 1e-5
    slope, _ = loss.many(eta, np.zeros(9), np.ones(9))
    up, down = loss.at(eta + step, 1.0), loss.at(eta - step, 1.0)
    assert_allclose(slope, (up - down) / (2 * step), atol=1e-8, rtol=0)
