"""Runs of an engine as plain arrays and JSON, and back: what checkpoints hold.

Only the classes of `_CLASSES` are written and made again, by their fields: reading
never looks up anything else and runs no code of the file. Objects that several places
share are written once and shared again, so that a run that goes on asks the same
questions of the same objects.
"""

from dataclasses import fields, is_dataclass

import numpy as np

from skboost._callbacks import Run
from skboost.approximation import Estimate, FreshDraws, Mixture, RemainingKL
from skboost.approximation._diagnostics import DualityGap
from skboost.approximation._pooled_draws import PooledDraws
from skboost.approximation._root_draws import RootDraws
from skboost.approximation._roots import Roots
from skboost.boosting._root_combination import RootIterate
from skboost.boosting._simplex import SimplexIterate
from skboost.boosting._state import Info, Move, State
from skboost.conjugate._topics import LocalFactors
from skboost.families import VariationalFamily
from skboost.modes import Modes
from skboost.posterior._storage import family_from, family_record, is_public
from skboost.svi._engine import SVIInfo, SVIState

_CLASSES = {
    cls.__name__: cls
    for cls in (
        DualityGap, Estimate, FreshDraws, Info, LocalFactors, Mixture, Modes, Move,
        PooledDraws, RemainingKL, RootDraws, RootIterate, Roots, Run, SVIInfo,
        SVIState, SimplexIterate, State,
    )
}  # fmt: skip
# What is computed again from the rest, to the same bits.
_DERIVED = {"ahead"}
_PLAIN = (type(None), bool, int, float, str)


class Packer:
    """Trees of a run's objects as JSON, beside a list of arrays.

    Parameters
    ----------
    family : object
        The engine's own family: where it is not one of the package's public ones, it
        is left out of the file and taken from the engine again.

    Attributes
    ----------
    arrays : list of ndarray
    objects : list
        Records of shared objects, each after those that it needs.
    """

    def __init__(self, family):
        self._family = family
        self.arrays, self.objects = [], []
        # Objects stay alive while their identities are keys.
        self._seen = {}

    def pack(self, value):
        """A value as JSON can hold it."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, np.ndarray | np.generic):
            return self._once(value, self._array)
        if type(value).__name__ in _CLASSES and type(value) in _CLASSES.values():
            return self._once(value, self._object)
        if isinstance(value, VariationalFamily) and is_public(value):
            return {"family": family_record(value)}
        if type(value) is type(self._family):
            return {"family": None}
        for name, kind in (("tuple", tuple), ("list", list)):
            if type(value) is kind:
                return {name: [self.pack(part) for part in value]}
        if type(value) is dict:
            return {"dict": [[key, self.pack(part)] for key, part in value.items()]}
        raise TypeError(f"a checkpoint can not hold a {type(value).__qualname__}.")

    def _once(self, value, pack):
        if id(value) not in self._seen:
            self._seen[id(value)] = (value, pack(value))
        return self._seen[id(value)][1]

    def _array(self, value):
        array = np.asarray(value)
        if array.dtype.kind not in "biufcU":
            raise TypeError(f"a checkpoint can not hold arrays of {array.dtype}.")
        self.arrays.append(array)
        kind = "scalar" if isinstance(value, np.generic) else "array"
        return {kind: len(self.arrays) - 1}

    def _object(self, value):
        names = _fields(type(value))
        packed = {name: self.pack(getattr(value, name)) for name in names}
        self.objects.append([type(value).__name__, packed])
        return {"object": len(self.objects) - 1}


class Unpacker:
    """The values that a `Packer` packed.

    Parameters
    ----------
    objects : list
    arrays : dict of str to ndarray
        By ``array_0``, ``array_1``, ...
    family : object
        As in `Packer`.
    """

    def __init__(self, objects, arrays, family):
        self._arrays, self._family = arrays, family
        self._objects, self._made = objects, []

    def unpack(self, packed):
        """The value of a record of `Packer.pack`."""
        while len(self._made) < len(self._objects):
            name, record = self._objects[len(self._made)]
            cls = _CLASSES[name]
            found = {field: self.unpack_part(record[field]) for field in _fields(cls)}
            self._made.append(cls(**found))
        return self.unpack_part(packed)

    def unpack_part(self, packed):
        """The same where the objects that it needs are there."""
        if not isinstance(packed, dict):
            return packed
        ((kind, value),) = packed.items()
        return _MAKERS[kind](self, value)

    def _array(self, index):
        return self._arrays[f"array_{index}"]

    def _scalar(self, index):
        return self._array(index)[()]

    def _object(self, index):
        return self._made[index]

    def _own_or_public_family(self, record):
        return self._family if record is None else family_from(record)

    def _tuple(self, parts):
        return tuple(self.unpack_part(part) for part in parts)

    def _list(self, parts):
        return [self.unpack_part(part) for part in parts]

    def _dict(self, pairs):
        return {key: self.unpack_part(part) for key, part in pairs}


_MAKERS = {
    "array": Unpacker._array,
    "scalar": Unpacker._scalar,
    "object": Unpacker._object,
    "family": Unpacker._own_or_public_family,
    "tuple": Unpacker._tuple,
    "list": Unpacker._list,
    "dict": Unpacker._dict,
}


def _fields(cls):
    names = [f.name for f in fields(cls)] if is_dataclass(cls) else cls._fields
    return [name for name in names if name not in _DERIVED]
