"""Bayesian linear regression with a boosted mixture as posterior."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._parameters import keeps_parameters
from skboost._sklearn import StrOptions, fit_context
from skboost.linear_model._flat import FlatRegression
from skboost.linear_model._methods import POSITIVE
from skboost.linear_model._model import (
    NOISE_PRIOR,
    SCALED_CONSTRAINTS,
    Layout,
    LinearModel,
    feature_names,
    highest_point,
    priors_of,
)
from skboost.linear_model._predictive import (
    N_DRAWS,
    Predictive,
    mixture_log_density,
    mixture_parts,
    mixture_quantiles,
    part_of,
    posterior_draws,
)
from skboost.linear_model._regressor import BayesianRegressor
from skboost.linear_model._row_keywords import less_offset
from skboost.linear_model._sources import Numbers
from skboost.linear_model._summary import level_and_spread, sizes
from skboost.serving import LinearRegressor
from skboost.targets import NOISES, PRIORS, KnownScale, as_noise_prior

# Rows that the automatic prior of the noise scale stands for. One row of so small a
# residual costs 20 rows 1.3 % of the coverage of 90 % intervals, and .009 nats.
_NOISE_WEIGHT = 0.1


class NoisePredictive(Predictive):
    """Predictive quantities of a regression with noise.

    For a Gaussian component the linear predictor eta and the log noise scale lambda of
    a row are two Gaussian variables. Given lambda, eta is Gaussian and the response has
    normal noise added to it in closed form, other noise by a further quadrature;
    lambda, which all rows share, is integrated by a fixed rule. So the predictive
    distribution of every row is a finite mixture, and density, quantiles and moments
    follow from it. A known noise scale is a number, an inferred one None.
    """

    def __init__(self, mixture, fit_intercept, noise, noise_scale):
        mixture = mixture.drop_zero_weights()
        self.noise, self.noise_scale = noise, noise_scale
        inferred = noise_scale is None
        n_linear = mixture.dim - inferred
        weights, parts = mixture_parts(mixture, slice(n_linear))
        square = mean_square_scale(mixture) if inferred else noise_scale**2
        fit_intercept = bool(fit_intercept)
        variance = float(noise.std**2 * square)
        base = (n_linear - fit_intercept, fit_intercept)
        super().__init__(LinearRegressor(*base, weights, parts, variance), mixture)

    def log_density(self, X, offset, y):
        """Log predictive density of every response, (n,), nats."""
        out, y = np.empty(X.shape[0]), y - (0.0 if offset is None else offset)
        for rows, *parts in self._parts(X):
            out[rows] = mixture_log_density(self.noise, y[rows], *parts)
        return out

    def quantiles(self, X, offset, p):
        """Predictive quantiles, (n, n_levels)."""
        blocks = self._parts(X, len(p))
        ends = [mixture_quantiles(self.noise, *parts, p) for _, *parts in blocks]
        return np.concatenate(ends) + (0.0 if offset is None else offset[:, None])

    def _parts(self, X, n_levels=1):
        """Blocks of rows with centres, scales (n, n_parts) and weights of the parts."""
        draws = None if self.gaussian else posterior_draws(self.mixture)
        width = n_levels * (N_DRAWS if draws is not None else 512)
        for rows, block in self.model.blocks(X, width):
            if draws is None:
                yield from self._pieces(block, rows.start, n_levels)
            else:
                yield rows, *self._by_draws(block, draws)

    def _pieces(self, block, start, n_levels):
        """What `_parts` gives of a block, in pieces that take little memory.

        A row far out needs many parts, its neighbours do not.
        """
        n = block.shape[0]
        if n == 1 or n * n_levels * self._n_parts(block) <= 1 << 18:
            yield slice(start, start + n), *self._by_quadrature(block)
            return
        middle = n // 2
        yield from self._pieces(block[:middle], start, n_levels)
        yield from self._pieces(block[middle:], start + middle, n_levels)

    def _n_parts(self, block):
        """Parts that `_by_quadrature` makes of every row of a block."""
        return sum(
            len(self.noise.added_to(mean[:1], rest.max(keepdims=True), scale)[2])
            for mean, rest, scale, _ in self._given_levels(block)
        )

    def _by_draws(self, block, draws):
        scale = self.noise_scale
        scale = np.exp(draws[:, -1]) if scale is None else np.full(len(draws), scale)
        centres = np.asarray(block @ draws[:, : block.shape[1]].T)
        weights = np.full(len(draws), 1.0 / len(draws))
        return centres, np.broadcast_to(scale, centres.shape), weights

    def _by_quadrature(self, block):
        parts = []
        for mean, rest, scale, weight in self._given_levels(block):
            centres, scales, shares = self.noise.added_to(mean, rest, scale)
            parts.append((centres, scales, weight * shares))
        centres, scales, weights = zip(*parts, strict=True)
        return np.hstack(centres), np.hstack(scales), np.concatenate(weights)

    def _given_levels(self, block):
        """Mean and deviation of eta, the noise scale and its weight, at every node."""
        pairs = zip(self.mixture.weights, self.mixture.components, strict=True)
        for weight, component in pairs:
            mean, rest, tilt, level, spread = self._pair(component, block)
            rule = self.noise.scale_rule(level, spread, tilt)
            for node, share in zip(*rule, strict=True):
                scale = np.exp(level + spread * node)
                yield mean + tilt * node, rest, scale, weight * share

    def _pair(self, component, block):
        """(eta, lambda) as mean + tilt u + rest v, level + spread u; u, v ~ N(0, 1)."""
        centre, variance, factor = component.structure()
        mean, std = part_of(component, slice(block.shape[1])).moments(block)
        if self.noise_scale is not None:
            return mean, std, np.zeros_like(mean), np.log(self.noise_scale), 0.0
        spread = float(component.std()[-1])
        tilt = np.zeros_like(mean)
        if factor is not None:
            tilt = block @ (factor[:-1] @ factor[-1]) / spread
        rest = np.sqrt(np.maximum(std**2 - tilt**2, 0.0))
        return mean, rest, tilt, centre[-1], spread


def mean_square_scale(mixture):
    """E sigma^2 where the last coordinate of a mixture is the logarithm of sigma."""
    squares = [each.mean_exponential(-1, 2.0) for each in mixture.components]
    return mixture.weights @ np.array(squares)


@dataclass(frozen=True, eq=False, kw_only=True)
class NoiseModel(LinearModel):
    """A linear model with noise, whose scale is None where it is learned."""

    noise: object
    noise_scale: float | None

    def start(self, target, rows):
        """The mode, which is the target's first guess, too."""
        level, spread = level_and_spread(rows)
        width = spread / sizes(rows, self.layout.intercept, self.centre is not None)
        centre = np.zeros(len(width))
        if self.layout.intercept:
            centre[-1] = level
        infer = self.noise_scale is None
        if infer:
            centre, width = np.append(centre, np.log(spread)), np.append(width, 1.0)
        width /= np.sqrt(rows.summary.weight * self.temperature)
        mode = highest_point(target, centre, width)
        scale = np.exp(mode[-1]) if infer else self.noise_scale
        width[: len(width) - infer] *= scale / spread
        target.first_guess = mode, 0.1 * width
        return mode[None]

    def predictive(self, mixture):
        """What answers about rows; see `LinearModel`."""
        return NoisePredictive(
            mixture, self.layout.intercept, self.noise, self.noise_scale
        )

    def noise_scales(self, further):
        """Draws of the noise scale, given those of further parameters."""
        if self.noise_scale is None:
            return np.exp(further[:, 0])
        return np.full(len(further), self.noise_scale)


