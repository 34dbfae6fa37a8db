"""What a regression with a posterior over its coefficients answers."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skboost.linear_model._coefficients import CoefficientPosterior, check_level


def check_quantiles(quantiles):
    """Probabilities strictly between 0 and 1, as an array (n_levels,)."""
    try:
        p = np.atleast_1d(np.asarray(quantiles, dtype=float))
    except (TypeError, ValueError):
        p = np.empty(0)
    if p.ndim != 1 or not p.size or not np.all((p > 0) & (p < 1)):
        raise ValueError(
            "quantiles must be probabilities strictly between 0 and 1; got "
            f"{quantiles!r}."
        )
    return p


def tails_of(level):
    """The two probabilities between which a central interval holds `level`."""
    tail = 0.5 * (1.0 - check_level(level))
    return np.array([tail, 1.0 - tail])


class BayesianRegressor(RegressorMixin, CoefficientPosterior):
    """The linear predictor and the coefficients of a regression.

    For estimators with ``posterior_`` and ``_predictive(mixture=None)``.
    """

    def predict_latent(self, X):
        """Mean and standard deviation of the linear predictor.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        mean, std : ndarray of shape (n_samples,)
        """
        X = self._checked(X)
        return self._predictive().latent(X)

    def coef_interval(self, level=0.9):
        """Central credible intervals of the coefficients.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (n_features, 2)
            Lower and upper ends.
        """
        return self._coef_ends(level)[0]

    def sample_posterior(self, n=1, random_state=None):
        """Draws of coefficients and intercept.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        coef : ndarray of shape (n, n_features)
        intercept : ndarray of shape (n,)
        """
        check_is_fitted(self)
        coef, intercept, _ = self._draws(n, random_state)
        return coef[:, 0], intercept[:, 0]

    def _fitted_coefficients(self, posterior, n_further=0):
        """Coefficients as scikit-learn's regressors lay them out."""
        linear = posterior.mean()[: posterior.dim - n_further]
        coef = linear[: self.n_features_in_].copy()
        intercept = float(linear[-1]) if len(linear) > len(coef) else 0.0
        return {"coef_": coef, "intercept_": intercept}
