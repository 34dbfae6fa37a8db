"""Normal noise and several factors: group effects are integrated out in closed form.

As with one factor rows enter once, through sums over them; with H of `Precision` at the
weights 1 / sigma_y^2 and b = S Z'W (y - X beta) / sigma_y^2,

    ln p(y | beta, sigma, sigma_y) = -m/2 ln(2 pi sigma_y^2) - r'Wr / (2 sigma_y^2)
        - ln|H| / 2 + b' H^-1 b / 2.
"""

import numpy as np

from skboost._math import LOG_2PI
from skboost.hierarchy._crossed import CrossedEffects, Precision
from skboost.hierarchy._normal import Residuals
from skboost.targets import bounded_exp


class CrossedNormalMarginal:
    """Log likelihood of a linear model with normal noise and several factors."""

    has_noise, cheap, exact = True, False, True

    def __init__(self, rows):
        rows = rows.sorted()
        self.design = Residuals(rows)
        self.crossed = CrossedEffects(rows.factors)
        self.gram = self.crossed.gram(rows.weight)
        self.pulled = self.crossed.pulled(self.design.weighted)

    def value_and_score(self, beta, levels, noise_level):
        """Log likelihood of each draw, and its gradient; see `NormalMarginal`."""
        value = np.empty(len(beta))
        score = np.empty((len(beta), beta.shape[1] + levels.shape[1] + 1))
        for s, given in enumerate(self._given(beta, levels, noise_level)):
            h, ratio, noise, b, v, precision = given
            root, mass = self.design.root @ h / noise, self.design.mass
            pulled = root @ self.design.root / noise
            square, quadratic = root @ root, b @ v
            value[s] = -0.5 * (mass * (LOG_2PI + 2.0 * np.log(noise)) + square)
            value[s] += 0.5 * (quadratic - precision.log_det)
            slope = pulled - (v * ratio) @ self.pulled / noise
            each = v**2 - 1.0 + precision.inverse.diagonal
            lost = square - mass - quadratic - each.sum()
            score[s] = [*slope[:-1], *self.crossed.by_scale(each), lost]
        return value, score

    def effects(self, normals, beta, levels, noise_level):
        """Draws of the group effects given everything else; see `NormalMarginal`."""
        normal = self.crossed.joined(normals)
        out = np.empty((2, *normal.shape))
        for s, given in enumerate(self._given(beta, levels, noise_level)):
            _, ratio, noise, _, v, precision = given
            spread, scale = precision.spread(normal[s]), ratio * noise
            out[:, s] = scale * (v + spread), scale * (v - spread)
        return self.crossed.by_factor(out)

    def _given(self, beta, levels, noise_level):
        """What both need at each draw."""
        scales = bounded_exp(levels)[:, self.crossed.scale_of]
        for h, scale, noise in zip(
            self.design.at(beta), scales, bounded_exp(noise_level), strict=True
        ):
            ratio = scale / noise
            precision = Precision(self.gram, ratio)
            b = ratio * (self.pulled @ h) / noise
            yield h, ratio, noise, b, precision.solve(b), precision
