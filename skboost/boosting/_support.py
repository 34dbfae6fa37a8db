"""Where the density is positive: the starts of a search, and its first components."""

import numpy as np

from skboost._math import mean_and_se
from skboost.boosting._climb import climb_all
from skboost.targets import LogDensityError
from skboost.transforms import Real

# A density that still climbs at this multiple of the starts' size, at half of its
# average slope, has no mode there to be found.
_FAR = 1e6
# Narrowing a component: the factor of one step, the most steps, and the share of
# draws with positive density that is enough.
_NARROWER, _MAX_STEPS, _ENOUGH = 0.6, 25, 0.995
# A posterior this large, in units of one or of the starts, is looked at with so many
# draws.
_HUGE, _N_RUNAWAY = 1e6, 64
# A component this narrow, in units of one or of the widest, is climbed from so many
# draws.
_NARROW, _N_COLLAPSED = 1e-4, 8


def usable_starts(target, starts):
    """The starts at which the density is positive.

    Parameters
    ----------
    target : Target
        As searches see it.
    starts : ndarray of shape (n_starts, dim)

    Raises
    ------
    LogDensityError
        Where there is none.
    """
    value, _ = target.value_and_score(starts)
    usable = np.isfinite(value)
    if usable.any():
        return starts[usable]
    what, why = _what_came(target)
    raise LogDensityError(
        f"log_density {what} at x0={_shown(target, starts)}, at all of the "
        f"{len(starts)} starting points.{why} Pass as x0 a point where the density is "
        "positive, several points, or a box (low, high)."
    )


def proper_modes(target, starts, modes):
    """Those modes at which a search from its start ended, and did not just go on.

    Parameters
    ----------
    target : Target
    starts, modes : ndarray of shape (n, dim)

    Raises
    ------
    LogDensityError
        Where all searches ran off: the density is improper.
    """
    path = modes - starts
    length = np.abs(path).max(axis=1)
    far = length > _FAR * np.maximum(1.0, np.abs(starts).max(axis=1))
    if not far.any():
        return modes
    before = target.log_density(starts)
    after, score = target.value_and_score(modes)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = (score * (path / length[:, None])).sum(axis=1)
        climbing = far & ~(slope * length < 0.5 * (after - before))
    if not climbing.all():
        return modes[~climbing]
    raise LogDensityError(
        f"log_density rises without end: from x0={_shown(target, starts)} it still "
        f"climbs at theta={_shown(target, modes[:1])}. Such a density can not be "
        "normalised. Give every parameter a proper prior, or check the sign of "
        "log_density."
    )


def narrowed(target, family, params, base_draws):
    """A component, narrowed until its draws have positive density.

    A search can not step back from draws of zero density by a slope, so it starts
    where there are none. The component itself where narrowing does not help.

    Parameters
    ----------
    target : Target
    family : VariationalFamily
    params : ndarray of shape (n_params,)
    base_draws : ndarray of shape (n, base_dim)

    Returns
    -------
    ndarray of shape (n_params,)
    """
    found = params
    for _ in range(_MAX_STEPS):
        theta = family.transport(found, base_draws)
        if np.isfinite(target.log_density(theta)).mean() >= _ENOUGH:
            return found
        found = family.widen(found, _NARROWER)
    return params


def check_reached(target, fresh, starts):
    """Refuse a first component of which no draw has positive density."""
    if fresh.outside < 1.0:
        return
    what, why = _what_came(target)
    raise LogDensityError(
        f"log_density {what} at all {len(fresh.theta)} draws of the first component, "
        f"which was looked for from x0={_shown(target, starts)}.{why} Pass as x0 a "
        "point well inside the support, and parameters whose scale is near one; or "
        "constraints=."
    )


