"""Gaussian mixture whose posterior over parameters is grown by boosting."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost._base import (
    BOOSTING_CONSTRAINTS,
    BoostedEstimator,
    callback_data,
    make_settings,
)
from skboost._math import log_sum_exp, responsibilities
from skboost._random import generator
from skboost._rows import canonical_rows
from skboost._sklearn import Interval, StrOptions, check_sample_weight, fit_context
from skboost.boosting import Boosting, Simplex
from skboost.conjugate import COVARIANCES, INITS, ConjugateTarget, GaussianMixtureModel
from skboost.mixture._fitted import ClusterMethods, plain_errors
from skboost.mixture._posterior import ConjugateMixturePosterior
from skboost.mixture._predictive import draw_rows, log_joint_clusters
from skboost.mixture._priors import CONCENTRATIONS, check_same_model, mixture_settings
from skboost.proposals import ConjugateProposer

_SHARED = (
    "step_size",
    "corrective",
    "max_iter",
    "max_components",
    "stopping",
    "tol",
    "max_time",
    "n_draws",
    "n_restarts",
    "temperature",
    "warm_start",
    "random_state",
    "n_jobs",
)
# A cluster counts as occupied from that expected weight on.
_EFFECTIVE = 0.01


class BoostedGaussianMixture(ClusterMethods, DensityMixin, BoostedEstimator):
    """Gaussian mixture with a posterior over its parameters in place of one fit.

    The posterior over weights, means and covariances of the clusters is itself a
    mixture, grown one component at a time by boosting. Each boosting component is a
    conjugate distribution, q(weights) times the product over clusters of q(mean,
    precision); the log joint density that it is fitted to has the assignments of rows
    to clusters summed out. Several components describe several explanations of the
    data, and the spread that coordinate ascent, as in scikit-learn's
    `BayesianGaussianMixture`, leaves out.

    Parameters
    ----------
    n_components : int, default=1
        Number of clusters. Under the default prior superfluous ones stay empty.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Shape of the clusters' covariances.
    weight_concentration_prior_type : {"dirichlet_distribution", \
            "finite_dirichlet_process"}, default="dirichlet_distribution"
        Whether `weight_concentration_prior` is the Dirichlet parameter of each
        cluster, or the concentration that all clusters share.
    weight_concentration_prior : float, default=None
        None: ``1 / n_components`` for each cluster.
    mean_prior_type : {"normal-wishart", "independent"}, default="normal-wishart"
        Whether a cluster's mean is tied to its precision, as in scikit-learn, or
        independent of it (Paisley et al.). Under the latter the predictive density
        replaces each cluster's distribution by a Student-t of equal mean and
        covariance.
    mean_precision_prior : float, default=None
        How many rows the prior mean is worth, 1 if None; "normal-wishart" only.
    mean_variance_prior : float, default=None
        Variance of the clusters' means under "independent" and known covariances;
        None: ten times the average variance of the features.
    mean_prior : array-like of shape (n_features,), default=None
        None: the mean of the data.
    degrees_of_freedom_prior : float, default=None
        None: ``n_features``.
    covariance_prior : float or array-like, default=None
        None: the covariance of the data, in the shape of `covariance_type`.
    known_covariances : float or array-like, default=None
        Covariances of the clusters where they are known, one for all or one for each.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, \
            default="kmeans"
        How the first start is made; the other starts try all of them.
    step_size : {"line-search", "adaptive", "predefined"}, float or StepSize, \
            default="line-search"
        Weight of a new component; under ``"fully-corrective"`` the warm start of all
        weights.
    corrective : {"fully-corrective", "pairwise", "away", "none"}, \
            default="fully-corrective"
        How the weights of old components move.
    max_iter : int, default=10
        Boosting iterations in total, the first component included.
    max_components : int, default=None
        Bound on the number of boosting components; the lightest beyond it are dropped.
    stopping : {"gain", "gap"}, default="gain"
        Stop when this quantity plus two standard errors is at most `tol`.
    tol : float, default=1e-2
        In nats.
    max_time : float, default=None
        Seconds. They bind within an iteration: the one under way is given up, and what
        is reported was computed before. The first component is always finished; its
        search ends early.
    n_draws : int, default=256
        Monte Carlo draws kept per component.
    n_restarts : int, default=4
        Proposals that are followed up for each new component. Twice as many runs of
        coordinate ascent look for them, five times as many for the first component.
    temperature : float, default=1.0
        Power of the likelihood in (0, 1] (Alquier and Ridgway 2020); 1 is Bayes.
    warm_start : bool, default=False
        Go on with the last run up to `max_iter` iterations in total, on the same
        data with the same priors; the result is that of one long run.
    random_state : int, RandomState instance or None, default=None
        Seed of every draw. The same seed gives the same fit for every `n_jobs`.
    n_jobs : int, default=None
        Threads over starts and over draws.

    Attributes
    ----------
    posterior_ : ConjugateMixturePosterior
        Over weights, means and precisions.
    weights_ : ndarray of shape (n_components,)
        Posterior means of the clusters' weights, under aligned labels.
    means_ : ndarray of shape (n_components, n_features)
        Posterior means of the clusters' means.
    covariances_ : ndarray
        Inverses of the expected precisions, in the shape of `covariance_type`.
    precisions_ : ndarray
        Expected precisions.
    n_components_effective_ : int
        Clusters with an expected weight of at least 1 %.
    elbo_, elbo_se_ : float
        Evidence lower bound from fresh draws and its standard error, nats, the
        assignments summed out. The posterior has ``n_components!`` copies of
        itself, one for each order of the clusters, and this one describes a
        single labelling: where clusters do not overlap the log evidence of the model
        is ``ln(n_components!)`` above that of what is described.
    elbo_path_, gain_path_, duality_gap_path_ : ndarray of shape (`n_iter_`,)
        Per iteration, from fresh draws, nats.
    duality_gap_, duality_gap_se_ : float
        Largest over the last proposed component and all that the mixture has, nats; no
        bound.
    remaining_kl_, remaining_kl_se_, pareto_k_ : float
        Importance-sampling estimate of what the ELBO still misses, nats, its standard
        error, and k-hat, the shape of the weights' tail: above 0.7 the estimate is not
        reliable. Blind to what the mixture never reaches, such as other labellings.
    n_iter_ : int
        Iterations done.
    converged_ : bool
        Whether the stopping rule ended the run.
    message_ : str
        Why the run ended.
    history_ : list of dict
        One record per iteration.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features, where `X` has them.

    See Also
    --------
    SVIGaussianMixture : The same model with one component as posterior, faster.
    skboost.linear_model.BoostedBayesianLogisticRegression : For classification.

    References
    ----------
    Locatello, Dresdner, Khanna, Valera, Rätsch: Boosting Black Box Variational
    Inference, 2018 (Algorithm 1). Paisley, Fazelnia, Barr: Stochastic Variational
    Inference with Tuneable Stochastic Annealing (Algorithm 1). Louis: Finding the
    observed information matrix when using the EM algorithm, 1982.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skboost.mixture import BoostedGaussianMixture
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = BoostedGaussianMixture(3, max_iter=2, random_state=0).fit(X)
    >>> model.means_.shape
    (3, 4)
    """

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions(set(COVARIANCES))],
        "weight_concentration_prior_type": [StrOptions(set(CONCENTRATIONS))],
        "weight_concentration_prior": [Interval(Real, 0, None, closed="neither"), None],
        "mean_prior_type": [StrOptions({"normal-wishart", "independent"})],
        "mean_precision_prior": [Interval(Real, 0, None, closed="neither"), None],
        "mean_variance_prior": [Interval(Real, 0, None, closed="neither"), None],
        "mean_prior": ["array-like", None],
        "degrees_of_freedom_prior": [Interval(Real, 0, None, closed="neither"), None],
        "covariance_prior": [
            "array-like",
            Interval(Real, 0, None, closed="neither"),
            None,
        ],
        "known_covariances": [
            "array-like",
            Interval(Real, 0, None, closed="neither"),
            None,
        ],
        "init_params": [StrOptions(set(INITS))],
        **{name: BOOSTING_CONSTRAINTS[name] for name in _SHARED},
    }

    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="full",
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=None,
        mean_prior_type="normal-wishart",
        mean_precision_prior=None,
        mean_variance_prior=None,
        mean_prior=None,
        degrees_of_freedom_prior=None,
        covariance_prior=None,
        known_covariances=None,
        init_params="kmeans",
        step_size="line-search",
        corrective="fully-corrective",
        max_iter=10,
        max_components=None,
        stopping="gain",
        tol=1e-2,
        max_time=None,
        n_draws=256,
        n_restarts=4,
        temperature=1.0,
        warm_start=False,
        random_state=None,
        n_jobs=None,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.weight_concentration_prior_type = weight_concentration_prior_type
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_prior_type = mean_prior_type
        self.mean_precision_prior = mean_precision_prior
        self.mean_variance_prior = mean_variance_prior
        self.mean_prior = mean_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.known_covariances = known_covariances
        self.init_params = init_params
        self.step_size = step_size
        self.corrective = corrective
        self.max_iter = max_iter
        self.max_components = max_components
        self.stopping = stopping
        self.tol = tol
        self.max_time = max_time
        self.n_draws = n_draws
        self.n_restarts = n_restarts
        self.temperature = temperature
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    # --- fit

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Fit the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is missing, for full and diagonal covariances.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight of two is a row that stands twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For data or priors that mean nothing. What was fitted before stays usable.
        KeyboardInterrupt
            Once more, after the iterations done were kept with every fitted attribute.

        Warns
        -----
        ConvergenceWarning
            If it did not converge and more than half a nat of KL remains by estimate.
        """
        with self._keeping_old_fit(), plain_errors():
            given = callback_data(X, None, sample_weight)
            X = self._validated(X, reset=True)
            weight = check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            if not weight.sum() > 0:
                raise ValueError(
                    "sample_weight must have a positive sum; got only zeros. Leave "
                    "rows out instead."
                )
            X, _, weight = canonical_rows(X, np.zeros(len(X)), weight)
            settings = mixture_settings(self, X, weight)
            if self.warm_start and hasattr(self, "_run"):
                check_same_model(self._settings, settings)
            self._settings = settings
            model = GaussianMixtureModel.make(**self._settings)
            target = ConjugateTarget(model, model.rows(X), weight, self.n_jobs)
            return self._boost(target, given)

    def _validated(self, X, reset):
        # Other covariances refuse missing values, in the words of the model.
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )

    def _engine(self, target, params, starts, seed):
        settings = make_settings({**params, "refine": False}, seed, self.n_jobs)
        return Boosting(
            target,
            ConjugateProposer(target, params["init_params"]),
            Simplex.of(target, params["step_size"], params["corrective"]),
            settings,
        )

    def _posterior(self, mixture, names):
        return ConjugateMixturePosterior(mixture, self._settings)

    def _fitted(self, posterior):
        mean = posterior.mean()
        return {
            "weights_": mean["weights"],
            "means_": mean["means"],
            "covariances_": mean["covariances"],
            "precisions_": mean["precisions"],
            "n_components_effective_": int((mean["weights"] >= _EFFECTIVE).sum()),
        }

    def _warn_unfinished(self, done, attributes, stacklevel):
        # Some KL remains wherever clusters overlap: products cannot follow. It is
        # worth a warning only where the run was cut short.
        if not done.converged:
            super()._warn_unfinished(done, attributes, stacklevel + 1)

    # --- rows

    def _joint(self, X, posterior=None):
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        posterior = self.posterior_ if posterior is None else posterior
        return log_joint_clusters(posterior, posterior.model.rows(X))

    def score_samples(self, X):
        """Log posterior predictive density of every row, nats.

        Parameters are integrated out: a mixture of Student-t distributions for every
        boosting component, which for independent priors replace distributions without a
        closed form.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is missing; the density is that of what is observed.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return log_sum_exp(self._joint(X))

    def staged_score_samples(self, X):
        """`score_samples` after every iteration; the last is the final one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        for mixture in self._stages:
            yield log_sum_exp(self._joint(X, self._posterior(mixture, None)))

    def predict_proba(self, X):
        """Posterior predictive probabilities of the clusters.

        ``p(z = k | x, data)``: responsibilities averaged over the posterior, every
        parameter weighted by the density that it gives the row; from the same densities
        as `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return responsibilities(self._joint(X))[0]

    def _drawn(self, n_samples, seed):
        return draw_rows(self.posterior_, n_samples, generator(seed, 1), seed)
