"""Fitted attributes and methods of mixtures, by the names of scikit-learn."""

from contextlib import contextmanager

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost._math import log_sum_exp, responsibilities
from skboost._parallel import row_blocks
from skboost._random import root_seed
from skboost._sklearn import check_sample_weight
from skboost.conjugate import COVARIANCES
from skboost.posterior import check_size


def precisions_cholesky(shape, covariances):
    """Upper triangular U with ``U U'`` the precisions, as scikit-learn's.

    Parameters
    ----------
    shape : Covariance
    covariances : ndarray
        A native array.
    """
    lower = np.linalg.inv(np.linalg.cholesky(shape.matrices(covariances)))
    return shape.native(np.swapaxes(lower, -1, -2))


def prior_attributes(estimator, settings):
    """Parameters of the prior as they were used; None where it has no such parameter.

    Parameters
    ----------
    estimator : SVIGaussianMixture or BoostedGaussianMixture
    settings : dict
        Of `mixture_settings`.
    """
    alpha = settings["alpha"][0]
    if estimator.weight_concentration_prior_type == "finite_dirichlet_process":
        # Of the whole process, as it was given.
        alpha = alpha * len(settings["alpha"])
    return {
        "weight_concentration_prior_": float(alpha),
        "mean_prior_": settings["center"],
        "mean_precision_prior_": settings.get("mean_precision"),
        "mean_variance_prior_": settings.get("mean_variance"),
        "degrees_of_freedom_prior_": settings.get("dof"),
        "covariance_prior_": settings.get("rate"),
    }


@contextmanager
def plain_errors():
    """A matrix that is not positive definite in rounding, said in the user's words."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "X and the priors are of such different scales that a precision is "
            "singular in rounding. Standardise X, or set mean_prior and "
            "covariance_prior to its scale."
        ) from error


class ClusterMethods:
    """What mixtures say of rows.

    Subclasses give ``predict_proba``, ``_drawn`` and ``_predictive``: the model, the
    natural parameters of the distributions that the posterior is a mixture of, and
    their log weights.
    """

    def _validated(self, X, reset=False, least=1):
        """Rows as an array in which NaN is missing."""
        # Covariances that take no missing values refuse them in the words of the model.
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            ensure_min_samples=least,
        )

    def _weighted(self, X, sample_weight, reset=False, least=1):
        """The same, and the weights of the rows."""
        X = self._validated(X, reset, least)
        weight = check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        return X, weight

    def _joint(self, X, predictive=None):
        """``ln p(x_n, z_n = k | data)``, parameters integrated out, nats.

        The weighted sum, over the components of the posterior, of expected weights
        times Student-t densities.
        """
        check_is_fitted(self)
        X = self._validated(X)
        model, components, log_alpha = predictive or self._predictive()
        rows = model.rows(X)
        found = np.empty((len(rows), model.n_components))
        width = model.n_components * len(components) + 2 * model.dim
        for block in row_blocks(len(rows), width):
            parts = [model.predictive_parts(own, rows[block]) for own in components]
            stacked = np.moveaxis(np.array(parts), 0, -1)
            flat = log_sum_exp(stacked.reshape(-1, len(components)), log_alpha)
            found[block] = flat.reshape(-1, model.n_components)
        return found

    def score_samples(self, X):
        """Log posterior predictive density of every row, nats.

        Parameters are integrated out: a mixture of Student-t distributions for every
        component of the posterior, exact under it, except for independent priors. There
        each cluster's distribution, which has no closed form, is replaced by the
        Student-t of the same mean and covariance. Under the Dirichlet process it is the
        density of a row of one of the present clusters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is missing; the density is that of what is observed.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return log_sum_exp(self._joint(X))

    def predict(self, X):
        """The most probable cluster of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        return self.predict_proba(X).argmax(axis=1)

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit, then return the most probable cluster of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        return self.fit(X, y, sample_weight).predict(X)

    def impute(self, X):
        """Rows with missing entries filled in by what is expected of them.

        Given what is observed of a row and its cluster, the posterior predictive
        distribution of the rest is a Student-t whose mean is linear in what is
        observed; the clusters are averaged over by `predict_proba` of what is observed,
        and so are the components of a boosted posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is missing; values must be missing at random.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Observed entries as they were. Expected values vary less than rows do:
            standard errors of what is fitted to them are somewhat too small.
        """
        check_is_fitted(self)
        given = self._validated(X)
        out, incomplete = given.copy(), np.isnan(given).any(axis=1)
        if incomplete.any():
            out[incomplete] = self._expected_rows(given[incomplete])
        return np.where(np.isnan(given), out, given)

    def _expected_rows(self, X):
        """Rows with expected values where they are missing."""
        model, components, log_alpha = self._predictive()
        rows, out = model.rows(X), np.empty(X.shape)
        width = model.n_components * len(components) * model.dim
        for block in row_blocks(len(rows), width):
            some = rows[block]
            parts = [model.predictive_parts(own, some) for own in components]
            logs = np.hstack([p + w for p, w in zip(parts, log_alpha, strict=True)])
            shares = responsibilities(logs)[0]
            filled = [model.clusters.predictive(own).filled(some) for own in components]
            out[block] = np.einsum("nk,nkd->nd", shares, np.concatenate(filled, axis=1))
        return out + model.center

    def score(self, X, y=None):
        """Mean log posterior predictive density, nats per row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        float
        """
        return float(self.score_samples(X).mean())

    def aic(self, X):
        """Akaike's criterion on `X`, at the posterior predictive density.

        ``2 p - 2 sum(score_samples(X))`` with p parameters, as in `GaussianMixture`.
        There it judges a maximum of the likelihood; here parameters are integrated
        out, and the number of clusters is better chosen by `elbo_`, or by `score` on
        rows held out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        float
            The lower the better.
        """
        return 2.0 * self._n_parameters() - 2.0 * float(self.score_samples(X).sum())

    def bic(self, X):
        """Schwarz's criterion on `X`, at the posterior predictive density.

        ``p ln(n_samples) - 2 sum(score_samples(X))`` with p parameters, as in
        `GaussianMixture`. It approximates minus twice the log evidence, of which
        `elbo_` is a lower bound: prefer that. See `aic`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        float
            The lower the better.
        """
        found = self.score_samples(X)
        return self._n_parameters() * np.log(len(found)) - 2.0 * float(found.sum())

    def _n_parameters(self):
        """Free parameters: weights, means and covariances."""
        n_components, n_features = self.means_.shape
        pairs = n_features * (n_features + 1) // 2
        covariances = {
            "full": n_components * pairs,
            "tied": pairs,
            "diag": n_components * n_features,
            "spherical": n_components,
        }[self.covariance_type]
        covariances = covariances if self.known_covariances is None else 0
        return n_components - 1 + n_components * n_features + covariances

    @property
    def lower_bound_(self):
        """`elbo_` by scikit-learn's name."""
        return self.elbo_

    @property
    def lower_bounds_(self):
        """`elbo_path_` by scikit-learn's name."""
        return self.elbo_path_

    def sample(self, n_samples=1, random_state=None):
        """Rows from the posterior predictive distribution.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
            None: the estimator's own.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        y : ndarray of int of shape (n_samples,)
            Clusters.

        Raises
        ------
        ValueError
            If `n_samples` is no positive integer.
        """
        check_is_fitted(self)
        check_size("n_samples", n_samples)
        chosen = self.random_state if random_state is None else random_state
        return self._drawn(n_samples, root_seed(chosen))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        shape = COVARIANCES.get(self.covariance_type)
        tags.input_tags.allow_nan = shape is not None and shape.handles_missing
        return tags
