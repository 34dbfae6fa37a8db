"""The density problem: one more component for what the mixture lacks."""

from functools import partial

import numpy as np

from skboost._parallel import chunked_map
from skboost._random import SEARCH, generator
from skboost._solver import ascend
from skboost.proposals._early_stopping import best_stop
from skboost.proposals._starts import starting_components


def best_candidate(context, objective, family, settings):
    """The best component found for what the mixture misses.

    Every start is valued on common draws. The best ``n_restarts`` of every variant of
    the family are searched a few steps, and the winner to convergence; or each is
    searched, and stopped early, where the objective asks for that.

    Parameters
    ----------
    context : SearchContext
    objective : Objective
    family : VariationalFamily
    settings : Settings

    Returns
    -------
    Candidate
    """
    problems = [
        problem
        for variant in family.variants()
        for problem in _problems(context, objective, variant, settings)
    ]
    if objective.early_stopping:
        draws = partial(_unseen_draws, context, settings)
        return best_stop(context, objective, problems, draws, settings)
    x, problem = None, problems[0]
    if len(problems) > 1:
        short = partial(
            ascend, max_iter=settings.short_iter, tol=objective.short_tolerance
        )
        searched = chunked_map(short, problems, settings.n_jobs, "shared")
        winner = int(np.argmax([value for _, value in searched]))
        x, problem = searched[winner][0], problems[winner]
    x, value = ascend(
        problem,
        x,
        tol=objective.tolerance(settings),
        share=settings.search_share if settings.refine else 0.0,
    )
    return objective.candidate(problem, x, value)


def _unseen_draws(context, settings, family):
    """Base draws that no search has seen, the same for all components."""
    rng = generator(settings.seed, context.iteration, SEARCH, 3)
    return family.matched_draws(settings.n_draws, context.target.dim, rng)


def _problems(context, objective, family, settings):
    """The problems of the starts that promise most."""
    dim = context.target.dim
    rng = generator(settings.seed, context.iteration, SEARCH)
    base = objective.base_draws(family, settings.n_draws, dim, rng)
    starts = starting_components(context, family, settings, rng)
    starts += [family.convert(p, dim) for p in context.mode_candidates]
    values, weights = objective.rank_starts(
        context, family, starts, base, rng, settings
    )
    order = np.argsort(-values, kind="stable")[: settings.n_restarts]
    return [
        objective.problem(context, (family, starts[k]), weights[k], base) for k in order
    ]
