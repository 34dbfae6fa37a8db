"""Rows of Dask arrays as tables on the workers, and sums over them."""

from functools import partial

import numpy as np
from scipy import sparse

from skboost._parallel import single_threaded_blas
from skboost._row_blocks import RowSource, Table, add_up, checked_weights


class WorkerTables(RowSource):
    """Tables that stay where Dask has put them; only sums come back.

    Sums are added in the order of the blocks, so that a fit depends, beyond rounding,
    neither on how many workers there are nor on whether one died: the scheduler knows
    how its blocks were made, and has them made again.

    Parameters
    ----------
    tables : list of dask.delayed.Delayed
        Of `Table`.
    n_rows, n_features : int
    """

    def __init__(self, tables, n_rows, n_features):
        self.tables, self._n_rows, self.n_features = tables, n_rows, n_features

    def __len__(self):
        return self._n_rows

    def sum(self, func, width, entries=1):
        """See `Table.sum`."""
        return add_up(self.map(partial(_sum, func, width, entries)))

    def map(self, func):
        """``func`` of every table, computed where the table is."""
        return computed(func, self.tables)


def worker_rows(reader, X, y=None, sample_weight=None, offset=None):
    """`WorkerTables` of Dask arrays, after a pass that checks them.

    Parameters
    ----------
    reader : RowReader
        Goes to the workers, before and after it knows what is in all blocks.
    X : dask.array.Array of shape (n_samples, n_features)
    y, sample_weight, offset : dask.array.Array of shape (n_samples,), default=None

    Returns
    -------
    WorkerTables
        With ``summary``.
    """
    import dask

    parts = [_blocks("X", X.rechunk({1: -1}))]
    for name, value in (("y", y), ("sample_weight", sample_weight), ("offset", offset)):
        parts.append(_blocks(name, _aligned(name, value, X), len(parts[0])))
    raw = [dask.delayed(_table)(*block) for block in zip(*parts, strict=True)]
    raw = _kept(raw)
    looks = [dask.delayed(_look)(reader.look, k, table) for k, table in enumerate(raw)]
    found = dask.compute(*looks)
    used = [k for k, part in enumerate(found) if part is not None]
    summary = reader.together(found[k] for k in used)
    tables = _kept([dask.delayed(_coded)(raw[k], reader.coded) for k in used])
    rows = WorkerTables(tables, summary.n_rows, X.shape[1])
    rows.summary = summary
    return rows


def computed(func, tables):
    """``func`` of every table, where the table is."""
    import dask

    return dask.compute(*[dask.delayed(_limited)(func, table) for table in tables])


def is_dask(X):
    """Whether something is a Dask array."""
    import dask.array

    return isinstance(X, dask.array.Array)


def _aligned(name, value, X):
    """An array in blocks of the same rows as those of X."""
    if value is None:
        return None
    if not is_dask(value) or value.ndim != 1:
        raise ValueError(
            f"{name} must be a Dask array of one dimension, as X is a Dask array; got "
            f"{type(value).__name__}. Convert it by dask.array.from_array."
        )
    known = not (np.isnan(X.shape[0]) or np.isnan(value.shape[0]))
    if known and len(value) != len(X):
        raise ValueError(
            f"{name} must have as many entries as X has rows, {len(X)}; got "
            f"{len(value)}."
        )
    return value.rechunk((X.chunks[0],)) if known else value


def _blocks(name, array, n_blocks=None):
    if array is None:
        return [None] * n_blocks
    found = list(array.to_delayed().ravel())
    if n_blocks is not None and len(found) != n_blocks:
        raise ValueError(
            f"{name} must have the blocks of X, {n_blocks}, where their sizes are not "
            f"known; got {len(found)}."
        )
    return found


def _kept(tables):
    """Computed once and kept on the workers; without workers, computed when needed."""
    import dask

    try:
        from distributed import default_client

        default_client()
    except (ImportError, ValueError):
        return tables
    return list(dask.persist(*tables))


# --- on the workers


def _table(X, y, weight, offset):
    # One layout wherever the block was made: sums run along rows.
    X = X.tocsr() if sparse.issparse(X) else np.ascontiguousarray(X)
    return Table(X, y, weight, offset)


def _look(look, index, table):
    if not len(table):
        return None
    with single_threaded_blas():
        return look(index, table.X, table.y, table.weight, table.offset)


def _coded(table, code):
    weight = checked_weights(table.weight, len(table))
    y, weight = code(table.y, weight)
    return Table(table.X, y, weight, table.offset)


def _limited(func, table):
    with single_threaded_blas():
        return func(table)


def _sum(func, width, entries, table):
    return table.sum(func, width, entries)
