"""Observed entries of a matrix, in memory linear in their number."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from scipy import sparse


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries of a matrix that were observed, sorted by row and then by column."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    shape: tuple

    @property
    def digest(self):
        """A short key of all entries: other data have another one."""
        key = blake2b(str(self.shape).encode(), digest_size=16)
        for part in (self.rows, self.columns, self.values):
            key.update(np.ascontiguousarray(part).data)
        return key.hexdigest()

    @classmethod
    def of(cls, X, dtype=np.float64):
        """The observed entries of a matrix: those that are not NaN.

        Of a sparse matrix the stored ones are observed, zeros among them. DIA matrices
        lose stored zeros, and BSR matrices store whole blocks: that is how SciPy
        converts them.
        """
        if np.ndim(X) != 2:
            raise ValueError(
                f"X must be a matrix of rows and columns; got ndim={np.ndim(X)}."
            )
        if sparse.issparse(X):
            found = X.tocoo()
            values = np.asarray(found.data, dtype=dtype)
            seen = ~np.isnan(values)
            rows, columns, values = found.row[seen], found.col[seen], values[seen]
        else:
            X = np.asarray(X, dtype=dtype)
            rows, columns = np.nonzero(~np.isnan(X))
            values = X[rows, columns]
        return cls.make(rows, columns, values, X.shape)

    @classmethod
    def make(cls, rows, columns, values, shape):
        """Entries from positions and values in any order, each at most once."""
        rows, columns = np.asarray(rows), np.asarray(columns)
        _check_inside("row", rows, shape[0])
        _check_inside("column", columns, shape[1])
        # Linear in the entries, where a sort is not.
        order = sparse.coo_array((np.arange(len(rows)), (rows, columns)), shape=shape)
        order = order.tocsr()
        if order.nnz < len(rows):
            raise ValueError(_twice(rows, columns))
        order = order.data
        values = np.asarray(values)[order]
        infinite = values[~np.isfinite(values)]
        if infinite.size:
            raise ValueError(
                f"Observed entries of X must be finite; got {infinite[0]!r}."
            )
        parts = *_indices(rows[order], columns[order]), values
        return cls(*parts, tuple(int(n) for n in shape))

    def __len__(self):
        """Number of entries."""
        return len(self.values)

    def __getitem__(self, index):
        """Some of the entries of the same matrix: a slice, a mask, or positions.

        Positions may come in any order; the entries stay sorted.
        """
        index = np.sort(np.arange(len(self))[index])
        if np.any(index[1:] == index[:-1]):
            raise IndexError("Positions of entries must be distinct.")
        parts = self.rows[index], self.columns[index], self.values[index]
        return Entries(*parts, self.shape)

    @cached_property
    def row_pointers(self):
        """Where each row begins, and the end: shape (n_rows + 1,)."""
        counts = np.bincount(self.rows, minlength=self.shape[0])
        return np.concatenate([[0], np.cumsum(counts)])

    @property
    def row_counts(self):
        """Entries of each row, shape (n_rows,)."""
        return np.diff(self.row_pointers)

    @cached_property
    def by_column(self):
        """Positions of the entries in the order of columns, then rows."""
        return self.matrix(np.arange(len(self))).tocsc().data

    @cached_property
    def transposed(self):
        """The entries of the transposed matrix: those `by_column`."""
        order = self.by_column
        parts = self.columns[order], self.rows[order], self.values[order]
        return Entries(*parts, self.shape[::-1])

    def halves(self, rng):
        """The entries of each row cut in two at random.

        Of an odd number the second half has one more: a single entry is never in the
        first.
        """
        order = np.lexsort((rng.random(len(self)), self.rows))
        within = np.arange(len(self)) - self.row_pointers[:-1][self.rows]
        first = np.zeros(len(self), dtype=bool)
        first[order] = within < (self.row_counts // 2)[self.rows]
        return self[first], self[~first]

    def with_values(self, values):
        """The same positions with other values, shape (n_entries,)."""
        return Entries(self.rows, self.columns, values, self.shape)

    def matrix(self, values=None):
        """A sparse matrix (CSR) that stores the entries, or other values in them."""
        values = self.values if values is None else values
        pointers = self.row_pointers.astype(self.columns.dtype)
        return sparse.csr_array((values, self.columns, pointers), shape=self.shape)


def _indices(rows, columns):
    """As SciPy's sparse matrices hold them: 32 bits where they suffice."""
    last = max([len(rows), *(int(part.max(initial=0)) for part in (rows, columns))])
    kind = np.int32 if last <= np.iinfo(np.int32).max else np.int64
    return rows.astype(kind), columns.astype(kind)


def _check_inside(name, index, n):
    if index.size and not (0 <= index.min() and index.max() < n):
        raise ValueError(
            f"Every {name} must be an integer from 0 to {n - 1}; got "
            f"{index.min()} to {index.max()}."
        )


def _twice(rows, columns):
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    same = np.flatnonzero((rows[1:] == rows[:-1]) & (columns[1:] == columns[:-1]))
    return (
        f"X stores entries more than once ({len(same)} in all), first at row "
        f"{rows[same[0]]}, column {columns[same[0]]}. Keep one value for each; "
        "X.sum_duplicates() would add them up."
    )
