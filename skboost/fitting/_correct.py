"""What follows a run: components have orbits."""

from typing import NamedTuple

from skboost._budget import BudgetSpent
from skboost._random import ORBIT, generator
from skboost.approximation import Mixture, RemainingKL
from skboost.orbits import OrbitReport, reweighted

# Share of what limits leave that orbits may take.
_SHARE = 0.5
# Of what may remain under ``tol="auto"``, below which orbits gain too little.
_LEAST_SHARE = 0.01
CUT_SHORT = "the run was cut short before a corrected posterior was reported."
_NO_ROOM = "half of what the limits of the run (max_time, ...) left was not enough."


class Corrected(NamedTuple):
    """The mixture that is reported, `orbiting` or None, and what `remaining` then
    is."""

    mixture: Mixture
    orbiting: OrbitReport | None = None
    remaining: RemainingKL | None = None


def declined(run, options, reason):
    """The mixture of a run, whose components have no orbits."""
    return Corrected(run.mixture, options.orbit and OrbitReport(reason=reason))


def corrected(problem, run, options):
    """The mixture of a run, reweighted over orbits where they are asked for."""
    engine, target, *_ = problem
    mixture, order = run.mixture, options.orbit
    if not engine.draws_anew:
        return Corrected(mixture)
    if run.cut_short:
        return declined(run, options, CUT_SHORT)
    if run.history[-1].improper:
        return declined(run, options, "the posterior seems to be improper.")
    if order is None:
        return Corrected(mixture)
    settings = engine.settings
    # Sums over many rows; elsewhere a pilot costs less than a look around.
    if run.history[-1].within_tol and settings.exact:
        reason = "draws see less than tol left to gain."
        return Corrected(mixture, OrbitReport(reason=reason))
    rng = generator(settings.seed, ORBIT, run.state.iteration)
    # As an iterate is kept, and a part of what may remain: 10,000 rows of 200 columns
    # took three fifths of their seconds for .018 nats, where three may remain.
    least = max(settings.least_gain, _LEAST_SHARE * (settings.allowed_kl or 0.0))
    try:
        with target.ledger.within(target.ledger.budget.share(_SHARE)):
            parts = order, settings.tol, least, rng, run.state.orbits
            return Corrected(*reweighted(target, mixture, *parts))
    except BudgetSpent:
        return Corrected(mixture, OrbitReport(reason=_NO_ROOM))
