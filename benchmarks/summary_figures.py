"""The two pictures of the benchmarks page, from the JSON files in ``results/``.

    python benchmarks/summary_figures.py

``benchmarks_posteriors.png``: KL of one Gaussian and of the default fit on fourteen
real posteriors (``posteriordb.json``). ``benchmarks_seconds.png``: KL by CPU seconds
after 1, 3 and 10 iterations on densities whose KL is known (``remaining_kl.json``).
"""

from _pictures import (
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

SHOWN = {
    "funnel, 5-D": VERMILION,
    "funnel, 2-D": ORANGE,
    "Laplace, 5-D": BLUE,
    "Laplace, 3-D": SKY,
    "t3, 4-D": GREEN,
    "t3, 2-D": PURPLE,
}


def posteriors():
    """One line for every posterior, from one Gaussian to the default fit."""
    rows = results("posteriordb")["tables"][
        "posteriordb, median and worst of the seeds"
    ]
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


def seconds():
    """KL against CPU seconds, one line for every density."""
    tables = results("remaining_kl")["tables"]
    rows = [row for found in tables.values() for row in found]
    figure, axes = plt.subplots(figsize=(6.4, 3.8))
    ends = []
    for name, colour in SHOWN.items():
        runs = sorted(
            (row for row in rows if row["density"] == name),
            key=lambda row: row["max_iter"],
        )
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


if __name__ == "__main__":
    posteriors()
    seconds()
