"""What happens to a target before and after boosting: prepare, boost, correct, report.

Preparing runs between target and engine: a warp may change the target by a map of its
coordinates, and hands the engine its first iterations. Corrections (calibrating, then
skewing) run between the engine and the report, and change the mixture.
"""

from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

import numpy as np

from skboost._budget import BudgetSpent
from skboost._callbacks import Prepared, run
from skboost._checkpoint import agree
from skboost._math import N_ERRORS
from skboost._parallel import single_threaded
from skboost._random import SKEW, generator
from skboost.approximation import Mixture, RemainingKL
from skboost.boosting import Boosting
from skboost.calibration import (
    Calibration,
    SkewReport,
    calibrate,
    skew,
    skew_pilot,
)
from skboost.families import Component, Gaussian
from skboost.modes import Modes
from skboost.proposals import DensityProposer
from skboost.targets import LogDensityError, TransformedTarget
from skboost.transforms import Constraints, WarpedConstraints
from skboost.warps import find_warp, given_up, not_tried

# Share of what is left of a budget that a preparation may take, and a correction after
# the run: the rest is for boosting, and for what is reported.
_SHARE = 0.5
# Of what may remain under ``tol="auto"``, below which skewing gains too little.
_LEAST_SHARE = 0.01
CUT_SHORT = "the run was cut short before a corrected posterior was reported."
_NO_ROOM = "half of what the limits of the run (max_time, ...) left was not enough."


def boosted(
    engine, target, limits, *, prepare, correct, report,
    previous=None, begin_iteration=None, keeper=None,
):  # fmt: skip
    """Prepare, boost, correct and report.

    Parameters
    ----------
    engine, target, limits, previous, begin_iteration, keeper
        As in `skboost._callbacks.run`.
    prepare : str or None
        Value of ``warp``; None prepares nothing.
    correct : tuple of (str or None)
        Values of ``calibrate`` and ``skew``; None is no such correction.
    report : callable
        ``report(engine, target, run, corrected)`` makes what is returned.

    Returns
    -------
    What `report` returns
    """

    def prepared(engine, target, known):
        found = Prepared(engine, target)
        if prepare is not None:
            found = warped(engine, target, known)
        if previous is not None:
            _check_same_density(found, previous.state)
        return found

    def reported(engine, target, done):
        corrected = with_corrections(engine, target, done, *correct)
        return report(engine, target, done, corrected)

    with single_threaded():
        return run(
            engine,
            limits,
            previous,
            begin_iteration,
            finish=reported,
            keeper=keeper,
            prepare=prepared,
            target=target,
        )


def _check_same_density(prepared, state):
    """Refuse to go on from draws whose log joint densities are of another target."""
    recorded, now = prepared.engine.recomputed(prepared.target, state)
    if not agree(recorded, now):
        raise ValueError(
            "warm_start=True goes on with the same data and the same model; the log "
            f"joint density that the last fit found to be {np.ravel(recorded)[0]:.6g} "
            f"at one of its draws is {np.ravel(now)[0]:.6g} now. Set warm_start=False."
        )


# --- prepare


def warped(engine, target, known=None):
    """What a run begins with that looks for a warp after its first component.

    A warp that is accepted is a change of coordinates in which a run begins anew, from
    a standard normal, with more draws: what is left to gain is little. A run that goes
    on does so in the coordinates that it has: a new search would have the limits of
    this call, and find other ones.
    """
    if known is None:
        report, opening = _looked_for(engine, target)
    else:
        report, opening = known.prepared, ()
    if report.accepted:
        engine, target = behind(engine, target, report.warp)
    return Prepared(engine, target, opening, report)


def _looked_for(engine, target):
    """Report of a search for a warp, and the iterations that were made for it."""
    began, first = perf_counter(), engine.init(target)
    opening = (first,)
    reason = _why_no_warp(engine, *first)
    if reason:
        return not_tried(reason), opening
    try:
        with target.ledger.within(target.ledger.budget.share(_SHARE)):
            report, opening = _compared(engine, target, first)
    except BudgetSpent:
        report = given_up()
    (state, info), *later = opening
    # All seconds but those of later iterations are the first one's.
    seconds = perf_counter() - began - sum(i.seconds for _, i in later)
    return report, ((state, replace(info, seconds=seconds)), *later)


def _compared(engine, target, first):
    """Report, and the iterations that were made in the coordinates that won."""
    state, _ = first
    moments = state.mixture.components[0].moments()
    report = find_warp(target, *moments, engine.settings)
    if not report.accepted:
        return report, (first,)
    try:
        behind_it = _first_behind(*behind(engine, target, report.warp))
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
    if not (isinstance(family, Gaussian) and family.full_covariance):
        return "it needs components with family='gaussian' and full covariances"
    if state.mixture.n_components > 1 or state.modes.several:
        return "the posterior has several modes"
    if info.improper:
        return "the posterior seems to be improper"
    if info.within_tol:
        return "draws of the first component see less than tol left to gain"
    return ""


