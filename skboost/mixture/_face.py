"""What mixtures with a posterior over their parameters say of rows."""

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from skboost._random import root_seed
from skboost.conjugate import COVARIANCES
from skboost.mixture._rows import read_rows
from skboost.posterior import check_size
from skboost.serving import write_module


class BayesianMixture(DensityMixin):
    """Methods of estimators whose ``_predictive`` is a `ClusterPredictive`."""

    _if_singular = (
        "X and the priors are of such different scales that a precision is singular in "
        "rounding. Standardise X, or set mean_prior and covariance_prior to its scale."
    )

    def score_samples(self, X):
        """Log posterior predictive density of every row, nats, of shape (n_samples,).

        Parameters are integrated out: a mixture of Student-t distributions for every
        component of the posterior, exact under it, except for independent priors. There
        each cluster's distribution, which has no closed form, is replaced by the
        Student-t of the same mean and covariance. Under the Dirichlet process it is the
        density of a row of one of the present clusters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is missing; the density is that of what is observed.
        """
        check_is_fitted(self)
        return self._predictive.log_density(read_rows(self, X))

    def predict_proba(self, X):
        """Posterior probabilities of the clusters.

        Of `SVIGaussianMixture` the optimal q(z); of a boosted posterior ``p(z = k | x,
        data)``: responsibilities averaged over it, every parameter weighted by the
        density that it gives the row, from the same densities as `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is integrated out.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Rows sum to one.
        """
        check_is_fitted(self)
        return self._predictive.proba(read_rows(self, X))

    def predict(self, X):
        """The most probable cluster of each row.

        Of a boosted posterior by the heaviest of its distributions: an average over
        several explanations of the rows describes none of them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        check_is_fitted(self)
        return self._predictive.labels(read_rows(self, X))

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit, then return the most probable cluster of each row, int of shape
        (n_samples,).

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
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
        X = read_rows(self, X)
        missing = np.isnan(X)
        out, incomplete = X.copy(), missing.any(axis=1)
        if incomplete.any():
            out[incomplete] = self._predictive.expected_rows(X[incomplete])
        return np.where(missing, out, X)

    def score(self, X, y=None):
        """Mean log posterior predictive density, a float, nats per row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        """
        return float(self.score_samples(X).mean())

    def aic(self, X):
        """Akaike's criterion on `X`, at the posterior predictive density.

        ``2 p - 2 sum(score_samples(X))`` with p parameters, as in `GaussianMixture`.
        There it judges a maximum of the likelihood; here parameters are integrated
        out, and the number of clusters is better chosen by `elbo_`, or by `score` on
        rows held out. The lower the better.
        """
        return 2.0 * self._predictive.n_parameters - 2.0 * float(
            self.score_samples(X).sum()
        )

    def bic(self, X):
        """Schwarz's criterion on `X`, at the posterior predictive density.

        ``p ln(n_samples) - 2 sum(score_samples(X))`` with p parameters, as in
        `GaussianMixture`. It approximates minus twice the log evidence, of which
        `elbo_` is a lower bound: prefer that. See `aic`.
        """
        logs = self.score_samples(X)
        penalty = self._predictive.n_parameters * np.log(len(logs))
        return penalty - 2.0 * float(logs.sum())

    def export(self, path):
        """Write a Python file with these predictions that needs NumPy only.

        It has ``predict(X)``, ``predict_proba(X)`` and ``score_samples(X)`` with the
        estimator's numbers to 1e-10, also of rows with gaps where the estimator takes
        them.

        Parameters
        ----------
        path : str or os.PathLike
            Usually ends with ``.py``. An earlier file is replaced by a complete one
            only.

        Notes
        -----
        The file runs as any Python module does: import only those that you wrote. There
        is no ``to_onnx``, which lacks operators for rows with gaps.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else tuple(map(str, names))
        write_module(path, self._predictive.plain(), type(self).__name__, names=names)

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
        """
        check_is_fitted(self)
        check_size("n_samples", n_samples)
        chosen = self.random_state if random_state is None else random_state
        return self._predictive.draw_rows(n_samples, root_seed(chosen))

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
            n_features), ``precisions`` (n_draws, and the shape of `covariances_`) and
            their inverses ``covariances``. Under the Dirichlet process ``leftover``
            (n_draws,): the weight of all clusters beyond the last, which `weights`
            leave.
        """
        check_is_fitted(self)
        check_size("n_draws", n_draws)
        return self._predictive.draw(n_draws, random_state)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        shape = COVARIANCES.get(self.covariance_type)
        tags.input_tags.allow_nan = shape is not None and shape.handles_missing
        return tags
