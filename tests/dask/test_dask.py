"""Estimators for Dask arrays: the fits of the same rows in memory."""

import os
import signal
from threading import Timer

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import SVIGaussianMixture
from skboost.dask import (
    DaskBayesianLinearRegression,
    DaskBayesianLogisticRegression,
    DaskBayesianPoissonRegression,
    DaskGaussianMixture,
)
from skboost.dask import _estimators as estimators
from skboost.dask._estimators import WorkerTables
from skboost.strategies import GreedySearch

from ..kinds import Linear, Logistic, Poisson, over

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

SETTINGS = {"random_state": 0, "max_iter": 1, "search": GreedySearch(64), "orbit": None}
PAIRS = {
    "labels": (Logistic, DaskBayesianLogisticRegression),
    "numbers": (Linear, DaskBayesianLinearRegression),
    "counts": (Poisson, DaskBayesianPoissonRegression),
}


@pytest.fixture(autouse=True)
def here(request):
    """Without a cluster everything is computed in this thread."""
    if "client" in request.fixturenames:
        yield
    else:
        with dask.config.set(scheduler="synchronous"):
            yield


def pair(y):
    return [made(**SETTINGS) for made in PAIRS[y]]


def assert_same_posterior(one, two):
    """Means within 1e-6 standard deviations: sums are added up in another order."""
    std = one.posterior_.std()
    assert_allclose(one.posterior_.mean() / std, two.posterior_.mean() / std, atol=1e-6)
    assert_allclose(one.posterior_.std(), two.posterior_.std(), rtol=1e-6)
    assert_allclose(one.elbo_, two.elbo_, rtol=1e-9)


@pytest.fixture(scope="module")
def fitted(data, far):
    """Pairs of models of the same rows, in memory and not."""
    found = {}
    with dask.config.set(scheduler="synchronous"):
        for y in PAIRS:
            one, two = found[y] = pair(y)
            one.fit(data["X"], data[y], data["weight"])
            two.fit(far["X"], far[y], far["weight"])
    return found


@pytest.mark.parametrize("y", PAIRS)
def test_the_fit_is_that_of_the_rows_in_memory(y, data, far, fitted):
    one, two = fitted[y]
    assert_same_posterior(one, two)
    found = two.predict(far["X"])
    assert isinstance(found, da.Array) and found.shape == (600,)
    expected = one.predict(data["X"])
    if y == "labels":
        assert np.mean(found.compute() == expected) == 1.0
        assert found.dtype == expected.dtype
    else:
        assert_allclose(found.compute(), expected, rtol=1e-6)
    # Rows in memory are predicted at once.
    assert isinstance(two.predict(data["X"][:5]), np.ndarray)


def test_probabilities_are_lazy(data, far, fitted, monkeypatch):
    one, two = fitted["labels"]
    proba = two.predict_proba(far["X"])
    assert proba.shape == (600, 2) and proba.chunks[0] == far["X"].chunks[0]
    assert_allclose(proba.compute(), one.predict_proba(data["X"]), atol=1e-6)
    logit = two.decision_function(far["X"])
    assert_allclose(logit.compute(), one.decision_function(data["X"]), atol=1e-5)
    assert two.score(far["X"], far["labels"]) == one.score(data["X"], data["labels"])
    # Nothing is computed before it is asked for.
    seen = []
    monkeypatch.setattr(
        Logistic,
        "predict_proba",
        lambda self, X: seen.append(len(X)) or np.zeros((len(X), 2)),
    )
    lazy = two.predict_proba(far["X"])
    # One row tells what the result is like.
    assert seen == [1]
    lazy.compute()
    assert sum(seen) == 1 + 600


def test_lazy_predictions_evaluate_nothing_more(far):
    # Every node: the heaviest alone leaves so much that a warning asks for the report.
    _, model = pair("labels")
    model.set_params(max_iter="auto").fit(far["X"], far["labels"])
    model.predict_proba(far["X"]).compute()
    assert "report" not in vars(model._fit)


