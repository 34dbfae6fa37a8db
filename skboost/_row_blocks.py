"""Rows wherever they are: in memory, in a file, or in blocks that a function yields.

All sums over rows go through ``sum(func, width)``: `Table` has rows that positions
select from, `BlockTables` reads blocks anew for every sum, and `skboost.dask` leaves
them on its workers. Nothing here holds more than a block of what it computes.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from skboost._columns import refuse_dates, validate_data
from skboost._parallel import SharedWithWorkers, chunked_map, row_blocks
from skboost._rows import MAX_BYTES, canonical_rows

# Rows of an array that are checked together: 40 MiB at 20 columns.
_ROWS_AT_ONCE = 1 << 18
# Smaller arrays, in bytes, go with every call to another process.
_LARGE = 1 << 18


class RowBlocks:
    """Rows that come in blocks, as often as a fit asks for them.

    For data that do not fit into memory. ``fit(RowBlocks(...))`` of the boosted linear
    models and of `SVIGaussianMixture` holds one block at a time, and at the start up to
    a twentieth of the rows. A fit reads all blocks five to twelve times by default, and
    more often under other noise and priors: better from a binary file than parsed.

    Parameters
    ----------
    blocks : callable
        Without arguments; every call returns an iterable over all blocks, in the same
        order. A block is ``(X, y)`` or ``(X, y, sample_weight)``, for a Poisson
        regression also ``(X, y, sample_weight, offset)`` with None for what is not
        there, for a mixture ``X`` or ``(X, None, sample_weight)``. `X` is an array, a
        sparse matrix or a data frame. Blocks of 10,000 rows and more make the most of
        the machine.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import BoostedBayesianLogisticRegression, RowBlocks
    >>> def blocks():
    ...     for seed in range(3):
    ...         rng = np.random.default_rng(seed)
    ...         X = rng.normal(size=(1000, 2))
    ...         yield X, X[:, 0] + rng.logistic(size=1000) > 0
    >>> model = BoostedBayesianLogisticRegression(random_state=0)
    >>> model.fit(RowBlocks(blocks)).coef_.shape
    (1, 2)
    """

    def __init__(self, blocks):
        if not callable(blocks):
            raise ValueError(
                "blocks must be a function that returns a new iterable of blocks at "
                f"every call; got {type(blocks).__name__}. A fit reads the rows many "
                "times: wrap what you have, such as RowBlocks(lambda: iter(blocks))."
            )
        self.blocks = blocks

    def __iter__(self):
        """Blocks as tuples (X, y, sample_weight, offset), None for what is missing."""
        for block in self.blocks():
            parts = block if isinstance(block, tuple | list) else (block,)
            if not 1 <= len(parts) <= 4:
                raise ValueError(
                    "RowBlocks must yield X or (X, y[, sample_weight[, offset]]); got "
                    f"a block of {len(parts)} parts."
                )
            shape = getattr(parts[0], "shape", ())
            if len(shape) != 2:
                raise ValueError(
                    "RowBlocks must yield arrays, sparse matrices or data frames of "
                    f"two dimensions as X; got {type(parts[0]).__name__} of shape "
                    f"{shape}."
                )
            if shape[0]:
                # Lists and series of pandas have no slices as arrays have them.
                X, *rest = (*parts, *[None] * (4 - len(parts)))
                yield X, *(None if one is None else np.asarray(one) for one in rest)

    def __array__(self, dtype=None, copy=None):
        """What asks for an array is no `fit` that reads blocks."""
        raise ValueError(
            "X must be an array, a sparse matrix or a data frame here; got RowBlocks, "
            "which fit of the boosted linear models without groups and of "
            "SVIGaussianMixture reads. SVI and online estimators take one block after "
            "another in partial_fit; other methods take one block at a time."
        )


def even(weight):
    """Weights as one number where all are equal."""
    return float(weight[0]) if np.ptp(weight) == 0.0 else weight


def sliced(X, y=None, sample_weight=None, offset=None):
    """Arrays of the same rows, such as memory maps, as `RowBlocks` of views."""

    def blocks():
        for start in range(0, len(X), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            parts = (X, y, sample_weight, offset)
            yield tuple(None if part is None else part[rows] for part in parts)

    return RowBlocks(blocks)


def as_blocks(X, y=None, sample_weight=None, offset=None):
    """Rows that must not be copied as `RowBlocks`; None for all others.

    Those are `RowBlocks` and memory maps of more than 64 MiB. Several responses are
    several fits, of rows in memory.
    """
    others = {"y": y, "sample_weight": sample_weight, "offset": offset}
    given = {name: value for name, value in others.items() if value is not None}
    if isinstance(X, RowBlocks):
        if given:
            raise ValueError(
                f"{' and '.join(given)} must come within the blocks where X is "
                "RowBlocks: yield (X, y, sample_weight) for every block."
            )
        return X
    if not is_mapped(X) or np.ndim(y) > 1:
        return None
    for name, value in given.items():
        if len(value) != len(X):
            raise ValueError(
                f"{name} must have as many entries as X has rows, {len(X)}; got "
                f"{len(value)}."
            )
    return sliced(X, y, sample_weight, offset)


def is_mapped(X):
    """Whether rows stay in their file."""
    return isinstance(X, np.memmap) and X.ndim == 2 and 8 * X.size > MAX_BYTES


def checked_weights(weight, n_rows):
    """Weights of a block as floats, 1.0 for None."""
    if weight is None:
        return 1.0
    refuse_dates(weight, "sample_weight")
    weight = np.asarray(weight, dtype=float)
    if weight.shape != (n_rows,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError(
            f"sample_weight must be finite, not negative and of shape ({n_rows},) as "
            f"its block of rows; got shape {weight.shape} and a least value of "
            f"{np.min(weight, initial=np.inf)}."
        )
    return weight


class RowSource:
    """Rows that can be summed over: `Table`, or what gives a function of every `Table`.

    `summary` is what a pass over the rows has found, `y` responses that are in memory.
    """

    summary = None
    y = None

    def sum(self, func, width, entries=1):
        """See `Table.sum`; the tables are summed over where they are."""
        return add_up(self.map(partial(_sum, func, width, entries)))

    def every(self, step):
        """A `Table` of every so many rows, as sums over rows take them."""
        tables = list(self.map(partial(_every, step)))
        X = [table.X for table in tables]
        X = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.vstack(X)
        weight = [np.broadcast_to(one.weight, len(one)) for one in tables]
        offset = [one.offset for one in tables]
        offset = None if offset[0] is None else np.concatenate(offset)
        y = np.concatenate([one.y for one in tables])
        return Table(X, y, np.concatenate(weight), offset)


@dataclass
class RowReader:
    """How an estimator reads the rows of a fit, wherever they are.

    Subclasses give three methods. ``held(estimator, X, y, sample_weight, offset)``
    checks rows in memory and makes a `Table` of them. ``look(index, X, y, weight,
    offset)`` checks one block of rows, and says what is in it; it runs where the block
    is. ``together(parts)`` merges that of all blocks, and learns how responses are
    coded; what it returns has ``n_rows``, and a ValueError says that no row has a
    weight.
    """

    n_jobs: object = None

    def coded(self, y, weight):
        """Responses and weights of a block as sums over rows take them."""
        return y, weight

    def known(self, summary):
        """What the first pass says of rows as sums over them take these, or None."""
        return summary

    def source(self, estimator, X, y=None, sample_weight=None, offset=None):
        """A `RowSource` of the arguments of ``fit``, after a pass that checks them."""
        blocks = as_blocks(X, y, sample_weight, offset)
        if blocks is None:
            return self.held(estimator, X, y, sample_weight, offset)
        found = self.together(self._looks(estimator, blocks))
        if is_mapped(X):
            y = None if y is None else np.asarray(y)
            weight = 1.0 if sample_weight is None else np.asarray(sample_weight, float)
            offset = None if offset is None else np.asarray(offset, float)
            rows = Table(X, y, weight, offset, self.coded, self.n_jobs)
        else:
            tables = partial(self._tables, blocks)
            rows = BlockTables(tables, found.n_rows, estimator.n_features_in_)
        rows.summary = self.known(found)
        return rows

    def _looks(self, estimator, blocks):
        for index, block in enumerate(blocks):
            first = index == 0
            validate_data(estimator, block[0], reset=first, skip_check_array=True)
            yield self.look(index, *block)

    def _tables(self, blocks):
        for X, y, weight, offset in blocks:
            X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
            weight = checked_weights(weight, X.shape[0])
            yield Table(X, y, weight, offset, self.coded, self.n_jobs, "shared")


class Table(SharedWithWorkers, RowSource):
    """Rows of one or several arrays, in memory or mapped from a file.

    X (n_rows, n_features) has any type of float: blocks are converted as they are
    needed. A weight is one number where all are equal. `code` makes of the responses
    and weights of a block what sums over rows take for them.
    """

    def __init__(
        self, X, y=None, weight=1.0, offset=None, code=None, n_jobs=None,
        backend="threading",
    ):  # fmt: skip
        self.X, self.y, self.weight, self.offset = X, y, weight, offset
        self.code, self.n_jobs, self.backend = code, n_jobs, backend

    @classmethod
    def canonical(cls, X, y, weight, n_jobs=None):
        """Rows in the form that `canonical_rows` gives, weights as one where equal."""
        X, y, weight = canonical_rows(X, y, weight)
        return cls(X, y, even(weight), n_jobs=n_jobs)

    @property
    def n_features(self):
        """Columns of `X`."""
        return self.X.shape[1]

    def __len__(self):
        return self.X.shape[0]

    def __sizeof__(self):
        """Bytes of the arrays, by which schedulers count what they hold."""
        X = self.X
        parts = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
        parts += [self.y, self.weight, self.offset]
        arrays = [part for part in parts if isinstance(part, np.ndarray)]
        return object.__sizeof__(self) + sum(array.nbytes for array in arrays)

    def block(self, rows):
        """The rows of one slice, ready to be summed over; views, where that is so."""
        X = _rows_of(self.X, rows, len(self))
        y = None if self.y is None else self.y[rows]
        weight = self.weight
        weight = weight if isinstance(weight, float) else weight[rows]
        if self.code is not None:
            y, weight = self.code(y, weight)
        offset = None if self.offset is None else self.offset[rows]
        return Table(X, y, weight, offset)

    def sum(self, func, width, entries=1):
        """Sums of what ``func(block)`` returns, a tuple, over fixed blocks of rows.

        They are the same bits for every ``n_jobs`` and backend. `width` is that of the
        temporaries of a row, which sets the size of a block; `entries` the size of what
        `func` returns: large results are split less.
        """
        blocks = row_blocks(len(self), width)
        # A fixed number of tasks, so that sums are added in one order for every n_jobs,
        # and only so many partial results are ever alive.
        n_tasks = min(8, max(2, (1 << 21) // entries))
        n_tasks = min(n_tasks, len(blocks))
        cuts = [len(blocks) * k // n_tasks for k in range(n_tasks + 1)]
        tasks = [blocks[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
        work = partial(_sum_over, func)
        return add_up(chunked_map(work, tasks, self.n_jobs, self.backend, self))

    def map(self, func):
        """``func`` of every table: of this one."""
        return [func(self)]

    def in_files(self, folder):
        """This table with its large arrays mapped from files in a folder."""

        def mapped(name, array):
            large = isinstance(array, np.ndarray) and array.nbytes >= _LARGE
            # Objects have no place in a map of numbers.
            if not large or isinstance(array, np.memmap) or array.dtype == object:
                return array
            np.save(f"{folder}/{name}.npy", array)
            return np.load(f"{folder}/{name}.npy", mmap_mode="r")

        X = self.X
        if sparse.issparse(X):
            parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
            parts = {name: mapped(name, array) for name, array in parts.items()}
            X = _csr(X.shape, **parts)
        else:
            X = mapped("X", X)
        others = {"y": self.y, "weight": self.weight, "offset": self.offset}
        others = {name: mapped(name, array) for name, array in others.items()}
        return Table(X, **others, code=self.code)


class BlockTables(RowSource):
    """Tables that are read anew for every sum, by a function that yields them."""

    def __init__(self, tables, n_rows, n_features):
        self._tables, self._n_rows = tables, n_rows
        self.n_features = n_features

    def __len__(self):
        return self._n_rows

    def __iter__(self):
        n_rows = 0
        for table in self._tables():
            n_rows += len(table)
            yield table
        if n_rows != self._n_rows:
            raise ValueError(
                "RowBlocks must yield the same rows at every pass; got "
                f"n_rows={self._n_rows} at first and {n_rows} now. The function "
                "must return a new iterator whenever it is called."
            )

    def map(self, func):
        """``func`` of every table, which are read one after the other."""
        return (func(table) for table in self)


def _every(step, table):
    return table.block(slice(None, None, step))


def _sum(func, width, entries, table):
    return table.sum(func, width, entries)


def _sum_over(func, table, blocks):
    return add_up(func(table.block(rows)) for rows in blocks)


def _rows_of(X, rows, n_rows):
    """Some rows as float64; CSR data are viewed, not copied."""
    if not sparse.issparse(X):
        return np.asarray(X[rows], dtype=float)
    if rows.step is not None:
        return X[rows]
    if rows.start == 0 and rows.stop >= n_rows:
        return X
    bounds = X.indptr[rows.start : rows.stop + 1]
    stored = slice(bounds[0], bounds[-1])
    shape = (bounds.size - 1, X.shape[1])
    return _csr(shape, X.data[stored], X.indices[stored], bounds - bounds[0])


def _csr(shape, data, indices, indptr):
    """A matrix of these arrays, none of them copied."""
    # SciPy's constructor would copy views that are much smaller than their base.
    made = sparse.csr_matrix(shape, dtype=data.dtype)
    made.data, made.indices, made.indptr = data, indices, indptr
    return made


def add_up(results):
    """Entry by entry the sum of tuples of arrays or floats, as a list."""
    total = None
    for result in results:
        if total is None:
            total = list(result)
        else:
            for k, value in enumerate(result):
                total[k] += value
    return total
