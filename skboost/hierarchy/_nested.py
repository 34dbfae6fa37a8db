"""Effects of factors that are nested in one another: elimination without any fill.

Every group lies in one group of each coarser factor. With effects of one kind the rows
of H that belong to a group hold its own entry, one for each group that it lies in, and
those of coefficients: with d and r of these,

    H = L D L',   L' = 1 + r / d,

and to eliminate the finest factor changes entries alone that there are. Those of H^-1
follow from the coarsest to the finest (Takahashi, Fagan and Chin 1973, Formation of a
sparse bus impedance matrix, Proceedings of the 8th PICA conference).
"""

from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.sparse import csr_array

from skboost.hierarchy._crossed import CrossedEffects
from skboost.hierarchy._precision import Precision


def nested_order(factors):
    """Factors with one effect of every group, by index, the finest first.

    None where one is not nested in the next; those of a single group are left out.
    """
    chain = [f for f, factor in enumerate(factors) if factor.n_groups > 1]
    chain.sort(key=lambda f: -factors[f].n_groups)
    if len(chain) < 2 or any(factors[f].n_effects > 1 for f in chain):
        return None
    for fine, coarse in pairwise(chain):
        codes = factors[fine].codes, factors[coarse].codes
        pairs = np.unique(codes[0] * factors[coarse].n_groups + codes[1])
        if len(pairs) > len(np.unique(codes[0])):
            return None
    return chain