class BoostedBayesianLinearRegression(BayesianRegressor, FlatRegression):
    """Linear regression with a posterior and a predictive distribution.

    ``y = X coef + intercept + noise_scale * e`` with normal or Student-t noise e. A fit
    starts from the best Gaussian over coefficients, intercept and the logarithm of the
    noise scale, or where the prior's scale is learned from several for each scale,
    under normal prior and noise in closed form and weighted by exact evidence. It adds
    components by boosting variational inference only where draws see that more than
    `tol` remains. With Gaussian components every expectation in fitting is exact, and
    predictive densities and quantiles are integrals by quadrature: no Monte Carlo
    noise.

    Priors follow the units of the data by default, so that neither features nor
    response need be scaled first, and the common scale of the coefficients is learned.

    Parameters
    ----------
    prior : {"normal", "laplace", "student_t", "cauchy", "horseshoe"}, Prior or \
            dict, default="normal"
        Independent prior of the coefficients, around zero. A dict has priors of single
        coefficients, by name or index of the column, and leaves the others normal:
        ``{"age": NormalPrior(scale=0.5, mean=1.0)}``, in the unit of the coefficient.
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
        Scale of the prior, of the same kind and around zero, of the linear predictor at
        the centre of the columns (their weighted means; of more than 300 parameters at
        their zeros, widened): answers do not depend on where columns have their zero.
        `partial_fit` keeps the centre of the first call. ``"auto"`` is ten standard
        deviations of `y`, widened by what the mean of `y` adds.
    noise : {"normal", "student_t"}, default="normal"
        Distribution of the noise. Under ``"student_t"``, of four degrees of freedom,
        outliers are expected and lose their pull on the coefficients.
    noise_scale : "infer" or float, default="infer"
        Standard deviation of normal noise, scale of Student-t noise; ``"infer"`` makes
        its logarithm a parameter of the posterior.
    noise_prior : "auto" or NoiseScalePrior, default="auto"
        Prior of an inferred noise scale, whose square is scaled inverse chi-squared:
        `NoiseScalePrior(weight, scale)` of `skboost.priors`. ``"auto"`` is a tenth
        of a row whose residual is a hundredth of the standard deviation of `y`, which
        bounds the scale from below where a fit is perfect.
    formula : str, default=None
        In the manner of R, in place of `fit_intercept`: ``"y ~ a * b + log(x)"``, as
        in `BoostedHierarchicalLinearRegression` without terms of groups. X is a data
        frame then, whose columns keywords of the methods may name.
    missing : {"raise", "drop"}, default="raise"
        What `fit` does with rows that lack a value: raise an error, or leave them out.
    temperature, max_iter, tol, max_time, warm_start, random_state, n_jobs, verbose, \
    family, objective, step_size, corrective, search, orbit
        As in `BoostedBayesianLogisticRegression`, with the same defaults.

    Attributes
    ----------
    posterior_ : MixturePosterior
        Over (coefficients, intercept, log noise scale).
    coef_ : ndarray of shape (n_features,)
        Posterior means before orbits, by which predictions are made.
    intercept_ : float
        Posterior mean.
    noise_scale_ : float
        Posterior median of the noise scale, or the number given.
    prior_scale_ : float
        Posterior mean of the factor that ``prior_scale="learn"`` averages over; see
        `prior_scale_interval`. Not there for a scale that is given.
    n_dropped_ : int
        Rows that `fit` left out.
    elbo_, elbo_se_, elbo_path_, gain_path_, duality_gap_, duality_gap_se_, \
    duality_gap_path_, remaining_kl_, remaining_kl_se_, remaining_kl_interval_, \
    pareto_k_, orbiting_, n_iter_, converged_, message_, history_, \
    n_features_in_, feature_names_in_
        As of `BoostedBayesianLogisticRegression`.

    See Also
    --------
    BoostedBayesianPoissonRegression : Counts.
    sklearn.linear_model.BayesianRidge : One Gaussian, its prior's scale from the data.

    References
    ----------
    Locatello et al. 2018 (Algorithm 1). Gelman et al.: Bayesian Data Analysis,
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
        "prior": [StrOptions(set(PRIORS)), *SCALED_CONSTRAINTS["prior"][1:]],
        "noise": [StrOptions(set(NOISES))],
        "noise_scale": [StrOptions({"infer"}), POSITIVE],
        "noise_prior": NOISE_PRIOR,
    }

    @keeps_parameters
    def __init__(
        self,
        *,
        prior="normal",
        prior_scale="learn",
        fit_intercept=True,
        intercept_scale="auto",
        noise="normal",
        noise_scale="infer",
        noise_prior="auto",
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
    def fit(self, X, y=None, sample_weight=None, offset=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X, sample_weight
            As in `BoostedBayesianLogisticRegression.fit`.
        y : array-like of shape (n_samples,), default=None
            None for `RowBlocks`, which have them. Several responses are for
            `sklearn.multioutput.MultiOutputRegressor`.
        offset : array-like of shape (n_samples,) or str, default=None
            What is known of a response: added to the linear predictor.

        Raises
        ------
        ValueError, KeyboardInterrupt
            As `BoostedBayesianLogisticRegression.fit`, which warns of the same.
        """
        return self._fit_rows(X, y, sample_weight=sample_weight, offset=offset)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None, offset=None):
        """Update the posterior by more data: that so far is the prior. Returns self.

        Scales that follow the data (``"auto"``, and the unit of ``"learn"``) are those
        of the first call. With an inferred noise scale small errors of the calls
        add up. ``search=GreedySearch(max_components=1)`` is faster and about as good.

        Parameters
        ----------
        X, y, sample_weight, offset
            As in `fit`, rows in memory.
        """
        return self._fit_rows(X, y, True, sample_weight=sample_weight, offset=offset)

    def staged_predict(self, X, offset=None):
        """Predictive means after every iteration; the last is the final one.

        Parameters
        ----------
        X, offset
            As in `predict`.

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        _, (X, offset) = self._asked(X, offset)
        for mixture in self._fit.stages:
            yield self._model_.predictive(mixture).model.mean_and_std(X, offset)[0]

    @property
    def noise_scale_(self):
        """Posterior median of the noise scale, or the number that was given."""
        check_is_fitted(self)
        if self._model_.noise_scale is not None:
            return self._model_.noise_scale
        last = self.posterior_.marginal(self.posterior_.dim - 1)
        return float(np.exp(last.quantile(0.5)))

    def _reader(self, before, named=None):
        return Numbers(self.n_jobs, NOISES["normal"]())

    def _arranged(self, reader, before, X, y, sample_weight, offset):
        reader.exposed = offset is not None
        return X, less_offset(self, X, y, offset), sample_weight

    def _model(self, rows, reader):
        """The model of these parameters for some rows."""
        level, spread = level_and_spread(rows)
        infer, noise = self.noise_scale == "infer", NOISES[self.noise]()
        further = ("log_noise_scale",) if infer else ()
        layout = Layout(feature_names(self), self._said.fit_intercept, further=further)
        priors = priors_of(self, rows, layout, unit=spread, level=level)
        noise_prior = as_noise_prior(self.noise_prior, spread, _NOISE_WEIGHT)
        return NoiseModel(
            layout=layout,
            likelihood=noise if infer else KnownScale(noise, self.noise_scale),
            **priors,
            level_prior=noise_prior if infer else None,
            temperature=self.temperature,
            exposed=reader.exposed,
            noise=noise,
            noise_scale=None if infer else float(self.noise_scale),
        )
