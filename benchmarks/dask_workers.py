"""Two workers against one: logistic regression on Dask, loky and threads.

    python benchmarks/dask_workers.py [--rows 2000000]

Wall seconds of whole fits, generated data with 20 columns. Ratios mean something on an
idle machine with at least two cores only: where the load average is above a half when
the script begins, they are named as not run, and the table of seconds stands alone.
Every fit is compared with that of one thread. Two cores of a virtual machine may be two
threads of one core: how much more two processes do that share nothing is measured, too.
"""

from _harness import Report, parser  # isort: skip

import os
import signal
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from threading import Timer

import numpy as np

DIM = 20
BLOCK = 100_000


def block(k, n):
    """Rows of one block, (n, 21): features, and labels last."""
    coef = np.random.default_rng(0).standard_normal(DIM) / np.sqrt(DIM)
    rng = np.random.default_rng([1, k])
    X = rng.standard_normal((n, DIM))
    y = rng.random(n) < 1.0 / (1.0 + np.exp(1.0 - X @ coef))
    return np.column_stack([X, y])


def sizes(n):
    return [min(BLOCK, n - start) for start in range(0, n, BLOCK)]


def in_memory(n):
    rows = np.concatenate([block(k, size) for k, size in enumerate(sizes(n))])
    return np.ascontiguousarray(rows[:, :-1]), rows[:, -1].astype(int)


def on_workers(n):
    """The same rows as Dask arrays, which the workers generate."""
    import dask
    import dask.array as da

    blocks = [
        da.from_delayed(dask.delayed(block)(k, size), (size, DIM + 1), dtype=float)
        for k, size in enumerate(sizes(n))
    ]
    rows = da.concatenate(blocks)
    return rows[:, :-1], rows[:, -1].astype(int)


def fitted(kind, rows, **settings):
    """A fit and its wall seconds."""
    model = kind(random_state=0, **settings)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*rows)
    return model, time.perf_counter() - began


def with_joblib(n, backend, n_jobs):
    from joblib import parallel_config

    from skboost import BoostedBayesianLogisticRegression

    rows = in_memory(n)
    with parallel_config(backend=backend, n_jobs=n_jobs):
        # Workers are started and have imported the package before the clock runs.
        fitted(BoostedBayesianLogisticRegression, in_memory(20_000))
        return fitted(BoostedBayesianLogisticRegression, rows, n_jobs=n_jobs)


def with_dask(n, n_workers, kill=False):
    from distributed import Client, LocalCluster

    from skboost.dask import DaskBayesianLogisticRegression

    cluster = LocalCluster(
        n_workers=n_workers, threads_per_worker=1, host="127.0.0.1",
        dashboard_address=None, worker_dashboard_address=None,
    )  # fmt: skip
    with cluster, Client(cluster) as client:
        _, seconds = fitted(DaskBayesianLogisticRegression, on_workers(20_000))
        with killer(client, kill, seconds):
            model, seconds = fitted(DaskBayesianLogisticRegression, on_workers(n))
        model.posterior_, model.elbo_  # noqa: B018  (their rows are on the workers)
        return model, seconds


@contextmanager
def killer(client, kill, seconds):
    """Where asked for, one worker dies ``seconds`` after the fit began."""
    if not kill:
        yield
        return
    pid = next(iter(client.run(os.getpid).values()))
    timer = Timer(seconds, os.kill, (pid, signal.SIGKILL))
    timer.start()
    yield
    timer.cancel()
    assert pid not in client.run(os.getpid).values(), "the fit was over before"


def main():
    made = parser(__doc__)
    made.add_argument("--rows", type=int, default=2_000_000)
    args = made.parse_args()
    n, load = args.rows, os.getloadavg()[0]
    report = Report("dask_workers", args.out, rows=n, columns=DIM, load=round(load, 1))
    work = "work of two processes that share nothing, over that of one"
    report.row("what the machine allows", what=work, times=capacity())
    runs = {
        "one thread": lambda: with_joblib(n, "threading", 1),
        "two threads": lambda: with_joblib(n, "threading", 2),
        "loky, two processes": lambda: with_joblib(n, "loky", 2),
        "Dask, one worker": lambda: with_dask(n, 1),
        "Dask, two workers": lambda: with_dask(n, 2),
        "Dask, two workers, one killed": lambda: with_dask(n, 2, kill=True),
    }
    seconds, first = {}, None
    for name, run in runs.items():
        model, seconds[name] = run()
        first = model if first is None else first
        std = first.posterior_.std()
        away = np.abs(model.posterior_.mean() - first.posterior_.mean()) / std
        report.row(
            f"logistic regression, {n:,} x {DIM}",
            **{
                "where": name,
                "wall s": seconds[name],
                "mean off, in standard deviations": float(away.max()),
                "ELBO off, nats": float(abs(model.elbo_ - first.elbo_)),
            },
        )
    ratios(report, seconds, load)


def alone(_):
    """Wall seconds of products and exponentials that fit into a cache."""
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((2_000, DIM)), rng.standard_normal((DIM, 64))
    began = time.perf_counter()
    for _ in range(2_000):
        np.log1p(np.exp(-np.abs(X @ W))).sum(axis=0)
    return time.perf_counter() - began


def capacity():
    """How many times the work of one process two processes do, median of five."""
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(alone, range(2)))
        ratios = []
        for _ in range(5):
            one = pool.submit(alone, 0).result()
            ratios.append(2 * one / np.mean(list(pool.map(alone, range(2)))))
    return float(np.median(ratios))


def ratios(report, seconds, load):
    """The targets, where the machine was idle."""
    if load > 0.5 or (os.cpu_count() or 1) < 2:
        why = f"load average {load:.1f} on {os.cpu_count()} cores: undecided"
        report.not_run("ratios of wall seconds", why)
        return
    one, two = seconds["Dask, one worker"], seconds["Dask, two workers"]
    report.bar("Dask: one worker over two", one / two, ">=", 1.7)
    loky = seconds["one thread"] / seconds["loky, two processes"]
    report.bar("loky: one process over two", loky, ">=", 1.7)
    report.bar("Dask over two threads", two / seconds["two threads"], "<=", 1.3)
    killed = seconds["Dask, two workers, one killed"]
    report.bar("one worker killed over none", killed / two, "<=", 2.0)


if __name__ == "__main__":
    main()
