"""Tables of ``doc/benchmarks.rst`` from the JSON files in ``results/``.

    python benchmarks/to_rst.py

Writes one ``doc/benchmarks/NAME.inc`` per result; the page includes them.
"""

import argparse
import json
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
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
    return escaped(str(value))


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


def bars_table(bars):
    """The targets as rows: figure, what was required; met, undecided or missed."""
    return [
        {
            "target": bar["bar"],
            "figure": bar["value"],
            "required": f"{SIGN[bar['relation']]} {cell(float(bar['bound']))}",
            "": _emphasised(bar.get("verdict", "met" if bar["met"] else "missed")),
        }
        for bar in bars
    ]


def _emphasised(verdict):
    return "**missed**" if verdict == "missed" else verdict


def page(content):
    """Everything that one result has to say."""
    with_versions = {k: v for k, v in content["versions"].items() if v}
    parts = [
        f"Run on {content['date']}, {content['machine']}, commit {content['commit']}; "
        + ", ".join(f"{k} {v}" for k, v in with_versions.items())
        + ". Settings: "
        + (", ".join(f"{k} {v}" for k, v in content["settings"].items()) or "none")
        + ".\n"
    ]
    parts += [
        f"Not run: {item['what']} ({item['why']}).\n" for item in content["not_run"]
    ]
    if content["bars"]:
        parts.append(list_table("Targets", bars_table(content["bars"])))
    parts += [list_table(title, rows) for title, rows in content["tables"].items()]
    return "\n".join(parts)


def main():
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--results", type=Path, default=_ROOT / "benchmarks" / "results")
    made.add_argument("--out", type=Path, default=_ROOT / "doc" / "benchmarks")
    args = made.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(args.results.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        (args.out / f"{path.stem}.inc").write_text(page(content), encoding="utf-8")
        print(
            path.stem, sum(not bar["met"] for bar in content["bars"]), "targets missed"
        )


if __name__ == "__main__":
    main()
