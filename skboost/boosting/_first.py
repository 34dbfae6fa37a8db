"""The first component: ordinary variational inference on the target."""

import numpy as np
from scipy.linalg import eigh

from skboost._parallel import chunked_map
from skboost._random import BASE, generator
from skboost.boosting._curvature import diagonal_curvature
from skboost.boosting._growth import grown
from skboost.boosting._natural import natural_gaussian
from skboost.boosting._solver import SMALLEST_TOL, ascend, climb
from skboost.boosting._support import narrowed, proper_modes, usable_starts
from skboost.families import MAX_FULL_DIM, Gaussian
from skboost.objectives import SingleELBO, finite_value_and_score

# Above this dimension a target's dense curvature is not asked for.
_MAX_CURVATURE_DIM = 2000
# Draws behind an averaged Hessian: it is smooth, so few are enough.
_N_CURVATURE = 256
_SCOUT_ITER = 10
_MAX_ITER = 100


def first_component(
    target, family, starts, n_draws, n_restarts, tol, seed, exact, n_jobs
):
    """The best single member of the family's variants.

    Parameters
    ----------
    target : Target
    family : VariationalFamily
    starts : ndarray of shape (n_starts, dim)
        Where to look for modes; unused where the target knows its curvature.
    n_draws, n_restarts, tol, seed, n_jobs
        As in `Boosting`.
    exact : bool
        Whether the target has exact Gaussian expectations for this family.

    Returns
    -------
    family : VariationalFamily
        The variant that was best, with a rank where the run's leaves that open.
    params : ndarray of shape (n_params,)
    """
    found = [
        _member(target, variant, starts, n_draws, n_restarts, tol, seed, exact, n_jobs)
        for variant in family.variants()
    ]
    # Sobol' points are the same for all variants, so their values compare.
    _, *best = max(found, key=lambda item: item[0])
    return best


def _member(target, family, starts, n_draws, n_restarts, tol, seed, exact, n_jobs):
    """ELBO on its draws, family and parameters of one variant's best member."""
    covariance = getattr(family, "covariance", None)
    # A factor grows on a diagonal Gaussian.
    first = Gaussian("diag") if covariance == "low_rank" else family
    if covariance == "full":
        # Fewer than four draws a direction, and the covariance stretches between.
        n_draws = max(n_draws, 4 * target.dim)
    base = first.matched_draws(n_draws, target.dim, generator(seed, 0, BASE))
    curvature = _expected_curvature(target, covariance, generator(seed, 0, BASE, 1))
    if curvature is not None:
        moments = natural_gaussian(curvature, target.dim)
        candidates = [_projected(family, *moments)]
        if isinstance(family, Gaussian) and covariance == "full":
            # The optimum itself: a full Gaussian has no other variants.
            return np.nan, family, candidates[0]
    else:
        candidates = _candidates(target, first, starts, base)
    problems = [SingleELBO(target, first, p, base, exact) for p in candidates]
    x, problem = _scouted(problems, n_restarts, n_jobs)
    if covariance == "low_rank":
        start, rank = problem.unpack(x), family.rank
        return grown(target, start, rank, n_draws, tol, seed, exact)
    x, value = ascend(problem, x, max_iter=_MAX_ITER, tol=max(1e-4 * tol, SMALLEST_TOL))
    return value, family, problem.unpack(x)


def _candidates(target, family, starts, base):
    """Components at modes and at starts."""
    starts = usable_starts(target, starts)
    modes = np.array([find_mode(target, x) for x in starts])
    modes = proper_modes(target, starts, modes)
    candidates = [_at_mode(target, family, mode) for mode in modes]
    # A density without a proper mode is better met where the user points.
    candidates += [family.from_moments(x, np.ones(target.dim)) for x in starts]
    return [narrowed(target, family, p, base) for p in candidates]


def _scouted(problems, n_restarts, n_jobs):
    """Where a short search of the problem that it likes best ended, and the problem."""
    if len(problems) == 1:
        return problems[0].start, problems[0]
    values = chunked_map(_value_at_start, problems, n_jobs, "shared")
    order = np.argsort(-np.array(values))[: max(2, n_restarts)]
    problems = [problems[k] for k in order]
    found = [(*ascend(p, max_iter=_SCOUT_ITER), p) for p in problems]
    x, _, problem = max(found, key=lambda item: item[1])
    return x, problem


def knows_curvature(target):
    """Whether the target gives its curvature, as regression models do."""
    return hasattr(target, "expected_curvature") or hasattr(target, "curvature")


def _expected_curvature(target, covariance, rng):
    """Value, gradient and curvature under a full Gaussian, where affordable."""
    largest = _MAX_CURVATURE_DIM if covariance == "full" else MAX_FULL_DIM
    if covariance == "low_rank" or target.dim > largest or not knows_curvature(target):
        return None
    if hasattr(target, "expected_curvature"):
        return target.expected_curvature
    base = Gaussian("diag").matched_draws(_N_CURVATURE, target.dim, rng)
    return lambda mean, factor: target.curvature(
        mean + base[:, : factor.shape[1]] @ factor.T
    )


def _value_at_start(problem):
    # A component of which no draw has positive density is -inf, its slope no number.
    with np.errstate(invalid="ignore"):
        return problem.value_and_gradient(problem.start)[0]


def _projected(family, mean, covariance):
    """The family's member that mean-field theory suggests beside a full Gaussian."""
    if getattr(family, "covariance", None) == "full":
        return family.from_moments(mean, covariance)
    # The best diagonal Gaussian has the variances of the conditionals, not of the
    # marginals: Bishop 2006, section 10.1.2.
    return family.from_moments(mean, 1.0 / np.diagonal(np.linalg.inv(covariance)))


def _at_mode(target, family, mode):
    """The Laplace approximation at a mode."""
    return family.from_moments(mode, inverse_curvature(target, mode, family))


def find_mode(target, x, max_iter=200):
    """Where quasi-Newton ascent on the log joint from `x` ends."""

    def value_and_gradient(z):
        value, score = target.value_and_score(z[None])
        return value[0], score[0]

    return climb(value_and_gradient, x, {"maxiter": max_iter})[0]


def inverse_curvature(target, mode, family):
    """Covariance, or variances, from the curvature at the mode; positive definite."""
    dim = target.dim
    if getattr(target, "exact_gaussian", False):
        # Price's theorem: the slope in the variances is minus half the curvature.
        slope = target.expected_log_density(mode, np.full(dim, 1e-4), None)[2]
        return 1.0 / np.maximum(-2.0 * slope, 1e-6)
    if getattr(family, "covariance", "diag") != "full":
        return 1.0 / diagonal_curvature(target, mode, np.random.default_rng(0))
    step = 1e-4 * np.maximum(1.0, np.abs(mode))
    shifts = np.diag(step)
    _, score = finite_value_and_score(
        target, np.concatenate([mode + shifts, mode - shifts])
    )
    hessian = (score[dim:] - score[:dim]) / (2.0 * step[:, None])
    if not np.isfinite(hessian).all():
        return np.ones(dim)
    values, vectors = eigh(0.5 * (hessian + hessian.T))
    # Directions without curvature get a wide but finite scale.
    values = np.clip(np.abs(values), 1e-6, 1e12)
    # Wider ones than that have no Cholesky factor beside the narrowest.
    values = np.maximum(values, 1e-12 * values.max())
    covariance = (vectors / values) @ vectors.T
    return 0.5 * (covariance + covariance.T)
