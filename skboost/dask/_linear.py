"""Boosted linear models for Dask arrays."""

from skboost.dask._estimators import OnWorkers
from skboost.dask._rows import is_dask
from skboost.linear_model import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
)


class DaskBayesianLogisticRegression(OnWorkers, BoostedBayesianLogisticRegression):
    """`skboost.BoostedBayesianLogisticRegression` for Dask arrays.

    ``fit(X, y, sample_weight=None)`` takes Dask arrays, whose blocks of rows stay on
    the workers of the current ``dask.distributed.Client``: every value, gradient and
    curvature of the log likelihood is a sum over blocks, computed where the block is
    and added in the order of the blocks. Up to rounding the fit is that of the same
    rows in memory, for any number of workers, and it goes on when one dies. Without
    a client every sum computes the blocks anew, one chunk for each thread at a time.

    Parameters, attributes and methods are those of the estimator for rows in memory.
    ``predict``, ``predict_proba`` and ``decision_function`` of a Dask array are lazy.
    """

    def predict_proba(self, X):
        """Posterior predictive probabilities of the classes.

        Parameters
        ----------
        X : dask.array.Array or array-like of shape (n_samples, n_features)

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples, n_classes)
            Lazy for a Dask array.
        """
        if not is_dask(X):
            return super().predict_proba(X)
        return self._lazy("predict_proba", X, columns=len(self.classes_))

    def predict(self, X):
        """Most probable class of every row; lazy for a Dask array.

        Parameters
        ----------
        X : dask.array.Array or array-like of shape (n_samples, n_features)

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples,)
        """
        if not is_dask(X):
            return super().predict(X)
        return self._lazy("predict", X, dtype=self.classes_.dtype)

    def decision_function(self, X):
        """Logit, or log probabilities; lazy for a Dask array.

        Parameters
        ----------
        X : dask.array.Array or array-like of shape (n_samples, n_features)

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        if not is_dask(X):
            return super().decision_function(X)
        n_classes = len(self.classes_)
        columns = n_classes if n_classes > 2 else None
        return self._lazy("decision_function", X, columns=columns)


class DaskBayesianLinearRegression(OnWorkers, BoostedBayesianLinearRegression):
    """`skboost.BoostedBayesianLinearRegression` for Dask arrays.

    See `DaskBayesianLogisticRegression`. `y` has one dimension; ``predict`` of a Dask
    array is lazy, with ``return_std=True`` both of its arrays.
    """

    def predict(self, X, return_std=False):
        """Mean of the predictive distribution; lazy for a Dask array.

        Parameters
        ----------
        X : dask.array.Array or array-like of shape (n_samples, n_features)
        return_std : bool, default=False

        Returns
        -------
        mean : dask.array.Array or ndarray of shape (n_samples,)
        std : of the same shape
            Only where `return_std` is True.
        """
        if not is_dask(X):
            return super().predict(X, return_std)
        if not return_std:
            return self._lazy("predict", X)
        return tuple(
            self._lazy("predict", X, part=part, return_std=True) for part in (0, 1)
        )


class DaskBayesianPoissonRegression(OnWorkers, BoostedBayesianPoissonRegression):
    """`skboost.BoostedBayesianPoissonRegression` for Dask arrays.

    See `DaskBayesianLogisticRegression`; `offset` is a Dask array, too.
    """

    def predict(self, X, offset=None):
        """Mean count; lazy for a Dask array.

        Parameters
        ----------
        X : dask.array.Array or array-like of shape (n_samples, n_features)
        offset : of the same kind, of shape (n_samples,), default=None

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples,)
        """
        if not is_dask(X):
            return super().predict(X, offset=offset)
        return self._lazy("predict", X, *([] if offset is None else [offset]))
