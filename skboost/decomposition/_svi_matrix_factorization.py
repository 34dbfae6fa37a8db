"""Bayesian matrix factorisation by natural gradients: coordinate ascent, SVI, SVI+."""

import warnings
from copy import copy
from functools import partial

import numpy as np

from skboost._parallel import single_threaded
from skboost._parameters import keeps_parameters
from skboost._random import root_seed
from skboost._sklearn import StrOptions, fit_context
from skboost.conjugate import MatrixFactorizationModel, ObservedEntries
from skboost.decomposition._face import BayesianFactorization
from skboost.decomposition._matrices import (
    FACTOR_CONSTRAINTS,
    global_bias,
    magnitude_of,
    model_settings,
    observed_entries,
)
from skboost.decomposition._predictive import MatrixPredictive, about
from skboost.fitting import (
    SVI_CONSTRAINTS,
    SVIEstimator,
    callback_data,
    check_same_model,
)
from skboost.svi import ConstantRate, NaturalGradient, SVILimits, run


class SVIMatrixFactorization(BayesianFactorization, SVIEstimator):
    """Bayesian factorisation of a matrix with missing entries.

    Every row has a factor u, every column a factor v, and an observed entry is their
    inner product with normal noise. The posterior is a Gaussian with a full covariance
    for each row and each column, so that predictions say how sure they are. With all
    entries as one batch it is fitted by coordinate ascent; with `batch_size` by
    stochastic variational inference (SVI); with a smaller `effective_batch_size` the
    steps carry the noise of batches of that size (SVI+).

    Parameters
    ----------
    n_components : int, default=5
        Rank: coordinates of a factor.
    noise_scale : float or "infer", default="infer"
        Standard deviation of the noise, in the units of `X`. "infer" gives the
        precision a Gamma prior that is worth a single entry, with the mean square of
        the observed values, and a Gamma distribution in the posterior.
    prior_scale : float or "infer", default="infer"
        Prior standard deviation of every factor and bias; 1.0 is that of the papers.
        "infer" finds one for each coordinate of rows and of columns, under a Gamma
        prior of the precision that is worth a single factor: a coordinate that
        explains nothing shrinks, so that too large a rank does little harm.
    biases : bool, default=False
        Whether an entry also has a row bias, a column bias, and the mean of all
        observed entries added. Ratings want them; without, `X` is factorised as it is.
    batch_size : int, default=None
        Observed entries in a step's batch; None is all of them. Each step also moves
        every row and column a little, so that batches should be larger than those.
    effective_batch_size : float or callable, default=None
        Batch size whose noise the steps carry; a callable takes the step, counted from
        1. Paisley et al. use ``lambda t: 50 * t`` with all entries as the batch and
        rates of exponent 0.85, ``RobbinsMonro(delay=0.0, forgetting=0.85)``. None, or
        more than the batch has, adds no noise. ``PerEmbedding(size)`` of
        `skboost.strategies` counts the entries of each row and column instead.
    learning_rate : {"auto", "constant", "robbins-monro"}, float or LearningRate, \
            default="auto"
        Weight of a step. "auto" is 1 with all entries as the batch, and
        "robbins-monro", ``(t + 1) ** -0.7`` at the t-th step, otherwise.
    max_iter : int, default=100
        Epochs in total: passes over the observed entries.
    tol : float, default=1e-5
        Gain in ELBO per epoch *and observed entry*, nats, below which coordinate ascent
        has converged. Stochastic runs use all epochs.
    n_init, max_time, warm_start, random_state, n_jobs
        As in `SVIGaussianMixture`, with the same defaults.
    dtype : {"float64", "float32"}, default="float64"
        Of the factors. Single precision halves memory and traffic; then the ELBO is
        exact to about six digits only.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Posterior means of the columns' factors. They are defined up to a rotation that
        the rows' factors undo: predictions mean something, single coordinates do not.
    component_covariances_ : ndarray of shape (n_features, p, p)
        Posterior covariances of the columns' factors; with `biases` p is n_components
        + 1, and the last coordinate the bias.
    row_factors_ : ndarray of shape (n_rows, n_components)
        Posterior means of the factors of the rows of `fit`.
    row_covariances_ : ndarray of shape (n_rows, p, p)
        Their posterior covariances.
    global_bias_ : float
        With `biases` the mean of the observed entries of the (first) fit, 0 without.
    row_biases_, column_biases_ : ndarray of shape (n_rows,) and (n_features,)
        Posterior means of the biases, zero without `biases`.
    noise_scale_ : float
        Standard deviation of the noise; where it is inferred, of the posterior mean of
        its precision.
    row_scales_, column_scales_ : ndarray of shape (p,)
        Prior standard deviations, those of mean precisions where they are inferred.
    elbo_ : float
        Evidence lower bound on all observed entries, nats, every constant included.
        `partial_fit` adds the bound on what the new entries say given the others.
    elbo_path_, elbo_by_init_, n_iter_, converged_, message_, history_
        As of `SVIGaussianMixture`; `n_iter_` counts those of `partial_fit`, too.
    noise_shrunk_ : float
        Share of the factors, over all steps, whose noise had to be shrunk to stay in
        the parameter space; 0 without noise.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        As in scikit-learn.

    See Also
    --------
    SVIGaussianMixture : The same steps for mixtures.

    References
    ----------
    Paisley, Fazelnia, Barr: Stochastic Variational Inference with Tuneable Stochastic
    Annealing, 2025 (Algorithm 1, section IV-A). Lim, Teh: Variational Bayesian Approach
    to Movie Rating Prediction, 2007. Broderick, Boyd, Wibisono, Wilson, Jordan:
    Streaming Variational Bayes, 2013 (`partial_fit`).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skboost.decomposition import SVIMatrixFactorization
    >>> X = load_iris().data.copy()
    >>> X[::5, 2] = np.nan
    >>> model = SVIMatrixFactorization(2, random_state=0).fit(X)
    >>> mean, std = model.predict_entries([0, 5], [2, 2], return_std=True)
    >>> mean.shape, model.transform(X).shape
    ((2,), (150, 2))
    """

    _parameter_constraints = {
        **SVI_CONSTRAINTS,
        **FACTOR_CONSTRAINTS,
        "dtype": [StrOptions({"float64", "float32"})],
    }

    @keeps_parameters
    def __init__(
        self,
        n_components=5,
        *,
        noise_scale="infer",
        prior_scale="infer",
        biases=False,
        batch_size=None,
        effective_batch_size=None,
        learning_rate="auto",
        n_init=1,
        max_iter=100,
        tol=1e-5,
        max_time=None,
        warm_start=False,
        dtype="float64",
        random_state=None,
        n_jobs=None,
    ):
        pass

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            In an array NaN is missing. Of a sparse matrix the stored entries are
            observed, zeros among them, and those that are not stored are missing.
            Rows and columns without observed entries keep their prior.
        y : Ignored

        Raises
        ------
        ValueError
            If no entry is observed, a sparse matrix stores one twice, or values are
            infinite. What was fitted before stays usable.
        KeyboardInterrupt
            Once more, after the epochs done were kept with every fitted attribute.

        Warns
        -----
        UserWarning
            If ``warm_start=True`` goes on with other entries.
        """
        with self._keeping_old_fit(), single_threaded():
            entries = observed_entries(self, X, self.dtype, reset=True)
            model, bias = self._model(entries)
            self._digest = entries.digest
            return self._run_all(
                self._engines_of(model, about(entries, bias)),
                SVILimits(self.max_iter, self.tol * len(entries), self.max_time),
                callback_data(X, y),
                partial(_attributes, model, bias),
            )

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Take new entries in; those so far are not needed again. Returns self.

        The posterior so far is the prior of the new entries, which coordinate ascent
        goes over up to `max_iter` times: only the rows and columns that have new
        entries move. On an estimator that was not fitted this is `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            The *new* entries only; an entry that was given before counts as one more
            observation of it. Row i of `X` is row i of the matrix: with more rows than
            there were, the further ones are new; fewer are the first of those known.
        y : Ignored

        Raises
        ------
        ValueError
            As `fit` does, and for a model that has changed since the first call.
        """
        if "_predictive" not in vars(self):
            return self.fit(X)
        with self._keeping_old_fit(), single_threaded():
            self._check_goes_on("partial_fit", "Begin with a clone.")
            model, bias = self._predictive.model, self._predictive.bias
            entries = about(observed_entries(self, X, self.dtype), bias)
            shape = (max(entries.shape[0], model.shape[0]), entries.shape[1])
            natural = grown(model, self._predictive.natural, shape)
            elbo, n_iter = self.elbo_, self.n_iter_
            if len(entries):
                tol = self.tol * len(entries)
                limits = SVILimits(self.max_iter, tol, self.max_time)
                natural, done = taken_in(model, natural, entries, limits)
                elbo, n_iter = elbo + done.state.elbo, n_iter + done.n_iter
            # The report of a run over all entries does not hold any longer.
            self._forget_run()
            model = self._made(shape, model.magnitude)
            attributes = _attributes(model, bias, natural)
            vars(self).update(attributes, elbo_=elbo, n_iter_=n_iter)
            return self

    def _widened(self, n_columns):
        """A copy with further columns, which have the prior's distribution."""
        model, bias = self._predictive.model, self._predictive.bias
        shape, other = (model.shape[0], n_columns), copy(self)
        natural = grown(model, self._predictive.natural, shape)
        attributes = _attributes(self._made(shape, model.magnitude), bias, natural)
        vars(other).update(attributes, n_features_in_=n_columns)
        return other

    # --- model and engines

    def _model(self, entries):
        """Model and global bias of a new fit, or those of the fit that goes on."""
        if self._previous is None:
            self._seed, self._made_with = root_seed(self.random_state), self._of_model()
            bias = global_bias(self, entries)
            magnitude = magnitude_of(about(entries, bias))
            return self._made(entries.shape, magnitude), bias
        self._check_goes_on("warm_start=True", "Set warm_start=False.")
        model = self._predictive.model
        if model.shape != entries.shape:
            raise ValueError(
                "warm_start=True goes on with the same data; got X of shape "
                f"{entries.shape} after {model.shape}. Set "
                "warm_start=False, or use partial_fit for new rows."
            )
        if entries.digest != self._digest:
            warnings.warn(
                "warm_start=True goes on with other entries than those of the last "
                "fit, of which it keeps the factors alone. Set warm_start=False, or "
                "use partial_fit for new entries.",
                UserWarning,
                stacklevel=4,
            )
        return model, self._predictive.bias

    def _made(self, shape, magnitude):
        """A model; each run has one of its own."""
        settings = model_settings(self, shape, magnitude)
        return MatrixFactorizationModel(**settings, dtype=self.dtype)

    def _engines_of(self, model, entries):
        """One for each run."""

        def make(**steps):
            own = self._made(entries.shape, model.magnitude)
            return NaturalGradient(own, ObservedEntries(entries), **steps)

        return self._engines(make, model.start, len(entries), "robbins-monro")

    def _check_goes_on(self, what, advice):
        check_same_model(what, self._made_with, self._of_model(), advice)

    def _of_model(self):
        """Hyperparameters that say what the model is."""
        names = ("n_components", "noise_scale", "prior_scale", "biases", "dtype")
        return {name: vars(self)[name] for name in names}


