"""Rows that are not held in memory: the same fits, one block at a time."""

import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from scipy import sparse

import skboost
from skboost import (
    BoostedGaussianMixture,
    EvidenceSearch,
    RowBlocks,
    SVIGaussianMixture,
)
from skboost._row_blocks import sliced
from skboost.decomposition import RatingRegressor
from skboost.mixture._rows import MixtureRows
from skboost.strategies import GreedySearch
from skboost.targets import Table

from .kinds import FLAT, Linear, Logistic, Poisson, over

N = 1500


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((N, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, 0.0]).astype("f4")
    eta = X @ [1.0, -0.2, 2.0] + 0.5
    return {
        "X": X,
        "weight": rng.uniform(0.2, 2.0, N),
        "offset": rng.uniform(0.0, 1.0, N),
        "labels": np.where(eta + rng.logistic(size=N) > 0, "yes", "no"),
        "numbers": 100.0 + eta + rng.standard_normal(N),
        "counts": rng.poisson(np.exp(0.3 * eta)),
    }


ONE, NEGATIVE = {"prior_scale": 1.0}, {"likelihood": "negative_binomial"}
KINDS = {
    "logistic": (Logistic, "labels"),
    "balanced": (
        # The unit of a learned scale knows no weights of classes where rows are read.
        partial(Logistic, class_weight="balanced", **ONE),
        "labels",
    ),
    "linear": (Linear, "numbers"),
    "student_t": (partial(Linear, noise="student_t", **ONE), "numbers"),
    "poisson": (Poisson, "counts"),
    "negative binomial": (partial(Poisson, **NEGATIVE, **ONE), "counts"),
}


def blocks_of(*arrays, size=400):
    def blocks():
        for start in range(0, arrays[0].shape[0], size):
            rows = slice(start, start + size)
            yield tuple(None if a is None else a[rows] for a in arrays)

    return RowBlocks(blocks)


def model_of(kind):
    make, y = KINDS[kind]
    # Skewing sums over rows as the rest does.
    return make(random_state=0, max_iter=1, search=GreedySearch(64), orbit=None), y


def assert_same_posterior(one, two, tol=1e-6):
    """Means in units of standard deviations, these, and the ELBO."""
    std = one.posterior_.std()
    assert_allclose(one.posterior_.mean() / std, two.posterior_.mean() / std, atol=tol)
    assert_allclose(std, two.posterior_.std(), rtol=tol)
    assert_allclose(one.elbo_, two.elbo_, atol=tol * N)


@over("kind", KINDS, slow=["negative binomial", "student_t"])
def test_blocks_give_the_fit_of_all_rows(kind, data):
    model, y = model_of(kind)
    arrays = [data["X"], data[y], data["weight"]]
    if kind == "logistic":
        # The first blocks have one class, and no rows at all.
        order = np.argsort(arrays[1], kind="stable")
        arrays = [array[order] for array in arrays]
    more = {}
    if kind == "poisson":
        more = {"offset": data["offset"]}
        arrays.append(data["offset"])
    whole = model.fit(*arrays[:3], **more)
    blocks = blocks_of(*arrays)
    nothing = tuple(array[:0] for array in arrays)
    found = model_of(kind)[0].fit(RowBlocks(lambda: [nothing, *blocks.blocks()]))
    assert_same_posterior(whole, found)
    assert found.n_features_in_ == 3
    if hasattr(whole, "classes_"):
        assert whole.classes_.tolist() == found.classes_.tolist()


