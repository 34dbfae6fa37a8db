"""Products with a design matrix, dense or CSR, with an implicit intercept column.

The matrix is never copied and no column of ones is ever appended: with an intercept
the last parameter meets a constant that is added or summed where it is due.
"""

from functools import partial

import numpy as np
from scipy import sparse

from skboost._row_blocks import Table


class Block:
    """Some rows of a design matrix; products act on (dim,) or (dim, k) parameters.

    Parameters
    ----------
    table : Table
        The rows, with responses and weights where a sum needs them.
    intercept : bool
    """

    def __init__(self, table, intercept):
        self.table, self.intercept = table, intercept
        self.X, self.offset = table.X, table.offset

    def __len__(self):
        return len(self.table)

    def part(self, rows):
        """The rows of one slice."""
        return Block(self.table.block(rows), self.intercept)

    def predict(self, theta, out=None):
        """Linear predictor with the offset, (n_rows,) or (n_rows, k)."""
        out = self.apply(theta, out)
        if self.offset is not None:
            out += self.offset if out.ndim == 1 else self.offset[:, None]
        return out

    def apply(self, theta, out=None):
        """``X theta``, (n_rows,) or (n_rows, k); dense rows write it into ``out``."""
        slopes = theta[:-1] if self.intercept else theta
        if out is None or sparse.issparse(self.X):
            out = self.X @ slopes
        else:
            np.matmul(self.X, slopes, out=out)
        if self.intercept:
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
        # Where a row's stored pairs are few beside dim^2, a sparse Gram matrix is
        # cheaper.
        if X.nnz**2 < 0.01 * (n_rows * n_columns) ** 2:
            return scaled
        return scaled.toarray()


class Design:
    """Design matrix of a generalised linear model.

    Parameters
    ----------
    rows : RowSource
    fit_intercept : bool, default=True
        Whether the last parameter is an intercept.
    """

    def __init__(self, rows, fit_intercept=True):
        self.rows = rows
        self.fit_intercept = bool(fit_intercept)
        self.dim = rows.n_features + self.fit_intercept

    def block(self, rows):
        """The rows of one slice of a table."""
        return Block(self.rows.block(rows), self.fit_intercept)

    def sum_rows(self, func, width, entries=1):
        """Sum of ``func(block)`` over fixed blocks of rows, as `Table.sum`."""
        return self.rows.sum(
            partial(_of_block, func, self.fit_intercept), width, entries
        )


def _of_block(func, intercept, table):
    return func(Block(table, intercept))


def validated_table(X, y, weight=1.0, offset=None, n_jobs=None):
    """Arrays as a `Table`; they are used as they are, never copied.

    Raises
    ------
    ValueError
        For a sparse format other than CSR, or an offset that means nothing.
    """
    if sparse.issparse(X):
        if X.format != "csr":
            raise ValueError(
                f"X must be dense or in CSR format; got {X.format!r}. Convert it "
                "with X.tocsr()."
            )
    else:
        X = np.asarray(X, dtype=float)
    if offset is not None:
        offset = validate_offset(offset, X.shape[0])
    return Table(X, y, weight, offset, n_jobs=n_jobs)


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
