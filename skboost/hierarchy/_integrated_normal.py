"""Normal noise: normal coefficients are integrated out beside group effects."""

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skboost._math import LOG_2PI
from skboost._parallel import row_blocks
from skboost.hierarchy._covariances import Covariances, cholesky
from skboost.hierarchy._normal import NormalMarginal, product
from skboost.hierarchy._rows import main_factor
from skboost.targets import bounded_exp

# Least eigenvalue of a matrix with a unit diagonal that rounding leaves some digits of.
_LEAST_RESOLVED = 1e-12


class IntegratedNormalMarginal(NormalMarginal):
    """Log likelihood of scales alone: normal coefficients are integrated out, too.

    Given scales, the log joint density of coefficients is -h'Th / 2 - |beta / S|^2 / 2
    with h of `Residuals` and T = (root'root - sum_j B_j'E K_j^-1 E'B_j) / sigma_y^2,
    where S are the scales of their prior. The gradient is Fisher's identity. Both are
    linear in the sums over groups of one kind of B_j x B_j, so that all draws need two
    matrix products, however many groups there are. Effects of all factors but the
    largest are coefficients whose scales are learned; they come first, and have no
    correlations.
    """

    integrates_coefficients = True

    def __init__(self, rows, scale):
        factors = rows.factors
        self.main = main_factor(factors) if factors else 0
        # Of other factors: the index, the shape of the table, where its columns are.
        self.others, columns, start = [], [], 0
        for f, factor in enumerate(factors):
            if f != self.main:
                shape, stop = (factor.n_groups, factor.n_effects), start + factor.size
                self.others.append((f, shape, slice(start, stop)))
                columns.append(factor.dense())
                start = stop
        X = np.hstack([*columns, rows.X])
        some = factors[self.main : self.main + 1]
        super().__init__(replace(rows, X=X, factors=some), start)
        self.covariances = Covariances.of(factors)
        self.own = slice(start, None)
        self.scale, self.shift = scale, self.design.centre.copy()
        self.shift[self.own] /= scale
        self.least = self.design.root.T @ self.design.root

    @property
    def n_pairs(self):
        """Numbers in `pairs`."""
        return self.squares.size * self.least.size

    @property
    def cost(self):
        """See `Marginal`: ten thousand values take less than a second."""
        return "free" if self.n_pairs <= 1 << 17 else "much"

    @cached_property
    def pairs(self):
        """Sums of B_j x B_j, (q^2 n_kinds, n_columns^2)."""
        q, n, width = self.blocks.shape
        flat = self.blocks.swapaxes(0, 1).reshape(n, q * width)
        ends = np.searchsorted(self.member, np.arange(len(self.n_of_kind) + 1))
        sums = np.empty((len(ends) - 1, q * width, q * width))
        for k, held in enumerate(sums):
            some = flat[ends[k] : ends[k + 1]]
            np.matmul(some.T, some, out=held)
        sums = sums.reshape(-1, q, width, q, width).transpose(1, 3, 0, 2, 4)
        return sums.reshape(-1, width * width)

    def value_and_score(self, beta, levels, noise_level):
        """Log likelihood of each draw of log scales and log noise scale; its gradient.

        The first argument has no columns.
        """
        n = len(noise_level)
        value, score = np.empty(n), np.empty((n, levels.shape[1] + 1))
        for some in row_blocks(n, self._width):
            value[some], score[some] = self._some(levels[some], noise_level[some])
        return value, score

    @property
    def _width(self):
        return 8 * self.squares.size + 4 * self.least.size

    def _some(self, levels, noise_level):
        noise = bounded_exp(noise_level)
        with np.errstate(over="ignore", invalid="ignore"):
            given = self._given(levels, noise)
            return self._judged(given, levels, noise_level)

    def _judged(self, given, levels, noise_level):
        quadratic = given.quadratic
        value = -0.5 * (self.design.mass * (LOG_2PI + 2.0 * noise_level) + quadratic)
        value -= given.log_root
        covariance = given.root @ given.root.swapaxes(1, 2)
        by_prior = (given.mean + self.shift) ** 2 - 1.0
        by_prior += np.einsum("spp->sp", covariance)
        by_noise = quadratic - by_prior.sum(axis=1) - self.design.mass
        value[given.lost] = -np.inf
        if not self.n_effects:
            return value, by_noise[:, None]
        value -= 0.5 * given.log_det @ self.n_of_kind
        # Second moments of h, and what they make of the squares of effects.
        away = np.append(-given.scale * given.mean, np.ones((len(value), 1)), axis=1)
        second = away[:, :, None] * away[:, None]
        second[:, :-1, :-1] += (
            given.scale[:, :, None] * covariance * given.scale[:, None]
        )
        second /= bounded_exp(2.0 * noise_level)[:, None, None]
        pulled = second.reshape(len(value), -1) @ self.pairs.T
        q = self.n_effects
        pulled = np.moveaxis(pulled.reshape(len(pulled), q, q, -1), 0, 2)
        half = product(pulled, given.pushed)
        of_means = product(given.pushed.swapaxes(0, 1), half).sum(axis=-1)
        squares = [None] * len(self.covariances.sizes)
        squares[self.main], trace = self._squares(given.inverse, of_means)
        for f, shape, place in self.others:
            each = by_prior[:, place].reshape(-1, *shape).sum(axis=1).T
            squares[f] = each * np.eye(shape[1])[..., None]
        by_level = self.covariances.score(levels, squares)
        return value, np.column_stack([by_level, by_noise - trace])

    def _scales(self, levels):
        """Standard deviations of the coefficients' prior, (n_draws, n_columns)."""
        known, places = np.tile(self.scale, (len(levels), 1)), self.covariances.places
        learned = [
            np.tile(bounded_exp(levels[:, places[f][0]]), shape[0])
            for f, shape, _ in self.others
        ]
        return np.hstack([*learned, known])

    def _given(self, levels, noise):
        """What scales say of the coefficients, in units of their prior's scales."""
        n, width = len(noise), len(self.least)
        table, inverse, log_det, pushed = np.tile(self.least, (n, 1, 1)), *3 * (None,)
        if self.n_effects:
            ratio = self._root(levels) / noise
            inverse, log_det = self._inverse(ratio)
            wide = ratio[..., None]
            pushed = product(wide, inverse)
            explained = product(pushed, wide.swapaxes(0, 1))
            explained = np.moveaxis(explained, 2, 0).reshape(n, -1)
            table -= (explained @ self.pairs).reshape(n, width, width)
        table /= (noise**2)[:, None, None]
        scale = self._scales(levels)
        unit = np.append(scale, np.ones((len(scale), 1)), axis=1)
        table *= unit[:, :, None] * unit[:, None]
        pull = table[:, :-1, -1] - self.shift
        precision = table[:, :-1, :-1] + np.eye(scale.shape[1])
        root, log_root, lost = roots_of_inverses(precision)
        pull[lost] = 0.0
        mean = np.einsum("spr,sqr,sq->sp", root, root, pull)
        least = table[:, -1, -1] + self.shift @ self.shift
        # Where noise is next to nothing rounding leaves less than no square.
        quadratic = np.maximum(least - (pull * mean).sum(axis=1), 0.0)
        found = scale, root, log_root, mean, quadratic, lost
        return _GivenScales(*found, inverse, log_det, pushed)

    def value(self, beta, levels, noise_level):
        """Log likelihood alone, for a fifth of what the gradient takes.

        The triangular factor of T, bordered by its last row, has the determinant and
        the least squares at once; draws are the last axis, along which NumPy runs.
        """
        value = np.empty(len(noise_level))
        width = self._width // 4
        for some in row_blocks(len(value), width):
            with np.errstate(over="ignore", invalid="ignore"):
                value[some] = self._value(levels[some], noise_level[some])
        return value

    def _value(self, levels, noise_level):
        n, noise = len(noise_level), bounded_exp(noise_level)
        value = -0.5 * self.design.mass * (LOG_2PI + 2.0 * noise_level)
        table = np.repeat(self.least[self._lower][:, None], n, axis=1)
        if self.n_effects:
            ratio = self._root(levels) / noise
            inverse, log_det = self._inverse(ratio)
            value -= 0.5 * (self.n_of_kind @ log_det.T)
            wide = ratio[..., None]
            explained = product(product(wide, inverse), wide.swapaxes(0, 1))
            explained = explained[np.tril_indices(self.n_effects)]
            explained = explained.swapaxes(0, 1).reshape(n, -1)
            table -= self._lower_pairs @ explained.T
        return value + self._of_table(table / noise**2, levels)

    def _of_table(self, table, levels):
        """What T, its lower triangle (..., n_draws), adds to the log likelihood."""
        width, (row, column) = len(self.least), self._lower
        unit = np.vstack([self._scales(levels).T, np.ones(len(levels))])
        precision = np.zeros((width, width, len(levels)))
        precision[row, column] = table * unit[row] * unit[column]
        precision[-1, :-1] -= self.shift[:, None]
        precision[-1, -1] += self.shift @ self.shift
        diagonal = np.einsum("kks->ks", precision)
        diagonal[:-1] += 1.0
        lost = ~np.isfinite(diagonal).all(axis=0) | (diagonal[:-1] < 0.5).any(axis=0)
        precision[..., lost] = np.eye(width)[..., None]
        root, pivots = cholesky(precision), diagonal[:-1].copy()
        own = np.einsum("kks->ks", root)[:-1]
        lost |= (own**2 < _LEAST_RESOLVED * pivots).any(axis=0)
        rest = precision[-1, -1] - np.einsum("ks,ks->s", root[-1, :-1], root[-1, :-1])
        # Where noise is next to nothing rounding leaves less than no square.
        value = -0.5 * np.maximum(rest, 0.0) - np.log(own).sum(axis=0)
        return np.where(lost, -np.inf, value)

    @cached_property
    def _lower(self):
        return np.tril_indices(len(self.least))

    @cached_property
    def _lower_pairs(self):
        """`pairs` of lower triangles, where what is above the diagonal counts, too."""
        q, width = self.n_effects, len(self.least)
        pairs = self.pairs.reshape(q, q, -1, width, width)
        row, column = np.tril_indices(q)
        both = (
            pairs[row, column]
            + pairs[column, row] * (row > column)[:, None, None, None]
        )
        return both[..., *self._lower].reshape(-1, len(self._lower[0])).T.copy()

    def coefficients(self, levels, noise_level):
        """Means (n, p) and triangular factors (n, p, p) of coefficients, by draw."""
        mean, root = self._coefficients(levels, noise_level)
        return mean[:, self.own], root[:, self.own, self.own]

    def _coefficients(self, levels, noise_level):
        """The same with the effects that stand before them."""
        n, p = len(noise_level), len(self.shift)
        mean, root = np.empty((n, p)), np.empty((n, p, p))
        for some in row_blocks(n, self._width):
            given = self._given(levels[some], bounded_exp(noise_level[some]))
            mean[some] = self.design.centre + given.scale * given.mean
            root[some] = given.scale[:, :, None] * given.root
        return mean, root

    def effects(self, normals, beta, levels, noise_level):
        """As `NormalMarginal.effects`; the last table is that of the coefficients."""
        n, last = len(noise_level), normals[-1][..., 0].T
        others = [normals[f].transpose(1, 2, 0) for f, *_ in self.others]
        white = np.hstack([*(part.reshape(n, -1) for part in others), last])
        mean, root = self._coefficients(levels, noise_level)
        away = np.einsum("spr,sr->sp", root, white)
        tables = [[] for _ in normals]
        for side, coef in enumerate((mean + away, mean - away)):
            if self.n_effects:
                own = normals[self.main : self.main + 1]
                (drawn,) = super().effects(own, coef, levels, noise_level)
                tables[self.main].append(drawn[side])
            for f, shape, place in self.others:
                tables[f].append(coef[:, place].reshape(n, *shape).transpose(2, 0, 1))
            tables[-1].append(coef[:, self.own].T[..., None])
        return tuple(np.stack(pair) for pair in tables)


