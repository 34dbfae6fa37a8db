"""Estimators for Dask arrays, whose rows stay with the workers; only sums come back."""

from functools import partial, wraps
from operator import methodcaller

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skboost._parallel import limited
from skboost._row_blocks import BlockTables, Table, checked_weights
from skboost.fitting import Fit
from skboost.linear_model import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
)
from skboost.mixture import SVIGaussianMixture


class WorkerTables(BlockTables):
    """Tables that stay where Dask has put them; only sums come back.

    Sums are added in the order of the blocks, so that the number of workers and the
    death of one matter by rounding alone. `client` is that of the workers, or None.
    """

    client = None

    def map(self, func):
        """``func`` of every table, computed where the table is."""
        import dask

        if getattr(self.client, "status", None) == "closed":
            raise RuntimeError(
                "The rows of this fit were with the workers of a client that is closed "
                "now, and posterior_, intervals and what remains are computed when "
                "they are first asked for. Ask for them, or pickle the model, before "
                "the client is closed. Predictions need no rows."
            )
        tables = [dask.delayed(limited)(func, table) for table in self._tables]
        return dask.compute(*tables)


def rows_on_workers(estimator, reader, X, y=None, sample_weight=None, offset=None):
    """`WorkerTables` of the arguments of a fit, after a pass on the workers that checks
    them; sets ``n_features_in_``.
    """
    import dask

    if not is_dask(X) or X.ndim != 2:
        raise ValueError(
            f"X must be a Dask array of two dimensions; got {type(X).__name__}. For "
            f"rows in memory or in files use skboost.{estimator._in_memory.__name__}."
        )
    parts = [_blocks("X", X.rechunk({1: -1}))]
    for name, value in (("y", y), ("sample_weight", sample_weight), ("offset", offset)):
        parts.append(_blocks(name, _aligned(name, value, X), len(parts[0])))
    raw = [dask.delayed(_table)(*block) for block in zip(*parts, strict=True)]
    raw = _kept(raw)
    looks = [dask.delayed(_look)(reader.look, k, table) for k, table in enumerate(raw)]
    summaries = dask.compute(*looks)
    used = [k for k, part in enumerate(summaries) if part is not None]
    summary = reader.together(summaries[k] for k in used)
    tables = _kept([dask.delayed(_coded)(raw[k], reader.coded) for k in used])
    rows = WorkerTables(tables, summary.n_rows, X.shape[1])
    rows.client = _client()
    rows.summary = reader.known(summary)
    estimator.n_features_in_ = X.shape[1]
    vars(estimator).pop("feature_names_in_", None)
    return rows


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
    sized = not (np.isnan(X.shape[0]) or np.isnan(value.shape[0]))
    if sized and len(value) != len(X):
        raise ValueError(
            f"{name} must have as many entries as X has rows, {len(X)}; got "
            f"{len(value)}."
        )
    return value.rechunk((X.chunks[0],)) if sized else value


def _blocks(name, array, n_blocks=None):
    if array is None:
        return [None] * n_blocks
    blocks = list(array.to_delayed().ravel())
    if n_blocks is not None and len(blocks) != n_blocks:
        raise ValueError(
            f"{name} must have the blocks of X, {n_blocks}, where their sizes are not "
            f"known; got {len(blocks)}."
        )
    return blocks


