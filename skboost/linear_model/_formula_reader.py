"""Formulas as text: a reader of our own, which evaluates nothing.

Tokens are read by the grammar below, and all else is refused.

    formula = [sum "~"] sum
    sum     = ["-"] product {("+" | "-") product}
    product = cross {("*" | "/") cross}
    cross   = signed {":" signed}
    signed  = "-" signed | atom ["^" signed]
    atom    = number | text | column | column "(" arguments ")" | "[" arguments "]"
            | "(" sum ["|" sum] ")"
"""

import re
from typing import NamedTuple

# Arguments that have names.
_KEYWORDS = (
    "df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound",
    "extrapolation", "constraints", "center", "scale", "rescale", "ddof", "raw",
    "contrasts", "levels", "base", "reference",
)  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<column>(?:[^\W\d]|\.(?!\d))[\w.]*)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<text>\"[^\"\\]*\"|'[^'\\]*')|(?P<sign>\|\||\*\*|[-+*/:^|()\[\],=~]))\s*"
)
# Parts in each other that are read.
_DEEPEST = 40


class Node(NamedTuple):
    """A part of a formula: what it is, its name, number or signs, and its own parts.

    Kinds are column, number, text, list, call, group and, by the signs that join their
    parts, sum, product, cross and power. `names` are those of the last parts of a call.
    """

    kind: str
    value: str
    parts: tuple = ()
    names: tuple = ()


def refused(formula, why):
    """The error for a formula that means nothing."""
    shown = formula if len(formula) < 300 else formula[:300] + "..."
    return ValueError(
        f"formula must be such as 'y ~ x + (x | g)'; got {shown!r}: {why}."
    )


def sides(formula):
    """What stands on the left of a formula, None without any, and on the right."""
    reader = _Reader(formula)
    left = reader.side("~") if ("sign", "~") in reader.tokens else None
    return left, reader.side("")


