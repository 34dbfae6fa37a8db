"""Figures of the pages about papers: read from results of benchmarks, or quoted.

``:figure:`p1.gain``` is what ``doc/papers/figures.toml`` says of ``gain`` under ``p1``:
file, part of a table's title, conditions on its rows, column, and format. Several rows
are reduced by a word before the format (``min .3f``). ``:paper:`.794``` marks what
stands in a paper. ``:results:`p0_grid``` or ``:results:`file <p0_grid>``` links to a
file of results, with the commit that it was measured at, and says where the code under
its script has changed since.
"""

import json
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_ROOT / "benchmarks"))
from _record import age  # noqa: E402

_REDUCED = {"min": min, "max": max, "sum": sum, "count": len}


@cache
def content(file):
    """One file of results."""
    text = (_ROOT / "benchmarks" / "results" / f"{file}.json").read_text("utf-8")
    return json.loads(text)


@cache
def definitions():
    """What every figure is, by page and name."""
    text = (_ROOT / "doc" / "papers" / "figures.toml").read_text("utf-8")
    return tomllib.loads(text)


def meets(row, conditions):
    """Whether a row has every value of ``column=value; column=value``.

    Tables of one file need not have the same columns.
    """
    pairs = (one.split("=", 1) for one in conditions.split("; ") if one)
    return all(str(row.get(name)) == value for name, value in pairs)


def figure(name):
    """The text of a figure; a KeyError or ValueError says what is missing."""
    page, _, key = name.partition(".")
    file, title, conditions, column, style = definitions()[page][key]
    tables = content(file)["tables"]
    found = [rows for each, rows in tables.items() if each == title] or [
        rows for each, rows in tables.items() if title in each
    ]
    if len(found) != 1:
        raise ValueError(f"{name}: {len(found)} tables of {file} have {title!r}")
    values = [row[column] for row in found[0] if meets(row, conditions)]
    how, _, style = style.rpartition(" ")
    if how:
        values = [_REDUCED[how](values)]
    if len(values) != 1:
        raise ValueError(f"{name}: {len(values)} rows of {file} meet {conditions!r}")
    value = values[0]
    return value if isinstance(value, str) else format(value, style)


def results(text):
    """What a link to a file of results says, its path, and what stands beside it."""
    said, file = re.fullmatch(r"(?:([^<]+) <)?(\w+)>?", text).groups()
    path = f"/../benchmarks/results/{file}.json"
    return said or f"{file}.json", path, f" [{age(content(file))}]"


def add_roles(app):
    """The roles; what is missing is an error of the build."""
    # Tests read figures without docutils.
    from docutils import nodes
    from sphinx.addnodes import download_reference

    def figure_role(role, rawtext, text, lineno, inliner, options=None, content=None):
        try:
            return [nodes.Text(figure(text))], []
        except (KeyError, ValueError, OSError) as error:
            said = inliner.reporter.error(f"No figure {text}: {error!r}", line=lineno)
            return [inliner.problematic(rawtext, rawtext, said)], [said]

    def paper_role(role, rawtext, text, lineno, inliner, options=None, content=None):
        return [nodes.Text(text)], []

    def results_role(role, rawtext, text, lineno, inliner, options=None, content=None):
        said, path, beside = results(text)
        link = download_reference(rawtext, "", nodes.literal("", said), reftarget=path)
        return [link, nodes.Text(beside)], []

    app.add_role("figure", figure_role)
    app.add_role("results", results_role)
    app.add_role("paper", paper_role)
