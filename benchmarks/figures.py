"""Pictures of the documentation, from the JSON files in ``results/``.

    python benchmarks/figures.py [NAME ...]

Pictures that a script draws with its own run are not here; what those share with these
(colours, sizes, where files are) is.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the backend is set)
from matplotlib.ticker import NullFormatter, ScalarFormatter  # noqa: E402

_ROOT = Path(__file__).resolve().parent.parent
STATIC = _ROOT / "doc" / "_static"
# The look of the package's displays, in the size of a page.
plt.style.use("skboost.inspection.figures")
plt.rcParams.update({"font.size": 9, "savefig.dpi": 130})
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = [
    entry["color"] for entry in plt.rcParams["axes.prop_cycle"]
][:6]
GREY = "#555555"


def results(name, folder=_ROOT / "benchmarks" / "results"):
    """The content of ``NAME.json``."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def save(figure, name):
    """Write ``doc/_static/NAME.png``."""
    figure.savefig(STATIC / f"{name}.png")
    plt.close(figure)


def legend_below(figure, panels, ncols, last=()):
    """One legend for all panels, below them; the labels in `last` stand last."""
    found = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    found |= {label: found.pop(label) for label in last if label in found}
    figure.legend(found.values(), found, loc="outside lower center", ncols=ncols)


# --- against_nuts.py: energy distance over CPU seconds, both methods


def against_nuts():
    """One panel for each posterior of which the default has runs."""
    end = ": energy over seconds"
    found = {
        title.removesuffix(end): rows
        for title, rows in results("against_nuts")["tables"].items()
        if title.endswith(end) and any(row["method"] == "default" for row in rows)
    }
    n_columns = min(3, len(found))
    n_rows = -(-len(found) // n_columns)
    size = (4.2 * n_columns, 3.4 * n_rows + 0.8)
    figure, grid = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False)
    for axes, (name, rows) in zip(grid.ravel(), found.items(), strict=False):
        energies_over_seconds(axes, name, rows)
    for axes in grid.ravel()[len(found) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("CPU seconds, without compilation")
    for axes in grid[:, 0]:
        axes.set_ylabel("energy distance to long runs\n(units of the coordinates)")
    legend_below(figure, grid[0, :1], 4)
    save(figure, "against_nuts")


def energies_over_seconds(axes, name, rows):
    """nutpie's budgets as a line, ours as points."""

    def points(chosen):
        """Seconds, energies, and their standard errors."""
        found = [(row["CPU s"], row["energy"], row["se"] or 0.0) for row in chosen]
        return zip(*found, strict=True)

    nutpie = [row for row in rows if row["method"].startswith("nutpie")]
    axes.errorbar(*points(nutpie), color=VERMILION, marker="D", ms=5, lw=1.2,
                  label="nutpie: 300, 600, 2,000 draws")  # fmt: skip
    for start, color in (("one Gaussian", BLUE), ("default", GREEN)):
        for kind, marker in {"": "o", "auto": "s", "moments": "^"}.items():
            label = f'{start}, "{kind}"' if kind else start
            chosen = [row for row in rows if row["method"] == label]
            if chosen:
                shown = label.replace("default", "default, up to ten")
                axes.errorbar(*points(chosen), color=color, marker=marker, ms=6, ls="",
                              label=shown)  # fmt: skip
    rival = max(row["energy"] for row in rows if row["method"].endswith("+ 1000"))
    axes.axhline(rival + 1e-3, color="k", lw=0.8, ls=":",
                 label="2,000 draws of nutpie + 0.001")  # fmt: skip
    axes.set(xscale="log", title=name)
    # Linear near zero, since unbiased distances fall below it.
    axes.set_yscale("symlog", linthresh=1e-3)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())


# --- posteriordb.py and remaining_kl.py: the benchmarks page


