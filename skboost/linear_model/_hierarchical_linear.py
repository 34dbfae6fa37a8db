"""Linear regression with groups: noise, effects of groups, learned scales."""

from skboost._parameters import keeps_parameters
from skboost._sklearn import StrOptions, fit_context
from skboost.linear_model._answers import with_groups
from skboost.linear_model._group_responses import NumberResponse
from skboost.linear_model._groups import read_groups
from skboost.linear_model._hierarchical import (
    HIERARCHICAL_CONSTRAINTS,
    HierarchicalEstimator,
)
from skboost.linear_model._methods import checked_numbers
from skboost.linear_model._model import NOISE_PRIOR
from skboost.linear_model._regressor import NumberAnswers
from skboost.linear_model._row_keywords import less_offset
from skboost.targets import NOISES


class BoostedHierarchicalLinearRegression(NumberAnswers, HierarchicalEstimator):
    """Linear regression whose groups share strength: partial pooling.

    ``y = X coef + intercept + z u[group] + noise``, where the effects ``u`` of the
    groups of a factor are normal around zero with a standard deviation that is learned.
    Groups with few rows are pulled towards the population, groups with many speak for
    themselves. Group effects are integrated out, under normal noise in closed form;
    boosting variational inference approximates the posterior of coefficients, scales
    and noise.

    Parameters
    ----------
    formula : str, default=None
        In the manner of lme4, in place of the parameters from `groups` to `nested` and
        `fit_intercept`: ``"reaction ~ days + (days | subject)"``. ``(x || g)`` has
        effects that are not correlated, ``(0 + x | g)`` no intercepts, ``(1 | a/b)``
        and ``(1 | a:b)`` nested groups. Terms are ``a * b``, ``(a + b)^2``, ``.``,
        ``C(a)``, ``I(x^2)``, ``log(x)``, ``scale(x)``, ``poly(x, 2)``,
        ``bs(x, df=4)``, ``offset(x)``; strings are categories, and other names than
        words stand in backticks or ``Q("...")``. Of the library formulaic (extra
        ``formula``) functions of a list are called alone: no formula runs code. X is a
        data frame of pandas or polars then, and `y` the left side where it
        is not passed; `feature_names_in_` are the columns that are made of X.
    groups : str, int or list of these, default=None
        Columns of X that say which group a row belongs to, by name or position. Every
        column is a factor with effects of its own; several are crossed. Labels are
        integers, strings or categories. All other columns are numeric features. None is
        a model without groups.
    slopes : dict, default=None
        From factors to the columns whose coefficients differ between groups, such as
        ``{"county": ["floor"]}``.
    correlated : bool, LKJPrior or dict, default=True
        Whether the effects of one group are correlated a priori, in factors that have
        slopes; a dict has one of these for each factor. True is ``LKJPrior(1.0)`` of
        `skboost.priors`, which is even over all correlation matrices. Without
        correlation the fit depends on where the columns of slopes have their zero.
    group_intercepts : bool or dict, default=True
        False leaves slopes alone in factors that have some; a dict has one for each
        factor.
    fixed : str, int or list of these, default=None
        Numeric columns with a coefficient of the population. None is all of them;
        others may have slopes.
    nested : list of tuple, default=None
        Columns whose groups lie within those of another, the outer one first:
        ``[("school", "class")]`` makes the factors ``"school"`` and ``"school:class"``,
        and classes of the same name in two schools are two groups.
    scale_prior : "half_t", ScalePrior or dict, default="half_t"
        Prior of the standard deviations of group effects. ``"half_t"`` is a half-t
        distribution with 3 degrees of freedom whose scale is 2.5 standard deviations
        of the response, for slopes per
        standard deviation of the column. ``HalfNormalPrior(scale)`` and
        ``HalfTPrior(df, scale)`` of `skboost.priors` are in the unit of the effects. A
        dict has one for each factor, or for names of ``variance_components_`` such as
        ``"sd(county: floor)"``.
    prior : {"normal", "laplace", "student_t", "cauchy"} or Prior, default="normal"
        Independent prior of the coefficients, around zero.
    prior_scale : "auto", float or array-like of shape (n_numeric_features,), \
            default="auto"
        Scale of that prior in the unit of the coefficients. ``"auto"`` is one
        standard deviation of the response per standard deviation of the feature.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    intercept_scale : "auto" or float, default="auto"
        Scale of the prior that the intercept has at the centre of the columns.
        ``"auto"`` is ten times that of a standardised feature, widened by where the
        responses lie.
    noise : {"normal", "student_t"}, default="normal"
        Distribution of the noise. Under ``"student_t"``, of four degrees of freedom,
        outliers are expected and lose their pull; effects and coefficients have no
        closed form then, and are integrated out as in
        `BoostedHierarchicalPoissonRegression`.
    noise_prior : "auto" or NoiseScalePrior, default="auto"
        Prior of the noise scale, as in `BoostedBayesianLinearRegression`.
    handle_unknown : {"warn", "population", "error"}, default="warn"
        What predictions do with a group that `fit` has not seen: integrate over the
        distribution of groups, with a warning (none in cross-validation) or without
        one, or raise an error.
    missing : {"raise", "drop"}, default="raise"
        What `fit` does with rows that lack a value in X, `y` or a keyword: raise an
        error, or leave them out. Of a formula the columns count that it names.
    max_iter, tol, max_time, random_state, n_jobs, verbose
        As in `BoostedBayesianLogisticRegression`, with the same defaults; `n_jobs` are
        threads over starts.

    Attributes
    ----------
    posterior_ : TransformedPosterior
        Over (coefficients, intercept, standard deviations of group effects,
        their correlations, noise scale). Under a normal prior up to 200 coefficients
        are integrated out with the effects, and are Gaussian given scales: ``save`` is
        refused, pickle it.
    coef_, intercept_ : ndarray of shape (n_numeric_features,), float
        Posterior means.
    group_levels_ : dict
        By factor the labels of its groups, ndarray of shape (n_groups,), or
        (n_groups, n_columns) of a nested factor.
    group_effects_ : dict
        By factor the posterior means of the effects of its groups, ndarray of shape
        (n_groups, n_effects): the intercept's where there is one, then those of the
        slopes.
    variance_components_ : DataFrame, or structured array without pandas
        Posterior means of the standard deviations of group effects, of their
        correlations, ``cor(county: intercept, floor)``, and of the noise scale; their
        standard deviations and the ends of their 90 per cent intervals.
    icc_ : dict
        Intraclass correlation by factor: the share of the variance of the response
        that the intercepts of its groups make up; a posterior mean.
    effects_pareto_k_ : float
        k-hat of the importance weights that make draws exact where Laplace's method
        gave coefficients or effects (Student-t noise): above 0.7 they are not reliable.
        0 where none are needed, or nearly all weigh the same.
    effects_efficiency_ : float
        Effective sample size of these weights as a share of the draws; below 0.5 a
        warning says what to do, and below 0.3 the fit has not converged: nothing says
        what scales and coefficients lack. 1 where none are needed.
    elbo_, elbo_se_, elbo_path_, gain_path_, duality_gap_, duality_gap_se_, \
    duality_gap_path_, remaining_kl_, remaining_kl_se_, remaining_kl_interval_, \
    pareto_k_, orbiting_, n_iter_, converged_, message_, history_, n_dropped_, \
    n_features_in_, feature_names_in_
        As of `BoostedBayesianLogisticRegression`; group effects are integrated out of
        all bounds, and columns of groups count among those of X.

    See Also
    --------
    BoostedBayesianLinearRegression : Without groups.

    References
    ----------
    Gelman and Hill: Data Analysis Using Regression and Multilevel/Hierarchical Models,
    2007 (chapters 12 and 13). Gelman: Prior distributions for variance parameters in
    hierarchical models, Bayesian Analysis 1, 2006. Locatello et al. 2018 (Algorithm 1).
    Lindstrom and Bates, Journal of the American Statistical Association 83, 1988 (sums
    over rows). Lewandowski, Kurowicka, Joe, Journal of Multivariate Analysis 100, 2009
    (the prior of correlations). Vanhatalo, Jylänki and Vehtari, Advances in Neural
    Information Processing Systems 22, 2009 (Laplace's method under Student-t noise).

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import BoostedHierarchicalLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> school = np.repeat(np.arange(8), 5)
    >>> hours = rng.normal(size=40)
    >>> y = hours + rng.normal(size=8)[school] + rng.normal(size=40)
    >>> X = np.column_stack([hours, school])
    >>> model = BoostedHierarchicalLinearRegression(groups=[1], random_state=0)
    >>> model = model.fit(X, y)
    >>> model.group_effects_["x1"].shape
    (8, 1)
    >>> model.predict([[0.5, 3], [0.5, 99]]).shape  # no school 99: the population
    (2,)
    """

    _scale_of_effects = "units of the response"
    _parameter_constraints = {
        **HIERARCHICAL_CONSTRAINTS,
        "noise": [StrOptions(set(NOISES))],
        "noise_prior": NOISE_PRIOR,
    }

    @keeps_parameters
    def __init__(
        self,
        *,
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
        noise="normal",
        noise_prior="auto",
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
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numeric features, and the columns that `groups` and `nested` name; those of
            the `formula`.
        y : array-like of shape (n_samples,), default=None
            Responses; None for the left side of the formula.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            Not negative; a weight of two is a row that stands twice in its group.
        offset : array-like of shape (n_samples,) or str, default=None
            Added to the linear predictor. A column that a str names has no other part
            unless the formula, `groups`, `slopes` or their like name it, too.

        Raises
        ------
        ValueError
            For missing labels, factors with one group, and parameters or data that mean
            nothing. What was fitted before stays usable.
        """
        return self._fit_rows(X, y, sample_weight=sample_weight, offset=offset)

    def _learn(self, rows, data, again, named=None):
        X, y, sample_weight, offset = rows
        y = less_offset(self, X, checked_numbers(self, X, y), offset)
        response = NumberResponse(self.noise_prior, self.noise)
        grouped = read_groups(self, X, y, sample_weight, response)
        return self._learn_groups(grouped, response, offset is not None, data)

    predict = with_groups(NumberAnswers.predict)
    predict_interval = with_groups(NumberAnswers.predict_interval)
    predict_quantiles = with_groups(NumberAnswers.predict_quantiles)
    log_predictive_density = with_groups(NumberAnswers.log_predictive_density)
