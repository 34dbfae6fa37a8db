"""Logistic regression of two classes with groups: effects of groups, learned scales."""

from dataclasses import replace

import numpy as np

from skboost._sklearn import check_sample_weight, fit_context
from skboost.linear_model._answers import with_groups
from skboost.linear_model._classifier import ClassAnswers
from skboost.linear_model._group_responses import ClassResponse
from skboost.linear_model._groups import read_groups
from skboost.linear_model._hierarchical import HierarchicalEstimator
from skboost.linear_model._methods import one_for_each_row
from skboost.linear_model._row_keywords import (
    binomial_rows,
    checked_offset,
    score_of_trials,
)
from skboost.linear_model._sources import check_labels


class BoostedHierarchicalLogisticRegression(ClassAnswers, HierarchicalEstimator):
    """Logistic regression whose groups share strength: partial pooling.

    The logit of the second class's probability is ``X coef + intercept + z u[group]``,
    where the effects ``u`` of the groups of a factor are normal around zero with a
    standard deviation that is learned. Group effects are integrated out by adaptive
    quadrature (one factor with one slope, or two nested ones) or Laplace's method
    (more); boosting variational inference approximates the posterior of coefficients
    and scales.

    Parameters
    ----------
    scale_prior, prior_scale
        As in `BoostedHierarchicalLinearRegression`, in units of logits: ``"half_t"``
        has a scale of 2.5, and ``"auto"`` is one per standard deviation of the feature.
    formula, groups, slopes, correlated, group_intercepts, fixed, nested, prior, \
    fit_intercept, intercept_scale, handle_unknown, missing, max_iter, tol, max_time, \
    random_state, n_jobs, verbose
        As in `BoostedHierarchicalLinearRegression`, with the same defaults.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels of the classes.
    posterior_ : TransformedPosterior
        Over (coefficients, intercept, standard deviations of group effects).
    coef_, intercept_ : ndarray of shape (n_numeric_features,), float
        Posterior means.
    variance_components_ : DataFrame, or structured array without pandas
        Posterior means of the standard deviations of group effects and of their
        correlations, their standard deviations and the ends of their 90 per cent
        intervals.
    icc_ : dict
        Intraclass correlation by factor: the share of the variance of the response on
        the scale of logits that the intercepts of its groups make up; a posterior mean.
    effects_pareto_k_, effects_efficiency_ : float
        As of `BoostedHierarchicalLinearRegression`; above 0.7 no fit has converged.
    group_levels_, group_effects_, elbo_, elbo_se_, elbo_path_, gain_path_, \
    duality_gap_, duality_gap_se_, duality_gap_path_, remaining_kl_, \
    remaining_kl_se_, remaining_kl_interval_, pareto_k_, orbiting_, n_iter_, \
    converged_, message_, history_, n_dropped_, n_features_in_, feature_names_in_
        As of `BoostedHierarchicalLinearRegression`.

    See Also
    --------
    BoostedBayesianLogisticRegression : Without groups, with any number of classes.

    References
    ----------
    Those of `BoostedHierarchicalLinearRegression`, and
    Pinheiro and Bates, Journal of Computational and Graphical Statistics 4, 1995
    (quadrature).

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import BoostedHierarchicalLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> ward = np.repeat(np.arange(8), 10)
    >>> age = rng.normal(size=80)
    >>> y = age + rng.normal(size=8)[ward] + rng.logistic(size=80) > 0
    >>> X = np.column_stack([age, ward])
    >>> model = BoostedHierarchicalLogisticRegression(groups=[1], random_state=0)
    >>> model.fit(X, y).predict_proba([[0.5, 3], [0.5, 99]]).shape
    (2, 2)
    """

    _scale_of_effects = "log odds"

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None, trials=None, offset=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X, sample_weight, offset
            As in `BoostedHierarchicalLinearRegression.fit`.
        y : array-like of shape (n_samples,), default=None
            Labels of two classes; None for the left side of the formula.
        trials : int, array-like of shape (n_samples,) or str, default=None
            Of binomial counts: how often each row was tried; in formulas ``cbind(
            successes, failures)`` on the left side. `y` is then the number of successes
            among them, and the classes are 0 and 1.

        Raises
        ------
        ValueError
            As `BoostedHierarchicalLinearRegression.fit`.
        """
        of_rows = {"trials": trials, "sample_weight": sample_weight, "offset": offset}
        return self._fit_rows(X, y, **of_rows)

    score = score_of_trials

    def _learn(self, rows, data, again, named=None):
        X, _, trials, weight, _ = rows
        self._learn_labels(data, *binomial_rows(*rows))
        if trials is not None:
            # What was read has every trial.
            n_rows = check_sample_weight(weight, X, dtype=np.float64).sum()
            self._model_ = replace(self._model_, n_rows=float(n_rows))
        return self

    def _learn_labels(self, data, X, y, sample_weight, offset):
        response, codes = self._labels(X, y)
        self.classes_ = response.classes
        offset = checked_offset(offset, None, len(codes))
        grouped = read_groups(self, X, codes, sample_weight, response, offset)
        return self._learn_groups(grouped, response, offset is not None, data)

    def _labels(self, X, y):
        """The response of labels, and these as numbers."""
        labels = check_labels(one_for_each_row(self, X, y))
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            # Of no rows there is none.
            got = f"one class ({classes[0]})" if len(classes) else "no labels"
            raise ValueError(
                f"y must have two classes; got {got}. Add examples of another class."
            )
        if len(classes) > 2:
            raise ValueError(
                f"y must have two classes; got {len(classes)} classes. Only binary "
                "classification is supported. Use BoostedHierarchicalOrdinalRegression "
                "where classes have an order, or BoostedBayesianLogisticRegression, "
                "which takes no groups."
            )
        return ClassResponse(classes), codes.astype(float)

    predict = with_groups(ClassAnswers.predict)
    predict_proba = with_groups(ClassAnswers.predict_proba)
    predict_log_proba = with_groups(ClassAnswers.predict_log_proba)
    predict_proba_interval = with_groups(ClassAnswers.predict_proba_interval)
    predict_uncertainty = with_groups(ClassAnswers.predict_uncertainty)
    log_predictive_density = with_groups(ClassAnswers.log_predictive_density)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
