"""A log density of 10 ms a draw: two processes against one, and the same bits.

    python benchmarks/parallel.py
"""

from _harness import Report, parser, timed  # isort: skip

import time

import numpy as np

from skboost import boost_posterior


def log_density(theta):
    """A curved density that keeps a core busy for 10 ms."""
    until = time.thread_time() + 0.010
    while time.thread_time() < until:
        pass
    x, y = theta
    return -0.5 * x**2 - 2.0 * (y - 0.25 * x**2) ** 2


def gradient(theta):
    x, y = theta
    slope = 4.0 * (y - 0.25 * x**2)
    return np.array([-x + slope * 0.5 * x, -slope])


def run(n_jobs):
    return boost_posterior(
        log_density,
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
    ratios, same = [], True
    for _ in range(args.replicates):
        results, walls = [], []
        for n_jobs in (1, 2):
            result, _, wall = timed(run, n_jobs)
            results.append(result)
            walls.append(wall)
            report.row("10 ms a draw", n_jobs=n_jobs, ELBO=result.elbo, **{
                "wall s": wall, "draws evaluated": result.n_evaluations,
                "components": result.posterior.n_components})  # fmt: skip
        ratios.append(walls[0] / walls[1])
        same = same and identical(*results)
    report.bar("wall seconds, n_jobs=1 / n_jobs=2", float(np.median(ratios)), ">=", 1.7)
    report.bar("same bits", float(same), ">=", 1.0)


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
