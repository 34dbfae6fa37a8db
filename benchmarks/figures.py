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
from _record import fingerprint

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
    """The content of ``NAME.json``, and its name as ``"file"``."""
    text = (folder / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text) | {"file": name}


def save(figure, name, *contents):
    """Write ``doc/_static/NAME.png``, which says of what results it is a picture."""
    drawn = {content["file"]: fingerprint(content) for content in contents}
    path = STATIC / f"{name}.png"
    figure.savefig(path, metadata={"Results": json.dumps(drawn)})
    plt.close(figure)


def legend_below(figure, panels, ncols, last=()):
    """One legend for all panels, below them; the labels in `last` stand last."""
    found = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    found |= {label: found.pop(label) for label in last if label in found}
    figure.legend(found.values(), found, loc="outside lower center", ncols=ncols)


# --- pages of the benchmarks


def few_rows():
    """Loss less that of the usual rival, a dot for every data set and size."""
    from to_rst import KINDS

    figure, grid = plt.subplots(1, 2, figsize=(8.4, 6.4))
    usual = {"log loss": "LRCV", "regression": "BayesianRidge"}
    shown = {"fixed": ORANGE, "default": BLUE}
    labels = {"fixed": "fixed scale", "default": "default"}
    halves = [results(f"few_rows_{half}") for half in ("tune", "judge")]
    for axes, table in zip(grid, KINDS, strict=True):
        rows = [row for half in halves for row in half["tables"][table]]
        loss = {(row["set"], row["rows"], row["model"]): row["loss"] for row in rows}
        cases = list(dict.fromkeys((row["set"], row["rows"]) for row in rows))
        for model, color in shown.items():
            gaps = [
                loss[(*case, model)] - loss[(*case, usual[table])] for case in cases
            ]
            axes.plot(gaps, range(len(cases)), "o", color=color, label=labels[model])
        axes.axvline(0.0, color=GREY, linestyle=":")
        axes.set_yticks(range(len(cases)), [f"{name}, {n}" for name, n in cases])
        axes.invert_yaxis()
    # With 20 rows fixed scales lie far out; near zero the axis is linear.
    grid[1].set_xscale("symlog", linthresh=0.02)
    ticks = [-0.02, 0, 0.02, 0.1, 0.5]
    grid[1].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    grid[0].set(xlabel="nats behind LogisticRegressionCV", title="classes: log loss")
    grid[1].set(
        xlabel="behind BayesianRidge (linear within 0.02)", title="numbers: RMSE"
    )
    legend_below(figure, grid[:1], 2)
    save(figure, "few_rows", *halves)


def by_rows(name, file, lines, ylabel):
    """Columns of a file's first table by number of rows: label, colour and marker."""
    content = results(file)
    rows, *_ = content["tables"].values()
    figure, axes = plt.subplots(figsize=(6.4, 3.2))
    for column, (label, color, marker) in lines.items():
        n, values = ([row[key] for row in rows] for key in ("rows", column))
        axes.plot(n, values, f"{marker}-", color=color, label=label)
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel=ylabel)
    figure.legend(loc="outside upper center", ncols=2)
    save(figure, name, content)


def many_rows():
    """Seconds of the default fit and of a point estimate by the number of rows."""
    lines = {
        "CPU s": ("skboost", BLUE, "o"),
        "LogisticRegression, CPU s": ("LogisticRegression", ORANGE, "s"),
    }
    by_rows("many_rows", "many_rows", lines, "CPU seconds of a fit")


def rows_in_a_file():
    """Memory of a fit beside the size of its file."""
    lines = {
        "data MB": ("file", ORANGE, "s"),
        "peak MB": ("memory that the fit allocates", BLUE, "o"),
    }
    by_rows("rows_in_a_file", "out_of_core", lines, "megabytes")


def differences(axes, series):
    """Dots with two standard errors: label to case to (difference, error)."""
    cases = list(dict.fromkeys(case for found in series.values() for case in found))
    colors = zip(series.items(), (ORANGE, BLUE), strict=True)
    for shift, ((label, found), color) in enumerate(colors):
        places = [cases.index(case) + 0.24 * shift - 0.12 for case in found]
        values, errors = zip(*found.values(), strict=True)
        axes.errorbar(values, places, xerr=errors, fmt="o", color=color, label=label)
    axes.axvline(0.0, color=GREY, linestyle=":")
    axes.set_yticks(range(len(cases)), cases)
    axes.invert_yaxis()
    axes.figure.legend(loc="outside upper center", ncols=2)


