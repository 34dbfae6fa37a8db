"""What an interactive session shows that runs a block of Python of a page."""

import ast
import contextlib
import io
import re
import textwrap
import warnings

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

# Longer output is cut: a page shows what to expect, and not all of it.
MAX_LINES = 24
_WIDTH = 88
# Numbers with more digits than anyone reads.
_LONG = re.compile(r"-?\d+\.\d{5,}(?:e[-+]\d+)?")


def session(code, namespace):
    """What a session shows that runs the code statement by statement."""
    lines, shown, done = code.strip().splitlines(), [], 0
    for statement in ast.parse(code.strip()).body:
        before = lines[done : statement.lineno - 1]
        shown += [f">>> {line}" if line else "" for line in before]
        first, *rest = lines[statement.lineno - 1 : statement.end_lineno]
        shown += [f">>> {first}", *(f"... {line}".rstrip() for line in rest)]
        shown += _cut(_said(statement, namespace))
        done = statement.end_lineno
    return "\n".join([*shown, *(f">>> {line}" for line in lines[done:])])


def _said(statement, namespace):
    """Lines that a statement prints, and the value of an expression."""
    is_value = isinstance(statement, ast.Expr)
    tree = (ast.Expression if is_value else ast.Module)(
        *((statement.value,) if is_value else ([statement], []))
    )
    run = compile(tree, "<page>", "eval" if is_value else "exec")
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        warnings.catch_warnings(),
        # Numbers of NumPy are shown as numbers, without their type.
        np.printoptions(precision=4, threshold=60, edgeitems=2, legacy="1.25"),
        pd.option_context("display.precision", 4, "display.width", _WIDTH),
        pd.option_context("display.max_columns", None, "display.max_rows", 10),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        value = eval(run, namespace)
        if value is not None and not _is_picture(value):
            print(_readable(value))
    return printed.getvalue().splitlines()


def _readable(value):
    text = repr(value)
    if isinstance(value, (pd.DataFrame, pd.Series)):
        return text
    return _LONG.sub(lambda number: f"{float(number[0]):.4g}", text)


def _is_picture(value):
    """Whether a value is matplotlib's, or what draws with it."""
    return type(value).__module__.startswith("matplotlib") or hasattr(value, "figure_")


def _cut(lines):
    """At most `MAX_LINES`, of 88 characters."""
    wrapped = [textwrap.wrap(line, _WIDTH, drop_whitespace=False) for line in lines]
    lines = [part for parts in wrapped for part in parts or [""]]
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[: MAX_LINES - 1], f"[{len(lines) - MAX_LINES + 1} more lines]"]
