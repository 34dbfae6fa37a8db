"""Gaussian fits of logistic regressions: expectation propagation, variational ones.

Both give every row a Gaussian site; a row of weight w has w sites of one kind, which is
w equal rows (for other weights than whole ones power expectation propagation of power
1 / w). Rows come with the sign of their class: each is one of a success. With the
logistic function as eight probits all expectations under Gaussians are closed.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtr

from skboost._parallel import row_blocks

# Monahan and Stefanski 1989, as Nolan and Wand 2017 give them: weights and slopes of
# normal distribution functions whose sum is the logistic one, to 2e-9.
_WEIGHTS = np.array([
    0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818,
    0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354,
])  # fmt: skip
_SLOPES = np.array([
    1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391,
    0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306,
])  # fmt: skip
_HEIGHTS, _WIDTHS = _WEIGHTS / np.sqrt(2.0 * np.pi), _SLOPES[:, None] ** -2
# Below it the logistic function is the exponential, whose relative error is smaller
# than that of probits.
_TAIL = -10.0
# Temporaries for a number: those of all probits stay in the cache.
_EACH = 64


def _in_blocks(func, mean, variance):
    """Three arrays of a function of the means, the slopes of probits that are smoothed
    by Gaussians, their arguments and densities, (8, n)."""
    mean, variance = np.broadcast_arrays(mean, variance)
    out, means, variances = np.empty((3, mean.size)), mean.ravel(), variance.ravel()
    for some in row_blocks(mean.size, _EACH):
        m = means[some]
        a = 1.0 / np.sqrt(variances[some] + _WIDTHS)
        u = a * m
        out[:, some] = func(m, a, u, np.exp(-0.5 * u * u))
    return out.reshape(3, *mean.shape)


def _evidence(mean, a, u, density):
    z = _WEIGHTS @ ndtr(u) + 1e-300
    density *= a
    slope = _HEIGHTS @ density / z
    u *= a
    u *= density
    return np.log(z), slope, slope**2 + _HEIGHTS @ u / z


def log_evidence(mean, variance):
    """``ln E sigma(x)`` for Gaussian x, its slope in the mean and minus its bend."""
    value, slope, bend = _in_blocks(_evidence, mean, variance)
    far = mean + variance + 3.0 * np.sqrt(variance) < _TAIL
    if far.any():
        value = np.where(far, mean + 0.5 * variance, value)
        slope, bend = np.where(far, 1.0, slope), np.where(far, 0.0, bend)
    return value, slope, np.maximum(bend, 0.0)


def _expected(mean, a, u, density):
    slope = _WEIGHTS @ ndtr(-u)
    return mean * slope - _HEIGHTS @ (density / a), slope, _HEIGHTS @ (a * density)


def expected_log(mean, variance):
    """``E ln sigma(x)`` for Gaussian x, its slope in the mean and minus its bend."""
    return tuple(_in_blocks(_expected, mean, variance))


# What sites begin with, where nothing is known of them.
_PRECISION, _SHIFT = 0.15, 0.5
# Squared distance of all rows' sites from those that they are matched to, in standard
# deviations, for one of `tol`: the evidence, which is stationary in the sites, changes
# by about two and a half times as many nats.
_OFF = 0.04


@dataclass(frozen=True)
class Sites:
    """Sites (n_priors, n_rows) and their log evidence, or where `bounded` its lower
    bound."""

    precision: np.ndarray
    shift: np.ndarray
    log_evidence: np.ndarray
    converged: np.ndarray
    bounded: np.ndarray

    @classmethod
    def initial(cls, *shape):
        """Sites to begin with."""
        flags = np.zeros((2, shape[0]), dtype=bool)
        parts = np.full(shape, _PRECISION), np.full(shape, _SHIFT)
        return cls(*parts, np.full(shape[0], -np.inf), *flags)

    def of(self, which):
        """The same for some of the priors, or for some of them several times."""
        return Sites(*(values[which] for values in vars(self).values()))

    def put(self, which, other):
        """Set some of the priors."""
        for name, values in vars(other).items():
            getattr(self, name)[which] = values


def propagated(
    predictors, weights, sites, tol=0.01, damping=0.9, max_sweeps=60,
    evidence=log_evidence,
):  # fmt: skip
    """Sites by expectation propagation from given ones.

    What rows say of Gaussian predictors gives `evidence`; see `log_evidence`. A prior
    has converged where means of rows and their sites differ by at most `tol` standard
    deviations, and the log evidence is known to about `tol` tenths of a nat.
    """
    left, here, now = np.arange(len(sites.converged)), predictors, sites
    done = sites.of(left)
    done.converged[:] = False
    for _ in range(max_sweeps):
        now = swept = _swept(here, weights, now, damping, evidence, tol)
        if swept.converged.any():
            done.put(left, swept)
            going = ~swept.converged
            left, now = left[going], swept.of(going)
            here = predictors.of(left)
        if not left.size:
            return done
    done.put(left, now)
    return done


def _swept(predictors, weights, sites, damping, evidence_of, tol):
    """Sites after all rows were matched at once, and the evidence of those before."""
    precision, shift = sites.precision, sites.shift
    given = predictors.moments(weights * precision, weights * shift)
    # A row of zeros says nothing.
    mean, variance = given.mean, np.maximum(given.variance, 1e-12)
    # Without one site of the row, which leaves a proper cavity for weights from one on.
    centre, cavity = without_site(mean, variance, precision, shift)
    value, slope, bend = evidence_of(centre, cavity)
    more = np.log(cavity / variance)
    more += centre**2 / cavity - mean**2 / variance + shift * mean
    value += 0.5 * more
    evidence = value @ weights - 0.5 * given.log_det
    narrowed = np.maximum(1.0 - bend * cavity, 1e-12)
    miss = (centre + cavity * slope - mean) ** 2 / variance
    grown = cavity * narrowed / variance - 1.0
    off = (miss + 0.5 * grown**2) @ weights
    done = (miss.max(axis=1) < tol**2) & (off < _OFF * tol)
    precision = precision + damping * (bend / narrowed - precision)
    shift = shift + damping * ((slope + bend * centre) / narrowed - shift)
    return Sites(precision, shift, evidence, done, np.zeros_like(done))


def without_site(mean, variance, precision, shift):
    """Mean and variance of what is left without a site, which is proper."""
    cavity = 1.0 / np.maximum(1.0 / variance - precision, 1e-6 / variance)
    return cavity * (mean / variance - shift), cavity


def variational(
    predictors, weights, sites, tol=1e-3, max_sweeps=200, expected=expected_log
):
    """Sites of the Gaussians with the largest lower bounds, from given ones.

    Expectations of what rows say gives `expected`; see `expected_log`. Steps in natural
    parameters, halved where they lose; a bound within `tol` nats of the one before is
    the last.
    """
    bound = partial(_bound, weights=weights, expected=expected)
    best, ahead = bound(predictors, precision=sites.precision, shift=sites.shift)
    step = np.ones(len(best.log_evidence))
    for _ in range(max_sweeps):
        left = np.flatnonzero(~best.converged)
        if not left.size:
            break
        now, rate = best.of(left), step[left, None]
        precision = now.precision + rate * (ahead[0][left] - now.precision)
        shift = now.shift + rate * (ahead[1][left] - now.shift)
        new, aim = bound(predictors.of(left), precision=precision, shift=shift)
        gain = new.log_evidence - now.log_evidence
        better = gain > 0.0
        # A short step that loses is as good as it gets.
        ended = np.where(better, (gain < tol) & (rate[:, 0] > 0.2), rate[:, 0] < 1e-3)
        best.put(left[better], new.of(better))
        best.converged[left] = ended
        for mine, its in zip(ahead, aim, strict=True):
            mine[left[better]] = its[better]
        step[left] = np.where(
            better, np.minimum(2.0 * step[left], 1.0), 0.5 * step[left]
        )
    return best


def _bound(predictors, weights, precision, shift, expected):
    """Sites with their lower bound, and the sites that a whole step leads to."""
    given = predictors.moments(weights * precision, weights * shift)
    value, slope, bend = expected(given.mean, given.variance)
    away = shift * given.mean - precision * (given.mean**2 + given.variance)
    bound = (weights * (value - 0.5 * away)).sum(axis=1) - 0.5 * given.log_det
    # Densities here are at most one: what exceeds it is rounding, or has overflowed.
    bound[~(bound <= 0.0)] = -np.inf
    no = np.zeros(len(bound), dtype=bool)
    sites = Sites(precision, shift, bound, no, ~no)
    return sites, [bend, slope + bend * given.mean]
