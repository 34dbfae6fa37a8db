"""Products with a design matrix, dense or CSR, with an implicit intercept column.

Linear predictors of a block of rows under Gaussian parameters, too, and back.

The matrix is never copied and no column of ones is ever appended: with an intercept
the last parameter meets a constant that is added or summed where it is due.
"""

import numpy as np
from scipy import sparse

from skboost._columns import refuse_dates
from skboost._math import as_floats


class Block:
    """Some rows of a design matrix; products act on (dim,) or (dim, k) parameters."""

    def __init__(self, table, intercept):
        self.table, self.intercept = table, intercept
        self.X, self.offset = table.X, table.offset

    def __len__(self):
        return len(self.table)

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
        edge = (scaled.T @ root)[None]
        return np.block([[inner, edge.T], [edge, weights.sum()]])

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


def validate_offset(offset, n_samples):
    """Offset as a float array (n_samples,)."""
    values = _one_per_row("offset", offset, n_samples)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(
            f"offset must be finite; got {values[bad[0]]} in row {bad[0]}. "
            + (
                "Where it is the logarithm of an exposure, that must be positive."
                if values[bad[0]] == -np.inf
                else "Fill it in, or leave the row out."
            )
        )
    return values


def with_exposure(offset, exposure, n_samples):
    """Offset plus the logarithm of the exposure; None where neither is given."""
    if exposure is None:
        return offset
    values = _one_per_row("exposure", exposure, n_samples)
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0.0)))
    if bad.size:
        raise ValueError(
            "exposure must be positive and finite: it is a factor of the rate; got "
            f"{values[bad[0]]} in row {bad[0]}. Drop rows that were not exposed."
        )
    return np.log(values) if offset is None else offset + np.log(values)


def _one_per_row(name, given, n_samples):
    """An argument of a user as a float array (n_samples,)."""
    refuse_dates(given, name)
    try:
        values = as_floats(given)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of numbers, one per row of X; got {given!r}."
        ) from error
    if values.shape != (n_samples,):
        raise ValueError(
            f"{name} must have shape ({n_samples},), one entry per row of X; got "
            f"{values.shape}."
        )
    return values


def sum_log(values, limit=512):
    """Column sums of ``ln values``, in C order, through one logarithm per ``limit``
    factors."""
    n_rows, n_columns = values.shape
    # Few columns are folded with rows into longer ones, which vectorise.
    n_groups = max(-(-n_rows // limit), min(n_rows, -(-64 // n_columns)))
    length = n_rows // n_groups
    head = values[: length * n_groups].reshape(length, n_groups * n_columns)
    logs = np.log(np.multiply.reduce(head, axis=0)).reshape(n_groups, n_columns)
    return logs.sum(axis=0) + np.log(values[length * n_groups :]).sum(axis=0)


# --- under Gaussian parameters


class GaussianPredictors:
    """Linear predictors under parameters N(mean, diag(variance) + factor factor^T).

    Means are (n_outputs, n_rows), covariances (n_pairs, n_rows) in the order of
    ``numpy.triu_indices``; `spread` is the factor's part (n_rows, rank), or None.
    """

    def __init__(self, block, n_outputs, mean, variance, factor):
        self.block, self._n_outputs = block, n_outputs
        self._with_variance = variance is not None
        self._pairs = list(zip(*np.triu_indices(n_outputs), strict=True))
        self.mean = np.stack([block.predict(m) for m in mean.reshape(n_outputs, -1)])
        self.covariance = np.zeros((len(self._pairs), self.mean.shape[1]))
        if variance is not None:
            each = variance.reshape(n_outputs, -1)
            for pair, (k, m) in enumerate(self._pairs):
                if k == m:
                    self.covariance[pair] += block.apply_squares(each[k])
        self.spread = None
        if factor is not None:
            each = factor.reshape(n_outputs, -1, factor.shape[1])
            self.spread = [block.apply(part) for part in each]
            for pair, (k, m) in enumerate(self._pairs):
                self.covariance[pair] += np.einsum(
                    "ij,ij->i", self.spread[k], self.spread[m]
                )

    def pull_mean(self, slope):
        """Gradient in the parameters' mean from slopes (n_outputs, n_rows)."""
        return np.concatenate([self.block.pull(each) for each in slope])

    def pull(self, slope, bend):
        """Gradients in mean, variance and factor, those that were given.

        Of derivatives in means, and minus twice those in covariances, which may be
        overwritten.
        """
        result = [self.pull_mean(slope)]
        if self._with_variance:
            parts = [
                self.block.pull_squares(bend[pair])
                for pair, (k, m) in enumerate(self._pairs)
                if k == m
            ]
            result.append(-0.5 * np.concatenate(parts))
        if self.spread is None:
            return result
        total = [np.zeros_like(spread) for spread in self.spread]
        for pair, (k, m) in enumerate(self._pairs):
            total[k] += bend[pair][:, None] * self.spread[m]
            if k != m:
                total[m] += bend[pair][:, None] * self.spread[k]
        result.append(-np.concatenate([self.block.pull(each) for each in total]))
        return result

    def grams(self, bend):
        """``sum_i bend_i x_i x_i^T`` for every pair of predictors, as one matrix."""
        n_outputs = self._n_outputs
        grams = [signed_gram(self.block, each) for each in bend]
        dim = len(grams[0])
        out = np.empty((n_outputs, dim, n_outputs, dim))
        for gram, (k, m) in zip(grams, self._pairs, strict=True):
            out[k, :, m] = out[m, :, k] = gram
        return out.reshape(n_outputs * dim, n_outputs * dim)


def signed_gram(block, weights):
    """``X^T diag(weights) X`` for weights of any sign; one product where one serves."""
    if weights.min() >= 0.0:
        return block.gram(weights)
    if weights.max() <= 0.0:
        return -block.gram(-weights)
    return block.gram(np.maximum(weights, 0.0)) - block.gram(np.maximum(-weights, 0.0))
