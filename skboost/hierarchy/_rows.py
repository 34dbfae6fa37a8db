"""Rows in groups: what a hierarchical model knows of its data.

Notation: the linear predictor of row i is eta_i = x_i beta + sum_f z_fi u_f[g_fi], with
group effects u_f[j] ~ N(0, L_f L_f'), one scale for each column of z_f: L_f is their
diagonal matrix, times the factor of a correlation matrix where effects are correlated.
Standard normal effects are v, with u = L v.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array


@dataclass(frozen=True)
class Factor:
    """Groups of rows (n_rows,), what their effects multiply, (n_rows, q), and whether
    effects of one group are correlated.
    """

    codes: np.ndarray
    n_groups: int
    columns: np.ndarray
    correlated: bool = False

    @property
    def n_effects(self):
        """Effects of every group."""
        return self.columns.shape[1]

    @property
    def size(self):
        """Effects of all groups."""
        return self.n_groups * self.n_effects

    def dense(self):
        """What effects multiply as a matrix (n_rows, size), group by group."""
        table = np.zeros((len(self.codes), self.n_groups, self.n_effects))
        table[np.arange(len(table)), self.codes] = self.columns
        return table.reshape(len(table), -1)


@dataclass(frozen=True)
class GroupedRows:
    """Rows of a hierarchical model; X has the column of an intercept."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    factors: tuple = ()
    offset: np.ndarray | None = None

    def taken(self, rows):
        """Some of the rows, by index; the groups are the same."""
        factors = tuple(
            replace(f, codes=f.codes[rows], columns=f.columns[rows])
            for f in self.factors
        )
        offset = None if self.offset is None else self.offset[rows]
        return GroupedRows(
            self.X[rows], self.y[rows], self.weight[rows], factors, offset
        )

    def sorted(self):
        """The rows in the order of the groups of the factor with the most effects."""
        if not self.factors:
            return self
        codes = self.factors[main_factor(self.factors)].codes
        return self.taken(np.argsort(codes, kind="stable"))

    def merged(self, likelihood):
        """Rows that differ in their response alone as one, and what their likelihood
        lacks: exact where it is linear in y but for a constant, else rows stay.
        """
        if not likelihood.linear_in_y:
            return self, 0.0
        parts = [self.X, *(f.columns for f in self.factors)]
        parts += [f.codes for f in self.factors]
        table = np.column_stack(parts if self.offset is None else [*parts, self.offset])
        _, first, place = np.unique(
            table, axis=0, return_index=True, return_inverse=True
        )
        place = place.ravel()
        weight = np.bincount(place, self.weight)
        y = np.bincount(place, self.weight * self.y) / np.where(weight > 0, weight, 1)
        rows = replace(self.taken(first), y=y, weight=weight)
        return rows, self._level(likelihood) - rows._level(likelihood)

    def kinds_of_groups(self):
        """One of several groups with the same rows, of the first factor, and which of
        these groups are of; those of further factors are the same, too.
        """
        factor, *others = self.factors
        parts = [self.X, *(f.columns for f in self.factors), self.y, self.weight]
        parts += [f.codes for f in others]
        table = np.column_stack(parts if self.offset is None else [*parts, self.offset])
        order = np.lexsort([*table.T, factor.codes])
        rows, codes = self.taken(order), factor.codes[order]
        table, kinds = table[order], {}
        ends = np.searchsorted(codes, np.arange(factor.n_groups + 1))
        kind = np.array(
            [
                kinds.setdefault(table[start:stop].tobytes(), len(kinds))
                for start, stop in pairwise(ends)
            ]
        )
        first = np.unique(kind, return_index=True)[1]
        kept = np.isin(codes, first)
        rows = rows.taken(kept)
        renamed = replace(rows.factors[0], codes=kind[codes[kept]], n_groups=len(kinds))
        return replace(rows, factors=(renamed, *rows.factors[1:])), kind

    def _level(self, likelihood):
        """Log likelihood at linear predictors of zero."""
        y = self.y[:, None]
        return self.weight @ likelihood.value_and_slope(np.zeros_like(y), y)[0][:, 0]


