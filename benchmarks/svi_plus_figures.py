"""Pictures of the results of ``svi_plus.py``: bounds by epoch, and final bounds.

    python benchmarks/svi_plus_figures.py

Writes ``doc/_static/svi_plus_curves.png`` and ``svi_plus_boxes.png``.
"""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

_ROOT = Path(__file__).resolve().parent.parent
_STARTS = {"random_from_data": "a row each", "random": "random responsibilities"}
_FIVE = {
    "whislo": "least",
    "q1": "first_quartile",
    "med": "median",
    "q3": "third_quartile",
    "whishi": "most",
}


def load(start):
    path = _ROOT / "benchmarks" / "results" / f"svi_plus_{start}.json"
    return json.loads(path.read_text(encoding="utf-8"))["tables"]


def cases(tables):
    """Data sets with numbers of clusters, in the order of the run."""
    end = ": final ELBO, nats"
    return [title.removesuffix(end) for title in tables if title.endswith(end)]


def boxes(axes, tables, case):
    rows = tables[f"{case}: final ELBO, nats"]
    stats = [{key: row[name] for key, name in _FIVE.items()} for row in rows]
    axes.bxp(stats, showfliers=False)
    labels = [row["method"].replace("SVI+ ", "") for row in rows]
    axes.set_xticks(range(1, len(rows) + 1), labels, fontsize=7)


def curves(axes, tables, case):
    for row in tables[f"{case}: mean ELBO by epoch"]:
        points = [(int(k[6:]), v) for k, v in row.items() if k.startswith("epoch")]
        axes.plot(*zip(*points, strict=True), label=row["method"])
    axes.set_xscale("log")
    axes.legend(fontsize=6)


def picture(draw, path):
    tables = {start: load(start) for start in _STARTS}
    names = cases(tables["random"])
    figure, grid = plt.subplots(
        2, len(names), figsize=(3.0 * len(names), 5.2), layout="constrained"
    )
    for line, (start, found) in zip(grid, tables.items(), strict=True):
        for axes, case in zip(line, names, strict=True):
            draw(axes, found, case)
            axes.set_title(f"{case}\n{_STARTS[start]}", fontsize=8)
            axes.tick_params(axis="y", labelsize=7)
        line[0].set_ylabel("ELBO, nats")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    static = _ROOT / "doc" / "_static"
    picture(curves, static / "svi_plus_curves.png")
    picture(boxes, static / "svi_plus_boxes.png")
