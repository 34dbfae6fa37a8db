"""What a regression with normal or Student-t noise answers."""

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost.linear_model._noise_predictive import NoisePredictive
from skboost.linear_model._outputs import over_outputs, staged_over_outputs
from skboost.linear_model._regressor import (
    BayesianRegressor,
    check_quantiles,
    tails_of,
)
from skboost.linear_model._served import Served, served_regressor
from skboost.serving import MultipleRegressor
from skboost.targets import NOISES


class NoiseRegressor(Served, BayesianRegressor):
    """Predictive distributions that add the noise to the linear predictor.

    With several outputs every answer has them as its second axis (coefficients as
    their first), one after the other.
    """

    @property
    def _n_further(self):
        """Parameters with no part in the linear predictor: the log noise scale."""
        return int(self._noise_model[-1] == "infer")

    def _predictive(self, mixture=None):
        mixture = self.posterior_.mixture if mixture is None else mixture
        kind, df, scale = self._noise_model
        scale = None if scale == "infer" else scale
        return NoisePredictive(mixture, self._has_intercept, NOISES[kind](df), scale)

    def _served(self):
        if hasattr(self, "estimators_"):
            return MultipleRegressor(tuple(m._served() for m in self.estimators_))
        return served_regressor(self, self._predictive().noise_variance())

    @over_outputs
    def predict(self, X, return_std=False):
        """Mean of the posterior predictive distribution.

        Student-t noise of at most one degree of freedom has no mean: what is returned
        is that of the linear predictor.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_std : bool, default=False
            Return the standard deviation of the predictive distribution too, noise
            included; inf for Student-t noise of at most two degrees of freedom, and
            where the noise scale is inferred under Student-t components, whose tails
            leave it no second moment (intervals and quantiles are finite there).

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        std : ndarray of the same shape
            Only where `return_std` is True.
        """
        X = self._checked(X)
        if return_std:
            return self._predictive().moments(X)
        return self._predictive().latent(X)[0]

    @over_outputs
    def predict_interval(self, X, level=0.9):
        """Central interval of the predictive distribution, noise included.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9
            Predictive probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper end.
        """
        X = self._checked(X)
        return self._predictive().quantiles(X, tails_of(level))

    @over_outputs
    def predict_quantiles(self, X, quantiles=(0.05, 0.5, 0.95)):
        """Quantiles of the predictive distribution, noise included.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        quantiles : float or array-like of shape (n_quantiles,), \
                default=(0.05, 0.5, 0.95)
            In (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles) or \
                (n_samples, n_outputs, n_quantiles)
        """
        X = self._checked(X)
        return self._predictive().quantiles(X, check_quantiles(quantiles))

    def log_predictive_density(self, X, y):
        """Log density of the predictive distribution at the responses.

        A proper score: larger is better, and only the truth has the largest mean.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        ndarray of the shape of `y`
            Nats.
        """
        check_is_fitted(self)
        kind = {"accept_sparse": "csr", "dtype": np.float64, "y_numeric": True}
        rows, y = validate_data(self, X, y, reset=False, multi_output=True, **kind)
        models = getattr(self, "estimators_", [self])
        columns = np.asarray(y, dtype=float).reshape(len(y), -1).T
        if len(columns) != len(models):
            raise ValueError(
                f"y must have {len(models)} columns, as in fit; got {len(columns)}."
            )
        found = [
            model._predictive().log_density(rows, column)
            for model, column in zip(models, columns, strict=True)
        ]
        return np.stack(found, axis=-1) if y.ndim == 2 else found[0]

    def staged_predict(self, X):
        """Predictive means after every iteration; the last is the final one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        if hasattr(self, "estimators_"):
            stages = [model.staged_predict(X) for model in self.estimators_]
            yield from staged_over_outputs(stages)
            return
        X = self._checked(X)
        for mixture in self._stages:
            yield self._predictive(mixture).latent(X)[0]

    @over_outputs
    def predict_latent(self, X):
        """Mean and standard deviation of the linear predictor, without the noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        mean, std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        return super().predict_latent(X)

    @over_outputs
    def coef_interval(self, level=0.9):
        """Central credible intervals of the coefficients.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (n_features, 2) or (n_outputs, n_features, 2)
            Lower and upper ends.
        """
        return super().coef_interval(level)

    @over_outputs
    def sample_posterior(self, n=1, random_state=None):
        """Draws of coefficients, intercept and noise scale.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        coef : ndarray of shape (n, n_features) or (n, n_outputs, n_features)
        intercept : ndarray of shape (n,) or (n, n_outputs)
        noise_scale : ndarray of the same shape
        """
        check_is_fitted(self)
        coef, intercept, level = self._draws(n, random_state)
        scale = self._noise_model[-1]
        scale = np.exp(level[:, 0]) if scale == "infer" else np.full(n, float(scale))
        return coef[:, 0], intercept[:, 0], scale

    def _fitted(self, posterior):
        infer = self.noise_scale == "infer"
        scale = self.noise_scale
        if infer:
            scale = float(np.exp(posterior.marginal(posterior.dim - 1).quantile(0.5)))
        return self._fitted_coefficients(posterior, int(infer)) | {
            "noise_scale_": scale,
            # What was fitted, whatever the parameters say by now.
            "_noise_model": (self.noise, self.noise_df, self.noise_scale),
        }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