def test_sparse_blocks_and_data_frames(data):
    model, y = model_of("logistic")
    X = np.where(np.abs(data["X"]) > 1.0, data["X"], 0.0).astype(float)
    whole = model.fit(X, data[y])
    found = model_of("logistic")[0].fit(blocks_of(sparse.csr_matrix(X), data[y]))
    assert_same_posterior(whole, found)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    found = model_of("logistic")[0].fit(blocks_of(frame, data[y]))
    assert_same_posterior(whole, found)
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_parts_of_blocks_may_be_lists_and_series(kind, data, monkeypatch):
    model, y = model_of(kind)
    X, *parts = (data[name][:300] for name in ("X", y, "weight", "offset"))
    whole = model.fit(RowBlocks(lambda: [(X, *parts)])).posterior_.mean()
    for given in (np.ndarray.tolist, lambda part: pd.Series(part, np.arange(9, 309))):
        block = X, *map(given, parts)
        model.fit(RowBlocks(lambda block=block: [block]))
        assert np.array_equal(model.posterior_.mean(), whole)
    monkeypatch.setattr("skboost._row_blocks.is_mapped", lambda X: True)
    y, weight, offset = map(pd.Series, parts)
    model.fit(X, y, sample_weight=weight, offset=offset)
    assert np.array_equal(model.posterior_.mean(), whole)


# --- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y, w: (np.where(X > 4, np.nan, X), y, w), "NaN in col.* of block 0"),
        (
            lambda X, y, w: (X, y[1:], w),
            "y must have .* 300; got 299 in block 0",
        ),
        (
            lambda X, y, w: (X, None, w),
            "y must have .* 300; got None in block 0",
        ),
        (lambda X, y, w: (X, y, -w), "sample_weight must be finite, not negative"),
        (
            lambda X, y, w: (X, y, w[1:]),
            "weight must have .* got 299 in block 0",
        ),
        (lambda X, y, w: (X, y, w, w[1:]), "offset must have .* got 299 in block 0"),
        (lambda X, y, w: (X, y, 0.0 * w), "at least one of positive weight"),
        (lambda X, y, w: (X, y, w, w, w), "a block of 5 parts"),
        (lambda X, y, w: (X[:, 0], y, w), "must yield arrays, sparse matrices"),
        (lambda X, y, w: (X.tolist(), y, w), "got list"),
        (lambda X, y, w: (X, np.full(len(X), "no"), w), "at least two classes"),
        (lambda X, y, w: (X, np.arange(len(X)) + 0.5, w), "Unknown label type"),
    ],
)
def test_bad_blocks_are_refused_and_the_old_fit_stays(change, message, data):
    model, y = model_of("logistic")
    arrays = data["X"][:300], data[y][:300], data["weight"][:300]
    before = model.fit(*arrays).coef_.copy()
    rows = RowBlocks(lambda: [change(*arrays)])
    with pytest.raises(ValueError, match=message):
        model.fit(rows)
    assert np.array_equal(model.coef_, before)


def test_blocks_that_do_not_go_together_are_refused(data):
    X, y, model = data["X"], data["labels"], Logistic()
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.fit(RowBlocks(lambda: [(X, y), (X[:, :2], y)]))
    with pytest.raises(
        ValueError, match="y must be numbers; got strings such as 'yes'"
    ):
        Linear().fit(RowBlocks(lambda: [(X, y)]))
    once = iter([(X, y)])
    with pytest.raises(
        ValueError, match="the same rows at every pass; got n_rows=1500"
    ):
        model.fit(RowBlocks(lambda: once))
    with pytest.raises(ValueError, match="blocks must be a function"):
        RowBlocks(once)
    with pytest.raises(ValueError, match="y and sample_weight must come within"):
        model.fit(blocks_of(X, y), y, data["weight"])


# --- files


