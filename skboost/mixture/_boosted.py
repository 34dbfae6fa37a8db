"""Gaussian mixture with a posterior over its parameters, found by boosting."""

from functools import partial
from time import perf_counter

from sklearn.utils.validation import check_is_fitted

from skboost._parameters import keeps_parameters
from skboost._sklearn import StrOptions, fit_context
from skboost.fitting import (
    BOOSTING_CONSTRAINTS,
    INIT,
    BoostedEstimator,
    callback_data,
    warn_unfinished,
)
from skboost.mixture._engine import check_gibbs, engine_of, target_under
from skboost.mixture._explanations import (
    Explained,
    begin,
    co_clustering,
    explanation_attributes,
    gibbs_mixture,
)
from skboost.mixture._face import BayesianMixture
from skboost.mixture._fitted import posterior_attributes
from skboost.mixture._messages import ProgressLines
from skboost.mixture._partition import PointPartition
from skboost.mixture._posterior import ConjugateMixturePosterior
from skboost.mixture._predictive import MixedPredictive
from skboost.mixture._priors import MIXTURE_CONSTRAINTS, check_same_settings
from skboost.mixture._rows import canonical, read_rows, warn_of_few_rows, weighted_rows

# Hyperparameters of other boosted estimators that mixtures lack.
_LACKING = "family", "objective", "search", "orbit"


# Seconds that boosting has at least after a search for the number of clusters.
_LEAST_TIME = 1e-3


