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

import numpy as np

from skboost._math import LOG_2PI
from skboost.hierarchy._crossed import CrossedEffects, Precision
from skboost.hierarchy._group_sums import Residuals
from skboost.hierarchy._rows import FixedScales, coefficients_as_factor
from skboost.targets import bounded_exp


class CrossedNormalMarginal:
    """Log likelihood of a linear model with normal noise and several factors."""

    n_further, cheap, exact, weighs_scales = 1, False, True, False
    # As of `LikelihoodMarginal`.
    lattice_dim = 2

    def __init__(self, rows, scale=None):
        self.integrates_coefficients = scale is not None
        self.fixed, factors = FixedScales(rows.factors, scale), rows.factors
        if scale is not None:
            factors = *factors, coefficients_as_factor(rows.X)
        rows = replace(rows, factors=factors).sorted()
        self.design = Residuals(rows)
        crossed = CrossedEffects(rows.factors)
        self.gram = crossed.gram(rows.weight)
        self.pulled = crossed.pulled(self.design.weighted(rows))
        self.crossed = crossed.without_rows()
        self.shift = np.zeros(len(crossed.scale_of))
        if scale is not None:
            self.place = np.flatnonzero(crossed.scale_of >= self.fixed.start)
            self.shift[self.place] = self.design.centre / scale

    def value_and_score(self, beta, levels, noise_level):
        """Log likelihood of each draw, and its gradient; see `NormalMarginal`."""
        value = np.empty(len(beta))
        n_columns = beta.shape[1]
        score = np.empty((len(beta), n_columns + levels.shape[1] + 1))
        for s, given in enumerate(self._given(beta, levels, noise_level)):
            h, ratio, noise, b, v, precision, level = given
            root, mass = self.design.root @ h / noise, self.design.mass
            pulled = root @ self.design.root / noise
            square, quadratic = root @ root + self.shift @ self.shift, b @ v
            # Where noise is next to nothing rounding leaves less than no square.
            value[s] = -0.5 * (mass * (LOG_2PI + 2.0 * np.log(noise)))
            value[s] -= 0.5 * (max(square - quadratic, 0.0) + precision.log_det)
            slope = pulled - ratio.times(v) @ self.pulled / noise
            moved = v + self.shift
            by_level, trace = self.crossed.by_level(level, moved, precision.inverse)
            lost = square - mass - quadratic - trace
            score[s] = [*slope[:n_columns], *self.fixed.free(by_level), lost]
        return value, score

    def value(self, beta, levels, noise_level):
        """Log likelihood alone."""
        return self.value_and_score(beta, levels, noise_level)[0]

    def effects(self, normals, beta, levels, noise_level):
        """Draws of the group effects given everything else; see `NormalMarginal`."""
        normal = self.crossed.joined(normals)
        out = np.empty((2, *normal.shape))
        for s, given in enumerate(self._given(beta, levels, noise_level)):
            _, ratio, noise, _, v, precision, _ = given
            spread = precision.spread(normal[s])
            for side, one in enumerate((v + spread, v - spread)):
                out[side, s] = noise * ratio.times(one)
        if self.integrates_coefficients:
            out[..., self.place] += self.design.centre
        return self.crossed.by_factor(out)

    def coefficients(self, levels, noise_level):
        """Means (n, p) and triangular factors (n, p, p) of coefficients, by draw."""
        scale = self.fixed.scale
        n, p = len(noise_level), len(scale)
        mean, root = np.empty((n, p)), np.empty((n, p, p))
        empty = np.empty((n, 0))
        for s, given in enumerate(self._given(empty, levels, noise_level)):
            *_, v, precision, _ = given
            mean[s] = self.design.centre + scale * v[self.place]
            covariance = precision.covariance_of(self.place)
            root[s] = scale[:, None] * np.linalg.cholesky(covariance)
        return mean, root

    def _given(self, beta, levels, noise_level):
        """What both need at each draw."""
        levels = self.fixed.among(levels)
        in_noise = levels.copy()
        in_noise[:, : self.crossed.covariances.n_scales] -= noise_level[:, None]
        known = np.append(np.zeros(len(self.fixed.scale)), 1.0)
        away = self.design.at(beta) if beta.shape[1] else np.tile(known, (len(beta), 1))
        noises = bounded_exp(noise_level)
        scalings = self.crossed.scalings(in_noise)
        for h, ratio, noise, level in zip(away, scalings, noises, levels, strict=True):
            precision = Precision(self.gram, ratio)
            b = ratio.pulled(self.pulled @ h) / noise - self.shift
            yield h, ratio, noise, b, precision.solve(b), precision, level
