"""The same bits for every number of jobs and every backend."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import parallel_config
from threadpoolctl import threadpool_info, threadpool_limits

from skboost._parallel import chunked_map, row_blocks, scratch, single_threaded
from skboost._random import generator, root_seed


def threads(_):
    """Threads of BLAS and OpenMP, as they stand here."""
    return {(pool["user_api"], pool["num_threads"]) for pool in threadpool_info()}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky", "shared"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_workers_pass_an_interruption_on(n_jobs, backend):
    def interrupted(x):
        if x == 3:
            raise KeyboardInterrupt
        return x

    with pytest.raises(KeyboardInterrupt):
        chunked_map(interrupted, list(range(7)), n_jobs, backend)
    # And the pool still works.
    assert chunked_map(abs, [-1, -2], n_jobs, backend) == [1, 2]


@pytest.mark.parametrize(
    ("n_jobs", "backend"),
    [
        (None, "threading"),
        (2, "threading"),
        pytest.param(2, "loky", marks=pytest.mark.slow),
    ],
)
def test_results_come_back_in_order(n_jobs, backend):
    # Defined here: worker processes can not import a test module.
    def square(x):
        return x**2

    def fails(x):
        raise KeyError(x)

    items = list(range(7))
    assert chunked_map(square, items, n_jobs, backend) == [k**2 for k in items]
    with parallel_config(n_jobs=n_jobs, backend=backend):
        assert chunked_map(square, items) == [k**2 for k in items]
    with pytest.raises(KeyError):
        chunked_map(fails, items, n_jobs, backend)


def test_one_item_or_one_job_needs_no_worker():
    here = threading.get_ident()

    def thread(_):
        return threading.get_ident()

    assert chunked_map(thread, [0, 1], 1) == [here, here]
    assert chunked_map(thread, [0], 2) == [here]
    assert here not in chunked_map(thread, [0, 1], 2)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_libraries_are_single_threaded_inside(n_jobs):
    # Two threads to take away: the workers of pytest-xdist have one.
    with threadpool_limits(limits=2):
        assert threads(0) == {("blas", 2), ("openmp", 2)}
        with single_threaded():
            found = chunked_map(threads, [0, 1], n_jobs)
    assert found == [{("blas", 1), ("openmp", 1)}] * 2


@pytest.mark.parametrize(("n", "columns"), [(1, 1), (7, 3), (100_000, 11), (5, 10**9)])
def test_blocks_cover_all_rows(n, columns):
    blocks = row_blocks(n, columns, entries=1000)
    assert [b.start for b in blocks] == [0, *(b.stop for b in blocks[:-1])]
    assert blocks[-1].stop == n
    assert all(b.stop > b.start for b in blocks)
    assert all((b.stop - b.start) * columns <= max(1000, columns) for b in blocks)


def test_streams_are_named_by_their_keys():
    first = generator(3, 1, 2).random(4)
    assert np.array_equal(first, generator(3, 1, 2).random(4))
    for other in ((3, 2, 1), (4, 1, 2), (3, 1), (3, 1, 2, 0)):
        assert not np.array_equal(first, generator(*other).random(4))


def test_seeds_come_from_whatever_scikit_learn_takes():
    assert root_seed(5) == root_seed(5)
    assert root_seed(np.random.RandomState(5)) == root_seed(5)
    assert 0 <= root_seed(None) < 2**31


def test_the_same_memory_is_used_again_in_the_shape_that_is_asked_for():
    first = scratch("again", (3, 4))
    second = scratch("again", (2, 5))
    assert second.shape == (2, 5) and second.flags["C_CONTIGUOUS"]
    assert np.shares_memory(first, second)
    larger = scratch("again", (30, 4))
    assert larger.shape == (30, 4) and not np.shares_memory(first, larger)


def test_names_and_threads_have_memory_of_their_own():
    mine = scratch("one", (4,))
    assert not np.shares_memory(mine, scratch("two", (4,)))
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(scratch, "one", (4,)).result()
    assert not np.shares_memory(mine, theirs)
