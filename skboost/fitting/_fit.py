"""What a run leaves: a mixture at once, corrections and a report when asked for."""

from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from skboost._budget import Budget, BudgetSpent
from skboost._parallel import single_threaded
from skboost._random import ORBIT, generator
from skboost.approximation import Mixture, RemainingKL
from skboost.fitting._judgement import (
    by_held_draws,
    interval_of,
    judge_mixture,
    with_evidence,
    with_orbits,
)
from skboost.fitting._messages import message_of, most_kl, warn_where_called
from skboost.fitting._run import agree, behind_warp
from skboost.orbits import OrbitReport, most_images, remaining_after_orbits, reweighted

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


def decline_orbits(run, options, reason):
    """The mixture of a run, whose components have no orbits."""
    return Corrected(run.mixture, options.orbit and OrbitReport(reason=reason))


def correct(problem, run, options):
    """The mixture of a run, reweighted over orbits where they are asked for."""
    engine, target, *_ = problem
    mixture, order = run.mixture, options.orbit
    if not engine.draws_anew:
        return Corrected(mixture)
    if run.cut_short:
        return decline_orbits(run, options, CUT_SHORT)
    if run.history[-1].improper:
        reason = "the posterior seems to be improper, or its density is not smooth."
        return decline_orbits(run, options, reason)
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


# --- the run, its mixture and its report


_CHANGED = "the rows were changed in place after the fit."
# Shape of the tail of importance weights above which means of them are not reliable
# (Vehtari et al. 2024).
_UNRELIABLE = 0.7


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


class Report(NamedTuple):
    """What users are told of a fit; all but `pareto_k` in nats, by held-out draws."""

    elbo: float
    elbo_se: float
    remaining_kl: float
    remaining_kl_se: float
    remaining_kl_interval: tuple
    pareto_k: float
    message: str
    orbiting: OrbitReport | None
    log_evidence: float = float("nan")
    log_evidence_se: float = float("nan")
    modes_found: tuple = ()


