"""Bayesian Poisson regression with a boosted mixture as posterior."""

from functools import partial

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._base import callback_data
from skboost._row_blocks import RowBlocks
from skboost._sklearn import StrOptions, fit_context, num_samples
from skboost.linear_model._coefficients import POSITIVE
from skboost.linear_model._count_predictive import warn_of_overdispersion
from skboost.linear_model._count_regressor import BayesianCountRegressor, checked_offset
from skboost.linear_model._linear_model import (
    SCALED_CONSTRAINTS,
    BoostedLinearModel,
    highest_point,
)
from skboost.linear_model._sources import Counts
from skboost.linear_model._summary import log_rate, root_mean_squares, summary_of
from skboost.targets import (
    DispersionPrior,
    GLMTarget,
    NegativeBinomial,
    NoisyGLMTarget,
    Poisson,
)


class BoostedBayesianPoissonRegression(BayesianCountRegressor, BoostedLinearModel):
    """Regression of counts with a posterior in place of a point.

    ``y ~ Poisson(exposure * exp(X coef + intercept + offset))``. The posterior over
    coefficients and intercept is a mixture, grown one component at a time by boosting
    variational inference. With Gaussian components every expectation in fitting is in
    closed form, and the predictive distribution is a mixture of Poisson-lognormal
    distributions, summed by quadrature: no Monte Carlo noise.

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
    prior : {"normal", "laplace", "student_t", "cauchy"} or Prior, default="normal"
        Independent prior of the coefficients, around zero.
    prior_scale : "auto", "learn", float, array-like of shape (n_features,) or \
            ScalePrior, default="auto"
        Scale of the prior in the unit of the coefficients, one or per feature;
        multiplies the own scale of a `Prior` object. ``"learn"`` averages over a
        common factor of what "auto" is, whose prior is ``HalfTPrior(df=3, scale=1.5)``
        or the `ScalePrior` given; see :doc:`/user_guide/prior_scale`.
        ``"auto"`` is 1 per
        standard deviation of the feature.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    intercept_scale : "auto" or float, default="auto"
        Scale of the intercept's prior, of the same kind and around zero. ``"auto"`` is
        10, widened by what the logarithm of the mean rate and features that are not
        centred add.
    dispersion_prior_median : float, default=0.25
        Of the dispersion under ``"negative_binomial"``, whose logarithm has a normal
        prior. The default says that rates of equal rows vary by about half.
    dispersion_prior_sd : float, default=2.0
        Standard deviation of the logarithm. With both defaults rates vary, with prior
        probability .9, by 10 to 260 %.
    temperature : float, default=1.0
        Power of the likelihood in (0, 1]; below 1 the posterior is tempered
        (Alquier and Ridgway 2020), 1 is Bayes.
    max_iter : int, default=10
        Boosting iterations in total, the first component included.
    tol : float or "auto", default="auto"
        In nats. A component that gains less than a tenth of it is refused. ``"auto"``
        is 0.01, and also stops as soon as no more remains, after skewing, than a
        Gaussian fitted to 1,000 exact draws would leave, or where the log posterior is
        concave and the next component is expected to gain less than a tenth of that; a
        number goes on for as long as components gain it.
    max_time : float, default=None
        Seconds. They bind within an iteration: the one under way is given up, and what
        is reported was computed before. The first one
        is cut short where it must be.
    warm_start : bool, default=False
        Go on with the last run up to `max_iter` iterations in total, on the same
        data; the result is that of one long run. A pickle can go on only where this
        is True.
    random_state : int, RandomState instance or None, default=None
        Seed of every draw. The same seed gives the same fit for every `n_jobs`.
    n_jobs : int, default=None
        Threads over blocks of rows and over starts.
    family : str or VariationalFamily, default="gaussian"
        Family of the mixture's components, and their covariance: ``"gaussian"`` (full
        up to 300 parameters, low rank above), ``"gaussian-full"``, ``"gaussian-diag"``,
        ``"gaussian-low-rank"``, ``"laplace"`` (diagonal), ``"student_t"`` (5 degrees of
        freedom; full up to 300 parameters, diagonal above) or an object such as
        ``Gaussian("low_rank", rank=5)``; ``StudentT(df="auto")`` lets every component
        choose its degrees of freedom.
    objective : {"kl", "relbo", "hellinger"} or Objective, default="kl"
        What a new component maximises: the joint gain in ELBO, the residual ELBO of
        Locatello et al. 2018 (``ResidualGain`` of `skboost.strategies` has the weight
        of its entropy, and whether its solver stops where the joint gain is largest),
        or the overlap of square roots of Campbell and Li 2019, under which `tol`
        is squared Hellinger distance and ten iterations make up to 55 components;
        ``"hellinger"`` is not for Student-t components.
    step_size : {"line-search", "adaptive", "predefined"}, float or StepSize, \
            default="line-search"
        Weight of a new component; under ``"fully-corrective"`` the warm start of all
        weights.
    corrective : {"fully-corrective", "pairwise", "away", "none"}, \
            default="fully-corrective"
        How the weights of old components move.
    refine : bool, default=True
        Re-optimise old components after a new one; False leaves them where they are,
        as in the papers.
    stopping : {"gain", "gap"}, default="gain"
        Of the gain in ELBO: stops when gain + 2 standard errors <= 2 `tol`, since the
        next one is usually half as large. Of the duality gap: stops when gap + 2
        standard errors <= `tol`, unless the candidate's own gap is clearly negative.
    max_components : int, default=None
        Bound on the size of the mixture; the lightest components beyond it are
        dropped.
    n_draws : int, default=512
        Monte Carlo draws kept per component. Where their noise hides what iterations
        gain, a run goes on with twice as many, and once more with twice as many; not
        where expectations of the log likelihood are exact.
    calibrate : {"auto", "moments"}, default=None
        Correction of moments and tails after boosting; each is judged on fresh draws,
        and declined where it gains nothing that can be told from noise. ``"auto"``
        spends little of the ELBO on it; ``"moments"`` does what it takes for standard
        deviations and intervals. None leaves the posterior of the largest ELBO. See
        :doc:`/user_guide/corrections`.
    skew : {"auto"} or None, default="auto"
        ``"auto"`` multiplies every component by its exact skewing weight after
        boosting: nothing is lost, and most of what skewness costs a Gaussian is gained
        for a few thousand evaluations. Declined where it gains less than a tenth of
        `tol`. It moves draws, moments and marginals of ``posterior_``; predictions are
        those of the mixture before, which are as near. Where it gains more than 0.3
        nats, `calibrate` is None and the log posterior is concave, an affine map of the
        components comes first. None leaves a mixture. See
        :doc:`/user_guide/corrections`.

    Attributes
    ----------
    posterior_ : MixturePosterior
        Over (coefficients, intercept), and under ``"negative_binomial"`` the logarithm
        of the dispersion.
    coef_ : ndarray of shape (n_features,)
        Posterior means before skewing, by which predictions are made.
    intercept_ : float
        Posterior mean.
    prior_scale_ : float
        Posterior mean of the factor that ``prior_scale="learn"`` averages over; see
        `prior_scale_interval`. Not there for a scale that is given.
    dispersion_ : float
        Posterior median, under ``"negative_binomial"`` only; `dispersion_interval` has
        its interval.
    elbo_, elbo_se_ : float
        Evidence lower bound from fresh draws and its standard error, nats. After
        `partial_fit` it is that of the last batch, with the posterior before as its
        prior: the bounds of all batches add up to one on the evidence of all rows, as
        far as every posterior in between was exact. See `make_log_joint`.
    elbo_path_, gain_path_, duality_gap_path_ : ndarray of shape (`n_iter_`,)
        Per iteration, from fresh draws, nats.
    duality_gap_, duality_gap_se_ : float
        Largest over the last proposed component and all that the mixture has, nats; a
        bound under ``ResidualGain(early_stopping=False)`` only.
    remaining_kl_, remaining_kl_se_, pareto_k_ : float
        Importance-sampling estimate of what the ELBO still misses, nats, its standard
        error, and k-hat, the shape of the weights' tail: above 0.7 the estimate is not
        reliable. Blind to what the mixture never reaches.
    remaining_kl_interval_ : tuple of float
        (low, high) estimate of the remaining error, in nats. What short chains from
        the posterior do not reach is not in it; `high` is inf where nothing is known.
    calibration_ : Calibration or None
        What became of the correction; None without `calibrate`, unless `skew` began
        with one.
    skewing_ : SkewReport or None
        What skewing weights gained; None without `skew`.
    n_iter_ : int
        Iterations done.
    converged_ : bool
        Whether the stopping rule ended the run.
    message_ : str
        Why the run ended.
    history_ : list of dict
        One record per iteration: ``kind`` of step ("first", "frank-wolfe", "away",
        "pairwise", "split" or "rejected"), gamma, curvature, number of components,
        estimates, seconds.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features, where `X` has them.

    See Also
    --------
    BoostedBayesianLinearRegression : Responses with noise around a line.
    sklearn.linear_model.PoissonRegressor : One point, with an L2 penalty.

    References
    ----------
    Locatello, Dresdner, Khanna, Valera, Rätsch: Boosting Black Box Variational
    Inference, 2018 (Algorithm 1). Gelman et al.: Bayesian Data Analysis, 3rd edition,
    2013, chapter 16 (generalised linear models). Cameron and Trivedi: Regression
    Analysis of Count Data, 2nd edition, 2013, chapter 3. Aitchison and Ho: The
    multivariate Poisson-log normal distribution, Biometrika 76, 1989.

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
        "dispersion_prior_median": [POSITIVE],
        "dispersion_prior_sd": [POSITIVE],
    }

    def __init__(
        self,
        *,
        likelihood="poisson",
        prior="normal",
        prior_scale="auto",
        fit_intercept=True,
        intercept_scale="auto",
        dispersion_prior_median=0.25,
        dispersion_prior_sd=2.0,
        temperature=1.0,
        max_iter=10,
        tol="auto",
        max_time=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        family="gaussian",
        objective="kl",
        step_size="line-search",
        corrective="fully-corrective",
        refine=True,
        stopping="gain",
        max_components=None,
        n_draws=512,
        calibrate=None,
        skew="auto",
    ):
        self.likelihood = likelihood
        self.prior = prior
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.intercept_scale = intercept_scale
        self.dispersion_prior_median = dispersion_prior_median
        self.dispersion_prior_sd = dispersion_prior_sd
        self.temperature = temperature
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.family = family
        self.objective = objective
        self.step_size = step_size
        self.corrective = corrective
        self.refine = refine
        self.stopping = stopping
        self.max_components = max_components
        self.n_draws = n_draws
        self.calibrate = calibrate
        self.skew = skew

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None, offset=None, exposure=None):
        """Fit the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowBlocks
            `skboost.RowBlocks` and large memory maps are never copied.
        y : array-like of shape (n_samples,), default=None
            Counts, not negative; None for `RowBlocks`, which have them.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight of two is a row that stands twice.
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
            For data or combinations of parameters that mean nothing. What was fitted
            before stays usable.
        KeyboardInterrupt
            Once more, after the iterations done were kept with every fitted attribute.

        Warns
        -----
        ConvergenceWarning
            Where more than half a nat of KL remains by estimate.
        OverdispersionWarning
            Where the residuals of a Poisson likelihood are so large that intervals of
            90 % would cover less than 86 %: Pearson's statistic per degree of freedom
            is above 1.25, and four standard errors above one.
        """
        with self._keeping_old_fit():
            more = {"offset": offset, "exposure": exposure}
            total = self._all_offsets(X, **more)
            rows = self._source(self._reader(), X, y, sample_weight, total)
            given = callback_data(X, y, sample_weight, **more)
            return self._learn(rows, given)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None, offset=None, exposure=None):
        """Update the posterior with more data: the posterior so far is the prior.

        Scales that follow the data (``"auto"``) are those of the first call.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        offset : array-like of shape (n_samples,), default=None
        exposure : array-like of shape (n_samples,), default=None
            Positive factor of the rate; its logarithm is added to `offset`.

        Returns
        -------
        self
        """
        with self._keeping_old_fit():
            more = {"offset": offset, "exposure": exposure}
            total = self._all_offsets(X, **more)
            first = "posterior_" not in vars(self)
            rows = self._reader().held(self, X, y, sample_weight, total, reset=first)
            given = callback_data(X, y, sample_weight, **more)
            return self._learn(rows, given, update=True)

    def make_log_joint(self, X, y, sample_weight=None, offset=None, exposure=None):
        """The fitted model's log joint density on some rows, as a function.

        What `fit` approximated: the prior with the scales that "auto" found, intercept
        and temperature are those of the fit, whatever the parameters say by now. The
        estimator does not keep the rows, so they are passed again; the function holds
        them. After `partial_fit` the prior is still that of the first call: pass all
        rows so far. See `BoostedBayesianLogisticRegression.make_log_joint`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        offset : array-like of shape (n_samples,), default=None
        exposure : array-like of shape (n_samples,), default=None
            Positive factor of the rate; its logarithm is added to `offset`.

        Returns
        -------
        LogJoint
            Takes (n, dim) draws of the coordinates of `posterior_` and gives (n,)
            nats; ``.gradient`` takes the same and gives (n, dim).
        """
        check_is_fitted(self)
        total = self._all_offsets(X, offset, exposure)
        rows = self._reader().held(self, X, y, sample_weight, total, reset=False)
        return self._log_joint(rows)

    def _learn(self, rows, given, *, update=False):
        super()._learn(rows, given, update=update)
        found = summary_of(rows)
        exposed = not np.isclose(found.log_exposure, np.log(found.weight))
        self._exposed = exposed or (update and self._exposed)
        if not self._dispersed:
            vars(self).pop("dispersion_", None)
            coef = self.posterior_.mean()
            warn_of_overdispersion(rows, coef, self._has_intercept)
        return self

    # --- the target

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

    def _reader(self):
        return Counts(self.n_jobs, Poisson())

    @property
    def _dispersed(self):
        """Whether the dispersion is a parameter of the fit that is to come."""
        return self.likelihood == "negative_binomial"

    def _first(self, target, rows):
        """The target of the first data, and the mode where the search starts."""
        size = root_mean_squares(rows, self.fit_intercept)
        count = self.temperature * rows.summary.weight * rows.summary.level
        centre, width = np.zeros(len(size)), 1.0 / (size * np.sqrt(count + 1.0))
        if self.fit_intercept:
            centre[-1] = log_rate(rows)
        if self._dispersed:
            centre = np.append(centre, np.log(self.dispersion_prior_median))
            width = np.append(width, 1.0)
        mode = highest_point(target, centre, width)
        target.first_guess = mode, 0.1 * width
        return target, mode[None]

    def _joint_of(self, rows, prior=None, temperature=None):
        """What makes the log posterior; a prior that is given stands in for all."""
        settings = self._settings(rows, prior, temperature, level=log_rate(rows))
        if not self._dispersed:
            return partial(GLMTarget, likelihood=Poisson(), **settings)
        sd = self.dispersion_prior_sd if prior is None else np.inf
        return partial(
            NoisyGLMTarget,
            noise=NegativeBinomial(),
            noise_scale_prior=DispersionPrior(self.dispersion_prior_median, sd),
            **settings,
        )

    def _further_names(self):
        return ["log_dispersion"] if self._dispersed else []
