"""Observed entries: what counts as observed, their order, selections, memory."""

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skboost.conjugate import Entries


def with_gaps(n_rows=7, n_columns=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n_rows, n_columns)).astype(float)
    X[rng.random(X.shape) < 0.5] = np.nan
    X[2] = np.nan
    X[0, 0], X[0, 1] = 0.0, np.nan
    return X


def dense(entries):
    X = np.full(entries.shape, np.nan)
    X[entries.rows, entries.columns] = entries.values
    return X


def stored(X, order=None):
    """The entries of an array with gaps as a COO matrix, in any order."""
    rows, columns = np.nonzero(~np.isnan(X))
    order = np.arange(len(rows)) if order is None else order(len(rows))
    rows, columns = rows[order], columns[order]
    return sparse.coo_matrix((X[rows, columns], (rows, columns)), shape=X.shape)


def test_a_dense_array_loses_its_nan_and_nothing_else():
    X = with_gaps()
    entries = Entries.of(X)
    assert_array_equal(dense(entries), X)
    assert len(entries) == np.sum(~np.isnan(X))


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "lil", "dok", "dia", "bsr"])
def test_stored_zeros_are_observed_in_every_format(kind):
    container = sparse.coo_matrix if kind in ("csc", "dok") else sparse.coo_array
    # DIA matrices lose stored zeros, and BSR matrices store whole blocks.
    X = with_gaps() + (kind in ("dia", "bsr", "lil", "dok"))
    shuffled = container(stored(X, np.random.default_rng(1).permutation))
    options = {"blocksize": (1, 1)} if kind == "bsr" else {}
    made = getattr(shuffled, f"to{kind}")(**options)
    assert_array_equal(dense(Entries.of(made)), X)


def test_a_stored_nan_is_missing_and_entries_survive_a_pickle():
    X = stored(with_gaps()).tocsr()
    X.data[1] = np.nan
    entries = Entries.of(X)
    assert len(entries) == X.nnz - 1
    entries.transposed  # noqa: B018
    assert_array_equal(dense(pickle.loads(pickle.dumps(entries))), dense(entries))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        *((X, "must be a matrix of rows and columns; got") for X in
          (np.arange(4.0), np.ones((2, 3, 4)), sparse.coo_array(np.ones(3)))),
        ([[1.0, np.inf]], "finite; got .*inf"),
    ],
)  # fmt: skip
def test_what_is_no_matrix_of_numbers_is_refused(X, words):
    with pytest.raises(ValueError, match=words):
        Entries.of(X)
    with pytest.raises(ValueError, match="column must be an integer from 0 to 1"):
        Entries.make([0], [2], [1.0], (1, 2))


def test_entries_are_sorted_and_pointers_say_where_rows_begin():
    X = with_gaps()
    entries = Entries.of(stored(X, np.random.default_rng(2).permutation))
    assert_array_equal(np.lexsort((entries.columns, entries.rows)), range(len(entries)))
    for i in range(len(X)):
        own = slice(*entries.row_pointers[i : i + 2])
        assert_array_equal(entries.values[own], X[i][~np.isnan(X[i])])
    assert_array_equal(entries.row_counts, np.sum(~np.isnan(X), axis=1))


def test_the_transposed_entries_are_those_of_the_transposed_matrix():
    X = with_gaps()
    entries = Entries.of(X)
    turned = Entries.of(X.T)
    for name in ("rows", "columns", "values"):
        assert_array_equal(getattr(entries.transposed, name), getattr(turned, name))
    assert_array_equal(entries.values[entries.by_column], turned.values)
    assert entries.transposed.shape == turned.shape


def test_selections_keep_the_matrix_and_the_order():
    entries = Entries.of(with_gaps())
    picked = entries[np.array([5, 0, 3])]
    assert_array_equal(picked.values, entries.values[[0, 3, 5]])
    assert picked.shape == entries.shape
    assert_array_equal(
        dense(entries[entries.rows < 3]), dense(entries[: entries.row_pointers[3]])
    )
    with pytest.raises(IndexError, match="distinct"):
        entries[np.array([1, 1])]


def test_the_sparse_matrix_holds_the_same_entries():
    entries = Entries.of(with_gaps())
    assert_array_equal(dense(Entries.of(entries.matrix())), with_gaps())
    ones = entries.matrix(np.ones(len(entries)))
    assert_array_equal(ones.sum(axis=1), entries.row_counts)
    assert_array_equal(entries.with_values(-entries.values).values, -entries.values)


def test_an_empty_matrix_and_empty_rows_are_no_error():
    entries = Entries.of(np.full((3, 4), np.nan))
    assert len(entries) == 0 and len(entries.transposed) == 0
    assert_array_equal(entries.row_pointers, np.zeros(4))
    assert Entries.of(sparse.csr_matrix((3, 4))).shape == (3, 4)


@pytest.mark.parametrize("kind", ["coo", "csr", "csc"])
def test_an_entry_that_stands_twice_is_refused(kind):
    X = sparse.coo_matrix(([1.0, 2.0, 3.0], ([0, 1, 1], [1, 2, 2])), shape=(3, 4))
    if kind != "coo":
        # The conversion from COO would have added them up.
        X = sparse.csr_matrix(([1.0, 2.0, 3.0], [1, 2, 2], [0, 1, 3, 3]), shape=(3, 4))
        X = X if kind == "csr" else X.T
    with pytest.raises(
        ValueError, match=r"entries more than once .1 in all., first at row"
    ):
        Entries.of(X)


def test_single_precision_is_kept_where_it_is_asked_for():
    X = with_gaps()
    for given in (X, stored(X)):
        assert Entries.of(given, np.float32).values.dtype == np.float32
        assert Entries.of(given).values.dtype == np.float64
    assert Entries.of(X, np.float32).transposed.values.dtype == np.float32


def test_memory_is_linear_in_the_entries_not_in_the_matrix():
    rng = np.random.default_rng(0)
    n, shape = 20_000, (400_000, 300_000)
    positions = rng.choice(np.prod(shape), n, replace=False)
    X = sparse.coo_matrix((rng.random(n), divmod(positions, shape[1])), shape=shape)
    tracemalloc.start()
    entries = Entries.of(X)
    entries.transposed  # noqa: B018
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * n + 64 * sum(shape)


def test_halves_share_out_the_entries_of_each_row():
    entries = Entries.of(with_gaps(40, 9))
    first, second = entries.halves(np.random.default_rng(0))
    assert len(first) + len(second) == len(entries)
    assert_array_equal(first.row_counts, entries.row_counts // 2)
    both = np.fmax(dense(first), dense(second))
    assert_array_equal(both, dense(entries))
    others = [entries.halves(np.random.default_rng(k))[0] for k in range(2)]
    assert not np.array_equal(others[0].columns, others[1].columns)
