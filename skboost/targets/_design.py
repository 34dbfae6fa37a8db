"""Products with a design matrix, dense or CSR, with an implicit intercept column.

The matrix is never copied and no column of ones is ever appended: with an intercept
the last parameter meets a constant that is added or summed where it is due.
"""

from functools import partial

import numpy as np
from scipy import sparse

from skboost._parallel import chunked_map, row_blocks

# Rows are cut into a fixed number of tasks, so that sums are added in one order for
# every n_jobs and only this many partial results are ever alive.
_MAX_TASKS = 8
_MAX_RESULT_ENTRIES = 1 << 21
# Below this ratio of a row's stored pairs to dim^2, a sparse Gram matrix is cheaper.
_SPARSE_GRAM = 0.01


class Block:
    """Some rows of a design matrix; products act on (dim,) or (dim, k) parameters."""

    def __init__(self, X, intercept, offset=None):
        self.X = X
        self.intercept = intercept
        self.offset = offset

    def predict(self, theta):
        """Linear predictor with the offset, (n_rows,) or (n_rows, k)."""
        out = self.apply(theta)
        if self.offset is not None:
            out += self.offset if out.ndim == 1 else self.offset[:, None]
        return out

    def apply(self, theta):
        """``X theta``, (n_rows,) or (n_rows, k)."""
        if not self.intercept:
            return self.X @ theta
        out = self.X @ theta[:-1]
        out += theta[-1]
        return out

    def _with_intercept(self, top, bottom):
        if not self.intercept:
            return top
        return np.concatenate([top, np.asarray(bottom)[None]])

    def pull(self, rows):
        """Transposed product ``X^T rows``, (dim,) or (dim, k)."""
        return self._with_intercept(self.X.T @ rows, rows.sum(axis=0))

    def apply_squares(self, variance):
        """Variance of the linear predictor under independent parameters."""
        squares = self._squares()
        if not self.intercept:
            return squares @ variance
        return squares @ variance[:-1] + variance[-1]

    def pull_squares(self, rows):
        """``sum_i rows_i x_i^2``, (dim,)."""
        return self._with_intercept(self._squares().T @ rows, rows.sum())

    def _squares(self):
        if not sparse.issparse(self.X):
            return self.X**2
        X = self.X
        return sparse.csr_matrix((X.data**2, X.indices, X.indptr), shape=X.shape)

    def gram(self, weights):
        """``X^T diag(weights) X`` for weights that are not negative, (dim, dim)."""
        root = np.sqrt(weights)
        scaled = self._scaled(root)
        inner = scaled.T @ scaled
        if sparse.issparse(inner):
            inner = inner.toarray()
        if not self.intercept:
            return inner
        dim = inner.shape[0] + 1
        out = np.empty((dim, dim))
        out[:-1, :-1] = inner
        out[-1, :-1] = out[:-1, -1] = scaled.T @ root
        out[-1, -1] = weights.sum()
        return out

    def _scaled(self, root):
        X = self.X
        if not sparse.issparse(X):
            return X * root[:, None]
        data = X.data * np.repeat(root, np.diff(X.indptr))
        scaled = sparse.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
        n_rows, n_columns = X.shape
        if X.nnz**2 < _SPARSE_GRAM * (n_rows * n_columns) ** 2:
            return scaled
        return scaled.toarray()


