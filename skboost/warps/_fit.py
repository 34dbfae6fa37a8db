"""A warp of a Gaussian, fitted to a posterior once and accepted or declined.

What is fitted is the ELBO of one Gaussian through the warp, on fixed draws.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from skboost._math import LOG_2PI, N_ERRORS, mean_and_se
from skboost._random import WARP, generator
from skboost._solver import ascend
from skboost.approximation import Estimate, finite_value_and_score
from skboost.families import DiagonalGaussian
from skboost.warps._map import Tails, Warp, soft_clip
from skboost.warps._structure import ScoredDraws, candidate_axes, find_edges

# Weight of the squares of everything that is not linear: what draws do not decide
# stays small.
_RIDGE = 1e-3


class WarpedELBO:
    """ELBO of a standard normal through a warp, in the parameters of the warp.

    It acts where a first Gaussian is standard normal, ``theta = mean + factor w``, from
    the identity on; edges say which `scales` and `curves` may differ from zero.
    """

    def __init__(self, target, mean, factor, base, edges, limit):
        self.edges, self.limit = edges, limit
        self.target, self.mean, self.factor, self.base = target, mean, factor, base
        self.squares = base**2 - 1.0
        self.dim = dim = len(mean)
        # In many dimensions the linear part is diagonal: dim^2 numbers would fit noise.
        linear = np.ones((dim, dim)) if dim <= 50 else np.eye(dim)
        self._masks = (linear.astype(bool), *edges)
        n_entries, *n_edges = (int(mask.sum()) for mask in self._masks)
        self._ends = np.cumsum([dim, n_entries, dim, dim, *n_edges])
        self._log_volume = np.linalg.slogdet(factor)[1] + 0.5 * dim * (1.0 + LOG_2PI)

    @property
    def start(self):
        """The identity."""
        x = np.zeros(self._ends[-1])
        x[self.dim : self._ends[1]] = np.eye(self.dim)[self._masks[0]]
        return x

    @property
    def limits(self):
        """Largest absolute value of every parameter."""
        limits = np.full(self._ends[-1], np.inf)
        # Logarithms of the tails' exponents.
        limits[self._ends[1] : self._ends[3]] = 1.1
        return limits

    def _split(self, x):
        """Shift, logs of both exponents, matrix, `scales` and `curves`."""
        shift, linear, *exponents, scales, curves = np.split(x, self._ends[:-1])
        dense = np.zeros((3, self.dim, self.dim))
        parts = zip((linear, scales, curves), self._masks, dense, strict=True)
        for values, mask, out in parts:
            out[mask] = values
        return shift, *exponents, *dense

    def unpack(self, x):
        """The warp from standard normal draws to the target's coordinates."""
        shift, right, left, matrix, scales, curves = self._split(x)
        return Warp(
            self.mean + self.factor @ shift,
            self.factor @ matrix,
            np.exp(right),
            np.exp(left),
            scales,
            curves,
            self.limit,
        )

    def value_and_gradient(self, x):
        """ELBO in nats, less the ridge, and its gradient in `x`."""
        shift, log_a, log_b, matrix, scales, curves = self._split(x)
        sign, log_volume = np.linalg.slogdet(matrix)
        if sign <= 0:
            return -np.inf, np.zeros_like(x)
        a, b = np.exp(log_a), np.exp(log_b)
        tails = Tails.of(self.base, a, b)
        log_scale, clip_slope = soft_clip(self.base @ scales.T, self.limit)
        scale = np.exp(log_scale)
        stretched = tails.value * scale
        u = stretched + self.squares @ curves.T
        theta = self.mean + (shift + u @ matrix.T) @ self.factor.T
        log_joint, score = finite_value_and_score(self.target, theta)
        value = log_joint.mean() + log_volume + self._log_volume
        value += (tails.log_slope + log_scale).sum(axis=1).mean()

        n = len(self.base)
        slope = score @ self.factor / n
        by_u = slope @ matrix
        t_a, t_b, l_a, l_b = tails.exponent_slopes(a, b)
        by_tail = by_u * scale
        by_scale = (by_u * stretched + 1.0 / n) * clip_slope
        by_matrix = slope.T @ u + np.linalg.inv(matrix).T
        linear, driving, bending = self._masks
        gradient = [
            slope.sum(axis=0),
            by_matrix[linear],
            (by_tail * t_a).sum(axis=0) + l_a.mean(axis=0),
            (by_tail * t_b).sum(axis=0) + l_b.mean(axis=0),
            (by_scale.T @ self.base)[driving],
            (by_u.T @ self.squares)[bending],
        ]
        bent = x.copy()
        bent[: self._ends[1]] = 0.0
        gradient = np.concatenate(gradient) - _RIDGE * bent
        return value - 0.5 * _RIDGE * (bent @ bent), gradient


