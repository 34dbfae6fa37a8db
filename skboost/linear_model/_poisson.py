"""Bayesian Poisson regression with a boosted mixture as posterior."""

from dataclasses import dataclass

import numpy as np

from skboost._parameters import keeps_parameters
from skboost._row_blocks import RowBlocks
from skboost._sklearn import StrOptions, fit_context, num_samples
from skboost.linear_model._count_predictive import (
    CountPredictive,
    warn_of_overdispersion,
)
from skboost.linear_model._flat import FlatRegression
from skboost.linear_model._model import (
    DISPERSION_PRIOR,
    SCALED_CONSTRAINTS,
    Layout,
    LinearModel,
    feature_names,
    highest_point,
    priors_of,
)
from skboost.linear_model._regressor import BayesianCountRegressor
from skboost.linear_model._row_keywords import checked_offset
from skboost.linear_model._sources import Counts
from skboost.linear_model._summary import has_offsets, log_rate, sizes
from skboost.targets import NegativeBinomial, Poisson, as_dispersion_prior


@dataclass(frozen=True, eq=False, kw_only=True)
class CountModel(LinearModel):
    """A linear model of the logarithm of a rate."""

    @property
    def dispersed(self):
        """Whether counts vary more than Poisson counts."""
        return self.level_prior is not None

    def start(self, target, rows):
        """The mode, which is the target's first guess, too."""
        size = sizes(rows, self.layout.intercept, self.centre is not None)
        count = self.temperature * rows.summary.weight * rows.summary.level
        centre, width = np.zeros(len(size)), 1.0 / (size * np.sqrt(count + 1.0))
        if self.layout.intercept:
            centre[-1] = log_rate(rows)
        if self.dispersed:
            centre = np.append(centre, np.log(self.level_prior.median))
            width = np.append(width, 1.0)
        mode = highest_point(target, centre, width)
        target.first_guess = mode, 0.1 * width
        return mode[None]

    def predictive(self, mixture):
        """What answers about rows; see `LinearModel`."""
        return CountPredictive(mixture, self.layout.intercept, self.dispersed)


