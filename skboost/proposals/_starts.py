"""Where to look for the next component."""

import numpy as np

from skboost._math import log_sum_exp
from skboost.mixtures import Mixture

# Keeps a direction without strength from dividing by zero.
_TINY = 1e-300
# How far along the most skewed direction a start lies, in standard deviations.
_SHIFTS = (-1.0, 1.0)
# The same for both halves of a component that is split.
_HALF_SHIFT = 0.5
# Widths of the copies of heavy components.
_COPIES = (0.6, 1.7)


def widened_mixture(mixture, settings):
    """The mixture with every component repeated at several widths.

    Its own draws see what it sees; wide ones reach tails and modes that it does not.
    """
    components = [
        (family, family.widen(params, width))
        for family, params in mixture.components
        for width in settings.probe_widths
    ]
    weights = np.outer(mixture.weights, settings.probe_shares).ravel()
    return Mixture(tuple(components), weights)


def residual_points(context, n, settings, rng):
    """Points drawn where the target has more mass than the mixture.

    Importance weights of the positive part of ``p - q`` under a wide proposal: a
    point far out with a high ratio but no mass is not worth a component.

    Parameters
    ----------
    context : SearchContext
    n : int
        Number of points at most.
    settings : Settings
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (m, dim), m <= n
    """
    proposal = widened_mixture(context.fixed.components, settings)
    theta = proposal.sample(settings.n_probes, rng)
    log_joint = context.target.log_density(theta)
    log_proposal = proposal.log_density(theta)
    log_ratio = log_joint - log_proposal
    log_z = log_sum_exp(log_ratio[None])[0] - np.log(len(theta))
    if not np.isfinite(log_z):
        return theta[:0]
    q_ratio = np.exp(context.mixture.log_density(theta) - log_proposal)
    missing = np.maximum(np.exp(log_ratio - log_z) - q_ratio, 0.0)
    if not missing.sum() > 0:
        return theta[:0]
    chosen = rng.choice(len(theta), size=n, p=missing / missing.sum())
    return theta[np.unique(chosen)]


def skew_direction(target, mixture, k, settings, rng):
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
    settings : Settings
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (dim,)
    """
    family, params = mixture.components[k]
    scale = family.whitening(params)
    theta = family.transport(
        params, family.base_draws(settings.n_skew_draws, mixture.dim, rng)
    )
    _, score = target.value_and_score(theta)
    residual = score - mixture.score_and_log_density(theta)[0]
    z = scale.whiten(theta - family.location(params))
    slope = scale.pull(residual)
    directions = rng.standard_normal((mixture.dim, settings.n_skew_starts))
    for _ in range(settings.n_skew_steps):
        directions /= np.linalg.norm(directions, axis=0) + _TINY
        directions = slope.T @ ((z @ directions) ** 2 - 1.0)
    strength = np.linalg.norm(directions, axis=0)
    best = directions[:, strength.argmax()]
    return scale.lift(best / (np.linalg.norm(best) + _TINY))


def split_component(target, mixture, settings, rng):
    """The mixture with its heaviest component split where it is most skewed.

    A start for a joint search of what no single component finds from weight zero.

    Parameters
    ----------
    target : Target
    mixture : Mixture
    settings : Settings
    rng : numpy.random.Generator

    Returns
    -------
    Mixture
    """
    k = int(mixture.weights.argmax())
    family, params = mixture.components[k]
    shift = _HALF_SHIFT * skew_direction(target, mixture, k, settings, rng)
    here, there = (
        family.recentre(params, family.location(params) + s * shift) for s in _SHIFTS
    )
    weights = np.append(mixture.weights, 0.5 * mixture.weights[k])
    weights[k] *= 0.5
    halves = mixture.replace(k, family, here).append(family, there)
    return halves.with_weights(weights)


def starting_components(context, family, settings, rng):
    """Candidate starts: at residual points, and rescaled copies of heavy components.

    Parameters
    ----------
    context : SearchContext
    family : VariationalFamily
        Of the new component.
    settings : Settings
    rng : numpy.random.Generator

    Returns
    -------
    list of ndarray of shape (n_params,)
    """
    owners, dim = context.fixed.components, context.mixture.dim
    starts = []
    for k in np.argsort(-owners.weights, kind="stable")[:2]:
        params = family.convert(owners.components[k][1], dim)
        if settings.skewness_starts:
            shift = skew_direction(context.target, owners, k, settings, rng)
            centre = family.location(params)
            starts += [family.recentre(params, centre + s * shift) for s in _SHIFTS]
        starts += [family.widen(params, width) for width in _COPIES]
    points = residual_points(context, 2 * settings.n_restarts + 2, settings, rng)
    if not len(points):
        return starts
    nearest = owners.responsibilities(points).argmax(axis=1)
    for point, k in zip(points, nearest, strict=True):
        params = family.convert(owners.components[k][1], dim)
        starts += _starts_at(family, params, point)
    return starts


def _starts_at(family, params, point):
    """Starts that a residual point suggests, made of the component nearest to it."""
    centre = family.location(params)
    reach = np.abs(point - centre) / family.scale(params)
    return [
        family.recentre(family.widen(params, 0.5), point),
        family.recentre(params, point),
        # In many dimensions every draw is far out; its direction is what counts.
        family.recentre(params, centre + (point - centre) / np.sqrt(len(point))),
        # A tail wants a wide component where the owner is, not one beside it.
        family.widen(params, max(1.0, reach.max() / 1.5)),
    ]
