"""The first component: ordinary variational inference on the target."""

import numpy as np

from skboost._parallel import chunked_map
from skboost._random import BASE, generator
from skboost._solver import SMALLEST_TOL, ascend
from skboost.families import MAX_FULL_DIM, Gaussian
from skboost.modes import find_mode, inverse_curvature, knows_curvature
from skboost.objectives import SingleELBO
from skboost.proposals._low_rank import fit_low_rank
from skboost.proposals._natural import natural_gaussian
from skboost.proposals._support import proper_modes, shrink_to_support, usable_starts

# Above this dimension a target's dense curvature is not asked for.
_MAX_CURVATURE_DIM = 2000


def first_component(target, family, starts, settings):
    """The best single member of the family's variants.

    Parameters
    ----------
    target : Target
    family : VariationalFamily
    starts : ndarray of shape (n_starts, dim)
        Where to look for modes; unused where the target knows its curvature.
    settings : Settings

    Returns
    -------
    family : VariationalFamily
        The variant that was best, with a rank where the run's leaves that open.
    params : ndarray of shape (n_params,)
    """
    found = [
        _member(target, variant, starts, settings) for variant in family.variants()
    ]
    # Sobol' points are the same for all variants, so their values compare.
    _, *best = max(found, key=lambda item: item[0])
    return best


def _member(target, family, starts, settings):
    """ELBO on its draws, family and parameters of one variant's best member."""
    # A factor grows on a diagonal Gaussian.
    first = Gaussian("diag") if family.low_rank else family
    n_draws, seed = enough_draws(family, target.dim, settings), settings.seed
    base = first.matched_draws(n_draws, target.dim, generator(seed, 0, BASE))
    curvature = _expected_curvature(target, family)
    if curvature is not None:
        moments = natural_gaussian(
            curvature, target.dim, settings.budget, start=target.first_guess
        )
        candidates = [_projected(family, *moments)]
        if isinstance(family, Gaussian) and family.full_covariance:
            # The optimum itself: a full Gaussian has no other variants.
            return np.nan, family, candidates[0]
    else:
        candidates = _candidates(target, first, starts, base, settings.budget)
    problems = [SingleELBO(target, first, p, base, settings.exact) for p in candidates]
    x, problem = _best_of_short_searches(problems, settings)
    if family.low_rank:
        return fit_low_rank(target, problem.unpack(x), family.rank, settings)
    tol = max(1e-4 * settings.tol, SMALLEST_TOL)
    x, value = ascend(
        problem, x, settings.first_max_iter, tol=tol, budget=settings.budget
    )
    return value, family, problem.unpack(x)


def enough_draws(family, dim, settings):
    """Draws for a component of its own.

    With fewer than four for each direction a full covariance stretches between them.
    """
    n = settings.n_draws
    return max(n, 4 * dim) if family.full_covariance else n


def _candidates(target, family, starts, base, budget):
    """Components at modes and at starts."""
    starts = usable_starts(target, starts)
    modes = np.array([find_mode(target, x, budget=budget) for x in starts])
    modes = proper_modes(target, starts, modes)
    candidates = [_at_mode(target, family, mode) for mode in modes]
    # A density without a proper mode is better met where the user points.
    candidates += [family.from_moments(x, np.ones(target.dim)) for x in starts]
    return [shrink_to_support(target, family, p, base) for p in candidates]


def _best_of_short_searches(problems, settings):
    """Where a short search of the problem that it likes best ended, and the problem."""
    if len(problems) == 1:
        return problems[0].start, problems[0]
    values = chunked_map(_value_at_start, problems, settings.n_jobs, "shared")
    order = np.argsort(-np.array(values))[: max(2, settings.n_restarts)]
    problems = [problems[k] for k in order]
    n_iter, budget = settings.first_short_iter, settings.budget
    found = [(*ascend(p, max_iter=n_iter, budget=budget), p) for p in problems]
    x, _, problem = max(found, key=lambda item: item[1])
    return x, problem


def _expected_curvature(target, family):
    """Value, gradient and curvature under a full Gaussian, where affordable."""
    largest = _MAX_CURVATURE_DIM if family.full_covariance else MAX_FULL_DIM
    if family.low_rank or target.dim > largest or not knows_curvature(target):
        return None
    return target.expected_curvature


def _value_at_start(problem):
    # A component of which no draw has positive density is -inf, its slope no number.
    with np.errstate(invalid="ignore"):
        return problem.value_and_gradient(problem.start)[0]


def _projected(family, mean, covariance):
    """The family's member that mean-field theory suggests beside a full Gaussian."""
    if family.full_covariance:
        return family.from_moments(mean, covariance)
    # The best diagonal Gaussian has the variances of the conditionals, not of the
    # marginals: Bishop 2006, section 10.1.2.
    return family.from_moments(mean, 1.0 / np.diagonal(np.linalg.inv(covariance)))


def _at_mode(target, family, mode):
    """The Laplace approximation at a mode."""
    return family.from_moments(mode, inverse_curvature(target, mode, family))
