"""Maps over fixed chunks: the same answer for every ``n_jobs`` and backend.

Work is cut by its own size, never by the number of workers, and results come back
in order, so sums are added in one order whoever computes them. BLAS and OpenMP run
on one thread inside: in a pool of workers more would oversubscribe the machine, and
without one the rounding would depend on how many threads they were given.
"""

import shutil
import tempfile
import threading
import weakref
from contextlib import nullcontext
from functools import cache

import joblib
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

# Temporaries of one block of rows stay near the second-level cache.
BLOCK_ENTRIES = 1 << 17

_SCRATCH = threading.local()


def single_threaded():
    """Context in which BLAS and OpenMP use one thread.

    In OpenMP the order of sums would show in the labels of scikit-learn's k-means.
    """
    libraries = _loaded_libraries()
    # To set what is set takes a fiftieth of a small fit.
    if all(one.num_threads == 1 for one in libraries.lib_controllers):
        return nullcontext()
    return libraries.limit(limits=1)


@cache
def _loaded_libraries():
    """Those of NumPy and SciPy: to look for them takes a tenth of a small fit."""
    return ThreadpoolController()


class SharedWithWorkers:
    """Mixin of what many maps read: it is sent to the workers of a backend once.

    Worker processes of this machine open its arrays from files rather than copy them.
    No pickle carries what was sent.
    """

    def there(self, where):
        """What stands for this object in calls under the backend that is active."""
        backend, _ = get_active_backend(**where)
        if getattr(backend, "supports_sharedmem", False):
            return self
        client = getattr(backend, "client", None)
        if client not in vars(self).get("_sent", {}):
            # Frozen classes are sent, too.
            vars(self)["_sent"] = {
                client: self._in_temporary_files()
                if client is None
                else client.scatter(self, broadcast=True, hash=False)
            }
        return self._sent[client]

    def _in_temporary_files(self):
        folder = tempfile.mkdtemp(prefix="skboost-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return self.in_files(folder)

    def in_files(self, folder):
        """The same with its arrays mapped from files in a folder."""
        path = f"{folder}/value.joblib"
        joblib.dump(self, path)
        return joblib.load(path, mmap_mode="r")

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "_sent"}


def limited(func, *args):
    """``func(*args)`` on one thread of BLAS and OpenMP."""
    with single_threaded():
        return func(*args)


def chunked_map(func, items, n_jobs=None, backend="threading", shared=None):
    """``[func(item) for item in items]``, in parallel where ``n_jobs`` asks.

    With `shared`, ``func(shared, item)``. The backend is a hint that a surrounding
    ``joblib.parallel_config`` overrides; "shared" is threads whatever surrounds them,
    for work on an object that keeps count.
    """
    if len(items) < 2 or effective_n_jobs(n_jobs) == 1:
        first = () if shared is None else (shared,)
        return [func(*first, item) for item in items]
    kinds = {
        "threading": {"prefer": "threads"},
        "loky": {"prefer": "processes"},
        "shared": {"require": "sharedmem"},
    }
    where = kinds[backend]
    first = () if shared is None else (shared.there(where),)
    # The work is in chunks already; batching them again would leave workers idle.
    return Parallel(n_jobs=n_jobs, batch_size=1, **where)(
        delayed(limited)(func, *first, item) for item in items
    )


def row_blocks(n_rows, n_columns, entries=BLOCK_ENTRIES):
    """Slices over ``n_rows`` whose ``rows x n_columns`` temporaries stay small."""
    step = max(1, entries // max(1, n_columns))
    return [slice(a, min(a + step, n_rows)) for a in range(0, n_rows, step)]


def scratch(name, shape):
    """An array of floats with any content, shape `shape`, C order.

    It is the thread's own, and the next call with the same name overwrites it: for
    what is summed up before the next block is looked at. To allocate the temporaries
    of every block anew costs as much as a sum itself where the allocator gives freed
    memory back to the system at once, as Dask tells it to on its workers.
    """
    size = int(np.prod(shape))
    held = vars(_SCRATCH).get(name)
    if held is None or held.size < size:
        held = np.empty(size)
        setattr(_SCRATCH, name, held)
    return held[:size].reshape(shape)
