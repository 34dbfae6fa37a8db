"""Predictions of hierarchical models from arrays: draws of coefficients and effects.

Whatever stands here or is imported here from the package has to run without it: NumPy
and the standard library are all there is.
"""

from dataclasses import dataclass

import numpy as np

from skboost._math import count_moments, sigmoid
from skboost._parallel import row_blocks
from skboost.serving._plain import between_thresholds, checked_offset, checked_rows


@dataclass
class GroupedFactor:
    """A factor: labels of its columns, groups, positions of slopes, intercept or not,
    effects.

    Draws of effects are (n_groups + 1, n_effects, n_draws), the last of an unseen
    group.
    """

    name: str
    columns: tuple
    labels: tuple
    present: object
    slopes: object
    intercept: bool = True
    effects: object = None

    @property
    def n_effects(self):
        """Effects of every group."""
        return len(self.slopes) + self.intercept

    @property
    def fitted_effects(self):
        """Effects of the groups of the fit."""
        return self.effects[:-1]

    def codes(self, values):
        """Groups of rows by the values of their columns; -1 where there is none."""
        parts = map(positions, self.labels, values)
        places, seen = zip(*parts, strict=True)
        code = np.ravel_multi_index(places, [len(labels) for labels in self.labels])
        place, exists = positions(self.present, code)
        return np.where(exists & np.all(seen, axis=0), place, -1)

    def columns_of(self, numbers):
        """What the effects of a row's group multiply: ones, then slopes."""
        ones = np.ones((len(numbers), int(self.intercept)))
        return np.column_stack([ones, numbers[:, self.slopes]])

    def added(self, numbers, codes):
        """What the effects add to the linear predictors of rows, (n, n_draws)."""
        return np.einsum("nq,nqs->ns", self.columns_of(numbers), self.effects[codes])


def positions(labels, values):
    """Places of values among sorted labels, and which of them are there."""
    values = np.asarray(values)
    if labels.dtype.kind == "U":
        values = values.astype(str)
    place = np.minimum(np.searchsorted(labels, values), len(labels) - 1)
    return place, labels[place] == values


@dataclass
class GroupedModel:
    """Rows in, linear predictors under every draw of the posterior out.

    `numbers` is the step for other columns, `coef` (n_draws, n_numbers [+ 1]); `noise`
    is the scale, or dispersion (n_draws,), or (n_draws, K - 2) gaps of ordered classes.
    """

    n_features: int
    numbers: object
    factors: tuple
    coef: object
    noise: object = None

    def split(self, X, offset=None):
        """Numbers of rows, their groups by factor, and their offsets."""
        X = np.asarray(X)
        numbers = checked_rows(X, self.n_features, self.numbers)
        codes = [f.codes([X[:, c] for c in f.columns]) for f in self.factors]
        return numbers, codes, checked_offset(offset, len(numbers))

    def predictors(self, numbers, codes, offset=None):
        """Blocks of rows with their linear predictors, (n, n_draws); codes of None
        have no part."""
        for rows in row_blocks(len(numbers), 4 * len(self.coef)):
            block = numbers[rows]
            eta = block @ self.coef[:, : block.shape[1]].T
            if self.coef.shape[1] > block.shape[1]:
                eta += self.coef[:, -1]
            if offset is not None:
                eta += offset[rows, None]
            for factor, code in zip(self.factors, codes, strict=True):
                if code is not None:
                    eta += factor.added(block, code[rows])
            yield rows, eta


@dataclass
class GroupedRegressor(GroupedModel):
    """One response with noise; `noise_std` is that of noise whose scale is one."""

    noise_std: float = 1.0

    def predict(self, X, return_std=False, offset=None):
        """Predictive mean, and its standard deviation with the noise."""
        mean, std = self.mean_and_std(*self.split(X, offset))
        return (mean, std) if return_std else mean

    def mean_and_std(self, numbers, codes, offset=None):
        """Both for rows that were split."""
        out = np.empty((2, len(numbers)))
        square = self.noise_std**2 * (self.noise**2).mean()
        for rows, eta in self.predictors(numbers, codes, offset):
            out[:, rows] = eta.mean(axis=1), np.sqrt(eta.var(axis=1) + square)
        return out[0], out[1]


@dataclass
class GroupedClassifier(GroupedModel):
    """Two classes."""

    classes: object = None
    # See `Classifier`.
    ranks = None

    def predict_proba(self, X, offset=None):
        """Probabilities of both classes, (n_samples, 2)."""
        return self.proba(*self.split(X, offset))

    def proba(self, numbers, codes, offset=None):
        """The same for rows that were split, (n_samples, n_classes)."""
        out = np.empty((len(numbers), len(self.classes)))
        for rows, eta in self.predictors(numbers, codes, offset):
            out[rows] = self.drawn(eta).mean(axis=1)
        return out

    averaged = proba

    def drawn(self, eta):
        """The same under every draw, (n, n_draws, n_classes)."""
        positive = sigmoid(eta)
        return np.stack([1.0 - positive, positive], axis=2)

    def predict(self, X, offset=None):
        """More probable class of every row."""
        return self.classes[self.predict_proba(X, offset).argmax(axis=1)]


@dataclass
class GroupedOrdinal(GroupedClassifier):
    """Ordered classes."""

    ranks: object = None

    @property
    def thresholds(self):
        """Increasing, (n_draws, K - 1), of linear predictors with their intercept."""
        gaps = np.empty((len(self.coef), len(self.classes) - 1))
        gaps[:, 0] = 0.0
        if self.noise is not None:
            gaps[:, 1:] = np.reshape(self.noise, (len(gaps), -1))
        return gaps.cumsum(axis=1)

    def drawn(self, eta):
        """Of all classes."""
        return between_thresholds(self.thresholds, eta, self.ranks)


@dataclass
class GroupedCounts(GroupedModel):
    """Counts with the logarithm as link."""

    def predict(self, X, offset=None, return_std=False):
        """Predictive mean, and the standard deviation of the count."""
        mean, std = self.mean_and_std(*self.split(X, offset))
        return (mean, std) if return_std else mean

    def mean_and_std(self, numbers, codes, offset=None):
        """Both for rows that were split; an offset of None is zero."""
        out = np.empty((2, len(numbers)))
        for rows, eta in self.predictors(numbers, codes, offset):
            out[:, rows] = count_moments(eta, self.noise)
        return out[0], np.sqrt(out[1])
