"""Formulas in the manner of R: what columns and parameters they make of data.

The columns of terms are made by the library formulaic, an extra, of what
`_formula_terms` writes for it. What stands here says terms of groups in the parameters
of the hierarchical regressions.
"""

import re
import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np

from skboost._columns import column_of, declared_order, refuse_dates
from skboost.linear_model._formula_reader import (
    Node,
    calls_of,
    columns_of,
    refused,
    shown,
)
from skboost.linear_model._formula_terms import (
    ROW_FUNCTIONS,
    parsed,
    row_text,
    summands_of,
    terms_text,
)


@dataclass(frozen=True)
class Design:
    """What a formula makes of data frames, and the parameters that say it.

    Specs are formulaic's, which remember categories and knots: of the part without
    groups, of the effects of every term of groups, and of offsets. `aliases` are the
    names that they have for columns, `texts` what they call terms and what users do.
    `groups` are the columns of every factor.
    """

    formula: str
    specs: tuple
    offsets: tuple
    aliases: dict
    texts: dict
    groups: dict
    slopes: dict
    correlated: dict
    group_intercepts: dict
    fixed: tuple
    fit_intercept: bool
    nested: None = None

    @classmethod
    def of(cls, formula, parts, data, correlated=True):
        """The design of `sides_of` a formula, with categories and knots of some data.

        `correlated` is the parameter, for terms with one bar.
        """
        effects = [group.parts[0] for group in parts.groups]
        nodes = [node for _, node in parts.summands] + effects
        names = columns_of(*nodes, *parts.offsets)
        aliases = {name: f"_c{k}_" for k, name in enumerate(names)}
        calls = [call for node in nodes for call in calls_of(node)]
        texts = {row_text(call, aliases, formula): shown(call) for call in calls}
        texts |= {alias: name for name, alias in aliases.items()}
        frame = _frame(data, aliases, formula)

        def made(summands):
            matrix = _matrix(
                terms_text(summands, aliases, formula), frame, formula, texts
            )
            return matrix.model_spec, _named(matrix, texts)

        spec, fixed = made(parts.summands)
        terms = [
            (made(zip(*summands_of(node), strict=True)), group)
            for node, group in zip(effects, parts.groups, strict=True)
        ]
        offsets = [_alone(node, aliases, formula, frame)[0] for node in parts.offsets]
        groups = _said_of_groups(terms, formula, correlated)
        if not terms and not fixed.keys() - {"Intercept"}:
            raise refused(formula, "its right side has no column")
        for factor in groups["groups"].keys() & set(fixed):
            raise refused(
                formula,
                f"{factor!r} is a term and says groups. Copy the column under another "
                "name, or take one of them out",
            )
        return cls(
            formula=formula,
            specs=(spec, *(own for (own, _), _ in terms)),
            offsets=tuple(offsets),
            aliases=aliases,
            texts=texts,
            fixed=tuple(name for name in fixed if name != "Intercept"),
            fit_intercept="Intercept" in fixed,
            **groups,
        )

    @property
    def products(self):
        """Pairs, by term: names of columns that are products with numbers, which have
        an origin, and of columns that are products of some of the same factors.
        """
        spec = self.specs[0]
        terms = [
            (set(map(str, one.term.factors)), self._names(one.columns))
            for one in spec.structure
        ]
        kinds = {name: kind.value for name, (kind, _) in spec.encoder_state.items()}
        pairs = [
            (names, [name for less, held in terms if less < factors for name in held])
            for factors, names in terms
            if any(kinds.get(one) == "numerical" for one in factors)
        ]
        return [(names, lower) for names, lower in pairs if names and lower]

    def _names(self, columns):
        """The names that users know of formulaic's columns."""
        return [_known(str(column), self.texts) for column in columns]

    def frame(self, data, wanted=None):
        """The columns that the formula makes of a data frame, those of groups last.

        `wanted` are the factors whose columns are needed, None for all of them.
        """
        check_frame(data)
        frame = _frame(data, self.aliases, self.formula)
        columns = {}
        for spec in self.specs:
            matrix = _matrix(spec, frame, self.formula, self.texts)
            for name, column in _named(matrix, self.texts).items():
                if name != "Intercept":
                    columns.setdefault(name, column)
        for factor, parts in self.groups.items():
            missing = [part for part in parts if part not in data.columns]
            if missing and wanted is not None and factor not in wanted:
                continue
            check_columns(parts, data, self.formula)
            columns[factor] = _labels(data, parts, self.formula)
        return type(frame)(columns, index=frame.index)

    def offset_of(self, data):
        """The sum of the offsets that the formula has, None without any."""
        if not self.offsets:
            return None
        frame = _frame(data, self.aliases, self.formula)
        parts = [
            _matrix(spec, frame, self.formula, self.texts) for spec in self.offsets
        ]
        return sum(part.iloc[:, 0].to_numpy(dtype=float) for part in parts)


