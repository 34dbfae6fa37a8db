"""Where the density is positive: the starts of a search, and its first components."""

import numpy as np

from skboost.targets import LogDensityError, shown_point, what_came

# A density that still climbs at this multiple of the starts' size, at half of its
# average slope, has no mode there to be found.
_FAR = 1e6
# Narrowing a component: the factor of one step, the most steps, and the share of
# draws with positive density that is enough.
_NARROWER, _MAX_STEPS, _ENOUGH = 0.6, 25, 0.995


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
    what, why = what_came(target)
    raise LogDensityError(
        f"log_density {what} at x0={shown_point(target, starts)}, at all of the "
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
        f"log_density rises without end: from x0={shown_point(target, starts)} it "
        f"still climbs at theta={shown_point(target, modes[:1])}. Such a density "
        "can not be normalised. Give every parameter a proper prior, or check the "
        "sign of log_density."
    )


def shrink_to_support(target, family, params, base_draws):
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
