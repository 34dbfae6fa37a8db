"""Boosting variational inference: ``init`` and ``step``, and nothing else.

The loop of Locatello et al. 2018 and Dresdner et al. 2021 (Algorithm 1 in both): a
proposer finds a component for what the mixture lacks, and a combination appends it
and moves the weights. Beyond the papers all components move together after that, and
where more remains than matters a component is also split in two: most steps of a run
end with one of these. Pure: a state goes in, a state and a report come out.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from time import perf_counter

from skboost._budget import BudgetSpent
from skboost._random import FRESH, PROBE, REPORT, generator
from skboost._settings import GAIN_DECAY, Settings
from skboost.approximation import Estimate, FreshDraws, elbo_gain
from skboost.boosting._convergence import Price, Verdict, judge_remaining
from skboost.boosting._moves import Trial, try_moves
from skboost.boosting._state import (
    FIRST,
    UNKNOWN,
    Awaited,
    Combination,
    Facts,
    Info,
    State,
)
from skboost.proposals import Proposer

# Shares of what limits leave: of all for the search of the first components, then for
# the draws of each that are kept, then for those by which the mixture is judged. The
# least that a first mixture is known by, whatever the limits are.
_SEARCH_SHARE, _POOL_SHARE, _FRESH_SHARE, _LEAST_DRAWS = 0.6, 0.1, 0.8, 16
# What is told where no draws were asked.
_SURELY = (
    "Converged: by the third derivatives of the log likelihood less is left than a "
    "Gaussian fitted to 1,000 exact draws would leave."
)
# Iterations that look for modes around the mixture: ever more seldom, as fewer are
# left. `begin` has looked once.
_LOOKS = (4, 16, 64, 256, 1024)
# Nats of KL for one of squared Hellinger distance, close to the posterior.
_NATS_PER_HELLINGER = 4.0


@dataclass(frozen=True)
class Boosting:
    """The proposer finds components, and the combination makes one density of them."""

    proposer: Proposer
    combination: Combination
    settings: Settings

    # Whether the report may draw and evaluate anew.
    draws_anew = True
    # Whether no iteration is chosen by the draws that judge it.
    held_draws_are_new = False
    # With what it begins where that is not for the proposer to say.
    begins_with = ""

    @property
    def kind(self):
        """What is combined, and components of which family: two names."""
        return self.combination.kind, self.proposer.kind

    # Whether components of the first mixture come in one by one.
    by_nodes = property(attrgetter("combination.by_nodes"))

    @property
    def judges_gains(self):
        """Whether a gain says how good a search was, and what is left for the next."""
        return self.combination.monotone and self.proposer.seeks_gain

    def facts(self):
        """What stopping has to know, the same for a whole run but for `spent`."""
        combination = self.combination
        return Facts(
            exact=self.settings.exact,
            monotone=combination.monotone,
            noisy=combination.noisy,
            judges_gains=self.judges_gains,
            unit=combination.unit,
            little="tol" if self.settings.allowed_kl is None else "auto",
        )

    # --- the first iteration

    def init(self, target):
        """Ordinary variational inference, at every mode that the starts lead to."""
        began, ledger = perf_counter(), target.ledger
        # What is left is for the draws by which the mixture is judged.
        share = ledger.budget.share(_SEARCH_SHARE)
        # Ascent on all rows looks at its limits after each round, the first included.
        with ledger.within(share, raises=ledger.counts):
            mixture, modes = self.proposer.initial(target, self.settings)
        # Whoever only predicts asks for no draws.
        allowed = self.settings.allowed_kl if self.settings.max_order > 1 else None
        single = mixture.n_components == 1 and not ledger.budget.has_cut
        parts = target, mixture, allowed
        if single and allowed is not None and self.proposer.leaves_little(*parts):
            return self._surely(target, mixture, modes, began)
        return self.begin(target, mixture, modes, began)

    def _surely(self, target, mixture, modes, began):
        """The first iteration where it leaves little; what is drawn can wait."""
        drawn = Awaited(lambda: self._first_state(target, mixture))
        # By one value it is known later whether the rows are those of now.
        theta = mixture.mean()[None]
        probe = theta, target.log_density(theta, strict=True)
        fresh = Awaited(lambda: drawn.fresh, mixture=mixture, probe=probe)
        known = {"mixture": mixture, "components": mixture}
        state = State(
            iteration=1,
            iterate=Awaited(lambda: drawn.iterate, **known),
            fresh=fresh,
            step_memory=None,
            best=fresh,
            best_iteration=1,
            remaining=Awaited(lambda: drawn.remaining),
            modes=modes,
        )
        info = Info.of(state, mixture, FIRST, self.settings.tol, began)
        return state, replace(info, little_remains=_SURELY, known_left=0.0)

    def begin(self, target, mixture, modes, began):
        """The first iteration, since `began`, with a given mixture and known modes."""
        settings, proposer = self.settings, self.proposer
        state = self._first_state(target, mixture)
        with suppress(BudgetSpent):
            modes = proposer.find_modes(target, state.fresh, modes, settings, 0)
            state = self._with_missed(target, replace(state, modes=modes))
        state = replace(state, modes=modes)
        state, info = self._with_info(target, state, FIRST, began)
        return state, replace(info, cut_short=target.ledger.budget.has_cut)

    def _first_state(self, target, mixture):
        """The state of a first mixture, from as many draws as the limits leave."""
        settings, budget = self.settings, target.ledger.budget

        def affordable(n, share):
            return max(budget.affords(n, share), _LEAST_DRAWS)

        few = replace(
            settings,
            n_draws=affordable(settings.n_draws, _POOL_SHARE / mixture.n_components),
            n_fresh=affordable(settings.n_fresh, _POOL_SHARE),
        )
        # These few draws are made in any case.
        with target.ledger.within(budget.share(_POOL_SHARE), raises=False):
            iterate = self.combination.begin(target, mixture, few)
        with target.ledger.within(budget, raises=False):
            n_fresh = affordable(settings.n_fresh, _FRESH_SHARE)
            few = replace(settings, n_fresh=n_fresh)
            fresh = self._fresh(target, iterate.mixture, few, 0)
            self.proposer.check_reached(target, fresh)
            remaining = self._remaining(target, fresh, 0)
        return State(
            iteration=1,
            iterate=iterate,
            fresh=fresh,
            step_memory=None,
            best=fresh,
            best_iteration=1,
            remaining=remaining,
        )

    def _with_missed(self, target, state):
        """The state with a component at every mode that the mixture lacks.

        One for each iteration would be too few where there are many modes, and the
        others would be refined in vain until the heaviest is there.
        """
        components, modes = state.iterate.components, state.modes
        known = state.log_evidence, modes, self.settings
        if not self.proposer.missed_modes(state.mixture, modes, known[0], known[2]):
            return state
        grown = self.proposer.with_missed(components, *known)
        if grown is components:
            return state
        t, settings = state.iteration, self.settings
        iterate = self.combination.begin(target, grown, settings)
        fresh = self._fresh(target, iterate.mixture, settings, t, 3)
        return replace(
            state,
            iterate=iterate,
            fresh=fresh,
            step_memory=None,
            best=fresh,
            best_iteration=state.n_before + t,
            remaining=self._remaining(target, fresh, t),
        )

    def reweighted(self, target, state, told, weights, began):
        """The first iteration with other weights; `told` is that with the first."""
        settings = self.settings
        iterate = self.combination.with_weights(state.iterate, weights, settings)
        fresh = self._fresh(target, iterate.mixture, settings, 0, 4)
        remaining = self._remaining(target, fresh, 0)
        parts = {"fresh": fresh, "best": fresh, "remaining": remaining}
        state = replace(state, iterate=iterate, orbits=None, **parts)
        return self._with_info(target, state, FIRST, began)

    # --- one iteration

    def step(self, target, state):
        """One iteration of Algorithm 1; `BudgetSpent` where a limit ends within it."""
        began, n_before = perf_counter(), target.n_evaluations
        state = self._with_new_modes(target, state)
        trial = try_moves(self, target, state, self.settings)
        after, move = self._after(target, state, trial)
        price = self._price(target.n_evaluations - n_before, state, trial.gain)
        told = {"gain": trial.gain, "gap": trial.gap, "component": trial.component}
        return self._with_info(target, after, move, began, price, **told)

    def _with_new_modes(self, target, state):
        """The state with modes that are found around the mixture, ever more seldom."""
        t = state.iteration
        if t not in _LOOKS:
            return state
        known = state.fresh, state.modes, self.settings
        modes = self.proposer.find_modes(target, *known, t)
        return self._with_missed(target, replace(state, modes=modes))

    def judge(self, target, state, component, gap, move, iterate, settings):
        """A `Trial`: what an iterate gains by draws that nothing was fitted to."""
        fresh, gain = state.fresh, Estimate(0.0, 0.0)
        if not state.mixture.equals(iterate.mixture):
            fresh = self._fresh(target, iterate.mixture, settings, state.iteration)
            gain = self.combination.gain(state.fresh, fresh)
        return Trial(component, gap, move, iterate, fresh, gain)

    # --- the next state

    def _after(self, target, state, trial):
        """The state after a trial, which is refused where it gains nothing."""
        t, move = state.iteration, trial.move
        gains = trial.gain.value > self.combination.least_gain(self.settings)
        if self.combination.monotone and not gains:
            move = replace(move, kind="rejected")
            after = replace(state, iteration=t + 1, step_memory=move.step_memory)
        else:
            after = self._advanced(target, state, trial)
        # Where a split gained little, a search that reaches farther has to show more.
        next_gain_matters = GAIN_DECAY * trial.gain.value > self.settings.tol
        split_first = move.kind == "split" and next_gain_matters
        return replace(after, split_first=split_first), move

    def _advanced(self, target, state, trial):
        t, fresh = state.iteration, trial.fresh
        best, best_iteration = state.best, state.best_iteration
        keeps_last = self.combination.monotone or not self.settings.keep_best
        if keeps_last or elbo_gain(best, fresh).value > 0:
            best, best_iteration = fresh, state.n_before + t + 1
        return replace(
            state,
            iteration=t + 1,
            iterate=trial.iterate,
            fresh=fresh,
            step_memory=trial.move.step_memory,
            best=best,
            best_iteration=best_iteration,
            remaining=self._remaining(target, fresh, t),
        )

    def _is_inconclusive(self, remaining):
        """Whether a small gain proves little: draws see that more remains."""
        enough = _NATS_PER_HELLINGER * self.settings.tol
        return self.combination.noisy and not remaining.least <= enough

    # --- what draws say that nothing was fitted to

    def _fresh(self, target, mixture, settings, *key):
        rng = generator(settings.seed, FRESH, *key)
        return FreshDraws.of(
            target, mixture, settings.n_fresh, rng, settings.exact, strict=True
        )

    def _remaining(self, target, fresh, t):
        settings, rng = self.settings, generator(self.settings.seed, PROBE, t)
        n = settings.n_probe_remaining
        return fresh.remaining_kl(target, n, rng, settings.probe_precision)

    def _price(self, n_evaluations, state, gain):
        """The `Price` of a component; None where nothing says it."""
        remaining = state.remaining.value
        if not (self.judges_gains and n_evaluations and remaining > 0.0):
            return None
        return Price(max(gain.value, 0.0) / remaining, n_evaluations)

    def _with_info(self, target, state, move, began, price=None, gain=UNKNOWN, **told):
        """What the iteration leaves: the state, and an `Info` with what is `told`."""
        settings, improper, verdict = self.settings, "", Verdict()
        # Nothing is said where limits leave no room to look.
        with suppress(BudgetSpent):
            key = settings, state.iteration - 1
            improper = self.proposer.improper(target, state, *key)
            judges = self.judges_gains and move.says_next
            known = gain if judges else UNKNOWN
            parts = target, self.proposer, settings, state, known, price
            verdict = judge_remaining(*parts)
        parts = state.iterate.components, move, settings.tol, began, gain
        info = Info.of(state, *parts, **told)
        return replace(state, orbits=verdict.orbits), replace(
            info,
            improper=improper,
            little_remains=verdict.enough,
            dear=verdict.images_are_cheaper,
            inconclusive=self._is_inconclusive(state.remaining),
        )

    # --- what a run asks beside its iterations

    def last_look(self, target, state):
        """Modes known after one more search around a mixture, and what it lacks.

        They are None where the budget ends within the search; the second is the state
        with these modes where the mixture lacks a new one, else None.
        """
        if isinstance(state.fresh, Awaited):
            return state.modes, None
        mixture, key = state.mixture, (self.settings, REPORT, state.iteration)
        proposer = self.proposer
        try:
            modes = proposer.find_modes(target, state.fresh, state.modes, *key)
            known = modes, state.log_evidence, self.settings
            if not proposer.missed_modes(mixture, *known):
                return modes, None
            grown = self._with_missed(target, replace(state, modes=modes))
            # A mode may be known, and weighed as it should be only now.
            new = len(modes.components) > len(state.modes.components)
            return modes, None if grown.mixture.equals(mixture) and not new else grown
        except BudgetSpent:
            return None, None
