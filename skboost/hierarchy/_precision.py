"""The precision matrix of effects of several factors, factorised, and its parts.

Notation is that of `CrossedEffects`.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse import bsr_array, csr_array, issparse

from skboost._parallel import row_blocks
from skboost.hierarchy._covariances import cholesky, inverse_and_log_det

# Products of cells that are known up to this number: 48 MB of the largest.
_MOST_PAIRS = 1 << 22
# Numbers that a block of groups holds when entries of H^-1 are read from it.
_BLOCK = 1 << 21


class Gram(NamedTuple):
    """Z'WZ of all effects: blocks (n_groups, q, q) of the main factor, its products
    with others, dense or CSR, those of others, and cells ever filled in `cross`.
    """

    blocks: np.ndarray
    cross: object
    others: np.ndarray
    cells: tuple

    def times(self, v):
        """Z'WZ times vectors of effects, (size, n)."""
        n, q, _ = self.blocks.shape
        main, others = v[: n * q], v[n * q :]
        own = np.matmul(self.blocks, main.reshape(n, q, -1)).reshape(main.shape)
        return np.concatenate(
            [own + self.cross @ others, self.cross.T @ main + self.others @ others]
        )

    @property
    def pairs(self):
        """`Pairs`, or None where a table of the others holds no more."""
        n, q, _ = self.blocks.shape
        widths = np.bincount(self.cells[0], minlength=n * q)[::q]
        few = q**2 * (widths * (widths + 1) // 2).sum() <= _MOST_PAIRS
        return Pairs(self, widths) if few and issparse(self.cross) else None


class Pairs:
    """Sums over groups j of C_j' M_j C_j, (n_others, n_others), of symmetric M_j.

    C_j (q, w_j) are the cells of a group. The sums are linear in all M_j, and what is
    linear in a table of the others, C_j T C_j', has the transposed matrix.
    """

    def __init__(self, gram, widths):
        self.shape, m = gram.blocks.shape, len(gram.others)
        n, q, _ = self.shape
        # Of millions of pairs wide integers would hold most of the memory.
        column, widths = (part.astype(np.int32) for part in (gram.cells[1], widths))
        # Of every cell of a first effect the group, and the place there; then of every
        # pair, the later cell first, the group and both places.
        group = np.repeat(np.arange(n, dtype=np.int32), widths)
        before = np.cumsum(widths, dtype=np.int32) - widths
        place = np.arange(len(group), dtype=np.int32) - before[group]
        group, later = np.repeat(group, place + 1), np.repeat(place, place + 1)
        earlier = np.concatenate([np.arange(k + 1, dtype=np.int32) for k in place])
        start = (q * before)[group]
        code = column[start + later] * np.int32(m) + column[start + earlier]
        filled, code = np.unique(code, return_inverse=True)
        self.row, self.column = np.divmod(filled, m)
        self.n_others, self.times = m, np.where(self.row == self.column, 1.0, 2.0)
        size, values = len(filled), gram.cross.data
        parts = []
        for k, r in np.ndindex(q, q):
            value = values[start + k * widths[group] + later]
            value *= values[start + r * widths[group] + earlier]
            where = code.astype(np.int32), group * np.int32(q * q) + np.int32(k * q + r)
            parts.append(csr_array((value, where), shape=(size, n * q * q)))
        self.matrix = sum(parts[1:], parts[0])

    def sums(self, blocks):
        """The table of M_j (n_groups, q, q)."""
        table, values = np.zeros((self.n_others,) * 2), self.matrix @ blocks.ravel()
        table[self.row, self.column] = table[self.column, self.row] = values
        return table

    def spread(self, table):
        """C_j T C_j' of every group, from what is below the diagonal of T."""
        found = self.matrix.T @ (table[self.row, self.column] * self.times)
        found = found.reshape(self.shape)
        return 0.5 * (found + found.swapaxes(1, 2))


class InverseEntries(NamedTuple):
    """Entries of H^-1 where `Gram` has some; those of its cells are a vector."""

    blocks: np.ndarray
    mixed: np.ndarray
    others: np.ndarray

    @property
    def diagonal(self):
        """Diagonal of H^-1."""
        main = np.einsum("jkk->jk", self.blocks)
        return np.append(main.ravel(), np.diag(self.others))


def _dense(table):
    return table.toarray() if issparse(table) else table


class Precision:
    """H = I + S' Z'WZ S, factorised."""

    def __init__(self, gram, scaling, pairs=None):
        n, q, _ = gram.blocks.shape
        self.scaling, self.pairs, self.cells = scaling, pairs, gram.cells
        own = scaling.within_main(gram.blocks) + np.eye(q)
        inverse, log_det = inverse_and_log_det(np.moveaxis(own, 0, 2))
        self.blocks = np.moveaxis(inverse, 2, 0)
        # K^-1 as one matrix.
        self.main_inverse = bsr_array((self.blocks, np.arange(n), np.arange(n + 1)))
        self.cross = scaling.across(gram.cross, gram.cells)
        if pairs is None:
            schur = scaling.within_others(gram.others)
            schur -= _dense(self.cross.T @ self.pushed)
        else:
            # S K^-1 S'.
            sized = scaling.of_main(scaling.of_main(self.blocks).swapaxes(1, 2))
            schur = scaling.within_others(gram.others - pairs.sums(sized))
        np.einsum("kk->k", schur)[:] += 1.0
        root, failed = schur, 0
        if len(schur):
            root, failed = dpotrf(schur.T, lower=1, overwrite_a=1)
        self.log_det_main = log_det.sum()
        self.root, self.log_det = root, self.log_det_main
        if failed:
            # Scales beyond 1e8 times the noise leave no digits: a wall.
            self.root, self.log_det = np.eye(len(schur)), np.inf
        self.log_det += 2.0 * np.log(np.diag(self.root)).sum()

    @cached_property
    def pushed(self):
        """P = K^-1 C."""
        pushed = self.main_inverse @ self.cross
        return pushed.tocsr() if issparse(pushed) else pushed

    def solve(self, vector):
        """H^-1 times a vector of effects, or several, (size, n)."""
        n_main = self.cross.shape[0]
        main, others = self.main_inverse @ vector[:n_main], vector[n_main:]
        others = others - self.cross.T @ main
        others = cho_solve((self.root, True), others, check_finite=False)
        main = main - self.main_inverse @ (self.cross @ others)
        return np.concatenate([main, others])

    def spread(self, normal):
        """Deviations with covariance H^-1 from standard normal numbers."""
        n, q, _ = self.blocks.shape
        others = solve_triangular(
            self.root, normal[n * q :], lower=True, trans=1, check_finite=False
        )
        main = np.einsum("jkr,jr->jk", self.main_root, normal[: n * q].reshape(n, q))
        return np.append(main.ravel() - self.pushed @ others, others)

    def covariance_of(self, places):
        """The block of H^-1 of some effects."""
        unit = np.zeros((len(self.scaling.size), len(places)))
        unit[places, np.arange(len(places))] = 1.0
        return self.solve(unit)[places]

    @cached_property
    def main_root(self):
        """Lower triangular factors of the blocks of K^-1."""
        return np.moveaxis(cholesky(np.moveaxis(self.blocks, 0, 2)), 2, 0)

    @cached_property
    def inverse(self):
        """`InverseEntries` of H^-1, from block after block of groups."""
        n, q, _ = self.blocks.shape
        others = np.tril(self._lower) + np.tril(self._lower, -1).T
        blocks, cells = self.blocks.copy(), np.empty(len(self.cells[0]))
        for some in row_blocks(n, 2 * q * len(others), _BLOCK):
            start, stop = some.start * q, some.stop * q
            pushed = self.pushed[start:stop]
            spread = pushed @ others
            held = slice(*np.searchsorted(self.cells[0], [start, stop]))
            row, column = (part[held] for part in self.cells)
            cells[held] = -spread[row - start, column]
            shape = len(spread) // q, q, len(others)
            blocks[some] += np.einsum(
                "jkm,jrm->jkr", spread.reshape(shape), _dense(pushed).reshape(shape)
            )
        return InverseEntries(blocks, cells, others)

    @cached_property
    def _lower(self):
        """T^-1, of which what is below the diagonal counts."""
        # A third of the multiplications that solving for all columns of I takes; LAPACK
        # refuses a matrix without any.
        return dpotri(self.root, lower=1)[0] if len(self.root) else self.root

    @property
    def squares(self):
        """What `CrossedEffects.by_level` reads of `inverse`: no cells."""
        if self.pairs is None:
            return self.inverse
        scaling, blocks = self.scaling, self.blocks
        found = self.pairs.spread(scaling.around_others(self._lower))
        pushed = blocks @ scaling.within_main(found) @ blocks
        return InverseEntries(blocks + pushed, None, self._lower)
