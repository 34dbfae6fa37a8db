"""What a run begins with, in which coordinates, and what it is after an iteration."""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import NamedTuple

import numpy as np

from skboost._budget import BudgetSpent, End
from skboost.approximation import Mixture
from skboost.boosting import Awaited, Boosting, recomputed
from skboost.families import Component
from skboost.fitting._checkpoint import ADVICE
from skboost.modes import Modes
from skboost.proposals import DensityProposer
from skboost.targets import LogDensityError, TransformedTarget
from skboost.transforms import Constraints
from skboost.warps import WarpedConstraints, find_warp, given_up, not_tried


class Prepared(NamedTuple):
    """An engine for a target, its `opening` iterations so far, and a `report`."""

    engine: object
    target: object
    opening: tuple = ()
    report: object = None

    def recomputed(self, state):
        """Values that a state holds, and what the target gives for them now."""
        return recomputed(self.target, state.fresh)


@dataclass(frozen=True)
class Run:
    """A run of the engine so far; a longer one starts from it.

    `stages` has the best mixture known after each iteration, `end` is None while it
    runs, `modes` are those of the last look of a run that converged, `prepared` reports
    what preparing did: a run that goes on has the same coordinates. `n_evaluated` has
    no evaluations that judged the run after an earlier call.
    """

    state: object = None
    history: tuple = ()
    stages: tuple = ()
    end: End | None = None
    modes: object = None
    prepared: object = None
    n_evaluated: int = 0

    @property
    def mixture(self):
        """The best mixture known now."""
        best = self.stages[-1]
        return best.result if isinstance(best, Awaited) else best

    @property
    def message(self):
        """Why the run ended."""
        return "Running." if self.end is None else self.end.message

    @property
    def converged(self):
        """Whether the stopping rule ended it."""
        return self.end is not None and self.end.converged

    @property
    def cut_short(self):
        """Whether the target is not to be evaluated again."""
        limits = ("interruption", "max_time", "max_evaluations")
        return self.end is not None and self.end.by in limits

    @property
    def n_iter(self):
        """Iterations done, the first component included."""
        return len(self.history)

    @property
    def has_begun_only(self):
        """Whether all nodes are in, and nothing was searched after them."""
        return self.state.iteration == 1 and not self.history[-1].n_nodes

    def longer(self, state, info, n_evaluated):
        """This run with one more iteration."""
        history, stages = (*self.history, info), (*self.stages, state.stage)
        return Run(state, history, stages, None, None, self.prepared, n_evaluated)

    def after_look(self, modes, reopened, n_evaluated):
        """This run with the modes of a last look; without an end where it reopens."""
        if reopened is None:
            return replace(self, modes=modes, n_evaluated=n_evaluated)
        return replace(self, state=reopened, end=None, modes=None)

    def reopened(self):
        """This run as it goes on under another `tol`: the one before ends it no
        longer."""
        last = replace(self.history[-1], little_remains="", within_tol=False)
        history = (*self.history[:-1], last)
        return replace(self, history=history, end=None, modes=None)

    def interrupted(self):
        """This run as KeyboardInterrupt leaves it, after its last whole iteration."""
        message = f"Interrupted after iteration {self.n_iter}."
        return replace(self, end=End("interruption", message), modes=None)

    def given_up(self, end):
        """This run where a limit was reached within the next iteration."""
        message = f" Iteration {self.n_iter + 1} was given up: it did not fit in."
        return replace(self, end=end._replace(message=end.message + message))


def agree(recorded, now):
    """Whether log joint densities that a state holds are those of now."""
    # Another machine rounds in another way.
    return np.allclose(recorded, now, rtol=1e-8, atol=1e-8, equal_nan=True)


# What asks for a run to go on, and what to do where it can not, for messages.
WARM_START = "warm_start=True", "Set warm_start=False."


def of_checkpoint(keeper):
    """The same of a run that goes on from a file."""
    return f"The checkpoint {keeper.path!r}", ADVICE


def check_goes_on(problem, run, what, advice):
    """Refuse to go on with another density."""
    try:
        recorded, now = problem.recomputed(run.state)
    except (ValueError, IndexError, KeyError):
        recorded, now = np.zeros(1), np.full(1, np.nan)
    if not agree(recorded, now):
        before, after = np.ravel(recorded)[0], np.ravel(now)[0]
        raise ValueError(
            f"{what} goes on with the same data and the same model; a log joint "
            f"density that was {before:.6g} is {after:.6g} now. {advice}"
        )


# --- before boosting a warp may change the coordinates


# Share of what limits leave that the search for a warp may take.
_SHARE = 0.5
# Draws per component behind a warp: with fewer, what remains to be gained is less than
# its noise.
_DRAWS_BEHIND = 2048


def prepare(target, options, previous=None):
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
    reason = _why_no_warp(*first)
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


def _why_no_warp(state, info):
    """Why no warp is looked for; empty where one is."""
    if state.mixture.n_components > 1 or state.modes.several:
        return "the posterior has several modes"
    if info.improper:
        return "the posterior seems to be improper, or its density is not smooth"
    if info.within_tol:
        return "draws of the first component see less than tol left to gain"
    return ""


def behind(problem, warp):
    """The problem in the coordinates before a map of them."""
    engine, target, *_ = problem
    constraints = WarpedConstraints(Constraints(None, warp.dim), warp)
    old, settings = engine.proposer, engine.settings
    n_draws, n_fresh = settings.n_draws, settings.n_fresh
    more = max(1, _DRAWS_BEHIND // n_draws)
    changed = Boosting(
        DensityProposer(old.family, old.objective, np.zeros((1, warp.dim))),
        engine.combination,
        replace(settings, n_draws=more * n_draws, n_fresh=more * n_fresh),
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
