"""Logistic regression of two classes with groups: effects of groups, learned scales."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from skboost._base import callback_data
from skboost._elsewhere import MOVED_LEVEL, known_parameters
from skboost._sklearn import fit_context
from skboost.linear_model._hierarchical import (
    HIERARCHICAL_CONSTRAINTS,
    HierarchicalModel,
)
from skboost.linear_model._methods import one_for_each_row, tails_of
from skboost.linear_model._ratios import ratio_table
from skboost.serving import GroupedClassifier, sigmoid
from skboost.targets import Logistic


class BoostedHierarchicalLogisticRegression(ClassifierMixin, HierarchicalModel):
    """Logistic regression whose groups share strength: partial pooling.

    The logit of the second class's probability is ``X coef + intercept + z u[group]``,
    where the effects ``u`` of the groups of a factor are normal around zero with a
    standard deviation that is learned. Group effects are integrated out by adaptive
    quadrature (one factor, one slope) or Laplace's method (more); boosting variational
    inference approximates the posterior of coefficients and scales.

    Parameters
    ----------
    groups : str, int or list of these, default=None
        Columns of X that say which group a row belongs to, by name or position. Every
        column is a factor with effects of its own; several are crossed. Labels are
        integers, strings or categories. All other columns are numeric features. None is
        a model without groups.
    slopes : dict, default=None
        From factors to the columns whose coefficients differ between groups, such as
        ``{"county": ["floor"]}``. Effects of one group are independent a priori.
    nested : list of tuple, default=None
        Columns whose groups lie within those of another, the outer one first:
        ``[("school", "class")]`` makes the factors ``"school"`` and ``"school:class"``,
        and classes of the same name in two schools are two groups.
    scale_prior : "half_t" or ScalePrior, default="half_t"
        Prior of the standard deviations of group effects. ``"half_t"`` is a half-t
        distribution with 3 degrees of freedom whose scale is 2.5 on the
        scale of logits, for slopes per
        standard deviation of the column. ``HalfNormalPrior(scale)`` and
        ``HalfTPrior(df, scale)`` of `skboost.priors` are in the unit of the effects.
    prior : {"normal", "laplace", "student_t", "cauchy"} or Prior, default="normal"
        Independent prior of the coefficients, around zero.
    prior_scale : "auto", float or array-like of shape (n_numeric_features,), \
            default="auto"
        Scale of that prior in the unit of the coefficients. ``"auto"`` is one
        per standard deviation of the feature.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    intercept_scale : "auto" or float, default="auto"
        Scale of the intercept's prior. ``"auto"`` is ten times that of a standardised
        feature, widened by where the responses and the features lie.
    handle_unknown : {"population", "error"}, default="population"
        What predictions do with a group that `fit` has not seen: integrate over the
        distribution of groups, or raise an error.
    max_iter : int, default=10
        Boosting iterations in total, the first component included.
    tol : float or "auto", default="auto"
        In nats; a component that gains less than a tenth of it is refused. ``"auto"``
        also stops as soon as no more remains than a Gaussian fitted to 1,000 exact
        draws would leave.
    max_time : float, default=None
        Seconds.
    random_state : int, RandomState instance or None, default=None
        Seed of every draw. The same seed gives the same fit for every `n_jobs`.
    n_jobs : int, default=None
        Threads over starts.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels of the classes.
    posterior_ : TransformedPosterior
        Over (coefficients, intercept, standard deviations of group effects).
    coef_ : ndarray of shape (n_numeric_features,)
        Posterior means.
    intercept_ : float
        Posterior mean.
    group_levels_ : dict
        By factor the labels of its groups, ndarray of shape (n_groups,), or
        (n_groups, n_columns) of a nested factor.
    group_effects_ : dict
        By factor the posterior means of the effects of its groups, ndarray of shape
        (n_groups, n_effects): the intercept's, then those of the slopes.
    variance_components_ : DataFrame, or structured array without pandas
        Posterior means of the standard deviations of group effects, their
        standard deviations and the ends of their 90 per cent intervals.
    icc_ : dict
        Intraclass correlation by factor: the share of the variance of the response on
        the scale of logits
        that the intercepts of its groups make up; a posterior mean.
    effects_pareto_k_ : float
        k-hat of the importance weights that make draws of group effects exact where
        Laplace's method gave them (several factors or slopes): above 0.7 they
        are not reliable. 0 where none are needed.
    elbo_, elbo_se_ : float
        Evidence lower bound, group effects integrated out, and its standard error,
        nats.
    remaining_kl_, remaining_kl_se_, pareto_k_ : float
        Importance-sampling estimate of what the bound still misses, nats, its standard
        error, and k-hat: above 0.7 the estimate is not reliable.
    remaining_kl_interval_ : tuple of float
        (lower, upper), nats.
    n_iter_ : int
        Iterations done.
    converged_ : bool
        Whether the stopping rule ended the run.
    message_ : str
        Why the run ended.
    history_ : list of dict
        One record per iteration.
    skewing_ : SkewReport
        What skewing weights gained.
    n_features_in_ : int
        Columns of X, those of groups included.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where `X` has them.

    See Also
    --------
    BoostedBayesianLogisticRegression : Without groups, with any number of classes.

    References
    ----------
    Gelman and Hill: Data Analysis Using Regression and Multilevel/Hierarchical Models,
    2007 (chapters 12 and 13). Gelman: Prior distributions for variance parameters in
    hierarchical models, Bayesian Analysis 1, 2006. Locatello, Dresdner, Khanna, Valera,
    Rätsch: Boosting Black Box Variational Inference, 2018 (Algorithm 1).
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

    _parameter_constraints = HIERARCHICAL_CONSTRAINTS

    _likelihood, _row_noise = Logistic(), "the randomness of single answers"

    def __init__(
        self,
        *,
        groups=None,
        slopes=None,
        nested=None,
        scale_prior="half_t",
        prior="normal",
        prior_scale="auto",
        fit_intercept=True,
        intercept_scale="auto",
        handle_unknown="population",
        max_iter=10,
        tol="auto",
        max_time=None,
        random_state=None,
        n_jobs=None,
    ):
        self.groups = groups
        self.slopes = slopes
        self.nested = nested
        self.scale_prior = scale_prior
        self.prior = prior
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.intercept_scale = intercept_scale
        self.handle_unknown = handle_unknown
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the posterior.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numeric features, and the columns that `groups` and `nested` name.
        y : array-like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; a weight of two is a row that stands twice in its group.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For missing labels, factors with one group, and parameters or data that mean
            nothing. What was fitted before stays usable.
        """
        with self._keeping_old_fit():
            codes = self._coded(X, y)
            rows, table = self._grouped(X, codes, sample_weight)
            return self._learn_groups(rows, table, callback_data(X, y, sample_weight))

    def _coded(self, X, y):
        """Labels as zeros and ones; learns the classes."""
        y = checked_labels(self, X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError(
                "y must hold labels of two classes; got "
                f"{len(self.classes_)} class{'es' * (len(self.classes_) > 1)}. Only "
                "binary classification is supported."
            )
        return codes.astype(float)

    @known_parameters(MOVED_LEVEL)
    def predict_proba(self, X, population=False):
        """Posterior predictive probabilities of both classes.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        population : bool, default=False
            False uses the effects of the row's groups; those that `fit` has not seen
            have the population's spread. True is a new group for every row.

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        split = self._split(X, population)
        return self._model.proba(*split)

    @known_parameters(MOVED_LEVEL)
    def predict(self, X, population=False):
        """More probable class of every row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        population : bool, default=False
            False uses the effects of the row's groups; those that `fit` has not seen
            have the population's spread. True is a new group for every row.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        codes = self.predict_proba(X, population).argmax(axis=1)
        return self.classes_[codes]

    def predict_proba_interval(self, X, level=0.9, population=False):
        """Central credible interval of the probability of the second class.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        level : float, default=0.9
            Posterior probability inside, in (0, 1).
        population : bool, default=False
            A new group for every row.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper end.
        """
        tails = tails_of(level)
        split = self._split(X, population)
        predictors = self._model.predictors(*split)
        ends = [np.quantile(eta, tails, axis=1) for _, eta in predictors]
        return sigmoid(np.hstack(ends)).T

    def log_predictive_density(self, X, y, population=False):
        """Log probability of labels under the posterior predictive distribution.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels that `fit` has seen.
        population : bool, default=False
            A new group for every row.

        Returns
        -------
        ndarray of shape (n_samples,)
            Nats.
        """
        check_is_fitted(self)
        y = checked_labels(self, X, y)
        if not np.isin(y, self.classes_).all():
            raise ValueError(
                f"y must hold labels among {self.classes_.tolist()}; got others."
            )
        proba = self.predict_proba(X, population)
        codes = np.searchsorted(self.classes_, y)
        return np.log(proba[np.arange(len(y)), codes])

    def odds_ratios(self, level=0.9, increment=1.0):
        """Factors by which the odds grow with each feature, with credible intervals.

        The odds are those of ``classes_[1]`` within a group, whose effects stay as they
        are. The row of the intercept has the odds where every feature is zero, in the
        median group.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).
        increment : float, dict or array-like, default=1.0
            Change of each feature that its ratio is for; a dict names some of them.
            Of columns that a ``StandardScaler`` divided by ``scale_``, ``1 / scale_``
            gives ratios for one of the units before.

        Returns
        -------
        pandas.DataFrame, or a structured ndarray where pandas is not installed
            A row for each coefficient, the intercept last: ``odds_ratio``
            (posterior median), ``lower`` and ``upper`` end of the central interval, and
            ``probability_above_1``.
        """
        return ratio_table(
            self.posterior_, self._layout, "odds_ratio", level, increment
        )

    # --- the model

    def _units(self, table):
        # The information of a row about its logit is a quarter at most.
        return 1.0, 0.0, 2.0

    def _residual_variance(self, model):
        # Of the standard logistic distribution.
        return np.pi**2 / 3.0

    def _plain(self, **arrays):
        return GroupedClassifier(classes=self.classes_, **arrays)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def checked_labels(estimator, X, y):
    """Labels, (n_samples,); a ValueError where they are none."""
    y = one_for_each_row(estimator, X, y)
    check_classification_targets(y)
    return y
