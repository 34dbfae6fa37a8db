"""Log joint densities of generalised linear models, whatever their likelihood.

Notation: eta = X theta + offset, theta = (coef..., intercept), w the sample weights
times the temperature (which acts on the likelihood only).
"""

from copy import copy

import numpy as np

from skboost.targets._base import Target
from skboost.targets._design import Design
from skboost.targets._gaussian_predictors import GaussianPredictors
from skboost.targets._likelihood import WeightedRows
from skboost.targets._priors import NormalPrior

# Draws are taken in batches of this size so that blocks keep enough rows.
_DRAW_BATCH = 1024


def validated_weights(sample_weight, n_samples, temperature):
    """Weights (n,) times temperature, or one float where all are equal."""
    if not 0.0 < temperature <= 1.0:
        raise ValueError(
            f"temperature must lie in (0, 1]; got {temperature!r}. 1 is the posterior."
        )
    if sample_weight is None:
        return float(temperature)
    weight = np.asarray(sample_weight, dtype=float)
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must have shape ({n_samples},); got {weight.shape}."
        )
    if np.any(~np.isfinite(weight) | (weight < 0.0)):
        raise ValueError(
            "sample_weight must be finite and not negative; drop or repair the "
            "offending rows."
        )
    if np.ptp(weight) == 0.0:
        return float(temperature * weight[0])
    return temperature * weight


