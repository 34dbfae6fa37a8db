"""Effects of several factors: sums over rows by effect, and their precision matrix.

All effects are one vector: those of the main factor, which is the one with the most
effects, group by group, and then the rest. With S block-diagonal, of the factors L of
`Covariances`, the precision of standard normal effects is

    H = [[K, C], [C', B]] = I + S' Z'WZ S,   T = B - C' K^-1 C,

with K block-diagonal, one block for every group of the main factor, and the Schur
complement T dense. Entries of H^-1 are found from K^-1, P = K^-1 C and T^-1.
Where weights of rows stay, T is linear in K^-1 by products that are known: see `Pairs`.
"""

from copy import copy

import numpy as np
from scipy.sparse import block_diag, bsr_array, csc_array, csr_array, issparse

from skboost.hierarchy._covariances import Covariances
from skboost.hierarchy._precision import Gram, InverseEntries, Precision
from skboost.hierarchy._rows import GroupSums, main_factor
from skboost.targets import bounded_exp

# Effects outside the main factor: their Schur complement takes 8 n^2 bytes and n^3 / 3
# multiplications, 32 MB and a fifth of a second for these.
MOST_OTHERS = 2_000
# A table of the main factor's effects by the others' is dense up to this size, and
# where more than one entry in so many is ever filled.
_DENSE_SIZE, _DENSE_SHARE = 1 << 16, 16


class Scaling:
    """S, from standard normal effects to effects, where these are not correlated."""

    def __init__(self, size):
        self.size = size

    def times(self, v):
        """S v, of a vector or of several, (size, n)."""
        return (self.size * v.T).T

    def pulled(self, values):
        """S' times a vector, or several."""
        return (self.size * values.T).T

    def of_main(self, roots):
        """S times matrices (n_groups, q, q) of the main factor."""
        n, q, _ = roots.shape
        return self.size[: n * q].reshape(n, q, 1) * roots

    def within_main(self, blocks):
        """S' times blocks of the main factor times S."""
        n, q, _ = blocks.shape
        sized = self.size[: n * q].reshape(n, q)
        return sized[:, :, None] * blocks * sized[:, None]

    def within_others(self, table):
        """S' times a table of the others times S."""
        others = self.size[len(self.size) - len(table) :]
        table = table * others
        table *= others[:, None]
        return table

    # Diagonal matrices are their own transposes.
    around_others = within_others

    def across(self, cross, cells):
        """S' times products of the main factor with others times S."""
        n_main = cross.shape[0]
        if not issparse(cross):
            return cross * self.size[:n_main, None] * self.size[n_main:]
        row, column = cells
        values = cross.data * self.size[row] * self.size[n_main + column]
        return csr_array((values, cross.indices, cross.indptr), shape=cross.shape)

    def around(self, inverse, cells, ends):
        """The parts of S H^-1 S', of which mixed ones are where `cells` are."""
        n, q, _ = inverse.blocks.shape
        main, others = self.size[: n * q], self.size[n * q :]
        sized, (row, column) = main.reshape(n, q), cells
        return InverseEntries(
            sized[:, :, None] * inverse.blocks * sized[:, None],
            inverse.mixed * main[row] * others[column],
            others[:, None] * inverse.others * others,
        )


class CorrelatedScaling(Scaling):
    """S = diag(size) C, with a block of C for each group of every factor; the main one
    comes first.
    """

    def __init__(self, size, blocks, n_groups):
        super().__init__(size)
        self.block = blocks[0]
        parts = [
            bsr_array((np.tile(block, (n, 1, 1)), np.arange(n), np.arange(n + 1)))
            for block, n in zip(blocks, n_groups, strict=True)
        ]
        self.main = parts[0].tocsr()
        none = csr_array((0, 0))
        self.others = block_diag(parts[1:], format="csr") if parts[1:] else none

    def times(self, v):
        n = self.main.shape[0]
        return super().times(np.concatenate([self.main @ v[:n], self.others @ v[n:]]))

    def pulled(self, values):
        values, n = super().pulled(values), self.main.shape[0]
        return np.concatenate([self.main.T @ values[:n], self.others.T @ values[n:]])

    def of_main(self, roots):
        return super().of_main(self.block @ roots)

    def within_main(self, blocks):
        return self.block.T @ super().within_main(blocks) @ self.block

    def within_others(self, table):
        return self.others.T @ super().within_others(table) @ self.others

    def around_others(self, table):
        # Of triangles what is above diagonals is not there.
        table = np.tril(table) + np.tril(table, -1).T
        return super().around_others(self.others @ table @ self.others.T)

    def across(self, cross, cells):
        return self.main.T @ super().across(cross, cells) @ self.others

    def around(self, inverse, cells, ends):
        # A group's effects fill the same cells, so that these are all that there are.
        shape = self.main.shape[0], self.others.shape[0]
        mixed = csr_array((inverse.mixed, cells[1], ends), shape=shape)
        mixed = self.main @ mixed @ self.others.T
        mixed.sort_indices()
        inverse = InverseEntries(
            self.block @ inverse.blocks @ self.block.T,
            mixed.data,
            self.others @ inverse.others @ self.others.T,
        )
        return super().around(inverse, cells, ends)


