"""A low-rank Gaussian that grows until what is left is noise or out of its reach."""

from functools import partial

import numpy as np

from skboost._random import BASE, generator
from skboost.boosting._curvature import wide_directions
from skboost.boosting._early_stopping import best_stop
from skboost.boosting._greedy import start_values
from skboost.boosting._solver import SMALLEST_TOL, ascend
from skboost.boosting._whitening import whitening_of
from skboost.families import Gaussian
from skboost.objectives import SingleELBO

# Columns that the first growth may add; later ones double the rank at most.
_FIRST_RANK = 8
_MAX_RANK = 128
_MAX_STEPS = 12
_MAX_ITER = 40
# Draws that one column of the factor asks for; where a search fits noise there are
# more, up to this multiple of what the run has.
_DRAWS_PER_COLUMN = 8
_MOST_DRAWS = 4
# Draws at which curvature is averaged.
_N_POINTS = 8
# Flattest curvature that one step answers, and the least excess of a column: at zero
# its own gradient would vanish.
_FLATTEST, _LEAST_EXCESS = 1e-3, 1e-3


def grown(target, params, rank, n_draws, tol, seed, exact):
    """A low-rank Gaussian from a diagonal one, by curvature and by ELBO in turns.

    Each step adds the directions in which the averaged curvature says that the
    Gaussian is too narrow, with the variances that would be right for a quadratic,
    and ascends the ELBO in all parameters. It is kept if it gains on other draws,
    and the steps end when they gain little.

    Parameters
    ----------
    target : Target
    params : ndarray of shape (2 * dim,)
        Of ``Gaussian("diag")``.
    rank : int or None
        Columns of the factor, at most dim; None lets the curvature decide.
    n_draws : int
    tol : float
        Nats that matter: a direction, and a step, has to gain more.
    seed : int
    exact : bool
        Whether ``E_q[log joint]`` comes from the target in closed form.

    Returns
    -------
    value : float
        ELBO on draws that it was not fitted to, nats.
    family : Gaussian
        Of low rank.
    params : ndarray of shape (n_params,)
    """
    family, n = Gaussian("diag"), n_draws
    for step in range(_MAX_STEPS):
        rng = generator(seed, 0, BASE, 2, step)
        last = family, params
        family, before, start = widened(target, *last, rank, tol, rng)
        n = max(n, _DRAWS_PER_COLUMN * family.rank)
        problem, other = (
            SingleELBO(target, family, start, base, exact)
            for base in (family.matched_draws(n, target.dim, rng) for _ in range(2))
        )
        x, value = ascend(
            problem, max_iter=_MAX_ITER, tol=max(1e-2 * tol, SMALLEST_TOL)
        )
        found = problem.unpack(x)
        # The search's own draws flatter; both ends on common draws do not.
        own = value - problem.elbo(before)
        gain = other.elbo(found) - other.elbo(before)
        # A factor has a column, if only one that gains nothing.
        better = gain > 0 or step == 0
        params = found if better else before
        value = other.elbo(params)
        if not better:
            family, params = last
        if gain < 0.5 * own and own > 2.0 * tol and n < _MOST_DRAWS * n_draws:
            n *= 2
        elif not gain > max(tol, 0.1 * own):
            break
    return value, family, params


def widened(target, family, params, rank, tol, rng):
    """A Gaussian with further columns, where there is room and need for them.

    Parameters
    ----------
    target : Target
    family : Gaussian
        Diagonal or low rank.
    params : ndarray of shape (n_params,)
    rank, tol
        As in `grown`.
    rng : numpy.random.Generator

    Returns
    -------
    family : Gaussian
        Of low rank.
    same : ndarray of shape (n_params,)
        The Gaussian as it was, with columns of zeros.
    params : ndarray of shape (n_params,)
        With the columns that curvature suggests.
    """
    mean, variance, factor = family.structure(params)
    if factor is None:
        factor = np.empty((mean.size, 0))
    now = factor.shape[1]
    room = min(_MAX_RANK if rank is None else rank, mean.size) - now
    if room == 0:
        return family, params, params
    if rank is None:
        room = min(room, max(now, _FIRST_RANK))
    eps = family.matched_draws(_N_POINTS, mean.size, rng)
    whitening = whitening_of(family, params)
    points = family.transport(params, eps)
    curvature, directions = wide_directions(target, whitening, points, room, rng)
    curvature = np.clip(curvature, _FLATTEST, 1.0 / (1.0 + _LEAST_EXCESS))
    if rank is None:
        # What a direction of a quadratic gains by the variance that is right for it.
        kept = 0.5 * (curvature - 1.0 - np.log(curvature)) > tol
        # A factor has a column, if only a short one.
        kept[0] |= now == 0
        curvature, directions = curvature[kept], directions[kept]
    columns = np.sqrt(1.0 / curvature - 1.0) * whitening.lift(directions).T
    same, more = (
        Gaussian.from_structure(mean, variance, np.hstack([factor, added]))
        for added in (0.0 * columns, columns)
    )
    return *same, more[1]


def with_factor(target, family, mean, variances):
    """The low-rank Gaussian of the family that curvature suggests at a mode.

    Parameters
    ----------
    target : Target
    family : Gaussian
        Of low rank, which is not open.
    mean : ndarray of shape (dim,)
    variances : ndarray of shape (dim,)
        One over the diagonal of the curvature.

    Returns
    -------
    ndarray of shape (n_params,)
    """
    diagonal, rng = Gaussian("diag"), np.random.default_rng(0)
    params = diagonal.from_moments(mean, variances)
    return widened(target, diagonal, params, family.rank, 0.0, rng)[2]


def broadened(residual, objective, found, n_draws, tol, rng):
    """A component that a search found, with the columns that the residual asks for.

    Parameters
    ----------
    residual : Residual
    objective : JointGain or ResidualGain
    found : Candidate
        Of a low-rank family.
    n_draws : int
    tol : float
        Nats that matter.
    rng : numpy.random.Generator

    Returns
    -------
    Candidate
        That which is better on draws that neither was fitted to.
    """
    family, before, start = widened(
        residual.target, found.family, found.params, None, tol, rng
    )
    if family.rank == found.family.rank:
        return found
    n = max(n_draws, _DRAWS_PER_COLUMN * family.rank)
    base, other = (family.matched_draws(n, residual.target.dim, rng) for _ in range(2))
    problem = objective.problem(residual, (family, start), found.share, base)
    if objective.early_stopping:
        gains = partial(_gains, residual, base)
        wider = best_stop(objective, [problem], gains)
    else:
        tol = max(1e-2 * tol, SMALLEST_TOL)
        x, value = ascend(problem, max_iter=_MAX_ITER, tol=tol)
        wider = objective.candidate(problem, x, value)

    def judged(params, share):
        problem = objective.judge(residual, (family, params), share, other)
        return problem.value_and_gradient(problem.start)[0]

    better = judged(wider.params, wider.share) > judged(before, found.share)
    return wider if better else found


def _gains(residual, base_draws, family, members, shares):
    return start_values(residual, family, members, base_draws, shares)
