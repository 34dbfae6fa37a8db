"""Signs that a density can not be normalised: mixtures grow, or shrink, for ever."""

import numpy as np

from skboost._math import mean_and_se
from skboost.modes import MAX_HESSIAN_DIM, climb_all
from skboost.targets import coordinate_label, shown_point

# A component this narrow, in units of one or of the widest, is climbed from.
_NARROW = 1e-4


def drift_to_infinity(target, mixture, starts, rng):
    """What to say of a mixture that grows without end; empty where it does not.

    At the optimum over components that move and scale, and under the posterior
    itself, ``E_q[((theta - c) . v) (v . score)] = -1`` for every direction v and centre
    c: the score of a density that can be normalised holds draws together. Zero is a
    flat direction, more is a density that rises outwards.
    """
    centre = starts.mean(axis=0)
    # Only a posterior larger than this, in units of one or of the starts, is looked at.
    usual = np.full(mixture.dim, 1e6 * max(1.0, np.abs(starts).max()))
    # Where the user's scale is an exponential away, it ends sooner.
    usual = np.minimum(usual, target.largest_coordinate)
    reach = np.hypot(mixture.mean() - centre, mixture.std())
    if not (reach > usual).any():
        return ""
    theta = mixture.sample(64, rng)
    value, score = target.value_and_score(theta)
    away, score = (theta - centre)[value > -np.inf], score[value > -np.inf]
    if len(away) < 2:
        return ""
    away, score = away / usual, score * usual
    # Along the axes, then along the principal directions of the draws.
    _, _, principal = np.linalg.svd(away / np.abs(away).max(), full_matrices=False)
    directions = (*np.eye(mixture.dim), *principal)
    loose = [v for v in directions if _loose(away, score, v)]
    if not loose:
        return ""
    i = int(np.abs(loose[0]).argmax())
    size = f"{usual[i] * np.abs(away @ loose[0]).max():.1g}"
    if target.proper:
        return (
            "Stopped: the prior is too weak for these rows. Coefficients have grown to "
            f"{size} along {coordinate_label(target, i)} of posterior_, and the "
            "likelihood does not hold them: where columns separate the responses, "
            "nothing but the prior bounds their coefficients. Give a smaller "
            'prior_scale and intercept_scale (the defaults, "auto" or 1 on '
            "standardised columns, are meant for this), or leave such columns out."
        )
    return (
        f"Stopped: the posterior seems to be improper. It has grown to {size} along "
        f"{coordinate_label(target, i)}, and the log density does not fall there. "
        "Check the sign of the log density, and give every parameter a proper prior or "
        "bounds; if the parameter is of that size, divide it by a unit that makes it "
        "near one."
    )


def collapse_to_pole(target, mixture, rng):
    """What to say of a component on a pole of the density; empty where there is none.

    Narrow components are legal, and so are poles that have little mass. At a pole
    climbs never end; it is too steep to be integrated where the mass within reach does
    not fall on the way up. In a hierarchical model it falls: the density is unbounded
    where a scale and all effects of that scale are zero together, but they are so in
    ever less volume.
    """
    scales = mixture.component_scales()
    narrow = (scales / np.maximum(1.0, scales.max(axis=0))).min(axis=1)
    k = int(narrow.argmin())
    if not narrow[k] < _NARROW:
        return ""
    draws = mixture.components[k].sample(8, rng)
    ends = climb_all(target, draws, scales[k])
    highest = int(ends.heights.argmax())
    if ends.settled[highest] or not np.isfinite(ends.heights[highest]):
        return ""
    if mixture.dim <= MAX_HESSIAN_DIM:
        points = draws[highest], ends.points[highest]
        before, after = (log_mass_near(target, x, scales[k]) for x in points)
        if after < before - 1.0:
            return ""
    return (
        "Stopped: the posterior seems to be improper. A component has shrunk onto "
        f"theta={shown_point(target, ends.points[highest][None])}, where the log "
        "density rises without end. Give every parameter a proper prior, and scales "
        "one that keeps them from zero."
    )


def log_mass_near(target, x, scale):
    """Log density at a point, and the log volume in which it is of that size, nats.

    The volume is that of Laplace's method without its constant. Directions in which
    the density changes over more than `scale` (dim,) count with that, so that only
    differences of what is returned mean anything.
    """
    step = np.diag(1e-3 * scale)
    value, score = target.value_and_score(np.concatenate([x[None], x + step, x - step]))
    score = scale * score[1:]
    curvature = (score[: x.size] - score[x.size :]) / 2e-3
    if not np.isfinite(curvature).all():
        return np.inf
    curvature = np.linalg.eigvalsh(0.5 * (curvature + curvature.T))
    return value[0] - 0.5 * np.log(np.maximum(np.abs(curvature), 1.0)).sum()


def _loose(away, score, direction):
    """Whether draws reach far along a direction and nothing holds them together.

    All in units of what is usual.
    """
    along = away @ direction
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.abs(along).max() > 1.0:
            return False
        pull, se = mean_and_se(along * (score @ direction))
    return not np.isfinite(pull) or pull - 4.0 * se > -0.5