class NestedEffects(CrossedEffects):
    """Where the effects of factors are, of which those in `order` are nested."""

    def __init__(self, factors, order):
        self.order = order
        super().__init__(factors)

    def _index(self, positions, columns, factors):
        """A matrix from weights of rows to all entries of Z'WZ, and where these are."""
        order = self.order
        # Places in the vector of effects: of every level, and of what all rows share.
        self.levels = [self._places[f][0] for f in order]
        shared = [f for f in range(len(factors)) if f not in order]
        n = len(self.codes)
        rest = [np.r_[self._places[f][0]] for f in shared]
        self.shared = np.concatenate([np.empty(0, dtype=int), *rest])
        X = np.hstack([np.empty((n, 0)), *(factors[f].columns for f in shared)])
        codes = [factors[f].codes for f in order]
        # The group of every coarser level that a group lies in, and sums over these.
        self.parents, self.sums, parts = {}, {}, []
        for k, f in enumerate(order):
            size, z = factors[f].n_groups, factors[f].columns
            across = np.arange(k + 1, len(order))
            for g in across:
                parent = np.zeros(size, dtype=int)
                parent[codes[k]] = codes[g]
                entries = np.ones(size), (parent, np.arange(size))
                shape = factors[order[g]].n_groups, size
                self.parents[k, g] = parent
                self.sums[k, g] = csr_array(entries, shape=shape)
            values = [z, *(factors[order[g]].columns for g in across), X]
            values = z * np.hstack(values)
            own = self.levels[k].start + np.arange(size)
            other = [own, *(self.levels[g].start + self.parents[k, g] for g in across)]
            other += [np.full(size, place) for place in self.shared]
            parts.append((codes[k], values, own, np.stack(other, axis=1)))
        self._stack(parts, X)

    def _stack(self, parts, X):
        """The entries of all levels, one after the other."""
        n, p = X.shape
        rows, first, second, self.tables, start = [], [], [], [], 0
        for code, values, own, other in parts:
            size, width = other.shape
            self.tables.append((slice(start, start + size * width), (size, width)))
            rows.append((start + code[:, None] * width + np.arange(width), values))
            first.append(np.repeat(own, width))
            second.append(other.ravel())
            start += size * width
        pairs = (X[:, :, None] * X[:, None]).reshape(n, p * p)
        rows.append((np.tile(start + np.arange(p * p), (n, 1)), pairs))
        first.append(np.repeat(self.shared, p))
        second.append(np.tile(self.shared, p))
        place, value = (np.hstack(part).ravel() for part in zip(*rows, strict=True))
        self.first, self.second = np.concatenate(first), np.concatenate(second)
        entries = value, (place, np.repeat(np.arange(n), len(place) // n))
        self.table = csr_array(entries, shape=(len(self.first), n))
        self.transposed = self.table.T.tocsr()
        # Entries off the diagonal stand twice, but for those of what all rows share.
        self.times = np.where(self.first == self.second, 1.0, 2.0)
        self.times[start:] = 1.0

    def precision(self, weight, scaling):
        size = scaling.size[self.first] * scaling.size[self.second]
        return NestedPrecision(self, (self.table @ weight) * size)

    def leverages(self, inverse, scaling):
        size = scaling.size[self.first] * scaling.size[self.second]
        return self.transposed @ (inverse.entries * size * self.times)


class NestedPrecision(Precision):
    """H = I + S' Z'WZ S of nested effects, factorised, from entries of S' Z'WZ S."""

    def __init__(self, effects, entries):
        self.effects, n_levels = effects, len(effects.levels)
        tables = [entries[place].reshape(shape) for place, shape in effects.tables]
        p = len(effects.shared)
        rest = entries[len(entries) - p * p :].reshape(p, p) + np.eye(p)
        for table in tables:
            table[:, 0] += 1.0
        # d and r / d of every level.
        self.pivots, self.lower = [], []
        for k, table in enumerate(tables):
            # One at least, but where rounding leaves no digits: a wall.
            pivot = np.where(table[:, 0] > 0.5, table[:, 0], np.inf)
            right = table[:, 1:]
            lower = right / pivot[:, None]
            for a, g in enumerate(range(k + 1, n_levels)):
                tables[g] -= effects.sums[k, g] @ (lower[:, a : a + 1] * right[:, a:])
            n_above = n_levels - k - 1
            rest -= lower[:, n_above:].T @ right[:, n_above:]
            self.pivots.append(pivot)
            self.lower.append(lower)
        logs = [np.log(pivot).sum() for pivot in self.pivots]
        try:
            self.root = np.linalg.cholesky(rest)
            self.log_det_main = logs[0]
            self.log_det = sum(logs) + 2.0 * np.log(np.diag(self.root)).sum()
        except np.linalg.LinAlgError:
            self.root, self.log_det = np.eye(p), np.inf

    def solve(self, vector):
        effects = self.effects
        parts = [vector[place].copy() for place in effects.levels]
        rest = vector[effects.shared]
        for k, (part, lower) in enumerate(zip(parts, self.lower, strict=True)):
            pulled = lower * part[:, None]
            above = range(k + 1, len(parts))
            for a, g in enumerate(above):
                parts[g] -= effects.sums[k, g] @ pulled[:, a]
            rest = rest - pulled[:, len(above) :].sum(axis=0)
        parts = [part / pivot for part, pivot in zip(parts, self.pivots, strict=True)]
        return self._back(parts, cho_solve((self.root, True), rest, check_finite=False))

    def spread(self, normal):
        levels = zip(self.effects.levels, self.pivots, strict=True)
        parts = [normal[place] / np.sqrt(pivot) for place, pivot in levels]
        rest = solve_triangular(
            self.root, normal[self.effects.shared], lower=True, trans=1
        )
        return self._back(parts, rest)

    def _back(self, parts, rest):
        """L^-T of what `rest` is of already."""
        effects, out = self.effects, np.empty(len(self.effects.scale_of))
        out[effects.shared] = rest
        for k in reversed(range(len(parts))):
            lower, above = self.lower[k], range(k + 1, len(parts))
            parts[k] = parts[k] - lower[:, len(above) :] @ rest
            for a, g in enumerate(above):
                parts[k] -= lower[:, a] * parts[g][effects.parents[k, g]]
            out[effects.levels[k]] = parts[k]
        return out

    def covariance_of(self, places):
        unit = np.zeros((len(self.effects.scale_of), len(places)))
        unit[places, np.arange(len(places))] = 1.0
        return np.stack([self.solve(column)[places] for column in unit.T])

    @property
    def main_root(self):
        return 1.0 / np.sqrt(self.pivots[0])[:, None, None]

    @cached_property
    def inverse(self):
        effects, n_levels = self.effects, len(self.effects.levels)
        shared = cho_solve((self.root, True), np.eye(len(self.root)))
        # Of every level: of each group with itself, its coarser groups, and the rest.
        tables = [None] * n_levels
        for k in reversed(range(n_levels)):
            lower, above = self.lower[k], range(k + 1, n_levels)
            held = {g: tables[g][effects.parents[k, g]] for g in above}
            right = np.empty(lower.shape)
            of_rest = lower[:, len(above) :]
            right[:, len(above) :] = -of_rest @ shared
            for a, g in enumerate(above):
                right[:, len(above) :] -= (
                    lower[:, a : a + 1] * held[g][:, n_levels - g :]
                )
                right[:, a] = -(of_rest * held[g][:, n_levels - g :]).sum(axis=1)
                for b, h in enumerate(above):
                    fine, coarse = min(g, h), max(g, h)
                    right[:, a] -= lower[:, b] * held[fine][:, coarse - fine]
            own = 1.0 / self.pivots[k] - (lower * right).sum(axis=1)
            tables[k] = np.column_stack([own, right])
        return NestedInverse(effects, tables, shared)


class NestedInverse:
    """Entries of H^-1 where H has some."""

    def __init__(self, effects, tables, shared):
        flat = [table.ravel() for table in tables]
        self.entries = np.concatenate([*flat, shared.ravel()])
        self.diagonal = np.empty(len(effects.scale_of))
        self.diagonal[effects.shared] = np.diag(shared)
        for place, table in zip(effects.levels, tables, strict=True):
            self.diagonal[place] = table[:, 0]
