"""Tables of the documentation's benchmarks from the JSON files in ``results/``.

    python benchmarks/to_rst.py

Writes one ``doc/benchmarks/NAME.inc`` per result, which the pages of ``doc/benchmarks``
and ``doc/papers`` include, ``missed.inc`` with every target that is not met, and
``counts.inc`` with how many there are, and ``lost.inc`` with the commits that results
name and that the repository no longer has.
"""

import argparse
import json
import subprocess
from collections import Counter
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
# More than a page of rows or tables is for the file, not for the reader.
MOST_ROWS, MOST_TABLES = 21, 8
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
        f":download:`{name}.json </../benchmarks/results/{name}.json>`, measured on "
        f"{content['date']} at commit {content['commit']}"
        + ("" if in_history(content["commit"]) else " (see :ref:`lost-commits`)")
        + f", {content['machine']}; "
        + ", ".join(f"{k} {v}" for k, v in with_versions.items())
        + ". Settings: "
        + (", ".join(f"{k} {v}" for k, v in settings.items()) or "none")
        + ".\n"
    )


def in_history(commit):
    """Whether the repository still has a commit."""
    asked = ["git", "cat-file", "-e", f"{commit.rstrip('+')}^{{commit}}"]
    return subprocess.run(asked, cwd=_ROOT, capture_output=True).returncode == 0


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


def missed_page(contents):
    """Every target that is not met, in one table."""
    rows = [
        {**bar, "name": name}
        for name, content in contents.items()
        for bar in content["bars"]
        if met(bar) != "met"
    ]
    return targets_table("Targets that are not met", rows, benchmark="name")


def counts_page(contents):
    """One sentence: how many targets there are, and how many of them are met."""
    found = Counter(met(bar) for c in contents.values() for bar in c["bars"])
    return (
        f"Of {sum(found.values())} targets {found['met']} are met, "
        f"{found['missed']} are missed, and {found['undecided']} are undecided: missed "
        "by less than two standard errors.\n"
    )


def lost_page(contents):
    """The commits that are named in files and no longer in the repository."""
    found = {content["commit"] for content in contents.values()}
    lost = sorted(commit for commit in found if not in_history(commit))
    return ", ".join(f"``{commit}``" for commit in lost) + ".\n"


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
    pages = {name: page(name, content) for name, content in contents.items()}
    pages |= {
        "missed": missed_page(contents),
        "counts": counts_page(contents),
        "lost": lost_page(contents),
    }
    for name, text in pages.items():
        (args.out / f"{name}.inc").write_text(text, encoding="utf-8")
    print(counts_page(contents))


if __name__ == "__main__":
    main()
