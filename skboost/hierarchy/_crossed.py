"""Effects of several factors: sums over rows by effect, and their precision matrix.

All effects are one vector: those of the main factor, which is the one with the most
effects, group by group, and then the rest. Their precision, in units of the scales, is

    H = [[K, C], [C', B]] = I + S Z'WZ S,   T = B - C' K^-1 C,

with K block-diagonal, one block for every group of the main factor, and the Schur
complement T dense. Entries of H^-1 are found from K^-1, P = K^-1 C and T^-1.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.sparse import bsr_array, csr_array, issparse

from skboost._parallel import row_blocks
from skboost.hierarchy._conditional import cholesky, inverse_and_log_det

# Effects outside the main factor: their Schur complement takes 8 n^2 bytes and n^3 / 3
# multiplications, 32 MB and a fifth of a second for these.
MOST_OTHERS = 2_000
# A table of the main factor's effects by the others' is dense up to this size, and
# where more than one entry in so many is ever filled.
_DENSE_SIZE, _DENSE_SHARE = 1 << 16, 16
# Numbers that a block of groups holds when entries of H^-1 are read from it.
_BLOCK = 1 << 21


@dataclass(frozen=True)
class Gram:
    """Z'WZ of all effects.

    Attributes
    ----------
    blocks : ndarray of shape (n_groups, q, q)
        Of the main factor.
    cross : ndarray or CSR array of shape (n_groups * q, n_others)
    others : ndarray of shape (n_others, n_others)
    """

    blocks: np.ndarray
    cross: object
    others: np.ndarray


class CrossedEffects:
    """Where the effects of several factors are, and which rows they touch.

    Parameters
    ----------
    factors : sequence of Factor
        Of rows that are sorted by the groups of the main factor.

    Raises
    ------
    ValueError
        If more effects than `MOST_OTHERS` are outside the main factor.
    """

    def __init__(self, factors):
        sizes = [f.n_groups * f.n_effects for f in factors]
        main = main_factor(factors)
        self.n_main, self.n_others = sizes[main], sum(sizes) - sizes[main]
        self._check()
        factor = factors[main]
        self.n_groups, self.q = factor.n_groups, factor.n_effects
        self.starts = np.searchsorted(factor.codes, np.arange(self.n_groups + 1))
        # Places of the factors' effects in the vector, and the scale of each effect.
        order = [main, *(f for f in range(len(factors)) if f != main)]
        ends = np.cumsum([sizes[f] for f in order])
        first = {f: end - sizes[f] for f, end in zip(order, ends, strict=True)}
        self._places = [
            (slice(first[f], first[f] + sizes[f]), (factor.n_groups, factor.n_effects))
            for f, factor in enumerate(factors)
        ]
        self.scale_of = np.empty(sum(sizes), dtype=int)
        # The entries of every row of Z: position of the effect, and factor of it.
        self.positions, self.columns, kinds, n_scales = [], [], [], 0
        for f, (factor, (place, shape)) in enumerate(
            zip(factors, self._places, strict=True)
        ):
            scales = n_scales + np.arange(factor.n_effects)
            self.scale_of[place] = np.broadcast_to(scales, shape).ravel()
            n_scales += factor.n_effects
            for k, column in enumerate(factor.columns.T):
                self.positions.append(place.start + factor.codes * shape[1] + k)
                self.columns.append(np.ascontiguousarray(column))
                kinds.append(f)
        self.n_scales = n_scales
        self.mains = [e for e, kind in enumerate(kinds) if kind == main]
        self.rest = [e for e, kind in enumerate(kinds) if kind != main]
        self._index(factors[main].codes)

    def _check(self):
        if self.n_others > MOST_OTHERS:
            raise ValueError(
                f"groups must leave at most {MOST_OTHERS:,} effects outside the factor "
                f"that has the most ({self.n_main:,}); got {self.n_others:,}. Drop a "
                "factor or its slopes, or join rare levels of it."
            )

    def _index(self, codes):
        """Places in the tables of `gram` that every row adds to."""
        self.codes = codes
        n, m = self.n_groups, self.n_others
        cells = [codes * m + self.positions[e] - self.n_main for e in self.rest]
        known = np.unique(np.concatenate([*cells, np.zeros(0, dtype=int)]))
        if n * m <= max(_DENSE_SIZE, _DENSE_SHARE * len(known)):
            self.n_cells, self.pattern = n * m, None
        else:
            cells = [np.searchsorted(known, cell) for cell in cells]
            self.n_cells = len(known)
            group, other = np.divmod(known, m)
            # A row of the table for every effect of the group.
            counts = np.repeat(np.bincount(group, minlength=n), self.q)
            order = np.argsort(
                (group[:, None] * self.q + np.arange(self.q)).ravel(), kind="stable"
            )
            indices = np.repeat(other, self.q)[order]
            self.pattern = order, indices, np.append(0, np.cumsum(counts))
        self.cells = dict(zip(self.rest, cells, strict=True))
        self.pairs = {
            (a, b): (self.positions[a] - self.n_main) * m
            + self.positions[b]
            - self.n_main
            for i, a in enumerate(self.rest)
            for b in self.rest[:i]
        }

    def predicted(self, effects):
        """Z times a vector of effects, (n_rows,)."""
        total = 0.0
        for position, column in zip(self.positions, self.columns, strict=True):
            total = total + column * effects[position]
        return total

    def pulled(self, values):
        """Z' times values of the rows, a vector of effects."""
        size = len(self.scale_of)
        return sum(
            np.bincount(position, column * values, size)
            for position, column in zip(self.positions, self.columns, strict=True)
        )

    def cubed(self, values, axes):
        """Sums over rows of values times cubes of Z along axes of the main factor.

        Parameters
        ----------
        values : ndarray of shape (n_rows,)
        axes : ndarray of shape (n_groups, q, q)
            One in every column, for each group.

        Returns
        -------
        ndarray of shape (n_main + n_others,)
            Zero for effects outside the main factor.
        """
        out = np.zeros(len(self.scale_of))
        for r in range(self.q):
            along = sum(
                self.columns[a] * axes[self.codes, k, r]
                for k, a in enumerate(self.mains)
            )
            sums = np.bincount(self.codes, values * along**3, self.n_groups)
            out[r : self.n_main : self.q] = sums
        return out

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

    def by_scale(self, effects):
        """Sums over the effects that share a scale, (n_scales,)."""
        return np.bincount(self.scale_of, effects, self.n_scales)

    def gram(self, weight):
        """Sums over rows of a weight times the outer products of rows of Z."""
        blocks = np.empty((self.n_groups, self.q, self.q))
        cross = np.empty((self.n_cells, self.q))
        for k, a in enumerate(self.mains):
            pulled = weight * self.columns[a]
            for r, b in enumerate(self.mains[: k + 1]):
                found = np.bincount(self.codes, pulled * self.columns[b], self.n_groups)
                blocks[:, k, r] = blocks[:, r, k] = found
            cross[:, k] = sum(
                np.bincount(cell, pulled * self.columns[b], self.n_cells)
                for b, cell in self.cells.items()
            )
        return Gram(blocks, self._table(cross), self._others(weight))

    def _table(self, cross):
        """Sums over cells as a matrix, effects of the main factor by the others."""
        if self.pattern is not None:
            order, indices, pointers = self.pattern
            shape = self.n_main, self.n_others
            return csr_array((cross.ravel()[order], indices, pointers), shape=shape)
        table = cross.reshape(self.n_groups, self.n_others, self.q)
        return table.swapaxes(1, 2).reshape(self.n_main, self.n_others)

    def _others(self, weight):
        m = self.n_others
        others = np.zeros((m, m))
        for (a, b), place in self.pairs.items():
            values = weight * self.columns[a] * self.columns[b]
            others += np.bincount(place, values, m * m).reshape(m, m)
        others += others.T
        for e in self.rest:
            values = weight * self.columns[e] ** 2
            np.einsum("ii->i", others)[:] += np.bincount(
                self.positions[e] - self.n_main, values, m
            )
        return others

    def leverages(self, precision, scale):
        """Diagonal of Z S H^-1 S Z', (n_rows,).

        Parameters
        ----------
        precision : Precision
        scale : ndarray of shape (n_main + n_others,)
        """
        columns = [
            column * scale[position]
            for position, column in zip(self.positions, self.columns, strict=True)
        ]
        out = np.empty(len(self.codes))
        inverse, m = precision.others_inverse, self.n_others
        for groups, blocks, mixed in precision.inverse_blocks():
            some = slice(self.starts[groups.start], self.starts[groups.stop])
            code = self.codes[some] - groups.start
            total = np.zeros(len(code))
            for k, a in enumerate(self.mains):
                part = blocks[code, k, k] * columns[a][some]
                for r, b in enumerate(self.mains[:k]):
                    part += 2.0 * blocks[code, k, r] * columns[b][some]
                for b in self.rest:
                    place = self.positions[b][some] - self.n_main
                    part += 2.0 * mixed[code * self.q + k, place] * columns[b][some]
                total += part * columns[a][some]
            for i, a in enumerate(self.rest):
                place = (self.positions[a][some] - self.n_main) * (m + 1)
                part = inverse.ravel()[place] * columns[a][some]
                for b in self.rest[:i]:
                    pair = inverse.ravel()[self.pairs[a, b][some]]
                    part += 2.0 * pair * columns[b][some]
                total += part * columns[a][some]
            out[some] = total
        return out