def runaway(target, mixture, starts, rng):
    """What to say of a mixture that grows without end; empty where it does not.

    At the optimum over components that move and scale, and under the posterior
    itself, ``E_q[((theta - c) . v) (v . score)] = -1`` for every direction v and centre
    c: the score of a density that can be normalised holds draws together. Zero is a
    flat direction, more is a density that rises outwards.

    Parameters
    ----------
    target : Target
        As searches see it.
    mixture : Mixture
    starts : ndarray of shape (n_starts, dim)
    rng : numpy.random.Generator

    Returns
    -------
    str
    """
    centre = starts.mean(axis=0)
    usual = np.full(mixture.dim, _HUGE * max(1.0, np.abs(starts).max()))
    # Where the user's scale is an exponential away, it ends sooner.
    usual = np.minimum(usual, getattr(target, "room", np.inf))
    reach = np.hypot(mixture.mean() - centre, mixture.std())
    if not (reach > usual).any():
        return ""
    theta = mixture.sample(_N_RUNAWAY, rng)
    value, score = target.value_and_score(theta)
    away, score = (theta - centre)[value > -np.inf], score[value > -np.inf]
    if len(away) < 2:
        return ""
    away, score = away / usual, score * usual
    loose = (v for v in _directions(away) if _loose(away, score, v))
    direction = next(loose, None)
    if direction is None:
        return ""
    i = int(np.abs(direction).argmax())
    return (
        "Stopped: the posterior seems to be improper. It has grown to "
        f"{usual[i] * np.abs(away @ direction).max():.1g} along "
        f"{_coordinate(target, i)}, and the log density does not fall there. Give "
        "every parameter a proper prior or bounds; if the parameter is of that size, "
        "divide it by a unit that makes it near one."
    )


def collapsed(target, mixture, rng):
    """What to say of a component on a pole of the density; empty where there is none.

    Narrow components are legal, and so are poles that have little mass: to swallow a
    component a pole must be too steep to be integrated. There climbs never end.

    Parameters
    ----------
    target : Target
        As searches see it.
    mixture : Mixture
    rng : numpy.random.Generator

    Returns
    -------
    str
    """
    scales = np.array([family.scale(params) for family, params in mixture.components])
    narrow = (scales / np.maximum(1.0, scales.max(axis=0))).min(axis=1)
    k = int(narrow.argmin())
    if not narrow[k] < _NARROW:
        return ""
    family, params = mixture.components[k]
    base = family.base_draws(_N_COLLAPSED, mixture.dim, rng)
    ends = climb_all(target, family.transport(params, base), scales[k])
    highest = int(ends.heights.argmax())
    if ends.settled[highest] or not np.isfinite(ends.heights[highest]):
        return ""
    return (
        "Stopped: the posterior seems to be improper. A component has shrunk onto "
        f"theta={_shown(target, ends.points[highest][None])}, where the log density "
        "rises without end. Give every parameter a proper prior, and scales one that "
        "keeps them from zero."
    )


def _directions(away):
    """The axes, then the principal directions of some draws."""
    _, _, principal = np.linalg.svd(away / np.abs(away).max(), full_matrices=False)
    return [*np.eye(away.shape[1]), *principal]


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


def _what_came(target):
    """What a density does where it is nowhere positive, and the first failure."""
    failure = getattr(target, "first_failure", None)
    if failure is None:
        return "is -inf (a density of zero)", ""
    return "fails or is -inf", f" First: {failure}"


def _coordinate(target, i):
    """A coordinate by the number that the user knows it by."""
    if not hasattr(target, "constraints"):
        return f"theta[{i}]"
    part = next(part for part in target.constraints.parts if i in part.free)
    shown = f"theta[{part.columns[list(part.free).index(i)]}]"
    free = isinstance(part.transform, Real)
    return shown if free else f"{shown} on its unconstrained scale"


def _shown(target, starts):
    """The first start, on the user's scale where that is another."""
    first = starts[0]
    if hasattr(target, "constraints"):
        first = target.constraints.forward(starts[:1])[0]
    return first if len(starts) == 1 else f"{first} and others"
