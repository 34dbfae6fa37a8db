"""Poisson regression with groups: effects of groups, learned scales."""

from numbers import Real

import numpy as np

from skboost._base import callback_data
from skboost._sklearn import Interval, StrOptions, fit_context
from skboost.linear_model._count_predictive import warn_where_larger
from skboost.linear_model._count_regressor import checked_offset
from skboost.linear_model._hierarchical import HIERARCHICAL_CONSTRAINTS
from skboost.linear_model._hierarchical_counts import (
    HierarchicalCountRegressor,
    checked_counts,
)
from skboost.linear_model._summary import log_rate
from skboost.targets import (
    DispersionPrior,
    NegativeBinomial,
    Poisson,
    bounded_exp,
)

# Rows whose residuals are looked at, of many.
_MOST_RESIDUALS = 4096


class BoostedHierarchicalPoissonRegression(HierarchicalCountRegressor):
    """Regression of counts whose groups share strength: partial pooling.

    The logarithm of the rate is ``X coef + intercept + offset + z u[group]``, where the
    effects ``u`` of the groups of a factor are normal around zero with a standard
    deviation that is learned. Group effects are integrated out by adaptive quadrature
    (one factor, one slope) or Laplace's method (more); boosting variational inference
    approximates the posterior of coefficients and scales.

    Counts that vary more around their rates than Poisson counts need
    ``likelihood="negative_binomial"``: the variance of a count with mean m is
    m + `dispersion_` m^2, and the dispersion is learned with everything else. A fit of
    the Poisson likelihood warns where its residuals ask for it.

    `offset` is the logarithm of the exposure of a row (the years, persons or
    kilometres that its count is about); it is an argument of the methods.

    Parameters
    ----------
    likelihood : {"poisson", "negative_binomial"}, default="poisson"
        Distribution of a count around its mean.
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
    dispersion_prior_median : float, default=0.25
        Of the dispersion under ``"negative_binomial"``, whose logarithm has a normal
        prior. The default says that rates of equal rows of a group vary by about half.
    dispersion_prior_sd : float, default=2.0
        Standard deviation of the logarithm. With both defaults rates vary, with prior
        probability .9, by 10 to 260 %.
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
        Over (coefficients, intercept, standard deviations of group effects), and under
        ``"negative_binomial"`` the dispersion.
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
        Posterior means of the standard deviations of group effects and, under
        ``"negative_binomial"``, of the dispersion, their
        standard deviations and the ends of their 90 per cent intervals.
    dispersion_ : float
        Posterior median, under ``"negative_binomial"`` only; `dispersion_interval` has
        its interval.
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

    _parameter_constraints = {
        **HIERARCHICAL_CONSTRAINTS,
        "likelihood": [StrOptions({"poisson", "negative_binomial"})],
        "dispersion_prior_median": [Interval(Real, 0, None, closed="neither")],
        "dispersion_prior_sd": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        *,
        likelihood="poisson",
        groups=None,
        slopes=None,
        nested=None,
        scale_prior="half_t",
        prior="normal",
        prior_scale="auto",
        fit_intercept=True,
        intercept_scale="auto",
        dispersion_prior_median=0.25,
        dispersion_prior_sd=2.0,
        handle_unknown="population",
        max_iter=10,
        tol="auto",
        max_time=None,
        random_state=None,
        n_jobs=None,
    ):
        self.likelihood = likelihood
        self.groups = groups
        self.slopes = slopes
        self.nested = nested
        self.scale_prior = scale_prior
        self.prior = prior
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.intercept_scale = intercept_scale
        self.dispersion_prior_median = dispersion_prior_median
        self.dispersion_prior_sd = dispersion_prior_sd
        self.handle_unknown = handle_unknown
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, offset=None, exposure=None):
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
        exposure : array-like of shape (n_samples,), default=None
            Positive factor of the rate; its logarithm is added to `offset`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For missing labels, factors with one group, and parameters or data that mean
            nothing. What was fitted before stays usable.

        Warns
        -----
        OverdispersionWarning
            Where residuals of a Poisson likelihood are larger than Poisson counts have;
            see `BoostedBayesianPoissonRegression.fit`. Group effects are in the rates.
        """
        with self._keeping_old_fit():
            counts = checked_counts(self, X, y)
            more = {"offset": offset, "exposure": exposure}
            total = checked_offset(offset, exposure, len(counts))
            rows, table = self._grouped(X, counts, sample_weight, total)
            given = callback_data(X, y, sample_weight, **more)
            self._learn_groups(rows, table, given)
            self._exposed = total is not None
            if not self._noise_name:
                vars(self).pop("dispersion_", None)
                warn_where_larger(*self._pearson(rows))
            return self

    # --- the model

    @property
    def _noise_name(self):
        return "dispersion" if self.likelihood == "negative_binomial" else None

    @property
    def _row_noise(self):
        return "the dispersion of counts" if self._noise_name else None

    @property
    def _likelihood(self):
        return NegativeBinomial() if self._noise_name else Poisson()

    def _noise_prior(self, unit):
        if not self._noise_name:
            return None
        return DispersionPrior(self.dispersion_prior_median, self.dispersion_prior_sd)

    def _fitted(self, posterior):
        # What was fitted, whatever the parameters say by now.
        fitted = {"_fitted_likelihood": self.likelihood}
        if self._noise_name:
            median = posterior.marginal(posterior.dim - 1).quantile(0.5)
            fitted["dispersion_"] = float(median)
        return fitted | super()._fitted(posterior)

    def _pearson(self, rows):
        """Pearson's statistic, its variance if counts are Poisson, and weights.

        At draws of everything, whose residuals are as large as those of the truth on
        average: no degrees of freedom are to be subtracted.
        """
        n = len(rows.y)
        rows = rows.taken(np.linspace(0, n - 1, min(n, _MOST_RESIDUALS)).astype(int))
        model, found = self._model, 0.0
        numbers = rows.X[:, : len(model.numbers)]
        codes = [factor.codes for factor in rows.factors]
        for some, eta in model.predictors(numbers, codes, rows.offset):
            rate, weight = bounded_exp(eta), rows.weight[some]
            pearson = (rows.y[some, None] - rate) ** 2 / rate
            found += weight @ np.stack([pearson, 2.0 + 1.0 / rate])
        return (*np.median(found, axis=1), rows.weight.sum())

    def _units(self, table):
        level, summary = float(log_rate(table)), table.summary
        # The information of a row about its logarithm is its rate.
        variance = 1.0 / (summary.level + 0.5 / summary.weight)
        if self._noise_name:
            variance += self.dispersion_prior_median
        return 1.0, level, np.sqrt(variance)

    def _residual_variance(self, model):
        # Of a logarithm, were counts lognormal with the same mean and variance, at the
        # rate of a row whose features are zero.
        rate = np.exp(model.coef[:, -1] if self.fit_intercept else 0.0)
        return np.log1p(1.0 / rate + (0.0 if model.noise is None else model.noise))
