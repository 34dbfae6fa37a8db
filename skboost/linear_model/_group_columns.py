"""Which columns of X say groups, have coefficients and slopes, as users write it."""

from collections.abc import Hashable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from skboost.targets import LKJPrior


class Columns(NamedTuple):
    """Names of all columns of X, numbers that are made of them, and by the name of a
    factor its columns, the positions among `numbers` that have slopes, whether it has
    intercepts, and the prior of its correlations, None without any.

    Of a column of numbers ``numbers`` holds its position and None; of one of categories
    its position and every label but the first of `labels`, whose number is 1 where the
    label stands. `fixed` are the positions among `numbers` with a coefficient.
    """

    names: tuple
    numbers: tuple
    factors: dict
    slopes: dict
    intercepts: dict
    correlated: dict
    fixed: tuple
    labels: dict

    @property
    def features(self):
        """Names of the columns with a coefficient."""
        return tuple(self.name_of(*self.numbers[k]) for k in self.fixed)

    def name_of(self, position, label=None):
        """Of a number, as `sklearn.preprocessing.OneHotEncoder` has it."""
        name = self.names[position]
        return name if label is None else f"{name}_{label}"

    def effects_of(self, factor):
        """Names of the effects of every group of a factor."""
        slopes = [self.name_of(*self.numbers[k]) for k in self.slopes[factor]]
        return ["intercept"] * self.intercepts[factor] + slopes

    def scales_of(self, factor):
        """Names of the standard deviations of these effects."""
        effects = self.effects_of(factor)
        first = [f"sd({factor})"] * self.intercepts[factor]
        return first + [f"sd({factor}: {one})" for one in effects[len(first) :]]


def resolve(names, estimator, labels_at):
    """`Columns` of an estimator's parameters, for the names of all columns of X.

    ``labels_at(position)`` are those of a column of categories, None of another.
    """
    place = {name: i for i, name in enumerate(names)}
    factors, used = _factors(place, estimator.groups, estimator.nested)
    labels = {i: labels_at(i) for i in range(len(names)) if i not in used}
    numbers = tuple((i, one) for i in labels for one in (labels[i] or (0, None))[1:])
    labels = {i: found for i, found in labels.items() if found}
    slopes = _slopes(estimator.slopes, factors, place, numbers)
    intercepts = _intercepts(estimator.group_intercepts, factors, place, slopes)
    n_effects = {name: intercepts[name] + len(slopes[name]) for name in factors}
    correlated = _correlated(estimator.correlated, factors, place, n_effects)
    fixed = tuple(range(len(numbers)))
    if estimator.fixed is not None:
        chosen = _numeric("fixed", estimator.fixed, place, numbers)
        fixed = tuple(sorted(chosen))
    return Columns(
        tuple(names), numbers, factors, slopes, intercepts, correlated, fixed, labels
    )


def _factors(place, groups, nested):
    """Columns of every factor, by its name, and all columns that say groups."""
    names = list(place)
    used = set(_positions("groups", groups, place))
    factors, inner, above = {}, set(), set()
    for chain in _as_list("nested", nested):
        columns = [_position(key, "nested", place) for key in _chain(chain)]
        inner.update(columns[1:])
        used.update(columns)
        above.update(combinations(columns, 2))
        circular = [pair for pair in above if pair[::-1] in above]
        if circular:
            outer, within = (names[c] for c in sorted(circular[0]))
            raise ValueError(
                f"nested must not be circular; got {outer!r} within {within!r} and the "
                "other way round."
            )
        for depth in range(1, len(columns) + 1):
            label = ":".join(names[c] for c in columns[:depth])
            factors[label] = tuple(columns[:depth])
    if groups is not None and not used:
        raise ValueError(
            f"groups must name columns of X; got {groups!r}, which names none. None is "
            "a model without groups."
        )
    for column in sorted(used):
        if column not in inner:
            factors.setdefault(names[column], (column,))
    return factors, used


def _as_list(name, value):
    """A parameter that lists columns, None as nothing."""
    if value is None:
        return []
    if isinstance(value, str | int | np.integer):
        return [value]
    try:
        return list(value)
    except TypeError:
        raise ValueError(
            f"{name} must be a list of columns of X, by name or position; got "
            f"{value!r}."
        ) from None


