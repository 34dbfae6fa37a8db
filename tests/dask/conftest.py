"""A cluster of two worker processes on this machine."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4)) * [1.0, 5.0, 0.2, 1.0]
    eta = X @ [1.0, -0.2, 2.0, 0.0] + 0.5
    return {
        "X": X,
        "weight": rng.uniform(0.2, 2.0, len(X)),
        "offset": rng.uniform(0.0, 1.0, len(X)),
        "labels": np.where(eta + rng.logistic(size=len(X)) > 0, "yes", "no"),
        "numbers": 100.0 + eta + rng.standard_normal(len(X)),
        "counts": rng.poisson(np.exp(0.3 * eta)),
    }


@pytest.fixture(scope="module")
def far(data):
    """The same as Dask arrays, in blocks of different sizes."""
    da = pytest.importorskip("dask.array")
    found = {k: da.from_array(v, chunks=280) for k, v in data.items() if k != "X"}
    return found | {"X": da.from_array(data["X"], chunks=(320, 3))}


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    # Loopback only, and no page that shows how it is doing.
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
        dashboard_address=None, worker_dashboard_address=None,
    )  # fmt: skip
    with cluster, distributed.Client(cluster) as client:
        yield client
