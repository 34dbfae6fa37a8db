"""Environment of the tests; read before NumPy and SciPy are imported."""

import os

# Some of scikit-learn's common checks only run with it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
if "PYTEST_XDIST_WORKER" in os.environ:
    # One worker per core: more threads each would only get in each other's way.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
