import numpy as np
import pytest

from skboost.online import _loops


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    """Loops as without the extra ``fast``; `compiled` undoes it; their module."""
    monkeypatch.setattr(_loops, "compiler", lambda: None)
    _loops.dense_loop.cache_clear()
    _loops.sparse_loop.cache_clear()
    yield _loops
    _loops.dense_loop.cache_clear()
    _loops.sparse_loop.cache_clear()


@pytest.fixture
def rows():
    """Sparse-ish rows, labels and weights."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 7)) * (rng.uniform(size=(60, 7)) < 0.4)
    y = (rng.uniform(size=60) < 0.5).astype(float)
    return X, y, rng.uniform(0.5, 2.0, size=60)
