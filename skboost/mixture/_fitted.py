"""Fitted attributes and methods of mixtures, by the names of scikit-learn."""

from contextlib import contextmanager
from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost._math import responsibilities
from skboost._parallel import row_blocks
from skboost._random import generator, root_seed
from skboost.conjugate import COVARIANCES


def cluster_attributes(model, natural):
    """What follows from the natural parameters of one conjugate distribution.

    Parameters
    ----------
    model : GaussianMixtureModel
    natural : dict

    Returns
    -------
    dict
        Weights, means, covariances, precisions and their Cholesky factors, and the
        parameters of the distributions; None where the prior has no such parameter.
    """
    covariances = model.covariances(natural)
    shape = model.clusters.covariance
    factor = natural.get("clusters", {})
    dof = (natural.get("precisions") or factor).get("dof")
    if dof is not None:
        # Spherical precisions count every coordinate of a row.
        dof = _per_cluster(dof / shape.degrees(1.0, model.dim))
    mean_precision = factor.get("mean_precision")
    if mean_precision is not None:
        mean_precision = _per_cluster(mean_precision)
    concentration = tuple(natural["weights"].values())
    return {
        "weights_": model.mean_weights(natural),
        "means_": model.means(natural),
        "covariances_": covariances,
        "precisions_": model.clusters.precisions(natural),
        "precisions_cholesky_": precisions_cholesky(shape, covariances),
        "weight_concentration_": (
            concentration[0] if len(concentration) == 1 else concentration
        ),
        "mean_precision_": mean_precision,
        "degrees_of_freedom_": dof,
    }


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


def n_parameters(n_components, n_features, covariance_type):
    """Free parameters of a mixture: weights, means and covariances."""
    pairs = n_features * (n_features + 1) // 2
    covariances = {
        "full": n_components * pairs,
        "tied": pairs,
        "diag": n_components * n_features,
        "spherical": n_components,
        "known": 0,
    }[covariance_type]
    return n_components - 1 + n_components * n_features + covariances


def _per_cluster(values):
    """One number for each cluster, where all its features have the same."""
    if np.ndim(values) == 2 and np.array_equal(values, values[:, [0] * len(values[0])]):
        return values[:, 0]
    return values


def expected_rows(model, components, log_weights, rows):
    """Rows with expected values where they are missing, about the model's centre.

    Parameters
    ----------
    model : GaussianMixtureModel
    components : sequence of dict
        Natural parameters of the distributions that a posterior is a mixture of.
    log_weights : ndarray of shape (n_components,)
    rows : Rows

    Returns
    -------
    ndarray of shape (n_rows, dim)
    """
    out = np.empty(rows.values.shape)
    width = model.n_components * len(components) * model.dim
    for block in row_blocks(len(rows), width):
        some = rows[block]
        parts = [model.predictive_parts(own, some) for own in components]
        logs = np.hstack([p + w for p, w in zip(parts, log_weights, strict=True)])
        shares = responsibilities(logs)[0]
        filled = [model.clusters.predictive(own).filled(some) for own in components]
        out[block] = np.einsum("nk,nkd->nd", shares, np.concatenate(filled, axis=1))
    return out


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


def check_count(name, n):
    """Refuse what is no number of draws."""
    if not (isinstance(n, Integral) and n >= 1):
        raise ValueError(f"{name} must be an integer of at least 1; got {n!r}.")


class ClusterMethods:
    """What follows from ``predict_proba``, ``score_samples`` and ``_drawn``."""

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
        given = validate_data(
            self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        out, incomplete = given.copy(), np.isnan(given).any(axis=1)
        if incomplete.any():
            model, components, log_weights = self._predictive_components()
            rows = model.rows(given[incomplete])
            filled = expected_rows(model, components, log_weights, rows)
            out[incomplete] = filled + model.center
        return np.where(np.isnan(given), out, given)

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
        known = self.known_covariances is not None
        shape = "known" if known else self.covariance_type
        return n_parameters(*self.means_.shape, shape)

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
            If `n_samples` is no integer of at least 1.
        """
        check_is_fitted(self)
        check_count("n_samples", n_samples)
        chosen = self.random_state if random_state is None else random_state
        return self._drawn(n_samples, root_seed(chosen))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        shape = COVARIANCES.get(self.covariance_type)
        tags.input_tags.allow_nan = shape is not None and shape.handles_missing
        return tags


class FittedMixture(ClusterMethods):
    """Prediction for estimators that hold ``_model`` and ``_natural``."""

    def _parameters(self, natural):
        """Fitted attributes that follow from the natural parameters."""
        return {
            **cluster_attributes(self._model, natural),
            **prior_attributes(self, self._settings),
            "_natural": natural,
        }

    def _rows(self, X):
        check_is_fitted(self, "_natural")
        X = validate_data(
            self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        return self._model.rows(X)

    def predict_proba(self, X):
        """Posterior probabilities of the clusters: the optimal q(z).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is integrated out.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Rows sum to one.
        """
        rows = self._rows(X)
        return self._model.responsibilities(self._natural, rows)

    def score_samples(self, X):
        """Log posterior predictive density of each row, nats.

        A mixture of Student-t distributions, exact under the fitted posterior, except
        for independent priors: there each cluster's distribution, which has no closed
        form, is replaced by the Student-t of the same mean and covariance. Under the
        Dirichlet process it is the density of a row of one of the present clusters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is integrated out.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        rows = self._rows(X)
        return self._model.log_predictive(self._natural, rows)

    def _predictive_components(self):
        return self._model, [self._natural], np.zeros(1)

    def _drawn(self, n_samples, seed):
        rng = generator(seed)
        counts = rng.multinomial(n_samples, self.weights_)
        return self._model.sample_rows(self._natural, counts, rng)

    def sample_posterior(self, n_draws=1, random_state=None):
        """Draws of the parameters from the posterior.

        Parameters
        ----------
        n_draws : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        dict
            ``weights`` (n_draws, n_components), ``means`` (n_draws, n_components,
            n_features) and ``precisions`` (n_draws, and the shape of `covariances_`).
            Under the Dirichlet process ``leftover`` (n_draws,), too: the weight of
            all clusters beyond the last, which `weights` leave.

        Raises
        ------
        ValueError
            If `n_draws` is no integer of at least 1.
        """
        check_is_fitted(self, "_natural")
        check_count("n_draws", n_draws)
        rng = generator(root_seed(random_state))
        return self._model.sample(self._natural, n_draws, rng)
