"""Where to look for the next component."""

import numpy as np

from skboost._math import log_sum_exp
from skboost.approximation import Mixture
from skboost.proposals._skewness import skewed_starts

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
            starts += skewed_starts(
                context.target, owners, k, family, params, settings, rng
            )
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