def _attributes(model, bias, natural):
    """Fitted attributes that follow from natural parameters."""
    predictive, scales = MatrixPredictive.single(model, natural, bias), model.scales
    (piece,) = predictive.pieces()
    return {
        **piece.attributes(model.n_components),
        "component_covariances_": piece.columns.covariance,
        "row_covariances_": piece.rows.covariance,
        "row_scales_": np.sqrt(scales["rows"].variance(natural)),
        "column_scales_": np.sqrt(scales["columns"].variance(natural)),
        "noise_scale_": float(np.sqrt(piece.noise)),
        "global_bias_": bias,
        "_predictive": predictive,
    }


# --- new entries, for which those so far are not needed again


def grown(model, natural, shape):
    """Natural parameters with further rows and columns, which have the prior's
    distribution."""
    found = dict(natural)
    for name, side, n in zip(
        ("rows", "columns"), (model.rows, model.columns), shape, strict=True
    ):
        own, n_new = natural[name], n - len(natural[name]["first"])
        if n_new > 0:
            shared, _ = model.scales[name].expected(natural)
            new = side.start(np.zeros((n_new, side.dim)), 1.0 / shared)
            found[name] = {
                key: np.concatenate([own[key], new[key].astype(own[key].dtype)])
                for key in own
            }
    return found


