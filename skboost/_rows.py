"""Rows in a canonical form: equal data in another order or grouping is equal data."""

import numpy as np
from scipy import sparse

# Beyond this many bytes a sorted copy costs more than it is worth.
MAX_BYTES = 1 << 26


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
    # Zero the sign of zeros: -0.0 equals 0.0 but has other bits.
    X = X + 0.0 if not sparse.issparse(X) else _clean(X)
    y_keys = _hash_values(np.asarray(y, dtype=float))
    if y.ndim == 2:
        y_keys = (y_keys * _column_keys(y.shape[1])).sum(axis=1, dtype=np.uint64)
    keys = _hash_rows(X) * np.uint64(31) + y_keys
    keys, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    # Sorting first makes the sum over equal rows independent of their order.
    order = np.lexsort((weight, inverse))
    merged = np.add.reduceat(
        weight[order], np.searchsorted(inverse[order], range(len(keys)))
    )
    return X[first], y[first], merged


def _clean(X):
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _hash_values(values):
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    # The finaliser of a splitmix generator: every input bit reaches every output.
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _column_keys(n):
    return _hash_values(np.arange(1, n + 1, dtype=float)) | np.uint64(1)


def _hash_rows(X):
    """64-bit hashes of rows, by integer arithmetic that no summation order changes."""
    keys = _column_keys(X.shape[1])
    if not sparse.issparse(X):
        return (_hash_values(X) * keys).sum(axis=1, dtype=np.uint64)
    terms = np.append(_hash_values(X.data) * keys[X.indices], np.uint64(0))
    totals = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
    return totals[X.indptr[1:]] - totals[X.indptr[:-1]]
