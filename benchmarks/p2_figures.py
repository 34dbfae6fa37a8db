"""Figures 4 to 6 of Paisley, Fazelnia, Barr: how many clusters remain, and which.

    python benchmarks/p2_figures.py [--seeds 10] [--draw]

250 points in four clusters in the plane, Dirichlet(1/K) with K = 50 in place of a
Dirichlet process, random responsibilities as the start, 1,000 steps, batches of |S| =
10 .. 50 rows, M = 0.2, 0.4, 0.6 |S|; batch inference runs to convergence. Figure 4 is
the size-sorted share of the rows in each cluster, figure 6 its cumulative sum with the
spread over all runs, figure 5 the clusters of one run with |S| = 40 and M = 16.

Writes ``results/p2_figures.json`` and ``doc/_static/p2_fig4.png``, ``p2_fig5.png``
and ``p2_fig6.png``. ``--draw`` makes the pictures from the file without a run.
"""

from _harness import Report, parser, shared_module  # isort: skip

import numpy as np
from figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    plt,
    results,
    save,
)
from svi_plus import fit

METHODS = {"batch": GREY, "SVI": BLUE, "SVI+": VERMILION}
CLUSTERS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
SIZES = (10, 20, 30, 40, 50)
STEPS, MOST = 1000, 8
# Of figure 5 in the paper.
TYPICAL = {"batch": (None, None), "SVI": (40, None), "SVI+": (40, 16.0)}


# The prior: 50 clusters that approximate a Dirichlet process.
PROCESS = {
    "weight_concentration_prior_type": "finite_dirichlet_process",
    "weight_concentration_prior": 1.0,
    # A row of its own for each of 50 clusters would leave most of them apart.
    "init_params": "random",
}


def occupied(model, X):
    """Clusters that hold at least 1 % of the rows by largest responsibility."""
    counts = np.bincount(model.predict(X), minlength=model.n_components)
    return int((counts >= 0.01 * len(X)).sum()), np.sort(counts)[::-1] / len(X)


