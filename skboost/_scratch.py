"""Arrays that one block of rows after another is computed in.

A sum over many rows makes the same temporaries for every block. To allocate them anew
costs as much as the sum itself where the allocator gives freed memory back to the
system at once, as Dask tells it to on its workers.
"""

import threading

import numpy as np

_HELD = threading.local()


def scratch(name, shape):
    """An array of floats with any content, shape `shape`, C order.

    It is the thread's own, and the next call with the same name overwrites it: for
    what is summed up before the next block is looked at.
    """
    size = int(np.prod(shape))
    held = vars(_HELD).get(name)
    if held is None or held.size < size:
        held = np.empty(size)
        setattr(_HELD, name, held)
    return held[:size].reshape(shape)
