"""Several factors and any likelihood: Laplace's approximation.

Of standard normal v, u = S v, with h(v) the log likelihood minus |v|^2 / 2,

    ln p(y | beta, sigma) ~ h(v^) - ln|H| / 2,   v^ = argmax h,   H = -h''(v^),

and the gradient follows by implicit differentiation of the mode: with l_i the
leverages diag(Z S H^-1 S' Z') and c_i the third derivatives of rows in eta,
a = -H^-1 S'Z' (c l) moves the mode to the mean to first order, v^ - a / 2.

Where rows are not log-concave, ln|H| and the leverages have curvatures that are kept
positive, with c their derivatives, and only moves of the mode the Hessian itself.

Tierney and Kadane 1986, Accurate approximations for posterior moments and marginal
densities (Journal of the American Statistical Association 81); for its gradient
Kristensen, Nielsen, Berg, Skaug and Bell 2016, TMB: automatic differentiation and
Laplace approximation (Journal of Statistical Software 70).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack

from skboost.hierarchy._crossed import CrossedEffects, Precision
from skboost.hierarchy._marginal import LikelihoodMarginal
from skboost.hierarchy._quadrature import QuadratureMarginal
from skboost.hierarchy._rows import FixedScales, coefficients_as_factor, main_factor

# Newton steps at most. One shorter than the tolerance leaves an error of its square; of
# rows that are not log-concave, where steps get shorter by a factor, one of its size.
_MAX_STEPS, _TOLERANCE = 50, 1e-4
# Share of the draws that weigh as much as all do below which quadrature is worth it.
_FEW_EFFECTIVE = 0.5


class LaplaceMarginal(LikelihoodMarginal):
    """Log likelihood of several factors; `weighted_effects` corrects it.

    With the scales of normal coefficients these are one more factor of one group, whose
    scales are known: what is left is a density of the other scales.
    """

    exact = False

    def __init__(self, rows, likelihood, scale=None):
        self.integrates_coefficients = scale is not None
        self.fixed = FixedScales(rows.factors, scale)
        if scale is not None:
            factors = (*rows.factors, coefficients_as_factor(rows.X))
            rows = replace(rows, X=rows.X[:, :0], factors=factors)
        super().__init__(rows, likelihood)
        self.crossed = CrossedEffects(self.rows.factors)

    def _integrated(self, beta, levels, further):
        value = np.empty(len(beta))
        width = beta.shape[1] + levels.shape[1] + self.n_further
        score = np.empty((len(beta), width))
        among = self.fixed.among(levels)
        for s, mode in enumerate(self._modes(beta, levels, further)):
            value[s] = mode.height - 0.5 * mode.precision.log_det
            score[s] = self._score(mode, among[s])
        return value, score

    def weighted_effects(self, normals, beta, levels, *further):
        """Draws of the group effects, as `NormalMarginal.effects`, and the logarithms
        (2, n_draws) of weights that make them exact; integrated coefficients are last.

        Draws are of Laplace's Gaussian around the mean, with the skewness that effects
        of the factor with the most have given all others. Weights are the exact joint
        density over what the draws were made from: their mean is the exact likelihood
        over that of `value_and_score`. Where few draws would weigh as much as all do,
        that factor is integrated out by quadrature given all others.
        """
        normal = self.crossed.joined(normals)
        effects = np.empty((2, *normal.shape))
        log_weights, log_others = np.empty((2, 2, len(beta)))
        n = self.crossed.n_main
        for s, mode in enumerate(self._modes(beta, levels, further)):
            _, _, move = self._thirds(mode, mode.precision)
            mean = mode.v - 0.5 * move
            skewness = self._skewness(mode)
            for side, t in enumerate((normal[s], -normal[s])):
                v = mean + mode.precision.spread(t + skewness * (t**2 - 1.0) / 6.0)
                height = self._height(mode, mode.scaling.times(v)) - 0.5 * v @ v
                log_weights[side, s] = height + 0.5 * t @ t - mode.height
                log_weights[side, s] += np.log(np.abs(1.0 + skewness * t / 3.0)).sum()
                log_others[side, s] = 0.5 * (t[n:] @ t[n:] - v[n:] @ v[n:])
                effects[side, s] = mode.scaling.times(v)
            log_others[:, s] -= mode.height - 0.5 * mode.precision.log_det_main
        if self.crossed.q <= 2 and _efficiency(log_weights) < _FEW_EFFECTIVE:
            more = self._integrate_main(effects, normals, beta, levels, further)
            log_weights = log_others + more
        return self.crossed.by_factor(effects), log_weights

    def _integrate_main(self, effects, normals, beta, levels, further):
        """Logarithms (2, n_draws) of integrals over the effects of the main factor
        given all others, which are drawn anew.
        """
        rows, crossed = self.rows, self.crossed
        main, n = main_factor(rows.factors), crossed.n_main
        X = hstack([csr_array(rows.X), csr_array(crossed.Z)[:, n:]], format="csr")
        rows = replace(rows, X=X, factors=rows.factors[main : main + 1])
        marginal = QuadratureMarginal(rows, self.likelihood, merge=False)
        levels = self.fixed.among(levels)
        places = crossed.covariances.places[main]
        levels = np.hstack([levels[:, place] for place in places])
        value = np.empty((2, len(beta)))
        for side, each in enumerate(effects):
            given = np.hstack([beta, each[:, n:]]), levels, *further
            drawn, value[side] = marginal.effects_and_value(normals[main:], *given)
            each[:, :n] = np.moveaxis(drawn[side], 0, 2).reshape(len(each), n)
        return value

    def coefficients(self, levels, *further):
        """Means (n, p) and triangular factors (n, p, p) of coefficients, by draw."""
        n, scale = len(levels), self.fixed.scale
        place = np.flatnonzero(self.crossed.scale_of >= self.fixed.start)
        mean, root = np.empty((n, len(scale))), np.empty((n, len(scale), len(scale)))
        for s, mode in enumerate(self._modes(np.empty((n, 0)), levels, further)):
            _, _, move = self._thirds(mode, mode.precision)
            mean[s] = scale * (mode.v - 0.5 * move)[place]
            covariance = mode.precision.covariance_of(place)
            root[s] = scale[:, None] * np.linalg.cholesky(covariance)
        return mean, root

    def _modes(self, beta, levels, further):
        """The mode at each draw; the search begins where the last one ended."""
        v = np.zeros(len(self.crossed.scale_of))
        scalings = self.crossed.scalings(self.fixed.among(levels))
        for s, (one, scaling) in enumerate(zip(beta, scalings, strict=True)):
            base = self._without_effects(one[None])[:, 0]
            given = self.likelihood.given(*(level[[s]] for level in further))
            mode = self._mode(base, scaling, v, given)
            # Of several modes the one that is found must not depend on other draws.
            v = mode.v if given.log_concave else v
            yield mode

    def _mode(self, base, scaling, v, likelihood):
        """Newton's steps from v."""
        crossed, weight, y = self.crossed, self.rows.weight, self.rows.y[:, None]
        step, tolerance = np.inf, _TOLERANCE ** (1 if likelihood.log_concave else 2)
        eta = base + crossed.predicted(scaling.times(v))
        for _ in range(_MAX_STEPS):
            bend = weight * likelihood.climb_bend(eta[:, None], y)[:, 0]
            precision = Precision(crossed.gram(bend), scaling)
            if np.abs(step).max() < tolerance:
                break
            _, slope, _ = self._of_rows(eta, likelihood)
            step = precision.solve(scaling.pulled(crossed.pulled(slope)) - v)
            moved = crossed.predicted(scaling.times(step))
            longest = likelihood.longest_step
            share = min(1.0, longest / max(np.abs(moved).max(), 1e-300))
            step = share * step
            v, eta = v + step, eta + share * moved
        hessian = precision
        if not likelihood.log_concave:
            column = eta[:, None]
            kept = weight * likelihood.bend(column, y)[:, 0]
            bend = weight * likelihood.true_bend(column, y)[:, 0]
            precision = Precision(crossed.gram(kept), scaling)
            hessian = Precision(crossed.gram(bend), scaling)
        value, slope, by_level = self._of_rows(eta, likelihood)
        height = value.sum() - 0.5 * v @ v
        slopes = slope, bend, by_level
        return _Mode(
            likelihood, base, eta, scaling, v, *slopes, height, precision, hessian
        )

    def _thirds(self, mode, hessian):
        """Leverages; times third derivatives, by row and as moves of the mode."""
        leverage = self.crossed.leverages(mode.precision.inverse, mode.scaling)
        pull = -self._third(mode) * leverage
        move = hessian.solve(mode.scaling.pulled(self.crossed.pulled(pull)))
        return leverage, pull, move

    def _third(self, mode):
        """Weighted third derivatives of the log likelihood of rows."""
        third = mode.likelihood.third(mode.eta[:, None], self.rows.y[:, None])
        return self.rows.weight * third[:, 0]

    def _skewness(self, mode):
        """Of effects of the main factor given all others, along the axes of draws."""
        axes = mode.scaling.of_main(mode.precision.main_root)
        # Where the map of a draw, t + skewness (t^2 - 1) / 6, turns at six or beyond.
        return np.clip(self.crossed.cubed(self._third(mode), axes), -0.5, 0.5)

    def _score(self, mode, levels):
        leverage, pull, move = self._thirds(mode, mode.hessian)
        moved = self.crossed.predicted(mode.scaling.times(move))
        by_column = (mode.slope - 0.5 * (pull - mode.bend * moved)) @ self.rows.X
        by_level, _ = self.crossed.by_level(
            levels, mode.v, mode.precision.inverse, move
        )
        score = [*by_column, *self.fixed.free(by_level)]
        if self.n_further:
            # Of the log determinant as the curvatures change, and as the mode moves.
            given, y = mode.likelihood, self.rows.y[:, None]
            parts = given.curves_by_level(mode.eta[:, None], y)
            slope, bend = (self.rows.weight * part[..., 0] for part in parts)
            lost = bend @ leverage + slope @ moved
            score += [*(mode.by_level.sum(axis=1) - 0.5 * lost)]
        return score

    def _height(self, mode, effects):
        """Log likelihood of all rows given the effects."""
        eta = mode.base + self.crossed.predicted(effects)
        return self._of_rows(eta, mode.likelihood)[0].sum()

    def _of_rows(self, eta, likelihood):
        """What `_value_and_slopes` says at one draw, (n_rows,)."""
        parts = self._value_and_slopes(eta[:, None], likelihood)
        return [part[..., 0] if len(part) else part for part in parts]


def _efficiency(log_weights):
    """The share of the draws that weigh as much as all do."""
    weight = np.exp(log_weights - log_weights.max())
    return weight.mean() ** 2 / (weight**2).mean()


class _Mode(NamedTuple):
    """What Newton's steps find for one draw.

    Linear predictors are without (`base`) and with group effects (`eta`); derivatives
    of rows are weighted, `bend` is minus the second; `height` is h(v), `hessian` is
    -h''(v), and `precision` H.
    """

    likelihood: object
    base: np.ndarray
    eta: np.ndarray
    scaling: object
    v: np.ndarray
    slope: np.ndarray
    bend: np.ndarray
    by_level: np.ndarray
    height: float
    precision: Precision
    hessian: Precision
