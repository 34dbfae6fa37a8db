"""Tables of the documentation from the JSON files in ``results/``.

    python benchmarks/to_rst.py

Writes ``doc/benchmarks/NAME.inc`` for every result that a page includes, with all of
its tables, and those of few rows, which are summaries; and the table of scripts in
``README.md``. Targets that are not met are printed.
"""

import argparse
import ast
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
from _record import age

_ROOT = Path(__file__).resolve().parent.parent
# More than a page of rows or tables is for the file, not for the reader.
MOST_ROWS, MOST_TABLES = 24, 8
SIGN = {"<=": "at most", ">=": "at least"}


def cell(value):
    """A number with four digits, or what else there is."""
    if value is None or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value != 0 and abs(value) < 1e-3:
            return f"{value:.1e}"
        if abs(value) >= 1e5:
            return f"{value:,.0f}"
        return f"{value:.6g}" if abs(value) >= 100 else f"{value:.4g}"
    if isinstance(value, list):
        return " ".join(str(v) for v in value)
    # Arguments of a call keep their straight quotes.
    called = re.match(r"\w+=", str(value))
    return f"``{value}``" if called else escaped(str(value))


def escaped(text):
    """Bars stand for substitutions in reStructuredText."""
    return text.replace("|", r"\|")


def list_table(title, rows):
    """One list-table directive."""
    names = list(rows[0])
    lines = [f".. list-table:: {escaped(title)}", "   :header-rows: 1", ""]
    for row in (
        [escaped(n) for n in names],
        *([cell(row.get(name)) for name in names] for row in rows),
    ):
        for k, text in enumerate(row):
            lines.append(f"   {'* -' if k == 0 else '  -'} {text}")
    return "\n".join(lines) + "\n"


def met(bar):
    """ "met", "undecided" (by less than two standard errors) or "missed"."""
    return bar.get("verdict", "met" if bar["met"] else "missed")


def targets_table(title, bars, **columns):
    """The targets as rows: figure, what was required; met, undecided or missed."""
    return list_table(
        title,
        [
            {
                **{name: bar[key] for name, key in columns.items()},
                "target": bar["bar"],
                "figure": bar["value"],
                "required": f"{SIGN[bar['relation']]} {cell(float(bar['bound']))}",
                "": _emphasised(met(bar)),
            }
            for bar in bars
        ],
    )


def _emphasised(verdict):
    return "**missed**" if verdict == "missed" else verdict


def targets(bars):
    """All targets where they are few, else those that are not met."""
    if not bars:
        return []
    open_ = [bar for bar in bars if met(bar) != "met"]
    said = f"{len(bars) - len(open_)} of {len(bars)} targets are met"
    if len(bars) <= MOST_ROWS:
        return [targets_table(f"Targets: {said}", bars)]
    if not open_:
        return [f"All {len(bars)} targets are met; they are in the file.\n"]
    return [targets_table(f"Targets that are not met ({said})", open_)]


def stamp(name, content):
    """Where and with what this was measured, and the file with all of it."""
    with_versions = {k: v for k, v in content["versions"].items() if v}
    settings = {
        k: v
        for k, v in content["settings"].items()
        if v is not None and k not in ("resume", "name")
    }
    return (
        f":results:`{name}`, measured on {content['date']}, {content['machine']}; "
        + ", ".join(f"{k} {v}" for k, v in with_versions.items())
        + ". Settings: "
        + (", ".join(f"{k} {v}" for k, v in settings.items()) or "none")
        + ".\n"
    )


def page(name, content):
    """What one result has to say; long tables are in its file alone."""
    parts = [stamp(name, content)]
    parts += [
        f"Not run: {item['what']} ({item['why']}).\n" for item in content["not_run"]
    ]
    parts += targets(content["bars"])
    short = {t: r for t, r in content["tables"].items() if len(r) <= MOST_ROWS}
    if len(short) > MOST_TABLES:
        short = {}
    parts += [list_table(title, rows) for title, rows in short.items()]
    left = len(content["tables"]) - len(short)
    if left:
        parts.append(
            f"{left} further {'table is' if left == 1 else 'tables are'} in the file.\n"
        )
    return "\n".join(parts)


# --- few rows: means, and the losses of every set

KINDS = {
    "log loss": (
        "classes",
        ["LR", "LRCV", "fixed", "average", "default", "sharpened"],
    ),
    "regression": ("numbers", ["BayesianRidge", "ARD", "fixed", "default"]),
}
SIZES = (20, 60, 200)
FEW_ROWS = "\n:results:`few_rows_tune`, :results:`few_rows_judge`.\n"
CALLED = {
    "LR": "LogisticRegression", "LRCV": "LogisticRegressionCV", "ARD": "ARDRegression",
    "fixed": "skboost, fixed scale", "default": "skboost, default",
    "average": "skboost, average",
    "sharpened": "skboost, sharpened",
}  # fmt: skip


def few_rows(contents):
    """Rows of both halves, by table."""
    return {
        table: [
            row
            for half in ("tune", "judge")
            for row in contents[f"few_rows_{half}"]["tables"].get(table, [])
        ]
        for table in (*KINDS, "ten digits")
    }


