"""From a run of the engine to fitted attributes."""

import sys
import warnings
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skboost._budget import BudgetSpent
from skboost._math import N_ERRORS
from skboost._random import INTERVAL, REPORT, generator
from skboost._stages import CUT_SHORT, Corrected
from skboost.approximation import Estimate, FreshDraws, RemainingKL
from skboost.calibration import (
    Interval,
    lower_end,
    n_chains,
    remaining_kl_interval,
)
from skboost.families import VariationalFamily
from skboost.posterior import MixturePosterior


def history_record(info):
    """One iteration as a flat dict of plain numbers, as `history_` holds it."""
    return {
        "iteration": info.iteration,
        "kind": info.move.kind,
        "branch": info.move.branch,
        "gamma": info.move.gamma,
        "curvature": info.move.curvature,
        "n_components": info.n_components,
        "elbo": info.elbo.value,
        "elbo_se": info.elbo.se,
        "gain": info.gain.value,
        "gain_se": info.gain.se,
        "gap": info.gap.value,
        "gap_se": info.gap.se,
        "entropy": info.entropy,
        "remaining_kl": info.remaining.value,
        "remaining_kl_se": info.remaining.se,
        "pareto_k": info.remaining.khat,
        "outside": info.remaining.outside,
        "seconds": info.seconds,
        "seconds_weights": info.move.seconds,
        "cut_short": info.cut_short,
    }


class Final(NamedTuple):
    """What a run ends with.

    Attributes
    ----------
    corrected : Corrected
        Its mixture is reported.
    fresh : FreshDraws
        Of that mixture, before skewing.
    elbo : Estimate
    remaining : RemainingKL
    interval : Interval
        Of the remaining KL.
    outside : str
        What to say of modes that the mixture lacks; empty without any.
    """

    corrected: Corrected
    fresh: FreshDraws
    elbo: Estimate
    remaining: RemainingKL
    interval: Interval
    outside: str


def report(
    engine,
    target,
    done,
    corrected,
    names=None,
    place=np.asarray,
    posterior=MixturePosterior,
):
    """Fitted attributes of a run, by their public names, all from fresh draws.

    They are drawn anew, and probes look for modes outside the mixture; after an
    interruption, or where time or evaluations are spent, the target is not evaluated
    again: see `from_held_draws`.

    Parameters
    ----------
    engine : Boosting
    target : Target
    done : Run
    corrected : Corrected
        What corrections made of the run's mixture.
    names : sequence of str, default=None
        Names of the coordinates.
    place : callable, default=numpy.asarray
        From unconstrained points (n, dim) to those that a user knows.
    posterior : callable, default=MixturePosterior
        Makes ``posterior_`` of the mixture and the names.

    Returns
    -------
    dict
    """
    cut_short = done.cut_short
    try:
        anew = engine.draws_anew and not cut_short
        of_draws = from_new_draws if anew else from_held_draws
        final = of_draws(engine, target, done, place, corrected)
    except BudgetSpent:
        cut_short = True
        final = from_held_draws(engine, target, done, place, corrected)
    remaining, outside = final.remaining, final.outside
    elbo, mixture = final.elbo, final.corrected.mixture
    history = [history_record(info) for info in done.history]
    message = done.message + _remarks(engine, target, done, final, cut_short)
    return {
        "posterior_": posterior(mixture, names),
        "_stages": (*done.stages[:-1], mixture.plain),
        "elbo_": elbo.value,
        "elbo_se_": elbo.se,
        "elbo_path_": np.array([h["elbo"] for h in history]),
        "gain_path_": np.array([h["gain"] for h in history]),
        "duality_gap_": history[-1]["gap"],
        "duality_gap_se_": history[-1]["gap_se"],
        "duality_gap_path_": np.array([h["gap"] for h in history]),
        "remaining_kl_": remaining.value,
        "remaining_kl_se_": remaining.se,
        "remaining_kl_interval_": tuple(final.interval),
        "pareto_k_": remaining.khat,
        "n_iter_": done.n_iter,
        "converged_": done.converged and not outside,
        # Probes that found a mode contradict the word.
        "message_": outside + message.replace("Converged", "The search ended")
        if outside
        else message,
        "calibration_": final.corrected.calibration,
        "skewing_": final.corrected.skewing,
        "history_": history,
    }


def from_new_draws(engine, target, done, place, corrected):
    """What new draws of the mixture that is reported say."""
    settings, mixture = engine.settings, corrected.mixture.base
    rng = generator(settings.seed, REPORT, done.n_iter)
    # A correction may bring components that are not Gaussian.
    exact = settings.exact and mixture.gaussian
    fresh = FreshDraws.of(target, mixture, settings.n_fresh, rng, exact, strict=True)
    remaining = fresh.remaining_kl(
        target, settings.n_report, rng, settings.probe_precision
    )
    # What the mixture reaches has more mass than its ELBO says.
    log_evidence = fresh.elbo().value + np.nan_to_num(max(remaining.value, 0.0))
    key = (settings, REPORT, done.n_iter)
    # A run that began with this mixture has looked around it.
    modes = done.state.modes if done.n_iter == 1 else done.modes
    if modes is None or not mixture.equals(done.state.mixture):
        modes = engine.proposer.find_modes(target, fresh, done.state.modes, *key)
    found = engine.proposer.missed_modes(target, mixture, modes, log_evidence, *key)
    interval = Interval(lower_end(remaining), np.inf)
    if done.end and not (found or done.history[-1].improper):
        beside = engine.proposer.located(modes)
        # Where the budget of the run leaves room.
        with suppress(BudgetSpent):
            interval = remaining_kl_interval(
                target,
                mixture,
                fresh.elbo(),
                remaining,
                n_chains(target.n_evaluations),
                generator(settings.seed, INTERVAL, done.n_iter),
                beside,
                settings.tol,
            )
    estimates = _skewed(corrected, fresh.elbo(), remaining, interval)
    return Final(corrected, fresh, *estimates, _uncertified(found, place))


