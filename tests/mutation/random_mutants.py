"""Change lines that a seed draws, one at a time, and see whether quick tests notice.

    python tests/mutation/random_mutants.py [--packages PACKAGE ...] [--n N]
                                            [--seed TEXT] [--only FILE:LINE ...]
                                            [--tests TEST ...] [--limit SECONDS]

`run.py` applies mutations that somebody thought of; here nobody chose them. Of every
package ``--n`` lines are drawn. On each, a comparison is turned round, ``+`` and ``-``
or ``*`` and ``/``, ``and`` and ``or``, ``min`` and ``max`` are swapped, a constant of
at most 3 is off by one, a returned formula changes its sign, or a ``not`` or a minus
is dropped. Larger constants are settings, of which no test ought to hold the value.
What raises or warns is left alone, and so are annotations, checks of types and
``__init__.py``.

The tests are those of the package's room (``rooms/``), the files first that name what
the changed file defines. ``--tests`` names others, for what has survived those;
``--only`` takes single lines out of the draw.
"""

import argparse
import ast
import random
import re
import sys
import tomllib
from dataclasses import dataclass
from difflib import unified_diff

from run import ROOMS, ROOT, Mutation, outcome

PACKAGE = ROOT / "skboost"
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARISONS = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
SWAPPED = {"+": "-", "-": "+", "*": "/", "/": "*", "and": "or", "or": "and"}
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
EXTREMES |= {"argmin": "argmax", "argmax": "argmin"}
LEFT_ALONE = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)
CHECKS = {"isinstance", "issubclass", "warn", "hasattr", "getattr"}


@dataclass(frozen=True)
class Change:
    """Bytes of a file from ``start`` to ``stop`` become ``new``."""

    start: int
    stop: int
    new: str


class Source:
    """A file, its tree, and the places where it can be changed."""

    def __init__(self, path):
        self.path = path
        self.text = path.read_text().encode()
        lengths = [len(line) for line in self.text.splitlines(keepends=True)]
        self.begins = [sum(lengths[:i]) for i in range(len(lengths))]
        self.changes = []
        self._visit(ast.parse(self.text))

    def by_line(self):
        """Changes of every line that has one."""
        found = {}
        for each in self.changes:
            found.setdefault(self.text[: each.start].count(b"\n") + 1, []).append(each)
        return found

    def changed(self, change):
        """The text with one change."""
        new = change.new.encode()
        return (self.text[: change.start] + new + self.text[change.stop :]).decode()

    def _at(self, node):
        start = self.begins[node.lineno - 1] + node.col_offset
        return start, self.begins[node.end_lineno - 1] + node.end_col_offset

    def _visit(self, node):
        if isinstance(node, LEFT_ALONE) or _is_check(node):
            return
        if isinstance(node, ast.FunctionDef):
            node.returns, node.decorator_list = None, []
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Name("left_alone")
        self._change(node)
        for child in ast.iter_child_nodes(node):
            self._visit(child)

    def _change(self, node):
        match node:
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                symbol = OPERATORS[type(op)]
                self._between(left, right, symbol, SWAPPED[symbol])
            case ast.AugAssign(target, op, value) if type(op) in OPERATORS:
                symbol = OPERATORS[type(op)]
                self._between(target, value, symbol, SWAPPED[symbol])
            case ast.Compare(left, [op], [right]):
                self._between(left, right, *COMPARISONS[type(op)])
            case ast.BoolOp(op, [left, right]):
                symbol = "and" if isinstance(op, ast.And) else "or"
                self._between(left, right, symbol, SWAPPED[symbol])
            case ast.Constant(bool()):
                pass
            case ast.Constant(int() | float() as value) if value <= 3:
                off = repr(value + random.Random(str(self._at(node))).choice((-1, 1)))
                self.changes.append(Change(*self._at(node), f"({off})"))
            case ast.UnaryOp(ast.Not() | ast.USub(), operand):
                kept = self.text[slice(*self._at(operand))].decode()
                self.changes.append(Change(*self._at(node), kept))
            case ast.Return(ast.BinOp(op=op) as value) if type(op) in OPERATORS:
                kept = self.text[slice(*self._at(value))].decode()
                self.changes.append(Change(*self._at(value), f"-({kept})"))
            case ast.Call(ast.Name(name) | ast.Attribute(attr=name)):
                if name in EXTREMES:
                    stop = self._at(node.func)[1]
                    change = Change(stop - len(name), stop, EXTREMES[name])
                    self.changes.append(change)

    def _between(self, left, right, old, new):
        start, stop = self._at(left)[1], self._at(right)[0]
        place = start + self.text[start:stop].index(old.encode())
        self.changes.append(Change(place, place + len(old), new))


