"""What a classifier with a posterior over its coefficients answers."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost.linear_model._predictive import BinaryPredictive, SoftmaxPredictive


class BayesianClassifier(ClassifierMixin):
    """Predictions that average over a posterior, and what is known of coefficients.

    For estimators with ``posterior_`` over (coefficients, intercept) of every class,
    ``classes_``, ``n_features_in_`` and the mixtures of all iterations, ``_stages``.
    """

    @property
    def _has_intercept(self):
        """Whether the fit has an intercept, whatever the parameter says by now."""
        n_outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        return self.posterior_.dim > n_outputs * self.n_features_in_

    def _predictive(self, mixture=None):
        mixture = self.posterior_.mixture if mixture is None else mixture
        if len(self.classes_) == 2:
            return BinaryPredictive(mixture, self._has_intercept)
        return SoftmaxPredictive(mixture, self._has_intercept, len(self.classes_))

    def _checked(self, X):
        check_is_fitted(self)
        return validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=np.float64
        )

    def predict_proba(self, X):
        """Posterior predictive probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            With two classes exact to 1e-9; with more, averages over fixed draws.
        """
        X = self._checked(X)
        return self._predictive().proba(X)

    def predict(self, X):
        """Most probable class of every row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        codes = self.predict_proba(X).argmax(axis=1)
        return self.classes_[codes]

    def decision_function(self, X):
        """Logit of the predictive probability; log probabilities for more classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        X = self._checked(X)
        predictive = self._predictive()
        if len(self.classes_) == 2:
            return predictive.logit(X)
        tiny = np.finfo(float).tiny
        return np.log(np.maximum(predictive.proba(X), tiny))

    def staged_predict_proba(self, X):
        """Predictive probabilities after every iteration; the last is the final one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples, n_classes)
        """
        X = self._checked(X)
        for mixture in self._stages:
            yield self._predictive(mixture).proba(X)

    def predict_latent(self, X):
        """Mean and standard deviation of the linear predictor.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        mean, std : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        X = self._checked(X)
        return self._predictive().latent(X)

    def predict_proba_interval(self, X, level=0.9):
        """Central credible interval of the predictive probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_classes, 2)
            Lower and upper end; for two classes, of the second class.
        """
        X = self._checked(X)
        if not 0.0 < level < 1.0:
            raise ValueError(
                f"level must be a probability strictly between 0 and 1; got {level!r}."
            )
        return self._predictive().interval(X, level)

    def predict_uncertainty(self, X):
        """Entropy of the prediction, and its split.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        total : ndarray of shape (n_samples,)
            Entropy of the predictive distribution, nats.
        aleatoric : ndarray of shape (n_samples,)
            Expected entropy given the coefficients: noise that more data leave.
        epistemic : ndarray of shape (n_samples,)
            Their difference: what is not known about the coefficients.
        """
        X = self._checked(X)
        return self._predictive().uncertainty(X)

    def sample_posterior(self, n=1, random_state=None):
        """Draws of coefficients and intercept.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        coef : ndarray of shape (n, n_features) or (n, n_classes, n_features)
        intercept : ndarray of shape (n,) or (n, n_classes)
        """
        check_is_fitted(self)
        draws = self.posterior_.sample(n, random_state)
        draws = draws.reshape(n, -1, self.n_features_in_ + self._has_intercept)
        coef = draws[:, :, : self.n_features_in_]
        intercept = draws[:, :, -1] if self._has_intercept else np.zeros(coef.shape[:2])
        if len(self.classes_) == 2:
            return coef[:, 0], intercept[:, 0]
        return coef, intercept

    def coef_interval(self, level=0.9):
        """Central credible intervals of the coefficients.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (1, n_features, 2) or (n_classes, n_features, 2)
            Lower and upper ends.
        """
        check_is_fitted(self)
        ends = self.posterior_.interval(level)
        ends = ends.reshape(-1, self.n_features_in_ + self._has_intercept, 2)
        return ends[:, : self.n_features_in_]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
