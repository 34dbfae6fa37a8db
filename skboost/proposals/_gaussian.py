"""One Gaussian for a whole target.

A full one by damped natural gradients, for targets that know curvature; a low-rank one
that grows until what is left is noise or out of its reach.
"""

from contextlib import suppress

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from skboost._budget import BudgetSpent
from skboost._random import BASE, generator
from skboost._solver import SMALLEST_TOL, ascend
from skboost.families import LowRankGaussian, rank_of
from skboost.modes import add_columns
from skboost.objectives import SingleELBO
from skboost.proposals._greedy import best_stop


def natural_gaussian(curvature, dim, budget, tol=1e-10, start=None):
    """Mean and covariance of the best Gaussian, by damped natural-gradient ascent.

    ``precision <- (1 - rho) precision + rho H`` and ``m <- m + rho Sigma g`` with H
    and g the expected negative Hessian and gradient: the undamped rule can diverge,
    so rho is halved until the ELBO rises. ``curvature(mean, factor)`` gives the
    expected log joint, g and H. It stops when a full step promises less than `tol`
    nats, relative to the ELBO: to rounding, so that the order of rows does not show.
    It starts at a mean and standard deviations, or a root (dim, dim) of the covariance.
    """
    # A narrow start: wide ones flatten the likelihood and ask for a wild first step.
    mean, width = (np.zeros(dim), np.full(dim, 0.1)) if start is None else start
    root = np.diag(width) if width.ndim == 1 else width
    _, _, precision = curvature(mean, root)
    precision, factor = _proper(precision, np.sqrt((root**2).sum(axis=1)))
    value, gradient, target_precision = curvature(mean, factor)
    elbo = value + _log_volume(factor)
    rho = 1.0
    for _ in range(100):
        accepted, tried = False, rho
        while rho >= 1e-4 and not accepted:
            new_precision = (1.0 - rho) * precision + rho * target_precision
            try:
                new_factor = inverse_factor(new_precision)
                cholesky(new_factor @ new_factor.T, lower=True)
            except LinAlgError:
                # A heavy-tailed prior's expected curvature can be negative, and
                # correlations that rounding makes one have no root.
                rho *= 0.5
                continue
            step = rho * (new_factor @ (new_factor.T @ gradient))
            found = curvature(mean + step, new_factor)
            new_elbo = found[0] + _log_volume(new_factor)
            # A fall of rounding size is no fall: the optimum is flat.
            accepted = new_elbo > elbo - 1e-13 * max(1.0, abs(elbo))
            if not accepted:
                rho *= 0.5
        if not accepted:
            break
        change = new_elbo - elbo
        mean, precision, factor = mean + step, new_precision, new_factor
        (_, gradient, target_precision), elbo = found, new_elbo
        if change <= tol * max(1.0, abs(elbo)) * rho or budget.cuts():
            break
        if rho == tried:
            # Doubling had every other step refused where classes are all but apart.
            rho = min(1.0, 1.2 * rho)
    return mean, factor @ factor.T


def _proper(precision, width):
    """A precision near the one given that is positive definite, and its factor."""
    try:
        return precision, inverse_factor(precision)
    except LinAlgError:
        # A likelihood that is not log-concave can bend upwards: as steeply is as good
        # a guess, in coordinates of one size.
        size, axes = np.linalg.eigh(width[:, None] * precision * width)
        size = np.maximum(np.abs(size), 1e-8 * np.abs(size).max())
        precision = (axes * size) @ axes.T / np.outer(width, width)
        return precision, inverse_factor(precision)


def inverse_factor(precision):
    """A factor F with ``F F^T = precision^-1``."""
    dim = len(precision)
    root = cholesky(precision, lower=True)
    return solve_triangular(root, np.eye(dim), lower=True).T


def _log_volume(factor):
    # The factor is triangular, so its diagonal carries the determinant.
    return float(np.log(np.diagonal(factor)).sum())


def fit_low_rank(target, start, rank, settings):
    """A low-rank Gaussian from a diagonal one, by curvature and by ELBO in turns.

    Each step adds the directions in which the averaged curvature says that the
    Gaussian is too narrow, with the variances that would be right for a quadratic,
    and ascends the ELBO in all parameters. It is kept if it gains on other draws,
    and the steps end when they gain little. A rank of None lets the curvature decide.
    Returns the ELBO on draws that it was not fitted to, and the component.
    """
    mean, variance, _ = start.structure()
    lone = LowRankGaussian.from_structure(mean, variance, np.zeros((len(mean), 1)))
    found = -np.inf, lone
    with suppress(BudgetSpent):
        for grown in _growing(target, start, rank, settings):
            found = grown
    return found


def _growing(target, component, rank, settings):
    """Value and component after every growth."""
    n, tol = settings.n_draws, settings.tol
    budget = target.ledger.budget
    max_growths = 12
    for step in range(max_growths):
        rng = generator(settings.seed, 0, BASE, 2, step)
        last = component
        before, start = add_columns(target, last, rank, tol, rng)
        n = _enough_draws(n, start.family)
        problem, other = (
            SingleELBO(target, start, start.matched_draws(n, rng), settings.exact)
            for _ in range(2)
        )
        least = max(1e-2 * tol, SMALLEST_TOL)
        x, value = ascend(problem, max_iter=40, tol=least, budget=budget)
        found = problem.unpack(x)
        # The search's own draws flatter; both ends on common draws do not.
        own = value - problem.elbo(before)
        gain = other.elbo(found) - other.elbo(before)
        # A factor has a column, if only one that gains nothing.
        better = gain > 0 or step == 0
        component = found if better else before
        value = other.elbo(component)
        if not better:
            component = last
        yield value, component
        fits_noise = gain < 0.5 * own and own > 2.0 * tol
        if fits_noise and n < 4 * settings.n_draws:
            n *= 2
        elif not gain > max(tol, 0.1 * own) or budget.cuts():
            break


def _enough_draws(n, family):
    """At least `n` draws, and eight for each column of the factor."""
    return max(n, 8 * family.rank)


def widest(family, mixture):
    """The low-rank family, its rank no longer open: the largest in a mixture of it.

    Where a closed form has found full components it is their family.
    """
    found = mixture.components[0].family
    if found.full_covariance:
        return found
    ranks = [rank_of(each.params, mixture.dim) for each in mixture.components]
    return family.with_rank(max(ranks))


def add_columns_to_candidate(context, objective, found, settings, rng):
    """A low-rank `Candidate` that a search found, with the columns that the target asks
    for; that which is better on draws that neither was fitted to."""
    tol = settings.tol
    before, start = add_columns(context.target, found.component, None, tol, rng)
    if start.family.rank == found.component.family.rank:
        return found
    n = _enough_draws(settings.n_draws, start.family)
    base, other = (start.matched_draws(n, rng) for _ in range(2))
    problem = objective.problem(context, start, found.weight, base)
    if objective.early_stopping:
        wider = best_stop(context, objective, [problem], lambda _: base, settings)
    else:
        tol = objective.tolerance(settings)
        wider = objective.candidate(problem, *ascend(problem, max_iter=40, tol=tol))

    def judged(component, weight):
        problem = objective.judge(context, component, weight, other)
        return problem.value_and_gradient(problem.start)[0]

    better = judged(*wider) > judged(before, found.weight)
    return wider if better else found
