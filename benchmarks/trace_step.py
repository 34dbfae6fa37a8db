"""How large the package is, and how much of it one boosting step enters.

    python benchmarks/trace_step.py [--list banana|logistic]

A step is the second iteration under `sys.setprofile`: the call of ``Boosting.step``,
without the first component and without the report at the end. One is that of
`boost_posterior` on a two-dimensional banana, the other that of the logistic
regression on the standardised breast cancer data; both with their defaults, except
that `tol` is a number and nothing is skewed: by ``tol="auto"`` the regression ends with
its first component. Only code of the package is counted: functions by their names
within a file (three lambdas of a file are one name), depth in frames, the step itself
being one.

Lines of code are those without docstrings, comments and blanks; lines of tests and of
benchmark scripts are all lines. A module constant is an upper-case name that a file
binds to a literal. Other commits are measured by the same script: put their checkout
first on ``PYTHONPATH``.
"""

import argparse
import ast
import io
import sys
import threading
import tokenize
import warnings
from collections import Counter
from dataclasses import fields
from pathlib import Path

import autograd.numpy as anp
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import skboost
from skboost import BoostedBayesianLogisticRegression, boost_posterior
from skboost._settings import Settings

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


# --- one step


SETTINGS = {"tol": 1e-2, "skew": None, "max_iter": 2, "random_state": 0}


def banana(theta):
    x, y = theta[:, 0], theta[:, 1]
    return -0.125 * x**2 - 2.0 * (y - 0.25 * anp.square(x)) ** 2


def fit_banana():
    boost_posterior(banana, 2, **SETTINGS)


def fit_logistic():
    X, y = load_breast_cancer(return_X_y=True)
    BoostedBayesianLogisticRegression(**SETTINGS).fit(scale(X), y)


STEPS = {"banana": fit_banana, "logistic": fit_logistic}


class Trace:
    """Calls into the package while ``step`` runs."""

    def __init__(self):
        self.calls, self.depth, self.deepest = Counter(), 0, 0

    def __call__(self, frame, event, _):
        code = frame.f_code
        inside = code.co_filename.startswith(str(_PACKAGE))
        if event not in ("call", "return") or not inside:
            return
        place = Path(code.co_filename).relative_to(_PACKAGE)
        begins = code.co_name == "step" and place.parts[0] == "boosting"
        if not (self.depth or begins):
            return
        if event == "return":
            self.depth -= 1
            return
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        self.calls[place, code.co_firstlineno, code.co_qualname] += 1

    def __enter__(self):
        # Searches may run in threads.
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def figures(self):
        """Files, functions and depth."""
        files = {place for place, _, _ in self.calls}
        names = {(place, name.rpartition(".")[2]) for place, _, name in self.calls}
        return len(files), len(names), self.deepest


# --- the whole package


def code_lines(text, tree):
    """Lines without docstrings, comments and blanks."""
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            first = node.body[0]
            docstrings |= set(range(first.lineno, first.end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def is_literal(node):
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def module_constants(tree):
    """Upper-case names that are bound to literals at the top of a file."""
    assigned = [n for n in tree.body if isinstance(n, ast.Assign)]
    targets = [t for n in assigned if is_literal(n.value) for t in n.targets]
    names = [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return [name.id for name in names if name.id.isupper()]


def probes(tree):
    """Calls of `getattr` and `hasattr`."""
    calls = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
    names = [f.id for f in calls if isinstance(f, ast.Name)]
    return sum(name in ("getattr", "hasattr") for name in names)


def total_lines(folder):
    """All lines of a folder's Python files."""
    return sum(len(p.read_text().splitlines()) for p in folder.rglob("*.py"))


def sizes():
    """Figures of the package, the tests and the benchmark scripts."""
    texts = [path.read_text(encoding="utf-8") for path in _PACKAGE.rglob("*.py")]
    trees = [ast.parse(text) for text in texts]
    return {
        "lines of code": sum(map(code_lines, texts, trees)),
        "files": len(texts),
        "module constants": sum(len(module_constants(tree)) for tree in trees),
        "fields of Settings": len(fields(Settings)),
        "getattr + hasattr": sum(map(probes, trees)),
        "lines of tests": total_lines(_PACKAGE.parent / "tests"),
        "lines of benchmark scripts": total_lines(_PACKAGE.parent / "benchmarks"),
    }


def main():
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--list", choices=list(STEPS), help="name a step's functions")
    args = made.parse_args()
    warnings.simplefilter("ignore")
    if args.list is None:
        for name, value in sizes().items():
            print(f"{name:<55}{value:>15,}")
    for name, fit in STEPS.items():
        if args.list not in (None, name):
            continue
        with Trace() as trace:
            fit()
        figures = " / ".join(map(str, trace.figures))
        print(f"{'step, ' + name + ': files / functions / depth':<55}{figures:>15}")
        if args.list is None:
            continue
        for (place, line, function), n in sorted(trace.calls.items()):
            print(f"{n:>8}  {place}:{line}  {function}")


if __name__ == "__main__":
    main()
