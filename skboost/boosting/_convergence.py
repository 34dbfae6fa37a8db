"""Whether little remains, and whether noise hides what could be gained."""

from functools import partial
from typing import NamedTuple

from skboost._math import N_ERRORS
from skboost._random import EVIDENCE, ORBIT, generator
from skboost._settings import GAIN_DECAY
from skboost.approximation import evidence_of, has_tails
from skboost.orbits import remaining_after_orbits

# --- tol="auto": a run ends once it is as good as a Gaussian fitted to exact draws


# Nats that matter where ``tol="auto"`` says nothing else.
TOL = 1e-2
# What the next component has to be expected to gain, as a share of what may remain,
# where no mode can hide. With wide priors skewed Gaussians have most of what plain
# mixtures gain: on one classification four components ended .1 nats behind ten and
# took a seventh of the seconds, for the same predictions.
_WORTH = 0.1
# Of what may remain, by how much a component gains where the posterior bends.
_BENDS = 10.0


# Draws whose images a doubling pays for: what a fit keeps, and what a user asks for.
_DRAWS_AFTER = 1_500
# Coordinates of which components cost little: a heavy-tailed posterior with eleven was
# left at an energy distance of .14 in place of .09, for a tenth of the seconds.
_FEW = 20
# Draws that confirm, in few dimensions, what an eighth of them says.
_MANY_DRAWS = 2048
# Times `tol` that the last component may have gained where no more is looked for.
_MUCH = 4.0


class Verdict(NamedTuple):
    """What an iteration leaves: why a run may end with it, as sentences, or empty."""

    # As little remains as `tol` allows.
    enough: str = ""
    # More does, and components gain less for their evaluations than images.
    images_are_cheaper: str = ""
    # Draws and their images that say so; None where none were looked at.
    orbits: object = None


class Price(NamedTuple):
    """What the last component gained of what remained, and the evaluations it took."""

    share: float
    n_evaluations: int


def allowed_kl(target, spanned=False):
    """Nats that may remain under ``tol="auto"``.

    A Gaussian with the moments of 1,000 independent draws of a d-dimensional Gaussian
    is d (d + 3) / 4000 nats from it. That much is allowed where the log posterior is
    concave, three nats at most, or its modes are `spanned` by the first component;
    elsewhere it would hide a mode or a bend, and only the part of the means is allowed,
    half a nat at most. Of more, draws say too little.
    """
    d = target.dim
    if target.log_concave or spanned:
        return max(TOL, min(d * (d + 3) / 4000, 3.0))
    return max(TOL, min(d / 1000, 0.5))


def judge_remaining(target, proposer, settings, state, gain, price=None):
    """Whether no more remains than `tol` allows, or components are too dear: `Verdict`.

    Nothing is said where the mixture has mass at which the density is zero, or lacks a
    mode that is known. The gain is that of the last component; NaN where there is none,
    or where gains say nothing; the `Price` is None then. A number allows itself, with
    orbits.
    """
    allowed, number = settings.allowed_kl, settings.allowed_kl is None
    none_hides = _no_mode_hides(target)
    if number:
        # Whoever passes a number has a search look for modes that no draw sees, and
        # one that gains much shows a bend: a banana said .04 nats where .14 were left.
        searched = none_hides or gain.value <= _MUCH * settings.tol
        if settings.max_order == 1 or not (searched and settings.tol > 0.0):
            return Verdict()
        allowed = settings.tol
    elif proposer.complete:
        return Verdict(proposer.complete)
    if proposer.lacks(target, state.mixture, state.modes):
        return Verdict()
    # Of mass outside, what remains of the rest knows nothing; a few draws know little.
    if state.remaining.outside > 0.0 or target.ledger.budget.has_cut:
        return Verdict()
    expected = GAIN_DECAY * (gain.value + N_ERRORS * gain.se)
    if none_hides and not number and 0.0 < expected <= _WORTH * allowed:
        return Verdict(
            f"Converged: the last component gained {gain.value:.2g} nats, and the next "
            "is expected to gain half of it, within a tenth of what a Gaussian fitted "
            "to 1,000 exact draws would leave."
        )
    verdict = _by_draws(target, settings, state, gain, allowed, price)
    # A search for modes comes last: it costs most.
    if verdict.enough or verdict.images_are_cheaper:
        known = state.modes, state.log_evidence, settings
        if proposer.missed_modes(state.mixture, *known):
            return Verdict()
    return verdict


