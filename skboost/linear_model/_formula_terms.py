"""What parts of a formula may be, and how formulaic is told of them.

Formulas are columns, numbers, signs and calls of the functions that are listed here.
What formulaic reads is written anew from these, with names of our own in place of those
of columns: no text of a user is ever evaluated.
"""

import ast
from typing import NamedTuple

import numpy as np

from skboost.linear_model._formula_reader import (
    Node,
    columns_of,
    refused,
    shown,
    sides,
    with_names,
)

# Functions of every row alone.
ROW_FUNCTIONS = {
    **{name: getattr(np, name) for name in (
        "log", "log10", "log2", "log1p", "exp", "exp2", "expm1", "sqrt", "abs", "sign",
        "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
        "arctanh", "floor", "ceil", "round",
    )},
    "ceiling": np.ceil, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
}  # fmt: skip
# Those of formulaic that look at all rows of the fit and remember what they saw, and
# two that say how a column is meant. R has other names for some.
_OF_COLUMNS = {name: name for name in (
    "I", "C", "bs", "cr", "cs", "cc", "poly", "scale", "center", "standardize",
)} | {"factor": "C", "as.factor": "C"}  # fmt: skip
_CONTRASTS = (
    "Treatment", "Sum", "Helmert", "Poly", "Diff", "contr.treatment", "contr.sum",
    "contr.helmert", "contr.poly", "contr.diff", "contr.SAS",
)  # fmt: skip
_WORDS = {"True": "True", "TRUE": "True", "False": "False", "FALSE": "False"}
_WORDS |= {"None": "None", "NULL": "None"}
FUNCTIONS = "I, C, factor, bs, cr, cs, cc, poly, scale, center, standardize, offset, "
FUNCTIONS += "Q, " + ", ".join(ROW_FUNCTIONS)

# Bounds: parts of one calculation, terms that a formula stands for, numbers that are
# arguments.
_LONGEST, _MOST_TERMS, _LARGEST = 200, 10_000, 1000


class Parsed(NamedTuple):
    """Sides of a formula: the response or None; summands with their signs, without
    those of groups; pairs of effects and columns of groups; offsets.
    """

    left: Node | None
    summands: tuple
    groups: tuple
    offsets: tuple


def parsed(formula):
    """The sides of a formula, all of whose parts are known to mean something."""
    left, right = sides(formula)
    if left is not None:
        _check_left(left, formula)
    signs, parts = summands_of(right)
    summands, groups, offsets = [], [], []
    for sign, part in zip(signs, parts, strict=True):
        own = part.kind == "group" or _is_call(part, "offset")
        if own and sign == "-":
            raise refused(formula, f"{shown(part)} cannot be taken away")
        if part.kind == "group":
            _check_terms(part.parts[0], formula)
            groups.append(part)
        elif own:
            if len(part.parts) != 1 or part.names:
                raise refused(formula, "offset must have one column or calculation")
            _check_row(part.parts[0], formula)
            offsets.append(part.parts[0])
        else:
            _check_terms(part, formula)
            summands.append((sign, part))
    return Parsed(left, tuple(summands), tuple(groups), tuple(offsets))


def summands_of(node):
    """Signs and parts of a sum, also of sums that are added in parentheses.

    What is taken away in parentheses is taken from their own terms alone.
    """
    if node.kind != "sum":
        return "+", (node,)
    signs, parts = "", ()
    for sign, part in zip(node.value, node.parts, strict=True):
        whole = sign == "-" or "-" in part.value
        inner = (sign, (part,)) if whole else summands_of(part)
        signs, parts = signs + inner[0], parts + inner[1]
    return signs, parts


# --- what means something


def _is_call(node, function):
    return node.kind == "call" and node.value == function


def _check_left(node, formula):
    if not _is_call(node, "cbind"):
        return _check_row(node, formula)
    if len(node.parts) != 2 or node.names:
        raise refused(formula, "cbind must have the columns of successes and failures")
    for part in node.parts:
        _check_row(part, formula)
    return None


def _check_terms(node, formula):
    """Refuse what is no sum of terms, such as numbers, or groups within a term."""
    for part in node.parts if node.kind == "sum" else (node,):
        if part.kind != "number":
            _n_terms(part, formula)
        elif part.value not in ("0", "1"):
            raise refused(
                formula,
                f"{part.value} is no term; I({part.value} * x) is a calculation",
            )


def _n_terms(node, formula):
    """How many terms a part stands for, at most; a ValueError for what is none."""
    if node.kind == "column":
        return 1
    if node.kind == "call":
        _check_call(node, formula)
        return 1
    if node.kind == "power":
        return _of_power(*node.parts, formula)
    if node.kind not in ("sum", "product", "cross"):
        raise refused(
            formula,
            f"{shown(node)} is no term"
            + ". Terms of groups are added to others" * (node.kind == "group"),
        )
    if node.value == "-":
        raise refused(formula, f"{shown(node)} is taken away within a term")
    counts = [_n_terms(part, formula) for part in node.parts]
    return _bounded(sum(counts) if node.kind == "sum" else _of_product(counts), formula)


def _of_product(counts):
    total = 0
    for count in counts:
        total = min(total + count + total * count, _MOST_TERMS + 1)
    return total