class BoostedBayesianPoissonRegression(BayesianCountRegressor, FlatRegression):
    """Regression of counts with a posterior in place of a point.

    ``y ~ Poisson(exposure * exp(X coef + intercept + offset))``. A fit starts from the
    best Gaussian over coefficients and intercept, one for every scale of the prior
    where that is learned, and adds components by boosting variational inference only
    where draws see that more than `tol` remains. With
    Gaussian components every expectation in fitting is in closed form, and the
    predictive distribution is a mixture of Poisson-lognormal distributions, summed by
    quadrature: no Monte Carlo noise. Where so few events were seen that every rate is
    unknown by a factor of two or more, it is one of draws, and means and standard
    deviations are those of all but the highest 0.5 % of the rates.

    Counts that vary more than Poisson counts need ``likelihood="negative_binomial"``:
    the rate of every row is multiplied by a gamma variable of mean 1 and variance
    `dispersion_`, so that the variance of a count with mean m is m + dispersion m^2.
    The logarithm of the dispersion is one more coordinate of the posterior. A fit of
    the Poisson likelihood warns where its residuals ask for it.

    `exposure` is what a row's count is about (years, persons, kilometres), a positive
    factor of its rate; `offset` is the logarithm of such a factor, and where both are
    given they multiply. They are arguments of the methods, None is an exposure of one,
    and scikit-learn's metadata routing can pass them on.

    Parameters
    ----------
    likelihood : {"poisson", "negative_binomial"}, default="poisson"
        Distribution of a count around its mean.
    prior, prior_scale, fit_intercept, intercept_scale
        As in `BoostedBayesianLinearRegression`, with the same defaults and without the
        horseshoe. A `prior_scale` of ``"auto"`` is 1 per standard deviation of the
        feature, and that of the intercept 10, widened by what the logarithm of the mean
        rate adds.
    dispersion_prior : "auto" or DispersionPrior, default="auto"
        Prior of the dispersion under ``"negative_binomial"``:
        `DispersionPrior(median, sd)` of `skboost.priors`, under which its logarithm is
        normal. ``"auto"`` is ``DispersionPrior(median=0.25, sd=2.0)``: rates of equal
        rows vary, with prior probability .9, by 10 to 260 %.
    formula, missing, temperature, max_iter, tol, max_time, warm_start, random_state, \
    n_jobs, verbose, family, objective, step_size, corrective, search, orbit
        As in `BoostedBayesianLogisticRegression`, with the same defaults.

    Attributes
    ----------
    posterior_ : MixturePosterior
        Over (coefficients, intercept), and under ``"negative_binomial"`` the logarithm
        of the dispersion.
    coef_, intercept_, prior_scale_
        As of `BoostedBayesianLinearRegression`.
    dispersion_ : float
        Posterior median, under ``"negative_binomial"`` only; `dispersion_interval` has
        its interval.
    elbo_, elbo_se_, elbo_path_, gain_path_, duality_gap_, duality_gap_se_, \
    duality_gap_path_, remaining_kl_, remaining_kl_se_, remaining_kl_interval_, \
    pareto_k_, orbiting_, n_iter_, converged_, message_, history_, \
    n_dropped_, n_features_in_, feature_names_in_
        As of `BoostedBayesianLogisticRegression`.

    See Also
    --------
    BoostedBayesianLinearRegression : Responses with noise around a line.
    sklearn.linear_model.PoissonRegressor : One point, with an L2 penalty.

    References
    ----------
    Locatello et al. 2018 (Algorithm 1). Gelman et al.: Bayesian Data Analysis,
    2013, chapter 16 (generalised linear models). Cameron and Trivedi: Regression
    Analysis of Count Data, 2nd edition, 2013, chapter 3. Aitchison and Ho: The
    multivariate Poisson-log normal distribution, Biometrika 76, 1989. Dean, Journal
    of the American Statistical Association 87, 1992 (test of overdispersion).

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import BoostedBayesianPoissonRegression
    >>> rng = np.random.default_rng(0)
    >>> X, years = rng.normal(size=(100, 2)), rng.uniform(1.0, 9.0, 100)
    >>> y = rng.poisson(years * np.exp(X[:, 0] - 1.0))
    >>> model = BoostedBayesianPoissonRegression(random_state=0)
    >>> model = model.fit(X, y, exposure=years)
    >>> model.predict(X[:3], exposure=years[:3]).shape
    (3,)
    """

    _parameter_constraints = {
        **SCALED_CONSTRAINTS,
        "likelihood": [StrOptions({"poisson", "negative_binomial"})],
        "dispersion_prior": DISPERSION_PRIOR,
    }

    @keeps_parameters
    def __init__(
        self,
        *,
        likelihood="poisson",
        prior="normal",
        prior_scale="learn",
        fit_intercept=True,
        intercept_scale="auto",
        dispersion_prior="auto",
        formula=None,
        missing="raise",
        temperature=1.0,
        max_iter="auto",
        tol="auto",
        max_time=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        family="gaussian",
        objective="kl",
        step_size="line-search",
        corrective="fully-corrective",
        search="greedy",
        orbit="auto",
    ):
        pass

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None, offset=None, exposure=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X, sample_weight
            As in `BoostedBayesianLogisticRegression.fit`.
        y : array-like of shape (n_samples,), default=None
            Counts, not negative; None for `RowBlocks`, which have them.
        offset : array-like of shape (n_samples,) or str, default=None
            Logarithm of the exposure; None is zero.
        exposure : array-like of shape (n_samples,) or str, default=None
            Positive factor of the rate; its logarithm is added to `offset`.

        Raises
        ------
        ValueError, KeyboardInterrupt
            As `BoostedBayesianLogisticRegression.fit`.

        Warns
        -----
        ConvergenceWarning
            Where more than half a nat of KL remains by estimate.
        OverdispersionWarning
            Where the residuals of a Poisson likelihood are so large that intervals of
            90 % would cover less than 86 %: the variance of counts is above 1.25 times
            their mean, and four standard errors above once that, by the score test of
            Dean (1992). Events that end their own exposure, such as deaths, pass.
        """
        more = {"offset": offset, "exposure": exposure}
        return self._fit_rows(X, y, sample_weight=sample_weight, **more)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None, offset=None, exposure=None):
        """Update the posterior by more data: that so far is the prior. Returns self.

        Scales that follow the data (``"auto"``) are those of the first call. Small
        errors of the calls add up. ``search=GreedySearch(max_components=1)`` is faster
        and about as good.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            As in `fit`, rows in memory.
        """
        more = {"offset": offset, "exposure": exposure}
        return self._fit_rows(X, y, True, sample_weight=sample_weight, **more)

    def staged_predict(self, X, offset=None, exposure=None):
        """Predictive means after every iteration; the last is the final one.

        Parameters
        ----------
        X, offset, exposure
            As in `predict`.

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        _, (X, offset) = self._asked(X, offset, exposure)
        for mixture in self._fit.stages:
            yield self._model_.predictive(mixture).model.mean_and_std(X, offset)[0]

    def _arranged(self, reader, before, X, y, sample_weight, offset, exposure):
        return X, y, sample_weight, self._all_offsets(X, offset, exposure)

    def _all_offsets(self, X, offset, exposure):
        """What rows are read with; the offset alone is checked with them."""
        if exposure is None:
            return offset
        if isinstance(X, RowBlocks):
            raise ValueError(
                "exposure must come within the blocks where X is RowBlocks: yield (X, "
                "y, sample_weight, offset) with its logarithm as the offset."
            )
        return checked_offset(offset, exposure, num_samples(X))

    def _reader(self, before, named=None):
        return Counts(self.n_jobs, Poisson())

    def _model(self, rows, reader):
        """The model of these parameters for some rows."""
        dispersed = self.likelihood == "negative_binomial"
        further = ("log_dispersion",) if dispersed else ()
        layout = Layout(feature_names(self), self._said.fit_intercept, further=further)
        priors = priors_of(self, rows, layout, level=log_rate(rows))
        dispersion = as_dispersion_prior(self.dispersion_prior)
        return CountModel(
            layout=layout,
            likelihood=NegativeBinomial() if dispersed else Poisson(),
            **priors,
            level_prior=dispersion if dispersed else None,
            temperature=self.temperature,
            exposed=has_offsets(rows),
        )

    def _learn_model(self, model, rows, data, again):
        """The fit, which warns where rows do not look like those of the model."""
        super()._learn_model(model, rows, data, again)
        if not model.dispersed:
            linear = self._fit.mixture.mean()
            warn_of_overdispersion(rows, linear, model.layout.intercept)
        return self