class Fit:
    """A run, and what is computed of it on demand.

    Corrections and the report evaluate the target, once, at draws that follow from the
    seed. Until the report is there a fit holds its target, and so the rows; copies and
    pickles compute it first and leave them behind.

    Attributes
    ----------
    run : Run or None
        What a longer run goes on from.
    kind : tuple of str
        What is combined, and components of which family.
    seed : int
    history : list of dict
        One record per iteration.
    ended_well : bool
        Whether the stopping rule ended the run, and probes do not say that modes are
        missing.
    most_kl : float
        Nats that may remain of a fit that has converged, known with the report.
    allowed_kl, tol : float
        Nats that ``tol="auto"`` lets remain, zero for another `tol`; and that one.
    constraints, warp : Constraints or None, WarpReport or None
        Where parameters live; what became of the warp that was asked for.
    """

    def __init__(self, problem, run, options, budget=None):
        self.run, self.kind = run, problem.engine.kind
        self.seed = problem.engine.settings.seed
        self.allowed_kl = problem.engine.settings.allowed_kl or 0.0
        self.tol = problem.engine.settings.tol
        self.warp = run.prepared
        self.constraints = options.constraints
        self._problem, self._options = problem, options
        self._budget = Budget() if budget is None else budget
        self._n_evaluated = 0
        self._judged_by(by_held_draws(run))

    # --- at once

    def judge(self):
        """Draw anew, and look for missed modes: what a warning depends on."""
        target = self._problem.target
        before = target.n_evaluations
        judgement = judge_mixture(self._problem, self.run)
        if judgement.from_held_draws and self._problem.engine.draws_anew:
            self.corrected = decline_orbits(self.run, self._options, CUT_SHORT)
        self._judged_by(judgement)
        self._n_evaluated = self.run.n_evaluated + target.n_evaluations - before
        self._budget.pause()
        return self

    def know_error(self, error):
        """Count a `DensityError` in all that is said of the fit."""
        self._judged_by(self._judgement._replace(own=error))

    def _judged_by(self, judgement):
        self._judgement, self.misses_modes = judgement, bool(judgement.missed)
        self.ended_well = self.run.converged and not judgement.may_miss

    @cached_property
    def history(self):
        """One record per iteration."""
        with single_threaded():
            return [history_record(info) for info in self.run.history]

    @property
    def elbo_path(self):
        """The ELBO after every iteration, (n_iter,)."""
        return np.array([record["elbo"] for record in self.history])

    @cached_property
    def remaining_before_orbits(self):
        """What the mixture leaves, nats."""
        judgement = self._judgement
        return judgement.with_tails(judgement.remaining).value

    @property
    def converged(self):
        """Whether the run ended well, and no more remains than that word allows."""
        return self.ended_well and bool(self.report.remaining_kl <= self.most_kl)

    def leaves_more_than(self, nats):
        """Whether more may remain, by few draws where orbits follow.

        They also decide where draws without orbits have weights with so heavy a tail
        that they see too little.
        """
        more = self.remaining_before_orbits > nats
        if "report" in vars(self):
            return more or self.report.remaining_kl > nats
        if not more and not self._judgement.remaining.khat > _UNRELIABLE:
            return False
        engine, target, *_ = self._problem
        most = most_images(self._options.orbit)
        # Where a bend can hide few draws see too little of it, with their images, too.
        # Averages over a scale hide none that is not there where it is known.
        prior = target.scale_prior
        given = target if prior is None else target.at_common_scale(1.0)
        hides = not (given.log_concave or target.modes_known)
        held = self._judgement.from_held_draws or not engine.draws_anew
        if most == 1 or held or (more and hides):
            return more
        rng = generator(self.seed, ORBIT, self.run.state.iteration, 2)
        parts = self.mixture, lambda left: left.value <= nats, nats, most, rng
        with self._evaluating(), suppress(BudgetSpent):
            left = remaining_after_orbits(target, *parts)
            return left is None or left[0].value > nats
        return True

    @property
    def mixture(self):
        """What predictions average over: before orbits."""
        return self.stages[-1] if "stages" in vars(self) else self.run.mixture.base

    @cached_property
    def stages(self):
        """The best mixture known after each iteration; the last one is `mixture`."""
        return tuple(one.base for one in self.run.stages)

    @property
    def n_iter(self):
        """Iterations done, the first component included."""
        return len(self.history if self.run is None else self.run.history)

    @property
    def target(self):
        """The log joint density, in the coordinates of `mixture`."""
        return self._problem.target

    # --- on demand

    @cached_property
    def corrected(self):
        """`Corrected`: the mixture that is reported."""
        run = self.run
        if run.end is None:
            return Corrected(run.mixture)
        with self._evaluating() as unchanged:
            if unchanged:
                return correct(self._problem, run, self._options)
        return decline_orbits(run, self._options, _CHANGED)

    @cached_property
    def posterior(self):
        """What users meet of the corrected mixture."""
        options = self._options
        mixture, constraints = self.corrected.mixture, self._constraints
        return options.posterior(mixture, options.names, constraints)

    @cached_property
    def report(self):
        """The `Report`, after which the target is let go."""
        done, judgement = self.corrected, self._judgement
        own = judgement.own
        # While there is what they are made of.
        self.stages, self.posterior, self.history  # noqa: B018
        self.remaining_before_orbits  # noqa: B018
        mixture = done.mixture.base
        with self._evaluating() as unchanged:
            if not unchanged:
                judgement = by_held_draws(self.run)
            elif not mixture.equals(judgement.fresh.mixture):
                judgement = judge_mixture(self._problem, self.run, mixture)
            judgement = judgement._replace(own=own)
            if unchanged:
                judgement = with_evidence(self._problem, self.run, judgement)
            parts = self._problem, self.run, done, judgement
            interval = interval_of(*parts, self._n_evaluated)
        elbo, remaining = with_orbits(done, judgement)
        self.most_kl = most_kl(self._problem, judgement)
        constraints = self._constraints
        place = np.asarray if constraints is None else constraints.forward
        parts = self._problem, self.run, place, done, judgement, interval
        report = Report(
            elbo=elbo.value,
            elbo_se=elbo.se,
            remaining_kl=remaining.value,
            remaining_kl_se=remaining.se,
            remaining_kl_interval=tuple(interval),
            pareto_k=remaining.khat,
            message=message_of(*parts),
            orbiting=done.orbiting,
            log_evidence=judgement.log_evidence.value,
            log_evidence_se=judgement.log_evidence.known_se,
            modes_found=judgement.modes_found(place),
        )
        self._let_go()
        return report

    @property
    def _constraints(self):
        dim = self._problem.target.dim
        return behind_warp(self.constraints, self.warp, dim)

    @contextmanager
    def _evaluating(self):
        """Whether the density is still that of the fit; its limits bind inside."""
        target = self._problem.target
        budget, before = self._budget, target.n_evaluations
        with single_threaded(), budget.running(), target.ledger.within(budget):
            recomputed = self._problem.recomputed
            unchanged = target.ledger.counts or agree(*recomputed(self.run.state))
            if not unchanged:
                warn_where_called(
                    "The rows that this model was fitted to were changed in place "
                    "before its report was computed: corrections and the interval for "
                    "what remains are left out, and estimates whose draws waited are "
                    "of the rows as they are now. Fit again, or ask for posterior_ "
                    "before the rows are changed.",
                    UserWarning,
                )
            yield unchanged
        # What others evaluate in between has no part in it.
        self._n_evaluated += target.n_evaluations - before

    # --- copies

    def _let_go(self):
        """Forget the target, and draws that only the report needs."""
        for name in ("_problem", "_options", "_budget", "_judgement", "corrected"):
            vars(self).pop(name, None)

    def __getstate__(self):
        self.report  # noqa: B018  (computed here, once)
        return vars(self).copy()

    def renamed(self, names):
        """The same with other names of the coordinates."""
        state = vars(self).copy()
        if "posterior" in state:
            state["posterior"] = state["posterior"].renamed(names)
        if "_options" in state:
            state["_options"] = replace(state["_options"], names=names)
        return self._restored(**state)

    def without_run(self):
        """The same without what a longer run goes on from."""
        return self._restored(**{**self.__getstate__(), "run": None})

    @classmethod
    def _restored(cls, **state):
        fit = object.__new__(cls)
        vars(fit).update(state)
        return fit

    @classmethod
    def of_report(cls, report, **known):
        """A fit of which all has been computed, as it is read from a file."""
        return cls._restored(run=None, report=report, most_kl=np.inf, **known)


class FromFit:
    """An attribute of what has a ``_fit``, where it is found by a dotted path."""

    def __init__(self, path):
        self._value = attrgetter(path)

    def __set_name__(self, owner, name):
        self._name = name

    def __set__(self, owner, value):
        raise AttributeError(f"{self._name} is computed from the fit: it is not set.")

    def __get__(self, owner, kind):
        if owner is None:
            return self
        if "_fit" not in vars(owner):
            raise AttributeError(
                f"{kind.__name__!r} object has no attribute {self._name!r}"
            )
        return self._value(owner._fit)
