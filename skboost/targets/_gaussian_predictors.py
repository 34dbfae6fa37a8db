"""Linear predictors of a block of rows under Gaussian parameters, and back."""

from typing import NamedTuple

import numpy as np

# Relative difference of factors that are one up to rounding.
_ROUNDING = 1e-12


def predictor_pairs(n_outputs):
    """Pairs of linear predictors, in the order of ``numpy.triu_indices``."""
    return list(zip(*np.triu_indices(n_outputs), strict=True))


class GaussianPredictors:
    """Means and covariances of the linear predictors of every row.

    Under parameters N(mean, diag(variance) + factor factor^T), one linear predictor's
    parameters after the other's.

    Parameters
    ----------
    block : Block
    n_outputs : int
        Linear predictors of a row.
    mean : array (n_outputs * dim,)
    variance : array (n_outputs * dim,) or None
    factor : array (n_outputs * dim, rank) or None

    Attributes
    ----------
    mean : array (n_outputs, n_rows)
    covariance : array (n_pairs, n_rows)
        In the order of ``numpy.triu_indices``.
    """

    def __init__(self, block, n_outputs, mean, variance, factor):
        self._block, self._n_outputs = block, n_outputs
        self._with_variance = variance is not None
        self._pairs = predictor_pairs(n_outputs)
        self.mean = np.stack([block.predict(m) for m in mean.reshape(n_outputs, -1)])
        self.covariance = np.zeros((len(self._pairs), self.mean.shape[1]))
        if variance is not None:
            each = variance.reshape(n_outputs, -1)
            for pair, (k, m) in enumerate(self._pairs):
                if k == m:
                    self.covariance[pair] += block.apply_squares(each[k])
        self._spread = None
        if factor is not None:
            each = factor.reshape(n_outputs, -1, factor.shape[1])
            self._spread = [block.apply(part) for part in each]
            for pair, (k, m) in enumerate(self._pairs):
                self.covariance[pair] += np.einsum(
                    "ij,ij->i", self._spread[k], self._spread[m]
                )

    def pull_mean(self, slope):
        """Gradient in the parameters' mean from slopes (n_outputs, n_rows)."""
        return np.concatenate([self._block.pull(each) for each in slope])

    def pull(self, slope, bend):
        """Gradients in mean, variance and factor, those that were given.

        Parameters
        ----------
        slope : array (n_outputs, n_rows)
            Derivatives in the means of the predictors.
        bend : array (n_pairs, n_rows)
            Minus twice the derivatives in their covariances; free to be overwritten.

        Returns
        -------
        list of arrays
        """
        result = [self.pull_mean(slope)]
        if self._with_variance:
            parts = [
                self._block.pull_squares(bend[pair])
                for pair, (k, m) in enumerate(self._pairs)
                if k == m
            ]
            result.append(-0.5 * np.concatenate(parts))
        if self._spread is not None:
            result.append(-np.concatenate(self._pull_spread(bend)))
        return result

    def _pull_spread(self, bend):
        if self._n_outputs == 1:
            self._spread[0] *= bend[0][:, None]
            return [self._block.pull(self._spread[0])]
        total = [np.zeros_like(spread) for spread in self._spread]
        for pair, (k, m) in enumerate(self._pairs):
            total[k] += bend[pair][:, None] * self._spread[m]
            if k != m:
                total[m] += bend[pair][:, None] * self._spread[k]
        return [self._block.pull(each) for each in total]

    def grams(self, bend):
        """``sum_i bend_i x_i x_i^T`` for every pair of predictors, as one matrix."""
        n_outputs = self._n_outputs
        grams = [signed_gram(self._block, each) for each in bend]
        dim = len(grams[0])
        out = np.empty((n_outputs, dim, n_outputs, dim))
        for gram, (k, m) in zip(grams, self._pairs, strict=True):
            out[k, :, m] = out[m, :, k] = gram
        return out.reshape(n_outputs * dim, n_outputs * dim)


def signed_gram(block, weights):
    """``X^T diag(weights) X`` for weights of any sign; one product where one serves."""
    if weights.min() >= 0.0:
        return block.gram(weights)
    if weights.max() <= 0.0:
        return -block.gram(-weights)
    return block.gram(np.maximum(weights, 0.0)) - block.gram(np.maximum(-weights, 0.0))


class SharedShapes(NamedTuple):
    """Several Gaussians, of which some have covariances that are multiples.

    A full covariance costs ``n dim^2`` operations for its predictors' variances. Copies
    of one component that were moved or rescaled have the same ones up to a factor.

    Attributes
    ----------
    shapes : list of (variance, factor)
        Those that are told apart.
    members : list of (mean, shape, scale)
        Every Gaussian: which shape it has, and by what its covariance is multiplied.
    """

    shapes: list
    members: list

    @classmethod
    def of(cls, structures):
        """Of (mean, variance, factor), as `GLMTarget.expected_log_density` has them."""
        shapes, members = [], []
        for mean, *shape in structures:
            shape = (*shape, None, None)[:2]
            ratios = [_ratio(shape, known) for known in shapes]
            same = [k for k, ratio in enumerate(ratios) if ratio is not None]
            if same:
                members.append((mean, same[0], ratios[same[0]] ** 2))
            else:
                members.append((mean, len(shapes), 1.0))
                shapes.append(shape)
        return cls(shapes, members)

    @property
    def dim(self):
        """Number of parameters."""
        return len(self.members[0][0])


def _ratio(shape, known):
    """By what one factor is a multiple of another; None where it is not."""
    (variance, factor), (other_variance, other) = shape, known
    if not (variance is None and other_variance is None):
        return None
    if factor is None or other is None or factor.shape != other.shape:
        return None
    largest = np.unravel_index(np.abs(other).argmax(), other.shape)
    ratio = factor[largest] / other[largest] if other[largest] else 0.0
    same = np.abs(factor - ratio * other) <= _ROUNDING * np.abs(factor)
    return ratio if same.all() else None
