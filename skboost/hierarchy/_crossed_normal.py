"""Normal noise and several factors: group effects are integrated out in closed form.

As with one factor rows enter once, through sums over them; with H of `Precision` at the
weights 1 / sigma_y^2 and b = S'Z'W (y - X beta) / sigma_y^2,

    ln p(y | beta, sigma, sigma_y) = -m/2 ln(2 pi sigma_y^2) - r'Wr / (2 sigma_y^2)
        - ln|H| / 2 + b' H^-1 b / 2.

Normal coefficients are one more factor of one group, whose scales are known: those of
their prior. They are counted from what least squares says, c, so that their prior has
the mean -c, and b lacks c / S there.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skboost._math import LOG_2PI
from skboost._parallel import row_blocks
from skboost._random import EFFECTS, generator
from skboost.hierarchy._crossed import CrossedEffects
from skboost.hierarchy._marginal import Marginal
from skboost.hierarchy._precision import Precision
from skboost.hierarchy._rows import FixedScales, Residuals, coefficients_as_factor
from skboost.targets import bounded_exp

# Effects outside the main factor up to which every draw of effects has a factorisation
# of its own; conjugate gradients for the others end at this share of a squared length,
# or after so many steps; numbers in a block of draws.
_FEW, _LEAST, _MOST_STEPS, _BLOCK = 200, 1e-10, 60, 1 << 20


class CrossedNormalMarginal(Marginal):
    """Log likelihood of a linear model with normal noise and several factors."""

    way = "by sparse matrices"

    def __init__(self, rows, scale=None):
        self.integrates_coefficients = scale is not None
        self.fixed, factors = FixedScales(rows.factors, scale), rows.factors
        if scale is not None:
            factors = *factors, coefficients_as_factor(rows.X)
        rows = replace(rows, factors=factors).sorted()
        self.design = Residuals(rows)
        crossed = CrossedEffects(rows.factors)
        self.gram = crossed.gram(rows.weight)
        self.pairs = self.gram.pairs
        self.pulled = crossed.pulled(self.design.weighted(rows))
        self.quick, self.half = crossed.n_others <= _FEW, None
        if not self.quick:
            # Z' sqrt(W).
            self.half = (crossed.Z.T * np.sqrt(rows.weight)).tocsr()
        self.crossed = crossed.without_rows()
        self.shift = np.zeros(len(crossed.scale_of))
        if scale is not None:
            self.place = np.flatnonzero(crossed.scale_of >= self.fixed.start)
            self.shift[self.place] = self.design.centre / scale

    def __getstate__(self):
        # Effects are drawn by the fit: what is kept holds sums over rows alone.
        return vars(self) | {"half": None}

    def value_and_score(self, beta, levels, noise_level):
        """Log likelihood of each draw, and its gradient; see `NormalMarginal`."""
        value = np.empty(len(beta))
        n_columns = beta.shape[1]
        score = np.empty((len(beta), n_columns + levels.shape[1] + 1))
        for s, (at, v, precision) in enumerate(self._given(beta, levels, noise_level)):
            root = self.design.root @ at.h / at.noise
            pulled = root @ self.design.root / at.noise
            square, quadratic = root @ root + self.shift @ self.shift, at.b @ v
            value[s] = self._height(square - quadratic, at.noise, precision)
            slope = pulled - at.scaling.times(v) @ self.pulled / at.noise
            moved, squares = v + self.shift, precision.squares
            by_level, trace = self.crossed.by_level(at.level, moved, squares)
            lost = square - self.design.mass - quadratic - trace
            score[s] = [*slope[:n_columns], *self.fixed.free(by_level), lost]
        return value, score

    def value(self, beta, levels, noise_level):
        """Log likelihood alone."""
        value = np.empty(len(beta))
        for s, (at, v, precision) in enumerate(self._given(beta, levels, noise_level)):
            root = self.design.root @ at.h / at.noise
            left = root @ root + self.shift @ self.shift - at.b @ v
            value[s] = self._height(left, at.noise, precision)
        return value

    def _height(self, left, noise, precision):
        """Log likelihood by what squares leave in units of the noise."""
        height = self.design.mass * (LOG_2PI + 2.0 * np.log(noise)) + precision.log_det
        # Where noise is next to nothing rounding leaves less than no square.
        return -0.5 * (height + max(left, 0.0))

    def effects(self, normals, beta, levels, noise_level):
        """Draws of the group effects given everything else; see `NormalMarginal`."""
        normal = self.crossed.joined(normals)
        out = np.empty((2, *normal.shape))
        if self.quick:
            given = self._given(beta, levels, noise_level)
            pairs = (
                (at, v, h.spread(z))
                for (at, v, h), z in zip(given, normal, strict=True)
            )
        else:
            pairs = self._drawn(normal, beta, levels, noise_level)
        for s, (at, v, spread) in enumerate(pairs):
            for side, one in enumerate((v + spread, v - spread)):
                out[side, s] = at.noise * at.scaling.times(one)
        if self.integrates_coefficients:
            out[..., self.place] += self.design.centre
        return self.crossed.by_factor(out)

    def _drawn(self, normal, beta, levels, noise_level):
        """Means and deviations of standard normal effects at each draw, by blocks.

        H^-1 times draws from N(0, H), which are S'Z' sqrt(W) e + z of standard normal
        e and z: no draw has a factorisation of its own. (Papandreou and Yuille 2010,
        Gaussian sampling by local perturbations, Advances in Neural Information
        Processing Systems 23.)
        """
        rng, (size, n_rows) = generator(0, EFFECTS), self.half.shape
        drawn = beta, levels, noise_level
        ((_, _, known),) = self._given(*(part.mean(axis=0)[None] for part in drawn))
        for some in row_blocks(len(normal), size + n_rows, _BLOCK):
            block = list(self._points(*(part[some] for part in drawn)))
            scalings = [at.scaling for at in block]
            pulled = self.half @ rng.standard_normal((n_rows, len(block)))
            each = zip(scalings, pulled.T, normal[some], strict=True)
            right = [at.b for at in block] + [s.pulled(e) + z for s, e, z in each]
            found = self._solved(known, 2 * scalings, np.stack(right, axis=1)).T
            yield from zip(block, *np.split(found, 2), strict=True)

    def _solved(self, known, scalings, right):
        """H^-1 times columns, each with its own S, by conjugate gradients that begin
        with the factorised H of other scales; a column that takes many has its own.
        """

        def times(vectors):
            each = zip(scalings, vectors.T, strict=True)
            effects = np.stack([s.times(one) for s, one in each], axis=1)
            each = zip(scalings, self.gram.times(effects).T, strict=True)
            return vectors + np.stack([s.pulled(one) for s, one in each], axis=1)

        found = known.solve(right)
        rest, least = right - times(found), _LEAST * (right * found).sum(axis=0)
        step = pushed = known.solve(rest)
        size = (rest * pushed).sum(axis=0)
        for _ in range(_MOST_STEPS):
            if (size <= least).all():
                break
            moved = times(step)
            share = size / np.maximum((step * moved).sum(axis=0), 1e-300)
            found, rest = found + share * step, rest - share * moved
            pushed = known.solve(rest)
            before, size = size, (rest * pushed).sum(axis=0)
            step = pushed + size / np.maximum(before, 1e-300) * step
        for k in np.flatnonzero(~(size <= least)):
            found[:, k] = Precision(self.gram, scalings[k], self.pairs).solve(
                right[:, k]
            )
        return found

    def coefficients(self, levels, noise_level):
        """Means (n, p) and triangular factors (n, p, p) of coefficients, by draw."""
        scale = self.fixed.scale
        n, p = len(noise_level), len(scale)
        mean, root = np.empty((n, p)), np.empty((n, p, p))
        empty = np.empty((n, 0))
        for s, (_, v, precision) in enumerate(self._given(empty, levels, noise_level)):
            mean[s] = self.design.centre + scale * v[self.place]
            covariance = precision.covariance_of(self.place)
            root[s] = scale[:, None] * np.linalg.cholesky(covariance)
        return mean, root

    def _given(self, beta, levels, noise_level):
        """What all need at each draw: `_Point`, means of effects, and H."""
        for at in self._points(beta, levels, noise_level):
            precision = Precision(self.gram, at.scaling, self.pairs)
            yield at, precision.solve(at.b), precision

    def _points(self, beta, levels, noise_level):
        """What is linear in the responses at each draw."""
        levels = self.fixed.among(levels)
        in_noise = levels.copy()
        in_noise[:, : self.crossed.covariances.n_scales] -= noise_level[:, None]
        known = np.append(np.zeros(len(self.fixed.scale)), 1.0)
        away = self.design.at(beta) if beta.shape[1] else np.tile(known, (len(beta), 1))
        noises = bounded_exp(noise_level)
        scalings = self.crossed.scalings(in_noise)
        for h, scaling, noise, level in zip(
            away, scalings, noises, levels, strict=True
        ):
            b = scaling.pulled(self.pulled @ h) / noise - self.shift
            yield _Point(h, scaling, noise, b, level)


class _Point(NamedTuple):
    """h of `Residuals`, S in units of the noise, the noise, b, and levels at a draw."""

    h: np.ndarray
    scaling: object
    noise: float
    b: np.ndarray
    level: np.ndarray
