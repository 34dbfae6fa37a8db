"""Boosting variational inference: ``init`` and ``step``, and nothing else.

The loop of Locatello et al. 2018 and Dresdner et al. 2021 (Algorithm 1 in both): a
proposer finds a component for what the mixture lacks, and a combination appends it
and moves the weights. Pure: a state goes in, a state and a report come out.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import NamedTuple

from skboost._budget import Budget, BudgetSpent
from skboost._math import N_ERRORS
from skboost._random import FRESH, PROBE, REPORT, generator
from skboost._settings import GAIN_DECAY, MAX_CANDIDATES, Settings
from skboost.approximation import Estimate, FreshDraws, elbo_gain
from skboost.approximation._pooled_draws import expectations
from skboost.boosting._simplex import Combination
from skboost.boosting._state import Info, Move, State, enough
from skboost.objectives import SearchContext
from skboost.proposals import Proposer

# Nats of KL for one of squared Hellinger distance, close to the posterior; and times
# `tol` that draws may see left where a search finds less than that.
_NATS = 4.0

# Shares of what limits leave: of all for the search of the first components, then for
# the draws of each that are kept, then for those by which the mixture is judged. The
# least that a first mixture is known by, whatever the limits are.
_SEARCH_SHARE, _POOL_SHARE, _FRESH_SHARE, _LEAST_DRAWS = 0.6, 0.1, 0.8, 16

# Share of what is left that uncorrelated components gain where more draws pay: Laplace
# ones on a logistic posterior took 2.7 times the seconds for the same ELBO.
_REACH = 0.1
_NONE = Estimate(float("nan"), float("nan"))


class Trial(NamedTuple):
    """What a step would lead to, and what fresh draws say of it."""

    iterate: object
    fresh: FreshDraws
    gain: Estimate
    move: Move
    component: tuple
    gap: Estimate


@dataclass(frozen=True)
class Boosting:
    """Boosting variational inference.

    The proposer finds the first components, and one more for what a mixture lacks; the
    combination makes one density of them.
    """

    proposer: Proposer
    combination: Combination
    settings: Settings

    # Whether the report may draw and evaluate anew.
    draws_anew = True

    @property
    def kind(self):
        """What is combined, and components of which family: two names."""
        return self.combination.kind, self.proposer.kind

    def init(self, target):
        """Ordinary variational inference, at every mode that the starts lead to."""
        began, ledger = perf_counter(), target.ledger
        # What is left is for the draws by which the mixture is judged.
        share = ledger.budget.share(_SEARCH_SHARE)
        # Ascent on all rows looks at its limits after each round, the first included.
        with ledger.within(share, raises=ledger.counts):
            mixture, modes = self.proposer.initial(target, self.settings)
        return self.begin(target, mixture, modes, began)

    def begin(self, target, mixture, modes, began):
        """The first iteration with a given mixture and the modes that are known.

        `began` is when the iteration did, by ``time.perf_counter``.
        """
        settings, proposer = self.settings, self.proposer
        state = self._first_state(target, mixture)
        with suppress(BudgetSpent):
            modes = proposer.find_modes(target, state.fresh, modes, settings, 0)
            if self._elsewhere(target, state, modes):
                mixture = proposer.at_modes(target, modes, settings)
                state = self._first_state(target, mixture)
        state = replace(state, modes=modes)
        components = state.iterate.components
        heaviest = components.components[int(components.weights.argmax())]
        info = self._info(target, state, Move("first", "first", 1.0), heaviest, began)
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
            memory=None,
            best=fresh,
            best_iteration=1,
            remaining=remaining,
        )

    def _elsewhere(self, target, state, modes):
        """Whether most of the mass is at modes that the first mixture does not reach.

        Components beside it would be found there one by one, and it would be refined in
        vain until they are.
        """
        missed = self.proposer.missed_modes(
            target, state.mixture, modes, state.log_evidence, self.settings, 0
        )
        # hmm_drive_0 spent five iterations at a mode with e^-60 of the mass.
        return sum(mode.mass for mode in missed) > 0.99

    def step(self, target, state):
        """One boosting iteration; `BudgetSpent` where a limit ends within it."""
        began, t, combination = perf_counter(), state.iteration, self.combination
        settings = self.settings.with_more_draws(state.draw_multiplier)
        # Ever more seldom, as fewer modes are left; `begin` has looked once.
        if t in (4, 16, 64, 256, 1024):
            modes = self.proposer.find_modes(
                target, state.fresh, state.modes, self.settings, t
            )
            state = replace(state, modes=modes)
        best = self._best_trial(target, state, settings)
        iterate, fresh, gain, move, component, gap = best
        kept = gain.value > combination.least_gain(settings)
        if combination.monotone and not kept:
            move = replace(move, kind="rejected")
            after = replace(state, iteration=t + 1, memory=move.memory)
        else:
            after = self._advanced(target, state, iterate, fresh, move.memory)
        # Where a split gained little, a search that reaches farther has to show more.
        enough = GAIN_DECAY * gain.value > settings.tol
        after = replace(after, split_first=move.kind == "split" and enough)
        after = self._with_more_draws(target, after, gain)
        info = self._info(target, after, move, component, began, gain, gap)
        grown = after.draw_multiplier > state.draw_multiplier
        return after, replace(info, grown=grown)

    def recomputed(self, target, state):
        """Values that a state holds, and what the target gives for them now."""
        fresh = state.fresh
        # No limit stops so few evaluations.
        with target.ledger.within(Budget()):
            if fresh.log_joint is None:
                now = expectations(target, fresh.mixture.components)
                return fresh.expected, now
            # A few draws tell one target from another.
            now = target.log_density(fresh.theta[:3], strict=True)
            return fresh.log_joint[:3], now

    def last_look(self, target, state):
        """Modes known after one more search around a mixture, and what it lacks.

        A run looks once more before it says that it has converged: a mode that its
        searches have missed is a candidate of the next one. The modes are None where
        the budget ends within the search; the second is the state with these modes
        where the mixture lacks one that is new, and None elsewhere.
        """
        mixture, key = state.mixture, (self.settings, REPORT, state.iteration)
        look = self.proposer
        try:
            modes = look.find_modes(target, state.fresh, state.modes, *key)
            if len(modes.params) == len(state.modes.params):
                return modes, None
            missed = look.missed_modes(target, mixture, modes, state.log_evidence, *key)
        except BudgetSpent:
            return None, None
        return modes, replace(state, modes=modes) if missed else None

    def _best_trial(self, target, state, settings):
        """The better of a component that was split and of one that was found.

        What brought the last component comes first, and where it gains more than
        `tol` the other is not tried: a split and its refinement cost less than a
        search, and reach what is near; a search reaches what is far.
        """
        trials = [self._found]
        left = state.remaining.value - state.remaining.se
        # Components are split where more than `tol` is left.
        if settings.split and settings.refine and left > settings.tol:
            trials.append(self._split)
        may_split_first = self.combination.splits_first and self.judges_gains
        if state.split_first and may_split_first and not state.modes.several:
            trials = trials[::-1]
        best = None
        for trial in trials:
            tried = trial(target, state, settings)
            if best is None or (tried and tried.gain.value > best.gain.value):
                best = tried
            if best and best.gain.value > settings.tol:
                break
        return best

    def _found(self, target, state, settings):
        """A component that a search finds, appended, and all refined."""
        component = self.proposer.propose(
            target, self._context(target, state, settings), settings
        )
        gap = self.combination.gap(target, state, component, settings)
        appended, move = self.combination.append(target, state, component, settings)
        judged = self._judged(target, state, appended, move.gamma, settings)
        return Trial(*judged, move, component, gap)

    def _split(self, target, state, settings):
        """The heaviest component in two halves, and all refined; None without."""
        halves = self.combination.split(target, state, settings)
        if halves is None:
            return None
        component = halves.mixture.components[-1]
        gap = self.combination.gap(target, state, component, settings)
        move = Move("split", "split", float(halves.mixture.weights[-1]))
        judged = self._gain(target, state, halves, settings)
        return Trial(halves, *judged, move, component, gap)

    @property
    def judges_gains(self):
        """Whether a gain says how good a search was, and what is left for the next."""
        return self.combination.monotone and self.proposer.seeks_gain

    def doubts(self, info):
        """Whether a small gain proves little: draws see that more is left."""
        left = _NATS * self.settings.tol
        return self.combination.noisy and not info.remaining.least <= left

    def _context(self, target, state, settings):
        """What a search for a component knows."""
        found = state.modes.heaviest(MAX_CANDIDATES)
        return SearchContext(
            target=target,
            mixture=state.mixture,
            fixed=state.iterate.fixed,
            pool=state.iterate.pool,
            iteration=state.iteration,
            exact=settings.exact,
            mode_candidates=self.combination.candidates(state, found),
        )

    # --- judging what was proposed, on draws that nothing was fitted to

    def _judged(self, target, state, appended, gamma, settings):
        """The refined iterate if it is worth having, else the one as appended.

        Refinement can fit its draws so well that the plain step is the better one.
        """
        proposals = [appended]
        if settings.refine and gamma > 0:
            refined = self.combination.refine(target, appended, state, settings)
            proposals.insert(0, refined)
        for iterate in proposals:
            fresh, gain = self._gain(target, state, iterate, settings)
            if gain.value > self.combination.least_gain(settings):
                break
        return iterate, fresh, gain

    def _gain(self, target, state, iterate, settings):
        if state.mixture.equals(iterate.mixture):
            return state.fresh, Estimate(0.0, 0.0)
        fresh = self._fresh(target, iterate.mixture, settings, state.iteration)
        return fresh, self.combination.gain(state.fresh, fresh)

    # --- the next state

    def _advanced(self, target, state, iterate, fresh, memory):
        t = state.iteration
        best, best_iteration = state.best, state.best_iteration
        last = self.combination.monotone or not self.settings.keep_best
        if last or elbo_gain(best, fresh).value > 0:
            best, best_iteration = fresh, t + 1
        return replace(
            state,
            iteration=t + 1,
            iterate=iterate,
            fresh=fresh,
            memory=memory,
            best=best,
            best_iteration=best_iteration,
            remaining=self._remaining(target, fresh, t),
        )

    def _with_more_draws(self, target, state, gain):
        """The state on twice the draws, where noise hides a gain or much is left.

        Searches then fit the noise, and an iterate is kept or refused by chance. Exact
        expectations leave little noise, and where an objective does not seek what is
        gained, no number of draws helps.
        """
        tol, factor = self.settings.tol, 2 * state.draw_multiplier
        noise = N_ERRORS * gain.se
        least = -1e300 if self.proposer.correlated else _REACH * state.remaining.value
        reach = gain.value + noise >= least
        hidden = reach and noise > max(tol, gain.value)
        # Little is found although much is left: more draws may show more.
        much = state.remaining.least > tol < state.remaining.value / _NATS
        hidden = hidden or (gain.value <= tol and (much or self.doubts(state)))
        # Components have few draws for all that moves in them: what they gain beside
        # each other is less than what each fits of the noise. Ten dimensions had eight
        # for each: with 1,024 draws the non-centred eight schools needed fewer
        # iterations, and two thirds of the gradients.
        few = state.draw_multiplier * self.settings.n_draws < (
            10 * self.proposer.n_moving(state.mixture)
        )
        overfits = reach and few and not self.combination.noisy
        hidden = hidden or (gain.value > tol and overfits)
        helps = self.judges_gains and not self.settings.exact
        if factor > self.settings.draw_growth or not (helps and hidden):
            return state
        settings, t = self.settings.with_more_draws(factor), state.iteration
        fresh = self._fresh(target, state.mixture, settings, t, 2)
        return replace(
            state,
            iterate=self.combination.redrawn(target, state.iterate, t, settings),
            fresh=fresh,
            best=fresh,
            remaining=self._remaining(target, fresh, t),
            draw_multiplier=factor,
        )

    def _fresh(self, target, mixture, settings, *key):
        rng = generator(settings.seed, FRESH, *key)
        return FreshDraws.of(
            target, mixture, settings.n_fresh, rng, settings.exact, strict=True
        )

    def _remaining(self, target, fresh, t):
        settings, rng = self.settings, generator(self.settings.seed, PROBE, t)
        n = settings.n_probe_remaining
        return fresh.remaining_kl(target, n, rng, settings.probe_precision)

    def _info(self, target, state, move, component, began, gain=_NONE, gap=_NONE):
        family, params = component
        improper = little = ""
        # Nothing is said where limits leave no room to look.
        with suppress(BudgetSpent):
            improper = self._improper(target, state)
            little = self._enough(target, state, gain)
        return Info(
            iteration=state.iteration,
            move=move,
            n_components=state.iterate.components.n_components,
            elbo=state.fresh.elbo(),
            gain=gain,
            gap=gap,
            entropy=family.entropy(params),
            remaining=state.remaining,
            exhausted=state.remaining.spread < self.settings.tol,
            enough=little,
            seconds=perf_counter() - began,
            improper=improper,
        )

    def _enough(self, target, state, gain):
        """That little enough remains, or is to be gained, to end; empty without."""
        return enough(self, target, state, gain if self.judges_gains else _NONE)

    def _improper(self, target, state):
        """Signs that the density can not be normalised; empty without any."""
        key = self.settings, state.iteration - 1
        return self.proposer.improper(target, state.mixture, *key)
