"""Gaussians at every scale by expectation propagation at two values of the scale.

Given the sites of rows, the log likelihood is a quadratic, under which Gaussians and
evidence are known at all scales. Sites change little over the likely values of a scale,
and smoothly: those at two values, and the slopes of the evidence there, tell the rest.
"""

from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from skboost._math import inverse_roots
from skboost.proposals._quadratic import (
    AtScales,
    Quadratic,
    heights_of,
    inside,
    nats_between,
    precision_at,
    spread,
)
from skboost.proposals._sites import propagated
from skboost.targets import ScaleNode

# Rows at least; of fewer the likely values of a scale are far apart.
_FEWEST = 300
# Nats below the highest density of ln s where the two values are, about.
_DROP = 0.25
# Moves of the likely scale at most, and in ln s the last one.
_MOST_MOVES, _MOVED = 10, 0.15
# Of convergence: where the evidence is known to a tenth of it, sites that follow miss
# some hundredths of that.
_ENOUGH = 0.2
# Nats by which the evidence and the Gaussian half way may be off.
_CLOSE = 0.05


class _Between(NamedTuple):
    """A quadratic that moves with ln s, under priors of one kind; see `AtScales`.

    `fixed` does not move, and `correction` is what the evidence has beyond its own.
    """

    fixed: AtScales
    correction: CubicHermiteSpline
    bends: np.ndarray
    slopes: np.ndarray
    # Precision of the prior at s = 1, and what of it has the scale.
    precision: np.ndarray
    scaled: np.ndarray

    def log_evidence(self, log_s):
        """Of every scale, (n_scales,)."""
        low, high = self.correction.x
        near = np.clip(log_s, 2.0 * low - high, 2.0 * high - low)
        return self.fixed.log_evidence(log_s) + self.correction(near)

    def gaussians(self, log_s):
        """Means (n_scales, dim) and covariances of all parameters."""
        low, high = self.correction.x
        share = ((log_s - low) / (high - low))[:, None]
        slopes = self.slopes[0] + share * (self.slopes[1] - self.slopes[0])
        bends = self.bends[0] + share[:, None] * (self.bends[1] - self.bends[0])
        grown = np.expm1(-2.0 * log_s)[:, None, None] * self.scaled
        # Where what lies beyond the two is no Gaussian it fails.
        roots, _ = inverse_roots(bends + grown + self.precision)
        covariances = roots.transpose(0, 2, 1) @ roots
        return (covariances @ slopes[:, :, None])[:, :, 0], covariances


def anchored_nodes(rows, target, in_units):
    """`ScaleNodes` for each kind of prior from `SignedRows` about the centre.

    None where sites change much with the scale, as those of classes that separate do.
    """
    if len(rows.X) < _FEWEST:
        return None
    prior, pull = target.scale_prior, np.zeros(target.dim)
    try:
        with np.errstate(all="ignore"):
            quadratic, sites, log_s = _settled(rows, target)
            found = []
            for kind, fixed in enumerate(quadratic.under(prior, target.scale)):
                one = _between(rows, target, sites, kind, fixed, in_units)
                if not kind and not _holds(one, np.array([log_s]), sites.log_evidence):
                    return None
                found.append(spread(one, prior, pull))
            return found
    except np.linalg.LinAlgError:
        return None


def _holds(one, log_s, log_evidence):
    """Whether it is what is known half way between the two values."""
    (mean,), (covariance,) = one.fixed.gaussians(log_s)
    (other,), (near,) = one.gaussians(log_s)
    miss = nats_between(other, near, mean, np.linalg.cholesky(covariance))
    return miss + abs(one.log_evidence(log_s) - log_evidence)[0] < _CLOSE


def _settled(rows, target):
    """The quadratic at the likely scale of independent coefficients, the sites that
    follow with the evidence there, and ln s."""
    prior, scale = target.scale_prior, target.scale
    shared = np.resize(prior.shared, len(scale))
    sites, log_s, moved = rows.initial(1), np.inf, np.inf
    for _ in range(_MOST_MOVES):
        quadratic = _given(rows, sites)
        settled = moved < _MOVED
        if not settled:
            one = AtScales.of(quadratic, prior, scale, prior.roots[0])
            likely = float(prior.log_s[heights_of(one, prior).argmax()])
            moved, log_s = abs(likely - log_s), likely
        own = scale * np.where(shared, np.exp(log_s), 1.0)
        how = {"max_sweeps": 1, "damping": 1.0, "evidence": rows.evidence}
        sites = propagated(rows.predictors(own[None] ** 2), rows.weights, sites, **how)
        if settled:
            return quadratic, sites, log_s
    raise np.linalg.LinAlgError("the likely scale moves on.")


def _given(rows, sites):
    """The quadratic that the first of sites amount to."""
    scaled = rows.X * np.sqrt(rows.weights * sites.precision[0])[:, None]
    slope = (rows.weights * sites.shift[0]) @ rows.X
    return Quadratic(np.zeros(len(slope)), 0.0, slope, scaled.T @ scaled)


def _between(rows, target, sites, kind, fixed, in_units):
    """`_Between` two values of ln s, from a quadratic between them and its sites."""
    prior = target.scale_prior
    shared, step = np.resize(prior.shared, target.dim), np.diff(prior.log_s[:2])[0]
    ends = prior.log_s[inside(fixed, prior, _DROP)][[0, -1]] + [-step, step]
    own, _, variances_at = in_units(prior.roots[kind])
    _, found = own.fitted(variances_at(ends), sites.of([0, 0]), tol=_ENOUGH)
    if found.bounded.any():
        raise np.linalg.LinAlgError("sites do not settle.")
    parts, slopes = [_given(rows, found.of([k])) for k in (0, 1)], []
    precision = precision_at(target, ScaleNode(0.0, kind))
    scaled = precision * np.outer(shared, shared)
    for shrunk, part in zip(np.exp(-2.0 * ends), parts, strict=True):
        whole = part.bend + precision + (shrunk - 1.0) * scaled
        covariance = np.linalg.inv(whole)
        mean = covariance @ part.slope
        square = np.sum(covariance * scaled) + mean @ scaled @ mean
        slopes.append(shrunk * square - shared.sum())
    values = found.log_evidence - fixed.log_evidence(ends)
    ahead, behind = (fixed.log_evidence(ends + h) for h in (1e-4, -1e-4))
    correction = CubicHermiteSpline(ends, values, slopes - (ahead - behind) / 2e-4)
    bends, pulls = (
        np.array([getattr(q, of) for q in parts]) for of in ("bend", "slope")
    )
    return _Between(fixed, correction, bends, pulls, precision, scaled)