def taken_in(model, natural, entries, limits):
    """Natural parameters after new entries, and the run over these."""
    # The posterior so far is their prior (streaming variational Bayes, Broderick et al.
    # 2013): coordinate ascent goes over the rows and columns that they touch, and the
    # scales of the factors stay. The run's bound is that of the log evidence of the new
    # entries given those before.
    touched, parts = {}, {}
    for name, positions in (("rows", entries.rows), ("columns", entries.columns)):
        touched[name], parts[name] = np.unique(positions, return_inverse=True)
    shape = tuple(len(index) for index in touched.values())
    own = {
        name: {key: value[index] for key, value in natural[name].items()}
        for name, index in touched.items()
    }
    priors = own | {name: natural[name] for name in natural if name == "noise"}
    inner = MatrixFactorizationModel(
        shape,
        model.n_components,
        None if model.noise.factors else model.noise.scale,
        {n: s.expected(natural)[0] ** -0.5 for n, s in model.scales.items()},
        biases=model.biases,
        dtype=model.dtype,
        priors=priors,
    )
    kind = entries.rows.dtype
    parts = [part.astype(kind) for part in parts.values()]
    renumbered = type(entries)(*parts, entries.values, shape)
    engine = NaturalGradient(inner, ObservedEntries(renumbered), priors, ConstantRate())
    done = run(engine, limits)
    updated = dict(natural)
    for name, value in done.state.natural.items():
        index = touched.get(name)
        updated[name] = value if index is None else _put(natural[name], index, value)
    return updated, done


def _put(own, index, new):
    updated = {key: value.copy() for key, value in own.items()}
    for key, value in updated.items():
        value[index] = new[key]
    return updated
