"""Figures of the pages about papers: read from results of benchmarks, or quoted.

``:figure:`p1.gain``` is what ``doc/papers/figures.toml`` says of ``gain`` under ``p1``:
file, part of a table's title, conditions on its rows, column, and format. Several rows
are reduced by a word before the format (``min .3f``). ``:paper:`.794``` marks what
stands in a paper.
"""

import json
import tomllib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
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
    """Whether a row has every value of ``column=value; column=value``."""
    pairs = (one.split("=", 1) for one in conditions.split("; ") if one)
    return all(str(row[name]) == value for name, value in pairs)


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


def add_roles(app):
    """Both roles; what is missing is an error of the build."""
    # Tests read figures without docutils.
    from docutils import nodes

    def figure_role(role, rawtext, text, lineno, inliner, options=None, content=None):
        try:
            return [nodes.Text(figure(text))], []
        except (KeyError, ValueError, OSError) as error:
            said = inliner.reporter.error(f"No figure {text}: {error!r}", line=lineno)
            return [inliner.problematic(rawtext, rawtext, said)], [said]

    def paper_role(role, rawtext, text, lineno, inliner, options=None, content=None):
        return [nodes.Text(text)], []

    app.add_role("figure", figure_role)
    app.add_role("paper", paper_role)
