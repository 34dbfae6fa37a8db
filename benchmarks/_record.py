"""Which code a result was measured at, and whether that is the code of this tree.

A result says ``"code": {COMMIT: DIGEST}``: the digest of the files of the package that
its script imports, and of what these import, without comments and docstrings. The first
commit is the one it was measured at; `hold` adds one at which its figures were found to
be as they were, though the code under them had changed. It takes no repository to
compare a digest with the files that lie here.
"""

import hashlib
import json
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
_IMPORT = re.compile(
    r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n]+)|import ([\w.]+))", re.M
)
# Docstrings begin a line; comments are on lines of their own.
_SAID = re.compile(r'^[ \t]*"""[^"]*(?:"{1,2}[^"]+)*"""|^[ \t]*#[^\n]*$', re.M)


@cache
def _code(path):
    return _SAID.sub("", path.read_text(encoding="utf-8"))


@cache
def _file(module):
    """The file of a module of the package or of this folder, or None."""
    at = Path(*module.split("."))
    for base in (ROOT, ROOT / "benchmarks"):
        for path in (base / at.with_suffix(".py"), base / at / "__init__.py"):
            if path.exists():
                return path
    return None


@cache
def _imports(path):
    """Pairs of a module that a file imports from and a name, None for the module."""
    found = []
    for origin, names, whole in _IMPORT.findall(_code(path)):
        if whole:
            found.append((whole, None))
        for name in re.findall(r"(\w+)(?: as \w+)?", re.sub(r"#[^\n]*", "", names)):
            found.append((origin, name))
    return tuple(found)


@cache
def _needed(module, name):
    """The file that defines a name, behind the lists of names of rooms."""
    path = _file(module)
    if path is not None and path.name == "__init__.py" and name is not None:
        if _file(f"{module}.{name}") is not None:
            return _file(f"{module}.{name}")
        for origin, listed in _imports(path):
            if listed == name:
                return _needed(origin, name)
    return path


@cache
def code_under(script):
    """Files of the package that a script of this folder needs, sorted."""
    first, seen = ROOT / "benchmarks" / f"{script}.py", set()
    # Reports are made by tests, too, which are no script of this folder.
    waiting = [first] if first.exists() else []
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            needed = (_needed(*pair) for pair in _imports(path))
            waiting += [one for one in needed if one is not None]
    return sorted(path for path in seen if path.is_relative_to(ROOT / "skboost"))


@cache
def _stamp(path):
    """A file's name and what it does, as bytes."""
    lines = [line.strip() for line in _code(path).splitlines()]
    text = "\n".join([str(path.relative_to(ROOT)), *filter(None, lines)])
    return hashlib.sha256(text.encode()).digest()


@cache
def digest(script):
    """Of the code under a script, as it lies here."""
    parts = b"".join(map(_stamp, code_under(script)))
    return hashlib.sha256(parts).hexdigest()[:16]


def is_current(content):
    """Whether a result was measured, or found to hold, at the code of this tree."""
    script = content.get("script")
    known = script is not None and (ROOT / "benchmarks" / f"{script}.py").exists()
    return known and digest(script) in content.get("code", {}).values()


def age(content):
    """What stands beside a quoted result: its commit, and whether code is older."""
    older = "" if is_current(content) else ", older code"
    return f"commit {content['commit']}{older}"


def fingerprint(content):
    """Of what a result found, whichever code it holds for."""
    found = {key: one for key, one in content.items() if key not in ("code", "file")}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def hold(name, commit):
    """Say that the figures of a result are the same at `commit`, which lies here."""
    path = RESULTS / f"{name}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content.setdefault("code", {})[commit] = digest(content["script"])
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
