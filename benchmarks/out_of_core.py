"""Rows that do not fit into memory: logistic regression on a memory map.

    python benchmarks/out_of_core.py [--rows 200000 2000000 20000000]

Generated data, float32, 20 columns, and a million rows of 50 columns in float64, in
files below ``--folder`` that are deleted afterwards: 1.6 GB for 20 million rows. Every
fit runs in a process of its own. ``peak MB`` is what the process has allocated
(resident pages without a file behind them, sampled 20 times a second), beyond what it
had before the fit. ``resident MB`` is all that was resident at the most, the modules
and pages of the file included: the kernel keeps those where memory is free, and any
other process can have them.
"""

from _harness import Report, parser  # isort: skip

import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

ROWS = (200_000, 2_000_000, 20_000_000)
DIM, WIDE = 20, (1_000_000, 50, "float64")
_BLOCK = 200_000


def generated(folder, n, dim, dtype):
    """Write X (n, dim) and y (n,) int8 of a logistic model, block by block."""
    X = np.lib.format.open_memmap(
        f"{folder}/X.npy", mode="w+", dtype=dtype, shape=(n, dim)
    )
    y = np.lib.format.open_memmap(
        f"{folder}/y.npy", mode="w+", dtype=np.int8, shape=(n,)
    )
    coef = np.random.default_rng(0).standard_normal(dim) / np.sqrt(dim)
    for k, start in enumerate(range(0, n, _BLOCK)):
        rng = np.random.default_rng([1, k])
        rows = slice(start, min(start + _BLOCK, n))
        block = rng.standard_normal((rows.stop - start, dim), dtype=dtype)
        X[rows] = block
        y[rows] = rng.random(len(block)) < 1.0 / (1.0 + np.exp(1.0 - block @ coef))
    X.flush()
    y.flush()


class AllocatedPeak:
    """Largest number of bytes this process has allocated while a block of code ran."""

    def __enter__(self):
        self.before = self.peak = allocated()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def _sample(self):
        while not self._ended.wait(0.05):
            self.peak = max(self.peak, allocated())

    def __exit__(self, *error):
        self._ended.set()
        self._thread.join()
        self.peak = max(self.peak, allocated())


def allocated():
    """Resident bytes that no file stands behind."""
    return status("RssAnon")


def status(name):
    """What Linux says of the memory of this process, in bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    raise OSError(f"the kernel does not tell {name}")


def worker(folder):
    """One fit in this process; prints one line of JSON."""
    from skboost import BoostedBayesianLogisticRegression

    warnings.simplefilter("ignore")
    X, y = (np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in "Xy")
    model = BoostedBayesianLogisticRegression(random_state=0)
    # Whatever is imported or compiled at a first fit is no matter of the rows.
    model.fit(np.asarray(X[:500]), np.asarray(y[:500]))
    with AllocatedPeak() as memory:
        cpu, wall = time.process_time(), time.perf_counter()
        model.fit(X, y)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    dim = X.shape[1]
    away = model.coef_[0] - np.random.default_rng(0).standard_normal(dim) / np.sqrt(dim)
    found = {
        "cpu": cpu,
        "wall": wall,
        "peak": memory.peak - memory.before,
        # The maximum of `resource` would be that of the process which began this one.
        "resident": status("VmHWM"),
        "components": model.posterior_.n_components,
        "z": float(np.sqrt(np.mean((away / model.posterior_.std()[:dim]) ** 2))),
    }
    print(json.dumps(found))


def measured(folder, n, dim=DIM, dtype="float32"):
    """What `worker` says of n rows."""
    with tempfile.TemporaryDirectory(dir=folder) as here:
        generated(here, n, dim, dtype)
        done = subprocess.run(
            [sys.executable, __file__, "--worker", here],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def add_row(report, run, n, n_bytes, more=""):
    """A row about a fit, which is handed back."""
    report.row(
        f"logistic regression on a memory map{more}",
        rows=n,
        **{
            "data MB": n * n_bytes / 1e6,
            "CPU s": run["cpu"],
            "CPU s per million rows": run["cpu"] / n * 1e6,
            "wall s": run["wall"],
            "peak MB": run["peak"] / 1e6,
            "resident MB": run["resident"] / 1e6,
            "components": run["components"],
            "error in posterior sd": run["z"],
        },
    )
    return run


def main():
    made = parser(__doc__)
    made.add_argument("--rows", type=int, nargs="+", default=ROWS)
    made.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    made.add_argument("--worker", metavar="FOLDER")
    args = made.parse_args()
    if args.worker:
        worker(args.worker)
        return
    report = Report("out_of_core", args.out, rows=list(args.rows), columns=DIM)
    found = {}
    for n in args.rows:
        found[n] = add_row(report, measured(args.folder, n), n, 4 * DIM)
    n, dim, dtype = WIDE
    wide = measured(args.folder, *WIDE)
    add_row(report, wide, n, np.dtype(dtype).itemsize * dim, f", {dim} columns")
    report.bar(f"{n:,} x {dim}: CPU s", wide["cpu"], "<=", 6.0)
    report.bar(f"{n:,} x {dim}: resident MB", wide["resident"] / 1e6, "<=", 500.0)
    for n in set(ROWS) - set(args.rows):
        report.not_run(f"{n:,} rows", "left out by --rows: the machine was busy")
    few, many = min(found), max(found)
    growth = found[many]["cpu"] / found[few]["cpu"] / (many / few)
    report.bar(f"CPU seconds for a row, {many:,} rows over {few:,}", growth, "<=", 1.15)
    for n in args.rows:
        report.bar(f"{n:,} rows: peak MB", found[n]["peak"] / 1e6, "<=", 500.0)


if __name__ == "__main__":
    main()
