"""From a run of the engine to fitted attributes."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skboost._random import REPORT, generator
from skboost.families import VariationalFamily
from skboost.mixtures import FreshDraws
from skboost.posterior import MixturePosterior

# Nats of remaining KL above which an unfinished run is worth a warning.
_LARGE_KL = 0.5
# Draws for the importance-sampling part of the final report.
_N_REMAINING = 1024
# Modes that a message lists.
_MAX_SHOWN = 5


def history_record(info):
    """One iteration as a flat dict of plain numbers, as `history_` holds it."""
    return {
        "iteration": info.iteration,
        "kind": info.kind,
        "branch": info.move.branch,
        "gamma": info.gamma,
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
    }


def report(engine, done, names=None, place=np.asarray, posterior=MixturePosterior):
    """Fitted attributes of a run, by their public names, all from fresh draws.

    They are drawn anew, and probes look for modes outside the mixture; after an
    interruption, or where time or evaluations are spent, the target is not evaluated
    again: see `held`.

    Parameters
    ----------
    engine : Boosting
    done : Run
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
    mixture = done.stages[-1]
    final = held if done.cut_short else drawn_anew
    fresh, remaining, outside = final(engine, done, place)
    elbo = fresh.elbo()
    history = [history_record(info) for info in done.history]
    message = done.message + _remarks(engine, done, fresh)
    return {
        "posterior_": posterior(mixture, names),
        "elbo_": elbo.value,
        "elbo_se_": elbo.se,
        "elbo_path_": np.array([h["elbo"] for h in history]),
        "gain_path_": np.array([h["gain"] for h in history]),
        "duality_gap_": history[-1]["gap"],
        "duality_gap_se_": history[-1]["gap_se"],
        "duality_gap_path_": np.array([h["gap"] for h in history]),
        "remaining_kl_": remaining.value,
        "remaining_kl_se_": remaining.se,
        "pareto_k_": remaining.khat,
        "n_iter_": done.n_iter,
        "converged_": done.converged and not outside,
        "message_": outside + message,
        "history_": history,
    }


def drawn_anew(engine, done, place):
    """Draws of a run's mixture, what remains, and what probes find outside of it.

    Parameters
    ----------
    engine : Boosting
    done : Run
    place : callable
        As in `report`.

    Returns
    -------
    fresh : FreshDraws
    remaining : RemainingKL
    outside : str
        What to say of modes that the mixture lacks; empty without any.
    """
    mixture = done.stages[-1]
    settings = engine.settings
    rng = generator(settings.seed, REPORT, done.n_iter)
    fresh = FreshDraws.of(engine.target, mixture, settings.n_fresh, rng, settings.exact)
    remaining = fresh.remaining_kl(engine.target, _N_REMAINING, rng)
    # What the mixture reaches has more mass than its ELBO says.
    log_evidence = fresh.elbo().value + np.nan_to_num(max(remaining.value, 0.0))
    key = (settings, REPORT, done.n_iter)
    modes = engine.proposer.find_modes(mixture, done.state.modes, *key)
    found = engine.proposer.missed_modes(mixture, modes, log_evidence, *key)
    return fresh, remaining, _uncertified(found, place)


def held(engine, done, place):
    """The same as `drawn_anew` from what the run holds, without any evaluation.

    The draws are those by which its best iterate was judged; no probe has looked for
    modes outside of it.
    """
    state = done.state
    return state.best, done.history[state.best_iteration - 1].remaining, ""


def _remarks(engine, done, fresh):
    """What a message says beside the reason for the end."""
    remarks = ""
    if done.cut_short:
        remarks += (
            " The estimates are those of the last whole iteration, and no probe looked "
            "for modes outside the mixture."
        )
    if not engine.monotone and done.state.best_iteration != done.n_iter:
        remarks += f" Kept the mixture of iteration {done.state.best_iteration}."
    if fresh.outside > 0.0:
        remarks += (
            f" {100 * fresh.outside:.3g} % of the posterior's draws lie where the "
            f"density is zero: {engine.combination.outside_advice}. The ELBO is that "
            "of the posterior restricted to where it is not."
        )
    if engine.proposer.modes_not_searched:
        remarks += (
            f" With {engine.target.dim} coordinates modes outside the mixture were "
            "not looked for: pass starts (x0) near any that may be there."
        )
    return remarks


def _uncertified(found, place):
    """What to say of mass that probes find outside a mixture; empty without any."""
    if not found:
        return ""
    places = place(np.array([one.location for one in found[:_MAX_SHOWN]]))
    shown = [[float(f"{x:.4g}") for x in row] for row in places]
    return (
        f"uncertified: probes outside the mixture found {len(found)} "
        f"mode{'s' * (len(found) > 1)} that it lacks, the heaviest with about "
        f"{100 * found[0].mass:.2g} % of the posterior's mass. Pass more iterations "
        f"(max_iter), or these with your x0: {shown}. "
    )


def warn_unfinished(done, attributes, stacklevel):
    """Warn only where much is left: stopping early is normal for an anytime method."""
    remaining = attributes["remaining_kl_"]
    if done.history[-1].improper or attributes["message_"].startswith("uncertified"):
        warnings.warn(attributes["message_"], ConvergenceWarning, stacklevel=stacklevel)
        return
    if not remaining > _LARGE_KL:
        return
    warnings.warn(
        f"{attributes['message_']} About {remaining:.2g} nats of KL remain. Raise "
        f"max_iter (or max_time), n_draws or n_restarts{_richer(attributes)}.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


def _richer(attributes):
    """Advice to use a family with full covariances, where that is not the one."""
    family, _ = attributes["posterior_"].mixture.components[0]
    # Conjugate distributions have no richer relatives.
    if not isinstance(family, VariationalFamily) or family.full_covariance:
        return ""
    if "full" not in family.covariances:
        return ", or use family='gaussian'"
    return ", or use component_covariance='full'"
