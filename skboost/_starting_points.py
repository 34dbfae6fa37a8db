"""Where searches begin: from what a user writes as ``x0`` to unconstrained points."""

from functools import partial

import numpy as np

from skboost._budget import Budget
from skboost._random import BASE, generator
from skboost.modes import Box, climb_all
from skboost.targets import TransformedTarget

# Angles at which a density is looked at around a circle, and starts that are followed.
_N_ANGLES, _N_FOLLOWED = 32, 8


def starting_points(x0, constraints, seed):
    """Where a search begins, in unconstrained coordinates.

    Parameters
    ----------
    x0 : array-like, tuple (low, high) or None
        On the user's scale; see `boost_posterior`.
    constraints : Constraints
    seed : int

    Returns
    -------
    starts : ndarray of shape (n_starts, n_free)
    box : Box or None
        From which more of them can be drawn.

    Raises
    ------
    ValueError
        Where `x0` means nothing for these constraints.
    """
    dim = constraints.dim
    if x0 is None:
        return np.zeros((1, constraints.n_free)), None
    if isinstance(x0, tuple):
        low, high = _box(x0, dim)
        _check_ends(low, high, constraints)
        box = Box(low, high, partial(_placed, constraints))
        return box.draw(8, generator(seed, BASE, 2)), box
    starts = np.atleast_2d(_numbers(x0))
    fits = starts.ndim == 2 and starts.shape[1] == dim and len(starts) > 0
    if not fits or not np.isfinite(starts).all():
        raise ValueError(
            f"x0 must be finite, of shape ({dim},) or (n_starts, {dim}); got shape "
            f"{np.shape(x0)}. For a box pass a tuple (low, high)."
        )
    return constraints.inverse(_supported(starts, constraints)), None


def with_placed_cuts(target, constraints, starts, surrogate=None, max_evaluations=None):
    """Constraints whose periods begin and end where the density is low.

    A mode at the ends of a period then is one mode. The density is looked at around
    each circle, with the other coordinates where the starts are, and again where climbs
    from the best angles end. Cuts that the user has given stay.

    Parameters
    ----------
    target : Target
        On the user's scale.
    constraints : Constraints
    starts : ndarray of shape (n_starts, n_free)
    surrogate : str or None, default=None
        That of `boost_posterior`; with one there are no evaluations for climbs.
    max_evaluations : int, default=None
        Of the whole run, of which climbs take a quarter at most.

    Returns
    -------
    Constraints
        The same object where nothing is periodic.
    """
    circles = {i: c for i, c in constraints.periodic.items() if not c.placed}
    if not circles:
        return constraints
    most = np.inf if max_evaluations is None else max_evaluations
    fit_in = most / (8 * _N_ANGLES * len(circles))
    points = constraints.forward(starts[: int(np.clip(fit_in, 1, _N_FOLLOWED))])
    placed = _cut_at_lowest(target, constraints, circles, points)
    if surrogate is not None:
        return placed
    budget = Budget(max_evaluations=most, ledger=target.ledger).share(0.25)
    with target.ledger.within(budget, raises=False):
        inner, begin = TransformedTarget(target, placed), placed.inverse(points)
        ends = climb_all(inner, begin, np.ones(inner.dim))
    return _cut_at_lowest(target, placed, circles, placed.forward(ends.points))


def _cut_at_lowest(target, constraints, circles, points):
    """Constraints with new cuts; moves the points to their best angles, in place."""
    cuts = {}
    for i, circle in circles.items():
        share = (np.arange(_N_ANGLES) + 0.5) / _N_ANGLES
        angles = circle.low + circle.period * share
        around = np.repeat(points, _N_ANGLES, axis=0)
        around[:, i] = np.tile(angles, len(points))
        heights = target.log_density(around).reshape(len(points), _N_ANGLES)
        points[:, i] = angles[heights.argmax(axis=1)]
        profile = heights.max(axis=0)
        if np.isneginf(profile).all():
            # For the search to say that the density is zero at its starts.
            cuts[i] = circle.low
            continue
        # What is zero, or next to it, is equally low; of a gap the middle is taken.
        profile = np.maximum(profile, profile.max() - 700.0)
        smooth = sum(np.roll(profile, shift) for shift in range(-2, 3)) / 5.0
        lowest = np.flatnonzero(smooth <= smooth.min() + 1e-9)
        cuts[i] = angles[lowest[len(lowest) // 2]]
    return constraints.with_cuts(cuts)


def _numbers(values):
    """An array of floats."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"x0 must hold numbers, in rows of one length; got {values!r}."
        ) from error


def _placed(constraints, points):
    """Points of a box, moved into the constraints, in unconstrained coordinates."""
    return constraints.inverse(_supported(constraints.from_box(points), constraints))


def _supported(starts, constraints):
    """The starts, all of which have to lie inside the constraints."""
    for start in starts:
        violated = constraints.violated_by(start)
        if violated is not None:
            raise ValueError(
                f"x0 must lie inside constraints; got {start.tolist()}, which violates "
                f"{violated}. Pass starting points on your own scale."
            )
    return starts


def _check_ends(low, high, constraints):
    """A box may touch the ends of the coordinates' ranges, and not pass them."""
    for transform, columns, _ in constraints.parts:
        each = transform.each
        for i in columns:
            if low[i] < each.low or high[i] > each.high:
                raise ValueError(
                    f"x0 as a box must lie inside constraints; got ({low[i]}, "
                    f"{high[i]}) for coordinate {i}, which is under {transform!r}."
                )


def _box(x0, dim):
    """Ends of a box, each of shape (dim,)."""
    ends = [_numbers(end) for end in x0]
    fits = len(ends) == 2 and all(end.shape in ((), (1,), (dim,)) for end in ends)
    if fits:
        low, high = (np.broadcast_to(end, dim) for end in ends)
        fits = np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()
    if not fits:
        raise ValueError(
            "x0 as a box must be a tuple (low, high) with low < high, finite, numbers "
            f"or arrays of shape ({dim},); got {x0}. Pass a point as a list or array."
        )
    return low, high
