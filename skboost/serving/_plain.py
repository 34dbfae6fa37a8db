"""Predictions from arrays, with NumPy alone: what `write_module` copies into files.

Whatever stands here or is imported here from the package has to run without it: NumPy
and the standard library are all there is.
"""

from dataclasses import dataclass

import numpy as np

from skboost.targets._logistic_gaussian import sigmoid_expectation
from skboost.targets._logistic_laplace import DenseSquares, tail_probability
from skboost.targets._noise import bounded_exp
from skboost.targets._softmax_gaussian import softmax_expectation

_ROWS = 1024


def sigmoid(t):
    """1 / (1 + exp(-t))."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-t))


# --- components of a posterior, as the linear predictors of rows see them


@dataclass
class GaussianPart:
    """Covariance diag(variance) + factor factor^T; either may be None."""

    mean: object
    variance: object = None
    factor: object = None

    def moments(self, X):
        """Mean and standard deviation of the linear predictor of every row."""
        square = np.zeros(len(X))
        if self.variance is not None:
            square += np.square(X) @ self.variance
        if self.factor is not None:
            projected = X @ self.factor
            square += np.einsum("ij,ij->i", projected, projected)
        return X @ self.mean, np.sqrt(square)

    def latents(self, X):
        """Means and standard deviations of Gaussians of equal weight, (n, 1) each."""
        mean, std = self.moments(X)
        return mean[:, None], std[:, None]

    def positive(self, X):
        """Probability of the second class."""
        return sigmoid_expectation(*self.moments(X))


@dataclass
class StudentTPart:
    """A Gaussian whose scale is one of `nodes`, with probabilities `shares`."""

    gaussian: GaussianPart
    df: float
    nodes: object
    shares: object

    def moments(self, X):
        """Mean and standard deviation, NaN and inf where there are none."""
        location, scale = self.gaussian.moments(X)
        mean = location if self.df > 1.0 else np.full(len(X), np.nan)
        if self.df > 2.0:
            return mean, np.sqrt(self.df / (self.df - 2.0)) * scale
        return mean, np.where(scale > 0.0, np.inf, 0.0)

    def positive(self, X):
        """Probability of the second class."""
        location, scale = self.gaussian.moments(X)
        total = np.zeros(len(X))
        for node, share in zip(self.nodes, self.shares, strict=True):
            total += share * sigmoid_expectation(location, node * scale)
        return total


@dataclass
class LaplacePart:
    """Independent Laplace coefficients."""

    mean: object
    scale: object

    def moments(self, X):
        """Mean and standard deviation of the linear predictor of every row."""
        return X @ self.mean, np.sqrt(np.square(X) @ (2.0 * self.scale**2))

    def positive(self, X):
        """Probability of the second class."""
        mean = X @ self.mean
        tail = tail_probability(np.abs(mean), DenseSquares(X, self.scale))
        return np.where(mean > 0.0, 1.0 - tail, tail)


@dataclass
class DrawsPart:
    """Any distribution, by fixed draws (n_draws, dim); the first moments are exact."""

    draws: object
    mean: object = None
    variance: object = None

    def moments(self, X):
        """Mean and standard deviation of the linear predictor of every row."""
        return X @ self.mean, np.sqrt(np.square(X) @ self.variance)

    def latents(self, X):
        """The draws as Gaussians without spread, (n, n_draws) each."""
        means = X @ self.draws.T
        return means, np.zeros_like(means)

    def positive(self, X):
        """Probability of the second class."""
        return sigmoid(X @ self.draws.T).mean(axis=1)


# --- models


@dataclass
class ContrastsPart:
    """Contrasts of K classes' linear predictors under one Gaussian component.

    `mean` is (dim, K - 1), `factor` None or (dim, (K - 1) * rank), `variances` None or
    (dim, (K - 1)^2).
    """

    mean: object
    factor: object = None
    variances: object = None

    def moments(self, X, squares):
        """Means (n, K - 1) and covariances (n, K - 1, K - 1), of X and its squares."""
        n = self.mean.shape[1]
        covariance = np.zeros((X.shape[0], n, n))
        if self.factor is not None:
            spread = (X @ self.factor).reshape(X.shape[0], n, -1)
            covariance += spread @ spread.transpose(0, 2, 1)
        if self.variances is not None:
            covariance += (squares @ self.variances).reshape(covariance.shape)
        return X @ self.mean, covariance

    def probabilities(self, X):
        """Expected probabilities of the classes, (n, K)."""
        return softmax_expectation(*self.moments(X, np.square(X)), dtype=np.float64)


@dataclass
class Model:
    """Rows in: what every model begins with."""

    n_features: int
    fit_intercept: bool

    def rows(self, X):
        """Checked rows, with a column of ones where there is an intercept."""
        X = np.asarray(X, dtype=float)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(
                f"X must have shape (n_samples, {self.n_features}); got {X.shape}."
            )
        if not np.isfinite(X).all():
            raise ValueError("X must be finite; got NaN or infinity.")
        return np.hstack([X, np.ones((len(X), 1))]) if self.fit_intercept else X

    def in_blocks(self, answer, X):
        """Answers for blocks of rows, joined."""
        X = self.rows(X)
        parts = [answer(X[k : k + _ROWS]) for k in range(0, max(1, len(X)), _ROWS)]
        return np.concatenate(parts)


@dataclass
class Classifier(Model):
    """Models that give ``_all(X)``, the probabilities of all classes for some rows."""

    classes: object

    def predict_proba(self, X):
        """Probabilities of all classes, (n_samples, n_classes)."""
        return self.in_blocks(self._all, X)

    def predict(self, X):
        """Most probable class of every row."""
        return self.classes[self.predict_proba(X).argmax(axis=1)]


@dataclass
class BinaryClassifier(Classifier):
    """Two classes, by quadrature over every component."""

    weights: object
    parts: tuple

    def _all(self, X):
        columns = np.column_stack([part.positive(X) for part in self.parts])
        positive = columns @ self.weights
        return np.column_stack([1.0 - positive, positive])


@dataclass
class ContrastsClassifier(Classifier):
    """Three or four classes, by quadrature over every Gaussian component."""

    weights: object
    parts: tuple

    def _all(self, X):
        pairs = zip(self.weights, self.parts, strict=True)
        p = sum(weight * part.probabilities(X) for weight, part in pairs)
        return p / p.sum(axis=1, keepdims=True)


@dataclass
class SoftmaxClassifier(Classifier):
    """More classes, by fixed draws (n_draws * n_classes, dim) of the coefficients."""

    draws: object

    def _all(self, X):
        eta = (X @ self.draws.T).reshape(len(X), -1, len(self.classes))
        p = np.exp(eta - eta.max(axis=2, keepdims=True))
        p /= p.sum(axis=2, keepdims=True)
        p = p.mean(axis=1)
        return p / p.sum(axis=1, keepdims=True)


@dataclass
class OneVsRestClassifier(Classifier):
    """One independent Gaussian for each class against the rest."""

    parts: tuple

    def _all(self, X):
        positive = np.column_stack([part.positive(X) for part in self.parts])
        positive = np.maximum(positive, np.finfo(float).tiny)
        return positive / positive.sum(axis=1, keepdims=True)


@dataclass
class LinearRegressor(Model):
    """One response with noise.

    The predictive variance is that of the linear predictor, times `spread_factor`,
    and `noise_variance`.
    """

    weights: object
    parts: tuple
    noise_variance: float
    spread_factor: float = 1.0

    def predict(self, X, return_std=False):
        """Predictive mean, and its standard deviation with the noise."""
        moments = self.in_blocks(self._moments, X)
        return (moments[:, 0], moments[:, 1]) if return_std else moments[:, 0]

    def _moments(self, X):
        pairs = [part.moments(X) for part in self.parts]
        means, stds = (np.column_stack(each) for each in zip(*pairs, strict=True))
        mean = means @ self.weights
        square = (stds**2 + (means - mean[:, None]) ** 2) @ self.weights
        square = self.spread_factor * square + self.noise_variance
        return np.column_stack([mean, np.sqrt(square)])


@dataclass
class MultipleRegressor:
    """Several responses, a model for each."""

    models: tuple

    def predict(self, X, return_std=False):
        """Predictive means, (n_samples, n_outputs), and standard deviations."""
        means, stds = zip(*(m.predict(X, True) for m in self.models), strict=True)
        mean, std = np.stack(means, axis=1), np.stack(stds, axis=1)
        return (mean, std) if return_std else mean


@dataclass
class CountRegressor(Model):
    """Counts with the logarithm as link."""

    weights: object
    parts: tuple

    def predict(self, X, offset=None, return_std=False):
        """Predictive mean, and the standard deviation of the count."""
        X = self.rows(X)
        offset = np.zeros(len(X)) if offset is None else np.asarray(offset, dtype=float)
        if offset.shape != (len(X),) or not np.isfinite(offset).all():
            raise ValueError("offset must hold one finite number for each row of X.")
        out = np.empty((len(X), 2))
        for k in range(0, len(X), _ROWS):
            rows = slice(k, k + _ROWS)
            out[rows] = self._moments(X[rows], offset[rows, None])
        return (out[:, 0], out[:, 1]) if return_std else out[:, 0]

    def _moments(self, X, offset):
        rate = square = 0.0
        for weight, part in zip(self.weights, self.parts, strict=True):
            means, stds = part.latents(X)
            means = means + offset
            rate += weight * bounded_exp(means + 0.5 * stds**2).mean(axis=1)
            square += weight * bounded_exp(2.0 * (means + stds**2)).mean(axis=1)
        variance = rate + np.maximum(square - rate**2, 0.0)
        return np.column_stack([rate, np.sqrt(variance)])
