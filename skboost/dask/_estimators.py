"""What estimators for Dask arrays have in common."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost.dask._rows import is_dask, worker_rows

# What predictions have no use for, and what is large.
_OF_RUN = ("_run", "_stages", "_stream", "history_")


class OnWorkers:
    """The rows of a fit stay on the workers, and predictions are lazy.

    A class of this comes before the estimator for rows in memory, and replaces where
    rows come from and nothing else.
    """

    def _source(self, reader, X, *others):
        """`WorkerTables` of the arguments of a fit; sets ``n_features_in_``."""
        if not is_dask(X) or X.ndim != 2:
            base = self._in_memory_class().__name__
            raise ValueError(
                f"X must be a Dask array of two dimensions; got {type(X).__name__}. "
                f"For rows in memory or in files use skboost.{base}."
            )
        rows = worker_rows(reader, X, *others)
        self.n_features_in_ = X.shape[1]
        vars(self).pop("feature_names_in_", None)
        return rows

    def partial_fit(self, X, *args, **kwargs):
        """As that of the estimator for rows in memory; takes no Dask arrays."""
        if is_dask(X):
            raise ValueError(
                "partial_fit takes rows in memory; got a Dask array. Pass one block "
                "after another: X.blocks[k].compute()."
            )
        return super().partial_fit(X, *args, **kwargs)

    def _in_memory_class(self):
        bases = type(self).__mro__
        return bases[bases.index(OnWorkers) + 1]

    def _lazy(self, method, X, *arrays, columns=None, dtype=float, part=None, **kwargs):
        """A method of the estimator for rows in memory, as a lazy array.

        Parameters
        ----------
        method : str
        X : dask.array.Array
        *arrays : dask.array.Array of shape (n_samples,)
            Further arguments that go row by row.
        columns : int, default=None
            Of what the method returns; None for one dimension.
        part : int, default=None
            Of a tuple that the method returns.
        """
        import dask
        import dask.array as da

        check_is_fitted(self)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} features, as in fit; got shape "
                f"{X.shape}."
            )
        model = self._in_memory_class()(**self.get_params(deep=False))
        fitted = {k: v for k, v in vars(self).items() if k not in _OF_RUN}
        vars(model).update(fitted)
        X = X.rechunk({1: -1})
        shaped = {"drop_axis": 1} if columns is None else {}
        if columns is not None:
            shaped["chunks"] = (X.chunks[0], (columns,))
        arrays = [array.rechunk((X.chunks[0],))[:, None] for array in arrays]
        return da.map_blocks(
            _predicted, X, *arrays, model=dask.delayed(model), method=method,
            part=part, kwargs=kwargs, dtype=dtype, meta=_meta(columns, dtype), **shaped,
        )  # fmt: skip


def _meta(columns, dtype):
    return np.empty((0,) if columns is None else (0, 0), dtype=dtype)


def _predicted(X, *arrays, model, method, part, kwargs):
    arrays = [array[:, 0] for array in arrays]
    found = getattr(model, method)(X, *arrays, **kwargs)
    return found if part is None else found[part]
