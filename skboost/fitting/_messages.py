"""What a fit says of itself: its message, and warnings where much remains."""

import sys
import warnings
from weakref import WeakKeyDictionary

import numpy as np
from joblib import Parallel
from sklearn.exceptions import ConvergenceWarning

from skboost.families import MAX_FULL_DIM, VariationalFamily
from skboost.fitting._judgement import with_orbits
from skboost.proposals import LITTLE_LEFT
from skboost.targets import OverdispersionWarning

# Nats by estimate above which a fit warns: stopping early is normal otherwise.
_MUCH = 0.5
# Above it no report is computed to say so: orbits would not mend it, and of more
# parameters than may have correlations they would take tens of seconds.
_HOPELESS, _HOPELESS_OF_MANY = 50.0, 10.0
_LIMITS = ("max_iter", "max_time", "max_evaluations")


def message_of(problem, run, place, corrected, judgement, interval):
    """Why a run ended, and what has to be known of its posterior."""
    message = run.message + _remarks(problem, run, corrected, judgement, interval)
    missed = _uncertified(judgement.missed, place)
    # Probes that found a mode contradict the word, and so does what orbits found left
    # of a mixture that few draws took for complete.
    _, remaining = with_orbits(corrected, judgement)
    little = remaining.value <= min(_MUCH, most_kl(problem, judgement))
    doubtful = judgement.may_miss or not little
    return missed + (_ended(message) if doubtful else message)


def most_kl(problem, judgement):
    """Nats that may remain of a fit that has converged.

    Ten times what `tol` allows: fewer than half a nat, or than what is allowed itself.
    No more than that at a hard edge, and less by what is cut off beyond it.
    """
    settings, outside = problem.engine.settings, judgement.remaining.outside
    most = allowed = settings.allowed_kl or settings.tol
    if not judgement.meets_edge:
        most = min(10.0 * allowed, max(_MUCH, allowed))
    with np.errstate(divide="ignore"):
        return most + np.log1p(-outside)


def _ended(message):
    """A message without the word that all is well."""
    return message.replace("Converged", "The search ended")


def _remarks(problem, run, corrected, judgement, interval):
    """What a message says beside the reason for the end."""
    engine, target, *_ = problem
    remarks = _of_interval(interval) if run.end else ""
    remarks += _of_orbits(corrected.orbiting)
    if run.history[0].cut_short:
        of_nodes = ", or before all nodes were tried" if run.history[0].n_nodes else ""
        remarks += (
            " The first component was cut short: limits ended its search before it was "
            f"done{of_nodes}, or left it few draws. Raise max_time or max_evaluations."
        )
    if judgement.from_held_draws and engine.draws_anew:
        remarks += (
            " The estimates are those of the last whole iteration, and no probe looked "
            "for modes outside the mixture."
        )
    if not engine.combination.monotone and run.state.best_iteration != run.n_iter:
        remarks += f" Kept the mixture of iteration {run.state.best_iteration}."
    outside = judgement.fresh.outside
    if outside > 0.0:
        remarks += (
            f" {100 * outside:.3g} % of the posterior's draws lie where the "
            f"density is zero: {engine.combination.outside_advice}. The ELBO is that "
            "of the posterior restricted to where it is not."
        )
    if judgement.meets_edge and not outside:
        remarks += (
            f" The density is zero at {100 * judgement.evidence.zero:.2g} % of draws "
            "of wider components: it ends at a hard edge, which no smooth component "
            f"follows: {engine.combination.outside_advice}."
        )
    modes = judgement.modes
    if run.converged and modes is not None and np.count_nonzero(modes.counts) == 1:
        remarks += f" None of {modes.total} climbs led to a second mode."
    if modes is not None and modes.n_rare:
        remarks += (
            " Some modes were reached by one climb alone "
            f"({modes.n_rare}; climbs: {modes.total}), so others may be missing: pass "
            "starts (x0)."
        )
    if engine.proposer.modes_not_searched(target):
        remarks += (
            f" With {target.dim} coordinates modes outside the mixture were "
            "not looked for: pass starts (x0) near any that may be there."
        )
    return remarks


def _of_interval(interval):
    """What remains, as a sentence."""
    lower, upper = interval
    if not np.isfinite(upper):
        if not lower:
            return " Nothing says how many nats of KL remain at most."
        least = f" At least {lower:.2g} nats of KL remain"
        return f"{least}, and nothing says how many at most."
    return (
        f" Between {lower:.2g} and {upper:.2g} nats of KL remain, as far as points "
        "around the posterior reach."
    )


def _of_orbits(orbiting):
    """What orbits gained, as a sentence; empty where they were not applied."""
    if orbiting is None or not orbiting.applied:
        return ""
    return (
        f" Reweighting over orbits of {orbiting.order} gained {orbiting.gain:.2g} nats."
    )


def _uncertified(missed, place):
    """What to say of mass that probes find outside a mixture; empty without any."""
    if not missed:
        return ""
    places = place(np.array([one.location for one in missed[:5]]))
    shown = [[float(f"{x:.4g}") for x in row] for row in places]
    return (
        f"uncertified: probes outside the mixture found {len(missed)} "
        f"mode{'s' * (len(missed) > 1)} that it lacks, with about "
        f"{100 * sum(one.mass for one in missed):.2g} % of the posterior's mass. Pass "
        "more iterations (max_iter) or max_components, or start there, too (x0 of "
        f"boost_posterior): {shown}. "
    )


