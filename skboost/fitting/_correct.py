"""What follows a run: moments and tails are calibrated, components have orbits."""

from typing import NamedTuple

from skboost._budget import BudgetSpent
from skboost._random import ORBIT, generator
from skboost.approximation import Mixture, RemainingKL
from skboost.calibration import Calibration, calibrate
from skboost.orbits import OrbitReport, reweighted

# Share of what limits leave that a correction may take.
_SHARE = 0.5
# Of what may remain under ``tol="auto"``, below which orbits gain too little.
_LEAST_SHARE = 0.01
CUT_SHORT = "the run was cut short before a corrected posterior was reported."
_NO_ROOM = "half of what the limits of the run (max_time, ...) left was not enough."


class Corrected(NamedTuple):
    """The mixture that is reported, and what became of the corrections.

    `calibration` and `orbiting` are None where none was asked for; `remaining` is what
    remains with orbits, None where there are none.
    """

    mixture: Mixture
    calibration: Calibration | None = None
    orbiting: OrbitReport | None = None
    remaining: RemainingKL | None = None


def declined(run, options, reason):
    """The mixture of a run, to which no correction that was asked for is applied."""
    return Corrected(
        run.stages[-1],
        options.calibrate and Calibration(reason=reason),
        options.orbit and OrbitReport(reason=reason),
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
    return _with_orbits(engine, target, run, done, options.orbit)


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


def _with_orbits(engine, target, run, done, order):
    """Components reweighted over orbits, where they are asked for."""
    if order is None:
        return done
    settings = engine.settings
    # Sums over many rows; elsewhere a pilot costs less than a look around.
    if run.history[-1].within_tol and settings.exact:
        reason = "draws see less than tol left to gain."
        return done._replace(orbiting=OrbitReport(reason=reason))
    rng = generator(settings.seed, ORBIT, run.state.iteration)
    # As an iterate is kept, and a part of what may remain: 10,000 rows of 200 columns
    # took three fifths of their seconds for .018 nats, where three may remain.
    least = max(settings.least_gain, _LEAST_SHARE * (settings.allowed_kl or 0.0))
    try:
        with target.ledger.within(target.ledger.budget.share(_SHARE)):
            mixture, report, remaining = reweighted(
                target, done.mixture, order, settings.tol, least, rng, run.state.orbits
            )
    except BudgetSpent:
        return done._replace(orbiting=OrbitReport(reason=_NO_ROOM))
    return done._replace(mixture=mixture, orbiting=report, remaining=remaining)
