"""Change lines that a seed draws, one at a time, and see whether quick tests notice.

    python tests/mutation/random_mutants.py [--packages PACKAGE ...] [--n N]
                                            [--seed TEXT] [--only FILE:LINE ...]
                                            [--tests TEST ...] [--limit SECONDS]

`run.py` applies mutations that somebody thought of; here nobody chose them. Of every
package ``--n`` lines are drawn. On each, a comparison is turned round, ``+`` and ``-``
or ``*`` and ``/``, ``and`` and ``or``, ``min`` and ``max`` are swapped, a constant of
at most 3 is off by one, a returned formula changes its sign, or a ``not`` or a minus
is dropped. Larger constants are settings, of which no test ought to hold the value.
What raises or warns is left alone, and so are annotations, checks of types,
``__init__.py``, and names of streams of random numbers, of which any is as good.

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
from copy import deepcopy
from difflib import unified_diff

from run import LIMIT, ROOMS, ROOT, UNDECIDED, Mutation, outcome

PACKAGE = ROOT / "skboost"
OPERATORS = {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.And: ast.Or}
OPERATORS |= {other: operator for operator, other in OPERATORS.items()}
COMPARISONS = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
}  # fmt: skip
COMPARISONS |= {other: operator for operator, other in COMPARISONS.items()}
EXTREMES = {"min": "max", "minimum": "maximum", "argmin": "argmax"}
EXTREMES |= {other: name for name, other in EXTREMES.items()}
LEFT_ALONE = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)
# What asks for a type, warns, or names a stream of random numbers.
CHECKS = {
    "isinstance", "issubclass", "warn", "hasattr", "getattr", "generator", "rng",
}  # fmt: skip


def places(node):
    """Nodes within a node that can be changed."""
    if isinstance(node, LEFT_ALONE) or name_of(getattr(node, "func", None)) in CHECKS:
        return
    if mutants(node):
        yield node
    annotations = "annotation", "returns", "decorator_list"
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in annotations:
                yield from places(child)


def name_of(func):
    """The last name of what is called."""
    return getattr(func, "id", getattr(func, "attr", None))


def mutants(node):
    """Other nodes that may stand in place of one."""
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            return [changed(node, op=OPERATORS[type(op)]())]
        case ast.BoolOp(op=op, values=[_, _]):
            return [changed(node, op=OPERATORS[type(op)]())]
        case ast.Compare(ops=[op]):
            return [changed(node, ops=[COMPARISONS[type(op)]()])]
        case ast.Constant(bool()):
            return []
        case ast.Constant(int() | float() as value) if value <= 3:
            return [ast.Constant(value + off) for off in (-1, 1)]
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            return [operand]
        case ast.Return(ast.BinOp(op=op) as value) if type(op) in OPERATORS:
            return [ast.Return(ast.UnaryOp(ast.USub(), value))]
        case ast.Call(func=func) if name_of(func) in EXTREMES:
            other = deepcopy(func)
            attribute = "id" if isinstance(other, ast.Name) else "attr"
            setattr(other, attribute, EXTREMES[name_of(func)])
            return [changed(node, func=other)]
    return []


def changed(node, **fields):
    """A copy of a node with other fields."""
    return type(node)(**(dict(ast.iter_fields(node)) | fields))


def replaced(tree, old, new):
    """The text of a tree that has another node in one place."""

    class Change(ast.NodeTransformer):
        def visit(self, node):
            return new if node is old else self.generic_visit(node)

    # What is shared with the tree is not changed: one node is left out.
    kept = deepcopy(tree, {id(old): old})
    return ast.unparse(ast.fix_missing_locations(Change().visit(kept)))


def drawn(package, n, seed):
    """Mutations of ``n`` lines of a package; the top level is called ``top``."""
    folder = PACKAGE if package == "top" else PACKAGE / package
    paths = folder.glob("*.py") if package == "top" else folder.rglob("*.py")
    lines = {}
    for path in sorted(paths):
        if path.name != "__init__.py":
            tree = ast.parse(path.read_text())
            for node in places(tree):
                lines.setdefault((path, node.lineno), []).append((tree, node))
    chance = random.Random(f"{seed} {package}")
    for path, line in chance.sample(sorted(lines), min(n, len(lines))):
        tree, node = chance.choice(lines[path, line])
        new = chance.choice(mutants(node))
        yield path, line, ast.unparse(tree), replaced(tree, node, new)


def tests_of(package, path):
    """Test files of a package's room, those that name definitions of a file first."""
    room = tomllib.loads((ROOMS / f"{package}.toml").read_text())
    listed = [
        test
        for entry in room["mutation"]
        if PACKAGE / entry["file"] == path
        for test in entry.get("first", ())
    ]
    listed = [test.split("::")[0] for test in listed]
    files = []
    for test in room["tests"]:
        own = ROOT / test
        files += sorted(own.glob("test_*.py")) if own.is_dir() else [own]
    definitions = re.findall(r"^\s*(?:def|class) (\w+)", path.read_text(), re.MULTILINE)
    names = {name for name in definitions if not name.startswith("__")}

    def rank(file):
        words = set(re.findall(r"\w+", file.read_text()))
        return str(file.relative_to(ROOT)) not in listed, -len(words & names)

    return tuple(str(file.relative_to(ROOT)) for file in sorted(files, key=rank))


def kind(found):
    """What happened: killed, survived, and what is neither."""
    if found is None:
        return "survived"
    if found in (LIMIT, UNDECIDED):
        return found
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
        for path, line, plain, text in drawn(package, asked.n, asked.seed):
            file = str(path.relative_to(PACKAGE))
            name = f"{file}:{line}"
            if asked.only and name not in asked.only:
                continue
            tests = tuple(asked.tests or tests_of(package, path))
            mutation = Mutation(package, name, file, path.read_text(), text, (), tests)
            done = outcome(mutation, quick=True, limit=asked.limit)
            what = kind(done.noticed_by)
            counts[what] = counts.get(what, 0) + 1
            print(f"{done.seconds:6.1f} s  {name}: {what} ({done.noticed_by})")
            lines = plain.splitlines(), text.splitlines()
            print("\n".join([*unified_diff(*lines, n=0, lineterm="")][3:]), flush=True)
    print(counts)
    return 1 if counts.get("survived") else 0


if __name__ == "__main__":
    sys.exit(main())
