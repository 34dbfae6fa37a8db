"""What draws that nothing was fitted to say of a mixture, and probes outside of it."""

from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skboost._budget import BudgetSpent
from skboost._math import N_ERRORS
from skboost._random import EVIDENCE, INTERVAL, REPORT, generator
from skboost.approximation import (
    Estimate,
    FreshDraws,
    LogEvidence,
    RemainingKL,
    evidence_of,
    has_tails,
)
from skboost.fitting._interval import (
    KLInterval,
    lower_end,
    n_chains,
    remaining_kl_interval,
)

# Share of draws of heavy-tailed copies at zero density above which there is a hard edge
# within three standard deviations: where a density underflows it is smaller.
_EDGE = 0.05


class FoundMode(NamedTuple):
    """Where climbs ended: the mode, their number, its share of the mass at all modes,
    and whether the mixture has it."""

    location: list
    n_climbs: int
    mass: float
    in_mixture: bool


class DensityError(NamedTuple):
    """Nats that a density which is itself approximate adds to what remains: an estimate
    and its error, infinite where nothing says how many; k-hat of what says so."""

    value: float
    se: float
    khat: float


class Judgement(NamedTuple):
    """Estimates of a mixture before orbits.

    `modes` are those that are known of the target, `missed` those that matter and that
    the mixture lacks, `lacking` the numbers of these and of lighter ones; `evidence` is
    None where no draws of the tails were made. Held draws are those by which the run
    judged its best iterate: then nothing was evaluated, and no probe has looked for
    modes. `own` is a `DensityError`, None of exact densities.
    """

    fresh: FreshDraws
    remaining: RemainingKL
    modes: object = None
    missed: tuple = ()
    lacking: frozenset = frozenset()
    from_held_draws: bool = False
    evidence: LogEvidence | None = None
    own: DensityError | None = None

    @property
    def elbo(self):
        return self.fresh.elbo()

    @property
    def log_evidence(self):
        """`LogEvidence`; without draws of the tails, by those of the mixture alone."""
        if self.evidence is not None:
            return self.evidence
        elbo, remaining = self.elbo, self.remaining
        se = float(np.hypot(elbo.se, remaining.se))
        return LogEvidence(elbo.value + remaining.value, se, remaining.khat, 1.0)

    def with_tails(self, remaining):
        """What remains, with the mass that draws of the mixture never see, and with the
        error of the density.
        """
        if self.own is not None:
            value, se, khat = self.own
            # An estimate that nothing bounds is left to the interval.
            se = np.hypot(remaining.se, se if np.isfinite(se) else 0.0)
            khat, value = max(remaining.khat, khat), remaining.value + value
            remaining = remaining._replace(value=value, se=float(se), khat=khat)
        if self.evidence is None:
            return remaining
        unseen = self.evidence.beyond(self.elbo.value + self.remaining.value)
        se = float(np.hypot(remaining.se, self.evidence.se if unseen else 0.0))
        return remaining._replace(value=remaining.value + unseen, se=se)

    @property
    def meets_edge(self):
        """Whether the density is zero close to the mixture, as beyond a hard edge."""
        beyond = self.evidence is not None and self.evidence.zero > _EDGE
        return beyond or self.remaining.outside > 0.0

    @property
    def may_miss(self):
        """Whether probes found a mode that the mixture lacks, or hardly found some, or
        an error of the density has no bound.
        """
        rare = self.modes is not None and self.modes.n_rare > 0
        return bool(self.missed) or rare or not np.isfinite(self.own_upper)

    @property
    def own_upper(self):
        """Nats at most of the error of the density."""
        return 0.0 if self.own is None else self.own.value + N_ERRORS * self.own.se

    def modes_found(self, place):
        """A `FoundMode` for every mode that was weighed, the heaviest first."""
        if self.modes is None or not self.modes.weighed:
            return ()
        index, weighed = zip(*self.modes.weighed, strict=True)
        # By estimates of one kind.
        logs = np.array([one.mass for one in weighed])
        with np.errstate(invalid="ignore"):
            mass = np.nan_to_num(np.exp(logs - logs.max()))
        mass /= max(mass.sum(), np.finfo(float).tiny)
        where = place(np.array([self.modes.components[k].location() for k in index]))
        counts = self.modes.counts
        return tuple(
            FoundMode(
                where[i].tolist(), counts[k], float(mass[i]), k not in self.lacking
            )
            for i, k in sorted(enumerate(index), key=lambda pair: -mass[pair[0]])
        )


