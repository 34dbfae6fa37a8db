"""What a boosted mixture says about rows and about its parameters: closed forms."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._math import log_sum_exp, log_weights, responsibilities
from skboost._random import generator
from skboost.conjugate import ConjugateTarget
from skboost.mixture._fitted import ClusterMethods
from skboost.mixture._sources import canonical
from skboost.posterior import check_size


class BoostedMethods(ClusterMethods):
    """For an estimator that holds ``posterior_`` and ``_stages``."""

    # --- rows

    def staged_score_samples(self, X):
        """`score_samples` after every iteration; the last is the final one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        for mixture in self._stages:
            yield log_sum_exp(self._joint(X, self._predictive(mixture)))

    def predict_proba(self, X):
        """Posterior predictive probabilities of the clusters.

        ``p(z = k | x, data)``: responsibilities averaged over the posterior, every
        parameter weighted by the density that it gives the row; from the same densities
        as `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return responsibilities(self._joint(X))[0]

    def _predictive(self, mixture=None):
        posterior = self.posterior_
        if mixture is not None:
            posterior = self._posterior(mixture, None)
        return posterior.model, posterior.components, log_weights(posterior.weights)

    def _drawn(self, n_samples, seed):
        posterior, rng = self.posterior_, generator(seed, 1)
        model, draws = posterior.model, posterior.sample(n_samples, seed)
        labels = _labels(posterior, draws, rng)
        normal = rng.standard_normal((n_samples, model.n_components, model.dim))
        noise = model.clusters.covariance.noise(draws["precisions"], normal)
        each = np.arange(n_samples)
        return draws["means"][each, labels] + noise[each, labels], labels

    # --- parameters

    def sample_posterior(self, n_draws=1, random_state=None):
        """Draws of the parameters from the posterior.

        Parameters
        ----------
        n_draws : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        dict
            As ``posterior_.sample``: ``weights`` (n_draws, n_components), ``means``
            (n_draws, n_components, n_features), ``precisions`` and ``covariances``
            (n_draws, and the shape of `covariances_`); under the Dirichlet process
            ``leftover`` (n_draws,), the weight of clusters beyond the last.

        Raises
        ------
        ValueError
            If `n_draws` is no positive integer.
        """
        check_is_fitted(self)
        check_size("n_draws", n_draws)
        return self.posterior_.sample(n_draws, random_state)

    def make_log_joint(self, X, y=None, sample_weight=None):
        """The fitted model's log joint density of parameters and rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows of `fit`, which the estimator does not keep, or others.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        callable
            Takes draws as `sample_posterior` returns and gives (n_draws,) nats, such
            as ``posterior_.resample`` needs.
        """
        check_is_fitted(self)
        X, weight = canonical(*self._weighted(X, sample_weight))
        model = self.posterior_.model
        target = ConjugateTarget(model, model.rows(X), weight, self.n_jobs)
        return lambda draws: target.log_density(target.family.rows(draws))


def _labels(posterior, draws, rng):
    """A cluster for each draw; draws of clusters beyond the last are replaced."""
    labels, n_clusters = _clusters(draws, rng), posterior.model.n_components
    while "leftover" in draws:
        outside = np.flatnonzero(labels == n_clusters)
        if not outside.size:
            break
        again = posterior.sample(outside.size, int(rng.integers(2**31)))
        labels[outside] = _clusters(again, rng)
        for name, values in draws.items():
            values[outside] = again[name]
    # A sum of weights may be below one by rounding.
    return np.minimum(labels, n_clusters - 1)


def _clusters(draws, rng):
    """A cluster for each draw, by its weights; one beyond the last for the rest."""
    cumulative = np.cumsum(draws["weights"], axis=1)
    return (rng.random((len(cumulative), 1)) > cumulative).sum(axis=1)
