"""Where to look for the next component."""

import numpy as np

from skboost._math import log_sum_exp
from skboost.boosting._ranks import in_family
from skboost.boosting._whitening import whitening_of
from skboost.posterior import Mixture

# Widths at which the current mixture is searched: its own draws see what it sees,
# wide ones reach tails and modes that it does not.
_WIDTHS = np.array([1.0, 1.5, 3.0, 10.0, 40.0])
_SHARES = np.array([0.35, 0.25, 0.2, 0.1, 0.1])
_N_PROBES = 256
_FAR = (2.0, 50.0)
# A power iteration for the most skewed direction: draws, starts, steps.
_N_SKEW, _N_DIRECTIONS, _N_POWER = 512, 8, 15
# Keeps a direction without strength from dividing by zero.
_TINY = 1e-300
# How far along it a component splits off, in standard deviations.
_SHIFTS = (-1.0, 1.0)
# The same for both halves of a component that falls apart.
_APART = 0.5


def widened(mixture):
    """The mixture with every component repeated at several widths."""
    components = [
        (family, family.widen(params, width))
        for family, params in mixture.components
        for width in _WIDTHS
    ]
    weights = np.outer(mixture.weights, _SHARES).ravel()
    return Mixture(tuple(components), weights)


def far_draws(mixture, n, rng):
    """Draws far around every component, at widths from two to fifty of its own.

    Where in between a mode lies is not known, so every order of magnitude gets as
    many; and components count alike, for light ones are as good a place to look from.

    Parameters
    ----------
    mixture : Mixture
    n : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n, dim)
    """
    widths = np.exp(rng.uniform(*np.log(_FAR), n))
    owner = rng.integers(mixture.n_components, size=n)
    theta = np.empty((n, mixture.dim))
    for k, (family, params) in enumerate(mixture.components):
        rows = np.flatnonzero(owner == k)
        if len(rows):
            base = family.base_draws(len(rows), mixture.dim, rng)
            centre = family.location(params)
            away = family.transport(params, base) - centre
            theta[rows] = centre + widths[rows, None] * away
    return theta


def residual_points(target, mixture, n, rng, owners=None):
    """Points drawn where the target has more mass than the mixture.

    Importance weights of the positive part of ``p - q`` under a wide proposal: a
    point far out with a high ratio but no mass is not worth a component.

    Parameters
    ----------
    target : Target
    mixture : Mixture
    n : int
        Number of points at most.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (m, dim), m <= n
    """
    proposal = widened(owners or mixture)
    theta = proposal.sample(_N_PROBES, rng)
    log_joint = target.log_density(theta)
    log_proposal = proposal.log_density(theta)
    log_ratio = log_joint - log_proposal
    log_z = log_sum_exp(log_ratio[None])[0] - np.log(len(theta))
    if not np.isfinite(log_z):
        return theta[:0]
    q_ratio = np.exp(mixture.log_density(theta) - log_proposal)
    missing = np.maximum(np.exp(log_ratio - log_z) - q_ratio, 0.0)
    if not missing.sum() > 0:
        return theta[:0]
    chosen = rng.choice(len(theta), size=n, p=missing / missing.sum())
    return theta[np.unique(chosen)]


def skew_direction(target, mixture, k, rng):
    """Direction, one standard deviation long, in which a component is most skewed.

    Under a whitened Gaussian the third cumulant of the target along v is the slope
    of ``ln p - ln q`` against ``(v z)^2 - 1``: a power iteration on that tensor needs
    one score per draw, and finds in a hundred dimensions what random starts miss.

    Parameters
    ----------
    target : Target
    mixture : Mixture
    k : int
        The component.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (dim,)
    """
    family, params = mixture.components[k]
    scale = whitening_of(family, params)
    theta = family.transport(params, family.base_draws(_N_SKEW, mixture.dim, rng))
    _, score = target.value_and_score(theta)
    residual = score - mixture.score_and_log_density(theta)[0]
    z = scale.whiten(theta - family.location(params))
    slope = scale.pull(residual)
    directions = rng.standard_normal((mixture.dim, _N_DIRECTIONS))
    for _ in range(_N_POWER):
        directions /= np.linalg.norm(directions, axis=0) + _TINY
        directions = slope.T @ ((z @ directions) ** 2 - 1.0)
    strength = np.linalg.norm(directions, axis=0)
    best = directions[:, strength.argmax()]
    return scale.lift(best / (np.linalg.norm(best) + _TINY))


def split(target, mixture, rng):
    """The mixture with its heaviest component fallen apart where it is most skewed.

    A start for a joint search of what no single component finds from weight zero.

    Parameters
    ----------
    target : Target
    mixture : Mixture
    rng : numpy.random.Generator

    Returns
    -------
    Mixture
    """
    k = int(mixture.weights.argmax())
    family, params = mixture.components[k]
    shift = _APART * skew_direction(target, mixture, k, rng)
    here, there = (
        family.recentre(params, family.location(params) + s * shift) for s in _SHIFTS
    )
    weights = np.append(mixture.weights, 0.5 * mixture.weights[k])
    weights[k] *= 0.5
    apart = mixture.replace(k, family, here).append(family, there)
    return apart.with_weights(weights)


def starting_components(target, mixture, family, n_points, rng, owners=None):
    """Candidate starts: at residual points, and rescaled copies of heavy components.

    Parameters
    ----------
    target : Target
    mixture : Mixture
    family : VariationalFamily
        Of the new component.
    n_points : int
        Residual points to try.
    rng : numpy.random.Generator
    owners : Mixture, default=None
        Components of the family to start from, where those of `mixture` are not.

    Returns
    -------
    list of ndarray of shape (n_params,)
    """
    owners = owners or mixture
    starts = []
    for k in np.argsort(-owners.weights, kind="stable")[:2]:
        params = in_family(family, owners.components[k][1], mixture.dim)
        shift = skew_direction(target, owners, k, rng)
        starts += [
            family.recentre(params, family.location(params) + s * shift)
            for s in _SHIFTS
        ]
        starts += [family.widen(params, width) for width in (0.6, 1.7)]
    points = residual_points(target, mixture, n_points, rng, owners)
    if not len(points):
        return starts
    nearest = owners.responsibilities(points).argmax(axis=1)
    for point, k in zip(points, nearest, strict=True):
        params = in_family(family, owners.components[k][1], mixture.dim)
        centre = family.location(params)
        reach = np.abs(point - centre) / family.scale(params)
        starts += [
            family.recentre(family.widen(params, 0.5), point),
            family.recentre(params, point),
            # In many dimensions every draw is far out; its direction is what counts.
            family.recentre(params, centre + (point - centre) / np.sqrt(mixture.dim)),
            # A tail wants a wide component where the owner is, not one beside it.
            family.widen(params, max(1.0, reach.max() / 1.5)),
        ]
    return starts