def judge_mixture(problem, run, mixture=None):
    """A `Judgement` of the run's mixture, without evaluations where limits are met."""
    engine = problem.engine
    same = mixture is None or mixture.equals(run.mixture)
    new = engine.held_draws_are_new or run.history[-1].known_left is not None
    if new and same and not run.cut_short:
        held = by_held_draws(run)
        return held._replace(modes=run.state.modes, from_held_draws=False)
    if engine.draws_anew and not run.cut_short:
        with suppress(BudgetSpent):
            return _by_new_draws(problem, run, mixture or run.mixture)
    return by_held_draws(run)


def by_held_draws(run):
    """A `Judgement` of the run's mixture without any evaluation."""
    state = run.state
    remaining = run.history[state.best_iteration - 1].remaining
    return Judgement(state.best, remaining, from_held_draws=True)


def _by_new_draws(problem, run, mixture):
    engine, target, *_ = problem
    settings = engine.settings
    rng = generator(settings.seed, REPORT, run.state.iteration)
    # A correction may bring components that are not Gaussian.
    exact = settings.exact and mixture.gaussian
    fresh = FreshDraws.of(target, mixture, settings.n_fresh, rng, exact, strict=True)
    remaining = fresh.remaining_kl(
        target, settings.n_report, rng, settings.probe_precision
    )
    # What the mixture reaches has more mass than its ELBO says.
    log_evidence = fresh.elbo().value + np.nan_to_num(max(remaining.value, 0.0))
    key = (settings, REPORT, run.state.iteration)
    # A run that began with this mixture, or with what it is a part of, has looked
    # around it.
    began = run.state.iteration == 1 or run.history[-1].n_nodes
    modes = run.state.modes if began and run.modes is None else run.modes
    if modes is None or not mixture.equals(run.state.mixture):
        modes = engine.proposer.find_modes(target, fresh, run.state.modes, *key)
    known = mixture, modes, log_evidence
    missed = tuple(engine.proposer.missed_modes(*known, settings))
    lacking = engine.proposer.missed_modes(*known, replace(settings, tol=0.0))
    numbers = frozenset(one.index for one in lacking)
    return Judgement(fresh, remaining, modes, missed, numbers)


def with_orbits(corrected, judgement):
    """ELBO and `RemainingKL` of a mixture with its orbits, whose gain is known."""
    elbo = judgement.elbo
    if corrected.remaining is None:
        return elbo, judgement.with_tails(judgement.remaining)
    gain, se = corrected.orbiting.gain, corrected.orbiting.gain_se
    error = float(np.hypot(elbo.se, se))
    remaining = judgement.with_tails(corrected.remaining)
    return Estimate(elbo.value + gain, error), remaining


def with_evidence(problem, run, judgement):
    """A judgement with the evidence by draws of the tails, too.

    Not after an interruption, nor where evaluations are dear or the tails light, nor
    where the budget of the run leaves no room.
    """
    engine, target, *_ = problem
    fresh = judgement.fresh
    unknown = fresh.log_joint is None or fresh.outside == 1.0
    given = judgement.from_held_draws or engine.held_draws_are_new or run.end is None
    if unknown or given or target.log_concave or not has_tails(fresh.mixture):
        return judgement
    rng = generator(engine.settings.seed, EVIDENCE, run.state.iteration)
    with suppress(BudgetSpent):
        return judgement._replace(evidence=evidence_of(target, fresh, rng))
    return judgement


def interval_of(problem, run, corrected, judgement, n_evaluated):
    """The `KLInterval` for the remaining KL and a density's error, by a share of
    evaluations."""
    own = judgement.own
    if own is None:
        return _interval_of(problem, run, corrected, judgement, n_evaluated)
    alone = judgement._replace(own=None)
    low, high = _interval_of(problem, run, corrected, alone, n_evaluated)
    low += max(own.value - N_ERRORS * own.se, 0.0)
    return KLInterval(low, high + judgement.own_upper)


def _interval_of(problem, run, corrected, judgement, n_evaluated):
    engine, target, *_ = problem
    elbo, remaining = with_orbits(corrected, judgement)
    settings, mixture = engine.settings, corrected.mixture.base
    interval = KLInterval(lower_end(remaining), np.inf)
    blind = judgement.may_miss or run.history[-1].improper
    if judgement.fresh.known_to is not None:
        return KLInterval(interval.lower, remaining.value + judgement.fresh.known_to)
    if not (run.end is None or blind or judgement.from_held_draws):
        # Where the budget of the run leaves room.
        with suppress(BudgetSpent):
            interval = remaining_kl_interval(
                target,
                mixture,
                elbo,
                remaining,
                n_chains(n_evaluated),
                generator(settings.seed, INTERVAL, run.state.iteration),
                engine.proposer.located(judgement.modes),
                settings.tol,
            )
    # With several components the gain is a lower bound, and may be all that remains.
    bounded = corrected.remaining is not None and mixture.n_components > 1
    return KLInterval(0.0, interval.upper) if bounded else interval