def benchmarks_posteriors():
    """KL of one Gaussian and of the default fit, a line for each posterior."""
    tables = results("posteriordb")["tables"]
    rows = tables["posteriordb, median and worst of the seeds"]
    rows = sorted(rows, key=lambda row: row["single"])
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for k, row in enumerate(rows):
        axes.plot([row["KL(q|p)"], row["single"]], [k, k], color="#bbbbbb", zorder=1)
    lines = range(len(rows))
    axes.scatter(
        [row["single"] for row in rows], lines, color=ORANGE, marker="s", s=34,
        label="one Gaussian",
    )  # fmt: skip
    axes.scatter(
        [row["KL(q|p)"] for row in rows], lines, color=BLUE, s=34,
        label="default fit (median over seeds)",
    )  # fmt: skip
    axes.axvline(
        0.003, color=GREY, linestyle=":", linewidth=1, label="noise of the reference"
    )
    axes.set(
        xscale="log", yticks=list(lines),
        yticklabels=[row["posterior"] for row in rows],
        xlabel="KL(q ‖ p) in nats, lower is better",
    )  # fmt: skip
    axes.legend(loc="lower right")
    save(figure, "benchmarks_posteriors")


def benchmarks_seconds():
    """KL by CPU seconds after 1, 3 and 10 iterations where the KL is known."""
    colours = {
        "funnel, 5-D": VERMILION, "funnel, 2-D": ORANGE, "Laplace, 5-D": BLUE,
        "Laplace, 3-D": SKY, "t3, 4-D": GREEN, "t3, 2-D": PURPLE,
    }  # fmt: skip
    tables = results("remaining_kl")["tables"]
    rows = [row for found in tables.values() for row in found]
    figure, axes = plt.subplots(figsize=(6.4, 3.8))
    ends = []
    for name, colour in colours.items():
        runs = [row for row in rows if row["density"] == name]
        runs = sorted(runs, key=lambda row: row["max_iter"])
        x, y = [r["CPU s"] for r in runs], [r["true KL"] for r in runs]
        axes.plot(x, y, color=colour)
        for at_x, at_y, run in zip(x, y, runs, strict=True):
            axes.scatter(at_x, at_y, color=colour, s=30)
            axes.annotate(
                run["max_iter"], (at_x, at_y), xytext=(4, 4), fontsize=7,
                textcoords="offset points", color=colour,
            )  # fmt: skip
        label = name.replace("t3", "Student-t(3)").replace("-D", " dimensions")
        ends.append((y[-1], x[-1], label, colour))
    # From the lowest up: labels at the ends of lines keep a distance from each other.
    least = 0.0
    for end, x, label, colour in sorted(ends):
        least = max(end, 1.35 * least)
        axes.text(1.45 * x, least, label, color=colour, fontsize=8, va="center")
    axes.set(
        xscale="log", yscale="log", xlim=(0.04, 20),
        xlabel="CPU seconds of a fit, median of 20 seeds",
        ylabel="KL(q ‖ p) in nats",
    )  # fmt: skip
    axes.set_title("The numbers beside the points are the iterations (max_iter)")
    save(figure, "benchmarks_seconds")


# --- svi_plus.py: bounds by epoch, and final bounds

METHODS = ["batch", "SVI", "SVI+ M=10", "SVI+ M=50", "SVI+ M=100", "SVI+ M=150"]


def svi_plus_curves():
    """Means by epoch; a method has the same colour in every panel."""

    def draw(axes, tables, case):
        for row in tables[f"{case}: mean ELBO by epoch"]:
            points = [(int(k[6:]), v) for k, v in row.items() if k.startswith("epoch")]
            color = f"C{METHODS.index(row['method'])}"
            axes.plot(*zip(*points, strict=True), color=color, label=row["method"])
        axes.set(xscale="log", xlabel="epoch")

    figure = both_starts(draw)
    legend_below(figure, figure.axes, 6, last=METHODS)
    save(figure, "svi_plus_curves")


def svi_plus_boxes():
    """Five numbers of the final bounds of each method."""
    five = {"whislo": "least", "q1": "first_quartile", "med": "median",
            "q3": "third_quartile", "whishi": "most"}  # fmt: skip

    def draw(axes, tables, case):
        rows = tables[f"{case}: final ELBO, nats"]
        stats = [{key: row[name] for key, name in five.items()} for row in rows]
        axes.bxp(stats, showfliers=False)
        labels = [row["method"].replace("SVI+ ", "") for row in rows]
        axes.set_xticks(range(1, len(rows) + 1), labels, fontsize=7, rotation=90)

    save(both_starts(draw), "svi_plus_boxes")


