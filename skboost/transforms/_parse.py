"""From what a user writes as ``constraints`` to transforms and their coordinates."""

from collections.abc import Mapping
from numbers import Integral
from numbers import Real as RealNumber

import numpy as np

from skboost.transforms._base import Transform
from skboost.transforms._blocks import Correlation, Ordered, Simplex
from skboost.transforms._elementwise import (
    Interval,
    LowerBound,
    Periodic,
    Real,
    Scale,
    interval,
)

TRANSFORMS = {
    "real": Real,
    "positive": LowerBound,
    "unit_interval": Interval,
    "periodic": Periodic,
    "simplex": Simplex,
    "ordered": Ordered,
    "correlation": Correlation,
}


def as_transform(value):
    """The transform of one entry: a name, None, a pair (low, high), or a tuple that
    begins with a name."""
    if value is None:
        return Real()
    if isinstance(value, Transform):
        return value
    if isinstance(value, str) and value in TRANSFORMS:
        return TRANSFORMS[value]()
    named = isinstance(value, tuple | list) and len(value) > 1
    if named and isinstance(value[0], str):
        name, *numbers = value
        known = all(_is_number(number) and np.isfinite(number) for number in numbers)
        if known and name == "scale" and len(numbers) == 1 and numbers[0] > 0.0:
            return Scale(*numbers)
        if known and name == "periodic" and len(numbers) in (2, 3):
            return _checked_period(*numbers)
    elif _is_interval(value):
        return _checked_interval(*value)
    raise ValueError(
        f"constraints: an entry must be one of {list(TRANSFORMS)}, None, a pair "
        "(low, high) of numbers, None for an open end, ('scale', size) with a "
        "positive size, or ('periodic', low, high) with finite ends; got "
        f"{value!r}."
    )


def _is_interval(value):
    """Two entries, each a number or None."""
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(end is None or _is_number(end) for end in value)
    )


def _is_number(value):
    return isinstance(value, RealNumber) and not isinstance(value, bool | np.bool_)


def _checked_interval(low, high):
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    # Also False for NaN, for (inf, inf), and where the width overflows.
    if not (low < high and low < np.inf and high > -np.inf):
        raise ValueError(
            f"constraints: (low, high) needs low < high; got ({low}, {high})."
        )
    if np.isfinite(low) and np.isfinite(high) and not np.isfinite(high - low):
        raise ValueError(
            f"constraints: the interval ({low}, {high}) is too wide for floating "
            "point. Use None for an open end."
        )
    return interval(float(low), float(high))


def _checked_period(low, high, cut=None):
    _checked_interval(low, high)
    if cut is not None and not low <= cut < high:
        raise ValueError(
            "constraints: ('periodic', low, high, cut) needs low <= cut < high; got "
            f"({low}, {high}, {cut}). Leave the cut out to have it found."
        )
    return Periodic(low, high, cut)


def parse(constraints, dim, names=None):
    """Transforms with their coordinates; one elementwise transform for all that
    share it."""
    elementwise, blocks = {}, []
    taken = np.zeros(dim, dtype=bool)
    for value, coordinates in _entries(constraints, dim, names):
        transform = as_transform(value)
        _claim(taken, coordinates)
        problem = transform.problem_with(len(coordinates))
        if problem:
            raise ValueError(
                f"constraints: {transform!r} needs {problem}; got {len(coordinates)}, "
                f"{tuple(coordinates)}. Pass a tuple of coordinates as key."
            )
        if transform.elementwise:
            elementwise.setdefault(transform, []).extend(coordinates)
        else:
            blocks.append((transform, tuple(coordinates)))
    free = np.flatnonzero(~taken).tolist()
    if free:
        elementwise.setdefault(Real(), []).extend(free)
    shared = [(transform, tuple(sorted(c))) for transform, c in elementwise.items()]
    return sorted(shared, key=lambda part: part[1]) + sorted(blocks, key=lambda p: p[1])


def _entries(constraints, dim, names):
    """Pairs of an entry and the coordinates that it is for."""
    if constraints is None:
        return []
    if isinstance(constraints, Mapping):
        return [
            (value, _coordinates(key, dim, names)) for key, value in constraints.items()
        ]
    everything = isinstance(constraints, str | Transform)
    if everything or isinstance(constraints, tuple) and _is_interval(constraints):
        return [(constraints, list(range(dim)))]
    if not isinstance(constraints, list | tuple) or len(constraints) != dim:
        raise ValueError(
            "constraints must be a dict, one string or tuple (low, high) for all "
            f"coordinates, or a sequence of length {dim}, one each; got "
            f"{constraints!r}."
        )
    for entry in constraints:
        if isinstance(entry, str) and not as_transform(entry).elementwise:
            raise ValueError(
                f"constraints: {entry!r} is for several coordinates together and can "
                "not be an entry of a sequence. Pass a dict whose key is a tuple of "
                "coordinates."
            )
    return [(entry, [i]) for i, entry in enumerate(constraints)]


def _coordinates(key, dim, names):
    """Indices of the coordinates that a key of the dict means."""
    if isinstance(key, slice):
        return list(range(dim)[key])
    if isinstance(key, tuple | list | range | np.ndarray):
        return [_coordinate(one, dim, names) for one in key]
    return [_coordinate(key, dim, names)]


def _coordinate(key, dim, names):
    if isinstance(key, str):
        if names is None or key not in names:
            known = "there are none" if names is None else list(names)
            raise ValueError(
                f"constraints: a key must be one of the names ({known}) or an index; "
                f"got {key!r}."
            )
        return list(names).index(key)
    whole = isinstance(key, Integral) and not isinstance(key, bool | np.bool_)
    if not whole or not -dim <= key < dim:
        raise ValueError(
            f"constraints: a coordinate must be an index below dim={dim} or a name; "
            f"got {key!r}."
        )
    return int(key) % dim


def _claim(taken, coordinates):
    if not coordinates:
        raise ValueError(
            "constraints: a key must mean at least one coordinate; got an empty one."
        )
    for i in coordinates:
        if taken[i]:
            raise ValueError(
                f"constraints: coordinate {i} is named more than once. Give each "
                "coordinate one constraint."
            )
        taken[i] = True