def main_factor(factors):
    """Index of the factor with the most effects."""
    return int(np.argmax([f.n_groups * f.n_effects for f in factors]))


def sorted_by_main(rows):
    """Rows in the order of the groups of the factor with the most effects."""
    codes = rows.factors[main_factor(rows.factors)].codes
    return rows.taken(np.argsort(codes, kind="stable"))


def _dense(table):
    return table.toarray() if issparse(table) else table


class Precision:
    """H = I + S Z'WZ S, factorised.

    Parameters
    ----------
    gram : Gram
    scale : ndarray of shape (n_effects,)
    """

    def __init__(self, gram, scale):
        n, q, _ = gram.blocks.shape
        main, others = scale[: n * q], scale[n * q :]
        sized = main.reshape(n, q)
        blocks = sized[:, :, None] * gram.blocks * sized[:, None, :] + np.eye(q)
        inverse, log_det = inverse_and_log_det(np.moveaxis(blocks, 0, 2))
        self.inverse = np.moveaxis(inverse, 2, 0)
        # K^-1 as one matrix.
        self.main_inverse = bsr_array((self.inverse, np.arange(n), np.arange(n + 1)))
        cross = gram.cross * main[:, None] * others
        self.pushed = self.main_inverse @ cross
        schur = others[:, None] * gram.others * others + np.eye(len(others))
        schur -= _dense(cross.T @ self.pushed)
        try:
            self.root = np.linalg.cholesky(schur)
            self.log_det = log_det.sum() + 2.0 * np.log(np.diag(self.root)).sum()
        except np.linalg.LinAlgError:
            # Scales beyond 1e8 times the noise leave no digits: a wall.
            self.root, self.log_det = np.eye(len(others)), np.inf

    def solve(self, vector):
        """H^-1 times a vector of effects."""
        n_main = self.pushed.shape[0]
        main, others = vector[:n_main], vector[n_main:]
        others = self._others_solved(others - self.pushed.T @ main)
        return np.append(self.main_inverse @ main - self.pushed @ others, others)

    def _others_solved(self, table):
        return cho_solve((self.root, True), table, check_finite=False)

    def spread(self, normal):
        """Deviations with covariance H^-1 from standard normal numbers."""
        n, q, _ = self.inverse.shape
        others = solve_triangular(
            self.root, normal[n * q :], lower=True, trans=1, check_finite=False
        )
        main = np.einsum("jkr,jr->jk", self.main_root, normal[: n * q].reshape(n, q))
        return np.append(main.ravel() - self.pushed @ others, others)

    @cached_property
    def main_root(self):
        """Lower triangular factors of the blocks of K^-1."""
        return np.moveaxis(cholesky(np.moveaxis(self.inverse, 0, 2)), 2, 0)

    @cached_property
    def others_inverse(self):
        """Block of H^-1 of the effects outside the main factor."""
        return self._others_solved(np.eye(len(self.root)))

    def inverse_blocks(self):
        """Blocks of groups with their entries of H^-1.

        Yields
        ------
        groups : slice
        blocks : ndarray of shape (n_some, q, q)
            Of the effects of each group.
        mixed : ndarray of shape (n_some * q, n_others)
            Of these with the effects of other factors.
        """
        n, q, _ = self.inverse.shape
        others = self.others_inverse
        rows = self.pushed.tocsr() if issparse(self.pushed) else self.pushed
        for some in row_blocks(n, 2 * q * len(others), _BLOCK):
            pushed = rows[some.start * q : some.stop * q]
            mixed = pushed @ others
            pushed = _dense(pushed)
            shape = len(mixed) // q, q, len(others)
            both = np.einsum(
                "jkm,jrm->jkr", mixed.reshape(shape), pushed.reshape(shape)
            )
            yield some, self.inverse[some] + both, -mixed

    def inverse_diagonal(self):
        """Diagonal of H^-1."""
        parts = [
            np.einsum("jkk->jk", blocks).ravel()
            for _, blocks, _ in self.inverse_blocks()
        ]
        return np.concatenate([*parts, np.diag(self.others_inverse)])
