"""A log density of 10 ms a draw: two processes against one, and the same bits.

python benchmarks/parallel.py
"""

from _harness import Report, parser, timed  # isort: skip

import time
from functools import partial

import numpy as np
from joblib import Parallel, delayed

from skboost import boost_posterior


def work(n):
    """Arithmetic that keeps a core busy, without a system call."""
    total = 0.0
    for i in range(n):
        total += (i % 7) * 0.5
    return total


def calibrated(milliseconds=10.0):
    """Length of `work` that takes so long on this machine while nothing else runs."""
    n, best = 20_000, np.inf
    for _ in range(20):
        began = time.perf_counter()
        work(n)
        best = min(best, time.perf_counter() - began)
    return int(n * milliseconds * 1e-3 / best)


def log_density(theta, n=0):
    """A curved density that computes for a while, or waits 10 ms where n is 0."""
    x, y = theta
    if n:
        work(n)
    else:
        time.sleep(0.010)
    return -0.5 * x**2 - 2.0 * (y - 0.25 * x**2) ** 2


def gradient(theta):
    x, y = theta
    slope = 4.0 * (y - 0.25 * x**2)
    return np.array([-x + slope * 0.5 * x, -slope])


def run(length, n_jobs):
    return boost_posterior(
        partial(log_density, n=length),
        2,
        gradient=gradient,
        vectorized=False,
        max_iter=2,
        n_draws=64,
        refine=False,
        tol=0.0,
        random_state=0,
        n_jobs=n_jobs,
    )


def main():
    args = parser(__doc__, replicates=1).parse_args()
    report = Report(
        "parallel", args.out, replicates=args.replicates, n_draws=64, max_iter=2
    )
    length = calibrated()
    # A density that waits (for a simulator, say) shows the library alone; one that
    # computes shows the machine too, and what else runs on it.
    for kind, n in (("waits", 0), ("computes", length)):
        ratios, bare, same = [], [], True
        for _ in range(args.replicates):
            if n:
                bare.append(bare_ratio(n))
            results, walls = [], []
            for n_jobs in (1, 2):
                result, _, wall = timed(run, n, n_jobs)
                results.append(result)
                walls.append(wall)
                report.row("10 ms a draw", density=kind, n_jobs=n_jobs,
                           ELBO=result.elbo, **{
                               "wall s": wall,
                               "draws evaluated": result.n_evaluations})  # fmt: skip
            ratios.append(walls[0] / walls[1])
            same = same and identical(*results)
        if bare:
            report.row("two bare processes on the same work, without the library",
                       ratio=float(np.median(bare)))  # fmt: skip
        report.bar(f"{kind}: wall seconds, n_jobs=1 / n_jobs=2",
                   float(np.median(ratios)), ">=", 1.7)  # fmt: skip
        report.bar(f"{kind}: same bits (1 is yes)", float(same), ">=", 1.0)


def bare_ratio(length, n=300):
    """What two processes gain here on the same work without the library."""
    walls = []
    for n_jobs in (1, 2):
        with Parallel(n_jobs=n_jobs) as pool:
            pool(delayed(work)(10) for _ in range(4))
            calls = (delayed(repeated)(length, n) for _ in range(2))
            walls.append(timed(pool, calls)[2])
    return walls[0] / walls[1]


def repeated(length, n):
    for _ in range(n):
        work(length)


def identical(a, b):
    """Whether weights, parameters and estimates agree to the last bit."""
    pairs = zip(
        a.posterior.mixture.components, b.posterior.mixture.components, strict=True
    )
    return (
        np.array_equal(a.posterior.weights, b.posterior.weights)
        and all(np.array_equal(p, q) for (_, p), (_, q) in pairs)
        and a.elbo == b.elbo
    )


if __name__ == "__main__":
    main()