def _is_check(node):
    func = getattr(node, "func", None)
    return getattr(func, "id", getattr(func, "attr", None)) in CHECKS


def drawn(package, n, seed):
    """Mutations of ``n`` lines of a package; the top level is called ``top``."""
    folder = PACKAGE if package == "top" else PACKAGE / package
    paths = folder.glob("*.py") if package == "top" else folder.rglob("*.py")
    sources = [Source(path) for path in sorted(paths) if path.name != "__init__.py"]
    places = [
        (source, line, changes)
        for source in sources
        for line, changes in sorted(source.by_line().items())
    ]
    chance = random.Random(f"{seed} {package}")
    chosen = chance.sample(places, min(n, len(places)))
    return [
        (source, line, source.changed(chance.choice(changes)))
        for source, line, changes in chosen
    ]


def tests_of(package, source):
    """Test files of a package's room, those that name definitions of a file first."""
    room = tomllib.loads((ROOMS / f"{package}.toml").read_text())
    listed = [
        test
        for entry in room["mutation"]
        if PACKAGE / entry["file"] == source.path
        for test in entry.get("first", ())
    ]
    listed = [test.split("::")[0] for test in listed]
    files = []
    for test in room["tests"]:
        path = ROOT / test
        files += sorted(path.glob("test_*.py")) if path.is_dir() else [path]
    definitions = re.findall(rb"^\s*(?:def|class) (\w+)", source.text, re.MULTILINE)
    names = {name.decode() for name in definitions if not name.startswith(b"__")}

    def rank(path):
        words = set(re.findall(r"\w+", path.read_text()))
        return str(path.relative_to(ROOT)) not in listed, -len(words & names)

    return tuple(str(path.relative_to(ROOT)) for path in sorted(files, key=rank))


def kind(found):
    """What happened: killed, survived, and what is neither."""
    if found is None:
        return "survived"
    if found == "the limit of time":
        return "timed out"
    return "killed" if "::" in found else "broke collection"


def main():
    """Draw mutants, run their tests, and print a line for each."""
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", nargs="*", default=["top", *sorted(folders)])
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--tests", nargs="*")
    parser.add_argument("--limit", type=float, default=90.0)
    asked = parser.parse_args()
    counts = {}
    for package in asked.packages:
        for source, line, text in drawn(package, asked.n, asked.seed):
            file = str(source.path.relative_to(PACKAGE))
            name = f"{file}:{line}"
            if asked.only and name not in asked.only:
                continue
            old = source.text.decode()
            tests = tuple(asked.tests or tests_of(package, source))
            mutation = Mutation(package, name, file, old, text, (), tests)
            done = outcome(mutation, quick=True, limit=asked.limit)
            what = kind(done.noticed_by)
            counts[what] = counts.get(what, 0) + 1
            print(f"{done.seconds:6.1f} s  {name}: {what} ({done.noticed_by})")
            changed = unified_diff(
                old.splitlines(), text.splitlines(), n=0, lineterm=""
            )
            print("\n".join(list(changed)[3:]), flush=True)
    print(counts)
    return 1 if counts.get("survived") else 0


if __name__ == "__main__":
    sys.exit(main())
