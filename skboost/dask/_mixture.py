"""Gaussian mixtures for Dask arrays."""

from skboost.dask._estimators import OnWorkers
from skboost.dask._rows import is_dask
from skboost.mixture import SVIGaussianMixture


class DaskGaussianMixture(OnWorkers, SVIGaussianMixture):
    """`skboost.SVIGaussianMixture` for Dask arrays.

    ``fit(X, sample_weight=...)`` takes a Dask array, whose blocks of rows stay on the
    workers of the current ``dask.distributed.Client``: coordinate ascent needs nothing
    of them but the expected statistics, which are summed where a block is and added in
    the order of the blocks. Runs start from at most 65,536 rows drawn at random.
    `batch_size` and `effective_batch_size` have to be None.

    Parameters, attributes and methods are those of the estimator for rows in memory.
    ``predict``, ``predict_proba`` and ``score_samples`` of a Dask array are lazy.
    """

    def predict_proba(self, X):
        """Posterior probabilities of the clusters; lazy for a Dask array.

        Parameters
        ----------
        X : dask.array.Array or array-like of shape (n_samples, n_features)

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples, n_components)
        """
        if not is_dask(X):
            return super().predict_proba(X)
        return self._lazy("predict_proba", X, columns=len(self.weights_))

    def predict(self, X):
        """The most probable cluster of each row; lazy for a Dask array.

        Parameters
        ----------
        X : dask.array.Array or array-like of shape (n_samples, n_features)

        Returns
        -------
        dask.array.Array or ndarray of int of shape (n_samples,)
        """
        if not is_dask(X):
            return super().predict(X)
        return self._lazy("predict", X, dtype=int)

    def score_samples(self, X):
        """Log posterior predictive density of each row, nats; lazy for a Dask array.

        Parameters
        ----------
        X : dask.array.Array or array-like of shape (n_samples, n_features)

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples,)
        """
        if not is_dask(X):
            return super().score_samples(X)
        return self._lazy("score_samples", X)
