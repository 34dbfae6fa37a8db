"""Bayesian linear regression with a boosted mixture as posterior."""

from functools import partial

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._base import callback_data
from skboost._sklearn import StrOptions, fit_context
from skboost.linear_model._coefficients import POSITIVE
from skboost.linear_model._linear_model import (
    SCALED_CONSTRAINTS,
    BoostedLinearModel,
    highest_point,
)
from skboost.linear_model._noise_regressor import BayesianNoiseRegressor
from skboost.linear_model._outputs import SeveralOutputs
from skboost.linear_model._sources import Numbers
from skboost.linear_model._summary import level_and_spread, root_mean_squares
from skboost.targets import (
    NOISES,
    GLMTarget,
    KnownScale,
    NoiseScalePrior,
    NoisyGLMTarget,
)


class BoostedBayesianLinearRegression(
    SeveralOutputs, BayesianNoiseRegressor, BoostedLinearModel
):
    """Linear regression with a posterior and a predictive distribution.

    ``y = X coef + intercept + noise_scale * e`` with normal or Student-t noise e. The
    posterior over coefficients, intercept and the logarithm of the noise scale is a
    mixture, grown one component at a time by boosting variational inference. With
    Gaussian components every expectation in fitting is exact, and predictive densities
    and quantiles are integrals by quadrature: no Monte Carlo noise.

    Priors follow the units of the data by default, so that neither features nor
    response need be scaled first, and the common scale of the coefficients is learned.

    Parameters
    ----------
    prior : {"normal", "laplace", "student_t", "cauchy"} or Prior, default="normal"
        Independent prior of the coefficients, around zero.
    prior_scale : "auto", "learn", float, array-like of shape (n_features,) or \
            ScalePrior, default="learn"
        Scale of the prior in the unit of the coefficients, one or per feature;
        multiplies the own scale of a `Prior` object. ``"auto"`` is one standard
        deviation of `y` per standard deviation of the feature. ``"learn"`` averages
        over a common factor of that, whose prior is ``HalfTPrior(df=3, scale=1.5)``
        or the `ScalePrior` given; see :doc:`/user_guide/prior_scale`. `partial_fit`
        averages over it in the first call, whose posterior is the prior of the next.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    intercept_scale : "auto" or float, default="auto"
        Scale of the intercept's prior, of the same kind and around zero. ``"auto"`` is
        ten standard deviations of `y`, widened by what the mean of `y` and features
        that are not centred add.
    noise : {"normal", "student_t"}, default="normal"
        Distribution of the noise. Under ``"student_t"`` outliers are expected and
        lose their pull on the coefficients.
    noise_df : float, default=4.0
        Degrees of freedom of Student-t noise. They are fixed: compare values by
        ``elbo_`` or by held-out `log_predictive_density`.
    noise_scale : "infer" or float, default="infer"
        Standard deviation of normal noise, scale of Student-t noise; ``"infer"`` makes
        its logarithm a parameter of the posterior.
    noise_prior_weight : float, default=1.0
        Prior of an inferred noise scale, in rows: its square is scaled inverse
        chi-squared with this many degrees of freedom.
    noise_prior_scale : "auto" or float, default="auto"
        The size that the residuals of these rows have. It bounds the noise scale from
        below where a fit is perfect. ``"auto"`` is a hundredth of the standard
        deviation of `y`.
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
        is cut short where it must be. Where `y` has several columns each of them has
        as much time.
    warm_start : bool, default=False
        Go on with the last run up to `max_iter` iterations in total, on the same
        data; the result is that of one long run. A pickle can go on only where this
        is True.
    random_state : int, RandomState instance or None, default=None
        Seed of every draw. The same seed gives the same fit for every `n_jobs`.
    n_jobs : int, default=None
        Threads over blocks of rows and over starts; over outputs where `y` has
        several columns.
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
        Over (coefficients, intercept, log noise scale); a list, one for each output,
        where `y` has two dimensions.
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        Posterior means before skewing, by which predictions are made.
    intercept_ : float or ndarray of shape (n_outputs,)
        Posterior mean.
    noise_scale_ : float or ndarray of shape (n_outputs,)
        Posterior median of the noise scale, or the number given.
    estimators_ : list of BoostedBayesianLinearRegression
        One for each output, where `y` has two dimensions only. Estimates and their
        errors are arrays over outputs then; paths and gaps are theirs alone.
    prior_scale_ : float or ndarray of shape (n_outputs,)
        Posterior mean of the factor that ``prior_scale="learn"`` averages over; see
        `prior_scale_interval`. Not there for a scale that is given.
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
        Of several outputs ndarray of shape (n_outputs, 2).
    calibration_ : Calibration or None
        What became of the correction; None without `calibrate`, unless `skew` began
        with one. Of several outputs a list.
    skewing_ : SkewReport or None
        What skewing weights gained; None without `skew`. Of several outputs a list.
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
    BoostedBayesianPoissonRegression : Counts.
    sklearn.linear_model.BayesianRidge : One Gaussian, its prior's scale from the data.

    References
    ----------
    Locatello, Dresdner, Khanna, Valera, Rätsch: Boosting Black Box Variational
    Inference, 2018 (Algorithm 1). Gelman et al.: Bayesian Data Analysis, 3rd edition,
    2013, chapters 14 (linear regression) and 17 (Student-t noise).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> mean, std = model.predict(X[:2], return_std=True)
    >>> model.predict_interval(X[:2], level=0.9).shape
    (2, 2)
    """

    _parameter_constraints = {
        **SCALED_CONSTRAINTS,
        "noise": [StrOptions(set(NOISES))],
        "noise_df": [POSITIVE],
        "noise_scale": [StrOptions({"infer"}), POSITIVE],
        "noise_prior_weight": [POSITIVE],
        "noise_prior_scale": [StrOptions({"auto"}), POSITIVE],
    }

    def __init__(
        self,
        *,
        prior="normal",
        prior_scale="learn",
        fit_intercept=True,
        intercept_scale="auto",
        noise="normal",
        noise_df=4.0,
        noise_scale="infer",
        noise_prior_weight=1.0,
        noise_prior_scale="auto",
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
        self.prior = prior
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.intercept_scale = intercept_scale
        self.noise = noise
        self.noise_df = noise_df
        self.noise_scale = noise_scale
        self.noise_prior_weight = noise_prior_weight
        self.noise_prior_scale = noise_prior_scale
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
    def fit(self, X, y=None, sample_weight=None):
        """Fit the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowBlocks
            `skboost.RowBlocks` and large memory maps are never copied.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            With two dimensions every column gets a posterior of its own, from rows in
            memory. None for `RowBlocks`, which have them.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight of two is a row that stands twice.

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
            Where some columns of `y` had not begun, what was fitted before is kept
            instead, and ``warm_start=True`` goes on with those that had.

        Warns
        -----
        ConvergenceWarning
            Where more than half a nat of KL remains by estimate.
        """
        with self._keeping_old_fit():
            rows = self._source(self._reader(), X, y, sample_weight)
            if np.ndim(rows.y) == 2:
                return self._fit_outputs("fit", X, rows.y, sample_weight)
            self._forget_outputs()
            return self._learn(rows, callback_data(X, y, sample_weight))

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None):
        """Update the posterior with more data: the posterior so far is the prior.

        Scales that follow the data (``"auto"``, and the unit of ``"learn"``) are those
        of the first call.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `y` has another number of columns than before.
        """
        with self._keeping_old_fit():
            first = "posterior_" not in vars(self)
            rows = self._reader().held(self, X, y, sample_weight, reset=first)
            if not first:
                self._check_same_outputs(rows.y)
            if rows.y.ndim == 2:
                return self._fit_outputs("partial_fit", X, rows.y, sample_weight)
            return self._learn(rows, callback_data(X, y, sample_weight), update=True)

    def make_log_joint(self, X, y, sample_weight=None):
        """The fitted model's log joint density on some rows, as a function.

        What `fit` approximated: priors with the scales that "auto" found, noise,
        intercept and temperature are those of the fit, whatever the parameters say by
        now. Rows are not kept, so they are passed again; after `partial_fit` all so
        far. See `BoostedBayesianLogisticRegression.make_log_joint`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        LogJoint, or list of LogJoint
            Takes (n, dim) draws of the coordinates of `posterior_` and gives (n,)
            nats; ``.gradient`` takes the same and gives (n, dim). One for each output
            where `y` has two dimensions.
        """
        check_is_fitted(self)
        rows = self._reader().held(self, X, y, sample_weight, reset=False)
        self._check_same_outputs(rows.y)
        if rows.y.ndim == 2:
            pairs = zip(self.estimators_, rows.y.T, strict=True)
            return [one.make_log_joint(X, y, sample_weight) for one, y in pairs]
        return self._log_joint(rows)

    # --- the target

    def _reader(self):
        return Numbers(self.n_jobs, NOISES["normal"](self.noise_df))

    def _first(self, target, rows):
        """The target of the first data, and the mode where the search starts."""
        level, spread = level_and_spread(rows)
        width = spread / root_mean_squares(rows, self.fit_intercept)
        centre = np.zeros(len(width))
        if self.fit_intercept:
            centre[-1] = level
        infer = self.noise_scale == "infer"
        if infer:
            centre, width = np.append(centre, np.log(spread)), np.append(width, 1.0)
        width /= np.sqrt(rows.summary.weight * self.temperature)
        mode = highest_point(target, centre, width)
        scale = np.exp(mode[-1]) if infer else self.noise_scale
        width[: len(width) - infer] *= scale / spread
        target.first_guess = mode, 0.1 * width
        return target, mode[None]

    def _joint_of(self, rows, prior=None, temperature=None):
        """What makes the log posterior; a prior that is given stands in for all."""
        level, spread = level_and_spread(rows)
        settings = self._settings(rows, prior, temperature, unit=spread, level=level)
        noise = NOISES[self.noise](self.noise_df)
        if self.noise_scale != "infer":
            known = KnownScale(noise, self.noise_scale)
            return partial(GLMTarget, likelihood=known, **settings)
        scale = self.noise_prior_scale
        # Noise below a hundredth of the response's standard deviation is rare.
        scale = 1e-2 * spread if scale == "auto" else scale
        worth = self.noise_prior_weight if prior is None else 0.0
        of_noise = {"noise": noise, "noise_scale_prior": NoiseScalePrior(worth, scale)}
        return partial(NoisyGLMTarget, **of_noise, **settings)

    def _further_names(self):
        return ["log_noise_scale"] if self.noise_scale == "infer" else []