def _of_power(base, exponent, formula):
    text = shown(Node("power", "^", (base, exponent)))
    if base.kind not in ("sum", "product"):
        raise refused(
            formula,
            f"{text} is {shown(base)} alone in a formula. I({text}) is the power",
        )
    if exponent.kind != "number" or exponent.value not in [*"23456789"]:
        raise refused(formula, f"the power of {text} must be a number from 2 to 9")
    return _bounded(_n_terms(base, formula) ** int(exponent.value), formula)


def _bounded(count, formula):
    if count > _MOST_TERMS:
        raise refused(formula, f"it stands for more than {_MOST_TERMS} terms")
    return count


def _check_call(node, formula):
    """Refuse functions that are not on the list, and arguments they do not have."""
    name = node.value
    if name not in ROW_FUNCTIONS and name not in _OF_COLUMNS:
        own = {
            "offset": "offset(...) is added to other terms",
            "cbind": "cbind(...) stands on the left side alone",
        }.get(name, f"{name[:60]} is none of its functions: {FUNCTIONS}")
        raise refused(formula, own)
    alone = name in ROW_FUNCTIONS or name == "I"
    if (
        not node.parts
        or (alone and len(node.parts) > 1)
        or len(node.names) == len(node.parts)
    ):
        raise refused(formula, f"{name} must have one column or calculation first")
    if not columns_of(node.parts[0]):
        raise refused(formula, f"{shown(node)} must have a column")
    _check_row(node.parts[0], formula)
    for part in node.parts[1:]:
        _constant(part, formula, contrasts=_OF_COLUMNS[name] == "C")


def _check_row(node, formula):
    """Refuse what is no calculation with columns and numbers of one row."""
    if node.kind == "call":
        return _check_call(node, formula)
    if node.kind == "number":
        return None
    if (
        node.kind not in ("column", "sum", "product", "power")
        or len(node.parts) > _LONGEST
    ):
        raise refused(formula, f"{shown(node)} is no calculation with columns")
    for part in node.parts:
        _check_row(part, formula)
    return None


def _constant(node, formula, contrasts=False):
    """A number, text, True, False or list of these as Python writes it."""
    if node.kind == "number" and abs(float(node.value)) <= _LARGEST:
        return _number(node.value, as_it_is=True)
    if node.kind == "text":
        return repr(node.value)
    if node.kind == "column" and node.value in _WORDS:
        return _WORDS[node.value]
    if node.kind == "sum" and node.value == "-":
        return "-" + _constant(node.parts[0], formula)
    if node.kind == "list" or (_is_call(node, "c") and not node.names):
        return "[" + ", ".join(_constant(part, formula) for part in node.parts) + "]"
    if contrasts and node.kind in ("call", "column") and node.value in _CONTRASTS:
        values = [_constant(part, formula) for part in node.parts]
        return f"{node.value}({', '.join(with_names(values, node.names))})"
    raise refused(
        formula,
        f"{shown(node)} is no argument; those after the first are numbers up to "
        f"{_LARGEST}, texts, TRUE, FALSE, lists of these, or contrasts",
    )


def _number(text, as_it_is=False):
    # As floats they overflow, where a power of whole numbers would take for ever.
    return str(int(text)) if as_it_is and text.isdigit() else repr(float(text))


# --- written again


def terms_text(summands, aliases, formula):
    """Summands as formulaic reads them, with names of our own for columns."""
    text = " ".join(f"{s} {_term_text(p, aliases, formula)}" for s, p in summands)
    return text.removeprefix("+ ") or "1"


def _term_text(node, aliases, formula):
    if node.kind == "column":
        return aliases[node.value]
    if node.kind == "call":
        return row_text(node, aliases, formula)
    if node.kind == "number":
        return node.value
    texts = [_term_text(part, aliases, formula) for part in node.parts]
    if node.kind == "sum":
        both = zip(node.value, texts, strict=True)
        return (
            "(" + " ".join(f"{s} {text}" for s, text in both).removeprefix("+ ") + ")"
        )
    found = texts[0]
    for sign, text in zip(node.value, texts[1:], strict=True):
        sign = "**" if node.kind == "power" else sign
        found = f"({found} {sign} {text})"
    return found


def row_text(node, aliases, formula):
    """A calculation as Python writes it."""
    return ast.unparse(ast.parse(_python(node, aliases, formula), mode="eval"))


def _python(node, aliases, formula):
    if node.kind == "column":
        return aliases[node.value]
    if node.kind == "number":
        return _number(node.value)
    if node.kind == "call":
        first = _python(node.parts[0], aliases, formula)
        contrasts = _OF_COLUMNS.get(node.value) == "C"
        rest = [_constant(part, formula, contrasts) for part in node.parts[1:]]
        inside = ", ".join(with_names([first, *rest], node.names))
        return f"{_OF_COLUMNS.get(node.value, node.value)}({inside})"
    texts = [_python(part, aliases, formula) for part in node.parts]
    if node.kind == "sum":
        both = zip(node.value, texts, strict=True)
        return "(" + " ".join(f"{sign} {text}" for sign, text in both) + ")"
    sign = {"^": "**"}
    both = zip(node.value, texts[1:], strict=True)
    return "(" + texts[0] + "".join(f" {sign.get(s, s)} {t}" for s, t in both) + ")"
