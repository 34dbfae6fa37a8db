"""Normal noise: group effects are integrated out in closed form.

Rows enter once, through sums over them: with s_j = Z_j' W (y - X beta) and
A_j = Z_j' W Z_j, effects of covariance L L' and E = L / sigma_y,

    ln p(y | beta, sigma, sigma_y) = -m/2 ln(2 pi sigma_y^2) - r'Wr / (2 sigma_y^2)
        + sum_j [ -ln|K_j| / 2 + b_j' K_j^-1 b_j / 2 ],

    K_j = I + E' A_j E,   b_j = E' s_j / sigma_y,   v_j = K_j^-1 b_j.

Lindstrom and Bates 1988, Newton-Raphson and EM algorithms for linear mixed-effects
models (Journal of the American Statistical Association 83), have the same reduction.
"""

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skboost._math import LOG_2PI
from skboost._parallel import row_blocks
from skboost.hierarchy._conditional import (
    Conditional,
    cholesky,
    inverse_and_log_det,
)
from skboost.hierarchy._covariances import Covariances
from skboost.hierarchy._rows import Factor, main_factor
from skboost.targets import bounded_exp

# Least eigenvalue of a matrix with a unit diagonal that rounding leaves some digits of.
_LEAST_RESOLVED = 1e-12
# Coordinates up to which surrogates of scales are good from a few hundred points.
_MOST_STOOD_FOR = 4


class NormalMarginal:
    """Log likelihood of a linear model with normal noise and one factor at most."""

    n_further, exact = 1, True
    integrates_coefficients = weighs_scales = False
    # Index of the factor whose groups are independent given all coefficients.
    main = 0

    @property
    def lattice_dim(self):
        """As of `LikelihoodMarginal`: 1,000 nodes or 3,000 are evaluated at once."""
        return 4 if self.blocks.size <= 1 << 12 else 3

    @property
    def cheap(self):
        """Whether many thousands of draws cost little: of few small matrices.

        A draw then costs no more than one of the surrogate that would stand for it.
        """
        few = self.n_effects < 2 or self.squares.size <= 1 << 7
        return few and self.blocks.size <= 1 << 12

    def __init__(self, rows, n_effects=0):
        # The first columns of X may be effects.
        design = Residuals(rows, n_effects)
        self.design, weighted = design, design.weighted(rows)
        factor = rows.factors[0] if rows.factors else _no_groups(len(rows.y))
        self.n_effects = factor.n_effects if rows.factors else 0
        self.covariances = Covariances.of(rows.factors)
        Z = factor.columns
        q = Z.shape[1]
        pairs = Z[:, :, None] * (rows.weight[:, None] * Z)[:, None]
        squares = _sums(factor, pairs.reshape(-1, q * q)).T
        crossed = np.stack([_sums(factor, Z[:, k, None] * weighted) for k in range(q)])
        self.crossed = crossed
        # Groups with the same A_j share their matrices.
        kinds, kind = np.unique(squares, axis=1, return_inverse=True)
        self.kind = kind.ravel()
        self.squares = kinds.reshape(q, q, -1)
        self.n_of_kind = np.bincount(self.kind, minlength=kinds.shape[1]).astype(float)
        self.member, self.blocks = _compressed(crossed, self.kind, kinds.shape[1])

    def value_and_score(self, beta, levels, noise_level):
        """Log likelihood of each draw of coefficients, log scales of effects and log
        noise scale; and its gradient.
        """
        n, n_columns = beta.shape
        value = np.empty(n)
        score = np.empty((n, n_columns + levels.shape[1] + 1))
        for some in row_blocks(n, self.squares.size + 4 * self.blocks[..., 0].size):
            value[some], score[some] = self._some(
                beta[some], levels[some], noise_level[some]
            )
        return value, score

    def _some(self, beta, levels, noise_level):
        h, mass = self.design.at(beta), self.design.mass
        noise = bounded_exp(noise_level)
        root = h @ self.design.root.T
        square = np.einsum("sc,sc->s", root, root) / noise**2
        pulled = root @ self.design.root
        value = -0.5 * mass * (LOG_2PI + 2.0 * noise_level)
        slope = pulled[:, :-1] / (noise**2)[:, None]
        if not self.n_effects:
            return value - 0.5 * square, np.column_stack([slope, square - mass])
        ratio = self._root(levels) / noise
        inverse, log_det, b, v = self._solved(h, ratio, noise, self.blocks, self.member)
        quadratic = np.einsum("qsb,qsb->s", b, v)
        # Where noise is next to nothing rounding leaves less than no square.
        value -= 0.5 * np.maximum(square - quadratic, 0.0)
        value -= 0.5 * log_det @ self.n_of_kind
        effects = np.einsum("qrs,rsb->qsb", ratio / noise, v)
        for effect, block in zip(effects, self.blocks, strict=True):
            slope -= effect @ block[:, :-1]
        squares, trace = self._squares(inverse, np.einsum("qsb,rsb->qrs", v, v))
        by_level = self.covariances.score(levels, [squares])
        by_noise = square - quadratic - trace - mass
        return value, np.column_stack([slope, by_level, by_noise])

    def _root(self, levels):
        return self.covariances.roots(levels)[self.main]

    def _squares(self, inverse, of_means):
        """M of `Covariances` (q, q, n_draws), and its trace, from sums over groups of
        the squares of mean effects.
        """
        squares = of_means + inverse @ self.n_of_kind
        squares -= self.n_of_kind.sum() * np.eye(self.n_effects)[..., None]
        return squares, np.einsum("qqs->s", squares)

    def _solved(self, h, ratio, noise, blocks, member):
        """K^-1 (q, q, n_draws, n_kinds), ln|K|, and b and v of groups in `blocks`."""
        inverse, log_det = self._inverse(ratio)
        b = h @ blocks.swapaxes(1, 2)
        b = np.einsum("qrs,qsb->rsb", ratio / noise, b)
        return inverse, log_det, b, np.einsum("qrsb,rsb->qsb", inverse[..., member], b)

    def _inverse(self, ratio):
        """K^-1 and ln|K| of every kind of group."""
        half = np.einsum("abj,brs->arsj", self.squares, ratio)
        scaled = np.einsum("aqs,arsj->qrsj", ratio, half)
        for k in range(self.n_effects):
            scaled[k, k] += 1.0
        return inverse_and_log_det(scaled)

    def value(self, beta, levels, noise_level):
        """Log likelihood alone."""
        return self.value_and_score(beta, levels, noise_level)[0]

    def effects(self, normals, beta, levels, noise_level):
        """Draws of the effects of each factor given everything else, of standard normal
        numbers (n_effects, n_draws, n_groups) and of their negatives, (2, ...).
        """
        if not self.n_effects:
            return ()
        h = self.design.at(beta)
        outer, noise = self._root(levels), bounded_exp(noise_level)
        groups = self.crossed, self.kind
        inverse, _, _, v = self._solved(h, outer / noise, noise, *groups)
        root = np.einsum("qas,arsj->qrsj", outer, cholesky(inverse))[..., self.kind]
        mean = np.einsum("qrs,rsj->qsj", outer, v)
        return (Conditional(mean, root).both(normals[0]),)


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
    def cheap(self):
        """Whether a surrogate costs more than what it would stand for.

        It does where coordinates are many: of seven one takes thousands of points, and
        five times the seconds of draws of the density itself.
        """
        many = self.covariances.n_levels + 1 > _MOST_STOOD_FOR
        return many and self.n_pairs <= 1 << 12

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
        pulled = _by_effects(pulled, self.n_effects)
        half = np.einsum("absj,brsj->arsj", pulled, given.pushed)
        of_means = np.einsum("aqsj,arsj->qrs", given.pushed, half)
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
            pushed = np.einsum("abs,brsj->arsj", ratio, inverse)
            explained = np.einsum("arsj,brs->sabj", pushed, ratio).reshape(n, -1)
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


