"""Pictures of the results of ``svi_plus.py``: bounds by epoch, and final bounds.

    python benchmarks/svi_plus_figures.py

Writes ``doc/_static/svi_plus_curves.png`` and ``svi_plus_boxes.png``.
"""

from _pictures import plt, results, save

_STARTS = {
    "random_from_data": "clusters start at rows of the data",
    "random": "clusters start with rows shared at random",
}
_METHODS = ["batch", "SVI", "SVI+ M=10", "SVI+ M=50", "SVI+ M=100", "SVI+ M=150"]
_FIVE = {
    "whislo": "least",
    "q1": "first_quartile",
    "med": "median",
    "q3": "third_quartile",
    "whishi": "most",
}


def load(start):
    return results(f"svi_plus_{start}")["tables"]


def cases(tables):
    """Data sets with numbers of clusters, in the order of the run."""
    end = ": final ELBO, nats"
    return [title.removesuffix(end) for title in tables if title.endswith(end)]


def boxes(axes, tables, case):
    rows = tables[f"{case}: final ELBO, nats"]
    stats = [{key: row[name] for key, name in _FIVE.items()} for row in rows]
    axes.bxp(stats, showfliers=False)
    labels = [row["method"].replace("SVI+ ", "") for row in rows]
    axes.set_xticks(range(1, len(rows) + 1), labels, fontsize=7, rotation=90)


def curves(axes, tables, case):
    """Means by epoch; a method has the same colour in every panel."""
    for row in tables[f"{case}: mean ELBO by epoch"]:
        points = [(int(k[6:]), v) for k, v in row.items() if k.startswith("epoch")]
        method = row["method"]
        color = f"C{_METHODS.index(method)}"
        axes.plot(*zip(*points, strict=True), color=color, label=method)
    axes.set_xscale("log")


def picture(draw, name, xlabel):
    tables = {start: load(start) for start in _STARTS}
    names = cases(tables["random"])
    figure = plt.figure(figsize=(2.9 * len(names), 6.4))
    halves = figure.subfigures(2, 1)
    for half, (start, found) in zip(halves, tables.items(), strict=True):
        half.suptitle(_STARTS[start], fontsize="medium", fontweight="bold")
        line = half.subplots(1, len(names), squeeze=False)[0]
        for axes, case in zip(line, names, strict=True):
            draw(axes, found, case)
            axes.set_title(case)
            axes.set_xlabel(xlabel)
        line[0].set_ylabel("ELBO (nats)")
    found = {}
    for half in halves:
        for axes in half.axes:
            handles, labels = axes.get_legend_handles_labels()
            found |= dict(zip(labels, handles, strict=True))
    if found:
        shown = [method for method in _METHODS if method in found]
        handles = [found[method] for method in shown]
        figure.legend(handles, shown, loc="outside lower center", ncols=6)
    save(figure, name)


if __name__ == "__main__":
    picture(curves, "svi_plus_curves", "epoch")
    picture(boxes, "svi_plus_boxes", "")