def measured(rows, models):
    """Those of the models that these rows are about."""
    known = {row["model"] for row in rows}
    return [model for model in models if model in known]


def few_rows_means(found):
    """Mean loss by size, coverage and seconds of every model; the best is bold."""
    made = []
    for table, (kind, models) in KINDS.items():
        rows, lines = found[table], {}
        for model in measured(rows, models):
            of_model = [row for row in rows if row["model"] == model]
            lines[model] = [
                np.mean([row["loss"] for row in of_model if row["rows"] == size])
                for size in SIZES
            ]
        best = np.min(list(lines.values()), axis=0)
        for model, means in lines.items():
            of_model = [row for row in rows if row["model"] == model]
            covered = [row["coverage"] for row in of_model if "coverage" in row]
            made.append(
                {"": kind, "model": CALLED.get(model, model)}
                | {
                    f"{size} rows": marked(mean, mean < least + 5e-4)
                    for size, mean, least in zip(SIZES, means, best, strict=True)
                }
                | {
                    "90 % hold": f"{100 * np.mean(covered):.0f} %" if covered else "–",
                    "CPU s": f"{np.median([row['seconds'] for row in of_model]):.3f}",
                }
            )
    title = (
        "Means over data sets. Classes: log loss in nats; numbers: root mean squared "
        "error in standard deviations of the response. Lower is better"
    )
    return list_table(title, made) + FEW_ROWS


def few_rows_sets(found):
    """Losses of every set and size; the best of a line is bold."""
    parts = []
    for table, (_, models) in KINDS.items():
        rows, lines = found[table], []
        models = measured(rows, models)
        for name, size in dict.fromkeys((row["set"], row["rows"]) for row in rows):
            losses = [
                row["loss"]
                for model in models
                for row in rows
                if (row["set"], row["rows"], row["model"]) == (name, size, model)
            ]
            cells = [marked(loss, loss < min(losses) + 5e-4) for loss in losses]
            lines.append(
                {"data": name, "rows": size}
                | dict(zip([CALLED.get(m, m) for m in models], cells, strict=True))
            )
        what = "Log loss, nats" if table == "log loss" else "RMSE, standard deviations"
        parts.append(list_table(what, lines))
    if found["ten digits"]:
        what = "Ten digits, log loss, nats, and CPU seconds of a fit"
        parts.append(list_table(what, found["ten digits"]))
    return "\n".join(parts) + FEW_ROWS


def marked(value, bold):
    """A number with three decimals, bold if it is among the best."""
    return f"**{value:.3f}**" if bold else f"{value:.3f}"


# --- the page of this folder

_MARKS = "<!-- scripts: written by to_rst.py -->\n", "<!-- end -->"


def scripts_table(contents):
    """What every script asks, its results with their commits, and its targets."""
    lines = [
        "| script | asks | results | met, open, missed |",
        "| --- | --- | --- | --- |",
    ]
    by_script = {}
    for name, content in contents.items():
        by_script.setdefault(content.get("script"), {})[name] = content
    for script in sorted(filter(None, by_script)):
        text = (_ROOT / "benchmarks" / f"{script}.py").read_text("utf-8")
        asks = ast.get_docstring(ast.parse(text)).split("\n\n")[0]
        own = by_script[script]
        files = "; ".join(f"`{name}` ({age(one)})" for name, one in own.items())
        found = Counter(met(bar) for one in own.values() for bar in one["bars"])
        counts = ", ".join(str(found[v]) for v in ("met", "undecided", "missed"))
        asks = asks.replace("\n", " ").replace("``", "`")
        lines.append(f"| `{script}` | {asks} | {files} | {counts if found else ''} |")
    return "\n".join(lines) + "\n"


def with_table(text, table):
    """The page with the table between its marks."""
    before, rest = text.split(_MARKS[0])
    return before + _MARKS[0] + table + _MARKS[1] + rest.split(_MARKS[1], 1)[1]


def included(doc):
    """Names of the results that pages include."""
    found = set()
    for path in doc.rglob("*.rst"):
        found |= set(re.findall(r"include:: .*?(\w+)\.inc", path.read_text("utf-8")))
    return found


def main():
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--results", type=Path, default=_ROOT / "benchmarks" / "results")
    made.add_argument("--out", type=Path, default=_ROOT / "doc" / "benchmarks")
    args = made.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    contents = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(args.results.glob("*.json"))
    }
    wanted = included(args.out.parent)
    pages = {name: page(name, contents[name]) for name in wanted & set(contents)}
    found = few_rows(contents)
    pages |= {
        "few_rows_means": few_rows_means(found),
        "few_rows_sets": few_rows_sets(found),
    }
    for name, text in pages.items():
        (args.out / f"{name}.inc").write_text(text, encoding="utf-8")
    readme = _ROOT / "benchmarks" / "README.md"
    said = with_table(readme.read_text("utf-8"), scripts_table(contents))
    readme.write_text(said, encoding="utf-8")
    bars = [
        (name, bar) for name, content in contents.items() for bar in content["bars"]
    ]
    print(dict(Counter(met(bar) for _, bar in bars)))
    for name, bar in bars:
        if met(bar) != "met":
            print(f"{met(bar)}: {name}: {bar['bar']}: {cell(bar['value'])}")


if __name__ == "__main__":
    main()