def _chain(chain):
    if isinstance(chain, str) or not isinstance(chain, tuple | list) or len(chain) < 2:
        raise ValueError(
            "nested must hold tuples of two columns or more, the outer one first, such "
            f"as [('school', 'class')]; got {chain!r}."
        )
    return chain


def _positions(parameter, columns, place, of=""):
    where = [_position(c, parameter, place) for c in _as_list(parameter, columns)]
    if len(set(where)) < len(where):
        raise ValueError(
            f"{parameter} must name every column{of} once; got {columns!r}."
        )
    return where


def _position(key, parameter, place):
    """Position of a column that is given by its name or its position."""
    if isinstance(key, bool | np.bool_) or not isinstance(key, Hashable):
        raise ValueError(f"{parameter} must name columns of X; got {key!r}.")
    if isinstance(key, int | np.integer):
        if -len(place) <= key < len(place):
            return int(key) % len(place)
    elif key in place:
        return place[key]
    raise ValueError(
        f"{parameter} must name columns of X; got {key!r}. X has the columns "
        f"{', '.join(map(repr, list(place)[:8]))}{', ...' if len(place) > 8 else ''}."
    )


def by_factor(parameter, value, factors, place):
    """A parameter that is a dict from factors, with names of factors as keys."""
    names, found = list(place), {}
    for key, one in value.items():
        known = isinstance(key, int | np.integer) and -len(names) <= key < len(names)
        name = names[key] if known else key
        if name not in factors:
            raise ValueError(
                f"{parameter} must have keys among the factors {list(factors)}; got "
                f"{key!r}. Name the column in groups, too."
            )
        found[name] = one
    return found


def _numeric(parameter, columns, place, numbers, of=""):
    """Positions among the numbers of those of some columns, each named once."""
    where = _positions(parameter, columns, place, of)
    names, found = list(place), []
    for column in where:
        own = [k for k, (i, _) in enumerate(numbers) if i == column]
        if not own:
            raise ValueError(
                f"{parameter} must name columns of X that are features; got "
                f"{names[column]!r}, which says groups."
            )
        found += own
    return tuple(found)


def _slopes(slopes, factors, place, numbers):
    places = {name: () for name in factors}
    if slopes is None:
        return places
    if not isinstance(slopes, dict):
        raise ValueError(
            "slopes must be a dict from factors to lists of columns, such as "
            f"{{'county': ['floor']}}; got {slopes!r}."
        )
    for name, columns in by_factor("slopes", slopes, factors, place).items():
        places[name] = _numeric("slopes", columns, place, numbers, f" of {name!r}")
    return places


def _intercepts(chosen, factors, place, slopes):
    """Whether each factor has intercepts; without slopes it needs them."""
    if not isinstance(chosen, dict):
        # Of all factors that have slopes.
        chosen = {name: chosen or not slopes[name] for name in factors}
    chosen = by_factor("group_intercepts", chosen, factors, place)
    for name, wanted in chosen.items():
        if not isinstance(wanted, bool | np.bool_):
            raise ValueError(
                f"group_intercepts must be True or False; got {wanted!r} of {name!r}."
            )
        if not wanted and not slopes[name]:
            raise ValueError(
                f"group_intercepts must be True of {name!r}, which has no slopes: its "
                "groups would have no effects. Name columns of it in slopes."
            )
    return {name: bool(chosen.get(name, True)) for name in factors}


def _correlated(chosen, factors, place, n_effects):
    """The prior of the correlations of each factor with several effects, or None."""
    if not isinstance(chosen, dict):
        chosen = dict.fromkeys(factors, chosen)
    chosen = by_factor("correlated", chosen, factors, place)
    for name, one in chosen.items():
        if not isinstance(one, bool | np.bool_ | LKJPrior):
            raise ValueError(
                f"correlated must be True, False or an LKJPrior; got {one!r} of "
                f"{name!r}."
            )
    return {
        name: _lkj(chosen.get(name, True)) if n_effects[name] > 1 else None
        for name in factors
    }


def _lkj(chosen):
    if isinstance(chosen, LKJPrior):
        return chosen.checked()
    return LKJPrior() if chosen else None