def sides_of(formula, data, grouped, taken=()):
    """The sides of a formula about a data frame, with all other columns for ``.``.

    `grouped` says whether there have to be terms of groups, or may be none; `taken` are
    columns with another part.
    """
    check_frame(data)
    parts = parsed(formula)
    if grouped and not parts.groups:
        raise refused(
            formula,
            "it has no term of groups, such as (1 | school). Regressions without "
            "groups have from_formula, too",
        )
    if parts.groups and not grouped:
        raise refused(
            formula,
            f"{shown(parts.groups[0])} is a term of groups, which the hierarchical "
            "regressions have, such as BoostedHierarchicalLinearRegression",
        )
    left = columns_of(parts.left) if parts.left else []
    factors = [name for group in parts.groups for name in columns_of(group.parts[1])]
    used = {*left, *factors, *columns_of(*parts.offsets), *taken}
    rest = [Node("column", name) for name in data.columns if name not in used]
    summands = tuple((sign, _with_rest(node, rest)) for sign, node in parts.summands)
    groups = tuple(
        group._replace(parts=(_with_rest(group.parts[0], rest), group.parts[1]))
        for group in parts.groups
    )
    parts = parts._replace(summands=summands, groups=groups)
    # Of several columns the left side is another number than each of them.
    alone = len(left) == 1 or (parts.left and parts.left.value == "cbind")
    both = sorted(set(left) & set(right_of(parts))) if alone else []
    if both:
        raise refused(
            formula,
            f"{both[0]!r} is on the left side, the response, and on the right side, "
            "which explains it. Take it out on the right",
        )
    return parts


def right_of(parts):
    """Columns on the right side, each once."""
    return columns_of(
        *(node for _, node in parts.summands), *parts.groups, *parts.offsets
    )


def _with_rest(node, rest):
    """A part with the sum of some columns where it says ``.``."""
    if node == Node("column", "."):
        return (
            Node("sum", "+" * len(rest), tuple(rest)) if rest else Node("number", "1")
        )
    return node._replace(parts=tuple(_with_rest(part, rest) for part in node.parts))


def response_of(formula, parts, data):
    """Responses that the left side says, and numbers of trials, None without them."""
    left = parts.left
    if left is None:
        raise ValueError(
            "y must be passed where formula has no left side, such as 'y ~ x'; got "
            f"formula={formula!r}."
        )
    if left.kind == "column":
        # As a series, which says the order of categories.
        return _series(data, left.value), None
    aliases = {name: f"_c{k}_" for k, name in enumerate(columns_of(left))}
    frame = _frame(data, aliases, formula)
    if left.kind != "call" or left.value != "cbind":
        return _alone(left, aliases, formula, frame)[1], None
    counts = [_alone(part, aliases, formula, frame)[1] for part in left.parts]
    return counts[0], counts[0] + counts[1]


# --- terms of groups


def _said_of_groups(terms, formula, correlated):
    """Parameters of the hierarchical regressions, from terms and their columns."""
    groups, slopes, lkj, intercepts = {}, {}, {}, {}
    for (_, effects), term in terms:
        own = [name for name in effects if name != "Intercept"]
        for parts in factors_of(term.parts[1], formula):
            factor, joint = ":".join(parts), term.value == "|"
            groups[factor] = parts
            if factor in slopes:
                # Effects of different terms are not correlated.
                lkj[factor] = False
            else:
                slopes[factor], intercepts[factor] = [], False
                lkj[factor] = correlated if joint else False
            apart = len(effects) == 1 or not joint
            slopes[factor] += own
            twice = len(set(slopes[factor])) < len(slopes[factor])
            twice |= intercepts[factor] and len(own) < len(effects)
            intercepts[factor] |= len(own) < len(effects)
            if twice or not (apart or lkj[factor]):
                raise refused(
                    formula,
                    f"the terms of {factor!r} repeat an effect, or join those that are "
                    "correlated with others. Write one term for each group",
                )
    return {
        "groups": groups, "slopes": slopes, "correlated": lkj,
        "group_intercepts": intercepts,
    }  # fmt: skip


def factors_of(node, formula):
    """Columns of the factors that ``a/b`` or ``a:b`` stands for: a and a:b, or a:b."""
    chain = node.parts if node.kind == "product" else (node,)
    columns, factors = (), []
    for part in chain:
        known = part.kind == "column" or {p.kind for p in part.parts} == {"column"}
        if not known or part.kind not in ("column", "cross") or "*" in node.value[:1]:
            raise refused(
                formula, f"{shown(node)} must be a column, or several as in a/b or a:b"
            )
        columns += tuple(columns_of(part))
        factors.append(columns)
    return factors


