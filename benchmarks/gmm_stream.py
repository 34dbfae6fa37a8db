"""A stream of 1,000,000 x 10 rows through partial_fit: rows a second, and memory.

    python benchmarks/gmm_stream.py [--rows 1000000] [--batch 10000]

Batches are generated as they are needed and thrown away. Memory is the peak of traced
allocations during partial_fit, measured in a separate, shorter pass because tracing
costs time; a pass over ten times as many rows must not need more.
"""

from _harness import Report, parser, timed  # isort: skip

import tracemalloc

import numpy as np

from skboost.mixture import SVIGaussianMixture

DIM, CLUSTERS = 10, 10


def truth():
    rng = np.random.default_rng(0)
    roots = 0.4 * rng.normal(size=(CLUSTERS, DIM, DIM)) + np.eye(DIM)
    return 3.0 * rng.normal(size=(CLUSTERS, DIM)), roots


def batches(n_rows, size, seed):
    means, roots = truth()
    rng = np.random.default_rng(seed)
    for _ in range(n_rows // size):
        labels = rng.integers(CLUSTERS, size=size)
        noise = rng.normal(size=(size, DIM))
        yield means[labels] + np.einsum("nij,nj->ni", roots[labels], noise)


def stream(n_rows, size, covariance_type):
    """The model after the stream, and its CPU seconds without the generator's."""
    model = SVIGaussianMixture(
        CLUSTERS, covariance_type=covariance_type, random_state=0
    )
    seconds = sum(timed(model.partial_fit, X)[1] for X in batches(n_rows, size, seed=1))
    return model, seconds


def peak_bytes(n_rows, size, covariance_type):
    """Peak of traced allocations over the model's own calls, beyond the batch."""
    model = SVIGaussianMixture(
        CLUSTERS, covariance_type=covariance_type, random_state=0
    )
    peak = 0
    for X in batches(n_rows, size, seed=1):
        tracemalloc.start()
        model.partial_fit(X)
        peak = max(peak, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return peak


def true_density(X):
    means, roots = truth()
    parts = []
    for mean, root in zip(means, roots, strict=True):
        away = np.linalg.solve(root, (X - mean).T)
        log_det = np.linalg.slogdet(root)[1]
        parts.append(-0.5 * (away**2).sum(axis=0) - log_det)
    log_norm = np.log(CLUSTERS) + DIM / 2 * np.log(2 * np.pi)
    return np.logaddexp.reduce(parts, axis=0) - log_norm


def main():
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--batch", type=int, default=10_000)
    options = options.parse_args()
    report = Report(
        "gmm_stream", options.out, rows=options.rows, batch=options.batch, columns=DIM
    )
    fresh = next(batches(20_000, 20_000, seed=2))
    best = float(true_density(fresh).mean())
    for covariance_type in ("full", "diag"):
        model, seconds = stream(options.rows, options.batch, covariance_type)
        short = peak_bytes(10 * options.batch, options.batch, covariance_type)
        long = peak_bytes(100 * options.batch, options.batch, covariance_type)
        batch_bytes = options.batch * DIM * 8
        report.row(
            "partial_fit",
            clusters=covariance_type,
            rows_per_s=options.rows / seconds,
            cpu_s=seconds,
            peak_MB=long / 1e6,
            peak_in_batches=long / batch_bytes,
            held_out=model.score(fresh),
            truth=best,
        )
        growth = long / short
        report.bar(f"{covariance_type}: memory, 10 times the rows", growth, "<=", 1.05)


if __name__ == "__main__":
    main()
