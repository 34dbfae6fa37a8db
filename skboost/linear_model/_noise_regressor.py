"""What a regression with normal or Student-t noise answers."""

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost.linear_model._coefficients import (
    BayesianRegressor,
    check_quantiles,
    tails_of,
)
from skboost.linear_model._outputs import over_outputs, staged_over_outputs
from skboost.linear_model._predictive import (
    N_DRAWS,
    Predictive,
    mixture_log_density,
    mixture_parts,
    mixture_quantiles,
    part_of,
    posterior_draws,
)
from skboost.serving import LinearRegressor, MultipleRegressor
from skboost.targets import NOISES


class BayesianNoiseRegressor(BayesianRegressor):
    """Predictive distributions that add the noise to the linear predictor.

    With several outputs every answer has them as its second axis (coefficients as
    their first), one after the other.
    """

    @property
    def _n_further(self):
        """Parameters with no part in the linear predictor: the log noise scale."""
        return int(self._noise_model[-1] == "infer")

    def _predictive(self, mixture=None):
        mixture = self.posterior_.mixture if mixture is None else mixture
        kind, df, scale = self._noise_model
        scale = None if scale == "infer" else scale
        return NoisePredictive(mixture, self._has_intercept, NOISES[kind](df), scale)

    def _served(self):
        if self._models:
            return MultipleRegressor(tuple(m._served() for m in self._models))
        return super()._served()

    @over_outputs
    def predict(self, X, return_std=False):
        """Mean of the posterior predictive distribution.

        Student-t noise of at most one degree of freedom has no mean: what is returned
        is that of the linear predictor.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_std : bool, default=False
            Return the standard deviation of the predictive distribution too, noise
            included; inf for Student-t noise of at most two degrees of freedom, and
            where the noise scale is inferred under Student-t components, whose tails
            leave it no second moment (intervals and quantiles are finite there).

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        std : ndarray of the same shape
            Only where `return_std` is True.
        """
        X = self._checked(X)
        mean, std = self._predictive().model.mean_and_std(X)
        return (mean, std) if return_std else mean

    @over_outputs
    def predict_interval(self, X, level=0.9):
        """Central interval of the predictive distribution, noise included.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9
            Predictive probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper end.
        """
        X = self._checked(X)
        return self._predictive().quantiles(X, tails_of(level))

    @over_outputs
    def predict_quantiles(self, X, quantiles=(0.05, 0.5, 0.95)):
        """Quantiles of the predictive distribution, noise included.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        quantiles : float or array-like of shape (n_quantiles,), \
                default=(0.05, 0.5, 0.95)
            In (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles) or \
                (n_samples, n_outputs, n_quantiles)
        """
        X = self._checked(X)
        return self._predictive().quantiles(X, check_quantiles(quantiles))

    def log_predictive_density(self, X, y):
        """Log density of the predictive distribution at the responses.

        A proper score: larger is better, and only the truth has the largest mean.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        ndarray of the shape of `y`
            Nats.
        """
        check_is_fitted(self)
        kind = {"accept_sparse": "csr", "dtype": np.float64, "y_numeric": True}
        rows, y = validate_data(self, X, y, reset=False, multi_output=True, **kind)
        models = self._models or [self]
        rows = models[0]._plain_rows(rows)
        columns = np.asarray(y, dtype=float).reshape(len(y), -1).T
        if len(columns) != len(models):
            raise ValueError(
                f"y must have {len(models)} columns, as in fit; got {len(columns)}."
            )
        found = [
            model._predictive().log_density(rows, column)
            for model, column in zip(models, columns, strict=True)
        ]
        return np.stack(found, axis=-1) if y.ndim == 2 else found[0]

    def staged_predict(self, X):
        """Predictive means after every iteration; the last is the final one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        if self._models:
            stages = [model.staged_predict(X) for model in self._models]
            yield from staged_over_outputs(stages)
            return
        X = self._checked(X)
        for mixture in self._stages:
            yield self._predictive(mixture).latent(X)[0]

    @over_outputs
    def sample_posterior(self, n=1, random_state=None):
        """Draws of coefficients, intercept and noise scale.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        coef : ndarray of shape (n, n_features) or (n, n_outputs, n_features)
        intercept : ndarray of shape (n,) or (n, n_outputs)
        noise_scale : ndarray of the same shape
        """
        check_is_fitted(self)
        coef, intercept, level = self._draws(n, random_state)
        scale = self._noise_model[-1]
        scale = np.exp(level[:, 0]) if scale == "infer" else np.full(n, float(scale))
        return coef[:, 0], intercept[:, 0], scale

    def _fitted(self, posterior):
        infer = self.noise_scale == "infer"
        scale = self.noise_scale
        if infer:
            scale = float(np.exp(posterior.marginal(posterior.dim - 1).quantile(0.5)))
        return self._fitted_coefficients(posterior, int(infer)) | {
            "noise_scale_": scale,
            # What was fitted, whatever the parameters say by now.
            "_noise_model": (self.noise, self.noise_df, self.noise_scale),
        }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


# --- the predictive distribution


class NoisePredictive(Predictive):
    """Predictive quantities of a regression with noise.

    For a Gaussian component the linear predictor eta and the log noise scale lambda of
    a row are two Gaussian variables. Given lambda, eta is Gaussian and the response has
    normal noise added to it in closed form, other noise by a further quadrature;
    lambda, which all rows share, is integrated by a fixed rule. So the predictive
    distribution of every row is a finite mixture, and density, quantiles and moments
    follow from it.

    Parameters
    ----------
    mixture : Mixture
        Over (coefficients, intercept), and the log noise scale where that is inferred.
    fit_intercept : bool
    noise : Noise
    noise_scale : float or None
        None where it is inferred.
    """

    def __init__(self, mixture, fit_intercept, noise, noise_scale):
        mixture = mixture.drop_zero_weights()
        self.noise, self.noise_scale = noise, noise_scale
        n_linear = mixture.dim - (noise_scale is None)
        weights, parts = mixture_parts(mixture, slice(n_linear))
        known = noise_scale is not None
        square = noise_scale**2 if known else mean_square_scale(mixture)
        fit_intercept = bool(fit_intercept)
        variance = float(noise.std**2 * square)
        base = (n_linear - fit_intercept, fit_intercept)
        super().__init__(LinearRegressor(*base, weights, parts, variance), mixture)

    def log_density(self, X, y):
        """Log predictive density of every response, (n,), nats."""
        out = np.empty(X.shape[0])
        for rows, *parts in self._parts(X):
            out[rows] = mixture_log_density(self.noise, y[rows], *parts)
        return out

    def quantiles(self, X, p):
        """Predictive quantiles, (n, n_levels)."""
        blocks = self._parts(X, len(p))
        return np.concatenate(
            [mixture_quantiles(self.noise, *parts, p) for _, *parts in blocks]
        )

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
        total = 0
        for family, params in self.mixture.components:
            mean, left, tilt, level, spread = self._pair(family, params, block)
            widest = left.max(initial=0.0, keepdims=True)
            for node in self.noise.scale_rule(level, spread, tilt)[0]:
                scale = np.exp(level + spread * node)
                total += len(self.noise.added_to(mean[:1], widest, scale)[2])
        return total

    def _by_draws(self, block, draws):
        scale = self.noise_scale
        scale = np.exp(draws[:, -1]) if scale is None else np.full(len(draws), scale)
        centres = np.asarray(block @ draws[:, : block.shape[1]].T)
        weights = np.full(len(draws), 1.0 / len(draws))
        return centres, np.broadcast_to(scale, centres.shape), weights

    def _by_quadrature(self, block):
        centres, scales, weights = [], [], []
        pairs = zip(self.mixture.weights, self.mixture.components, strict=True)
        for weight, (family, params) in pairs:
            mean, left, tilt, level, spread = self._pair(family, params, block)
            rule = self.noise.scale_rule(level, spread, tilt)
            for node, share in zip(*rule, strict=True):
                scale = np.exp(level + spread * node)
                centre, scale, shares = self.noise.added_to(
                    mean + tilt * node, left, scale
                )
                centres.append(centre)
                scales.append(scale)
                weights.append(weight * share * shares)
        return np.hstack(centres), np.hstack(scales), np.concatenate(weights)

    def _pair(self, family, params, block):
        """(eta, lambda) as mean + tilt u + left v, level + spread u; u, v ~ N(0, 1)."""
        centre, variance, factor = family.structure(params)
        mean, std = part_of(family, params, slice(block.shape[1])).moments(block)
        if self.noise_scale is not None:
            return mean, std, np.zeros_like(mean), np.log(self.noise_scale), 0.0
        spread = float(family.std(params)[-1])
        tilt = np.zeros_like(mean)
        if factor is not None:
            tilt = block @ (factor[:-1] @ factor[-1]) / spread
        left = np.sqrt(np.maximum(std**2 - tilt**2, 0.0))
        return mean, left, tilt, centre[-1], spread


def mean_square_scale(mixture):
    """E sigma^2 where the last coordinate of a mixture is the logarithm of sigma."""
    squares = [f.mean_exponential(params, -1, 2.0) for f, params in mixture.components]
    return mixture.weights @ np.array(squares)
