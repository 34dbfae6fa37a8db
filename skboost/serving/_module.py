"""A fitted model as one Python file that needs NumPy only."""

import base64
from dataclasses import fields, is_dataclass
from itertools import chain
from numbers import Real

import numpy as np

from skboost._files import write_atomically
from skboost.serving import _plain
from skboost.serving._source import standalone

_HEAD = '''"""Predictions of a fitted {estimator}: NumPy is all that this file needs.

Written by skboost {version}, whose functions in it are under its BSD-3-Clause licence.
{functions} take an array of shape (n_samples, n_features).
"""

import base64

'''
_ARRAY = '''def _array(text, dtype, shape):
    """An array from its bytes."""
    data = base64.b64decode(text)
    return np.frombuffer(data, dtype=dtype).reshape(shape)
'''


def write_module(path, model, estimator):
    """Write a model of `_plain` as a Python file, whole or not at all.

    Parameters
    ----------
    path : str or os.PathLike
    model : dataclass of `_plain`
    estimator : str
        Name of the class that was fitted.
    """
    text = module_text(model, estimator)
    write_atomically(path, lambda file: file.write(text.encode("utf-8")))


def module_text(model, estimator):
    """Source text of a module with the predictions of a model as functions."""
    from skboost import __version__

    functions = [n for n in ("predict", "predict_proba") if hasattr(model, n)]
    listed = " and ".join(f"`{name}`" for name in functions)
    head = _HEAD.format(estimator=estimator, version=__version__, functions=listed)
    names = sorted({type(part).__name__ for part in _parts(model)})
    lines = [f"_MODEL = {_literal(model)}"]
    lines += [f"{name} = _MODEL.{name}" for name in functions]
    source = standalone(_plain.__name__, names)
    return head + source + "\n\n" + _ARRAY + "\n\n" + "\n".join(lines) + "\n"


def _parts(value):
    """A dataclass and all that it is made of."""
    if isinstance(value, tuple):
        return chain.from_iterable(map(_parts, value))
    if not is_dataclass(value):
        return ()
    inner = (_parts(getattr(value, field.name)) for field in fields(value))
    return chain([value], *inner)


def _literal(value):
    """A value as an expression."""
    if is_dataclass(value):
        pairs = ((f.name, _literal(getattr(value, f.name))) for f in fields(value))
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
