"""What a search answers through its best estimator.

scikit-learn has the same methods in `BaseSearchCV` only, which is private. Its public
children cross-validate: their ``fit``, ``score`` and routing of metadata would all have
to be overridden, and a search on all of the data would pass for a `GridSearchCV`.
"""

from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted


def _best_has(name):
    """Condition of a method that the best estimator has to have."""

    def check(self):
        if not self.refit:
            raise AttributeError(
                f"{name} needs refit=True; got refit=False. Fit an estimator with "
                "best_params_, or set refit=True."
            )
        # An AttributeError of its own where the name is missing.
        getattr(getattr(self, "best_estimator_", self.estimator), name)
        return True

    return check


class BestEstimatorMixin:
    """Methods and attributes of ``best_estimator_`` under the search's own name."""

    @available_if(_best_has("predict"))
    def predict(self, X):
        """Predictions of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._ask("predict", X)

    @available_if(_best_has("predict_proba"))
    def predict_proba(self, X):
        """Probabilities of classes or components by the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, n_components)
        """
        return self._ask("predict_proba", X)

    @available_if(_best_has("predict_log_proba"))
    def predict_log_proba(self, X):
        """Log probabilities by the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._ask("predict_log_proba", X)

    @available_if(_best_has("decision_function"))
    def decision_function(self, X):
        """Decision values of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._ask("decision_function", X)

    @available_if(_best_has("score_samples"))
    def score_samples(self, X):
        """Log density of every row under the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Nats.
        """
        return self._ask("score_samples", X)

    @available_if(_best_has("transform"))
    def transform(self, X):
        """`X` as the best estimator transforms it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self._ask("transform", X)

    @available_if(_best_has("inverse_transform"))
    def inverse_transform(self, X):
        """What the best estimator would transform to `X`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        return self._ask("inverse_transform", X)

    @available_if(_best_has("score"))
    def score(self, X, y=None, **params):
        """Score of the best estimator, by its own method.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        **params : dict
            Such as `sample_weight`; routed where metadata routing is enabled.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        params = self._routed("score", params)
        return self.best_estimator_.score(X, y, **params)

    @property
    def classes_(self):
        """Labels of the best estimator."""
        _best_has("classes_")(self)
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self):
        """Number of features that the best estimator has seen."""
        _best_has("n_features_in_")(self)
        return self.best_estimator_.n_features_in_

    def _ask(self, method, X):
        check_is_fitted(self)
        return getattr(self.best_estimator_, method)(X)