def _skewed(corrected, elbo, remaining, interval):
    """Estimates of a mixture after its skewing weights, whose gain is known."""
    skewing = corrected.skewing
    if skewing is None or not skewing.applied:
        return elbo, remaining, interval
    gain, se = skewing.gain, skewing.gain_se
    left = corrected.remaining
    # With several components the gain is a lower bound, and may be all that is left.
    lower = lower_end(left) if corrected.mixture.n_components == 1 else 0.0
    upper = max(interval.upper - gain + N_ERRORS * se, lower, left.value)
    elbo = Estimate(elbo.value + gain, float(np.hypot(elbo.se, se)))
    return elbo, left, Interval(lower, upper)


def from_held_draws(engine, target, done, place, corrected):
    """The same as `from_new_draws` from what the run holds, without any evaluation.

    The draws are those by which its best iterate was judged; no probe has looked for
    modes outside of it.
    """
    state = done.state
    remaining = done.history[state.best_iteration - 1].remaining
    corrected = corrected.declined(done.stages[-1], CUT_SHORT)
    interval = Interval(lower_end(remaining), np.inf)
    elbo = state.best.elbo()
    return Final(corrected, state.best, elbo, remaining, interval, "")


def _remarks(engine, target, done, final, cut_short):
    """What a message says beside the reason for the end."""
    fresh = final.fresh
    remarks = _of_interval(final.interval) if done.end else ""
    remarks += _of_calibration(final.corrected.calibration)
    remarks += _of_skewing(final.corrected.skewing)
    if done.history[0].cut_short:
        remarks += (
            " The first component was cut short: limits ended its search before it was "
            "done, or left it few draws. Raise max_time or max_evaluations, or lower "
            "n_draws."
        )
    if cut_short:
        remarks += (
            " The estimates are those of the last whole iteration, and no probe looked "
            "for modes outside the mixture."
        )
    if not engine.combination.monotone and done.state.best_iteration != done.n_iter:
        remarks += f" Kept the mixture of iteration {done.state.best_iteration}."
    if fresh.outside > 0.0:
        remarks += (
            f" {100 * fresh.outside:.3g} % of the posterior's draws lie where the "
            f"density is zero: {engine.combination.outside_advice}. The ELBO is that "
            "of the posterior restricted to where it is not."
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
        f" Between {lower:.2g} and {upper:.2g} nats of KL remain, as far as short "
        "chains from the posterior reach."
    )


def _of_calibration(calibration):
    """What became of a correction, as a sentence; empty where none was asked for."""
    if calibration is None:
        return ""
    if not calibration.applied:
        return f" No correction was applied: {calibration.reason}"
    return (
        f" A correction ({calibration.method}, step {calibration.step:g}) was applied "
        f"and changed the ELBO by {calibration.elbo_change:.2g} nats."
    )


def _of_skewing(skewing):
    """What skewing gained, as a sentence; empty where it was not applied."""
    if skewing is None or not skewing.applied:
        return ""
    return f" Skewing the components gained {skewing.gain:.2g} nats of it."


def _uncertified(found, place):
    """What to say of mass that probes find outside a mixture; empty without any."""
    if not found:
        return ""
    places = place(np.array([one.location for one in found[:5]]))
    shown = [[float(f"{x:.4g}") for x in row] for row in places]
    return (
        f"uncertified: probes outside the mixture found {len(found)} "
        f"mode{'s' * (len(found) > 1)} that it lacks, the heaviest with about "
        f"{100 * found[0].mass:.2g} % of the posterior's mass. Pass more iterations "
        f"(max_iter), or start there, too (x0 of boost_posterior): {shown}. "
    )


def warn_where_called(message, category):
    """Warn at the line that called skboost, however deep inside of it this is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(frame):
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    # Scikit-learn's wrapper of ``fit``, and its searches over joblib.
    return package in {"skboost", "sklearn", "joblib"}


def warn_unfinished(done, attributes, settable):
    """Warn only where much is left: stopping early is normal for an anytime method.

    `settable` holds the names of the parameters that advice may speak of.
    """
    remaining = attributes["remaining_kl_"]
    uncertified = attributes["message_"].startswith("uncertified")
    cut_short = done.history[0].cut_short and done.n_iter == 1
    if done.history[-1].improper or uncertified or cut_short:
        warn_where_called(attributes["message_"], ConvergenceWarning)
        return
    # Nats.
    if not remaining > 0.5:
        return
    component = attributes["posterior_"].mixture.components[0]
    advice = _advice(done, settable, component.family)
    warn_where_called(
        f"{attributes['message_']} The estimate is {remaining:.2g} nats.{advice}",
        ConvergenceWarning,
    )


def _advice(done, settable, family):
    """What would leave less, by the reason for which a run ended."""
    ended_by = done.end.by
    if ended_by in ("max_iter", "max_time", "max_evaluations"):
        advice = [f"raise {ended_by}"]
    elif ended_by == "enough":
        advice = ["pass a smaller tol, such as tol=0.01"]
    else:
        advice = ["lower tol"] if ended_by == "tol" else []
        advice += ["raise n_draws"] if "n_draws" in settable else []
    # Conjugate distributions have no richer relatives.
    poor = isinstance(family, VariationalFamily) and not family.full_covariance
    if poor and "family" in settable:
        advice.append("use family='gaussian-full'")
    return f" For less, {', or '.join(advice)}." if advice else ""
