"""Poisson regression with groups: effects of groups, learned scales."""

import numpy as np

from skboost._parameters import keeps_parameters
from skboost._sklearn import StrOptions, fit_context
from skboost.linear_model._answers import with_groups
from skboost.linear_model._count_predictive import warn_where_larger
from skboost.linear_model._group_responses import COUNTS
from skboost.linear_model._groups import read_groups
from skboost.linear_model._hierarchical import (
    HIERARCHICAL_CONSTRAINTS,
    HierarchicalEstimator,
)
from skboost.linear_model._model import DISPERSION_PRIOR
from skboost.linear_model._regressor import CountAnswers
from skboost.linear_model._row_keywords import checked_offset


class BoostedHierarchicalPoissonRegression(CountAnswers, HierarchicalEstimator):
    """Regression of counts whose groups share strength: partial pooling.

    The logarithm of the rate is ``X coef + intercept + offset + z u[group]``, where the
    effects ``u`` of the groups of a factor are normal around zero with a standard
    deviation that is learned. Group effects are integrated out by adaptive quadrature
    (one factor with one slope, or two nested ones) or Laplace's method (more); boosting
    variational inference approximates the posterior of coefficients and scales.

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
    scale_prior, prior_scale
        As in `BoostedHierarchicalLogisticRegression`, of logarithms of rates.
    dispersion_prior : "auto" or DispersionPrior, default="auto"
        Prior of the dispersion under ``"negative_binomial"``, as in
        `BoostedBayesianPoissonRegression`; rows are those of a group.
    formula, groups, slopes, correlated, group_intercepts, fixed, nested, prior, \
    fit_intercept, intercept_scale, handle_unknown, missing, max_iter, tol, max_time, \
    random_state, n_jobs, verbose
        As in `BoostedHierarchicalLinearRegression`, with the same defaults.

    Attributes
    ----------
    posterior_ : TransformedPosterior
        Over (coefficients, intercept, standard deviations of group effects), and under
        ``"negative_binomial"`` the dispersion.
    coef_, intercept_ : ndarray of shape (n_numeric_features,), float
        Posterior means.
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
    effects_pareto_k_, effects_efficiency_ : float
        As of `BoostedHierarchicalLogisticRegression`.
    group_levels_, group_effects_, elbo_, elbo_se_, elbo_path_, gain_path_, \
    duality_gap_, duality_gap_se_, duality_gap_path_, remaining_kl_, \
    remaining_kl_se_, remaining_kl_interval_, pareto_k_, orbiting_, n_iter_, \
    converged_, message_, history_, n_dropped_, n_features_in_, feature_names_in_
        As of `BoostedHierarchicalLinearRegression`.

    See Also
    --------
    BoostedBayesianPoissonRegression : Without groups.

    References
    ----------
    Those of `BoostedHierarchicalLinearRegression`, and
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

    _scale_of_effects = "log rate"
    _parameter_constraints = {
        **HIERARCHICAL_CONSTRAINTS,
        "likelihood": [StrOptions(set(COUNTS))],
        "dispersion_prior": DISPERSION_PRIOR,
    }

    @keeps_parameters
    def __init__(
        self,
        *,
        likelihood="poisson",
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
        dispersion_prior="auto",
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
    def fit(self, X, y=None, sample_weight=None, offset=None, exposure=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X, sample_weight
            As in `BoostedHierarchicalLinearRegression.fit`.
        y : array-like of shape (n_samples,), default=None
            Counts, not negative; None for the left side of the formula.
        offset : array-like of shape (n_samples,) or str, default=None
            Logarithm of the exposure.
        exposure : array-like of shape (n_samples,) or str, default=None
            Positive factor of the rate; its logarithm is added to `offset`.

        Raises
        ------
        ValueError
            As `BoostedHierarchicalLinearRegression.fit`.

        Warns
        -----
        OverdispersionWarning
            Where counts vary more than Poisson counts, group effects apart; see
            `BoostedBayesianPoissonRegression.fit`.
        """
        more = {"offset": offset, "exposure": exposure}
        return self._fit_rows(X, y, sample_weight=sample_weight, **more)

    def _learn(self, rows, data, again, named=None):
        X, y, sample_weight, *more = rows
        counts = self._coded(X, y)
        offset = checked_offset(*more, len(counts))
        response = COUNTS[self.likelihood](self.dispersion_prior)
        grouped = read_groups(self, X, counts, sample_weight, response, offset)
        self._learn_groups(grouped, response, offset is not None, data)
        if response.noise_name is None:
            warn_where_larger(*response.excess(self._draws.model, grouped))
        return self

    predict = with_groups(CountAnswers.predict)
    predict_interval = with_groups(CountAnswers.predict_interval)
    predict_quantiles = with_groups(CountAnswers.predict_quantiles)
    log_predictive_density = with_groups(CountAnswers.log_predictive_density)
    # The posterior is over it.
    _as_dispersion = staticmethod(np.array)