@pytest.fixture
def mapped(data, tmp_path, monkeypatch):
    """Large arrays, as far as the package can tell, mapped from files."""
    for module in ("_rows", "_row_blocks"):
        monkeypatch.setattr(f"skboost.{module}.MAX_BYTES", 0)
    monkeypatch.setattr("skboost._row_blocks._ROWS_AT_ONCE", 400)
    found = {}
    for name, array in data.items():
        np.save(tmp_path / f"{name}.npy", array)
        found[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    return found


# Likelihoods are tested above; here only the source of the rows differs.
@pytest.mark.parametrize("kind", ["balanced", "linear"])
def test_a_mapped_file_gives_the_fit_of_the_array(kind, data, mapped):
    model, y = model_of(kind)
    whole = model.fit(data["X"], data[y], data["weight"])
    found = model_of(kind)[0].fit(mapped["X"], mapped[y], mapped["weight"])
    # Moments of rows are added up in another order; all else is the same bits.
    assert_same_posterior(whole, found, tol=1e-9)


def test_a_fit_of_a_mapped_file_holds_a_block_and_no_more(tmp_path, monkeypatch):
    for module in ("_rows", "_row_blocks"):
        monkeypatch.setattr(f"skboost.{module}.MAX_BYTES", 0)
    monkeypatch.setattr("skboost._row_blocks._ROWS_AT_ONCE", 20_000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((250_000, 5))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", X[:, 0] + rng.logistic(size=len(X)) > 0.0)
    X, y = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy")
    few = {"max_iter": 1, "search": GreedySearch(16), "orbit": None}
    model = Logistic(prior_scale=1.0, **few)
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A block has 0.8 MB, the temporaries of a sum a few more; all rows have 10 MB.
    assert peak < 8e6
    with pytest.raises(ValueError, match="y must have as many entries"):
        model.fit(X, y[1:])


# --- backends


@pytest.mark.slow
def test_tables_go_to_processes_once(data, monkeypatch):
    monkeypatch.setattr("skboost._row_blocks._LARGE", 0)
    halves = [slice(0, 700), slice(700, N)]
    monkeypatch.setattr("skboost._row_blocks.row_blocks", lambda n, k: halves)
    sent = []
    table = Table(data["X"].astype(float), data["numbers"], data["weight"], n_jobs=2)
    in_files = Table.in_files

    def counted(self, folder):
        sent.append(folder)
        return in_files(self, folder)

    def moments(block):
        return block.weight @ block.X, float(block.weight @ block.y)

    monkeypatch.setattr(Table, "in_files", counted)
    here = table.sum(moments, 1)
    with parallel_config(backend="loky", n_jobs=2):
        there = [table.sum(moments, 1) for _ in range(3)]
    for found in there:
        assert np.array_equal(found[0], here[0]) and found[1] == here[1]
    assert len(sent) == 1


# --- mixtures


@pytest.fixture(scope="module")
def clusters():
    rng = np.random.default_rng(1)
    centres = 4.0 * rng.standard_normal((3, 4))
    return centres[rng.integers(0, 3, N)] + rng.standard_normal((N, 4))


def mixture(**settings):
    return SVIGaussianMixture(3, random_state=0, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(("covariance_type", "gaps"), [("full", True), ("diag", False)])
def test_a_mixture_of_blocks_is_that_of_all_rows(covariance_type, gaps, clusters, data):
    X = clusters.copy()
    if gaps:
        X[np.random.default_rng(2).random(X.shape) < 0.05] = np.nan
    weight = data["weight"]
    whole = mixture(covariance_type=covariance_type).fit(X, sample_weight=weight)
    found = mixture(covariance_type=covariance_type)
    found.fit(blocks_of(X, None, weight))
    assert_allclose(found.means_, whole.means_, rtol=1e-8, atol=1e-8)
    assert_allclose(found.covariances_, whole.covariances_, rtol=1e-7, atol=1e-8)
    assert_allclose(found.elbo_, whole.elbo_, rtol=1e-9)
    # And a stream goes on from it.
    whole.partial_fit(X[:100]), found.partial_fit(X[:100])
    assert_allclose(found.means_, whole.means_, rtol=1e-8, atol=1e-8)


def test_blocks_whose_weights_add_up_to_one_row_are_warned_of(data, clusters):
    weight = np.full(N, 1.0 / N)
    boosted = BoostedGaussianMixture(2, max_iter=1, random_state=0)
    linear = Linear(max_iter=1, random_state=0)
    for model, *given in (
        (linear, blocks_of(data["X"], data["numbers"], weight)),
        (mixture(), blocks_of(clusters, None, weight)),
        (mixture(), clusters, None, weight),
        (boosted, clusters, None, weight),
    ):
        with pytest.warns(UserWarning, match="adds up to 1 for n_rows=1500"):
            model.fit(*given)


def test_runs_start_from_a_sample(clusters, monkeypatch):
    # A prior that is learned is learned from the sample.
    fixed = {"covariance_prior": None}
    whole = mixture(**fixed).fit(clusters)
    monkeypatch.setattr("skboost.mixture._rows.SAMPLE", 300)
    found, again = (mixture(**fixed).fit(blocks_of(clusters)) for _ in range(2))
    assert np.array_equal(found.means_, again.means_)
    settings = {"tol": 0.0, "warm_start": True}
    three = mixture(max_iter=3, **settings).fit(blocks_of(clusters))
    three.set_params(max_iter=6).fit(blocks_of(clusters))
    six = mixture(max_iter=6, **settings).fit(blocks_of(clusters))
    assert np.array_equal(three.means_, six.means_) and three.elbo_ == six.elbo_
    order = [m.means_[:, 0].argsort() for m in (whole, found)]
    assert_allclose(found.means_[order[1]], whole.means_[order[0]], atol=1e-3)
    assert_allclose(found.elbo_, whole.elbo_, atol=1e-2)


def test_the_sample_does_not_depend_on_who_looks(clusters, monkeypatch):
    monkeypatch.setattr("skboost.mixture._rows.SAMPLE", 100)
    reader = MixtureRows(seed=7)
    parts = [
        reader.look(k, clusters[start : start + 500])
        for k, start in enumerate(range(0, N, 500))
    ]
    one = reader.together(parts)
    pair = reader.together(parts[:2])
    two = reader.together([pair, parts[2]])
    assert len(one.drawn) == 100
    assert np.array_equal(one.drawn, two.drawn)
    # It stands for all rows.
    _, weight = one.start(None)
    assert weight.sum() == pytest.approx(N)


def test_batches_of_a_mapped_file(clusters, tmp_path, monkeypatch):
    monkeypatch.setattr("skboost._row_blocks.MAX_BYTES", 0)
    np.save(tmp_path / "X.npy", clusters[:400].astype("f4"))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    settings = {"batch_size": 100, "effective_batch_size": 50, "max_iter": 2}
    settings["covariance_prior"] = None
    found = mixture(**settings).fit(X)
    monkeypatch.setattr("skboost._rows.MAX_BYTES", 0)
    monkeypatch.setattr("skboost._row_blocks.MAX_BYTES", 1 << 40)
    whole = mixture(**settings).fit(X)
    assert_allclose(found.means_, whole.means_, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="batch_size needs rows that positions select"):
        mixture(**settings).fit(sliced(X))
    with pytest.raises(ValueError, match="effective_batch_size needs a batch_size"):
        mixture(effective_batch_size=10).fit(sliced(X))


# --- where rows have to be an array


PUBLIC = [RatingRegressor, *(getattr(skboost, name) for name in skboost.__all__)]
LEARNING = [
    (kind, method)
    for kind in PUBLIC
    for method in ("fit", "partial_fit", "fit_predict", "fit_transform")
    if hasattr(kind, method)
    and not (method == "fit" and kind in (*FLAT, SVIGaussianMixture))
]


@pytest.mark.parametrize(
    ("kind", "method"), LEARNING, ids=[f"{k.__name__}.{m}" for k, m in LEARNING]
)
def test_what_reads_no_blocks_says_what_does(kind, method, data):
    search = kind is EvidenceSearch
    model = kind(BoostedGaussianMixture(), {}) if search else kind()
    rows = RowBlocks(lambda: [(data["X"][:100], data["labels"][:100])])
    y = [None] * (method == "partial_fit" or kind is RatingRegressor)
    words = "X must be an array.*got RowBlocks, which fit of the boosted linear models"
    with pytest.raises(ValueError, match=words) as error:
        getattr(model, method)(rows, *y)
    assert "SVIGaussianMixture" in str(error.value)
    assert "partial_fit" in str(error.value)


def test_predictions_take_one_block_at_a_time(data):
    model = Linear(prior_scale=1.0).fit(data["X"], data["numbers"])
    with pytest.raises(ValueError, match="other methods take one block at a time"):
        model.predict(RowBlocks(lambda: [data["X"]]))