def behind(engine, target, warp):
    """An engine and a target in the coordinates before a map of them."""
    free = Constraints(None, warp.dim)
    target = TransformedTarget(target, WarpedConstraints(free, warp))
    old, settings = engine.proposer, engine.settings
    # With fewer draws what is left to gain is less than its noise.
    more = max(1, 2048 // settings.n_draws)
    start = np.zeros((1, warp.dim))
    engine = Boosting(
        DensityProposer(old.family, old.objective, start),
        engine.combination,
        replace(
            settings.with_more_draws(more),
            draw_growth=max(1, settings.draw_growth // more),
        ),
    )
    return engine, target


def _first_behind(engine, target):
    """The first iteration behind a warp: the normal that it was fitted with."""
    family, dim = engine.proposer.family, target.dim
    params = family.from_moments(np.zeros(dim), np.eye(dim))
    mixture = Mixture.single(Component(family, params))
    return engine.begin(target, mixture, Modes(), perf_counter())


# --- correct


class Corrected(NamedTuple):
    """The mixture that is reported.

    Attributes
    ----------
    mixture : Mixture
    calibration : Calibration or None
        What became of the correction; None where none was asked for.
    skewing : SkewReport or None
        What became of skewing weights; None where none were asked for.
    remaining : RemainingKL or None
        After these; None where there are none.
    """

    mixture: Mixture
    calibration: Calibration | None = None
    skewing: SkewReport | None = None
    remaining: RemainingKL | None = None

    def declined(self, mixture, reason):
        """Another mixture, to which no correction that was asked for is applied."""
        return Corrected(
            mixture,
            None if self.calibration is None else Calibration(reason=reason),
            None if self.skewing is None else SkewReport(reason=reason),
        )


def with_corrections(engine, target, done, method, skews):
    """The mixture of a run after corrections; None asks for none."""
    mixture = done.stages[-1]
    if not engine.draws_anew:
        return Corrected(mixture)
    asked = Corrected(mixture, method and Calibration(), skews and SkewReport())
    if done.cut_short:
        return asked.declined(mixture, CUT_SHORT)
    if done.history[-1].improper:
        return asked.declined(mixture, "the posterior seems to be improper.")
    if method:
        mixture, calibration = _calibrated(engine, target, mixture, method)
        asked = asked._replace(mixture=mixture, calibration=calibration)
    return _skewed(engine, target, done, asked) if skews else asked


def _calibrated(engine, target, mixture, method):
    """Moments and tails corrected, with half of what is left of the budget at most."""
    settings, most = engine.settings, engine.settings.max_components
    # Where components are square roots, more densities than that are their mixture.
    most = None if most is None else max(most, mixture.n_components)
    try:
        with target.ledger.within(target.ledger.budget.share(_SHARE)):
            return calibrate(
                target,
                mixture,
                method,
                settings.seed,
                exact=settings.exact,
                tol=settings.tol,
                max_components=most,
            )
    except BudgetSpent:
        return mixture, Calibration(reason=_NO_ROOM)


def _skewed(engine, target, done, corrected):
    """Components multiplied by their skewing weights; see `skew`."""
    # Sums over many rows; elsewhere a pilot costs less than a look around.
    if done.history[-1].within_tol and engine.settings.exact:
        reason = "draws see less than tol left to gain."
    else:
        try:
            with target.ledger.within(target.ledger.budget.share(_SHARE)):
                return _weighted(engine, target, done, corrected)
        except BudgetSpent:
            reason = _NO_ROOM
    return corrected._replace(skewing=SkewReport(reason=reason))


def _weighted(engine, target, done, corrected):
    """The same while the budget lasts, of which it takes half at most."""
    settings = engine.settings
    rng = generator(settings.seed, SKEW, done.n_iter)
    # As an iterate is kept, and a part of what may remain: 10,000 rows of 200 columns
    # took three fifths of their seconds for .018 nats, where three may remain.
    least = max(settings.least_gain, _LEAST_SHARE * (settings.allowed_kl or 0.0))
    pilot = skew_pilot(target, corrected.mixture, rng)
    first = _moments_first(target, engine, corrected, pilot)
    pilot = pilot if first is corrected else None
    mixture, report, left = skew(target, first.mixture, least, rng, pilot)
    if not report.applied:
        return corrected._replace(skewing=report)
    if first is not corrected:
        mixture = replace(mixture, before=corrected.mixture)
    return first._replace(mixture=mixture, skewing=report, remaining=left)


def _moments_first(target, engine, corrected, pilot):
    """Shift and scales corrected where skewness is strong and nothing was asked for.

    Only where the log density is known to be concave: of other shapes short chains do
    not see all.
    """
    if corrected.calibration is not None or not target.log_concave or not pilot:
        return corrected
    gain, settings = pilot.least(), engine.settings
    # Nats that skewing gains where standard deviations are visibly small: by 2 % on
    # wine (.53 nats) and by 7 % on ds1_100 (1.72), by 1 % on breast cancer (.19).
    strong = 0.3
    if not gain.value - N_ERRORS * gain.se > strong:
        return corrected
    mixture, calibration = calibrate(
        target,
        corrected.mixture,
        "auto",
        settings.seed,
        exact=settings.exact,
        tol=settings.tol,
        by_chains=True,
    )
    if not calibration.applied:
        return corrected
    return corrected._replace(mixture=mixture, calibration=calibration)
