"""Normal noise and one factor: group effects are integrated out in closed form.

Rows enter once, through sums over them: with s_j = Z_j' W (y - X beta) and
A_j = Z_j' W Z_j, D = diag(sigma^2) and E = D^(1/2) / sigma_y,

    ln p(y | beta, sigma, sigma_y) = -m/2 ln(2 pi sigma_y^2) - r'Wr / (2 sigma_y^2)
        + sum_j [ -ln|K_j| / 2 + b_j' K_j^-1 b_j / 2 ],

    K_j = I + E A_j E,   b_j = E s_j / sigma_y,   v_j = K_j^-1 b_j.

Lindstrom and Bates 1988, Newton-Raphson and EM algorithms for linear mixed-effects
models (Journal of the American Statistical Association 83), have the same reduction.
"""

import numpy as np

from skboost._math import LOG_2PI
from skboost._parallel import row_blocks
from skboost.hierarchy._conditional import (
    Conditional,
    cholesky,
    inverse_and_log_det,
)
from skboost.hierarchy._rows import Factor
from skboost.targets import bounded_exp


class NormalMarginal:
    """Log likelihood of a linear model with normal noise and one factor at most."""

    has_noise = exact = True

    @property
    def cheap(self):
        """Whether many thousands of draws cost little: of few small matrices.

        A draw then costs no more than one of the surrogate that would stand for it.
        """
        few = self.n_effects < 2 or self.squares.size <= 1 << 7
        return few and self.blocks.size <= 1 << 12

    def __init__(self, rows):
        design = Residuals(rows)
        self.design, weighted = design, design.weighted
        factor = rows.factors[0] if rows.factors else _no_groups(len(rows.y))
        self.n_effects = factor.n_effects if rows.factors else 0
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
        score = np.empty((n, n_columns + self.n_effects + 1))
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
        value = -0.5 * (mass * (LOG_2PI + 2.0 * noise_level) + square)
        slope = pulled[:, :-1] / (noise**2)[:, None]
        if not self.n_effects:
            return value, np.column_stack([slope, square - mass])
        ratio = bounded_exp(levels.T) / noise
        inverse, log_det, b, v = self._solved(h, ratio, noise, self.blocks, self.member)
        quadratic = np.einsum("qsb,qsb->s", b, v)
        value += 0.5 * quadratic - 0.5 * log_det @ self.n_of_kind
        for effect, block, size in zip(v, self.blocks, ratio / noise, strict=True):
            slope -= (effect @ block[:, :-1]) * size[:, None]
        diagonal = np.einsum("qqsj,j->sq", inverse, self.n_of_kind)
        sizes = np.einsum("qsb,qsb->sq", v, v)
        by_scale = sizes + diagonal - self.n_of_kind.sum()
        lost = self.n_of_kind.sum() * self.n_effects - diagonal.sum(axis=1)
        by_noise = square - quadratic - sizes.sum(axis=1) + lost - mass
        return value, np.column_stack([slope, by_scale, by_noise])

    def _solved(self, h, ratio, noise, blocks, member):
        """K^-1 (q, q, n_draws, n_kinds), ln|K|, and b and v of groups in `blocks`."""
        scaled = np.einsum("qs,rs,qrj->qrsj", ratio, ratio, self.squares)
        for k in range(self.n_effects):
            scaled[k, k] += 1.0
        inverse, log_det = inverse_and_log_det(scaled)
        b = h @ blocks.swapaxes(1, 2)
        b *= (ratio / noise)[..., None]
        return inverse, log_det, b, np.einsum("qrsb,rsb->qsb", inverse[..., member], b)

    def effects(self, normals, beta, levels, noise_level):
        """Draws of the effects of each factor given everything else, of standard normal
        numbers (n_effects, n_draws, n_groups) and of their negatives, (2, ...).
        """
        if not self.n_effects:
            return ()
        h = self.design.at(beta)
        scale, noise = bounded_exp(levels.T), bounded_exp(noise_level)
        groups = self.crossed, self.kind
        inverse, _, _, v = self._solved(h, scale / noise, noise, *groups)
        size = scale[..., None]
        root = (size[:, None] * cholesky(inverse))[..., self.kind]
        return (Conditional(size * v, root).both(normals[0]),)


class Residuals:
    """Sums of squares of y - X beta as |root h|^2, and weighted columns of [X, y].

    Responses are those that least squares leaves, h is 1 beside what coefficients
    lack to these: no digits are lost where responses or columns lie far from zero.
    """

    def __init__(self, rows):
        self.mass, size = rows.weight.sum(), np.sqrt(rows.weight)[:, None]
        scaled = size * rows.X
        unit = np.maximum(np.abs(scaled).max(axis=0, initial=0.0), 1e-300)
        fitted = np.linalg.lstsq(scaled / unit, size[:, 0] * rows.y, rcond=1e-12)[0]
        self.centre = fitted / unit
        design = np.column_stack([rows.X, rows.y - rows.X @ self.centre])
        self.weighted = design * rows.weight[:, None]
        self.root = np.linalg.qr(size * design, mode="r")

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
