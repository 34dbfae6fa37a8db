"""Boosting that goes on in coordinates in which the posterior is nearly Gaussian."""

from dataclasses import dataclass, fields, replace
from time import perf_counter

import numpy as np

from skboost._budget import BudgetSpent
from skboost.approximation import Mixture
from skboost.boosting._engine import Boosting
from skboost.families import Gaussian
from skboost.modes import Modes
from skboost.proposals import DensityProposer
from skboost.targets import LogDensityError, TransformedTarget, failure_tolerant
from skboost.transforms import Constraints, WarpedConstraints
from skboost.warps import WarpReport, find_warp, given_up, not_tried

# Share of what is left of a budget that the search may take: the rest is for boosting.
_SHARE = 0.5


class WarpedProposer(DensityProposer):
    """Searches behind a warp, where the first component is the standard normal."""

    def initial(self, settings):
        """The Gaussian that the warp was fitted with, and no modes."""
        dim = self.target.dim
        params = self.family.from_moments(np.zeros(dim), np.eye(dim))
        return Mixture.single(self.family, params), Modes()


@dataclass(frozen=True)
class PreparedBoosting(Boosting):
    """An engine that has done its first iterations already, or goes on with a run.

    Parameters
    ----------
    target, proposer, combination, settings
        As in `Boosting`.
    warp : WarpReport
        How the engine came by its coordinates.
    done : tuple of (State, Info)
        The first iterations; empty where a run on file goes on.
    """

    warp: WarpReport = None
    done: tuple = ()

    def init(self):
        return self.done[0] if self.done else super().init()

    def step(self, state):
        if len(self.done) > 1 and state is self.done[0][0]:
            return self.done[1]
        return super().step(state)


@dataclass(frozen=True)
class WarpingBoosting(Boosting):
    """Boosting that looks for a warp after its first component.

    A warp that is accepted is a change of coordinates in which a run begins anew, from
    a standard normal, with more draws: what is left to gain is little.

    Parameters
    ----------
    target, proposer, combination, settings
        As in `Boosting`.
    known : WarpReport, default=None
        Of a run that is on file: its coordinates are taken, and no warp is looked for.
    """

    known: WarpReport = None

    def within(self, budget):
        """The engine of the better coordinates, with a budget that binds from here on.

        Returns
        -------
        PreparedBoosting
            In these coordinates, or behind the warp that its ``warp`` holds.
        """
        engine = super().within(budget)
        if self.known is None:
            return engine._prepared()
        coordinates = engine._behind(self.known.warp) if self.known.accepted else engine
        return _prepared(coordinates, self.known)

    def _prepared(self):
        began = perf_counter()
        opening = self.init()
        reason = self._why_not(opening)
        if reason:
            return _prepared(self, not_tried(reason), opening)
        try:
            half = super().within(self.settings.budget.share(_SHARE))
            report, done = half._compared(opening)
        except BudgetSpent:
            return _prepared(self, given_up(), _since(began, opening))
        if report.accepted:
            return _prepared(self._behind(report.warp), report, _since(began, done))
        later = () if done is None else (done,)
        return _prepared(self, report, _since(began, opening, *later), *later)

    def _why_not(self, opening):
        """Why no warp is looked for; empty where one is."""
        state, info = opening
        family = self.proposer.family
        if not (isinstance(family, Gaussian) and family.full_covariance):
            return "it needs components with family='gaussian' and full covariances"
        if state.mixture.n_components > 1 or state.modes.several:
            return "the posterior has several modes"
        if info.improper:
            return "the posterior seems to be improper"
        if info.exhausted:
            return "draws of the first component see less than tol left to gain"
        return ""

    def _compared(self, opening):
        """Report, and the iteration that was made in the coordinates that won.

        It is the first one behind an accepted warp, the second one without a warp, and
        None where none was made.
        """
        state, _ = opening
        watched = self.watched()
        family, params = state.mixture.components[0]
        target = failure_tolerant(watched.target)
        report = find_warp(target, *family.moments(params), self.settings)
        if not report.accepted:
            return report, None
        try:
            behind = self._behind(report.warp).watched().init()
        except LogDensityError:
            return report.declined("the density fails at draws behind it"), None
        second = self.step(state)
        ahead = second[0].fresh.elbo().value - behind[0].fresh.elbo().value
        if ahead < 0.0:
            return report, behind
        reason = f"a second component in its place gains {ahead:.2g} nats more"
        return report.declined(reason), second

    def _behind(self, warp):
        """The engine in the coordinates before a warp."""
        free = Constraints(None, warp.dim)
        target = TransformedTarget(self.target, WarpedConstraints(free, warp))
        settings = self.settings
        more = max(1, settings.least_draws_warped // settings.n_draws)
        old = self.proposer
        return Boosting(
            target,
            WarpedProposer(
                target, old.family, old.objective, np.zeros((1, warp.dim)), None
            ),
            replace(self.combination, target=target),
            replace(
                settings,
                n_draws=more * settings.n_draws,
                n_fresh=more * settings.n_fresh,
                draw_growth=max(1, settings.draw_growth // more),
            ),
        )


def _prepared(engine, report, *done):
    parts = {field.name: getattr(engine, field.name) for field in fields(Boosting)}
    return PreparedBoosting(**parts, warp=report, done=done)


def _since(began, first, *later):
    """The first iteration with all seconds since then but those of later ones."""
    state, info = first
    seconds = perf_counter() - began - sum(i.seconds for _, i in later)
    return state, replace(info, seconds=seconds)
