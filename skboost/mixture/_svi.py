"""Bayesian Gaussian mixtures by natural gradients: coordinate ascent, SVI and SVI+."""

from functools import partial

from skboost._parallel import single_threaded
from skboost._parameters import keeps_parameters
from skboost._random import generator, root_seed
from skboost._sklearn import fit_context
from skboost.conjugate import GaussianMixtureModel, SharedMixtureModel
from skboost.fitting import (
    START,
    SVI_CONSTRAINTS,
    SVIEstimator,
    callback_data,
    check_same_model,
)
from skboost.mixture._face import BayesianMixture
from skboost.mixture._fitted import natural_attributes
from skboost.mixture._messages import ProgressLines
from skboost.mixture._priors import (
    MIXTURE_CONSTRAINTS,
    WEIGHTS,
    mixture_settings,
    moments,
    shares,
)
from skboost.mixture._rows import (
    MixtureRows,
    canonical,
    warn_of_few_rows,
    warn_of_first_rows,
    warned_of_far_rows,
    weighted_rows,
)
from skboost.mixture._shared import known_start, shared_prior
from skboost.mixture._starts import any_given, start_of
from skboost.svi import SVILimits, SVIState


class SVIGaussianMixture(BayesianMixture, SVIEstimator):
    """Bayesian Gaussian mixture, fitted in batches of any size, with tuneable noise.

    Variational inference in the conjugate model: with all rows as one batch it is
    coordinate ascent, as in `sklearn.mixture.BayesianGaussianMixture`; with
    `batch_size` it is stochastic variational inference (SVI); with a smaller
    `effective_batch_size` the steps carry the noise of batches of that size (SVI+),
    which can lead out of poor optima, and into them: on most data that were tried
    coordinate ascent from several starts ended at a higher bound.

    Parameters
    ----------
    n_components : int, default=1
        Number of clusters; with a sparse prior, the most there can be.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Shape of the clusters' covariances. Missing values (NaN) in `X` need "full" or
        "diag".
    mean_prior_type : {"normal-wishart", "independent"}, default="normal-wishart"
        Whether a mean's prior precision is a multiple of its cluster's precision, as in
        scikit-learn, or its own (Paisley et al., section IV-C).
    weight_concentration_prior_type : {"dirichlet_distribution", \
            "dirichlet_process", "finite_dirichlet_process"}, \
            default="dirichlet_distribution"
        Prior of the weights: a symmetric Dirichlet distribution with concentration
        `weight_concentration_prior` for each cluster; the Dirichlet process of that
        concentration, by stick-breaking whose posterior is truncated (Blei and Jordan
        2006), scikit-learn's default; or a Dirichlet distribution with that
        concentration divided by `n_components`, which approximates the process.
    weight_concentration_prior : float, default=None
        None is 3 for a Dirichlet distribution under ``covariance_prior="shared"``, and
        otherwise ``1 / n_components``, and 1 for the finite process.
    mean_prior : array-like of shape (n_features,), default=None
        Prior mean of the means; None is the mean of the data.
    mean_precision_prior : float, default=None
        Under "normal-wishart": how many rows the prior mean is worth; None is learned
        under ``covariance_prior="shared"``, and 1 otherwise. Of means that are
        independent of precisions, or whose covariances are known: one over the prior
        variance of each coordinate; None is a tenth of that of the average feature.
    degrees_of_freedom_prior : float, default=None
        Of the Wishart prior of the precisions; None is ``n_features + 9`` (10 for
        diagonal and spherical ones) under ``covariance_prior="shared"``, and
        `n_features` otherwise.
    covariance_prior : "shared", None, float or array-like, default="shared"
        `degrees_of_freedom_prior` times the prior covariance, in the shape of one
        cluster's. "shared": learned from the rows, with the spread of the centres
        (`mean_precision_prior`): ``q(B)`` and ``q(tau)`` of a scale ``B ~ Wishart`` and
        ``tau ~ Gamma(1/2, 5)`` are updated with the clusters, in batches and streams,
        too. Their expected values are `covariance_prior_` and `mean_precision_prior_`,
        and `elbo_` has their divergences. Other priors that are given are used as they
        are. None: the covariance of the data, and the other defaults of scikit-learn.
        For diagonal and spherical precisions the prior is the exact Gamma distribution;
        scikit-learn's bound keeps digamma terms of the matrix case there, and for tied
        covariances counts the prior `n_components` times.
    known_covariances : float or array-like, default=None
        Covariances that are known, for all clusters or each: then only means and
        weights are inferred.
    reg_covar : float, default=0.0
        Variance added to every row's scatter about its cluster's mean, and so to the
        diagonal of covariances. The prior keeps these away from zero already. Unlike
        in scikit-learn, responsibilities and bound allow for it, so that the bound
        never falls: half of it times the trace of the precision leaves the expected
        log likelihood.
    batch_size : int, default=None
        Rows in a step's batch; None is all rows, and so is more than there are.
    effective_batch_size : float or callable, default=None
        Batch size whose noise the steps carry; a callable takes the step, counted from
        1, such as ``lambda t: 50 * t`` (Paisley et al., section IV-A). None, or more
        than the batch has, adds no noise.
    learning_rate : {"auto", "constant", "robbins-monro"}, float or LearningRate, \
            default="auto"
        Weight of a step. "auto" is 1 with all rows as the batch, and "robbins-monro",
        ``(t + 1) ** -0.7`` at the t-th step, otherwise.
    temperature : float, default=1.0
        Power of the likelihood in (0, 1]; 1 is Bayes (Alquier 2019, Algorithm 1).
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, \
            default="kmeans"
        How the first responsibilities are made. Under a shared prior the first run
        with "kmeans" begins where the best of a few runs of coordinate ascent, on at
        most 4,096 of the rows, ended.
    weights_init, means_init, precisions_init : array-like, default=None
        Where runs start, in the shapes of `weights_`, `means_` and `precisions_`: the
        mixture with these values assigns the rows; what is None comes from
        `init_params`.
    n_init : int, default=1
        Runs from different starts; the best by ELBO is kept.
    max_iter : int, default=100
        Epochs in total: passes over the data.
    tol : float, default=1e-3
        Nats per epoch below which coordinate ascent has converged. Stochastic runs use
        all epochs.
    max_time : float, default=None
        Seconds of all runs together, after which a run ends at the end of the batch
        under way, and later ones after a single batch; then the bound on all rows is
        evaluated. The epoch counts as a whole one.
    warm_start : bool, default=False
        Go on with the best run, under the first fit's prior: up to `max_iter` epochs in
        total, or, of a run that has as many, for as many more unless it has converged.
        On the same data the result is that of one long run, unless `max_time` ended an
        epoch early. Other rows take the place of the former ones.
    random_state : int, RandomState instance or None, default=None
        Seed. The same seed gives the same fit for every `n_jobs`.
    n_jobs : int, default=None
        Threads over the runs of `n_init`.
    verbose : int, default=0
        1 writes where runs are to the standard output, 2 adds seconds and nats.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Posterior means of the weights; under the Dirichlet process over their sum,
        since clusters beyond the last hold some weight, too.
    means_ : ndarray of shape (n_components, n_features)
        Posterior means of the means.
    covariances_ : ndarray
        Inverses of the posterior mean precisions, of scikit-learn's shape.
    precisions_, precisions_cholesky_ : ndarray
        Posterior mean precisions, and upper triangular U with ``U U'`` equal to them.
    weight_concentration_ : ndarray of shape (n_components,), or tuple of two
        Of the posterior Dirichlet distribution, or, under the Dirichlet process, of
        the Beta distributions of the sticks.
    mean_precision_ : ndarray of shape (n_components,) or None
        Rows that each mean is worth; None where means are independent of precisions.
    degrees_of_freedom_ : ndarray of shape (n_components,), float or None
        Of the posterior Wishart distributions; one if tied, None if known. This and
        `mean_precision_` count each feature for itself, (n_components, n_features),
        under "diag" with missing values.
    weight_concentration_prior_, mean_prior_, mean_precision_prior_, \
            degrees_of_freedom_prior_, covariance_prior_
        The priors that were used; None where the model has none of the kind.
    elbo_ : float
        Evidence lower bound on all rows, nats, every constant included. Under the
        Dirichlet process it is one on the evidence of infinitely many clusters. After
        `partial_fit` it is estimated from the last batch alone: that batch before its
        step, scaled up to all rows so far.
    lower_bound_, lower_bounds_ : float, ndarray of shape (`n_iter_`,)
        `elbo_` and `elbo_path_` by scikit-learn's names, whose values differ by
        constants that it leaves out.
    elbo_path_ : ndarray of shape (`n_iter_`,)
        Of the kept run, after each epoch. This and the other attributes of a run
        (``elbo_by_init_``, ``converged_``, ``message_``, ``history_``) are of `fit`;
        `partial_fit` does not set them.
    elbo_by_init_ : ndarray of shape (n_init,)
        Final bounds of all runs: their spread is what the start decides. NaN for runs
        that an interruption left without an epoch.
    n_iter_ : int
        Epochs of the kept run. After `partial_fit` all steps so far, and the paths,
        `converged_`, `message_` and `history_` of an earlier run are gone.
    converged_, message_ : bool, str
        Whether the kept run ended by `tol`, and why it ended.
    history_ : list of dict
        One record per epoch of the kept run: steps, bound, gain, rate, effective batch
        size, groups with noise and with shrunk noise, seconds.
    noise_shrunk_ : float
        Share of the groups of natural parameters, over all steps, whose noise had to be
        shrunk to stay in the parameter space; 0 without noise.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        As in scikit-learn.

    See Also
    --------
    sklearn.mixture.BayesianGaussianMixture : Coordinate ascent without weights of rows,
        missing values, batches or tempering.
    BoostedGaussianMixture : A mixture of such distributions as posterior.

    References
    ----------
    Paisley, Fazelnia, Barr: Stochastic Variational Inference with Tuneable Stochastic
    Annealing, 2025 (Algorithm 1, sections IV-C, IV-E). Alquier: Generalization bounds
    for variational inference, 2019 (Algorithm 1). Hoffman, Blei, Wang, Paisley:
    Stochastic Variational Inference, 2013. Blei and Jordan: Variational Inference for
    Dirichlet Process Mixtures, 2006 (section 3.2).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skboost.mixture import SVIGaussianMixture
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = SVIGaussianMixture(n_components=3, n_init=5, random_state=0).fit(X)
    >>> model.elbo_by_init_.shape
    (5,)
    """

    _parameter_constraints = {**MIXTURE_CONSTRAINTS, **SVI_CONSTRAINTS}

    @keeps_parameters
    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="full",
        mean_prior_type="normal-wishart",
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=None,
        mean_prior=None,
        mean_precision_prior=None,
        degrees_of_freedom_prior=None,
        covariance_prior="shared",
        known_covariances=None,
        reg_covar=0.0,
        batch_size=None,
        effective_batch_size=None,
        learning_rate="auto",
        temperature=1.0,
        init_params="kmeans",
        weights_init=None,
        means_init=None,
        precisions_init=None,
        n_init=1,
        max_iter=100,
        tol=1e-3,
        max_time=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        pass

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or RowBlocks
            NaN is missing: under "diag" left out exactly, under "full" integrated out
            given the expected parameters, so that a row with gaps counts as a whole
            row for the posterior's width. `RowBlocks` and large memory maps are not
            copied as a whole; runs start from at most 65,536 of their rows.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight of two is a row that stands twice.

        Raises
        ------
        ValueError
            For data or combinations of parameters that mean nothing. What was fitted
            before stays usable.
        KeyboardInterrupt
            Once more, after the epochs done were kept with every fitted attribute.
        """
        with self._keeping_old_fit(), single_threaded():
            previous = self._previous
            seed = root_seed(self.random_state) if previous is None else self._seed
            rows = self._source(MixtureRows(seed=seed), X, None, sample_weight)
            model, known = self._model(rows)
            self._seed = seed
            return self._run_all(
                self._engines_of(model, rows, known),
                SVILimits(self.max_iter, self.tol, self.max_time),
                callback_data(X, y, sample_weight),
                self._attributes(model),
                ProgressLines,
            )

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Take one more batch of a stream in; the data so far is not needed again.

        The first batch sets the priors that are left open, and the first clusters: let
        it have more rows than clusters. Batches beyond `batch_size` are cut. The rate
        of a step is at least the batch's share of all rows so far.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; X is an array.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As `fit` does, and for a model that has changed since the first batch.

        Warns
        -----
        UserWarning
            If the stream begins with fewer distinct rows than there are clusters; once
            if most of a later batch lies far outside every cluster.
        """
        with self._keeping_old_fit(), single_threaded():
            begins = self._stream_so_far is None
            X, weight = weighted_rows(self, X, sample_weight, reset=begins)
            if not begins:
                self._check_goes_on("partial_fit", "Begin with a clone.")
            size = len(X) if self.batch_size is None else self.batch_size
            for begin in range(0, len(X), size):
                part = slice(begin, begin + size)
                if weight[part].any():
                    self._take_in(X[part], weight[part])
            return self

    # --- the model, and what runs on it

    def _source(self, reader, *arrays):
        """A `RowSource` of the arguments of ``fit``."""
        return reader.source(self, *arrays)

    def _model(self, rows):
        """The model of a new fit, or that of the fit that goes on, and known starts."""
        if self._previous is not None:
            self._check_goes_on("warm_start=True", "Set warm_start=False.")
            return self._predictive.model, []
        warn_of_few_rows(self.n_components, len(rows))
        moments, start = rows.summary.moments(rows), rows.summary.start(rows)
        return self._learned_model(moments, *start)

    def _learned_model(self, moments, X, weight):
        """The model of rows, and a start from their best explanation if it is usual."""
        settings = mixture_settings(self, moments)
        if not shares(self):
            return GaussianMixtureModel(**settings), []
        shared = shared_prior(self, settings, settings["dof"])
        model = SharedMixtureModel(shared, float(self.reg_covar))
        usual = self.init_params == "kmeans" and not any_given(self)
        return model, [known_start(model, shared, X, weight)] if usual else []

    def _attributes(self, model):
        return partial(natural_attributes, model, self.weight_concentration_prior_type)

    def _engines_of(self, model, rows, known):
        """One for each run, the first from a known start."""
        values, weight = rows.summary.start(rows)
        at_hand = model.rows(values)
        make = rows.summary.engine(model, rows, at_hand, self)
        start = partial(start_of, self, model, at_hand, weight, known)
        return self._engines(make, start, len(rows), "robbins-monro")

    def _check_goes_on(self, what, advice):
        names = ("n_components", "covariance_type", "temperature", "reg_covar")
        now = {name: vars(self)[name] for name in names}
        kind = self.weight_concentration_prior_type
        now |= {"n_features": self.n_features_in_, "weights": WEIGHTS[kind]}
        model = self._predictive.model
        own = {"n_components": model.n_components, "n_features": model.dim}
        before = {name: (model.settings | own)[name] for name in now}
        check_same_model(what, before, now, advice)

    # --- streams

    def _take_in(self, X, weight):
        stream = self._stream_so_far
        if stream is None:
            model, stream = self._begun(X, weight)
        else:
            self._far = vars(self).get("_far") or warned_of_far_rows(self, X)
            model = self._predictive.model
            rows = model.rows(X)
            stream = self._absorbed(stream, model, rows, weight, "robbins-monro")
        self._keep_stream(stream, self._attributes(model)(stream.natural))

    def _begun(self, X, weight):
        """Model and stream after the first rows."""
        X, weight = canonical(X, weight)
        warn_of_first_rows(self.n_components, len(X))
        self._seed, self._far = root_seed(self.random_state), False
        model, known = self._learned_model(moments(X, weight), X, weight)
        rows, rng = model.rows(X), generator(self._seed, START, 0)
        natural = start_of(self, model, rows, weight, known, rng)
        evidence = model.expect(natural, rows, weight).evidence
        elbo = model.elbo(natural, evidence)
        return model, SVIState(natural, float(weight.sum()), 1, elbo=elbo)