def _labels(data, parts, formula):
    """Labels of groups, of several columns as strings with a colon between."""
    check_values(parts, data, formula)
    columns = [_series(data, part) for part in parts]
    if len(parts) == 1:
        return columns[0].array
    texts = [column.astype(str).to_numpy(dtype=str) for column in columns]
    joined = texts[0]
    for text in texts[1:]:
        joined = np.char.add(np.char.add(joined, ":"), text)
    return joined


# --- frames


def check_frame(data):
    """Refuse what has no named columns."""
    if not hasattr(data, "columns") or not hasattr(data, "dtypes"):
        raise ValueError(
            "X must be a pandas or polars DataFrame where formula is given; got "
            f"{type(data).__name__}."
        )


def check_columns(names, data, formula):
    """Refuse a frame that lacks a column."""
    held = list(data.columns)
    count = Counter(held)
    for name in names:
        if count[name] != 1:
            raise ValueError(
                f"X must have the column {name!r} once, which formula={formula!r} "
                f"names; got columns {', '.join(map(repr, held[:8]))}."
            )


def check_values(names, data, formula):
    """Refuse missing values in some columns."""
    for name in names:
        missing = np.flatnonzero(_series(data, name).isna())
        if len(missing):
            raise ValueError(
                f"X must have a value in every row of the column {name!r}; got "
                f"{len(missing)} missing, the first in row {missing[0]}. Fill them or "
                "drop the rows."
            )


def _series(data, name):
    """A column as a series of pandas, which formulaic brings."""
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return data[name]
    place = list(data.columns).index(name)
    values, order = column_of(data, place), declared_order(data, place)
    return pd.Series(pd.Categorical(values, order, ordered=True) if order else values)


def _frame(data, aliases, formula):
    """Columns of a data frame under other names, as a frame of pandas."""
    import pandas as pd

    check_columns(aliases, data, formula)
    check_values(aliases, data, formula)
    columns = {alias: _series(data, name) for name, alias in aliases.items()}
    for name, alias in aliases.items():
        refuse_dates(columns[alias].to_numpy(), "X", name)
    index = pd.RangeIndex(len(data))
    return pd.DataFrame({a: one.set_axis(index) for a, one in columns.items()}, index)


# --- formulaic


def _alone(node, aliases, formula, frame):
    """The spec of a calculation, and its one column."""
    whole = node if node.kind == "call" else Node("call", "I", (node,))
    text = "0 + " + row_text(whole, aliases, formula)
    texts = {alias: name for name, alias in aliases.items()}
    matrix = _matrix(text, frame, formula, texts)
    if matrix.shape[1] != 1:
        raise refused(formula, f"{shown(node)} must be one column of numbers")
    return matrix.model_spec, matrix.iloc[:, 0].to_numpy(dtype=float)


def _named(matrix, texts):
    """Columns of a model matrix by the names that users know."""
    names = _known("\n".join(map(str, matrix.columns)), texts).split("\n")
    values = np.asarray(matrix, dtype=float).T
    return dict(zip(names, values, strict=True)) if len(values) else {}


def _known(text, texts):
    """A text of formulaic with the names that users know."""
    calls = [re.escape(one) for one in texts if not re.fullmatch(r"_c\d+_", one)]
    pattern = "|".join([*sorted(calls, key=len, reverse=True), r"_c\d+_"])
    return re.sub(pattern, lambda found: texts.get(found[0], found[0]), text)


def _matrix(of, frame, formula, texts):
    """formulaic's model matrix of what `_formula_terms` wrote, or of a spec."""
    try:
        import formulaic
        from formulaic.errors import DataMismatchWarning, FormulaicError
    except ImportError as error:
        raise ImportError(
            "formula needs the library formulaic: pip install 'skboost-vi[formula]'."
        ) from error
    try:
        # A category that the fit has not seen would be the first one in silence.
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataMismatchWarning)
            found = formulaic.Formula(of) if isinstance(of, str) else of
            return found.get_model_matrix(
                frame, na_action="ignore", context=ROW_FUNCTIONS
            )
    except DataMismatchWarning as error:
        new = re.search(r"\{.*\}", str(error))
        raise ValueError(
            f"X must have categories that fit has seen, under formula={formula!r}; got "
            f"{_known(new[0] if new else str(error), texts)}."
        ) from error
    except FormulaicError as error:
        text = _known(str(error).split("\n")[0].rstrip("."), texts)
        raise refused(formula, text) from error
