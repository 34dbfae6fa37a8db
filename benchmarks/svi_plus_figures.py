"""Pictures of the results of ``svi_plus.py``: bounds by epoch, and final bounds.

    python benchmarks/svi_plus_figures.py

Writes ``doc/_static/svi_plus_curves.png`` and ``svi_plus_boxes.png``.
"""

from _pictures import BLUE, GREY, ORANGE, PURPLE, VERMILION, plt, results, save

_STARTS = {
    "random_from_data": "a row for each cluster",
    "random": "random responsibilities",
}
_FIVE = {
    "whislo": "least",
    "q1": "first_quartile",
    "med": "median",
    "q3": "third_quartile",
    "whishi": "most",
}
# Batch inference, SVI, and SVI+ from the least M.
_COLOURS = (GREY, BLUE, VERMILION, ORANGE, PURPLE)


def cases(tables):
    """Data sets with numbers of clusters, in the order of the run."""
    end = ": final ELBO, nats"
    return [title.removesuffix(end) for title in tables if title.endswith(end)]


def boxes(axes, tables, case):
    rows = tables[f"{case}: final ELBO, nats"]
    stats = [{key: row[name] for key, name in _FIVE.items()} for row in rows]
    axes.bxp(stats, showfliers=False, medianprops={"color": VERMILION})
    labels = [row["method"].replace("SVI+ ", "SVI+\n") for row in rows]
    axes.set_xticks(range(1, len(rows) + 1), labels, fontsize=7)


def curves(axes, tables, case):
    rows = tables[f"{case}: mean ELBO by epoch"]
    for row, colour in zip(rows, _COLOURS, strict=False):
        points = [(int(k[6:]), v) for k, v in row.items() if k.startswith("epoch")]
        axes.plot(*zip(*points, strict=True), color=colour, label=row["method"])
    axes.set_xscale("log")
    axes.set_xlabel("epoch")
    axes.legend(fontsize=7)


def picture(draw, name):
    tables = {start: results(f"svi_plus_{start}")["tables"] for start in _STARTS}
    names = cases(tables["random"])
    figure, grid = plt.subplots(2, len(names), figsize=(3.0 * len(names), 5.6))
    for line, (start, found) in zip(grid, tables.items(), strict=True):
        for axes, case in zip(line, names, strict=True):
            draw(axes, found, case)
            axes.set_title(f"{case},\n{_STARTS[start]}", fontsize=8)
            axes.tick_params(axis="y", labelsize=7)
        line[0].set_ylabel("ELBO, nats")
    save(figure, name)


if __name__ == "__main__":
    picture(curves, "svi_plus_curves")
    picture(boxes, "svi_plus_boxes")
