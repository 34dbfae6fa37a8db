"""Where a component is most skewed: starts beside it, and halves to split it into."""

import numpy as np

# Keeps a direction without strength from dividing by zero.
_TINY = 1e-300
# How far along the most skewed direction, in standard deviations: a start, and each of
# the halves of a component.
_SHIFTS, _HALF_SHIFTS = (-1.0, 1.0), (-0.5, 0.5)


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


def skewed_starts(target, mixture, k, family, params, settings, rng):
    """Copies of a component, shifted both ways along its most skewed direction.

    Parameters
    ----------
    target : Target
    mixture : Mixture
    k : int
        The component.
    family, params : VariationalFamily, ndarray of shape (n_params,)
        The same component in the layout of the family.
    settings : Settings
    rng : numpy.random.Generator

    Returns
    -------
    list of ndarray of shape (n_params,)
    """
    shift = skew_direction(target, mixture, k, settings, rng)
    centre = family.location(params)
    return [family.recentre(params, centre + s * shift) for s in _SHIFTS]


def split_component(target, mixture, k, settings, rng):
    """The mixture with a component split where it is most skewed.

    A start for a joint search of what no single component finds from weight zero.

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
    Mixture
        One half in the component's place, the other one last.
    """
    family, params = mixture.components[k]
    shift = skew_direction(target, mixture, k, settings, rng)
    here, there = (
        family.recentre(params, family.location(params) + s * shift)
        for s in _HALF_SHIFTS
    )
    weights = np.append(mixture.weights, 0.5 * mixture.weights[k])
    weights[k] *= 0.5
    halves = mixture.replace(k, family, here).append(family, there)
    return halves.with_weights(weights)
