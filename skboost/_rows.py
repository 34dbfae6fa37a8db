"""Rows in a canonical form: equal data in another order or grouping is equal data."""

from functools import cache

import numpy as np
from scipy import sparse

# Beyond this many bytes a sorted copy costs more than it is worth.
MAX_BYTES = 1 << 26
# Numbers that are hashed at once, in the cache.
_AT_ONCE = 1 << 15
_MIXING = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)


def canonical_rows(X, y, weight):
    """Rows of zero weight dropped, equal rows merged, the rest in a fixed order.

    The search for components follows its rounding errors, so without this the order of
    rows would show in the last digits, and `sample_weight` would not equal repetition
    to rounding. Data above 64 MiB are left as they are.
    """
    used = weight > 0
    if not used.all():
        X, y, weight = X[used], y[used], weight[used]
    size = X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes
    if size > MAX_BYTES:
        return X, y, weight
    X = _clean(X) if sparse.issparse(X) else X
    y_keys = _hash_values(np.asarray(y, dtype=float))
    if y.ndim == 2:
        y_keys = (y_keys * _column_keys(y.shape[1])).sum(axis=1, dtype=np.uint64)
    keys = _hash_rows(X) * np.uint64(31) + y_keys
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(keys[order]) != 0))[: len(keys)]
    first = order[starts]
    merged = weight[first]
    if len(first) < len(weight):
        # Sorting first makes the sum over equal rows independent of their order.
        merged = np.add.reduceat(weight[np.lexsort((weight, keys))], starts)
    X = X[first]
    # Zero the sign of zeros: -0.0 equals 0.0 but has other bits.
    return X if sparse.issparse(X) else np.add(X, 0.0, out=X), y[first], merged


def _clean(X):
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _hash_values(values):
    bits = np.add(values, 0.0, dtype=np.float64, order="C").view(np.uint64)
    # The finaliser of a splitmix generator: every input bit reaches every output.
    shifted = np.empty_like(bits)
    for shift, factor in _MIXING:
        bits ^= np.right_shift(bits, shift, out=shifted)
        bits *= factor
    bits ^= np.right_shift(bits, np.uint64(31), out=shifted)
    return bits


@cache
def _column_keys(n):
    return _hash_values(np.arange(1, n + 1, dtype=float)) | np.uint64(1)


def _hash_rows(X):
    """64-bit hashes of rows, by integer arithmetic that no summation order changes."""
    keys = _column_keys(X.shape[1])
    if not sparse.issparse(X):
        step = max(1, _AT_ONCE // max(1, X.shape[1]))
        blocks = (X[start : start + step] for start in range(0, max(1, len(X)), step))
        return np.concatenate([_hash_values(block) @ keys for block in blocks])
    terms = np.append(_hash_values(X.data) * keys[X.indices], np.uint64(0))
    totals = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
    return totals[X.indptr[1:]] - totals[X.indptr[:-1]]
