"""Poisson regression with groups: effects of groups, learned scales."""

import numpy as np
from sklearn.base import RegressorMixin

from skboost._base import callback_data
from skboost._math import log_sum_exp
from skboost._sklearn import check_sample_weight, fit_context
from skboost.hierarchy import marginal_of
from skboost.linear_model._coefficients import (
    check_quantiles,
    checked_numbers,
    tails_of,
)
from skboost.linear_model._count_predictive import log_probability, smallest_count
from skboost.linear_model._count_regressor import deviance
from skboost.linear_model._hierarchical import (
    HIERARCHICAL_CONSTRAINTS,
    LEVELS,
    HierarchicalModel,
)
from skboost.linear_model._summary import log_rate
from skboost.serving import GroupedCounts
from skboost.targets import Poisson, validate_offset


class BoostedHierarchicalPoissonRegression(RegressorMixin, HierarchicalModel):
    """Regression of counts whose groups share strength: partial pooling.

    The logarithm of the rate is ``X coef + intercept + offset + z u[group]``, where the
    effects ``u`` of the groups of a factor are normal around zero with a standard
    deviation that is learned. Group effects are integrated out by adaptive quadrature
    (one factor, one slope) or Laplace's method (more); boosting variational inference
    approximates the posterior of coefficients and scales.

    `offset` is the logarithm of the exposure of a row (the years, persons or
    kilometres that its count is about); it is an argument of the methods.

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
        scale of logarithms of rates, for slopes per
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
        the scale of logarithms of rates (Nakagawa et al. 2017)
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
    BoostedBayesianPoissonRegression : Without groups.

    References
    ----------
    Gelman and Hill: Data Analysis Using Regression and Multilevel/Hierarchical Models,
    2007 (chapters 12 and 13). Gelman: Prior distributions for variance parameters in
    hierarchical models, Bayesian Analysis 1, 2006. Locatello, Dresdner, Khanna, Valera,
    Rätsch: Boosting Black Box Variational Inference, 2018 (Algorithm 1).
    Pinheiro and Bates, Journal of Computational and Graphical Statistics 4, 1995
    (quadrature). Nakagawa, Johnson and Schielzeth, Journal of the Royal Society
    Interface 14, 2017 (intraclass correlation).

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import BoostedHierarchicalPoissonRegression
    >>> rng = np.random.default_rng(0)
    >>> region = np.repeat(np.arange(8), 10)
    >>> age = rng.normal(size=80)
    >>> y = rng.poisson(np.exp(0.5 * age + rng.normal(size=8)[region]))
    >>> X = np.column_stack([age, region])
    >>> model = BoostedHierarchicalPoissonRegression(groups=[1], random_state=0)
    >>> model.fit(X, y).predict([[0.5, 3], [0.5, 99]]).shape
    (2,)
    """

    _parameter_constraints = HIERARCHICAL_CONSTRAINTS

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
    def fit(self, X, y, sample_weight=None, offset=None):
        """Fit the posterior.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numeric features, and the columns that `groups` and `nested` name.
        y : array-like of shape (n_samples,)
            Counts, not negative.
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; a weight of two is a row that stands twice in its group.
        offset : array-like of shape (n_samples,), default=None
            Logarithm of the exposure; None is zero.

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
            counts = checked_counts(self, X, y)
            rows, table = self._grouped(
                X, counts, sample_weight, checked_offset(offset, len(counts))
            )
            given = callback_data(X, y, sample_weight=sample_weight, offset=offset)
            return self._learn_groups(rows, table, given)

    def predict(self, X, level="group", offset=None, return_std=False):
        """Mean of the posterior predictive distribution.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        level : {"group", "population"}, default="group"
            ``"group"`` uses the effects of the row's groups; those that `fit` has not
            seen have the population's spread. ``"population"`` is a new group for every
            row.
        offset : array-like of shape (n_samples,), default=None
            Logarithm of the exposure; None is zero.
        return_std : bool, default=False
            Return the standard deviation of the count too.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
        std : ndarray of shape (n_samples,)
            Only where `return_std` is True.
        """
        model, split = self._fitted_model(), self._split(X, level)
        mean, std = model.mean_and_std(*split, checked_offset(offset, len(split[0])))
        return (mean, std) if return_std else mean

    def predict_interval(self, X, level=0.9, offset=None, population=False):
        """Central interval of the predictive distribution of the count.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        level : float, default=0.9
            At least this predictive probability lies between the ends, which are
            counts; in (0, 1).
        offset : array-like of shape (n_samples,), default=None
        population : bool, default=False
            A new group for every row, as ``level="population"`` of `predict`.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper end, both inside.
        """
        return self.predict_quantiles(X, tails_of(level), offset, population)

    def predict_quantiles(
        self, X, quantiles=(0.05, 0.5, 0.95), offset=None, population=False
    ):
        """Quantiles of the predictive distribution of the count.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        quantiles : float or array-like of shape (n_quantiles,), \
                default=(0.05, 0.5, 0.95)
            In (0, 1).
        offset : array-like of shape (n_samples,), default=None
        population : bool, default=False
            A new group for every row.

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles)
            Smallest counts whose distribution function reaches these.
        """
        p = check_quantiles(quantiles)
        model, split = self._fitted_model(), self._split(X, LEVELS[bool(population)])
        out = np.empty((len(split[0]), len(p)))
        weights = np.full(len(model.coef), 1.0 / len(model.coef))
        for rows, eta in model.predictors(
            *split, checked_offset(offset, len(split[0]))
        ):
            for k, level in enumerate(p):
                out[rows, k] = smallest_count(
                    level, eta, np.zeros_like(eta), None, weights
                )
        return out

    def log_predictive_density(self, X, y, offset=None, population=False):
        """Log probability of counts under the posterior predictive distribution.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        offset : array-like of shape (n_samples,), default=None
        population : bool, default=False
            A new group for every row.

        Returns
        -------
        ndarray of shape (n_samples,)
            Nats.
        """
        y = checked_counts(self, X, y)
        model, split = self._fitted_model(), self._split(X, LEVELS[bool(population)])
        out, weight = np.empty(len(y)), np.log(1.0 / len(model.coef))
        for rows, eta in model.predictors(
            *split, checked_offset(offset, len(split[0]))
        ):
            counts = np.broadcast_to(y[rows, None], eta.shape)
            table = log_probability(counts, eta, np.zeros_like(eta))
            out[rows] = log_sum_exp(table, weight)
        return out

    def score(self, X, y, sample_weight=None, offset=None):
        """D squared, the share of the deviance that the predictive mean explains.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        offset : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
            As of `BoostedBayesianPoissonRegression`.
        """
        y = checked_counts(self, X, y)
        weight = check_sample_weight(sample_weight, y, dtype=np.float64)
        exposure = np.exp(np.zeros_like(y) if offset is None else np.asarray(offset))
        constant = exposure * (weight @ y) / (weight @ exposure)
        explained = deviance(y, self.predict(X, offset=offset), weight)
        return float(1.0 - explained / deviance(y, constant, weight))

    def rate_ratios(self, level=0.9, increment=1.0):
        """Factors by which the rate grows with each feature, with credible intervals.

        The row of the intercept has the rate where every feature and the offset are
        zero,
        in the median group; groups stay as they are.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).
        increment : float or array-like of shape (n_numeric_features,), default=1.0
            Change of each feature that its ratio is for. Of columns that a
            ``StandardScaler`` divided by ``scale_``, ``1 / scale_`` gives ratios for
            one of the units before.

        Returns
        -------
        pandas.DataFrame, or a structured ndarray where pandas is not installed
            A row for each coefficient, the intercept last: ``rate_ratio``
            (posterior median), ``lower`` and ``upper`` end of the central interval, and
            ``probability_above_1``.
        """
        return self._ratios("rate_ratio", level, increment)

    # --- the model

    def _marginal(self, rows):
        return marginal_of(rows, Poisson())

    def _unit(self, table):
        return 1.0, float(log_rate(table))

    def _row_error(self, table):
        # The information of a row about its logarithm is its rate.
        summary = table.summary
        return 1.0 / np.sqrt(summary.level + 0.5 / summary.weight)

    def _residual_variance(self, model):
        # Of a logarithm, were counts lognormal with the same mean and variance, at the
        # rate of a row whose features are zero.
        rate = np.exp(model.coef[:, -1] if self.fit_intercept else 0.0)
        return np.log1p(1.0 / rate)

    _plain = GroupedCounts

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def checked_counts(estimator, X, y):
    """Counts, (n_samples,); a ValueError where they are none."""
    y = checked_numbers(estimator, X, y)
    return Poisson().checked(y, len(y))


def checked_offset(offset, n_samples):
    """Offsets as `validate_offset` has them; None stays None."""
    return None if offset is None else validate_offset(offset, n_samples)