def test_what_needs_rows_of_a_closed_client_says_so(data, far, monkeypatch):
    class Client:
        status = "running"

    monkeypatch.setattr(estimators, "_client", Client)
    _, model = pair("labels")
    model.set_params(orbit=2).fit(far["X"], far["labels"])
    monkeypatch.setattr(Client, "status", "closed")
    model.predict_proba(far["X"]).compute()
    for name in ("posterior_", "remaining_kl_interval_"):
        with pytest.raises(RuntimeError, match="a client that is closed now"):
            getattr(model, name)
    monkeypatch.setattr(Client, "status", "running")
    assert model.posterior_.mean().shape == (5,)


@pytest.mark.slow
def test_three_classes_and_class_weights(data, far):
    y = np.digitize(data["X"][:, 0], [-0.5, 1.0])
    settings = SETTINGS | {"class_weight": "balanced", "search": GreedySearch(16)}
    one = Logistic(**settings).fit(data["X"][:600], y[:600])
    two = DaskBayesianLogisticRegression(**settings)
    two.fit(far["X"][:600], da.from_array(y[:600], chunks=250))
    assert_same_posterior(one, two)
    assert two.decision_function(far["X"][:600]).compute().shape == (600, 3)


def test_standard_deviations_and_offsets(data, far, fitted):
    one, two = fitted["numbers"]
    mean, std = two.predict(far["X"], return_std=True)
    expected = one.predict(data["X"], return_std=True)
    assert_allclose(dask.compute(mean, std), expected, rtol=1e-6)
    one, two = pair("counts")
    one.fit(data["X"], data["counts"], offset=data["offset"])
    two.fit(far["X"], far["counts"], offset=far["offset"])
    found = two.predict(far["X"], offset=far["offset"]).compute()
    assert_allclose(found, one.predict(data["X"], offset=data["offset"]), rtol=1e-6)


def test_a_mixture_of_dask_arrays(data, far):
    X = data["X"].copy()
    X[::50, 1] = np.nan
    one = SVIGaussianMixture(3, random_state=0, max_iter=3).fit(X, None, data["weight"])
    two = DaskGaussianMixture(3, random_state=0, max_iter=3)
    two.fit(da.from_array(X, chunks=(320, 3)), sample_weight=far["weight"])
    assert_allclose(two.means_, one.means_, rtol=1e-6, atol=1e-8)
    assert_allclose(two.elbo_, one.elbo_, rtol=1e-9)
    lazy = two.predict_proba(far["X"])
    assert isinstance(lazy, da.Array)
    assert_allclose(lazy.compute(), one.predict_proba(data["X"]), atol=1e-6)
    score = two.score_samples(far["X"]).compute()
    assert_allclose(score, one.score_samples(data["X"]), rtol=1e-6)
    labels = two.predict(far["X"]).compute()
    assert np.array_equal(labels, one.predict(data["X"]))


@over("first", [0, 400], slow=[0], ids=["some rows", "no row of a block"])
def test_blocks_of_unknown_size(data, far, first):
    one, two = pair("labels")
    keep = (data["X"][:, 3] < 1.0) & (np.arange(600) >= first)
    one.fit(data["X"][keep], data["labels"][keep])
    X, y = far["X"].rechunk((280, 4)), far["labels"]
    lazy = (X[:, 3] < 1.0) & (da.arange(600, chunks=280) >= first)
    two.fit(X[lazy], y[lazy])
    assert_same_posterior(one, two)


def test_what_takes_no_dask_arrays_says_so(far, fitted):
    model = fitted["labels"][1]
    for call, words in (
        (lambda X: model.partial_fit(X, far["labels"]), "partial_fit takes rows in"),
        (DaskGaussianMixture(2, batch_size=10).fit, "batch_size needs rows that"),
        (lambda X: model.predict_proba(X[:, :2]), "X must have n_features=4"),
    ):
        with pytest.raises(ValueError, match=words):
            call(far["X"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d | {"X": d["X"].compute()}, "X must be a Dask array"),
        (lambda d: d | {"labels": d["labels"].compute()}, "y must be a Dask array"),
        (lambda d: d | {"labels": d["labels"][:-1]}, "y must have as many entries"),
        (lambda d: d | {"X": da.where(d["X"] > 9.0, np.nan, d["X"])}, "NaN"),
        (lambda d: d | {"weight": -d["weight"]}, "sample_weight must be finite"),
        (lambda d: d | {"weight": 0.0 * d["weight"]}, "one of positive weight"),
    ],
)
def test_bad_input_is_refused_and_the_old_fit_stays(change, message, far, fitted):
    model = fitted["labels"][1]
    before = model.coef_.copy()
    bad = change(far)
    with pytest.raises(ValueError, match=message):
        model.fit(bad["X"], bad["labels"], bad["weight"])
    assert np.array_equal(model.coef_, before)


