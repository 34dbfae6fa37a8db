"""Bayesian linear regression that learns from a stream."""

from typing import NamedTuple

import numpy as np
from scipy.stats import t as student_t
from sklearn.utils.validation import check_is_fitted

from skboost._parameters import keeps_parameters
from skboost._random import generator, root_seed
from skboost._sklearn import StrOptions, fit_context
from skboost.fitting import warn_where_called
from skboost.linear_model._methods import POSITIVE
from skboost.linear_model._model import NOISE_PRIOR
from skboost.linear_model._online import (
    ONLINE_CONSTRAINTS,
    OnlineEstimator,
    check_numbers,
    read_batch,
)
from skboost.linear_model._online_model import (
    Numbers,
    OnlineModel,
    fixed_parameters,
    rule_of,
)
from skboost.linear_model._regressor import BayesianRegressor
from skboost.online import ONLINE_METHODS, ConjugateStream, DiagonalStream, GaussianLoss
from skboost.posterior import check_size
from skboost.serving import LinearRegressor
from skboost.targets import NoiseScalePrior


class OnlineBayesianLinearRegression(BayesianRegressor, OnlineEstimator):
    """Linear regression with a posterior that learns row by row.

    By default exact: the posterior after any number of batches is that of all rows at
    once.

    Parameters
    ----------
    method : {"ewa", "ngvi", "svb", "sva"}, default="ewa"
        Exponentially weighted aggregation, which is Bayes' rule here and exact; or
        natural-gradient variational inference, streaming variational Bayes or
        sequential variational approximation, which can be diagonal.
    learning_rate : "auto", float or LearningRate, default="auto"
        Of Alquier 2019: a positive number, or a schedule such as
        ``PowerRate(rate, power)`` of `skboost.strategies`. "auto" is 1 (Bayes) for
        EWA, infinity for NGVI, which forgets nothing where a finite rate keeps the
        information of about that many rows, and in units of the noise variance 0.1 for
        SVB and ``PowerRate(0.2, -0.5)`` for SVA.
    noise_scale : "infer" or float, default="infer"
        Standard deviation of the noise. "infer" needs ``method="ewa"`` and keeps the
        normal-inverse-gamma posterior.
    noise_prior : "auto" or NoiseScalePrior, default="auto"
        Prior of an inferred noise scale, as in `BoostedBayesianLinearRegression`, with
        a number for its scale. ``"auto"`` is ``NoiseScalePrior(0.002, 1.0)``.
    prior_scale : float or array-like of shape (n_features,), default=1.0
        Standard deviation of the coefficients' prior; in units of the noise where that
        is inferred.
    intercept_scale : "auto" or float, default="auto"
        Standard deviation of the intercept's prior, in the same units. "auto" is 10; 1
        for SVA and SVB, whose steps grow with its square. Columns far from zero are
        measured from the first row, as in `OnlineBayesianLogisticRegression`, and so
        are responses beyond ten standard deviations of the noise's prior.
    covariance, beta, forgetting, fit_intercept, batch_size, n_passes, shuffle, \
    random_state
        As in `OnlineBayesianLogisticRegression`, with the same defaults.

    Attributes
    ----------
    coef_, coef_std_, averaged_coef_ : ndarray of shape (n_features,)
        Posterior means and standard deviations, and the average of the means that
        predicted the rows (online-to-batch), which is not kept for sparse rows whose
        untouched coefficients decay.
    intercept_, averaged_intercept_ : float
    noise_scale_ : float
        What it was set to, or the inverse root of the noise precision's posterior mean.
    posterior_ : MixturePosterior
        Of (coefficients, intercept): one Gaussian; where the noise is inferred, one
        Student-t density.
    cumulative_loss_ : float
        Sum of the log losses of all rows, each predicted before its update: at the
        posterior mean where the noise is known (Alquier 2019), else under the
        predictive density; nats.
    n_seen_ : int
        Rows of positive weight so far.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        As in scikit-learn.

    See Also
    --------
    sklearn.linear_model.BayesianRidge : Infers the scale of the prior too, in batch.

    Notes
    -----
    EWA and full covariances turn sparse rows into dense ones. With the extra ``fast``
    (numba) the loops over rows with a diagonal covariance are compiled at their first
    call.

    References
    ----------
    Alquier: Generalization bounds for variational inference, 2019 (Algorithms 2, 3).
    Chérief-Abdellatif, Alquier, Khan: A Generalization Bound for Online Variational
    Inference, 2019. Khan, Lin: Conjugate-computation variational inference, 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import OnlineBayesianLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = OnlineBayesianLinearRegression(prior_scale=10.0)
    >>> for begin in range(0, 442, 50):
    ...     _ = model.partial_fit(X[begin : begin + 50], y[begin : begin + 50])
    >>> model.predict_interval(X[:3], level=0.9).shape
    (3, 2)
    """

    _parameter_constraints = {
        **ONLINE_CONSTRAINTS,
        "method": [StrOptions(set(ONLINE_METHODS))],
        "intercept_scale": [StrOptions({"auto"}), POSITIVE],
        "noise_scale": [StrOptions({"infer"}), POSITIVE],
        "noise_prior": NOISE_PRIOR,
    }

    @keeps_parameters
    def __init__(
        self,
        *,
        method="ewa",
        covariance="auto",
        noise_scale="infer",
        noise_prior="auto",
        learning_rate="auto",
        beta="auto",
        forgetting=1.0,
        prior_scale=1.0,
        fit_intercept=True,
        intercept_scale="auto",
        batch_size=None,
        n_passes=1,
        shuffle=False,
        random_state=None,
    ):
        pass

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None):
        """Learn from one more batch of a stream, without the data so far. Returns self.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`. What may change between batches is said by
            `OnlineBayesianLogisticRegression.partial_fit`.

        Raises
        ------
        ValueError, skboost.exceptions.DivergedError
            As `fit` does, and for a model that has changed since the first batch.

        Warns
        -----
        UserWarning
            As `fit` does, of the first batch; and if noise is inferred and that batch
            has fewer rows than coefficients.
        """
        first = "_streams" not in vars(self)
        with self._keeping_old_fit():
            batch = self._read(X, y, sample_weight, reset=first)
            self._one_more(self._model(first), batch)
        n_rows, n_coefficients = self.n_seen_, len(self._streams[0].mean)
        if first and self._model_.noise_prior and n_rows < n_coefficients:
            warn_where_called(
                "The stream begins with fewer rows than coefficients "
                f"({n_rows} for {n_coefficients}): until there are more, "
                "noise_scale_ and predictive intervals are little more than their "
                "prior. Begin with more rows, or give noise_scale a number.",
                UserWarning,
            )
        return self

    # --- the model

    def _read(self, X, y, sample_weight, reset):
        return read_batch(self, X, y, sample_weight, _floats, reset, y_numeric=True)

    def _model(self, first):
        """The `OnlineModel` of the parameters; of a first batch, with its layout."""
        inferred = isinstance(self.noise_scale, str)
        loss = GaussianLoss(1.0 if inferred else self.noise_scale)
        stream, rule = rule_of(self, loss)
        noise_prior = _checked_prior(self.noise_prior)
        if inferred and self.method != "ewa":
            raise ValueError(
                "noise_scale='infer' needs method='ewa', which is exact; got "
                f"method={self.method!r}. Give the noise a number."
            )
        return OnlineModel(
            self._first_layout() if first else self._model_.layout,
            Numbers(),
            rule,
            ConjugateStream if inferred else stream,
            fixed_parameters(self, "noise_scale"),
            self.batch_size,
            # A full covariance is exact. Others have 1.2 nats a row at 3 in 200
            # dimensions, where the truth has 1.1, and 2 to 200 at 10.
            5.0 if stream is DiagonalStream else np.inf,
            (noise_prior,) if inferred else (),
        )

    # --- what is known

    def _predictive(self):
        (stream,) = self._streams
        model = LinearRegressor(
            self.n_features_in_, self._model_.layout.intercept, np.ones(1),
            self._model_.parts(self._streams), stream.noise_variance,
            stream.spread_factor,
        )  # fmt: skip
        return OnlinePredictive(model, stream)

    def _drawn(self, n, rng, reported=False):
        theta, noise_scale = self._streams[0].draw(check_size("n", n), rng)
        return self._model_.back(theta), noise_scale

    def sample_posterior(self, n=1, random_state=None):
        """Draws of coefficients, intercept and noise scale.

        Parameters
        ----------
        n, random_state
            As in `BoostedBayesianLinearRegression.sample_posterior`.

        Returns
        -------
        coef, intercept, noise_scale : ndarray
            As of the same.
        """
        check_is_fitted(self)
        theta, noise_scale = self._drawn(n, generator(root_seed(random_state)))
        coef, intercept, _ = self._model_.layout.split(theta)
        return coef[:, 0], intercept[:, 0], noise_scale

    @property
    def noise_scale_(self):
        """Scale of the noise: what it was set to, or its posterior estimate."""
        check_is_fitted(self)
        return self._streams[0].noise_scale