# Degrees of freedom of the draws that look at the tails.
_TAIL_DF = 4.0


@dataclass(frozen=True)
class WarpReport:
    """What became of the search for a warp; gains in nats.

    Attributes
    ----------
    accepted : bool
        Whether the posterior is behind the warp.
    reason : str
        Why it is or is not.
    gain, gain_se : float
        What the warp adds to the ELBO of a single Gaussian, on fresh draws, and its
        standard error; nan where none was fitted or the search was given up. Also of a
        warp that was declined.
    tail_gain, tail_gain_se : float
        By how much it lowers ``KL(p || q)`` of a single Gaussian, from wide draws.
    axes : str
        Along what the warp acts: "coordinates" of the first Gaussian whitened by its
        Cholesky factor, "curvature" or "contrast" for rotations of these; empty where
        none was fitted.
    n_scales, n_curves : int
        Pairs of its axes of which one changes the scale, or bends the mean, of the
        other.
    warp : Warp or None
        The map itself where it was accepted, from coordinates in which the mixture
        lives to unconstrained parameters.

    Examples
    --------
    >>> import autograd.numpy as np
    >>> from skboost import boost_posterior
    >>> def log_gamma(theta):
    ...     return np.sum(1.5 * theta - np.exp(theta), axis=1)
    >>> boost_posterior(log_gamma, dim=2, warp="auto", random_state=0).warp.accepted
    True
    """

    accepted: bool
    reason: str
    gain: float = float("nan")
    gain_se: float = float("nan")
    tail_gain: float = float("nan")
    tail_gain_se: float = float("nan")
    axes: str = ""
    n_scales: int = 0
    n_curves: int = 0
    warp: Warp | None = None

    def declined(self, reason):
        """The same report of a warp that is not used after all."""
        return replace(self, accepted=False, reason=f"Declined: {reason}.", warp=None)

    def record(self):
        """The report as JSON can hold it."""
        plain = {k: v for k, v in vars(self).items() if k != "warp"}
        return plain | {"warp": None if self.warp is None else self.warp.record()}

    @classmethod
    def from_record(cls, record):
        """The report that `record` was made from; None stays None."""
        if record is None:
            return None
        warp = record["warp"]
        return cls(**record | {"warp": None if warp is None else Warp(**warp)})


def not_tried(reason):
    """The report where no warp was fitted."""
    return WarpReport(False, f"Not tried: {reason}.")


def given_up():
    """The report where the search ended with its share of the budget."""
    limits = "max_time and max_evaluations"
    return WarpReport(False, f"Given up: half of what {limits} leave was not enough.")


def find_warp(target, mean, covariance, settings):
    """Fit a warp that starts as a Gaussian, and say whether it is worth having.

    It is where the gain less two errors exceeds ``settings.tol`` and tails lose no
    more.
    """
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return not_tried("the first component has no Cholesky factor")
    fitted = _fitted(target, mean, factor, settings)
    if fitted is None:
        return not_tried(
            "the density is zero, or too steep, at draws of the first component"
        )
    axes, warp = fitted
    finite = all(np.isfinite(part).all() for part in warp.record().values())
    if not (finite and np.linalg.cond(warp.matrix) < 1.0 / np.finfo(float).eps):
        return not_tried("the search ended at a map without an inverse")
    one, none = np.ones(target.dim), np.zeros(factor.shape)
    gaussian = Warp(mean, factor, one, one, none, none)
    n, seed = 4096, settings.seed
    gain = elbo_gain(target, gaussian, warp, n, generator(seed, 0, WARP, 1))
    tails = tail_gain(target, gaussian, warp, n, generator(seed, 0, WARP, 2))
    report = WarpReport(
        True,
        f"Accepted: it gains {gain.value:.2g} nats (standard error {gain.se:.1g}).",
        *gain,
        *tails,
        axes,
        int(np.count_nonzero(warp.scales)),
        int(np.count_nonzero(warp.curves)),
        warp,
    )
    reason = _why_not(gain, tails, settings.tol)
    return report.declined(reason) if reason else report


def _why_not(gain, tails, tol):
    """Why a warp is not worth having; empty where it is."""
    if not np.isfinite(gain).all():
        return "the density is zero, or not finite, at fresh draws through it"
    if not gain.value - N_ERRORS * gain.se > tol:
        return (
            f"it gains {gain.value:.2g} nats on fresh draws (standard error "
            f"{gain.se:.1g}), not surely more than tol={tol:g}"
        )
    if not tails.value + N_ERRORS * tails.se > 0.0:
        return (
            "wide draws see mass in its tails that it has lost: KL(p || q) rises by "
            f"{-tails.value:.2g} nats (standard error {tails.se:.1g})"
        )
    return ""


