"""The layout of the package: imports point down, files and functions stay small.

``doc/architecture.rst`` shows the same floors as a picture.
"""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(find_spec("skboost").submodule_search_locations[0])
FILES = sorted(PACKAGE.rglob("*.py"))

# A room is a subpackage or a top-level module. The files of the floor that fits
# estimators work together, so they count as one room.
FLOORS = {
    room: floor
    for floor, rooms in enumerate(
        (
            "_random _parallel _parameters _math _rows _columns _entries _budget "
            "_version",
            "_pickles _row_blocks _settings _solver families frank_wolfe transforms",
            "approximation targets",
            "orbits objectives modes conjugate hierarchy warps",
            "posterior proposals svi",
            "boosting online serving",
            "fitting _starting_points _sklearn",
            "adapters linear_model inspection model_selection mixture decomposition "
            "_posterior_api",
            "dask callbacks exceptions priors strategies",
            "__init__",
        )
    )
    for room in rooms.split()
}
ONE_ROOM = {"fitting", "_sklearn", "_starting_points"}

EXTRAS = {
    "arviz", "bridgestan", "dask", "distributed", "jax", "matplotlib", "numba",
    "numpyro", "onnx", "onnxruntime", "pandas", "pymc", "pytensor", "rich", "xarray",
}  # fmt: skip
# ``verbose`` of drop-in mixtures is scikit-learn's: one file of theirs writes lines.
# Elsewhere it shows records of `logging`.
WRITES = "mixture/_messages.py"
EXPERIMENTAL = ("sklearn.callback", "sklearn.experimental")
MAX_BODY_LINES = 45
MAX_FILE_LINES = 450


class Import(NamedTuple):
    module: str
    name: str | None
    line: int

    @property
    def top(self):
        return self.module.partition(".")[0]


@cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def walked(path):
    return list(ast.walk(tree(path)))


def dotted(path):
    """``skboost/boosting/_greedy.py`` -> ``skboost.boosting._greedy``."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path) for path in FILES}


def absolute(node, path):
    """The module that a ``from ... import`` names, relative dots resolved."""
    if not node.level:
        return node.module
    package = dotted(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    package = package[: len(package) - node.level + 1]
    return ".".join(package + ([node.module] if node.module else []))


@cache
def statements(path):
    """Imports of a file, wherever they stand."""
    return [n for n in walked(path) if isinstance(n, (ast.Import, ast.ImportFrom))]


def imports(path, nodes=None):
    """Every import of a file, or of the given nodes of it."""
    for node in statements(path) if nodes is None else nodes:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, None, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute(node, path)
            yield from (Import(module, a.name, node.lineno) for a in node.names)


def module_level(body):
    """Statements that run at import time: also those under ``if`` and ``try``."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for field in ("body", "orelse", "finalbody", "handlers"):
            yield from module_level(getattr(node, field, []))


def room_of(module):
    """First name below the package; the package itself is ``__init__``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported_files(path, modules):
    """Names of the package's files that a file imports, inside of functions too.

    ``from skboost.posterior import _backed`` imports a file where `modules` has it,
    ``from skboost.posterior import Mode`` the folder's ``__init__``.
    """
    found = set()
    for item in imports(path):
        if item.top == "skboost":
            full = f"{item.module}.{item.name}"
            found.add(full if full in modules else item.module)
    return found


def circle(graph):
    """Files that import each other, first and last the same; empty if there are none.

    `graph` maps the name of each file to the names of those that it imports.
    """
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def points_down(here, there):
    same_room = here == there or {here, there} <= ONE_ROOM
    return same_room or FLOORS[there] < FLOORS[here]


def body_lines(function):
    """Lines of a function without its signature and its docstring."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return function.end_lineno - body[0].lineno + 1 if body else 0


def relative_name(path):
    return path.relative_to(PACKAGE).as_posix()


def offenders(check):
    """What a check of one file finds, by the name of the file."""
    found = {relative_name(path): check(path) for path in FILES}
    return {name: wrong for name, wrong in found.items() if wrong}


def private_sklearn(item):
    """Whether an import takes a private or experimental name of scikit-learn."""
    if item.top != "sklearn":
        return False
    names = item.module.split(".") + [item.name or ""]
    full = ".".join(filter(None, names))
    return any(name.startswith("_") for name in names) or any(
        full == name or full.startswith(name + ".") for name in EXPERIMENTAL
    )