# --- on two worker processes


@pytest.mark.slow
def test_blocks_stay_on_the_workers(client, far, monkeypatch):
    homes, take = set(), WorkerTables.sum

    def noting(self, *args, **kwargs):
        homes.update(self.map(lambda table: os.getpid()))
        return take(self, *args, **kwargs)

    monkeypatch.setattr(WorkerTables, "sum", noting)
    DaskBayesianLogisticRegression(**SETTINGS).fit(far["X"], far["labels"])
    assert homes and os.getpid() not in homes
    assert homes <= set(client.run(os.getpid).values())


@pytest.fixture
def dying(client, monkeypatch):
    """One of two workers dies soon after the fourth sum over rows."""
    killed, sums = next(iter(client.run(os.getpid).values())), []
    take = WorkerTables.sum

    def dies(self, *args, **kwargs):
        sums.append(args)
        if len(sums) == 4:
            Timer(0.01, os.kill, (killed, signal.SIGKILL)).start()
        return take(self, *args, **kwargs)

    monkeypatch.setattr(WorkerTables, "sum", dies)
    yield
    assert len(sums) > 7
    client.wait_for_workers(2, timeout=60)
    assert killed not in client.run(os.getpid).values()


@pytest.mark.slow
def test_a_worker_dies_in_the_middle_of_a_fit(dying, data, far):
    one, two = pair("numbers")
    one.fit(data["X"], data["numbers"])
    assert_same_posterior(one, two.fit(far["X"], far["numbers"]))


@pytest.mark.slow
def test_a_worker_dies_in_the_middle_of_a_mixture(dying, data, far):
    settings = {"n_components": 3, "random_state": 0, "max_iter": 15, "tol": 0.0}
    one = SVIGaussianMixture(**settings).fit(data["X"])
    two = DaskGaussianMixture(**settings).fit(far["X"])
    assert_allclose(two.means_, one.means_, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_the_number_of_workers_does_not_show(client, far):
    two = DaskBayesianLogisticRegression(**SETTINGS).fit(far["X"], far["labels"])
    with dask.config.set(scheduler="synchronous"):
        one = DaskBayesianLogisticRegression(**SETTINGS).fit(far["X"], far["labels"])
    # Sums are added in one order; those of a block follow where its memory lies.
    std = one.posterior_.std()
    away = (one.posterior_.mean() - two.posterior_.mean()) / std
    assert_allclose(away, 0.0, atol=1e-10)
    assert_allclose(one.elbo_, two.elbo_, rtol=1e-12)


@pytest.mark.slow
def test_joblib_on_dask_gives_the_same_bits(client, monkeypatch):
    from joblib import parallel_config

    mixture = SVIGaussianMixture(2, n_init=3, random_state=0, max_iter=5)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 4))
    y = X[:, 0] + rng.logistic(size=len(X)) > 0
    one = Logistic(**SETTINGS).fit(X, y)
    sent = []
    scatter = client.scatter

    def counted(value, *args, **kwargs):
        if kwargs.get("broadcast"):
            sent.append(value)
        return scatter(value, *args, **kwargs)

    monkeypatch.setattr(client, "scatter", counted)
    with parallel_config(backend="dask"):
        two = Logistic(**SETTINGS).fit(X, y)
    assert np.array_equal(one.posterior_.mean(), two.posterior_.mean())
    assert one.elbo_ == two.elbo_
    # The rows were sent to the workers once, not with every sum.
    assert len(sent) == 1
    bounds = mixture.fit(X).elbo_by_init_
    with parallel_config(backend="dask"):
        assert np.array_equal(mixture.fit(X).elbo_by_init_, bounds)