def both_starts(draw):
    """A line of panels, one for each data set, for either way to start."""
    starts = {
        "random_from_data": "clusters start at rows of the data",
        "random": "clusters start with rows shared at random",
    }
    tables = {start: results(f"svi_plus_{start}")["tables"] for start in starts}
    end = ": final ELBO, nats"
    cases = [t.removesuffix(end) for t in tables["random"] if t.endswith(end)]
    figure = plt.figure(figsize=(2.9 * len(cases), 6.4))
    halves = figure.subfigures(2, 1)
    for half, (start, found) in zip(halves, tables.items(), strict=True):
        half.suptitle(starts[start], fontsize="medium", fontweight="bold")
        line = half.subplots(1, len(cases), squeeze=False)[0]
        for axes, case in zip(line, cases, strict=True):
            draw(axes, found, case)
            axes.set_title(case)
        line[0].set_ylabel("ELBO (nats)")
    return figure


# --- matrix_factorization.py and topics.py: bounds by epoch


def matrix_factorization_curves():
    """Mean and range over all starts."""
    curves = results("matrix_factorization_curves_100k")["curves"]
    cases = list(dict.fromkeys(curve["case"] for curve in curves))
    size = (5.6 * len(cases), 3.8)
    figure, grid = plt.subplots(1, len(cases), figsize=size, squeeze=False)
    for axes, case in zip(grid[0], cases, strict=True):
        shown = [curve for curve in curves if curve["case"] == case]
        for curve in shown:
            epochs = range(1, len(curve["mean"]) + 1)
            # Where the two batch curves coincide, both are to be seen.
            line = "--" if "gauge" in curve["method"] else "-"
            axes.plot(epochs, curve["mean"], line, label=curve["method"])
            axes.fill_between(epochs, curve["least"], curve["most"], alpha=0.2)
        best = max(max(curve["most"]) for curve in shown)
        axes.set(title=case, xlabel="epoch", ylim=(best - 1e5, best + 5e3))
    grid[0, 0].set_ylabel("ELBO (nats): mean and range")
    legend_below(figure, grid[0, :1], 4)
    save(figure, "matrix_factorization_curves")


def topics_curves():
    """Mean differences to SVI with the larger batches, with two standard errors."""
    reference = "SVI, |S|=1000"
    data = {"nyt_bow": "New York Times", "ap_bow": "Associated Press"}
    figure, grid = plt.subplots(1, 2, figsize=(8.4, 3.8))
    for axes, (file, name) in zip(grid, data.items(), strict=True):
        found = results(f"topics_{file}")["curves"]
        paths = {one["method"]: np.array(one["elbo"]) for one in found}
        for method, path in paths.items():
            gain = path - paths[reference][: len(path)]
            mean, at = gain.mean(axis=0), np.arange(1, gain.shape[1] + 1)
            axes.plot(at, mean, label=f"{method}; seeds: {len(gain)}")
            if len(gain) > 1:
                error = 2.0 * gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
                axes.fill_between(at, mean - error, mean + error, alpha=0.2)
        axes.set(title=name, xlabel="pass over the documents")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18))
    grid[0].set_ylabel(f"ELBO less that of {reference} (nats)")
    save(figure, "topics_curves")


# --- regression.py


def regression_splines():
    """RMSE against the true curve by the number of rows."""
    (rows,) = results("regression_splines")["tables"].values()
    n = [row["rows"] for row in rows]
    figure, axes = plt.subplots(figsize=(5.5, 3.6))
    for name in ("ours", "ours, prior_scale=1", "BayesianRidge"):
        values, errors = ([row[key] for row in rows] for key in (name, f"{name} se"))
        axes.errorbar(n, values, errors, label=name.replace("ours", "skboost"))
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="RMSE to the true curve")
    axes.minorticks_off()
    axes.set_xticks(n, n)
    figure.legend(loc="outside upper center", ncols=3)
    save(figure, "regression_splines")


# Pictures by the name of their file in doc/_static.
FIGURES = {
    draw.__name__: draw
    for draw in (
        against_nuts, benchmarks_posteriors, benchmarks_seconds, svi_plus_curves,
        svi_plus_boxes, matrix_factorization_curves, topics_curves, regression_splines,
    )
}  # fmt: skip


def main():
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FIGURES))
    for name in made.parse_args().names or FIGURES:
        FIGURES[name]()


if __name__ == "__main__":
    main()
