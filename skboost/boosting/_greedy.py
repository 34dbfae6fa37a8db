"""The density problem: one more component for the residual."""

from functools import partial

import numpy as np

from skboost._math import log_sum_exp
from skboost._parallel import chunked_map
from skboost._random import SEARCH, generator
from skboost.boosting._early_stopping import best_stop
from skboost.boosting._ranks import in_family
from skboost.boosting._solver import SMALLEST_TOL, ascend
from skboost.boosting._starts import starting_components
from skboost.posterior import finite

# Shares tried at every start, the largest first; the solver moves them. A tail
# wants a small one.
SHARES = (0.25, 0.02, 0.002)
# Draws that rank the starts, before any search.
_N_RANK = 64
_SCOUT_ITER = 6


def propose(residual, objective, family, n_draws, n_restarts, tol, seed, n_jobs=None):
    """The best component found for what the mixture misses.

    Every start is valued by the joint gain on common draws. The best `n_restarts` of
    every variant of the family are searched a few steps, and the winner to convergence;
    or each is searched, and stopped early, where the objective asks for that.

    Parameters
    ----------
    residual : Residual
        The target and the mixture so far.
    objective : JointGain or ResidualGain
    family : VariationalFamily
    n_draws : int
        Fixed base draws of the search.
    n_restarts : int
    tol : float
        Nats that matter to the run; the search ends where it gains a hundredth.
    seed : int
    n_jobs : int, default=None
        Starts are searched in parallel threads.

    Returns
    -------
    Candidate
    """
    problems = [
        problem
        for variant in family.variants()
        for problem in _searches(
            residual,
            objective,
            variant,
            n_draws,
            n_restarts,
            generator(seed, residual.iteration, SEARCH),
        )
    ]
    if objective.early_stopping:
        gains = partial(_gains, residual, n_draws, seed)
        return best_stop(objective, problems, gains, n_jobs)
    x, problem = None, problems[0]
    if len(problems) > 1:
        scout = partial(ascend, max_iter=_SCOUT_ITER)
        scouted = chunked_map(scout, problems, n_jobs, "shared")
        winner = int(np.argmax([value for _, value in scouted]))
        x, problem = scouted[winner][0], problems[winner]
    x, value = ascend(problem, x, tol=max(1e-2 * tol, SMALLEST_TOL))
    return objective.candidate(problem, x, value)


def _searches(residual, objective, family, n_draws, n_restarts, rng):
    """The problems of the starts that promise most."""
    base = family.matched_draws(n_draws, residual.target.dim, rng)
    starts = starting_components(
        residual.target, residual.rest.mixture, family, 2 * n_restarts + 2, rng
    )
    starts += [in_family(family, p, residual.target.dim) for p in residual.leads]
    values = start_values(residual, family, starts, base[:_N_RANK])
    best = np.where(values.max(axis=1) > 0, values.argmax(axis=1), 0)
    order = np.argsort(-values[range(len(starts)), best], kind="stable")[:n_restarts]
    return [
        objective.problem(residual, (family, starts[k]), SHARES[best[k]], base)
        for k in order
    ]


def _gains(residual, n_draws, seed, family, candidates, shares):
    """Joint gains on draws that no search has seen, the same for all candidates."""
    rng = generator(seed, residual.iteration, SEARCH, 3)
    base = family.matched_draws(n_draws, residual.target.dim, rng)
    return start_values(residual, family, candidates, base, shares)


def start_values(residual, family, starts, base_draws, shares=SHARES):
    """Gain in ELBO of every start at every share, on common draws.

    A start that gains nothing yet is best searched from a large share: at a small
    one its slope vanishes.

    Parameters
    ----------
    residual : Residual
    family : VariationalFamily
    starts : list of ndarray of shape (n_params,)
    base_draws : ndarray of shape (n, base_dim)
    shares : sequence of float, default=(0.25, 0.02, 0.002)
        Weights of the new component in the mixture.

    Returns
    -------
    ndarray of shape (n_starts, n_shares)
        Nats.
    """
    target, rest = residual.target, residual.rest
    theta = [family.transport(params, base_draws) for params in starts]
    everywhere = np.concatenate(theta)
    cuts = np.cumsum([len(t) for t in theta])[:-1]
    if residual.exact:
        expected = [
            target.expected_log_density(*family.structure(p))[0] for p in starts
        ]
    else:
        log_joint = np.split(finite(target.log_density(everywhere)), cuts)
        expected = [values.mean() for values in log_joint]
    log_rest = np.split(rest.mixture.log_density(everywhere), cuts)
    alone = rest.expected - rest.share @ rest.log_density
    values = np.empty((len(starts), len(shares)))
    for k, params in enumerate(starts):
        here = np.column_stack([log_rest[k], family.log_density(theta[k], params)])
        there = np.column_stack(
            [rest.log_density, family.log_density(rest.theta, params)]
        )
        for j, share in enumerate(shares):
            logs = np.log([1.0 - share, share])
            gained = expected[k] - log_sum_exp(here, logs).mean()
            kept = rest.expected - rest.share @ log_sum_exp(there, logs)
            values[k, j] = share * gained + (1.0 - share) * kept - alone
    return np.where(np.isnan(values), -np.inf, values)
