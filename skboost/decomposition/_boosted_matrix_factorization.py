"""Matrix factorisation with a mixture over all factors, found by boosting."""

from dataclasses import replace
from functools import partial
from numbers import Integral

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from skboost._parameters import keeps_parameters
from skboost._sklearn import InstanceOf, Interval, StrOptions, fit_context
from skboost.boosting import Boosting, SimplexCombination
from skboost.conjugate import FactorTarget, MatrixFactorizationModel, ObservedEntries
from skboost.decomposition._face import BayesianFactorization
from skboost.decomposition._matrices import (
    FACTOR_CONSTRAINTS,
    global_bias,
    magnitude_of,
    model_settings,
    observed_entries,
)
from skboost.decomposition._posterior import MatrixFactorizationPosterior
from skboost.decomposition._predictive import MatrixPredictive, about
from skboost.fitting import (
    BOOSTING_CONSTRAINTS,
    BoostedEstimator,
    callback_data,
    make_limits,
    make_settings,
    warn_where_called,
)
from skboost.objectives import ResidualGain
from skboost.proposals import FACTOR_PROPOSERS, StochasticSearch, factor_proposer

# Hyperparameters of other boosted estimators that factorisations lack.
_LACKING = "family", "objective", "orbit", "temperature"
# Numbers in the draws that are kept for a component, and how many draws that may be.
_DRAW_ENTRIES, _FEWEST, _MOST = 1 << 20, 8, 64

# Entries that probes of what remains may evaluate, and how many draws that is at least.
# In thousands of dimensions they see little, at the price of an epoch each.
_EVALUATED, _FEWEST_PROBES = 1 << 22, 16