def roots_of_inverses(precision):
    """Triangular factors of inverses, log determinants of the factors of matrices, and
    which of these rounding has left without one: a wall.
    """
    diagonal = np.einsum("skk->sk", precision)
    # All are above unit matrices.
    lost = ~np.isfinite(precision).all(axis=(1, 2)) | (diagonal < 0.5).any(axis=1)
    unit = np.sqrt(np.where(lost[:, None], 1.0, diagonal))
    even = precision / (unit[:, :, None] * unit[:, None])
    even[lost] = np.eye(precision.shape[1])
    try:
        root = np.linalg.cholesky(even)
    except np.linalg.LinAlgError:
        lost |= np.linalg.eigvalsh(even)[:, 0] < _LEAST_RESOLVED
        even[lost] = np.eye(precision.shape[1])
        root = np.linalg.cholesky(even)
    log_root = (np.log(np.einsum("skk->sk", root)) + np.log(unit)).sum(axis=1)
    inverse = np.linalg.inv(root).swapaxes(1, 2)
    return inverse / unit[:, :, None], log_root, lost


class _GivenScales(NamedTuple):
    """Of coefficients the scales of their prior, factors of covariances, log
    determinants of those of precisions, means, the least squares and where there are
    none; of effects inverses K^-1, log determinants and E K^-1.
    """

    scale: np.ndarray
    root: np.ndarray
    log_root: np.ndarray
    mean: np.ndarray
    quadratic: np.ndarray
    lost: np.ndarray
    inverse: np.ndarray | None
    log_det: np.ndarray | None
    pushed: np.ndarray | None
