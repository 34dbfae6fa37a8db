"""Formulas with terms of groups, in the manner of lme4: what columns they make of data.

The part without groups, and the effects within a term of groups, are read by the
library formulaic, an extra. What stands here finds the terms ``(effects | group)`` and
says them in the parameters of the hierarchical regressions.
"""

import re
import warnings
from dataclasses import dataclass
from itertools import accumulate

import numpy as np


@dataclass(frozen=True)
class Term:
    """``(effects | group)``; with two bars the effects are not correlated."""

    effects: str
    group: str
    correlated: bool


@dataclass(frozen=True)
class Design:
    """What a formula makes of data frames, and the parameters that say it.

    Specs are formulaic's, which remember categories and knots. `terms` are pairs of a
    factor and the spec of its effects.
    """

    formula: str
    response: object
    numbers: object
    terms: tuple
    groups: tuple
    slopes: dict
    correlated: dict
    group_intercepts: dict
    fixed: tuple
    fit_intercept: bool
    nested: None = None

    @classmethod
    def of(cls, formula, data, correlated=True):
        """The design of a formula, with categories and knots of some data.

        `correlated` is the parameter, for terms with one bar.
        """
        check_frame(data)
        response, fixed, terms = parsed(formula)
        numbers = _matrix(fixed, data, formula)
        found, slopes, lkj, intercepts = [], {}, {}, {}
        for factor, term in _by_factor(terms):
            matrix = _matrix(term.effects, data, formula)
            found.append((factor, matrix.model_spec))
            effects = list(matrix.columns)
            own = [name for name in effects if name != "Intercept"]
            if factor in slopes:
                # Effects of different terms are not correlated.
                lkj[factor] = False
            else:
                slopes[factor], intercepts[factor] = [], False
                lkj[factor] = correlated if term.correlated else False
            apart = len(effects) == 1 or not term.correlated
            slopes[factor] += own
            twice = len(set(slopes[factor])) < len(slopes[factor])
            twice |= intercepts[factor] and len(own) < len(effects)
            intercepts[factor] |= len(own) < len(effects)
            if twice or not (apart or lkj[factor]):
                raise _refused(
                    formula,
                    f"the terms of {factor!r} repeat an effect, or join those that are "
                    "correlated with others. Write one term for each group",
                )
        return cls(
            formula=formula,
            response=response,
            numbers=numbers.model_spec,
            terms=tuple(found),
            groups=tuple(slopes),
            slopes=slopes,
            correlated=lkj,
            group_intercepts=intercepts,
            fixed=tuple(name for name in numbers.columns if name != "Intercept"),
            fit_intercept="Intercept" in numbers.columns,
        )

    def frame(self, data, population=False):
        """The columns that the formula makes of a data frame, those of groups last."""
        check_frame(data)
        specs = [self.numbers, *(spec for _, spec in self.terms)]
        columns = {}
        for spec in specs:
            matrix = _matrix(spec, data, self.formula)
            for name in matrix.columns:
                if name != "Intercept":
                    columns.setdefault(name, matrix[name].to_numpy(dtype=float))
        for factor in self.groups:
            parts = factor.split(":")
            missing = [part for part in parts if part not in data.columns]
            if missing and population:
                continue
            if missing:
                raise _lacking(missing[0], data, self.formula)
            columns[factor] = _labels(data, parts)
        return type(data)(columns, index=data.index)

    def response_of(self, data):
        """The responses that the left side says."""
        if self.response is None:
            raise ValueError(
                "y must be passed where formula has no left side, such as "
                f"'y ~ x + (1 | g)'; got formula={self.formula!r}."
            )
        if self.response in data.columns:
            # As a series, which says the order of categories.
            return data[self.response]
        matrix = _matrix(f"0 + {self.response}", data, self.formula)
        if matrix.shape[1] != 1:
            raise _refused(self.formula, "its left side must be one column")
        return matrix.iloc[:, 0].to_numpy()


def check_frame(data):
    """Refuse what has no named columns."""
    if not hasattr(data, "iloc"):
        raise ValueError(
            "X must be a pandas DataFrame where formula is given; got "
            f"{type(data).__name__}."
        )


