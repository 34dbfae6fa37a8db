"""Normal noise: group effects are integrated out in closed form.

Rows enter once, through sums over them: with s_j = Z_j' W (y - X beta) and
A_j = Z_j' W Z_j, effects of covariance L L' and E = L / sigma_y,

    ln p(y | beta, sigma, sigma_y) = -m/2 ln(2 pi sigma_y^2) - r'Wr / (2 sigma_y^2)
        + sum_j [ -ln|K_j| / 2 + b_j' K_j^-1 b_j / 2 ],

    K_j = I + E' A_j E,   b_j = E' s_j / sigma_y,   v_j = K_j^-1 b_j.

Lindstrom and Bates 1988, Newton-Raphson and EM algorithms for linear mixed-effects
models (Journal of the American Statistical Association 83), have the same reduction.
"""

import numpy as np

from skboost._math import LOG_2PI
from skboost._parallel import row_blocks
from skboost.hierarchy._covariances import (
    Conditional,
    Covariances,
    cholesky,
    inverse_and_log_det,
)
from skboost.hierarchy._marginal import Marginal
from skboost.hierarchy._rows import Residuals, no_groups, sums_of
from skboost.targets import bounded_exp


class NormalMarginal(Marginal):
    """Log likelihood of a linear model with normal noise and one factor at most."""

    way, lattice_dim = "in closed form", 3
    # Index of the factor whose groups are independent given all coefficients.
    main = 0

    @property
    def cost(self):
        """See `Marginal`: few small matrices are free."""
        few = self.n_effects < 2 or self.squares.size <= 1 << 7
        return "free" if few and self.blocks.size <= 1 << 12 else "much"

    def __init__(self, rows, n_effects=0):
        # The first columns of X may be effects.
        design = Residuals(rows, n_effects)
        self.design, weighted = design, design.weighted(rows)
        factor = rows.factors[0] if rows.factors else no_groups(len(rows.y))
        self.n_effects = factor.n_effects if rows.factors else 0
        self.covariances = Covariances.of(rows.factors)
        Z = factor.columns
        q = Z.shape[1]
        pairs = Z[:, :, None] * (rows.weight[:, None] * Z)[:, None]
        squares = sums_of(factor, pairs.reshape(-1, q * q)).T
        crossed = [sums_of(factor, column[:, None] * weighted) for column in Z.T]
        self.crossed = crossed = np.stack(crossed)
        # Groups with the same A_j share their matrices.
        kinds, kind = np.unique(squares, axis=1, return_inverse=True)
        self.kind = kind.ravel()
        self.squares = kinds.reshape(q, q, -1)
        self.n_of_kind = np.bincount(self.kind, minlength=kinds.shape[1]).astype(float)
        # Groups of one kind stand together.
        order = np.argsort(self.kind, kind="stable")
        self.member = self.kind[order]
        self.blocks = np.ascontiguousarray(crossed[:, order])

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
        wide = ratio[..., None]
        half = product(self.squares[:, :, None], wide)
        scaled = product(wide.swapaxes(0, 1), half)
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


def product(left, right):
    """Products of small matrices, their axes first, whatever follows.

    One factor at a time: `einsum` runs over the few numbers of one of these matrices
    in place of many matrices, for ten times the seconds.
    """
    out = left[:, :1] * right[:1]
    for k in range(1, len(right)):
        out += left[:, k : k + 1] * right[k : k + 1]
    return out