def _fitted(target, mean, factor, settings):
    """Name of the axes and the warp of the best fit; None where none is possible."""
    dim, rng = len(mean), generator(settings.seed, 0, WARP)
    # The linear part, dim^2 numbers, asks for many.
    n = min(max(2048, 128 * dim), 8192)
    base = DiagonalGaussian().matched_draws(n, dim, rng)
    value, score = target.value_and_score(mean + base @ factor.T)
    # Fourth powers of scores have to be finite.
    if not (np.isfinite(value).all() and (np.abs(score) < 1e50).all()):
        return None
    sample = ScoredDraws(base, score @ factor + base)

    def fit(limit, axes, x=None, max_iter=15):
        turned = sample.rotated(axes)
        frame = mean, factor @ axes, turned.w, find_edges(turned)
        problem = WarpedELBO(target, *frame, limit)
        tol, budget = 1e-3 * settings.tol, target.ledger.budget
        x, value = ascend(problem, x, max_iter, tol=tol, budget=budget)
        return value, x, problem

    # Limits of log scales. Where draws do not ask for the wider one the narrower is
    # safer: on a hierarchical model whose scale shrinks to nothing the wider one gained
    # as much and lost the tail.
    careful, wide = 2.0, 8.0
    candidates = candidate_axes(sample)
    short = {name: fit(careful, axes) for name, axes in candidates.items()}
    best = max(short, key=lambda name: short[name][0])
    # Without a reason to turn them, the coordinates are those that a user knows.
    if not short[best][0] > short["coordinates"][0] + settings.tol:
        best = "coordinates"
    frame = candidates[best], short[best][1], 300
    value, x, problem = fit(careful, *frame)
    if problem.edges.scales.any():
        bold = fit(wide, candidates[best], short[best][1], 300)
        if bold[0] > value + settings.least_gain:
            _, x, problem = bold
    return best, problem.unpack(x)


# --- whether a warp is worth having: draws that it was not fitted to


def log_normal(z):
    """Log density of the standard normal at z (n, dim), nats."""
    return -0.5 * (z**2).sum(axis=1) - 0.5 * z.shape[1] * LOG_2PI


def elbo_gain(target, before, after, n, rng):
    """Gain in ELBO of one warp over another on the same draws; not finite at zero
    density."""
    z = DiagonalGaussian().matched_draws(n, before.dim, rng)
    each = [
        target.log_density(warp.forward(z)) + warp.log_jacobian(z)
        for warp in (after, before)
    ]
    with np.errstate(invalid="ignore"):
        return Estimate(*mean_and_se(each[0] - each[1]))


def tail_gain(target, before, after, n, rng):
    """Fall of ``KL(p || q)`` between warps, nats, by weighted heavy-tailed draws of
    both."""
    warps, dim = (before, after), before.dim
    radius = np.sqrt(_TAIL_DF / rng.chisquare(_TAIL_DF, (n, 1)))
    wide = radius * rng.standard_normal((n, dim))
    half = n // 2
    y = np.concatenate([before.forward(wide[:half]), after.forward(wide[half:])])
    with np.errstate(over="ignore", invalid="ignore"):
        z = [warp.inverse(y) for warp in warps]
        jacobians = [w.log_jacobian(x) for w, x in zip(warps, z, strict=True)]
        # NaN where the inverse overflows: no mass is there.
        log_q, log_wide = (
            [np.fmax(f(x) - j, -np.inf) for x, j in zip(z, jacobians, strict=True)]
            for f in (log_normal, _log_wide)
        )
        log_w = target.log_density(y) - np.logaddexp(*log_wide)
        difference = log_q[1] - log_q[0]
    # Where only the new map has no mass the loss is infinite, and counts.
    usable = np.isfinite(log_w) & (difference < np.inf)
    if not usable.any():
        return Estimate(np.nan, np.nan)
    w = np.exp(log_w[usable] - log_w[usable].max())
    difference, w = difference[usable][w > 0.0], w[w > 0.0]
    return Estimate(*mean_and_se(difference, w / w.sum()))


def _log_wide(z):
    """Log density of the multivariate t distribution that wide draws have."""
    dim, df = z.shape[1], _TAIL_DF
    constant = gammaln(0.5 * (df + dim)) - gammaln(0.5 * df)
    constant -= 0.5 * dim * np.log(np.pi * df)
    return constant - 0.5 * (df + dim) * np.log1p((z**2).sum(axis=1) / df)
