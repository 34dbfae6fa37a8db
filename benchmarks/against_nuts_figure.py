"""Picture of ``against_nuts.py``: energy distance over CPU seconds, both methods.

    python benchmarks/against_nuts_figure.py

Writes ``doc/_static/against_nuts.png``.
"""

from _pictures import BLUE, GREEN, VERMILION, plt, results, save
from matplotlib.ticker import NullFormatter, ScalarFormatter

# The axis is linear between minus and plus this, since unbiased distances fall below 0.
LINEAR = 1e-3
MARKERS = {"": "o", "auto": "s", "moments": "^"}


def point(row):
    """Seconds, energy, and its standard error."""
    return row["CPU s"], row["energy"], row["se"] or 0.0


def draw(axes, name, rows):
    nutpie = [point(row) for row in rows if row["method"].startswith("nutpie")]
    x, y, error = zip(*nutpie, strict=True)
    axes.errorbar(x, y, error, color=VERMILION, marker="D", ms=5, lw=1.2,
                  label="nutpie: 300, 600, 2,000 draws")  # fmt: skip
    for start, color in (("one Gaussian", BLUE), ("default", GREEN)):
        for kind, marker in MARKERS.items():
            label = f'{start}, "{kind}"' if kind else start
            row = next((row for row in rows if row["method"] == label), None)
            if row is None:
                continue
            x, y, error = point(row)
            shown = label.replace("default", "default, up to ten")
            axes.errorbar([x], [y], [error], color=color, marker=marker, ms=6, ls="",
                          label=shown)  # fmt: skip
    rival = max(point(row)[1] for row in rows if row["method"].endswith("+ 1000"))
    axes.axhline(rival + 1e-3, color="k", lw=0.8, ls=":",
                 label="2,000 draws of nutpie + 0.001")  # fmt: skip
    axes.set(xscale="log", title=name)
    axes.set_yscale("symlog", linthresh=LINEAR)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())


def main():
    found = {
        title.removesuffix(": energy over seconds"): rows
        for title, rows in results("against_nuts")["tables"].items()
        if title.endswith(": energy over seconds")
        and any(row["method"] == "default" for row in rows)
    }
    n_columns = min(3, len(found))
    n_rows = -(-len(found) // n_columns)
    figure, grid = plt.subplots(
        n_rows, n_columns, figsize=(4.2 * n_columns, 3.4 * n_rows + 0.8),
        squeeze=False,
    )  # fmt: skip
    for axes, (name, rows) in zip(grid.ravel(), found.items(), strict=False):
        draw(axes, name, rows)
    for axes in grid.ravel()[len(found) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("CPU seconds, without compilation")
    for axes in grid[:, 0]:
        axes.set_ylabel("energy distance to long runs\n(units of the coordinates)")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    save(figure, "against_nuts")


if __name__ == "__main__":
    main()