def _by_effects(table, q):
    """(q, q, n_draws, n_kinds) of (n_draws, q^2 n_kinds)."""
    return np.moveaxis(table.reshape(len(table), q, q, -1), 0, 2)


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


class Residuals:
    """Sums of squares of y - X beta as |root h|^2, without the rows.

    Responses are those that least squares leaves, h is 1 beside what coefficients
    lack to these: no digits are lost where responses or columns lie far from zero. The
    first `n_effects` columns lie around it, and are not fitted.
    """

    def __init__(self, rows, n_effects=0):
        self.mass, size = rows.weight.sum(), np.sqrt(rows.weight)[:, None]
        scaled = size * rows.X[:, n_effects:]
        unit = np.maximum(np.abs(scaled).max(axis=0, initial=0.0), 1e-300)
        fitted = np.linalg.lstsq(scaled / unit, size[:, 0] * rows.y, rcond=1e-12)[0]
        self.centre = np.append(np.zeros(n_effects), fitted / unit)
        self.root = np.linalg.qr(size * self._columns(rows), mode="r")

    def _columns(self, rows):
        return np.column_stack([rows.X, rows.y - rows.X @ self.centre])

    def weighted(self, rows):
        """Weighted columns of X and of responses that least squares leaves."""
        return self._columns(rows) * rows.weight[:, None]

    def at(self, beta):
        """What the columns are multiplied by, (n_draws, n_columns + 1)."""
        return np.column_stack([self.centre - beta, np.ones(len(beta))])


def _no_groups(n_rows):
    return Factor(np.zeros(n_rows, dtype=int), 0, np.zeros((n_rows, 1)))


def _sums(factor, table):
    """Sums of the rows of a table over every group."""
    sums = [
        np.bincount(factor.codes, column, factor.n_groups)[: factor.n_groups]
        for column in table.T
    ]
    return np.stack(sums, axis=-1)


def _compressed(crossed, kind, n_kinds):
    """As few blocks as have the same sums of squares over every kind of group."""
    # All that is asked of the groups of a kind is quadratic in their blocks, so that
    # the triangular factor of many stands for all of them.
    q, n_groups, width = crossed.shape
    flat = crossed.swapaxes(0, 1).reshape(n_groups, q * width)
    order = np.argsort(kind, kind="stable")
    ends = np.searchsorted(kind[order], np.arange(n_kinds + 1))
    members, blocks = [np.zeros(0, dtype=int)], [flat[:0]]
    for k in range(n_kinds):
        rows = flat[order[ends[k] : ends[k + 1]]]
        if len(rows) > q * width:
            rows = np.linalg.qr(rows, mode="r")
        blocks.append(rows)
        members.append(np.full(len(rows), k))
    blocks = np.concatenate(blocks).reshape(-1, q, width).swapaxes(0, 1)
    return np.concatenate(members), np.ascontiguousarray(blocks)
