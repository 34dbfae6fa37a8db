"""Time and memory against the number of rows: 24,060 and 240,600 x 100, generated.

    python benchmarks/scaling.py [--replicates 3]

Every fit runs in a process of its own; peak memory beyond the data is the largest
resident size during the fit minus the resident size just before it, with the data and
the library loaded.
"""

from _harness import Report, parser  # isort: skip

import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

ROWS = (24_060, 240_600)
DIM = 100


def generated(n, dim, seed=0):
    """Correlated columns, 10 % positive; float64."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dim))
    X += rng.standard_normal((n, 1))
    coef = 0.3 * rng.standard_normal(dim) / np.sqrt(dim) * 4
    eta = X @ coef
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-(eta - 2.5)))
    return X, y.astype(int)


def resident():
    """Resident bytes now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def worker(n, library):
    """One fit in this process; prints one line of JSON."""
    X, y = generated(n, DIM)
    if library == "skboost":
        from skboost import BoostedBayesianLogisticRegression

        model = BoostedBayesianLogisticRegression(random_state=0)
    else:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression()
    warnings.simplefilter("ignore")
    # Whatever is imported or compiled at a first fit is no matter of the rows.
    model.fit(X[:500], y[:500])
    before, cpu, wall = resident(), time.process_time(), time.perf_counter()
    reset_peak()
    model.fit(X, y)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    extra = {}
    if library == "skboost":
        extra = {"components": model.posterior_.n_components, "n_iter": model.n_iter_}
    print(json.dumps({"cpu": cpu, "wall": wall, "peak": peak() - before, **extra}))


def reset_peak():
    """Set the kernel's high-water mark back to what is resident now (Linux)."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def peak():
    """High-water mark of resident bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    made = parser(__doc__, replicates=3)
    made.add_argument("--worker", nargs=2, metavar=("ROWS", "LIBRARY"))
    args = made.parse_args()
    if args.worker:
        worker(int(args.worker[0]), args.worker[1])
        return
    report = Report("scaling", args.out, replicates=args.replicates, columns=DIM)
    seconds, memory = {}, {}
    for library in ("skboost", "LogisticRegression"):
        for n in ROWS:
            runs = [child(n, library) for _ in range(args.replicates)]
            cpu = float(np.median([r["cpu"] for r in runs]))
            peak_mb = max(r["peak"] for r in runs) / 1e6
            seconds[library, n], memory[library, n] = cpu, peak_mb
            report.row(
                "scaling",
                method=library,
                rows=n,
                **{
                    "CPU s": cpu,
                    "wall s": float(np.median([r["wall"] for r in runs])),
                    "peak MB beyond data": peak_mb,
                    "data MB": n * DIM * 8 / 1e6,
                    "components": runs[0].get("components"),
                    "iterations": runs[0].get("n_iter"),
                },
            )
    growth = seconds["skboost", ROWS[1]] / seconds["skboost", ROWS[0]]
    report.bar("ten times the rows: factor of CPU seconds", growth, "<=", 10.0)
    for n in ROWS:
        report.bar(
            f"{n} rows: peak MB beyond the data", memory["skboost", n], "<=", 200.0
        )


def child(n, library):
    done = subprocess.run(
        [sys.executable, __file__, "--worker", str(n), library],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
