"""Regression of ordered classes with groups: effects of groups, learned scales."""

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from skboost._parameters import keeps_parameters
from skboost._sklearn import StrOptions, fit_context
from skboost.linear_model._group_responses import OrdinalResponse
from skboost.linear_model._hierarchical import HIERARCHICAL_CONSTRAINTS
from skboost.linear_model._hierarchical_logistic import (
    BoostedHierarchicalLogisticRegression,
)
from skboost.linear_model._methods import one_for_each_row
from skboost.linear_model._ordinal import NAME_CATEGORIES, order_of
from skboost.linear_model._sources import check_labels, codes_of


class BoostedHierarchicalOrdinalRegression(BoostedHierarchicalLogisticRegression):
    """Regression of ordered classes, such as grades, whose groups share strength.

    Cumulative logits (proportional odds): ``logit p(y <= k) = threshold_k - x coef - z
    u[group]`` with increasing thresholds, where the effects ``u`` of the groups of a
    factor are normal around zero with a standard deviation that is learned: graders of
    their own severity, say. Group effects are integrated out by adaptive quadrature
    (one factor with one slope, or two nested ones) or Laplace's method (more); boosting
    variational inference approximates the posterior of coefficients, thresholds and
    scales.

    Of two classes it is `BoostedHierarchicalLogisticRegression`.

    Parameters
    ----------
    categories : "auto" or array-like of shape (n_classes,), default="auto"
        All classes in ascending order. ``"auto"`` is the order of an ordered pandas
        categorical, else that of sorting: "high" < "low" for strings. With strings here
        whole numbers in `y` are not ranks but places in the order of sorting, the codes
        that meta-estimators of scikit-learn replace labels by.
    fit_intercept : bool, default=True
        Whether the first threshold, minus the intercept, is free; else it is zero.
    scale_prior, prior_scale
        As in `BoostedHierarchicalLogisticRegression`.
    formula, groups, slopes, correlated, group_intercepts, fixed, nested, prior, \
    intercept_scale, handle_unknown, missing, max_iter, tol, max_time, random_state, \
    n_jobs, verbose
        As in `BoostedHierarchicalLinearRegression`, with the same defaults.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted, as those of every classifier; columns of probabilities follow them.
    categories_ : ndarray of shape (n_classes,)
        The same in ascending order.
    posterior_ : TransformedPosterior
        Over (coefficients, intercept, standard deviations of group effects, their
        correlations, gap_1, ...): the first threshold is minus the intercept, and every
        further one is a gap above the one before.
    coef_, intercept_ : ndarray of shape (n_numeric_features,), float
        Posterior means.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Posterior means, increasing.
    variance_components_, icc_, effects_pareto_k_, effects_efficiency_
        As of `BoostedHierarchicalLogisticRegression`.
    group_levels_, group_effects_, elbo_, elbo_se_, elbo_path_, gain_path_, \
    duality_gap_, duality_gap_se_, duality_gap_path_, remaining_kl_, \
    remaining_kl_se_, remaining_kl_interval_, pareto_k_, orbiting_, n_iter_, \
    converged_, message_, history_, n_dropped_, n_features_in_, feature_names_in_
        As of `BoostedHierarchicalLinearRegression`.

    See Also
    --------
    BoostedBayesianOrdinalRegression : Without groups.
    BoostedHierarchicalLogisticRegression : Two classes.

    References
    ----------
    McCullagh: Regression Models for Ordinal Data, Journal of the Royal Statistical
    Society B 42, 1980; and those of `BoostedHierarchicalLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import BoostedHierarchicalOrdinalRegression
    >>> rng = np.random.default_rng(0)
    >>> judge, sugar = np.repeat(np.arange(8), 10), rng.normal(size=80)
    >>> taste = sugar + rng.normal(size=8)[judge] + rng.logistic(size=80)
    >>> X, y = np.column_stack([sugar, judge]), np.digitize(taste, [-1.0, 1.0])
    >>> model = BoostedHierarchicalOrdinalRegression(groups=[1], random_state=0)
    >>> model.fit(X, y).predict_proba([[0.5, 3], [0.5, 99]]).shape
    (2, 3)
    """

    _scale_of_effects = "log odds of higher classes"
    _parameter_constraints = {
        **HIERARCHICAL_CONSTRAINTS,
        "categories": [StrOptions({"auto"}), "array-like"],
    }

    @keeps_parameters
    def __init__(
        self,
        *,
        categories="auto",
        formula=None,
        groups=None,
        slopes=None,
        correlated=True,
        group_intercepts=True,
        fixed=None,
        nested=None,
        scale_prior="half_t",
        prior="normal",
        prior_scale="auto",
        fit_intercept=True,
        intercept_scale="auto",
        handle_unknown="warn",
        missing="raise",
        max_iter="auto",
        tol="auto",
        max_time=None,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        pass

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None, offset=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X, sample_weight, offset
            As in `BoostedHierarchicalLinearRegression.fit`.
        y : array-like of shape (n_samples,), default=None
            Labels of at least two classes; None for the left side of the formula.

        Raises
        ------
        ValueError
            For labels that are not among `categories`, and as
            `BoostedHierarchicalLinearRegression.fit`.
        """
        return self._fit_rows(X, y, sample_weight=sample_weight, offset=offset)

    def _learn(self, rows, data, again, named=None):
        return self._learn_labels(data, *rows)

    def score(self, X, y, sample_weight=None, offset=None):
        """Accuracy: the share of rows whose class is the predicted one.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        offset : array-like of shape (n_samples,) or str, default=None
            As in `fit`.

        Returns
        -------
        float
        """
        found = self.predict(X, offset=offset)
        y = check_labels(np.asarray(y))
        return accuracy_score(y, found, sample_weight=sample_weight)

    def sample_posterior(self, n=1, random_state=None):
        """Draws of everything, group effects included.

        Parameters
        ----------
        n, random_state
            As in `BoostedHierarchicalLinearRegression.sample_posterior`.

        Returns
        -------
        coef : ndarray of shape (n, n_numeric_features)
        thresholds : ndarray of shape (n, n_classes - 1)
        scales, group_effects : dict
            As of the same.
        """
        coef, intercept, scales, effects = super().sample_posterior(n, random_state)
        gaps = [scales.pop(name) for name in self._model_.response.further(None)]
        steps = np.column_stack([-intercept, *gaps])
        return coef, steps.cumsum(axis=1), scales, effects

    @property
    def categories_(self):
        """All classes in ascending order."""
        check_is_fitted(self)
        return self._model_.response.categories

    @property
    def thresholds_(self):
        """Posterior means, increasing."""
        mean = self.posterior_.mean()
        gaps = mean[len(mean) - len(self.classes_) + 2 :]
        return np.append(-self.intercept_, gaps).cumsum()

    def _labels(self, X, y):
        order = order_of(self.categories, X, y)
        labels = check_labels(one_for_each_row(self, X, y))
        classes = np.unique(labels if order is None else order)
        if len(classes) < 2:
            raise ValueError(
                "y must hold labels of at least two classes; got "
                f"{'one class' if len(classes) else 'no labels'}. {NAME_CATEGORIES}"
            )
        categories = classes if order is None else order
        codes = codes_of(labels, categories, NAME_CATEGORIES)
        return OrdinalResponse(classes, categories), codes.astype(float)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        # Classes in no order are beyond one linear predictor.
        tags.classifier_tags.poor_score = True
        return tags