class BoostedGaussianMixture(PointPartition, BayesianMixture, BoostedEstimator):
    """Gaussian mixture with a posterior over its parameters in place of one fit.

    The posterior over weights, means and covariances of the clusters is itself a
    mixture: boosting starts from the distinct explanations of the rows that runs of
    coordinate ascent find, each a component, and under a `tol` in nats adds one
    component at a time as long as that gains more. A component is a conjugate
    distribution, q(weights) times the product over clusters of q(mean, precision); the
    log joint density that it is fitted to has the assignments of rows to clusters
    summed out. Several components describe several explanations of the data, and the
    spread that coordinate ascent, as in scikit-learn's `BayesianGaussianMixture`,
    leaves out.

    Parameters
    ----------
    n_components : int or "auto", default=1
        Number of clusters. "auto" tries 1, 2, 3 and so on until the bound has fallen
        twice, at most 50, and describes the posterior of the most probable number;
        `explanations_`, `n_components_proba_` and `co_clustering` know the others, too.
        Superfluous clusters stay empty under sparse priors such as
        ``weight_concentration_prior=0.01``, and are used under the default one.
    covariance_type, weight_concentration_prior_type, weight_concentration_prior, \
    mean_precision_prior, mean_prior, degrees_of_freedom_prior, covariance_prior, \
    known_covariances, temperature
        As in `SVIGaussianMixture`, with the same defaults.
    mean_prior_type : {"normal-wishart", "independent"}, default="normal-wishart"
        Whether a cluster's mean is tied to its precision, as in scikit-learn, or
        independent of it (Paisley et al.). Under the latter the predictive density
        replaces each cluster's distribution by a Student-t of equal mean and
        covariance.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, \
            default="kmeans"
        How the first start is made; the other starts try all of them.
    weights_init, means_init, precisions_init : array-like, default=None
        Where the first start assigns rows from, in the shapes of `weights_`, `means_`
        and `precisions_`; what is None comes from `init_params`.
    step_size, corrective, max_time, warm_start, random_state
        As in `BoostedBayesianLogisticRegression`, with the same defaults.
    max_iter : int or "auto", default="auto"
        Boosting iterations in total, the first component included. Each explanation
        takes one, the most probable first; "auto" cuts none, counts them as one, and
        allows ten.
    tol : float or "auto", default="auto"
        In nats. "auto" ends with the explanations: what further components gain is
        hardly seen in held-out densities. Give ``tol=0.01`` for the posterior itself.
    init : {"all", "single"}, default="all"
        "single" begins with the most probable explanation alone, as the papers do, and
        finds others by search, under ``tol="auto"`` until one gains no more than .01.
    posterior : {"variational", "gibbs"}, default="variational"
        "gibbs" runs 32 Gibbs chains from the explanations after boosting, 60 sweeps
        each, hyperparameters included, and `posterior_` is the average of what
        parameters are given the rest of 256 states of these: intervals of weights and
        means then cover what they say, where the others are too narrow. What is said of
        `elbo_` and what remains is about the mixture before.
    n_jobs : int, default=None
        Threads over starts and over draws.
    verbose : int, default=0
        1 writes iterations to the standard output, 2 adds seconds and nats.

    Attributes
    ----------
    posterior_ : ConjugateMixturePosterior
        Over weights, means and precisions.
    weights_ : ndarray of shape (n_components,)
        Posterior means of the clusters' weights, under aligned labels; over their sum
        under the Dirichlet process.
    means_ : ndarray of shape (n_components, n_features)
        Posterior means of the clusters' means.
    covariances_ : ndarray
        Inverses of the expected precisions, in the shape of `covariance_type`.
    precisions_, precisions_cholesky_ : ndarray
        Expected precisions, and upper triangular U with ``U U'`` equal to them.
    weight_concentration_prior_, mean_prior_, mean_precision_prior_, \
            degrees_of_freedom_prior_, covariance_prior_
        The priors that were used; None where the model has none of the kind.
    n_components_ : int
        Number of clusters of the posterior.
    n_components_proba_ : dict
        Posterior probability of every number of clusters that was tried and matters,
        by the evidence of its explanations, all numbers equally probable a priori.
    explanations_ : list of Explanation
        Distinct optima, the most probable first: `n_components`, expected `weights` and
        `means`, and the `share` of each: of one number of clusters the weights of
        components, else by importance sampling with the assignments summed out and all
        orders of the clusters counted (beyond four those with two exchanged).
    n_components_effective_ : int
        Clusters with an expected weight of at least 1 %.
    elbo_, elbo_se_ : float
        Evidence lower bound from fresh draws and its standard error, nats, the
        assignments summed out. The posterior has ``n_components!`` copies of
        itself, one for each order of the clusters, and this one describes a
        single labelling: where clusters do not overlap the log evidence of the model
        is ``ln(n_components!)`` above that of what is described. Under the Dirichlet
        process no two orders are alike, and what is bounded is the evidence of
        infinitely many clusters.
    lower_bound_, lower_bounds_ : float, ndarray of shape (`n_iter_`,)
        `elbo_` and `elbo_path_` by scikit-learn's names.
    elbo_path_, gain_path_, duality_gap_path_, duality_gap_, duality_gap_se_, \
            remaining_kl_, remaining_kl_se_, pareto_k_, n_iter_, converged_, \
            message_, history_
        As of `BoostedBayesianLogisticRegression`, in nats; blind to other labellings.
    remaining_kl_interval_ : tuple of float
        (lower, upper), nats: what remains at least, by the same estimate less two
        standard errors; `upper` is inf, since nothing bounds it from above here.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        As in scikit-learn.

    See Also
    --------
    SVIGaussianMixture : The same model with one component as posterior, faster.
    skboost.linear_model.BoostedBayesianLogisticRegression : For classification.

    References
    ----------
    Locatello et al. 2018 (Algorithm 1). Paisley, Fazelnia, Barr: Stochastic Variational
    Inference with Tuneable Stochastic Annealing (Algorithm 1). Louis: Finding the
    observed information matrix when using the EM algorithm, 1982.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skboost.mixture import BoostedGaussianMixture
    >>> model = BoostedGaussianMixture(3, max_iter=2, random_state=0)
    >>> model.fit(load_iris().data).means_.shape
    (3, 4)
    """

    _parameter_constraints = {
        **{k: v for k, v in MIXTURE_CONSTRAINTS.items() if k != "reg_covar"},
        **{k: v for k, v in BOOSTING_CONSTRAINTS.items() if k not in _LACKING},
        "posterior": [StrOptions({"variational", "gibbs"})],
        "init": INIT,
        "n_components": [*MIXTURE_CONSTRAINTS["n_components"], StrOptions({"auto"})],
    }

    @keeps_parameters
    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="full",
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=None,
        mean_prior_type="normal-wishart",
        mean_precision_prior=None,
        mean_prior=None,
        degrees_of_freedom_prior=None,
        covariance_prior="shared",
        known_covariances=None,
        init_params="kmeans",
        weights_init=None,
        means_init=None,
        precisions_init=None,
        step_size="line-search",
        corrective="fully-corrective",
        max_iter="auto",
        tol="auto",
        max_time=None,
        posterior="variational",
        init="all",
        temperature=1.0,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        pass

    # --- fit

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is missing, for full and diagonal covariances.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight of two is a row that stands twice.

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
        with self._keeping_old_fit():
            data = callback_data(X, None, sample_weight)
            X, weight = weighted_rows(self, X, sample_weight, reset=True, least=2)
            X, weight = canonical(X, weight)
            began, lines = perf_counter(), ProgressLines(self, interval=1)
            goes_on = self.warm_start and "_fit" in vars(self)
            number = self.n_components
            if goes_on and number == "auto":
                number = self.n_components_
            target, modes, explained = begin(self, number, X, weight)
            warn_of_few_rows(target.model.n_components, len(X))
            if self.posterior == "gibbs":
                check_gibbs(self, target.model, target.rows, weight)
            if goes_on:
                check_same_settings(self._model_.settings, target.model.settings)
            # Lines of its own are those of scikit-learn's mixtures.
            params = self.get_params(deep=False) | {"verbose": 0}
            if explained and self.max_time is not None:
                left = self.max_time - (perf_counter() - began)
                params["max_time"] = max(left, _LEAST_TIME)
            self._boost(
                target,
                data,
                partial(self._attributes, target, explained),
                engine_of=partial(engine_of, self, tuple(modes)),
                params=params,
                iterated=lines.boosted,
                warn=_warn_if_cut_short,
            )
            lines.end(self.converged_, self.elbo_path_[-1])
            return self

    def _attributes(self, target, explained, fit):
        kind, model = self.weight_concentration_prior_type, target.model
        explained = explained or [Explained.of_fit(target, fit)]
        mixture = fit.mixture
        if self.posterior == "gibbs":
            mixture = gibbs_mixture(target, explained, fit.seed)
        posterior = posterior_of(model, mixture)
        heaviest = posterior.components[int(posterior.weights.argmax())]
        prior = target.prior.updated(heaviest).model()
        return {
            "_model_": model,
            "_mixture": mixture,
            "n_components_": model.n_components,
            **posterior_attributes(posterior, prior, kind),
            **explanation_attributes(explained),
        }

    # --- what was fitted

    @property
    def _predictive(self):
        return MixedPredictive.of(self.posterior_)

    @property
    def posterior_(self):
        """Posterior of weights, means and precisions."""
        # There is nothing to correct in closed forms, and so no report to wait for.
        return posterior_of(self._model_, self._mixture)

    def staged_score_samples(self, X):
        """`score_samples(X)`, (n_samples,), after every iteration; the last is the
        final one."""
        check_is_fitted(self)
        X = read_rows(self, X)
        for mixture in self._fit.stages:
            posterior = posterior_of(self._model_, mixture)
            yield MixedPredictive.of(posterior).log_density(X)

    def co_clustering(self, X, pairs=None):
        """Probability that two rows belong to the same cluster.

        It needs no labels, and averages over all explanations of the fit, those with
        other numbers of clusters included.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        pairs : array-like of int of shape (n_pairs, 2), default=None
            Positions of rows of `X`; None is every row with every other.

        Returns
        -------
        ndarray of shape (n_samples, n_samples), or (n_pairs,)
        """
        check_is_fitted(self)
        return co_clustering(self._explanations, read_rows(self, X), pairs)

    def make_log_joint(self, X, y=None, sample_weight=None):
        """The fitted model's log joint density of parameters and rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows of `fit`, which the estimator does not keep, or others.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        callable
            Takes draws as `sample_posterior` returns and gives (n_draws,) nats, such
            as ``posterior_.resample`` needs.
        """
        check_is_fitted(self)
        X, weight = canonical(*weighted_rows(self, X, sample_weight))
        model = self._model_
        target = target_under(self, model, X, weight)
        return lambda draws: target.log_density(target.family.rows(draws))


def posterior_of(model, mixture):
    """A mixture of the model's distributions as users meet it."""
    return ConjugateMixturePosterior(mixture, model.settings)


def _warn_if_cut_short(fit, params):
    # Some KL remains wherever clusters overlap: products cannot follow. It is worth a
    # warning only where the run was cut short.
    if not fit.run.converged:
        warn_unfinished(fit, params)