def test_every_file_is_in_a_room_of_the_picture():
    assert {room_of(dotted(path)) for path in FILES} <= set(FLOORS)


def test_imports_point_down():
    def wrong(path):
        here = room_of(dotted(path))
        return [
            f"{here} (floor {FLOORS[here]}) imports {there}"
            for there in map(room_of, imported_files(path, MODULES))
            if not points_down(here, there)
        ]

    assert not offenders(wrong)


def test_packages_are_entered_by_their_faces():
    def wrong(path):
        here = dotted(path).split(".")[:2]
        names = [item.module.split(".") for item in imports(path)]
        return [
            name for name in names
            if name[0] == "skboost" and len(name) > 2 and name[:2] != here
        ]  # fmt: skip

    assert not offenders(wrong)


def test_no_files_import_each_other_in_a_circle():
    graph = {dotted(path): imported_files(path, MODULES) for path in FILES}
    found = circle(graph)
    assert not found, " imported by ".join(found)


def test_extras_are_imported_where_they_are_used_and_autograd_in_targets():
    def wrong(path):
        at_import = imports(path, module_level(tree(path).body))
        found = [item for item in at_import if item.top in EXTRAS]
        if room_of(dotted(path)) != "targets":
            found += [item for item in imports(path) if item.top == "autograd"]
        return found

    assert not offenders(wrong)


def test_private_names_of_scikit_learn_stay_in_one_file():
    def uses(path):
        return [item for item in imports(path) if private_sklearn(item)]

    assert set(offenders(uses)) == {"_sklearn.py"}


def test_nothing_prints():
    def wrong(path):
        names = set()
        for node in walked(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names.add(node.func.id)
            elif isinstance(node, (ast.arg, ast.keyword)):
                names.add(node.arg)
            elif isinstance(node, ast.Attribute):
                names.add(node.attr)
        allowed = {"stdout"} if relative_name(path) == WRITES else set()
        return (names & {"print", "stdout"}) - allowed

    assert not offenders(wrong)


def test_functions_and_files_stay_small():
    def wrong(path):
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        long = {
            f"{node.name} (line {node.lineno})": body_lines(node)
            for node in walked(path)
            if isinstance(node, functions) and body_lines(node) > MAX_BODY_LINES
        }
        n_lines = len(path.read_text(encoding="utf-8").splitlines())
        return long | ({"lines": n_lines} if n_lines > MAX_FILE_LINES else {})

    assert not offenders(wrong)


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("from ..posterior import Mode", ["posterior"]),
        ("from skboost.posterior import _backed", ["posterior._backed"]),
        ("from .. import families", ["families"]),
        ("from .._math import log_weights", ["_math"]),
        ("from . import _simplex", ["boosting._simplex"]),
        ("def f():\n    from ._simplex import g", ["boosting._simplex"]),
        ("import skboost.linear_model as models", ["linear_model"]),
        ("import numpy as np", []),
    ],
)
def test_the_parser_finds_the_file_behind_an_import(source, files, monkeypatch):
    nodes = list(ast.walk(ast.parse(source)))
    monkeypatch.setattr(f"{__name__}.statements", lambda path: nodes)
    found = imported_files(PACKAGE / "boosting" / "_greedy.py", MODULES)
    assert found == {f"skboost.{name}" for name in files}
    assert [room_of(name) for name in found] == [name.split(".")[0] for name in files]


# Of more than one: `_matrices.py` asks for two rows, displays have one for each point.
PLURALS = re.compile(
    r" (distinct )?(rows|columns|features|ratings|entries|parameters)\b"
)
OF_SEVERAL = {"_matrices.py", "_prediction_display.py"}


def test_messages_count_nothing_in_the_plural_that_may_be_one():
    for path in FILES:
        for text in walked(path):
            parts = text.values if isinstance(text, ast.JoinedStr) else ()
            for number, after in zip(parts, parts[1:], strict=False):
                if (
                    isinstance(number, ast.FormattedValue)
                    and path.name not in OF_SEVERAL
                ):
                    said = getattr(after, "value", None)
                    counted = isinstance(said, str) and PLURALS.match(said)
                    assert not counted, f"{path.name}:{text.lineno}: {said}"
