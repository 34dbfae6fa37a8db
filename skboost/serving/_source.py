"""The source text of functions together with everything that they need."""

import ast
import importlib
import inspect
from functools import lru_cache

_PACKAGE = "skboost"


def standalone(module, names):
    """Source text that defines names of a module without importing the package.

    Definitions are followed from name to name and from file to file, and written down
    before they are used.

    Parameters
    ----------
    module : str
        Dotted name of a module of this package.
    names : iterable of str

    Returns
    -------
    str
        Imports of other packages, then definitions.

    Raises
    ------
    RuntimeError
        If two modules define different things under one name: one file can not hold
        both. It is a mistake in this package.
    """
    found = _Found()
    for name in names:
        found.add(module, name)
    imports = "\n".join(sorted(found.imports))
    return imports + "\n\n\n" + "\n\n\n".join(found.texts) + "\n"


class _Found:
    """Definitions collected so far, in the order in which they have to stand."""

    def __init__(self):
        self.imports, self.texts, self._homes = set(), [], {}

    def add(self, module, name):
        text, definitions = _definitions(module)
        node = definitions.get(name)
        if node is None:  # a builtin, or a name inside of a function
            return
        if isinstance(node, ast.ImportFrom) and node.module.startswith(_PACKAGE):
            self.add(node.module, name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.imports.add(_import(node, name))
        elif self._is_new(module, name, node):
            for used in _names_in(node):
                self.add(module, used)
            self.texts.append(_text(text, node))

    def _is_new(self, module, name, node):
        home = self._homes.setdefault(name, (module, node.lineno))
        if home[0] != module:
            raise RuntimeError(f"{home[0]} and {module} both define {name}.")
        if (module, node.lineno) in self._homes:
            return False
        self._homes[module, node.lineno] = home
        return True


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
            found |= {n: node for t in node.targets for n in _targets(t)}
    return text, found


def _targets(target):
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


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