def fits(n_rows):
    """Method, batch size, M and settings of every fit of figures 4 to 6."""
    yield "batch", None, None, PROCESS | {"max_iter": 5000, "tol": 1e-6}
    for size in SIZES:
        for share in (None, 0.2, 0.4, 0.6):
            effective = None if share is None else share * size
            yield (
                "SVI" if share is None else "SVI+",
                size,
                effective,
                PROCESS
                | {
                    "batch_size": size,
                    "effective_batch_size": effective,
                    "max_iter": max(1, STEPS * size // n_rows),
                },
            )


def run(report, X, seeds):
    """Shares of the largest clusters in every run, and one clustering by method."""
    for method, size, effective, options in fits(len(X)):
        # As many runs of batch inference as of SVI by all batch sizes.
        n = 5 * seeds if method == "batch" else seeds
        models = [fit(X, 50, seed, **options)[0] for seed in range(n)]
        found = [occupied(model, X) for model in models]
        counts = [count for count, _ in found]
        curve = {
            "method": method, "S": size, "M": effective, "counts": counts,
            "shares": [np.round(shares[:MOST], 4).tolist() for _, shares in found],
        }  # fmt: skip
        if TYPICAL[method] == (size, effective):
            curve["labels"] = ordered(models[0].predict(X)).tolist()
            curve["X"] = np.round(X, 4).tolist()
        report.curve(**curve)
        report.row(
            "occupied clusters of 50 (truth: 4)", method=method, S=size, M=effective,
            runs=n, clusters=float(np.mean(counts)), sd=float(np.std(counts, ddof=1)),
            right=float(np.mean(np.equal(counts, 4))),
            ELBO=float(np.mean([model.elbo_ for model in models])),
            shrunk=float(np.mean([model.noise_shrunk_ for model in models])),
        )  # fmt: skip


def summarise(report):
    """All settings of a method together."""
    off = {}
    for method in METHODS:
        counts = np.concatenate(
            [c["counts"] for c in report.curves if c["method"] == method]
        )
        off[method] = float(abs(counts.mean() - 4.0))
        report.row(
            "over all settings", method=method, runs=len(counts),
            clusters=float(counts.mean()), off_by=off[method],
            right=float(np.mean(counts == 4)), fewer=float(np.mean(counts < 4)),
            more=float(np.mean(counts > 4)),
        )  # fmt: skip
    for rival in ("batch", "SVI"):
        report.bar(f"SVI+ off by no more than {rival}", off["SVI+"], "<=", off[rival])


def ordered(labels):
    """Labels renamed by size, the largest cluster first."""
    values, counts = np.unique(labels, return_counts=True)
    rank = {value: k for k, value in enumerate(values[np.argsort(-counts)])}
    return np.array([rank[value] for value in labels])


def shares_of(curves, method):
    """Size-sorted shares of all runs of a method, (runs, clusters)."""
    return np.vstack([c["shares"] for c in curves if c["method"] == method])


def draw_fig4(content):
    figure, grid = plt.subplots(1, 3, figsize=(7.6, 2.6), sharey=True)
    for axes, (method, colour) in zip(grid, METHODS.items(), strict=True):
        shares = shares_of(content["curves"], method)
        axes.bar(range(1, MOST + 1), shares.mean(axis=0), color=colour)
        axes.set(title=f"{method}, {len(shares)} runs", xlabel="cluster, by size")
    grid[0].set_ylabel("mean share of the rows")
    save(figure, "p2_fig4", content)


def draw_fig5(content):
    figure, grid = plt.subplots(1, 3, figsize=(7.6, 2.8), sharex=True, sharey=True)
    shown = {c["method"]: c for c in content["curves"] if "labels" in c}
    for axes, method in zip(grid, METHODS, strict=True):
        X, labels = np.array(shown[method]["X"]), np.array(shown[method]["labels"])
        for k in range(labels.max() + 1):
            axes.scatter(
                *X[labels == k].T, s=8, color=CLUSTERS[min(k, len(CLUSTERS) - 1)]
            )
        axes.set(title=f"{method}: {labels.max() + 1} clusters", xlabel="first column")
    grid[0].set_ylabel("second column")
    save(figure, "p2_fig5", content)


def draw_fig6(content):
    figure, axes = plt.subplots(figsize=(6.4, 3.2))
    places = np.arange(1, 6)
    for k, (method, colour) in enumerate(METHODS.items()):
        shares = shares_of(content["curves"], method)
        sums = np.cumsum(shares, axis=1)[:, : len(places)]
        boxes = axes.boxplot(
            sums, positions=places + 0.25 * (k - 1), widths=0.2, patch_artist=True,
            manage_ticks=False, flierprops={"markersize": 2},
            medianprops={"color": "black"},
        )  # fmt: skip
        for box in boxes["boxes"]:
            box.set(facecolor=colour, alpha=0.6)
        axes.plot([], [], color=colour, lw=6, alpha=0.6, label=method)
    axes.set(
        xticks=places, ylim=(0, 1.03),
        xlabel="number of largest clusters", ylabel="share of the rows in them",
    )  # fmt: skip
    axes.legend(loc="lower right")
    save(figure, "p2_fig6", content)


def main():
    made = parser(__doc__)
    made.add_argument("--seeds", type=int, default=10)
    made.add_argument("--draw", action="store_true")
    args = made.parse_args()
    if not args.draw:
        report = Report("p2_figures", args.out, seeds=args.seeds, steps=STEPS)
        synthetic = shared_module(args.shared, "data", "make_synthetic")
        if synthetic is None:
            return report.not_run("all figures", "the shared data are not there")
        run(report, synthetic.gmm_4clusters()["X"], args.seeds)
        summarise(report)
    content = results("p2_figures", args.out)
    for draw in (draw_fig4, draw_fig5, draw_fig6):
        draw(content)


if __name__ == "__main__":
    main()
