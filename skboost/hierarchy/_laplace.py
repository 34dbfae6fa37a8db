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

from skboost._random import EFFECTS, generator, quasi_normal
from skboost.approximation import effective_sample_size
from skboost.hierarchy._covariances import Quadratic
from skboost.hierarchy._crossed import CrossedEffects
from skboost.hierarchy._marginal import LikelihoodMarginal
from skboost.hierarchy._nested import NestedEffects, nested_order
from skboost.hierarchy._precision import Precision
from skboost.hierarchy._quadrature import QuadratureMarginal
from skboost.hierarchy._rows import FixedScales, coefficients_as_factor, main_factor

# Newton steps at most. One shorter than the tolerance leaves an error of its square; of
# rows that are not log-concave, where steps get shorter by a factor, one of its size.
_MAX_STEPS, _TOLERANCE = 50, 1e-4
# Share of the draws that weigh as much as all do below which quadrature is worth it.
# Values of the likelihood of rows that it may take then: some seconds.
_FEW_EFFECTIVE, _N_NODES, _MOST_VALUES = 0.5, 10, 1 << 26
# Standard deviations up to which a trend in levels is believed.
_FARTHEST = 4.0


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
        self.crossed = effects_of(self.rows.factors)
        # What the method misses, where that was looked at; a quadratic through modes.
        self.missed = self.trend = None

    def learn_missed(self, levels, *further):
        """Add to every value, from now on, what weights of draws at some levels say
        that the method misses: a trend in the levels.
        """
        sizes = [(f.n_effects, len(levels), f.n_groups) for f in self.rows.factors]
        rng, none = generator(0, EFFECTS), np.empty((len(levels), 0))
        normals = quasi_normal(sizes, rng)
        # Half the variance of weights would be missed of their logarithms.
        drawn = self.weighted_effects(normals, none, levels, *further, few=1.0)
        missed = np.logaddexp(*drawn[1]) - np.log(2.0)
        if np.isfinite(missed).all():
            self.missed = Trend(np.column_stack([levels, *further]), missed)
        return True

    def value_and_score(self, beta, levels, *further):
        value, score = super().value_and_score(beta, levels, *further)
        more, slope = self._missed(levels, further)
        score[:, beta.shape[1] :] += slope
        return value + more, score

    @property
    def lattice_dim(self):
        """See `Marginal`: nested effects take few operations."""
        return 3 if isinstance(self.crossed, NestedEffects) else 2

    def value(self, beta, levels, *further):
        modes = self._modes(beta, levels, further)
        value = np.array([mode.log_integral for mode in modes])
        value = value + self._shared(*further)[0] + self.constant
        return value + self._missed(levels, further)[0]

    def _missed(self, levels, further):
        """The trend in what is missed, and its slopes."""
        if self.missed is None:
            return 0.0, 0.0
        return self.missed.value_and_slope(np.column_stack([levels, *further]))

    def _integrated(self, beta, levels, further):
        value = np.empty(len(beta))
        width = beta.shape[1] + levels.shape[1] + self.n_further
        score = np.empty((len(beta), width))
        among = self.fixed.among(levels)
        for s, mode in enumerate(self._modes(beta, levels, further)):
            value[s] = mode.log_integral
            score[s] = self._score(mode, among[s])
        return value, score

    def weighted_effects(self, normals, beta, levels, *further, few=_FEW_EFFECTIVE):
        """Draws of the group effects, as `NormalMarginal.effects`, and the logarithms
        (2, n_draws) of weights that make them exact; integrated coefficients are last.

        Draws are of Laplace's Gaussian around the mean, with the skewness that effects
        of the factor with the most have given all others. Weights are the exact joint
        density over what the draws were made from: their mean is the exact likelihood
        over that of `value_and_score`. Where a share below `few` of the draws weighs as
        much as all do, that factor is integrated out by quadrature given all others,
        unless rows and draws are many.
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
        n_values = len(self.rows.y) * log_weights.size * _N_NODES**self.crossed.q
        affordable = self.crossed.q <= 2 and n_values <= _MOST_VALUES
        n_effective = effective_sample_size(log_weights.ravel())
        if affordable and n_effective < few * log_weights.size:
            more = self._integrate_main(effects, normals, beta, levels, further)
            log_weights = log_others + more
        log_weights = log_weights - self._missed(levels, further)[0]
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
            (drawn,), value[side] = marginal.effects_and_value(normals[main:], *given)
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
        """The mode at each draw; the search begins where the last one ended, and later
        where a quadratic through the first of them leads: two steps in place of four.
        """
        v, found = np.zeros(len(self.crossed.scale_of)), []
        theta = np.column_stack([beta, levels, *further])
        n_fitted, trend = 2 * Quadratic.n_terms(theta.shape[1]), self.trend
        scalings = self.crossed.scalings(self.fixed.among(levels))
        for s, (one, scaling) in enumerate(zip(beta, scalings, strict=True)):
            base = self._without_effects(one[None])[:, 0]
            given = self.likelihood.given(*(level[[s]] for level in further))
            if trend is None and s == n_fitted and given.log_concave:
                self.trend = trend = Quadratic(theta[:s], np.array(found))
            start = v if trend is None else trend(theta[[s]])[0]
            mode = self._mode(base, scaling, start, given)
            if not np.isfinite(mode.log_integral):
                # A quadratic may lead to where exponentials overflow.
                mode = self._mode(base, scaling, np.zeros(len(v)), given)
            # Of several modes the one that is found must not depend on other draws.
            v = mode.v if given.log_concave else v
            if trend is None and given.log_concave and len(beta) > n_fitted:
                found.append(v)
            yield mode

    def _mode(self, base, scaling, v, likelihood):
        """Newton's steps from v."""
        crossed, weight, y = self.crossed, self.rows.weight, self.rows.y[:, None]
        step, tolerance = np.inf, _TOLERANCE ** (1 if likelihood.log_concave else 2)
        eta = base + crossed.predicted(scaling.times(v))
        for _ in range(_MAX_STEPS):
            bend = weight * likelihood.climb_bend(eta[:, None], y)[:, 0]
            precision = crossed.precision(bend, scaling)
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
            precision = crossed.precision(kept, scaling)
            hessian = crossed.precision(bend, scaling)
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