class Design:
    """Design matrix of a generalised linear model.

    Parameters
    ----------
    X : float array or CSR matrix (n_samples, n_features)
    fit_intercept : bool, default=True
        Whether the last parameter is an intercept.
    n_jobs : int, default=None
        Threads over fixed blocks of rows.
    offset : array (n_samples,), default=None
        Added to every linear predictor of a row.

    Raises
    ------
    ValueError
        For a sparse format other than CSR, or an offset that means nothing.
    """

    def __init__(self, X, fit_intercept=True, n_jobs=None, offset=None):
        if sparse.issparse(X):
            if X.format != "csr":
                raise ValueError(
                    f"X must be dense or in CSR format; got {X.format!r}. Convert it "
                    "with X.tocsr()."
                )
        else:
            X = np.asarray(X, dtype=float)
        self.X = X
        self.fit_intercept = bool(fit_intercept)
        self.n_jobs = n_jobs
        self.n_samples = X.shape[0]
        self.dim = X.shape[1] + self.fit_intercept
        self.offset = None if offset is None else validate_offset(offset, X.shape[0])

    def block(self, rows):
        """The rows of one slice; CSR data are viewed, not copied."""
        X = self.X
        if sparse.issparse(X) and (rows.start > 0 or rows.stop < self.n_samples):
            bounds = X.indptr[rows.start : rows.stop + 1]
            stored = slice(bounds[0], bounds[-1])
            # SciPy's constructor would copy views that are much smaller than their
            # base.
            view = sparse.csr_matrix((bounds.size - 1, X.shape[1]), dtype=X.dtype)
            view.data, view.indices = X.data[stored], X.indices[stored]
            view.indptr = bounds - bounds[0]
            X = view
        elif not sparse.issparse(X):
            X = X[rows]
        offset = None if self.offset is None else self.offset[rows]
        return Block(X, self.fit_intercept, offset)

    def sum_rows(self, func, n_columns, result_entries=1):
        """Sum of ``func(rows, block)`` over fixed blocks of rows.

        Parameters
        ----------
        func : callable
            Returns a tuple of arrays or floats.
        n_columns : int
            Width of the temporaries of one row, which sets the block size.
        result_entries : int, default=1
            Size of what ``func`` returns; large results are split less.

        Returns
        -------
        total : list
            The sums, the same bits for every ``n_jobs``.
        """
        blocks = row_blocks(self.n_samples, n_columns)
        n_tasks = min(_MAX_TASKS, max(2, _MAX_RESULT_ENTRIES // result_entries))
        n_tasks = min(n_tasks, len(blocks))
        cuts = [len(blocks) * k // n_tasks for k in range(n_tasks + 1)]
        tasks = [blocks[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
        return _add_up(chunked_map(partial(self._task, func), tasks, self.n_jobs))

    def _task(self, func, blocks):
        return _add_up(func(rows, self.block(rows)) for rows in blocks)


def validate_offset(offset, n_samples):
    """Offset as a float array (n_samples,).

    Raises
    ------
    ValueError
        If it is not numeric, not finite or of another shape.
    """
    try:
        values = np.asarray(offset, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"offset must be an array of {n_samples} numbers; got {offset!r}."
        ) from error
    if values.shape != (n_samples,):
        raise ValueError(
            f"offset must have shape ({n_samples},), one entry per row of X; got "
            f"{values.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(
            f"offset must be finite; got {values[bad[0]]} in row {bad[0]}. For counts "
            "it is the logarithm of the exposure, which must be positive."
        )
    return values


def _add_up(results):
    total = None
    for result in results:
        if total is None:
            total = list(result)
        else:
            for k, value in enumerate(result):
                total[k] += value
    return total


def sum_log(values, limit=512):
    """Column sums of ``ln values``, through one logarithm per ``limit`` factors.

    Parameters
    ----------
    values : array (n_rows, n_columns), C order
        Between 1 and 2 for the default limit, so that no product overflows.
    limit : int, default=512
        Largest number of rows in one product.
    """
    n_rows, n_columns = values.shape
    # Few columns are folded with rows into longer ones, which vectorise.
    n_groups = max(-(-n_rows // limit), min(n_rows, -(-64 // n_columns)))
    length = n_rows // n_groups
    head = values[: length * n_groups].reshape(length, n_groups * n_columns)
    logs = np.log(np.multiply.reduce(head, axis=0)).reshape(n_groups, n_columns)
    return logs.sum(axis=0) + np.log(values[length * n_groups :]).sum(axis=0)