class OnlinePredictive(NamedTuple):
    """One Student-t or normal density for the response of every row."""

    model: LinearRegressor
    stream: object

    def latent(self, X):
        """Mean and standard deviation of the linear predictor."""
        mean, std = self.model.latent(X)
        return mean, self.stream.predictor_std(std)

    def quantiles(self, X, offset, levels):
        """Quantiles of the response, (n_rows, n_levels)."""
        mean, scale, df = self._response(X, offset)
        return mean[:, None] + scale[:, None] * student_t.ppf(levels, df)

    def log_density(self, X, offset, y):
        """Log densities of responses, nats."""
        mean, scale, df = self._response(X, offset)
        return student_t.logpdf(y, df, mean, scale)

    def _response(self, X, offset):
        mean, *rest = self.stream.response(*self.model.latent(X))
        return mean if offset is None else mean + offset, *rest


def _floats(y):
    """Responses as floats."""
    y = np.asarray(y, dtype=float)
    # None among objects has become NaN only now.
    check_numbers("y", y)
    return y


def _checked_prior(noise_prior):
    """Shape and rate of the noise variance's inverse gamma prior, an array (2,)."""
    if noise_prior == "auto":
        noise_prior = NoiseScalePrior(0.002, 1.0)
    if noise_prior.scale == "auto":
        raise ValueError(
            "noise_prior needs a number for its scale: nobody knows the responses of a "
            f"stream before they come; got {noise_prior!r}."
        )
    prior = noise_prior.checked()
    return 0.5 * prior.weight * np.array([1.0, prior.scale**2])