def _by_draws(target, settings, state, gain, allowed, price):
    """`Verdict` by draws of the mixture, and by their orbits where these follow."""
    number = settings.allowed_kl is None
    none_hides = _no_mode_hides(target)
    is_enough = partial(_is_known_to_be_within, allowed=allowed, none_hides=none_hides)
    remaining, how, orbits = state.remaining, "", None
    if settings.max_order > 1 and _at_most(remaining) > allowed:
        parts = target, settings, state, gain, allowed, is_enough
        remaining, orbits = _after_orbits(*parts)
        how = ", once it is reweighted over orbits"
        # Whoever passes a number pays for it.
        judged = target.dim > _FEW and not (number or None in (price, orbits))
        if judged and not is_enough(remaining):
            dear = _images_gain_more(price, remaining, orbits, allowed)
            return Verdict(images_are_cheaper=dear, orbits=orbits)
    if not is_enough(remaining):
        return Verdict()
    if not (none_hides or state.fresh.log_joint is None):
        remaining = _with_tails(target, settings, state, remaining)
        # Tails in many dimensions count by all that the Gaussian would leave.
        if _at_most(remaining) > (allowed if number else allowed_kl(target, True)):
            return Verdict()
    # Noise may say that less than nothing is left.
    shown = max(remaining.value, 0.0) + N_ERRORS * remaining.se
    few = (
        "no more than tol"
        if number
        else "as few as a Gaussian fitted to 1,000 exact draws would leave"
    )
    return Verdict(
        f"Converged: less than about {shown:.2g} nats are left{how}, {few}, "
        "as far as draws of the mixture can see.",
        orbits=orbits,
    )


def _after_orbits(target, settings, state, gain, allowed, is_enough):
    """What would remain with orbits, and `Orbits` that say so, or without and None."""
    none_hides = _no_mode_hides(target)
    number = settings.allowed_kl is None
    # Where components gain that much, there is a bend that draws beside it never see:
    # a banana and a funnel in ten dimensions ended twice to five times as far off
    # without this.
    few = not none_hides and (number or allowed <= TOL)
    bends = not target.log_concave and gain.value > _BENDS * allowed
    parts = target, state.mixture, is_enough, allowed, settings.max_order
    key = settings.seed, ORBIT, state.iteration
    careful = few or bends
    found = remaining_after_orbits(*parts, generator(*key, 1), careful=careful)
    # In few dimensions evaluations are cheap, and 256 draws of a Gaussian never saw one
    # tail of a log-gamma density: half of what was left.
    if few and found is not None and is_enough(found[0]):
        # A few more images cost less than a component that is not needed.
        rng, hides = generator(*key, 3), partial(_hides_a_bend, allowed=allowed)
        found = remaining_after_orbits(*parts, rng, careful, _MANY_DRAWS, hides)
    if found is None or (few and _hides_a_bend(found[0], allowed)):
        return state.remaining, None
    return found


def _with_tails(target, settings, state, remaining):
    """What remains, with the mass in tails that draws of the mixture never see."""
    if not has_tails(state.mixture):
        return remaining
    rng = generator(settings.seed, EVIDENCE, state.iteration)
    evidence = evidence_of(target, state.fresh, rng)
    seen = state.fresh.elbo().value + state.remaining.value
    return remaining._replace(value=remaining.value + evidence.beyond(seen))


def _images_gain_more(price, remaining, orbits, allowed):
    """That twice as many images gain more for an evaluation; empty otherwise.

    The next component is expected to take as large a share of what orbits leave as the
    last one did of what remained before it, and as many evaluations; a doubling, to
    gain half of what the last one did.
    """
    if not remaining.least > allowed:
        return ""
    component = price.share * remaining.value / price.n_evaluations
    order = int(orbits.orders.max())
    doubling = GAIN_DECAY * orbits.last.sum() / (order * _DRAWS_AFTER)
    if not 0.0 <= component < doubling:
        return ""
    return (
        f"Stopped: {remaining.value:.2g} nats are left with orbits of {order}, and for "
        "the same evaluations twice as many images gain more than another component, "
        f"as the last one took {100 * price.share:.0f} % of what was left."
    )


def _no_mode_hides(target):
    return target.log_concave or target.modes_known


def _hides_a_bend(after, allowed):
    """Whether orbits of few draws look better than they are.

    In few dimensions little is allowed, and a component costs little. A normal
    distribution truncated at zero ended seven to twelve times as far off without this.
    """
    return after.khat > 0.5 and after.spread > _WORTH * allowed


def _at_most(remaining):
    return remaining.value + N_ERRORS * remaining.se


def _is_known_to_be_within(remaining, allowed, none_hides):
    # A tail of the weights that is too heavy hides how much is left, where it is much:
    # weights that are nearly constant have any shape of tail. Where no mode or bend can
    # hide, it is enough that their mean exists.
    heaviest = 1.0 if none_hides else 0.7
    at_most = _at_most(remaining)
    hidden = at_most > 0.05 and remaining.khat > heaviest
    return at_most <= allowed and not hidden