def held_out_mixtures():
    """Held-out log density of mixtures by default less that of GaussianMixture."""
    content = results("mixtures")
    rows = content["tables"]["held-out nats a row"]
    labels = {
        "boosted": ("BoostedGaussianMixture", ORANGE),
        "auto": ('BoostedGaussianMixture("auto")', BLUE),
        "Bayesian": ("BayesianGaussianMixture", GREY),
    }
    figure, axes = plt.subplots(figsize=(6.8, 4.2))
    for shift, (name, (label, color)) in enumerate(labels.items()):
        ahead = [row[name] - row["GaussianMixture"] for row in rows]
        places = np.arange(len(rows)) + 0.2 * (shift - 1)
        axes.plot(ahead, places, "o", color=color, label=label)
    axes.axvline(0.0, color=GREY, linestyle=":")
    cases = [row["data"].replace(", ", ", K = ") for row in rows]
    axes.set_yticks(range(len(rows)), cases)
    axes.invert_yaxis()
    axes.set_xscale("symlog", linthresh=0.1)
    ticks = [-1, -0.1, 0, 0.1, 1, 10]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("nats a held-out row ahead of GaussianMixture (linear within 0.1)")
    figure.legend(loc="outside upper center", ncols=3)
    save(figure, "held_out_mixtures", content)


def topics_perplexity():
    """Perplexity of held-out halves over seconds, by method."""
    data = {"ap_bow": "Associated Press", "nyt_bow": "New York Times"}
    contents = {file: results(f"topics_{file}") for file in data}
    figure, grid = plt.subplots(1, 2, figsize=(8.0, 3.4))
    styles = {
        "SVI": (BLUE, "o", "skboost"),
        "scikit-learn online": (ORANGE, "s", "scikit-learn, online"),
        "scikit-learn batch": (VERMILION, "^", "scikit-learn, batch"),
    }
    for axes, (file, name) in zip(grid, data.items(), strict=True):
        rows = contents[file]["tables"][
            f"{file}: held-out document completion, mean over seeds"
        ]
        for method, (color, marker, label) in styles.items():
            mine = [row for row in rows if row["method"] == method]
            x, y = ([row[key] for row in mine] for key in ("cpu_s", "perplexity"))
            axes.plot(x, y, marker=marker, color=color, label=label)
            for row in mine:
                axes.annotate(
                    f"{row['passes']} passes",
                    (row["cpu_s"], row["perplexity"]),
                    xytext=(4, 6),
                    textcoords="offset points",
                    fontsize=7,
                )
        axes.set(title=name, xlabel="CPU seconds", xscale="log")
        axes.set_xticks([2, 5, 10, 20, 50, 100])
        axes.margins(x=0.25, y=0.2)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
    grid[0].set_ylabel("perplexity, lower is better")
    legend_below(figure, grid[:1], 3)
    save(figure, "topics_perplexity", *contents.values())


def streams():
    """Loss a row less that of SGD at its best rate, by stream."""
    tables = {
        "default rate": ("online_streams", "average cumulative log loss"),
        "best rate in hindsight": ("online_hindsight", "at the best rate in hindsight"),
    }
    contents = {file: results(file) for file, _ in tables.values()}
    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    series = {
        label: {
            row["stream"]: (row["minus SGD"], 2.0 * row["se of it"])
            for row in contents[file]["tables"][table]
            if row["method"] == "NGVI"
        }
        for label, (file, table) in tables.items()
    }
    differences(axes, series)
    axes.set_xlabel("nats a row behind SGD with the best of 24 rates")
    save(figure, "streams", *contents.values())


def dear_densities():
    """Evaluations that a surrogate asks for, with and without a gradient."""
    content = results("dear_densities")
    tables = content["tables"]
    rows = [row for row in tables["tuned"] + tables["judged"] if row["converged"]]
    names = list(dict.fromkeys(row["density"] for row in rows))
    figure, axes = plt.subplots(figsize=(6.4, 4.0))
    for gradient, color, label in (
        (True, BLUE, "with a gradient"),
        (False, ORANGE, "values alone"),
    ):
        mine = {row["density"]: row for row in rows if row["gradient"] == gradient}
        axes.plot(
            [mine[name]["evaluations"] for name in names],
            range(len(names)),
            "o",
            color=color,
            label=label,
        )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlim=(0, None), xlabel="evaluations of the density until the fit ends")
    figure.legend(loc="outside upper center", ncols=2)
    save(figure, "dear_densities", content)