class BoostedMatrixFactorization(BayesianFactorization, BoostedEstimator):
    """Matrix factorisation with a mixture as the posterior over all factors.

    The model is that of `SVIMatrixFactorization`; its posterior is a mixture, to which
    boosting adds one component at a time as long as that gains more than `tol`. A
    component is a distribution of the factors of all rows and all columns, and so a
    whole explanation of the matrix; several of them say that the data have several.
    Predictions average over components.

    Parameters
    ----------
    n_components, noise_scale, prior_scale, biases
        As in `SVIMatrixFactorization`, with the same defaults.
    proposal : {"coordinate_ascent", "residual"} or ResidualGain, \
            default="coordinate_ascent"
        How components are found. "coordinate_ascent": Gaussians with a full covariance
        for each row and column, where annealed runs of coordinate ascent end.
        "residual": a Gaussian for each single factor, by a thousand steps of Adam on
        the residual ELBO from a random start, the oracle of Locatello et al. 2018,
        stopped where the joint gain is largest; it is slower and worse, and is there to
        be compared with. `skboost.strategies.ResidualGain` sets its entropy weight, and
        with ``early_stopping=False`` it goes on to the last step, as published.
    search : StochasticSearch, default=None
        Steps, learning rate, draws and residual of ``proposal="residual"``, see
        `skboost.strategies.StochasticSearch`. None is a thousand steps on `n_draws`
        draws each.
    step_size : {"line-search", "adaptive", "predefined"}, float or StepSize, \
            default="line-search"
        Weight of a new component; under ``"fully-corrective"`` the warm start of all
        weights. With ``"predefined"`` and ``corrective="none"``, the rule of Locatello
        et al., steps do not maximise the ELBO, and the mixture of the last iteration
        is the result: an average over explanations, where the others keep the best.
    corrective, max_time, warm_start, random_state, verbose
        As in `BoostedBayesianLogisticRegression`, with the same defaults.
    max_iter : int, default=5
        Boosting iterations in total, the first component included.
    tol : float, default=1.0
        In nats. An explanation that is found once more, next to itself, gains up to
        ln 2 without any effect on predictions, so less than that is no news in large
        matrices; in small ones 0.01 is of use.
    n_draws : int, default=None
        Monte Carlo draws kept per component, for the overlap of components only: the
        expected log joint density is exact. None is 64 for small matrices, and fewer,
        at least 8, for large ones, whose components do not overlap.
    n_restarts : int, default=2
        Runs for each component, of which the best is taken.
    n_jobs : int, default=None
        Threads over runs and over draws.

    Attributes
    ----------
    posterior_ : MatrixFactorizationPosterior
        Over the factors of all rows and columns, and the scales that are inferred.
    components_ : ndarray of shape (n_components, n_features)
        Posterior means of the columns' factors under the heaviest component. Those of
        different components have no coordinates in common, so they are not averaged.
    row_factors_ : ndarray of shape (n_rows, n_components)
        The same for the rows of `fit`.
    row_biases_, column_biases_ : ndarray of shape (n_rows,) and (n_features,)
        Posterior means of the biases under the heaviest component, zero without
        `biases`.
    global_bias_ : float
        With `biases` the mean of the observed entries, 0 without.
    noise_scale_ : float
        Root of the expected variance of the noise.
    elbo_, elbo_se_ : float
        Evidence lower bound and its standard error, nats. The posterior has a copy of
        itself for every rotation of the factors (for every change of signs where
        prior scales are inferred), and this one describes a single one.
    elbo_path_, gain_path_, duality_gap_path_, duality_gap_, duality_gap_se_, \
            n_iter_, converged_, message_, history_
        As of `BoostedBayesianLogisticRegression`, in nats.
    remaining_kl_, remaining_kl_se_, pareto_k_ : float
        As of the other boosted estimators. In thousands of dimensions the weights of
        draws are too unequal for an estimate (`pareto_k_` above 0.7), and some KL
        remains in any case: rows and columns are taken to be independent.
    remaining_kl_interval_ : tuple of float
        (lower, upper), nats: what remains at least, by the same estimate less two
        standard errors, and at most as far as short chains reach; `upper` is inf where
        nothing bounds it, as with coordinate ascent.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        As in scikit-learn.

    See Also
    --------
    SVIMatrixFactorization : One component as posterior, in batches, with new entries.

    References
    ----------
    Locatello, Dresdner, Khanna, Valera, Rätsch: Boosting Black Box Variational
    Inference, 2018 (Algorithm 1, section 5.3). Paisley, Fazelnia, Barr: Stochastic
    Variational Inference with Tuneable Stochastic Annealing, 2025 (annealing).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skboost.decomposition import BoostedMatrixFactorization
    >>> X = load_iris().data.copy()
    >>> X[::5, 2] = np.nan
    >>> model = BoostedMatrixFactorization(2, max_iter=2, random_state=0).fit(X)
    >>> mean, std = model.predict_entries([0, 5], [2, 2], return_std=True)
    >>> mean.shape, model.transform(X).shape
    ((2,), (150, 2))
    """

    # Of the factors; single precision is left to SVIMatrixFactorization.
    dtype = "float64"

    _parameter_constraints = {
        **FACTOR_CONSTRAINTS,
        "proposal": [
            StrOptions(set(FACTOR_PROPOSERS)),
            InstanceOf(ResidualGain, "skboost.strategies"),
        ],
        **{k: v for k, v in BOOSTING_CONSTRAINTS.items() if k not in _LACKING},
        "n_draws": [Interval(Integral, 2, None, closed="left"), None],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "search": [InstanceOf(StochasticSearch, "skboost.strategies"), None],
    }

    @keeps_parameters
    def __init__(
        self,
        n_components=5,
        *,
        noise_scale="infer",
        prior_scale="infer",
        biases=False,
        proposal="coordinate_ascent",
        search=None,
        step_size="line-search",
        corrective="fully-corrective",
        max_iter=5,
        tol=1.0,
        max_time=None,
        n_draws=None,
        n_restarts=2,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        pass

    # --- fit

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            In an array NaN is missing. Of a sparse matrix the stored entries are
            observed, zeros among them, and those that are not stored are missing.
        y : Ignored

        Raises
        ------
        ValueError
            If no entry is observed, a sparse matrix stores one twice, or values are
            infinite. What was fitted before stays usable.
        KeyboardInterrupt
            Once more, after the iterations done were kept with every fitted attribute.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` or `max_time` ended a run whose last component still gained.
        """
        with self._keeping_old_fit():
            entries = observed_entries(self, X, self.dtype, reset=True)
            bias = global_bias(self, entries)
            entries = about(entries, bias)
            model = self._model(entries)
            return self._boost(
                FactorTarget(model, ObservedEntries(entries), self.n_jobs),
                callback_data(X, y),
                partial(_attributes, model, bias),
                posterior=lambda mixture, *_: posterior_of(model, mixture),
                engine_of=_engine,
                warn=_warn_of_gain,
            )

    def _model(self, entries):
        """The model of the entries, which must be that of a fit that goes on."""
        settings = model_settings(self, entries.shape, magnitude_of(entries))
        if self.warm_start and "_fit" in vars(self):
            before = self._model_.settings
            changed = [name for name in settings if settings[name] != before[name]]
            if changed:
                raise ValueError(
                    "warm_start=True goes on with the same model and data; got "
                    f"{ {name: settings[name] for name in changed} } after "
                    f"{ {name: before[name] for name in changed} }. Set "
                    "warm_start=False."
                )
        return MatrixFactorizationModel(**settings)

    # --- what was fitted

    @property
    def _predictive(self):
        # There is nothing to correct in closed forms, and so no report to wait for.
        return self._predictive_of(self._fit.mixture)

    def _predictive_of(self, mixture):
        posterior = posterior_of(self._model_, mixture)
        return MatrixPredictive.of(posterior, self.global_bias_)

    def staged_predict_entries(self, rows, columns, return_std=False):
        """`predict_entries` after every iteration; the last is the final one.

        Parameters
        ----------
        rows, columns, return_std
            As in `predict_entries`.
        """
        check_is_fitted(self)
        for mixture in self._fit.stages:
            yield self._predictive_of(mixture).entries(rows, columns, return_std)


def posterior_of(model, mixture):
    """A mixture of distributions of the factors as users meet it."""
    return MatrixFactorizationPosterior(mixture, model.settings)


def _attributes(model, bias, fit):
    predictive = MatrixPredictive.of(posterior_of(model, fit.mixture), bias)
    noise = sum(piece.weight * piece.noise for piece in predictive.pieces())
    return {
        **predictive.heaviest().attributes(model.n_components),
        "noise_scale_": float(np.sqrt(noise)),
        "global_bias_": bias,
        "_model_": model,
    }


def _warn_of_gain(fit, params):
    # Some KL remains wherever rows depend on columns, and averages are not meant to
    # converge: a warning is worth it only where the last component still gained.
    gain = fit.history[-1]["gain"]
    if not fit.run.converged and gain > make_limits(params).tol:
        warn_where_called(
            f"{fit.report.message} The last component gained {gain:.2g} nats. "
            "Raise max_iter (or max_time), n_restarts or tol.",
            ConvergenceWarning,
        )


def _engine(target, params, starts, seed, n_jobs):
    n_draws = params["n_draws"]
    if n_draws is None:
        n_draws = int(np.clip(_DRAW_ENTRIES // target.dim, _FEWEST, _MOST))
    params = {**params, "refine": False, "n_draws": n_draws}
    settings = make_settings(params, seed, n_jobs, target.dim, target.exact_gaussian)
    combination = SimplexCombination.of(params["step_size"], params["corrective"])
    few = _EVALUATED // len(target.entries)
    few = int(np.clip(few, min(_FEWEST_PROBES, settings.n_fresh), settings.n_fresh))
    settings = replace(
        settings,
        keep_best=combination.monotone,
        n_probe_remaining=min(settings.n_probe_remaining, few),
        n_report=min(settings.n_report, few),
    )
    proposer = factor_proposer(params["proposal"], params["search"])
    return Boosting(proposer, combination, settings)