def effects_of(factors):
    """Where effects of factors are, and how their precision is factorised."""
    order = nested_order(factors)
    return NestedEffects(factors, order) if order else CrossedEffects(factors)


class Trend:
    """A mean and slopes of noisy values at points (n, dim), which each is held beyond
    where points were.
    """

    def __init__(self, points, values):
        n, dim = points.shape
        self.centre, self.size = points.mean(axis=0), points.std(axis=0)
        terms = np.column_stack([np.ones(n), (points - self.centre) / self.size])
        found = np.linalg.lstsq(terms, values, rcond=None)[0]
        rest = values - terms @ found
        error = rest @ rest / (n - dim - 1) / n
        # As much of a slope as stands out of its noise.
        square = found[1:] ** 2
        self.slopes = found[1:] * square / (square + error + 1e-300)
        self.mean = found[0] + np.log(np.exp(rest).mean())

    def value_and_slope(self, points):
        """(n,) and (n, dim)."""
        away = (points - self.centre) / self.size / _FARTHEST
        held = np.tanh(away)
        slope = self.slopes / self.size * (1.0 - held**2)
        return self.mean + _FARTHEST * held @ self.slopes, slope


def error_of_trend(theta, log_weights):
    """What draws of a mixture, (n, dim), and weights of effects at each, (2, n), say of
    a density that the mixture was fitted to, as nats and their standard error.

    Logarithms of means of weights are what is missed, with noise. Where that varies
    over the mixture by a quadratic, half its variance is what is lost by a posterior
    without it; the noise makes some, too, which is taken off.
    """
    missed, n = np.logaddexp(*log_weights), len(theta)
    dim = theta.shape[1]
    # As many terms as noise leaves to be told apart: slopes, and products where few.
    if Quadratic.n_terms(dim) <= n // 8:
        fitted = Quadratic(theta, missed)(theta)
        k = Quadratic.n_terms(dim) - 1
    else:
        terms = np.column_stack([np.ones(n), theta - theta.mean(axis=0)])
        fitted, k = terms @ np.linalg.lstsq(terms, missed, rcond=None)[0], dim
    noise = ((missed - fitted) ** 2).sum() / max(n - k - 1, 1)
    explained = max(fitted.var() - k * noise / n, 0.0)
    se = np.sqrt(explained * noise / n + 0.5 * k * (noise / n) ** 2)
    return 0.5 * explained, se


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

    @property
    def log_integral(self):
        """By Laplace's method."""
        return self.height - 0.5 * self.precision.log_det