def orbit_curves():
    """KL against seconds: components, orbits, both, and how long nutpie takes."""
    content = results("orbit_curves")
    tables = dict(content["tables"])
    nutpie = {row["target"]: row["CPU s"] for row in tables.pop("nutpie", [])}
    figure, grid = plt.subplots(2, 2, figsize=(8.4, 6.4))
    for axes, (name, rows) in zip(grid.flat, tables.items(), strict=True):
        for kind, color, label in (
            ("components", VERMILION, "1 to 8 iterations, no orbits"),
            ("orbits", BLUE, "one Gaussian, orbits of 1 to 128"),
            ("both", GREEN, "1 to 8 iterations, orbits of 64"),
        ):
            mine = [row for row in rows if row["kind"] == kind]
            seconds, kl = ([row[key] for row in mine] for key in ("CPU s", "KL"))
            axes.plot(seconds, np.maximum(kl, 1e-3), "o-", color=color, label=label)
        (default,) = (row for row in rows if row["kind"] == "default")
        axes.plot(
            default["CPU s"], default["KL"], "*", ms=13, color="black", label="default"
        )
        if name in nutpie:
            axes.axvline(
                nutpie[name], ls=":", color=GREY, label="2,000 draws by nutpie"
            )
        axes.set(xscale="log", yscale="log", title=name)
        axes.xaxis.set_minor_formatter(NullFormatter())
    for axes in grid[1]:
        axes.set_xlabel("CPU seconds of a fit and 1,000 draws")
    for axes in grid[:, 0]:
        axes.set_ylabel("KL (nats)")
    legend_below(figure, grid.flat, 3)
    save(figure, "orbit_curves", content)


# --- svi_plus.py: bounds by epoch

METHODS = ["batch", "SVI", "SVI+ M=10", "SVI+ M=50", "SVI+ M=100", "SVI+ M=150"]


def svi_plus_curves():
    """Means by epoch, two data sets by two ways to start."""
    starts = {"random_from_data": "rows of the data", "random": "random shares"}
    contents = {start: results(f"svi_plus_{start}") for start in starts}
    figure, grid = plt.subplots(2, 2, figsize=(7.6, 5.8))
    for line, (start, words) in zip(grid, starts.items(), strict=True):
        tables = contents[start]["tables"]
        for axes, data in zip(line, ("synthetic", "pima"), strict=True):
            for row in tables[f"{data}, 2 clusters: mean ELBO by epoch"]:
                named = [(int(k[6:]), v) for k, v in row.items() if "epoch" in k]
                color = f"C{METHODS.index(row['method'])}"
                axes.plot(*zip(*named, strict=True), color=color, label=row["method"])
            axes.set(xscale="log", xlabel="epoch", title=f"{data}, from {words}")
        line[0].set_ylabel("mean ELBO (nats)")
    legend_below(figure, figure.axes, 6, last=METHODS)
    save(figure, "svi_plus_curves", *contents.values())


# --- matrix_factorization.py and topics.py: bounds by epoch


def matrix_factorization_curves():
    """Mean and range over all starts."""
    content = results("matrix_factorization_curves_1m")
    curves = content["curves"]
    cases = list(dict.fromkeys(curve["case"] for curve in curves))
    size = (4.0 * len(cases), 3.6)
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
        axes.set(title=case, xlabel="epoch", ylim=(best - 4e5, best + 2e4))
    grid[0, 0].set_ylabel("ELBO (nats): mean and range")
    legend_below(figure, grid[0, :1], 4)
    save(figure, "matrix_factorization_curves", content)


def topics_curves():
    """Mean differences to SVI with the larger batches, with two standard errors."""
    reference = "SVI, |S|=1000"
    data = {"nyt_bow": "New York Times", "ap_bow": "Associated Press"}
    contents = {file: results(f"topics_{file}") for file in data}
    figure, grid = plt.subplots(1, 2, figsize=(8.4, 3.8))
    for axes, (file, name) in zip(grid, data.items(), strict=True):
        found = contents[file]["curves"]
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
    save(figure, "topics_curves", *contents.values())


# Pictures by the name of their file in doc/_static.
FIGURES = {
    draw.__name__: draw
    for draw in (
        few_rows, many_rows, rows_in_a_file, held_out_mixtures, topics_perplexity,
        streams,
        dear_densities, orbit_curves, svi_plus_curves, matrix_factorization_curves,
        topics_curves,
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
