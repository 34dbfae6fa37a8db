"""What happens to a target before boosting: a warp may change its coordinates."""

from dataclasses import replace
from time import perf_counter

import numpy as np

from skboost._budget import BudgetSpent
from skboost.approximation import Mixture
from skboost.boosting import Boosting
from skboost.families import Component
from skboost.fitting._run import Prepared
from skboost.modes import Modes
from skboost.proposals import DensityProposer
from skboost.targets import LogDensityError, TransformedTarget
from skboost.transforms import Constraints
from skboost.warps import WarpedConstraints, find_warp, given_up, not_tried

# Share of what limits leave that the search for a warp may take.
_SHARE = 0.5
# Draws per component behind a warp: with fewer, what remains to be gained is less than
# its noise.
_DRAWS_BEHIND = 2048


def prepared(target, options, previous=None):
    """The engine and the target of a run, `Prepared`; see `boost` for its options."""
    problem = Prepared(options.engine, target)
    if options.warp is not None:
        problem = _warped(problem, previous)
    return problem


def _warped(problem, previous):
    """The problem in coordinates that a warp changes, where one is worth it.

    A run that goes on has the coordinates of its first call: a new search would have
    the limits of this call, and end elsewhere. In the coordinates of a warp a run
    begins anew, from a standard normal.
    """
    if previous is None:
        report, opening = _warp_and_opening(problem)
    else:
        report, opening = previous.prepared, ()
    changed = behind(problem, report.warp) if report.accepted else problem
    return changed._replace(opening=opening, report=report)


def _warp_and_opening(problem):
    """Report of a search for a warp, and the iterations that were made for it."""
    engine, target, *_ = problem
    began, first = perf_counter(), engine.init(target)
    opening = (first,)
    reason = _why_no_warp(engine, *first)
    if reason:
        return not_tried(reason), opening
    try:
        with target.ledger.within(target.ledger.budget.share(_SHARE)):
            report, opening = _compared(problem, first)
    except BudgetSpent:
        report = given_up()
    (state, info), *later = opening
    # All seconds but those of later iterations are the first one's.
    seconds = perf_counter() - began - sum(i.seconds for _, i in later)
    return report, ((state, replace(info, seconds=seconds)), *later)


def _compared(problem, first):
    """Report, and the iterations that were made in the coordinates that won."""
    engine, target, *_ = problem
    state, _ = first
    moments = state.mixture.components[0].moments()
    report = find_warp(target, *moments, engine.settings)
    if not report.accepted:
        return report, (first,)
    try:
        behind_it = _first_behind(behind(problem, report.warp))
    except LogDensityError:
        return report.declined("the density fails at draws behind it"), (first,)
    second = engine.step(target, state)
    ahead = second[0].fresh.elbo().value - behind_it[0].fresh.elbo().value
    if ahead < 0.0:
        return report, (behind_it,)
    reason = f"a second component in its place gains {ahead:.2g} nats more"
    return report.declined(reason), (first, second)


def _why_no_warp(engine, state, info):
    """Why no warp is looked for; empty where one is."""
    family = engine.proposer.family
    if not (family.exact_expectations and family.full_covariance):
        return "it needs components with family='gaussian' and full covariances"
    if state.mixture.n_components > 1 or state.modes.several:
        return "the posterior has several modes"
    if info.improper:
        return "the posterior seems to be improper"
    if info.within_tol:
        return "draws of the first component see less than tol left to gain"
    return ""


def behind(problem, warp):
    """The problem in the coordinates before a map of them."""
    engine, target, *_ = problem
    constraints = WarpedConstraints(Constraints(None, warp.dim), warp)
    old, settings = engine.proposer, engine.settings
    more = max(1, _DRAWS_BEHIND // settings.n_draws)
    start = np.zeros((1, warp.dim))
    changed = Boosting(
        DensityProposer(old.family, old.objective, start),
        engine.combination,
        settings.with_more_draws(more),
    )
    return Prepared(changed, TransformedTarget(target, constraints))


def _first_behind(problem):
    """The first iteration behind a warp: the normal that it was fitted with."""
    engine, target, *_ = problem
    params = engine.proposer.family.from_moments(
        np.zeros(target.dim), np.eye(target.dim)
    )
    mixture = Mixture.single(Component(engine.proposer.family, params))
    return engine.begin(target, mixture, Modes(), perf_counter())


def behind_warp(constraints, report, dim):
    """Constraints of the user in the coordinates before a warp, where there is one."""
    if report is None or not report.accepted:
        return constraints
    free = Constraints(None, dim) if constraints is None else constraints
    return WarpedConstraints(free, report.warp)