def _client():
    """The current client, or None."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def _kept(tables):
    """Computed once and kept on the workers; without workers, computed when needed."""
    import dask

    return tables if _client() is None else list(dask.persist(*tables))


# --- on the workers


def _table(X, y, weight, offset):
    # One layout wherever the block was made: sums run along rows.
    X = X.tocsr() if sparse.issparse(X) else np.ascontiguousarray(X)
    return Table(X, y, weight, offset)


def _look(look, index, table):
    if not len(table):
        return None
    return limited(look, index, table.X, table.y, table.weight, table.offset)


def _coded(table, code):
    weight = checked_weights(table.weight, len(table))
    y, weight = code(table.y, weight)
    return Table(table.X, y, weight, table.offset)


# --- what the estimators share


def partial_fit(self, X, *args, **kwargs):
    """As that of the estimator for rows in memory; takes no Dask arrays."""
    if is_dask(X):
        raise ValueError(
            "partial_fit takes rows in memory; got a Dask array. Pass one block after "
            "another: X.blocks[k].compute()."
        )
    return self._in_memory.partial_fit(self, X, *args, **kwargs)


def lazy(estimator, name, X, *arrays, part=None, **kwargs):
    """A method that is lazy for a Dask array; `arrays` go row by row, `part` is that
    of a tuple."""
    import dask
    import dask.array as da

    base = estimator._in_memory
    if not is_dask(X):
        return getattr(base, name)(estimator, X, *arrays, **kwargs)
    check_is_fitted(estimator)
    if X.ndim != 2 or X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X must have n_features={estimator.n_features_in_}, as in fit; got shape "
            f"{X.shape}."
        )
    model = base(**estimator.get_params(deep=False))
    # What predictions have no use for, and what is large, stays here.
    large = {"_fit", "_run", "_stream", "history_"}
    vars(model).update({k: v for k, v in vars(estimator).items() if k not in large})
    if "_fit" in vars(estimator):
        model._fit = Fit.of_report(None, stages=(estimator._fit.mixture,))
    X = X.rechunk({1: -1})
    arrays = [array.rechunk((X.chunks[0],))[:, None] for array in arrays]
    call = partial(_predicted, method=name, part=part, kwargs=kwargs)
    # What the result of one row is like.
    row = np.zeros((1, X.shape[1])), *np.zeros((len(arrays), 1, 1))
    like = call(*row, model=model)
    shaped = {"chunks": (X.chunks[0], like.shape[1:])}
    return da.map_blocks(
        call, X, *arrays, model=dask.delayed(model), dtype=like.dtype,
        meta=like[:0], **(shaped if like.ndim == 2 else {"drop_axis": 1}),
    )  # fmt: skip


def lazily(method):
    """A method of rows and their offsets, lazy for a Dask array."""

    @wraps(method)
    def answer(self, X, offset=None):
        offset = [] if offset is None else [offset]
        return lazy(self, method.__name__, X, *offset)

    return answer


def _predicted(X, *arrays, model, method, part, kwargs):
    arrays = [array[:, 0] for array in arrays]
    answer = methodcaller(method, X, *arrays, **kwargs)(model)
    return answer if part is None else answer[part]


class DaskBayesianLogisticRegression(BoostedBayesianLogisticRegression):
    """`skboost.BoostedBayesianLogisticRegression` for Dask arrays.

    ``fit(X, y, sample_weight=None)`` takes Dask arrays, whose blocks of rows stay on
    the workers of the current ``dask.distributed.Client``: every value, gradient and
    curvature of the log likelihood is a sum over blocks, computed where the block is
    and added in the order of the blocks. Up to rounding the fit is that of the same
    rows in memory, for any number of workers, and it goes on when one dies. Without
    a client every sum computes the blocks anew, one chunk for each thread at a time.
    ``posterior_``, intervals and what remains need the rows when they are first asked
    for, and so the client; predictions do not.

    Parameters, attributes and methods are those of the estimator for rows in memory.
    ``predict``, ``predict_proba`` and ``decision_function`` of a Dask array are lazy.

    Examples
    --------
    >>> import dask.array as da
    >>> from skboost.dask import DaskBayesianLogisticRegression
    >>> X = da.random.default_rng(0).normal(size=(2000, 3), chunks=(500, 3))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = DaskBayesianLogisticRegression(random_state=0).fit(X, y)
    >>> model.predict_proba(X).chunks[0]
    (500, 500, 500, 500)
    """

    _in_memory, _source = BoostedBayesianLogisticRegression, rows_on_workers
    partial_fit = partial_fit
    predict = lazily(BoostedBayesianLogisticRegression.predict)
    predict_proba = lazily(BoostedBayesianLogisticRegression.predict_proba)
    decision_function = lazily(BoostedBayesianLogisticRegression.decision_function)


class DaskBayesianLinearRegression(BoostedBayesianLinearRegression):
    """`skboost.BoostedBayesianLinearRegression` for Dask arrays.

    See `DaskBayesianLogisticRegression`. `y` has one dimension; ``predict`` of a Dask
    array is lazy, with ``return_std=True`` both of its arrays.

    Examples
    --------
    >>> import dask.array as da
    >>> from skboost.dask import DaskBayesianLinearRegression
    >>> X = da.random.default_rng(0).normal(size=(2000, 3), chunks=(500, 3))
    >>> y = 2 * X[:, 0] + da.random.default_rng(1).normal(size=2000, chunks=500)
    >>> model = DaskBayesianLinearRegression(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.7)
    True
    """

    _in_memory, _source = BoostedBayesianLinearRegression, rows_on_workers
    partial_fit = partial_fit

    def predict(self, X, return_std=False, offset=None):
        """As `BoostedBayesianLinearRegression.predict`, lazy for Dask arrays."""
        if not is_dask(X):
            return super().predict(X, return_std, offset)
        parts = [
            lazy(self, "predict", X, part=part, return_std=True) for part in (0, 1)
        ]
        mean = parts[0] if offset is None else parts[0] + offset
        return (mean, parts[1]) if return_std else mean


class DaskBayesianPoissonRegression(BoostedBayesianPoissonRegression):
    """`skboost.BoostedBayesianPoissonRegression` for Dask arrays.

    See `DaskBayesianLogisticRegression`; `offset` and `exposure` are Dask arrays, too.

    Examples
    --------
    >>> import dask.array as da
    >>> from skboost.dask import DaskBayesianPoissonRegression
    >>> X = da.random.default_rng(0).normal(size=(2000, 3), chunks=(500, 3))
    >>> y = da.random.default_rng(1).poisson(da.exp(X[:, 0]))
    >>> model = DaskBayesianPoissonRegression(random_state=0).fit(X, y)
    >>> round(float(model.coef_[0]))
    1
    """

    _in_memory, _source = BoostedBayesianPoissonRegression, rows_on_workers
    partial_fit = partial_fit

    def _all_offsets(self, X, offset, exposure):
        """Lazy; the workers check what they read."""
        if not is_dask(exposure):
            return super()._all_offsets(X, offset, exposure)
        log = np.log(exposure)
        return log if offset is None else offset + log

    def predict(self, X, offset=None, exposure=None):
        """As `BoostedBayesianPoissonRegression.predict`, lazy for Dask arrays."""
        if not is_dask(X):
            return super().predict(X, offset=offset, exposure=exposure)
        total = self._all_offsets(X, offset, exposure)
        return lazy(self, "predict", X, *([] if total is None else [total]))


class DaskGaussianMixture(SVIGaussianMixture):
    """`skboost.SVIGaussianMixture` for Dask arrays.

    ``fit(X, sample_weight=...)`` takes a Dask array, whose blocks of rows stay on the
    workers of the current ``dask.distributed.Client``: coordinate ascent needs nothing
    of them but the expected statistics, which are summed where a block is and added in
    the order of the blocks. Runs start from at most 65,536 rows drawn at random.
    `batch_size` and `effective_batch_size` have to be None.

    Parameters, attributes and methods are those of the estimator for rows in memory.
    ``predict``, ``predict_proba`` and ``score_samples`` of a Dask array are lazy.

    Examples
    --------
    >>> import dask.array as da
    >>> from skboost.dask import DaskGaussianMixture
    >>> X = da.random.default_rng(0).normal(size=(2000, 2), chunks=(500, 2))
    >>> X = X + 6 * (X[:, :1] > 0)
    >>> DaskGaussianMixture(2, random_state=0).fit(X).means_.shape
    (2, 2)
    """

    _in_memory, _source = SVIGaussianMixture, rows_on_workers
    partial_fit = partial_fit
    predict = lazily(SVIGaussianMixture.predict)
    predict_proba = lazily(SVIGaussianMixture.predict_proba)
    score_samples = lazily(SVIGaussianMixture.score_samples)
