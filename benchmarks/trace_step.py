"""How large the package is, and how much of it one fit enters.

    python benchmarks/trace_step.py [--list defaults|two]

Fits are those of the logistic regression on the standardised breast cancer data: one by
its defaults, one of two iterations whatever they gain. Each is made twice, the second
time under `sys.setprofile`, so that imports and caches do not count. Functions are
distinct by file and qualified name: several lambdas of one function are one. Frames
are those of the package above an evaluation of the density, a banana, in
`boost_posterior`.

Lines of code are those without docstrings, comments and blanks. Private imports are
import statements of tests that name something of the package with a leading
underscore, module or member. Other commits are measured by the same script: put their
checkout first on ``PYTHONPATH``.
"""

import argparse
import ast
import io
import statistics
import sys
import threading
import tokenize
import warnings
from collections import Counter
from pathlib import Path

import autograd.numpy as anp
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import skboost
from skboost import BoostedBayesianLogisticRegression, boost_posterior

_PACKAGE = Path(skboost.__file__).resolve().parent
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

FITS = {
    "defaults": {},
    "two": {"max_iter": 2, "tol": 0, "random_state": 0},
}


# --- whole fits


def is_ours(code):
    return code.co_filename.startswith(str(_PACKAGE))


def calls_of(settings):
    """How often a fit enters every function (file, name) of the package."""
    X, y = load_breast_cancer(return_X_y=True)
    X, calls = scale(X), Counter()

    def count(frame, event, _):
        code = frame.f_code
        if event == "call" and is_ours(code):
            place = Path(code.co_filename).relative_to(_PACKAGE)
            calls[str(place), code.co_qualname] += 1

    first, again = (BoostedBayesianLogisticRegression(**settings) for _ in range(2))
    first.fit(X, y)
    # Searches may run in threads.
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        again.fit(X, y)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls


def frames_above_density():
    """Frames of the package above every evaluation of a banana."""
    depths = []

    def banana(theta):
        frame, depth = sys._getframe(), 0
        while frame := frame.f_back:
            depth += is_ours(frame.f_code)
        depths.append(depth)
        x, y = theta[:, 0], theta[:, 1]
        return -0.125 * x**2 - 2.0 * (y - 0.25 * anp.square(x)) ** 2

    boost_posterior(banana, 2, random_state=0)
    return depths


def own_classes():
    """Classes of the package in the resolution order of every public estimator."""
    members = {name: getattr(skboost, name) for name in skboost.__all__}
    return {
        name: sum(c.__module__.partition(".")[0] == "skboost" for c in member.__mro__)
        for name, member in members.items()
        if isinstance(member, type) and hasattr(member, "get_params")
    }


# --- lines


def lines_of(text, tree):
    """Lines of code and of docstrings."""
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            first = node.body[0]
            docstrings |= set(range(first.lineno, first.end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings), len(docstrings)


def private_imports(tree):
    """Import statements that name something private of the package."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            module = getattr(node, "module", None) or ""
            names = [f"{module}.{a.name}".strip(".").split(".") for a in node.names]
            count += any(n[0] == "skboost" and any(map(_is_private, n)) for n in names)
    return count


def _is_private(name):
    return name.startswith("_") and not name.startswith("__")


def sizes():
    """Figures of the package and its tests that need no fit."""
    texts = [path.read_text(encoding="utf-8") for path in _PACKAGE.rglob("*.py")]
    counts = [lines_of(text, ast.parse(text)) for text in texts]
    tests = (_PACKAGE.parent / "tests").rglob("*.py")
    tests = [path.read_text(encoding="utf-8") for path in tests]
    return {
        "lines of code": sum(code for code, _ in counts),
        "lines of docstrings": sum(docstring for _, docstring in counts),
        "files": len(texts),
        "lines of tests": sum(len(text.splitlines()) for text in tests),
        "private imports in tests": sum(private_imports(ast.parse(t)) for t in tests),
    }


def main():
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--list", choices=list(FITS), help="name a fit's functions")
    chosen = made.parse_args().list
    warnings.simplefilter("ignore")
    if chosen:
        for (place, function), n in sorted(calls_of(FITS[chosen]).items()):
            print(f"{n:>8}  {place}  {function}")
        return
    rows, classes, depths = sizes(), own_classes(), frames_above_density()
    least, most = min(classes.values()), max(classes.values())
    rows["own classes of an estimator, least / most"] = f"{least} / {most}"
    many = sorted(name for name, n in classes.items() if n > 5)
    rows["estimators of more than five"] = len(many)
    median = statistics.median(depths)
    rows["frames above a density, median / most"] = f"{median:g} / {max(depths)}"
    for name, settings in FITS.items():
        calls = calls_of(settings)
        files = {place for place, _ in calls}
        rows[f"fit, {name}: functions / files"] = f"{len(calls)} / {len(files)}"
    for name, value in rows.items():
        print(f"{name:<55}{value if isinstance(value, str) else f'{value:,}':>15}")
    print(*(f"    {name}: {classes[name]}" for name in many), sep="\n")


if __name__ == "__main__":
    main()