def warn_where_called(message, category):
    """Warn at the line that called skboost, however deep inside of it this is.

    In a search a warning names the candidate and comes once for it, in a
    cross-validation once. What is known of the rows, whatever the candidate, is left to
    the fit of the best candidate to all rows.
    """
    frames = _frames(sys._getframe(1))
    own = next((i for i, frame in enumerate(frames) if not _is_ours(frame)), -1)
    folds = (f.f_code.co_name in _FOLDS and _package(f) == "sklearn" for f in frames)
    fold = next((i for i, is_fold in enumerate(folds) if is_fold), None)
    if fold is not None:
        asked = frames[fold].f_locals
        candidate = asked.get("parameters")
        selves = (frame.f_locals.get("self") for frame in frames[fold:])
        parallel = next((one for one in selves if isinstance(one, Parallel)), None)
        if _said_before(category, candidate, asked, parallel):
            return
        if candidate:
            named = ", ".join(f"{name}={value!r}" for name, value in candidate.items())
            message = f"With {named}: {message}"
        # In other processes and in threads nobody called.
        if _package(frames[own]) in ("multiprocessing", "threading"):
            own = fold
    warnings.warn(message, category, stacklevel=2 + own % len(frames))


# Functions of scikit-learn that fit in one fold.
_FOLDS = {"_fit_and_score", "_fit_and_predict"}
# What was warned of in the folds of searches and cross-validations of this process.
_said = WeakKeyDictionary()


def _said_before(category, candidate, fold, parallel):
    """Whether a fold need not warn any more, or leaves that to a fit to all rows."""
    refitted = getattr(fold.get("caller"), "refit", False)
    if refitted and issubclass(category, OverdispersionWarning):
        return True
    if parallel is None:  # another process, which knows its own folds alone
        split, _ = fold.get("split_progress") or (0, 1)
        return split > 0
    said = _said.setdefault(parallel, set())
    one = category, repr(candidate)
    before = one in said
    said.add(one)
    return before


def _frames(frame):
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _package(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0]


def in_cross_validation():
    """Whether scikit-learn is judging an estimator by rows that it holds out."""
    names = (f.f_globals.get("__name__", "") for f in _frames(sys._getframe(1)))
    return any(name.startswith("sklearn.model_selection") for name in names)


def _is_ours(frame):
    # Scikit-learn's wrapper of ``fit``, and its searches over joblib; properties that
    # are computed once.
    known = {"skboost", "sklearn", "joblib", "functools", "contextlib"}
    return _package(frame) in known


def warn_unfinished(fit, settable):
    """Warn only where much remains: stopping early is normal for an anytime method.

    `settable` holds the names of the parameters that advice may speak of. Where nothing
    is to be said, the report of the fit is not computed.
    """
    run = fit.run
    cut_short = run.history[0].cut_short and run.state.iteration == 1
    if run.history[-1].improper or fit.misses_modes or cut_short:
        warn_where_called(_ended(fit.report.message), ConvergenceWarning)
        return
    by_auto = run.end.by == "auto"
    known = run.history[-1].known_left if by_auto else None
    if known is not None and known <= LITTLE_LEFT:
        return
    # What ``tol="auto"`` allows is what was asked for.
    much = max(_MUCH, fit.allowed_kl) if by_auto else _MUCH
    message, few = run.end.message, fit.mixture.dim <= MAX_FULL_DIM
    most = _HOPELESS if few else _HOPELESS_OF_MANY
    far = known is not None and known > most
    before = known if far else fit.remaining_before_orbits
    if by_auto and before > most:
        left = f"About {before:.2g} nats of KL remain before orbits, by estimate"
    elif fit.leaves_more_than(much) and fit.report.remaining_kl > much:
        nats, message = fit.report.remaining_kl, fit.report.message
        left = f"About {nats:.2g} nats of KL remain, by estimate"
    else:
        return
    advice = _advice(run, settable, fit.mixture.components[0].family)
    warn_where_called(f"{left}.{advice} {_ended(message)}", ConvergenceWarning)


def _advice(run, settable, family):
    """What would leave less, by the reason for which a run ended."""
    ended_by = run.end.by
    # Conjugate distributions have no richer relatives.
    poor = isinstance(family, VariationalFamily) and not family.full_covariance
    if ended_by in _LIMITS:
        advice = [f"raise {ended_by}"]
    elif ended_by in ("auto", "orbits"):
        more = ended_by == "orbits" and "orbit" in settable
        advice = ["pass orbit=256"] if more else []
        advice += ["pass a smaller tol, such as tol=0.01"]
        # Rows that are separated leave large scales likely, where Gaussians are poor.
        by_scale = "prior_scale" in settable and hasattr(run.state.iterate, "blocks")
        if by_scale and not poor:
            advice.insert(0, "give prior_scale a number, such as prior_scale=1.0")
    else:
        advice = ["lower tol"] if ended_by == "tol" else []
        advice += ["raise n_draws of search"] if "search" in settable else []
    if poor and "family" in settable:
        # One full component leaves less than many of these, in fewer seconds.
        advice.insert(0, "use family='gaussian-full'")
    return f" For less, {', or '.join(advice)}." if advice else ""
