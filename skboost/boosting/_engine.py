"""Boosting variational inference: ``init`` and ``step``, and nothing else.

The loop of Locatello et al. 2018 and Dresdner et al. 2021 (Algorithm 1 in both): a
proposer finds a component for what the mixture lacks, and a combination appends it
and moves the weights. Pure: a state goes in, a state and a report come out.
"""

from dataclasses import dataclass, replace
from time import perf_counter

from skboost._budget import BudgetSpent, WatchedTarget
from skboost._math import N_ERRORS
from skboost._random import FRESH, PROBE, REPORT, generator
from skboost._settings import Settings
from skboost.boosting._combination import Combination
from skboost.boosting._state import Info, Move, State
from skboost.mixtures import Estimate, FreshDraws, elbo_gain
from skboost.mixtures._pooled_draws import expectations
from skboost.objectives import SearchContext
from skboost.proposals import Proposer
from skboost.targets import failure_tolerant

# Draws whose log joint tells one target from another.
_N_COMPARED = 3
_NONE = Estimate(float("nan"), float("nan"))


@dataclass(frozen=True)
class Boosting:
    """Boosting variational inference on one target.

    Parameters
    ----------
    target : Target
        Unnormalised log posterior.
    proposer : Proposer
        Finds the first components, and one more for what a mixture lacks.
    combination : Combination
        Makes one density of them.
    settings : Settings
    """

    target: object
    proposer: Proposer
    combination: Combination
    settings: Settings

    @property
    def kind(self):
        """What is combined, and components of which family: two names."""
        return self.combination.kind, self.proposer.kind

    @property
    def monotone(self):
        """Whether every step minimises, so that a worse iterate can be refused."""
        return self.combination.monotone

    def init(self):
        """Ordinary variational inference, at every mode that the starts lead to.

        Returns
        -------
        State, Info
        """
        began, settings = perf_counter(), self.settings
        mixture, modes = self.proposer.initial(settings)
        iterate = self.combination.begin(mixture, settings)
        fresh = self._fresh(iterate.mixture, settings, 0)
        self.proposer.check_reached(fresh)
        state = State(
            iteration=1,
            iterate=iterate,
            fresh=fresh,
            memory=None,
            best=fresh,
            best_iteration=1,
            remaining=self._remaining(fresh, 0),
            modes=self.proposer.find_modes(fresh.mixture, modes, settings, 0),
        )
        components = iterate.components
        heaviest = components.components[int(components.weights.argmax())]
        return state, self._info(state, Move("first", "first", 1.0), heaviest, began)

    def step(self, state):
        """One boosting iteration.

        Parameters
        ----------
        state : State

        Returns
        -------
        State, Info

        Raises
        ------
        BudgetSpent
            Where the budget of the settings ends within the iteration.
        """
        return self.watched()._stepped(state)

    def watched(self):
        """This engine on a target that can be evaluated only while the budget lasts."""
        budget = self.settings.budget
        if not budget.limited:
            return self
        target = WatchedTarget(self.target, budget)
        return replace(
            self,
            target=target,
            proposer=replace(self.proposer, target=target),
            combination=replace(self.combination, target=target),
        )

    def recomputed(self, state):
        """Values that a state holds, and what the target gives for them now."""
        fresh = state.fresh
        if fresh.log_joint is None:
            return fresh.expected, expectations(self.target, fresh.mixture.components)
        theta = fresh.theta[:_N_COMPARED]
        return fresh.log_joint[:_N_COMPARED], self.target.log_density(theta)

    def last_look(self, state):
        """Modes known after one more search around a mixture, and what it lacks.

        A run looks once more before it says that it has converged: a mode that its
        searches have missed is a candidate of the next one.

        Parameters
        ----------
        state : State

        Returns
        -------
        modes : Modes or None
            None where the budget ends within the search.
        reopened : State or None
            The state with these modes, where the mixture lacks one that is new.
        """
        mixture, key = state.mixture, (self.settings, REPORT, state.iteration)
        proposer = self.watched().proposer
        try:
            modes = proposer.find_modes(mixture, state.modes, *key)
            if len(modes.params) == len(state.modes.params):
                return modes, None
            missed = proposer.missed_modes(mixture, modes, state.log_evidence, *key)
        except BudgetSpent:
            return None, None
        return modes, replace(state, modes=modes) if missed else None

    def within(self, budget):
        """This engine with a budget: the first mixture is as good as it allows."""
        return replace(self, settings=replace(self.settings, budget=budget))

    def _stepped(self, state):
        began, t = perf_counter(), state.iteration
        settings = self.settings.with_more_draws(state.draw_multiplier)
        modes = self.proposer.find_modes(state.mixture, state.modes, self.settings, t)
        state = replace(state, modes=modes)
        component = self.proposer.propose(self._context(state, settings), settings)
        gap = self.combination.gap(state, component, settings)
        appended, move = self.combination.append(state, component, settings)
        iterate, fresh, gain = self._judged(state, appended, move.gamma, settings)
        if self._stuck(state, gain, settings):
            halves = self.combination.split(state, settings)
            if halves is not None:
                found = self._gain(state, halves, settings)
                if found[1].value > gain.value:
                    iterate, (fresh, gain) = halves, found
                    move = replace(move, kind="split")
        if self.monotone and not self._worth(gain, settings):
            move = replace(move, kind="rejected")
            after = replace(state, iteration=t + 1, memory=move.memory)
        else:
            after = self._advanced(state, iterate, fresh, move.memory)
        after = self._with_more_draws(after, gain)
        return after, self._info(after, move, component, began, gain, gap)

    def _context(self, state, settings):
        """What a search for a component knows."""
        found = state.modes.heaviest(settings.max_candidates)
        return SearchContext(
            target=failure_tolerant(self.target),
            mixture=state.mixture,
            fixed=state.iterate.fixed,
            pool=state.pool,
            iteration=state.iteration,
            exact=settings.exact,
            mode_candidates=self.combination.candidates(state, found),
        )

    # --- judging what was proposed, on draws that nothing was fitted to

    def _judged(self, state, appended, gamma, settings):
        """The refined iterate if it is worth having, else the one as appended.

        Refinement can fit its draws so well that the plain step is the better one.
        """
        proposals = [appended]
        if settings.refine and gamma > 0:
            refined = self.combination.refine(appended, state, settings)
            proposals.insert(0, refined)
        for iterate in proposals:
            fresh, gain = self._gain(state, iterate, settings)
            if self._worth(gain, settings):
                break
        return iterate, fresh, gain

    def _gain(self, state, iterate, settings):
        fresh = self._fresh(iterate.mixture, settings, state.iteration)
        return fresh, self.combination.gain(state.fresh, fresh)

    def _worth(self, gain, settings):
        return gain.value > self.combination.least_gain(settings)

    def _stuck(self, state, gain, settings):
        """Whether a search found little although draws see that more is left.

        Exact expectations leave few searches stuck.
        """
        if settings.exact or not (settings.split and settings.refine):
            return False
        left = state.remaining.value - state.remaining.se
        return left > settings.tol >= gain.value

    # --- the next state

    def _advanced(self, state, iterate, fresh, memory):
        t = state.iteration
        best, best_iteration = state.best, state.best_iteration
        last = self.monotone or not self.settings.keep_best
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
            remaining=self._remaining(fresh, t),
        )

    def _with_more_draws(self, state, gain):
        """The state on more draws, where their noise hides a gain that matters.

        Searches then fit the noise, and an iterate is kept or refused by chance. Exact
        expectations leave little noise, and where an objective does not seek what is
        gained, no number of draws helps.
        """
        growth, tol = self.settings.draw_growth, self.settings.tol
        hidden = N_ERRORS * gain.se > max(tol, gain.value)
        helps = self.monotone and self.proposer.seeks_gain and not self.settings.exact
        if growth == 1 or state.draw_multiplier > 1 or not (helps and hidden):
            return state
        settings, t = self.settings.with_more_draws(growth), state.iteration
        fresh = self._fresh(state.mixture, settings, t, 2)
        return replace(
            state,
            iterate=self.combination.redrawn(state.iterate, t, settings),
            fresh=fresh,
            best=fresh,
            remaining=self._remaining(fresh, t),
            draw_multiplier=growth,
        )

    def _fresh(self, mixture, settings, *key):
        rng = generator(settings.seed, FRESH, *key)
        return FreshDraws.of(
            self.target, mixture, settings.n_fresh, rng, settings.exact
        )

    def _remaining(self, fresh, t):
        rng = generator(self.settings.seed, PROBE, t)
        return fresh.remaining_kl(self.target, self.settings.n_probe_remaining, rng)

    def _info(self, state, move, component, began, gain=_NONE, gap=_NONE):
        family, params = component
        improper = self.proposer.improper(
            state.mixture, self.settings, state.iteration - 1
        )
        return Info(
            iteration=state.iteration,
            move=move,
            n_components=state.iterate.n_components,
            elbo=state.fresh.elbo(),
            gain=gain,
            gap=gap,
            entropy=family.entropy(params),
            remaining=state.remaining,
            exhausted=state.remaining.spread < self.settings.tol,
            seconds=perf_counter() - began,
            improper=improper,
        )