class CrossedEffects:
    """Where the effects of factors are, of rows sorted by groups of the main one."""

    def __init__(self, factors):
        main = main_factor(factors)
        self.codes, self.n_groups = factors[main].codes, factors[main].n_groups
        self.q, self.n_main = factors[main].n_effects, factors[main].size
        self.n_others = sum(factor.size for factor in factors) - self.n_main
        ends = np.cumsum([factor.n_effects for factor in factors])
        self.covariances = Covariances.of(factors)
        # Places of the factors' effects in the vector, and the scale of each effect.
        self._places, scale_of, order = [None] * len(factors), [], []
        # The entries of every row of Z, those of the main factor first.
        positions, columns, start = [], [], 0
        for f in sorted(range(len(factors)), key=lambda f: f != main):
            factor, effects = factors[f], np.arange(factors[f].n_effects)
            stop = start + factor.size
            shape = factor.n_groups, len(effects)
            self._places[f] = slice(start, stop), shape
            scale_of.append(np.tile(ends[f] - len(effects) + effects, shape[0]))
            order.append(f)
            positions.append(start + factor.codes[:, None] * shape[1] + effects)
            columns.append(factor.columns)
            start = stop
        self.scale_of, self._order = np.concatenate(scale_of), order
        positions, columns = np.hstack(positions), np.hstack(columns)
        self.Z = _by_row(positions, columns, len(self.scale_of)).T
        self._over_groups = GroupSums(self.codes, self.n_groups)
        self.main = columns[:, : self.q]
        self._index(positions, columns, factors)

    def _index(self, positions, columns, factors):
        """Matrices from weights of rows to the three tables of `gram`."""
        if self.n_others > MOST_OTHERS:
            raise ValueError(
                f"groups must leave at most {MOST_OTHERS:,} effects outside the factor "
                f"that has the most ({self.n_main:,}); got {self.n_others:,}. Drop a "
                "factor or its slopes, or join rare levels of it."
            )
        q, m, others = self.q, self.n_others, columns[:, self.q :]
        blocks = self.codes[:, None] * q**2 + np.arange(q**2)
        squares = self.main[:, :, None] * self.main[:, None]
        self.squares = _by_row(blocks, squares, self.n_groups * q**2)
        place = positions[:, q:] - self.n_main
        cells = positions[:, :q, None] * m + place[:, None]
        filled, cells = np.unique(cells, return_inverse=True)
        self.cells = np.divmod(filled, m)
        self.ends = np.searchsorted(self.cells[0], np.arange(self.n_main + 1))
        mixed = self.main[:, :, None] * others[:, None]
        self.mixed = _by_row(cells.reshape(mixed.shape), mixed, len(filled))
        pairs = place[:, :, None] * m + place[:, None]
        self.pairs = _by_row(pairs, others[:, :, None] * others[:, None], m * m)
        self.dense = self.n_main * m <= max(_DENSE_SIZE, _DENSE_SHARE * len(filled))

    def without_rows(self):
        """The same, which only knows where effects are."""
        other = copy(self)
        for name in ("codes", "Z", "main", "squares", "mixed", "pairs", "_over_groups"):
            delattr(other, name)
        return other

    def predicted(self, effects):
        """Z times a vector of effects, (n_rows,)."""
        return self.Z @ effects

    def pulled(self, values):
        """Z' times values of the rows, a vector of effects or one for each column."""
        return self.Z.T @ values

    def cubed(self, values, axes):
        """Sums over rows of values times cubes of Z along axes (n_groups, q, q) of the
        main factor; zero for all other effects.
        """
        along = np.einsum("nk,nkr->nr", self.main, axes[self.codes])
        sums = self._over_groups(values[:, None] * along**3)
        return np.append(sums.ravel(), np.zeros(self.n_others))

    def by_factor(self, effects):
        """Tables (2, n_effects, n_draws, n_groups) of (2, n_draws, size), by factor."""
        return tuple(
            np.moveaxis(effects[..., place].reshape(*effects.shape[:2], *shape), 3, 1)
            for place, shape in self._places
        )

    def joined(self, tables):
        """Vectors (n_draws, size) from tables (n_effects, n_draws, n_groups)."""
        n = tables[0].shape[1]
        parts = np.empty((n, len(self.scale_of)))
        for (place, _), table in zip(self._places, tables, strict=True):
            parts[:, place] = np.moveaxis(table, 0, 2).reshape(n, -1)
        return parts

    def scalings(self, levels):
        """S at every draw of levels."""
        scales = bounded_exp(levels[:, : self.covariances.n_scales])
        sizes, held = scales[:, self.scale_of], self._places
        if not self.covariances.any_correlated:
            yield from map(Scaling, sizes)
            return
        roots = self.covariances.correlation_roots(levels)
        for s, size in enumerate(sizes):
            blocks = [
                np.eye(held[f][1][1]) if roots[f] is None else roots[f][s]
                for f in self._order
            ]
            groups = [held[f][1][0] for f in self._order]
            yield CorrelatedScaling(size, blocks, groups)

    def by_level(self, levels, v, inverse, move=None):
        """Gradient in levels (n_levels,) where effects have the mean v, covariances of
        H^-1, and products with themselves that lack those of v with `move`; and the sum
        over effects of the diagonal of M.
        """
        move = np.zeros_like(v) if move is None else move
        each = v * (v - move) - 1.0 + inverse.diagonal
        by_scale = np.bincount(self.scale_of, each, self.covariances.n_scales)
        if not self.covariances.any_correlated:
            return by_scale, each.sum()
        squares, places = [], self.covariances.places
        for f, ((place, shape), (scales, _)) in enumerate(
            zip(self._places, places, strict=True)
        ):
            square = np.diag(by_scale[scales])
            if self.covariances.correlated[f]:
                effects, moves = v[place].reshape(shape), move[place].reshape(shape)
                mixed = effects.T @ (effects - moves)
                square = 0.5 * (mixed + mixed.T) - shape[0] * np.eye(shape[1])
                square += self._summed(inverse, place, shape)
            squares.append(square[..., None])
        return self.covariances.score(levels[None], squares)[0], each.sum()

    def _summed(self, inverse, place, shape):
        """The sum over the groups of a factor of their blocks of H^-1."""
        if not place.start:
            return inverse.blocks.sum(axis=0)
        own = slice(place.start - self.n_main, place.stop - self.n_main)
        square = np.einsum("jkjr->kr", inverse.others[own, own].reshape(2 * shape))
        # What is above diagonals need not be there.
        return np.tril(square) + np.tril(square, -1).T

    def gram(self, weight):
        """Sums over rows of a weight times the outer products of rows of Z."""
        blocks = (self.squares @ weight).reshape(self.n_groups, self.q, self.q)
        others = (self.pairs @ weight).reshape(self.n_others, self.n_others)
        entries = self.mixed @ weight, self.cells[1], self.ends
        cross = csr_array(entries, shape=(self.n_main, self.n_others))
        cross = cross.toarray() if self.dense else cross
        return Gram(blocks, cross, others, self.cells)

    def precision(self, weight, scaling):
        """The precision matrix of standard normal effects, factorised."""
        return Precision(self.gram(weight), scaling)

    def leverages(self, inverse, scaling):
        """Diagonal of Z S H^-1 S' Z', (n_rows,)."""
        inverse = scaling.around(inverse, self.cells, self.ends)
        blocks, cells, others = (part.ravel() for part in inverse)
        mixed, pairs = self.mixed.T @ cells, self.pairs.T @ others
        return self.squares.T @ blocks + 2.0 * mixed + pairs


def _by_row(places, values, size):
    """Matrix (size, n_rows) whose columns have the values of rows at their places."""
    n = len(places)
    ends = np.arange(n + 1) * (values.size // n)
    return csc_array((values.ravel(), places.ravel(), ends), shape=(size, n))
