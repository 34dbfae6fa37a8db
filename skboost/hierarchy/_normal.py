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
from skboost.hierarchy._conditional import Conditional
from skboost.hierarchy._rows import Factor
from skboost.hierarchy._small import cholesky, inverse_and_log_det
from skboost.targets import bounded_exp


class NormalMarginal:
    """Log likelihood of a linear model with normal noise and one factor at most.

    Parameters
    ----------
    rows : GroupedRows
    """

    has_noise = True

    def __init__(self, rows):
        design = np.column_stack([rows.X, rows.y])
        weighted = design * rows.weight[:, None]
        self.mass, self.gram = rows.weight.sum(), weighted.T @ design
        factor = rows.factors[0] if rows.factors else _no_groups(len(rows.y))
        self.n_effects = factor.n_effects if rows.factors else 0
        Z = factor.columns
        q, width = Z.shape[1], design.shape[1]
        outer = (Z[:, :, None] * (rows.weight[:, None] * Z)[:, None, :]).reshape(
            -1, q * q
        )
        squares = _sums(factor, outer).reshape(-1, q, q)
        crossed = np.empty((factor.n_groups, q, width))
        for k in range(q):
            crossed[:, k] = _sums(factor, Z[:, k, None] * weighted)
        self.crossed = crossed
        # Groups with the same A_j share their matrices.
        flat = squares.reshape(factor.n_groups, q * q)
        flat, self.kind = np.unique(flat, axis=0, return_inverse=True)
        self.kind = self.kind.ravel()
        self.squares = flat.reshape(-1, q, q)
        self.n_of_kind = np.bincount(self.kind, minlength=len(flat)).astype(float)
        self.member, self.blocks = _compressed(crossed, self.kind, len(flat))

    def value_and_score(self, beta, levels, noise_level):
        """Log likelihood of each draw, and its gradient.

        Parameters
        ----------
        beta : ndarray of shape (n_draws, n_columns)
        levels : ndarray of shape (n_draws, n_effects)
            Logarithms of the scales of group effects.
        noise_level : ndarray of shape (n_draws,)
            Logarithm of the noise scale.

        Returns
        -------
        value : ndarray of shape (n_draws,), in nats
        score : ndarray of shape (n_draws, n_columns + n_effects + 1)
        """
        n, n_columns = beta.shape
        value = np.empty(n)
        score = np.empty((n, n_columns + self.n_effects + 1))
        for some in row_blocks(n, 4 * self.blocks[..., 0].size + len(self.gram)):
            value[some], score[some] = self._some(
                beta[some], levels[some], noise_level[some]
            )
        return value, score

    def _some(self, beta, levels, noise_level):
        h = np.column_stack([-beta, np.ones(len(beta))])
        noise = bounded_exp(noise_level)
        pulled = h @ self.gram
        square = np.einsum("sc,sc->s", pulled, h) / noise**2
        value = -0.5 * (self.mass * (LOG_2PI + 2.0 * noise_level) + square)
        slope = pulled[:, :-1] / (noise**2)[:, None]
        if not self.n_effects:
            return value, np.column_stack([slope, square - self.mass])
        ratio = bounded_exp(levels) / noise[:, None]
        inverse, log_det = self._inverses(ratio)
        b, v = self._effects(self.blocks, self.member, h, ratio, noise, inverse)
        quadratic = np.einsum("bsq,bsq->s", b, v)
        value += 0.5 * quadratic - 0.5 * log_det @ self.n_of_kind
        u = v * (ratio / noise[:, None])
        slope -= np.einsum("bsq,bqc->sc", u, self.blocks[..., :-1], optimize=True)
        diagonal = np.einsum("sjqq,j->sq", inverse, self.n_of_kind)
        sizes = np.einsum("bsq,bsq->sq", v, v)
        by_scale = sizes + diagonal - self.n_of_kind.sum()
        lost = self.n_of_kind.sum() * self.n_effects - diagonal.sum(axis=1)
        by_noise = square - quadratic - sizes.sum(axis=1) + lost - self.mass
        return value, np.column_stack([slope, by_scale, by_noise])

    def _inverses(self, ratio):
        """K^-1 (n_draws, n_kinds, q, q) and ln|K| of every kind of group."""
        scaled = ratio[:, None, :, None] * self.squares * ratio[:, None, None, :]
        return inverse_and_log_det(scaled + np.eye(self.n_effects))

    @staticmethod
    def _effects(blocks, member, h, ratio, noise, inverse):
        """b and v of some groups, (n_groups, n_draws, q) each."""
        s = np.einsum("bqc,sc->bsq", blocks, h, optimize=True)
        b = s * (ratio / noise[:, None])
        v = np.einsum("bsqr,bsr->bsq", inverse.swapaxes(0, 1)[member], b)
        return b, v

    def effects(self, normals, beta, levels, noise_level):
        """Draws of the group effects given everything else.

        Parameters
        ----------
        normals : tuple with an ndarray of shape (n_draws, n_groups, n_effects)
            Standard normal numbers, for the factor.
        beta, levels, noise_level
            As in `value_and_score`.

        Returns
        -------
        tuple with an ndarray of shape (2, n_draws, n_groups, n_effects)
            Of these numbers and of their negatives, whose average is the mean.
        """
        if not self.n_effects:
            return ()
        h = np.column_stack([-beta, np.ones(len(beta))])
        scale, noise = bounded_exp(levels), bounded_exp(noise_level)
        ratio = scale / noise[:, None]
        inverse, _ = self._inverses(ratio)
        _, v = self._effects(self.crossed, self.kind, h, ratio, noise, inverse)
        mean = v.swapaxes(0, 1) * scale[:, None]
        root = scale[:, None, :, None] * cholesky(inverse)
        return (Conditional(mean, root[:, self.kind]).both(normals[0]),)


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
    """As few blocks as have the same sums of squares over every kind of group.

    All that is asked of the groups of a kind is quadratic in their blocks, so that the
    triangular factor of many stands for all of them.
    """
    width = crossed[0].size if len(crossed) else 1
    order = np.argsort(kind, kind="stable")
    ends = np.searchsorted(kind[order], np.arange(n_kinds + 1))
    members, blocks = [], []
    for k in range(n_kinds):
        found = crossed[order[ends[k] : ends[k + 1]]].reshape(-1, width)
        if len(found) > width:
            found = np.linalg.qr(found, mode="r")
        blocks.append(found)
        members.append(np.full(len(found), k))
    if not blocks:
        return np.zeros(0, dtype=int), crossed
    return np.concatenate(members), np.concatenate(blocks).reshape(
        -1, *crossed.shape[1:]
    )
