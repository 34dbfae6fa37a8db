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
    """A curved density, slow in proportion to n."""
    x, y = theta
    return -0.5 * x**2 - 2.0 * (y - 0.25 * x**2) ** 2 + 0.0 * work(n)


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
        n_draws=32,
        n_restarts=1,
        refine=False,
        tol=0.0,
        random_state=0,
        n_jobs=n_jobs,
    )


def main():
    args = parser(__doc__, replicates=1).parse_args()
    report = Report("parallel", args.out, replicates=args.replicates, n_draws=32, max_iter=2)
    ratios, same, length = [], True, calibrated()
    report.row("the machine itself", what="joblib on 2 x 300 bare calls",
               ratio=bare_ratio(length))  # fmt: skip
    for _ in range(args.replicates):
        results, walls = [], []
        for n_jobs in (1, 2):
            result, _, wall = timed(run, length, n_jobs)
            results.append(result)
            walls.append(wall)
            report.row("10 ms a draw", n_jobs=n_jobs, ELBO=result.elbo, **{
                "wall s": wall, "draws evaluated": result.n_evaluations,
                "components": result.posterior.n_components})  # fmt: skip
        ratios.append(walls[0] / walls[1])
        same = same and identical(*results)
    report.bar("wall seconds, n_jobs=1 / n_jobs=2", float(np.median(ratios)), ">=", 1.7)
    report.bar("same bits", float(same), ">=", 1.0)


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
    pairs = zip(a.posterior.mixture.components, b.posterior.mixture.components, strict=True)
    return (
        np.array_equal(a.posterior.weights, b.posterior.weights)
        and all(np.array_equal(p, q) for (_, p), (_, q) in pairs)
        and a.elbo == b.elbo
    )


if __name__ == "__main__":
    main()
