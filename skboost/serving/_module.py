"""A fitted model as one Python file that needs NumPy only."""

import ast
import base64
import importlib
import inspect
from dataclasses import fields, is_dataclass
from functools import lru_cache
from itertools import chain
from numbers import Real

import numpy as np

from skboost._version import __version__
from skboost.posterior import write_atomically
from skboost.serving._steps import in_order

_HEAD = '''"""Predictions of a fitted {estimator}: NumPy is all that this file needs.

Written by skboost {version}, whose functions in it are under its BSD-3-Clause licence.
X is an array of shape (n_samples, n_features), or a data frame, whose columns are found
by name: {functions}.
"""

import base64

'''
_ARRAY = '''def _array(text, dtype, shape):
    """An array from its bytes."""
    data = base64.b64decode(text)
    return np.frombuffer(data, dtype=dtype).reshape(shape)
'''

_FUNCTION = """

def {name}(X, *args, **kwargs):
    return _MODEL.{name}({rows}, *args, **kwargs)"""


def write_module(path, model, estimator, before=None, names=None):
    """Write a plain model of a class `estimator`, after steps `Before` it, as
    Python."""
    known = ("predict", "predict_proba", "score_samples")
    functions = [name for name in known if hasattr(model, name)]
    signatures = (inspect.signature(getattr(model, name)) for name in functions)
    pairs = zip(functions, signatures, strict=True)
    listed = " and ".join(f"`{name}{signature}`" for name, signature in pairs)
    head = _HEAD.format(estimator=estimator, version=__version__, functions=listed)
    kinds = {type(part) for part in chain(_parts(model), _parts(before))}
    needed = sorted((kind.__module__, kind.__name__) for kind in kinds)
    needed.append((in_order.__module__, in_order.__name__))
    lines = [f"_NAMES = {names!r}", f"_MODEL = {_literal(model)}"]
    rows = "in_order(X, _NAMES)"
    if before is not None:
        lines.append(f"_BEFORE = {_literal(before)}")
        rows = f"_BEFORE.rows({rows})"
    lines += [_FUNCTION.format(name=name, rows=rows) for name in functions]
    parts = [head + standalone(needed), _ARRAY, "\n".join(lines) + "\n"]
    data = "\n\n".join(parts).encode("utf-8")
    write_atomically(path, lambda file: file.write(data))


def _parts(value):
    """A dataclass and all that it is made of."""
    if isinstance(value, tuple):
        return chain.from_iterable(map(_parts, value))
    if not is_dataclass(value):
        return ()
    inner = (_parts(vars(value)[field.name]) for field in fields(value))
    return chain([value], *inner)


def _literal(value):
    """A value as an expression."""
    if is_dataclass(value):
        pairs = ((f.name, _literal(vars(value)[f.name])) for f in fields(value))
        text = ", ".join(f"{name}={text}" for name, text in pairs)
        return f"{type(value).__name__}({text})"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_literal(part)}, " for part in value) + ")"
    if isinstance(value, np.ndarray):
        return _array_literal(value)
    if isinstance(value, Real) and not isinstance(value, bool):
        # As text infinity has no literal.
        return f"float({str(float(value))!r})" if value % 1 else repr(int(value))
    return repr(value)


def _array_literal(values):
    if values.dtype.kind in "biuf":
        values = np.ascontiguousarray(values)
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        text = base64.encodebytes(little.tobytes()).decode("ascii")
        return f'_array("""{text}""", {little.dtype.str!r}, {values.shape})'
    labels = values.tolist()
    if not all(isinstance(label, str | bool | int | float) for label in labels):
        raise ValueError(
            "export writes labels that are strings, numbers or booleans; got "
            f"{sorted({type(label).__name__ for label in labels})}. Fit with other "
            "labels."
        )
    kind = "object" if values.dtype.kind == "O" else repr(values.dtype.str)
    return f"np.array({labels!r}, dtype={kind})"


# --- source text of functions, with everything that they need


def standalone(names):
    """Source text that defines pairs of a module and a name without the package.

    Definitions are followed from file to file; two of the same name are a RuntimeError.
    """
    imports, texts, homes, begun = set(), [], {}, set()

    def add(module, name):
        text, definitions = _definitions(module)
        node = definitions.get(name)
        if node is None:  # a builtin, or a name inside of a function
            return
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skboost"):
            add(node.module, name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.add(_import(node, name))
        elif homes.setdefault(name, module) != module:
            raise RuntimeError(f"{homes[name]} and {module} both define {name}.")
        elif node not in begun:
            begun.add(node)
            for used in _names_in(node):
                add(module, used)
            texts.append(_text(text, node))

    for module, name in names:
        add(module, name)
    return "\n\n\n".join(["\n".join(sorted(imports)), *texts]) + "\n"


def _source_of(module):
    return inspect.getsource(importlib.import_module(module))


@lru_cache
def _definitions(module):
    """Source of a module, and the statement that defines each of its names."""
    text = _source_of(module)
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name: node for alias in node.names}
        elif isinstance(node, ast.Assign):
            defined = chain.from_iterable(map(ast.walk, node.targets))
            found |= {n.id: node for n in defined if isinstance(n, ast.Name)}
    return text, found


def _names_in(node):
    """Names that a definition reads, in the order of the text."""
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return dict.fromkeys(n.id for n in names if isinstance(n.ctx, ast.Load))


def _import(node, name):
    """The statement that imports this one name."""
    alias = next(a for a in node.names if (a.asname or a.name) == name)
    what = alias.name + (f" as {alias.asname}" if alias.asname else "")
    if isinstance(node, ast.Import):
        return f"import {what}"
    return f"from {node.module} import {what}"


def _text(text, node):
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