def parsed(formula):
    """The left side or None, the part without groups, and all `Term` of groups."""
    left, tilde, right = formula.partition("~")
    if not tilde:
        left, right = "", formula
    rest, terms, depth, begin = [], [], 0, 0
    for place, sign in enumerate(right):
        if sign == "(":
            begin = place if depth == 0 else begin
            depth += 1
        elif sign == ")":
            depth -= 1
            inside = right[begin + 1 : place]
            if depth == 0 and "|" in _outside_parentheses(inside):
                terms.append(_term(inside, formula))
            elif depth == 0:
                rest.append(right[begin : place + 1])
        elif depth == 0:
            rest.append(sign)
        if depth < 0:
            break
    if depth:
        raise _refused(formula, "its parentheses do not match")
    if not terms:
        raise _refused(formula, "it has no term of groups, such as (1 | school)")
    # A term that was taken out leaves the sign before it.
    fixed = re.sub(r"\+\s*(?=\+|$)", "", re.sub(r"^\s*\+", "", "".join(rest).strip()))
    fixed = re.sub(r"^\s*\+", "", fixed).strip()
    return left.strip() or None, fixed or "1", terms


def _outside_parentheses(text):
    depths = accumulate((sign == "(") - (sign == ")") for sign in text)
    return "".join(s for s, depth in zip(text, depths, strict=True) if depth == 0)


def _term(inside, formula):
    effects, bars, group = re.split(r"(\|\|?)", inside, maxsplit=1)
    group = group.strip()
    if not re.fullmatch(r"[^\W\d][\w.]*(\s*[:/]\s*[^\W\d][\w.]*)*", group):
        raise _refused(
            formula, f"{group!r} must be a column, or several as in a/b or a:b"
        )
    return Term(effects.strip() or "1", group, bars == "|")


def factors_of(group):
    """Factors that ``a/b`` or ``a:b`` stands for: a and a:b, or a:b."""
    chain = [":".join(re.split(r"\s*:\s*", part.strip())) for part in group.split("/")]
    return [":".join(chain[: k + 1]) for k in range(len(chain))]


def _by_factor(terms):
    """Pairs of a factor and a term of it."""
    return [(factor, term) for term in terms for factor in factors_of(term.group)]


def _labels(data, parts):
    """Labels of groups, of several columns as strings with a colon between."""
    if len(parts) == 1:
        return data[parts[0]].array
    columns = [data[part] for part in parts]
    for part, column in zip(parts, columns, strict=True):
        if column.isna().any():
            raise ValueError(
                f"X must have a label in every row of the group column {part!r}. Fill "
                "them, for example with a label of their own, or drop the rows."
            )
    texts = [column.astype(str).to_numpy(dtype=str) for column in columns]
    joined = texts[0]
    for text in texts[1:]:
        joined = np.char.add(np.char.add(joined, ":"), text)
    return joined


def _matrix(of, data, formula):
    """formulaic's model matrix of a formula without groups, or of a spec."""
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
            if isinstance(of, str):
                found = formulaic.Formula(of)
                missing = found.required_variables - set(data.columns)
            else:
                found, missing = of, of.required_variables - set(data.columns)
            if missing:
                raise _lacking(sorted(map(str, missing))[0], data, formula)
            return found.get_model_matrix(data, na_action="ignore", context={})
    except DataMismatchWarning as error:
        raise ValueError(
            f"X must have categories that fit has seen, under formula={formula!r}: "
            f"{error}"
        ) from error
    except FormulaicError as error:
        text = str(error).split("\n")[0].rstrip(".")
        raise _refused(formula, text) from error


def _lacking(name, data, formula):
    return ValueError(
        f"X must have the column {name!r}, which formula={formula!r} names; got "
        f"columns {', '.join(map(repr, list(data.columns)[:8]))}."
    )


def _refused(formula, why):
    return ValueError(
        f"formula must be such as 'y ~ x + (x | g)'; got {formula!r}: {why}."
    )