class _Reader:
    """Tokens of a formula, read from the left."""

    def __init__(self, formula):
        self.formula, self.tokens, self.place, self.depth = formula, [], 0, 0
        end, text = 0, formula.strip()
        while end < len(text):
            found = _TOKEN.match(text, end)
            if not found:
                raise refused(
                    formula,
                    f"{text[end]!r} means nothing here. Formulas have columns, "
                    "numbers, + - * / : ^ | and functions of a list, and run no code; "
                    "make other columns before",
                )
            kind = found.lastgroup
            token = found[kind] if kind != "sign" else found[kind].replace("**", "^")
            self.tokens.append((kind, token))
            end = found.end()

    def side(self, end):
        """All up to a sign, or to the end."""
        node = self.sum()
        if self.next() != ("sign", end) and (end or self.next() != ("", "")):
            raise self.unexpected()
        self.place += 1
        return node

    def next(self):
        return self.tokens[self.place] if self.place < len(self.tokens) else ("", "")

    def take(self, *signs):
        """The next sign where it is one of these, and then the one after is next."""
        kind, token = self.next()
        if kind != "sign" or token not in signs:
            return ""
        self.place += 1
        return token

    def unexpected(self):
        kind, token = self.next()
        if not kind or token in (")", "]"):
            return refused(
                self.formula, "its parentheses do not match, or something is missing"
            )
        return refused(self.formula, f"{token!r} stands where it means nothing")

    def closed(self, end):
        if not self.take(end):
            raise self.unexpected()

    def inside(self, read):
        """What a method reads within parentheses or after a sign."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise refused(self.formula, f"more than {_DEEPEST} parts in each other")
        node = read()
        self.depth -= 1
        return node

    def sum(self):
        signs, parts = self.take("+", "-") or "+", [self.product()]
        while sign := self.take("+", "-"):
            # ``+ -x`` takes away.
            while more := self.take("+", "-"):
                sign = "+" if sign == more else "-"
            signs, parts = signs + sign, [*parts, self.product()]
        return parts[0] if signs == "+" else Node("sum", signs, tuple(parts))

    def chain(self, kind, signs, read):
        found, parts = "", [read()]
        while sign := self.take(*signs):
            found, parts = found + sign, [*parts, read()]
        return Node(kind, found, tuple(parts)) if found else parts[0]

    def product(self):
        return self.chain("product", "*/", self.cross)

    def cross(self):
        return self.chain("cross", ":", self.signed)

    def signed(self):
        if self.take("-"):
            return Node("sum", "-", (self.inside(self.signed),))
        base = self.atom()
        if self.take("^"):
            return Node("power", "^", (base, self.inside(self.signed)))
        return base

    def atom(self):
        kind, token = self.next()
        self.place += 1
        if kind == "column" and self.take("("):
            return self.call(token)
        if kind in ("column", "quoted"):
            return Node("column", token)
        if kind == "number":
            return Node(kind, token)
        if kind == "text":
            return Node(kind, token[1:-1])
        if token == "(" and kind == "sign":
            return self.inside(self.parentheses)
        if token == "[" and kind == "sign":
            return Node("list", "", *self.inside(lambda: self.arguments("]")))
        self.place -= 1
        raise self.unexpected()

    def parentheses(self):
        node = self.sum()
        if bars := self.take("|", "||"):
            node = Node("group", bars, (node, self.sum()))
        self.closed(")")
        return node

    def call(self, function):
        parts, names = self.inside(lambda: self.arguments(")"))
        function = re.sub(r"^(np|numpy)\.", "", function)
        if function == "Q" and [part.kind for part in parts] == ["text"]:
            return Node("column", parts[0].value)
        return Node("call", function, parts, names)

    def arguments(self, end):
        """Arguments and the names of the last of them, up to a closing sign."""
        parts, names = [], []
        while not self.take(end):
            if parts:
                self.closed(",")
            named = self.tokens[self.place + 1 : self.place + 2] == [("sign", "=")]
            if named:
                if self.next()[1] not in _KEYWORDS:
                    raise refused(self.formula, f"no argument is {self.next()[1]!r}")
                names.append(self.next()[1])
                self.place += 2
            elif names:
                raise self.unexpected()
            parts.append(self.sum())
        return tuple(parts), tuple(names)


# --- of parts


def columns_of(*nodes):
    """Columns that parts name, each once, in their order."""
    found = {}
    for node in nodes:
        if node.kind == "column":
            found[node.value] = None
        first = (
            node.parts[:1]
            if node.kind == "call" and node.value != "cbind"
            else node.parts
        )
        found |= dict.fromkeys(columns_of(*first))
    return list(found)


def calls_of(node):
    """Calls among the terms of a part."""
    if node.kind == "call":
        return [node]
    return [call for part in node.parts for call in calls_of(part)]


def shown(node):
    """A part as R shows it."""
    parts = [shown(part) for part in node.parts]
    if node.kind in ("column", "number"):
        return node.value
    if node.kind == "text":
        return repr(node.value)
    if node.kind in ("call", "list"):
        inside = ", ".join(with_names(parts, node.names))
        return f"{node.value}({inside})" if node.kind == "call" else f"[{inside}]"
    if node.kind == "group":
        return f"({parts[0]} {node.value} {parts[1]})"
    if node.kind == "sum" and node.value == "-":
        return f"-{parts[0]}"
    inner = ("sum",) if node.kind == "sum" else ("sum", "product")
    parts = [
        f"({text})" if part.kind in inner and len(part.parts) > 1 else text
        for part, text in zip(node.parts, parts, strict=True)
    ]
    signs = node.value if node.kind == "sum" else "+" + node.value
    text = "".join(
        f"{sign}{part}" if sign in ":^" else f" {sign} {part}"
        for sign, part in zip(signs, parts, strict=True)
    )
    return text.removeprefix(" + ").lstrip()


def with_names(values, names):
    """Arguments as they are written, the last of them with their names."""
    n = len(values) - len(names)
    pairs = zip(names, values[n:], strict=True)
    return values[:n] + [f"{name}={value}" for name, value in pairs]
