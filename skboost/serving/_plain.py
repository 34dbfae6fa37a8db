"""Predictions from arrays: what estimators predict with, and exported files too.

Whatever stands here or is imported here from the package has to run without it: NumPy
and the standard library are all there is.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from skboost._math import bounded_exp, count_moments, sigmoid
from skboost._parallel import row_blocks
from skboost.families import linear_moments, squared
from skboost.targets import (
    laplace_sigmoid_expectation,
    sigmoid_expectation,
    sigmoid_over_scales,
    softmax_expectation,
)


def checked_rows(X, n_features, step=None, gaps=False):
    """Rows that a user passes as finite numbers, by a step if any; with `gaps` NaN
    is legal."""
    X = np.asarray(X)
    if X.dtype.kind in "mM":
        raise ValueError("X must have numbers in all columns; got dates or durations.")
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"X must have shape (n_samples, {n_features}); got {X.shape}.")
    X = X.astype(float) if step is None else step.apply(X)
    if not (np.isfinite(X) | (gaps & np.isnan(X))).all():
        raise ValueError(f"X must be finite; got {'' if gaps else 'NaN or '}infinity.")
    return X


def checked_offset(offset, n):
    """The offset that a user passes, zeros where there is none."""
    offset = np.zeros(n) if offset is None else np.asarray(offset, dtype=float)
    if offset.shape != (n,) or not np.isfinite(offset).all():
        raise ValueError("offset must hold one finite number for each row of X.")
    return offset


# --- components of a posterior, as the linear predictors of rows see them: `moments`
# are means and standard deviations, `positive` probabilities of the second class


@dataclass
class GaussianPart:
    """Covariance diag(variance) + factor factor^T; either may be None."""

    mean: object
    variance: object = None
    factor: object = None

    def with_offset(self):
        """The same of rows with one more column, whose coefficient is known: one."""
        variance, factor = self.variance, self.factor
        return GaussianPart(
            np.append(self.mean, 1.0),
            None if variance is None else np.append(variance, 0.0),
            None if factor is None else np.vstack([factor, np.zeros(factor.shape[1])]),
        )

    def moments(self, X):
        return linear_moments(X, self.mean, self.variance, self.factor)

    def positive(self, X):
        return sigmoid_expectation(*self.moments(X))


@dataclass
class StudentTPart:
    """A Gaussian whose scale is one of `nodes`, with probabilities `shares`."""

    gaussian: GaussianPart
    df: float
    nodes: object
    shares: object

    def with_offset(self):
        gaussian = self.gaussian.with_offset()
        return StudentTPart(gaussian, self.df, self.nodes, self.shares)

    def moments(self, X):
        """Mean and standard deviation, NaN and inf where there are none."""
        location, scale = self.gaussian.moments(X)
        mean = location if self.df > 1.0 else np.full(len(location), np.nan)
        if self.df > 2.0:
            return mean, np.sqrt(self.df / (self.df - 2.0)) * scale
        return mean, np.where(scale > 0.0, np.inf, 0.0)

    def positive(self, X):
        return sigmoid_over_scales(*self.gaussian.moments(X), self.nodes, self.shares)


@dataclass
class LaplacePart:
    """Independent Laplace coefficients."""

    mean: object
    scale: object

    def with_offset(self):
        return LaplacePart(np.append(self.mean, 1.0), np.append(self.scale, 0.0))

    def moments(self, X):
        return linear_moments(X, self.mean, 2.0 * self.scale**2, None)

    def positive(self, X):
        return laplace_sigmoid_expectation(X @ self.mean, X, self.scale)


@dataclass
class DrawsPart:
    """Any distribution, by fixed draws (n_draws, dim); the first moments are exact."""

    draws: object
    mean: object = None
    variance: object = None

    def with_offset(self):
        draws = np.column_stack([self.draws, np.ones(len(self.draws))])
        return DrawsPart(draws, np.append(self.mean, 1.0), np.append(self.variance, 0))

    def moments(self, X):
        return linear_moments(X, self.mean, self.variance, None)

    def positive(self, X):
        return sigmoid(X @ self.draws.T).mean(axis=1)


@dataclass
class ContrastsPart:
    """Contrasts of K classes under one Gaussian: (dim, K - 1), roots and variances
    or None."""

    mean: object
    factor: object = None
    variances: object = None

    def moments(self, X):
        """Mean (n, K - 1) and covariance (n, K - 1, K - 1) of the contrasts of rows."""
        n = self.mean.shape[1]
        covariance = np.zeros((X.shape[0], n, n))
        if self.factor is not None:
            spread = (X @ self.factor).reshape(X.shape[0], n, -1)
            covariance += spread @ spread.transpose(0, 2, 1)
        if self.variances is not None:
            covariance += (squared(X) @ self.variances).reshape(covariance.shape)
        return X @ self.mean, covariance


# --- models


@dataclass
class Model:
    """Rows in: what every model begins with."""

    n_features: int
    fit_intercept: bool

    def checked(self, X):
        """Rows of `predict` as an array."""
        return checked_rows(X, self.n_features)

    def blocks(self, X, width):
        """Blocks of rows with a column of ones for an intercept, unless it is there."""
        ones = self.fit_intercept and X.shape[1] == self.n_features
        for rows in row_blocks(X.shape[0], width + self.n_features):
            block = X[rows]
            yield rows, np.hstack([block, np.ones((len(block), 1))]) if ones else block


class Mixed:
    """Models with one linear predictor for each row, of `parts` with `weights`."""

    def moments(self, block):
        """Means and standard deviations under every part, (n, n_parts) each."""
        pairs = [part.moments(block) for part in self.parts]
        return tuple(np.column_stack(each) for each in zip(*pairs, strict=True))

    def latent(self, X):
        """Mean and standard deviation of the linear predictor, (n,) each."""
        out = np.empty((2, X.shape[0]))
        for rows, block in self.blocks(X, self.width):
            means, stds = self.moments(block)
            mean = means @ self.weights
            square = (stds**2 + (means - mean[:, None]) ** 2) @ self.weights
            out[:, rows] = mean, np.sqrt(square)
        return out[0], out[1]

    def positive(self, block):
        """Probabilities of the second class under every part, (n, n_parts)."""
        if all(isinstance(part, GaussianPart) for part in self.parts):
            return sigmoid_expectation(*self.moments(block))
        return np.column_stack([part.positive(block) for part in self.parts])

    @property
    def width(self):
        """Columns of the temporaries."""
        return (self.n_features + self.fit_intercept) * len(self.parts)


@dataclass
class Classifier(Model):
    """Models that give ``_all(X)``, probabilities of all classes; `sharpening` is
    their power."""

    classes: object
    sharpening: float = field(default=1.0, kw_only=True)
    # Places of the classes on their scale, where this is not the order of sorting.
    ranks = None

    def proba(self, X):
        """Probabilities of all classes for rows that were checked."""
        averaged = self.averaged(X)
        if self.sharpening == 1.0:
            return averaged
        powers = averaged**self.sharpening
        return powers / powers.sum(axis=1, keepdims=True)

    def averaged(self, X):
        """The same before sharpening: averages over the posterior."""
        out = np.empty((X.shape[0], len(self.classes)))
        for rows, block in self.blocks(X, self.width):
            out[rows] = self._all(block)
        return out

    def predict_proba(self, X):
        """Probabilities of all classes, (n_samples, n_classes)."""
        return self.proba(self.checked(X))

    def predict(self, X):
        """Most probable class of every row."""
        return self.classes[self.predict_proba(X).argmax(axis=1)]


@dataclass
class BinaryClassifier(Mixed, Classifier):
    """Two classes, by quadrature over every component."""

    weights: object
    parts: tuple

    def with_offset(self):
        """The same of rows whose last column is added to their linear predictors."""
        parts = tuple(part.with_offset() for part in self.parts)
        return replace(self, parts=parts)

    def predict_proba(self, X, offset=None):
        """Probabilities of both classes; offsets are added to linear predictors."""
        X = self.checked(X)
        if offset is None:
            return self.proba(X)
        ones = np.ones((len(X), int(self.fit_intercept)))
        X = np.column_stack([X, ones, checked_offset(offset, len(X))])
        return self.with_offset().proba(X)

    def predict(self, X, offset=None):
        """More probable class of every row."""
        return self.classes[self.predict_proba(X, offset).argmax(axis=1)]

    def _all(self, X):
        positive = self.positive(X) @ self.weights
        return np.column_stack([1.0 - positive, positive])


@dataclass
class ContrastsClassifier(Classifier):
    """More classes, by fixed nodes (K - 1, n_nodes) for each Gaussian component."""

    weights: object
    parts: tuple
    nodes: tuple
    # What is computed at nodes has blocks of its own.
    width = 0

    def _all(self, X):
        each = zip(self.weights, self.parts, self.nodes, strict=True)
        p = sum(w * softmax_expectation(*part.moments(X), z) for w, part, z in each)
        return p / p.sum(axis=1, keepdims=True)


@dataclass
class SoftmaxClassifier(Classifier):
    """The same of any components, by draws (n_draws * n_classes, dim) with weights."""

    draws: object
    weights: object

    def predictors(self, X):
        """Linear predictors of every row, (n, n_draws, n_classes)."""
        eta = np.asarray(X @ self.draws.T)
        return eta.reshape(X.shape[0], -1, len(self.classes))

    def drawn(self, X):
        """Probabilities under every draw, (n, n_draws, n_classes)."""
        eta = self.predictors(X)
        p = np.exp(eta - eta.max(axis=2, keepdims=True))
        p /= p.sum(axis=2, keepdims=True)
        return p

    def _all(self, X):
        p = self.drawn(X).transpose(0, 2, 1) @ self.weights
        return p / p.sum(axis=1, keepdims=True)

    @property
    def width(self):
        """Columns of the temporaries."""
        return len(self.draws)


@dataclass
class OrdinalClassifier(Classifier):
    """Ordered classes, by draws (n_draws, dim) with thresholds (n_draws, K - 1)."""

    draws: object
    thresholds: object
    ranks: object

    def drawn(self, X):
        """Probabilities under every draw, (n, n_draws, n_classes)."""
        eta = np.asarray(X @ self.draws.T)
        return between_thresholds(self.thresholds, eta, self.ranks)

    def _all(self, X):
        return self.drawn(X).mean(axis=1)

    @property
    def width(self):
        """Columns of the temporaries."""
        return self.thresholds.size


def between_thresholds(thresholds, eta, ranks):
    """Probabilities (n, n_draws, K) from thresholds (n_draws, K - 1), in the order of
    `ranks`; None is ascending."""
    out = np.ones((*eta.shape, thresholds.shape[1] + 1))
    out[..., :-1] = sigmoid(thresholds - eta[:, :, None])
    out[..., 1:] -= out[..., :-1].copy()
    return out if ranks is None else out[..., ranks]


@dataclass
class OneVsRestClassifier(Mixed, Classifier):
    """One independent Gaussian for each class against the rest."""

    parts: tuple

    def _all(self, X):
        return shares(self.positive(X))


def shares(positive):
    """Each over the sum of the last axis."""
    positive = np.maximum(positive, np.finfo(float).tiny)
    return positive / positive.sum(axis=-1, keepdims=True)


@dataclass
class LinearRegressor(Mixed, Model):
    """A response whose variance is the linear predictor's, spread, and
    `noise_variance`."""

    weights: object
    parts: tuple
    noise_variance: float
    spread_factor: float = 1.0

    def predict(self, X, return_std=False, offset=None):
        """Predictive mean, and its standard deviation with the noise."""
        X = self.checked(X)
        mean, std = self.mean_and_std(X, checked_offset(offset, len(X)))
        return (mean, std) if return_std else mean

    def mean_and_std(self, X, offset=None):
        """Both for rows that were checked; an offset of None is zero."""
        mean, std = self.latent(X)
        std = np.sqrt(self.spread_factor * std**2 + self.noise_variance)
        return mean if offset is None else mean + offset, std


@dataclass
class CountRegressor(Mixed, Model):
    """Counts with the logarithm as link.

    `draws` (n_draws, dim) stand for a posterior without Gaussian parts; `dispersion`
    has a mean for each part or draw, `tilts` (n_parts, dim) its covariances with
    coefficients.
    """

    weights: object
    parts: tuple
    draws: object = None
    dispersion: object = None
    tilts: object = None

    def predict(self, X, offset=None, return_std=False):
        """Predictive mean, and the standard deviation of the count."""
        X = self.checked(X)
        mean, std = self.mean_and_std(X, checked_offset(offset, len(X)))
        return (mean, std) if return_std else mean

    def mean_and_std(self, X, offset):
        """Both for rows that were checked; an offset of None is zero."""
        mean, variance = np.empty((2, X.shape[0]))
        for rows, block, *gaussians in self.gaussians(X, offset, self.width):
            means, stds, weights = gaussians
            if self.draws is not None:
                mean[rows], variance[rows] = count_moments(means, self.dispersion)
                continue
            mean[rows] = rate = bounded_exp(means + 0.5 * stds**2) @ weights
            square = bounded_exp(2.0 * (means + stds**2)) @ weights
            variance[rows] = rate + np.maximum(square - rate**2, 0.0)
            if self.dispersion is not None:
                # The factor exp(lambda) shifts the mean of eta by their covariance.
                squares = bounded_exp(2.0 * (means + block @ self.tilts.T + stds**2))
                variance[rows] += squares @ (weights * self.dispersion)
        return mean, np.sqrt(variance)

    def gaussians(self, X, offset, width):
        """Slices of rows, linear predictors' means and deviations (n, n_gaussians),
        and weights."""
        weights = self.weights
        if self.draws is not None:
            width = 4 * len(self.draws)
            weights = np.full(len(self.draws), 1.0 / len(self.draws))
        for rows, block in self.blocks(X, width):
            if self.draws is None:
                means, stds = self.moments(block)
            else:
                means = np.asarray(block @ self.draws.T)
                stds = np.zeros_like(means)
            if offset is not None:
                means = means + offset[rows, None]
            yield rows, block, means, stds, weights
