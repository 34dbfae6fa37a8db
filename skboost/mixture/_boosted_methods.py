"""What a boosted mixture says about rows and about its parameters: closed forms."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._math import log_sum_exp, log_weights, responsibilities
from skboost._parallel import row_blocks
from skboost._random import generator
from skboost.conjugate import ConjugateTarget
from skboost.mixture._fitted import ClusterMethods, check_count


class BoostedMethods(ClusterMethods):
    """For an estimator that holds ``posterior_`` and ``_stages``."""

    # --- rows

    def _joint(self, X, posterior=None):
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        posterior = self.posterior_ if posterior is None else posterior
        return log_joint_clusters(posterior, posterior.model.rows(X))

    def score_samples(self, X):
        """Log posterior predictive density of every row, nats.

        Parameters are integrated out: a mixture of Student-t distributions for every
        boosting component, which for independent priors replace distributions without a
        closed form.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is missing; the density is that of what is observed.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return log_sum_exp(self._joint(X))

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
            yield log_sum_exp(self._joint(X, self._posterior(mixture, None)))

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

    def _predictive_components(self):
        posterior = self.posterior_
        return posterior.model, posterior.components, log_weights(posterior.weights)

    def _drawn(self, n_samples, seed):
        return draw_rows(self.posterior_, n_samples, generator(seed, 1), seed)

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
            If `n_draws` is no integer of at least 1.
        """
        check_is_fitted(self)
        check_count("n_draws", n_draws)
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
        X, weight = self._weighted(X, sample_weight, reset=False)
        model = self.posterior_.model
        target = ConjugateTarget(model, model.rows(X), weight, self.n_jobs)
        return lambda draws: target.log_density(target.family.rows(draws))


def log_joint_clusters(posterior, rows):
    """``ln p(x_n, z_n = k | data)``, parameters integrated out, nats.

    The weighted sum, over boosting components, of expected weights times Student-t
    densities.

    Parameters
    ----------
    posterior : ConjugateMixturePosterior
    rows : Rows

    Returns
    -------
    ndarray of shape (n_rows, n_clusters)
    """
    model, components = posterior.model, posterior.components
    log_alpha = log_weights(posterior.weights)
    found = np.empty((len(rows), model.n_components))
    for block in row_blocks(len(rows), model.n_components * len(components)):
        parts = [model.predictive_parts(own, rows[block]) for own in components]
        stacked = np.moveaxis(np.array(parts), 0, -1)
        flat = log_sum_exp(stacked.reshape(-1, len(components)), log_alpha)
        found[block] = flat.reshape(-1, model.n_components)
    return found


def draw_rows(posterior, n, rng, random_state):
    """Rows of the posterior predictive distribution, each with parameters of its own.

    Returns
    -------
    X : ndarray of shape (n, n_features)
    labels : ndarray of int of shape (n,)
    """
    draws, model = posterior.sample(n, random_state), posterior.model
    draws, labels = _labelled(posterior, draws, rng)
    normal = rng.standard_normal((n, model.n_components, model.dim))
    noise = model.clusters.covariance.noise(draws["precisions"], normal)
    each = np.arange(n)
    return draws["means"][each, labels] + noise[each, labels], labels


def _labelled(posterior, draws, rng):
    """Draws with a cluster for each; new ones for those of clusters beyond the last."""
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
    return draws, np.minimum(labels, n_clusters - 1)


def _clusters(draws, rng):
    """A cluster for each draw, by its weights; one beyond the last for the rest."""
    cumulative = np.cumsum(draws["weights"], axis=1)
    return (rng.random((len(cumulative), 1)) > cumulative).sum(axis=1)