def coefficients_as_factor(X):
    """The columns of X as a factor of one group, which all rows are in."""
    return Factor(np.zeros(len(X), dtype=int), 1, X)


class FixedScales:
    """Those of coefficients that are a further factor: after the scales of the others.

    Without `scale` there are none.
    """

    def __init__(self, factors, scale=None):
        self.start = sum(factor.n_effects for factor in factors)
        self.scale = np.zeros(0) if scale is None else scale

    def among(self, levels):
        """All levels (n_draws, ...), with the logarithms of those that are known."""
        known = np.tile(np.log(self.scale), (len(levels), 1))
        before, after = np.split(levels, [self.start], axis=1)
        return np.hstack([before, known, after])

    def free(self, values):
        """What belongs to the other levels, (n_levels,), of values for all."""
        return np.delete(values, np.arange(len(self.scale)) + self.start)


class GroupSums:
    """Sums over the groups of rows that are sorted by them; empty groups have zero."""

    def __init__(self, codes, n_groups):
        self.n_groups, self.n_rows = n_groups, len(codes)
        self.starts = np.searchsorted(codes, np.arange(n_groups))
        ends = np.append(self.starts[1:], len(codes))
        # `reduceat` gives an empty group a row of the next one.
        self.filled = ends > self.starts
        # Of groups of few rows a seventh of the time that `reduceat` takes.
        entries = np.ones(len(codes)), np.arange(len(codes)), np.append(0, ends)
        self.matrix = csr_array(entries, shape=(n_groups, len(codes)))

    def __call__(self, table, operation=np.add):
        """(n_groups, ...) of (n_rows, ...)."""
        if self.n_groups == self.n_rows and self.filled.all():
            # Merged rows often are one for each group.
            return table
        flat = table.reshape(len(table), -1)
        if operation is np.add:
            out = self.matrix @ flat
        else:
            out = np.zeros((self.n_groups, flat.shape[1]))
            starts = self.starts[self.filled]
            out[self.filled] = operation.reduceat(flat, starts, axis=0)
        return out.reshape(self.n_groups, *table.shape[1:])


def main_factor(factors):
    """Index of the factor with the most effects; never coefficients, where others are.

    Nested factors are eliminated from the one with the most groups.
    """
    return int(np.argmax([factor.size * (factor.n_groups > 1) for factor in factors]))


class Residuals:
    """Sums of squares of y - X beta as |root h|^2, without the rows.

    Responses are those that least squares leaves, h is 1 beside what coefficients
    lack to these: no digits are lost where responses or columns lie far from zero. The
    first `n_effects` columns lie around it, and are not fitted.
    """

    def __init__(self, rows, n_effects=0):
        self.mass, size = rows.weight.sum(), np.sqrt(rows.weight)[:, None]
        scaled = size * rows.X[:, n_effects:]
        unit = np.maximum(np.abs(scaled).max(axis=0, initial=0.0), 1e-300)
        fitted = np.linalg.lstsq(scaled / unit, size[:, 0] * rows.y, rcond=1e-12)[0]
        self.centre = np.append(np.zeros(n_effects), fitted / unit)
        self.root = np.linalg.qr(size * self._columns(rows), mode="r")

    def _columns(self, rows):
        return np.column_stack([rows.X, rows.y - rows.X @ self.centre])

    def weighted(self, rows):
        """Weighted columns of X and of responses that least squares leaves."""
        return self._columns(rows) * rows.weight[:, None]

    def at(self, beta):
        """What the columns are multiplied by, (n_draws, n_columns + 1)."""
        return np.column_stack([self.centre - beta, np.ones(len(beta))])


def no_groups(n_rows):
    return Factor(np.zeros(n_rows, dtype=int), 0, np.zeros((n_rows, 1)))


def sums_of(factor, table):
    """Sums of the rows of a table over every group."""
    sums = [
        np.bincount(factor.codes, column, factor.n_groups)[: factor.n_groups]
        for column in table.T
    ]
    return np.stack(sums, axis=-1)
