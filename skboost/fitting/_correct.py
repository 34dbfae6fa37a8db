"""What follows a run: moments and tails are calibrated, and components are skewed."""

from dataclasses import replace
from typing import NamedTuple

from skboost._budget import BudgetSpent
from skboost._math import N_ERRORS
from skboost._random import SKEW, generator
from skboost.approximation import Mixture, RemainingKL
from skboost.calibration import (
    Calibration,
    SkewReport,
    calibrate,
    skew,
    skew_pilot,
)

# Share of what limits leave that a correction may take.
_SHARE = 0.5
# Of what may remain under ``tol="auto"``, below which skewing gains too little.
_LEAST_SHARE = 0.01
# Nats that skewing gains where standard deviations are visibly small.
_STRONG = 0.3
CUT_SHORT = "the run was cut short before a corrected posterior was reported."
_NO_ROOM = "half of what the limits of the run (max_time, ...) left was not enough."


class Corrected(NamedTuple):
    """The mixture that is reported, and what became of the corrections.

    `calibration` and `skewing` are None where none was asked for; `remaining` is what
    remains after skewing, None where there is none.
    """

    mixture: Mixture
    calibration: Calibration | None = None
    skewing: SkewReport | None = None
    remaining: RemainingKL | None = None


def declined(run, options, reason):
    """The mixture of a run, to which no correction that was asked for is applied."""
    return Corrected(
        run.stages[-1],
        options.calibrate and Calibration(reason=reason),
        options.skew and SkewReport(reason=reason),
    )


def corrected(problem, run, options):
    """The mixture of a run after the corrections that the options ask for."""
    engine, target, *_ = problem
    mixture, method = run.stages[-1], options.calibrate
    if not engine.draws_anew:
        return Corrected(mixture)
    if run.cut_short:
        return declined(run, options, CUT_SHORT)
    if run.history[-1].improper:
        return declined(run, options, "the posterior seems to be improper.")
    done = Corrected(mixture)
    if method:
        done = Corrected(*_calibrated(engine, target, mixture, method))
    return _skewed(engine, target, run, done) if options.skew else done


def _calibrated(engine, target, mixture, method):
    """Moments and tails corrected, with half of what is left of the budget at most."""
    settings = engine.settings
    half, most = target.ledger.budget.share(_SHARE), settings.max_components
    # Where components are square roots, more densities than that are their mixture.
    most = None if most is None else max(most, mixture.n_components)
    try:
        with target.ledger.within(half):
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


def _skewed(engine, target, run, done):
    """Components multiplied by their skewing weights; see `skew`."""
    # Sums over many rows; elsewhere a pilot costs less than a look around.
    if run.history[-1].within_tol and engine.settings.exact:
        reason = "draws see less than tol left to gain."
    else:
        try:
            with target.ledger.within(target.ledger.budget.share(_SHARE)):
                return _weighted(engine, target, run, done)
        except BudgetSpent:
            reason = _NO_ROOM
    return done._replace(skewing=SkewReport(reason=reason))


def _weighted(engine, target, run, done):
    """The same while the budget lasts."""
    settings = engine.settings
    rng = generator(settings.seed, SKEW, run.n_iter)
    # As an iterate is kept, and a part of what may remain: 10,000 rows of 200 columns
    # took three fifths of their seconds for .018 nats, where three may remain.
    least = max(settings.least_gain, _LEAST_SHARE * (settings.allowed_kl or 0.0))
    pilot = skew_pilot(target, done.mixture, rng)
    first = _moments_first(target, engine, done, pilot)
    pilot = pilot if first is done else None
    mixture, report, remaining = skew(target, first.mixture, least, rng, pilot)
    if not report.applied:
        return done._replace(skewing=report)
    if first is not done:
        mixture = replace(mixture, before=done.mixture)
    return first._replace(mixture=mixture, skewing=report, remaining=remaining)


def _moments_first(target, engine, done, pilot):
    """Shift and scales corrected where skewness is strong and nothing was asked for.

    Only where the log density is known to be concave: of other shapes short chains do
    not see all.
    """
    if done.calibration is not None or not target.log_concave or not pilot:
        return done
    gain, settings = pilot.least(), engine.settings
    if not gain.value - N_ERRORS * gain.se > _STRONG:
        return done
    mixture, calibration = calibrate(
        target,
        done.mixture,
        "auto",
        settings.seed,
        exact=settings.exact,
        tol=settings.tol,
        by_chains=True,
    )
    if not calibration.applied:
        return done
    return done._replace(mixture=mixture, calibration=calibration)
