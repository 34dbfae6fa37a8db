"""Arrays that are used again and again."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from skboost._scratch import scratch


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