class GLMTarget(Target):
    """Log joint density of a Bayesian generalised linear model.

    Parameters
    ----------
    X : float array or CSR matrix (n_samples, n_features)
        Used as it is, never copied.
    y : array (n_samples,)
        Responses, in the code of the likelihood.
    likelihood : Likelihood
    sample_weight : array (n_samples,), default=None
        Class weights included; None is 1 everywhere.
    temperature : float in (0, 1], default=1.0
        Power of the likelihood (Alquier; the tempered posterior).
    prior : Prior, default=None
        None is ``NormalPrior()``.
    scale : float or array (dim,) or (n_features [+ 1],), default=None
        Prior scales, the intercept's last; those of one linear predictor serve all.
        None takes the prior's own.
    fit_intercept : bool, default=True
        theta = (coef..., intercept) when True.
    n_jobs : int, default=None
        Threads over fixed blocks of rows; the result does not depend on it.
    offset : array (n_samples,), default=None
        Added to every linear predictor of a row; None is zero.

    Attributes
    ----------
    dim : int
        n_outputs * (n_features [+ 1]): one linear predictor after the other, each
        with its intercept after its coefficients.
    exact_gaussian : bool
        Whether Gaussian expectations are exact, that of the likelihood: they are sums
        over rows of integrals over their few linear predictors.

    Raises
    ------
    ValueError
        For data, weights, scales or a temperature that mean nothing.
    """

    def __init__(
        self,
        X,
        y,
        likelihood,
        *,
        sample_weight=None,
        temperature=1.0,
        prior=None,
        scale=None,
        fit_intercept=True,
        n_jobs=None,
        offset=None,
    ):
        self.likelihood = likelihood
        self.design = design = Design(X, fit_intercept, n_jobs, offset)
        self.dim = design.dim * likelihood.n_outputs
        self.exact_gaussian = likelihood.exact_gaussian
        self.temperature = temperature
        self.prior = NormalPrior() if prior is None else prior
        if scale is not None and np.shape(scale) == (design.dim,):
            scale = np.tile(scale, likelihood.n_outputs)
        self.scale = self.prior.resolve_scale(self.dim, scale)
        self._weight = validated_weights(sample_weight, design.n_samples, temperature)
        self.y = likelihood.checked(y, design.n_samples)
        # What is linear in theta needs one product with the data, once.
        width = design.dim + likelihood.n_outputs
        self._linear, self._constant = design.sum_rows(self._linear_part, width)

    def tolerant(self):
        """This target as searches see it: its expectations are coarser, and cheaper."""
        view = copy(self)
        view.likelihood = self.likelihood.coarse()
        return view

    def _rows(self, rows, block):
        """A slice of rows as likelihoods sum over it."""
        weight = self._weight if isinstance(self._weight, float) else self._weight[rows]
        return WeightedRows(block, self.y[rows], weight)

    def _linear_part(self, rows, block):
        """What is linear in theta: its slopes (dim,), and what offsets add to it."""
        weights = self._rows(rows, block).weights
        linear = (weights * self.likelihood.linear(self.y[rows]).T).T
        constant = 0.0 if block.offset is None else float((block.offset @ linear).sum())
        return block.pull(linear).T.ravel(), constant

    def _checked(self, theta):
        theta = np.asarray(theta, dtype=float)
        if theta.ndim != 2 or theta.shape[1] != self.dim:
            raise ValueError(
                f"theta must have shape (n_draws, {self.dim}); got {theta.shape}."
            )
        return theta

    # --- at draws

    def log_density(self, theta):
        """Log joint density of each draw.

        Parameters
        ----------
        theta : array (n_draws, dim)

        Returns
        -------
        log_density : array (n_draws,), in nats
        """
        theta = self._checked(theta)
        out = self.prior.log_density(theta, self.scale)
        for batch in self._batches(theta):
            out[batch] += self._log_likelihood(theta[batch])
        return out

    def value_and_score(self, theta):
        """Log joint density (n_draws,) and its gradient (n_draws, dim)."""
        theta = self._checked(theta)
        value, score = self.prior.value_and_score(theta, self.scale)
        for batch in self._batches(theta):
            more, slope = self._value_and_slope(theta[batch])
            value[batch] += more
            score[batch] += slope
        return value, score

    @staticmethod
    def _batches(theta):
        return [
            slice(start, start + _DRAW_BATCH)
            for start in range(0, theta.shape[0], _DRAW_BATCH)
        ]

    def _columns(self, theta):
        """Coefficients of every linear predictor: array (n_outputs, ., n_draws)."""
        stacked = theta.reshape(-1, self.likelihood.n_outputs, self.design.dim)
        return np.ascontiguousarray(stacked.transpose(1, 2, 0))

    def _predictors(self, block, columns):
        """Linear predictors (n_rows, n_draws), or (n_outputs, n_rows, n_draws)."""
        if len(columns) == 1:
            return block.predict(columns[0])
        return np.stack([block.predict(column) for column in columns])

    def _log_likelihood(self, theta):
        columns = self._columns(theta)

        def part(rows, block):
            eta = self._predictors(block, columns)
            return (self.likelihood.total(eta, self._rows(rows, block)),)

        width = self.likelihood.n_temporaries * theta.shape[0]
        (value,) = self.design.sum_rows(part, width)
        return theta @ self._linear + (value + self._constant)

    def _value_and_slope(self, theta):
        columns = self._columns(theta)

        def part(rows, block):
            eta = self._predictors(block, columns)
            return self.likelihood.total_and_slope(eta, self._rows(rows, block))

        width = self.likelihood.n_temporaries * theta.shape[0]
        value, slope = self.design.sum_rows(part, width, theta.size)
        slope = slope.reshape(columns.shape).transpose(2, 0, 1).reshape(theta.shape)
        return (
            theta @ self._linear + (value + self._constant),
            self._linear + slope,
        )

    # --- under Gaussians

    def expected_log_density(self, mean, variance=None, factor=None):
        """E[log joint] under N(mean, diag(variance) + factor factor^T), exactly.

        Parameters
        ----------
        mean : array (dim,)
        variance : array (dim,), default=None
        factor : array (dim, rank), default=None

        Returns
        -------
        value : float, in nats
        g_mean : array (dim,)
        g_variance : array (dim,), or None where ``variance`` is None
        g_factor : array (dim, rank), or None where ``factor`` is None
        """

        value, g_mean, g_variance, g_factor = self._expected_likelihood(
            mean, variance, factor
        )
        prior = self._expected_prior(mean, variance, factor)
        if variance is not None:
            g_variance = g_variance + prior.d_variance
        if factor is not None:
            g_factor = g_factor + 2.0 * prior.d_variance[:, None] * factor
        return value + prior.value, g_mean + prior.d_mean, g_variance, g_factor

    def _expected_likelihood(self, mean, variance, factor):
        """The likelihood's part of `expected_log_density`."""
        n_outputs = self.likelihood.n_outputs

        def part(rows, block):
            given = GaussianPredictors(block, n_outputs, mean, variance, factor)
            value, slope, bend = self._expected_terms(rows, block, given)
            return [value, *given.pull(slope, bend)]

        width = n_outputs * (self.dim if factor is None else factor.shape[1])
        entries = 2 * self.dim + (0 if factor is None else factor.size)
        value, g_mean, *others = self.design.sum_rows(
            part, max(self.dim, width), entries
        )
        g_variance = None if variance is None else others.pop(0)
        g_factor = None if factor is None else others.pop(0)
        return value, g_mean, g_variance, g_factor

    def expected_curvature(self, mean, factor):
        """E[log joint], its mean gradient and E[-Hessian] under N(mean, F F^T).

        Parameters
        ----------
        mean : array (dim,)
        factor : array (dim, rank)
            F, any square root of the covariance.

        Returns
        -------
        value : float, in nats
        g_mean : array (dim,)
        curvature : array (dim, dim), symmetric
            The likelihood's part is positive semi-definite where the likelihood is
            log-concave; a heavy-tailed prior's diagonal can be negative.
        """

        value, g_mean, curvature = self._likelihood_curvature(mean, factor)
        prior = self._expected_prior(mean, None, factor)
        curvature[np.diag_indices(self.dim)] += prior.curvature
        return value + prior.value, g_mean + prior.d_mean, curvature

    def _likelihood_curvature(self, mean, factor):
        """The likelihood's part of `expected_curvature`."""
        n_outputs = self.likelihood.n_outputs

        def part(rows, block):
            given = GaussianPredictors(block, n_outputs, mean, None, factor)
            value, slope, bend = self._expected_terms(rows, block, given)
            return value, given.pull_mean(slope), given.grams(bend)

        width = max(self.dim, n_outputs * factor.shape[1])
        return self.design.sum_rows(part, width, self.dim**2)

    def _expected_terms(self, rows, block, given):
        """Weighted expected log likelihood, and per row E[l'] and E[-l'']."""
        rows = self._rows(rows, block)
        value, slope, bend = self.likelihood.expected_rows(
            given.mean, given.covariance, rows.y
        )
        weights = rows.weights
        return weights @ value, weights * slope, weights * bend

    def _expected_prior(self, mean, variance, factor):
        total = np.zeros(self.dim)
        if variance is not None:
            total = total + variance
        if factor is not None:
            total = total + np.einsum("ij,ij->i", factor, factor)
        return self.prior.expected(mean, total, self.scale)
