"""Log joint densities of generalised linear models.

Notation: eta = X theta, theta = (coef..., intercept), w the sample weights times
the temperature (which acts on the likelihood only).
"""

import numpy as np

from skboost.targets._base import Target
from skboost.targets._design import Design, sum_log
from skboost.targets._expectations import logistic_gaussian_expectations
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
    """What linear models share: the design, the weights, the prior.

    Subclasses give the likelihood; this class adds the prior to it.
    """

    def __init__(self, design, n_outputs, sample_weight, temperature, prior, scale):
        self.design = design
        self.dim = design.dim * n_outputs
        self.temperature = temperature
        self.prior = NormalPrior() if prior is None else prior
        self.scale = self.prior.resolve_scale(self.dim, scale)
        self._weight = validated_weights(sample_weight, design.n_samples, temperature)

    def _weights(self, rows):
        """Weights of a slice of rows as an array."""
        if isinstance(self._weight, float):
            return np.full(rows.stop - rows.start, self._weight)
        return self._weight[rows]

    def _sum_weighted(self, values, rows):
        """Column sums of w * values."""
        return self._weights(rows) @ values

    def _sum_weighted_log(self, values, rows, limit):
        """Column sums of w * ln values; destroys ``values``."""
        if isinstance(self._weight, float):
            return self._weight * sum_log(values, limit)
        return self._weight[rows] @ np.log(values, out=values)

    def _checked(self, theta):
        theta = np.asarray(theta, dtype=float)
        if theta.ndim != 2 or theta.shape[1] != self.dim:
            raise ValueError(
                f"theta must have shape (n_draws, {self.dim}); got {theta.shape}."
            )
        return theta

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


class LogisticTarget(GLMTarget):
    """Log joint density of Bayesian logistic regression with two classes.

    Parameters
    ----------
    X : float array or CSR matrix (n_samples, n_features)
        Used as it is, never copied.
    y : array (n_samples,) of 0 and 1
    sample_weight : array (n_samples,), default=None
        Class weights included; None is 1 everywhere.
    temperature : float in (0, 1], default=1.0
        Power of the likelihood (Alquier; the tempered posterior).
    prior : Prior, default=None
        None is ``NormalPrior()``.
    scale : float or array (dim,), default=None
        Prior scales, the intercept's last; None takes the prior's own.
    fit_intercept : bool, default=True
        theta = (coef..., intercept) when True.
    n_jobs : int, default=None
        Threads over fixed blocks of rows; the result does not depend on it.

    Attributes
    ----------
    dim : int
        n_features, plus one with an intercept.
    """

    exact_gaussian = True

    def __init__(
        self,
        X,
        y,
        *,
        sample_weight=None,
        temperature=1.0,
        prior=None,
        scale=None,
        fit_intercept=True,
        n_jobs=None,
    ):
        design = Design(X, fit_intercept, n_jobs)
        super().__init__(design, 1, sample_weight, temperature, prior, scale)
        self.y = np.asarray(y, dtype=float)
        if self.y.shape != (design.n_samples,) or np.any(self.y * (1.0 - self.y)):
            raise ValueError(
                f"y must hold 0 and 1, shape ({design.n_samples},); got shape "
                f"{self.y.shape} and values such as {self.y.ravel()[:5]}."
            )
        # The odd part of the log likelihood is linear in theta: one product, once.
        (self._odd,) = design.sum_rows(
            lambda rows, block: (
                block.pull(self._weights(rows) * (self.y[rows] - 0.5)),
            ),
            design.dim,
        )

    def _log_likelihood(self, theta):
        """sum_i w_i (y_i - 1/2) eta_i - w_i (|eta_i| / 2 + ln(1 + exp(-|eta_i|)))."""
        columns = theta.T.copy()

        def even_part(rows, block):
            eta = block.apply(columns)
            np.abs(eta, out=eta)
            total = 0.5 * self._sum_weighted(eta, rows)
            np.exp(np.negative(eta, out=eta), out=eta)
            eta += 1.0
            return (total + self._sum_weighted_log(eta, rows, 512),)

        (even,) = self.design.sum_rows(even_part, theta.shape[0])
        return theta @ self._odd - even

    def _value_and_slope(self, theta):
        """The same through tanh(eta / 2), which is the slope of the even part."""
        columns = 0.5 * theta.T

        def even_part(rows, block):
            eta = block.apply(columns)
            size = np.abs(eta)
            total = self._sum_weighted(size, rows)
            np.tanh(eta, out=eta)
            np.abs(eta, out=size)
            # ln(1 + exp(-|eta|)) = -ln((1 + tanh(|eta| / 2)) / 2)
            size += 1.0
            size *= 0.5
            total -= self._sum_weighted_log(size, rows, 512)
            if isinstance(self._weight, float):
                return total, self._weight * block.pull(eta)
            eta *= self._weight[rows, None]
            return total, block.pull(eta)

        n_draws = theta.shape[0]
        even, slope = self.design.sum_rows(even_part, n_draws, n_draws * self.dim)
        return theta @ self._odd - even, self._odd - 0.5 * slope.T

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

        def part(rows, block):
            spread = None if factor is None else block.apply(factor)
            value, slope, bend = self._expected_terms(
                rows, block, mean, variance, spread
            )
            result = [value, block.pull(slope)]
            if variance is not None:
                result.append(-0.5 * block.pull_squares(bend))
            if factor is not None:
                spread *= bend[:, None]
                result.append(-block.pull(spread))
            return result

        width = self.dim if factor is None else max(self.dim, factor.shape[1])
        entries = 2 * self.dim + (0 if factor is None else factor.size)
        value, g_mean, *others = self.design.sum_rows(part, width, entries)
        prior = self._expected_prior(mean, variance, factor)
        g_variance = None if variance is None else others.pop(0) + prior.d_variance
        g_factor = None
        if factor is not None:
            g_factor = others.pop(0) + 2.0 * prior.d_variance[:, None] * factor
        return value + prior.value, g_mean + prior.d_mean, g_variance, g_factor

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
            The likelihood's part is positive semi-definite; a heavy-tailed prior's
            diagonal can be negative.
        """

        def part(rows, block):
            spread = block.apply(factor)
            value, slope, bend = self._expected_terms(rows, block, mean, None, spread)
            return value, block.pull(slope), block.gram(bend)

        width = max(self.dim, factor.shape[1])
        value, g_mean, curvature = self.design.sum_rows(part, width, self.dim**2)
        prior = self._expected_prior(mean, None, factor)
        curvature[np.diag_indices(self.dim)] += prior.curvature
        return value + prior.value, g_mean + prior.d_mean, curvature

    def _expected_terms(self, rows, block, mean, variance, spread):
        """Weighted expected log likelihood, and per row E[l'] and E[-l'']."""
        centre = block.apply(mean)
        total = np.zeros_like(centre)
        if variance is not None:
            total += block.apply_squares(variance)
        if spread is not None:
            total += np.einsum("ij,ij->i", spread, spread)
        softplus, sigmoid, bend = logistic_gaussian_expectations(centre, np.sqrt(total))
        weight, y = self._weights(rows), self.y[rows]
        return weight @ (y * centre - softplus), weight * (y - sigmoid), weight * bend

    def _expected_prior(self, mean, variance, factor):
        total = np.zeros(self.dim)
        if variance is not None:
            total = total + variance
        if factor is not None:
            total = total + np.einsum("ij,ij->i", factor, factor)
        return self.prior.expected(mean, total, self.scale)
