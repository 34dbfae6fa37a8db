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


class NormalMarginal:
    """Log likelihood of a linear model with normal noise and one factor at most."""

    n_further, exact = 1, True
    integrates_coefficients = False
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
        squares, trace = self._squares(inverse, v)
        by_level = self.covariances.score(levels, [squares])
        by_noise = square - quadratic - trace - mass
        return value, np.column_stack([slope, by_level, by_noise])

    def _root(self, levels):
        return self.covariances.roots(levels)[self.main]

    def _squares(self, inverse, *effects):
        """M of `Covariances` (q, q, n_draws), and its trace; squares of further
        `effects` (q, n_draws, ...) are added.
        """
        squares = np.einsum("qrsj,j->qrs", inverse, self.n_of_kind)
        squares -= self.n_of_kind.sum() * np.eye(self.n_effects)[..., None]
        for one in effects:
            flat = one.reshape(*one.shape[:2], -1)
            squares += np.einsum("qsb,rsb->qrs", flat, flat)
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
    where S are the scales of their prior. The gradient is Fisher's identity. Effects of
    all factors but the largest are coefficients whose scales are learned; they come
    first, and have no correlations.
    """

    integrates_coefficients = True
    # Every draw factorises a matrix: many thousands of these take two to ten times what
    # a surrogate of the few scales takes.
    cheap = False

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

    def value_and_score(self, beta, levels, noise_level):
        """Log likelihood of each draw of log scales and log noise scale; its gradient.

        The first argument has no columns.
        """
        n = len(noise_level)
        value, score = np.empty(n), np.empty((n, levels.shape[1] + 1))
        for some in row_blocks(n, self.squares.size + self._width):
            value[some], score[some] = self._some(levels[some], noise_level[some])
        return value, score

    @property
    def _width(self):
        return (4 + self.blocks.shape[2]) * self.blocks[
            ..., 0
        ].size + self.design.root.size

    def _some(self, levels, noise_level):
        noise = bounded_exp(noise_level)
        with np.errstate(over="ignore", invalid="ignore"):
            given = self._given(levels, noise)
        return self._judged(given, levels, noise_level)

    def _judged(self, given, levels, noise_level):
        away = np.append(
            -given.scale * given.mean, np.ones((len(noise_level), 1)), axis=1
        )
        quadratic = given.quadratic
        value = -0.5 * (self.design.mass * (LOG_2PI + 2.0 * noise_level) + quadratic)
        value -= given.log_root
        by_prior = (given.mean + self.shift) ** 2 + (given.root**2).sum(axis=2) - 1.0
        by_noise = quadratic - by_prior.sum(axis=1) - self.design.mass
        value[given.lost] = -np.inf
        if not self.n_effects:
            return value, by_noise[:, None]
        value -= 0.5 * given.log_det @ self.n_of_kind
        v = np.einsum("qsbw,sw->qsb", given.effects, away)
        # Deviations of effects as coefficients vary.
        moved = given.effects[..., :-1] * given.scale[:, None]
        moved = np.einsum("qsbp,spr->qsbr", moved, given.root)
        squares = [None] * len(self.covariances.sizes)
        squares[self.main], trace = self._squares(given.inverse, v, moved)
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
        scaled = self.design.root / noise[:, None, None]
        table = scaled.swapaxes(1, 2) @ scaled
        inverse = log_det = effects = None
        if self.n_effects:
            ratio = self._root(levels) / noise
            inverse, log_det = self._inverse(ratio)
            blocks = np.einsum("qrs,qbw->rsbw", ratio / noise, self.blocks)
            effects = np.einsum("qrsb,rsbw->qsbw", inverse[..., self.member], blocks)
            table -= np.einsum("qsbw,qsbx->swx", blocks, effects)
        scale = self._scales(levels)
        unit = np.append(scale, np.ones((len(scale), 1)), axis=1)
        table *= unit[:, :, None] * unit[:, None]
        pull = table[:, :-1, -1] - self.shift
        precision = table[:, :-1, :-1] + np.eye(scale.shape[1])
        root, log_root, lost = _roots(precision)
        pull[lost] = 0.0
        mean = np.einsum("spr,sqr,sq->sp", root, root, pull)
        least = table[:, -1, -1] + self.shift @ self.shift
        # Where noise is next to nothing rounding leaves less than no square.
        quadratic = np.maximum(least - (pull * mean).sum(axis=1), 0.0)
        found = scale, root, log_root, mean, quadratic, lost
        return _GivenScales(*found, inverse, log_det, effects)

    def coefficients(self, levels, noise_level):
        """Means (n, p) and triangular factors (n, p, p) of coefficients, by draw."""
        mean, root = self._coefficients(levels, noise_level)
        return mean[:, self.own], root[:, self.own, self.own]

    def _coefficients(self, levels, noise_level):
        """The same with the effects that stand before them."""
        n, p = len(noise_level), len(self.shift)
        mean, root = np.empty((n, p)), np.empty((n, p, p))
        for some in row_blocks(n, self.squares.size + self._width):
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


def _roots(precision):
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
    none; of effects inverses, log determinants and modes by column.
    """

    scale: np.ndarray
    root: np.ndarray
    log_root: np.ndarray
    mean: np.ndarray
    quadratic: np.ndarray
    lost: np.ndarray
    inverse: np.ndarray | None
    log_det: np.ndarray | None
    effects: np.ndarray | None


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
