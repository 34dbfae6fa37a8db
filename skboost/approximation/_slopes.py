"""Whether the gradient of a user's function is the slope of its values."""

import warnings
from typing import NamedTuple

import numpy as np

# Of a coordinate, or absolute below one; a right gradient agrees with one of them. Long
# ones are for functions with noise, short ones for those that bend within the others.
_STEPS = np.array([1e-3, 1e-5, 1e-9])
# Share of a difference by which a right gradient may miss it: the function bends.
_NEAR = 0.1
# The same at draws, in standard deviations: a little noise is no reason to leave a
# place.
_WITHIN, _ROUGHLY = np.array([1e-3, 0.3]), 0.25
# Draws of a sum that are looked at.
_HEAVIEST = 4
# Rounding of the function's values, in units of their last place.
_ROUNDING = 64.0 * np.finfo(float).eps


def warn_of_wrong_gradient(target, points, stacklevel, place=np.asarray):
    """Warn if central differences disagree with the gradient at every point.

    One may lie at a kink. `place` maps points to those that the user knows.
    """
    rng = np.random.default_rng(0)
    along = rng.uniform(0.5, 1.0, points.shape) * rng.choice([-1.0, 1.0], points.shape)
    along *= np.maximum(1.0, np.abs(points))
    found, promised, telling, right = _compared(target, points, along, _STEPS, _NEAR)
    known = telling.any(axis=0)
    if not known.any() or right.any(axis=0)[known].any():
        return
    point = int(known.argmax())
    step = int(telling[:, point].argmax())
    length = 2.0 * _STEPS[step] * np.linalg.norm(along[point])
    theta = place(points)[point]
    warnings.warn(
        "The gradient of log_density is not its slope where it was tried "
        f"(points: {known.sum()}): along one direction at theta={theta} the density "
        f"rises by {found[step, point] / length:.4g} nats a unit, and the gradient "
        f"says {promised[step, point] / length:.4g}. Check the sign and the factors of "
        "gradient=; without it, that all of the density goes through autograd.numpy.",
        UserWarning,
        stacklevel=stacklevel,
    )


class Noise(NamedTuple):
    """A point (dim,) at which values contradict slopes, and nats over a short way."""

    point: np.ndarray
    promised: float
    change: float


def noise_at(target, points, component):
    """`Noise` where values contradict slopes at half of some points; None elsewhere.

    Where large terms cancel values are rounding, or lack a term, and climbs and
    averages take that for heights. Slopes are those on the way from a component, over
    parts of its scale.
    """
    if not (target.ledger.counts and len(points)):
        # No function of a user.
        return None
    found, promised, noisy = _refuted(target, points, component)
    if 2 * noisy.sum() < len(points):
        return None
    most = int(np.where(noisy, np.abs(found - promised), 0.0).argmax())
    return Noise(points[most], promised[most], found[most])


def without_noise(target, theta, log_p, log_q, component):
    """Log densities (n,) of draws from q, -inf where they are noise that has weight.

    Only a few are looked at, where they carry half of the sum.
    """
    log_p = log_p.copy()
    while target.ledger.counts:
        with np.errstate(invalid="ignore"):
            share = np.exp(log_p - log_q - (log_p - log_q).max())
        heaviest = np.argsort(share)[-_HEAVIEST:]
        if not 2.0 * share[heaviest].sum() > share.sum():
            break
        noisy = _refuted(target, theta[heaviest], component)[-1]
        if not noisy.any():
            break
        log_p[heaviest[noisy]] = -np.inf
    return log_p


def _refuted(target, points, component):
    """Differences over the longest step and what gradients promise, (n,), nats, and
    at which points no difference agrees."""
    scale = component.scale()
    away = (points - component.location()) / scale
    along = scale * away / np.linalg.norm(away, axis=1, keepdims=True)
    parts = _compared(target, points, along, _WITHIN, _ROUGHLY)
    found, promised, telling, right = parts
    return found[-1], promised[-1], telling.any(axis=0) & ~right.any(axis=0)


def _compared(target, points, along, steps, near):
    """Differences over steps along vectors (n, dim), and what the gradient promises.

    Both in nats, (n_steps, n), with where these tell something, and where they agree.
    """
    value, slope = target.value_and_score(points)
    rises = [_rise(target, points, step * along) for step in steps]
    found, rounding = (np.array(part) for part in zip(*rises, strict=True))
    promised = np.outer(steps, 2.0 * (slope * along).sum(axis=1))
    largest = np.maximum(np.abs(found), np.abs(promised))
    # Where the gradient fails a search says how.
    telling = (near * largest > rounding) & np.isfinite(value)
    right = telling & (np.abs(found - promised) <= near * largest + rounding)
    return found, promised, telling, right


def _rise(target, points, step):
    """What the log density rises by over two steps, and how well that is known."""
    up, down = target.log_density(points + step), target.log_density(points - step)
    rounding = _ROUNDING * np.maximum(np.abs(up), np.abs(down))
    # Where there is no density nothing is known.
    inside = np.isfinite(up) & np.isfinite(down)
    with np.errstate(invalid="ignore"):
        return np.where(inside, up - down, 0.0), np.where(inside, rounding, np.inf)
