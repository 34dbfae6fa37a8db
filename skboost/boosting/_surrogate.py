"""Boosting with few evaluations: on a surrogate that is refined where it is wrong.

An iteration of this engine is a round: a surrogate is fitted to all that is known of
the target, ordinary boosting runs on it, and what it finds is judged by fresh draws at
which the *target* is evaluated. These are known in the next round. Nothing that is
reported depends on how good a surrogate is.
"""

from dataclasses import dataclass, replace
from operator import attrgetter
from time import perf_counter

import numpy as np

from skboost._budget import BudgetSpent, End
from skboost._math import N_ERRORS
from skboost._random import ORBIT, SEARCH, generator
from skboost._settings import Settings
from skboost.approximation import Estimate, FreshDraws, RemainingKL
from skboost.boosting._engine import Boosting
from skboost.boosting._rounds import (
    FEWEST,
    Round,
    first_round,
    judge_round,
    n_to_spare,
    remaining_of,
    with_other_modes,
    with_wide_draws,
)
from skboost.boosting._stand_in import fit_surrogate, least_known
from skboost.boosting._state import FIRST, Combination, Info, Move
from skboost.modes import Evaluations, laplace
from skboost.orbits import DEAR_ORDER, most_images, reweighted
from skboost.proposals import Proposer

# Rounds in a row that may gain nothing where draws see that much is left, and what that
# is, in units of `tol`.
_PATIENCE, _MUCH = 3, 4.0


@dataclass(frozen=True)
class KeptState:
    """A state that holds the best mixture alone, judged by draws of it."""

    # Rounds or iterations done, the first Gaussian included.
    iteration: int
    # Draws of the mixture that is kept, at which the target was evaluated.
    fresh: FreshDraws
    # The round or iteration that it comes from.
    best_iteration: int

    # Nothing is found before it.
    n_before = 0

    best = property(attrgetter("fresh"), doc="What is reported.")

    mixture = property(attrgetter("fresh.mixture"), doc="The current approximation.")

    stage = mixture


@dataclass(frozen=True)
class SurrogateState(KeptState):
    """Everything that the next round needs."""

    round: Round
    remaining: RemainingKL
    # Rounds in a row whose mixture was dropped.
    n_dropped: int = 0


@dataclass(frozen=True)
class SurrogateBoosting:
    """Boosting on surrogates of a target that is dear; see the module.

    It has the methods of `Boosting` that a run calls; the proposer's starts are where
    the mode is looked for. With an `orbit` the surrogate reweights components over few
    images.
    """

    proposer: Proposer
    combination: Combination
    settings: Settings
    orbit: object = None

    # What is reported is what the draws say by which the best round was judged.
    draws_anew = held_draws_are_new = False
    # Its first mixture is one of Gaussians that overlap.
    by_nodes = False
    begins_with = "a surrogate of the density"

    @classmethod
    def of(cls, engine, orbit=None):
        """The engine that does with few evaluations what another does with many."""
        # What remains is judged by the draws that there are.
        settings = replace(engine.settings, allowed_kl=None, max_order=1, exact=False)
        return cls(engine.proposer, engine.combination, settings, orbit)

    # What is combined, and components of which family: two names.
    kind = property(attrgetter("_plain.kind"))

    def facts(self):
        """What stopping has to know; `spent` is the `End` of limits that were met."""
        return self._plain.facts()

    @property
    def _plain(self):
        """Boosting without a surrogate."""
        return Boosting(self.proposer, self.combination, self.settings)

    # --- rounds

    def _near_mode(self, target):
        """The Gaussian near the mode that the best start leads to."""
        starts = self.proposer.starts
        start = starts[int(target.log_density(starts).argmax())]
        return laplace(target, start, True, target.unit)

    def init(self, target):
        """A Gaussian near every mode that is known, judged."""
        began, ledger = perf_counter(), target.ledger
        with ledger.within(ledger.budget, raises=False):
            known = first_round(target, self.proposer.starts)
            known = with_wide_draws(target, known, self.settings.seed)
            known = with_other_modes(target, known, self.settings.seed)
            fresh, known = judge_round(
                target, known.modes, known, 0, self.settings.seed
            )
            self.proposer.check_reached(target, fresh)
        known = known._replace(components=known.modes)
        remaining = remaining_of(fresh, known.drawn, known.pairs)
        state = SurrogateState(1, fresh, 1, known, remaining)
        info = self._info(state, FIRST, known.modes, began)
        return state, replace(info, cut_short=ledger.budget.has_cut)

    def step(self, target, state):
        """One round; `BudgetSpent` where what is left does not pay for a judgement."""
        began, t, budget = perf_counter(), state.iteration, target.ledger.budget
        if budget.n_left < FEWEST:
            most = budget.whole.max_evaluations
            message = (
                f"Stopped at max_evaluations={most:g}: what was left does not pay for "
                "another round."
            )
            raise BudgetSpent(End("max_evaluations", message))
        mixture, known = self._boosted(target, state.round, t)
        fresh, known = judge_round(target, mixture, known, t, self.settings.seed)
        gain = self.combination.gain(state.fresh, fresh)
        # What gains no more than its noise is dropped, and so gains nothing.
        if gain.value > max(self.combination.least_gain(self.settings), gain.se):
            kind, n_dropped = "surrogate", 0
            known = known._replace(components=mixture)
            state = replace(state, fresh=fresh, best_iteration=t + 1)
        else:
            kind, n_dropped, gain = "rejected", state.n_dropped + 1, Estimate(0.0, 0.0)
        after = replace(
            state,
            iteration=t + 1,
            round=known,
            remaining=remaining_of(state.fresh, known.drawn, known.pairs),
            n_dropped=n_dropped,
        )
        move = Move(kind, "surrogate", 1.0)
        return after, self._info(after, move, mixture, began, gain)

    def last_look(self, target, state):
        """Nothing more: see `Boosting.last_look`."""
        return None, None

    def _info(self, state, move, proposed, *began_and_gain):
        tol, remaining = self.settings.tol, state.remaining
        parts = state.round.components, move, tol, *began_and_gain
        info = Info.of(state, *parts, component=proposed.heaviest)
        much_remains = not remaining.value <= _MUCH * tol
        return replace(
            info,
            little_remains=_little_remains(remaining, tol),
            inconclusive=much_remains,
            # A surrogate that was wrong is better once it knows where.
            tries_again=much_remains and 0 < state.n_dropped < _PATIENCE,
        )

    def _boosted(self, target, known, t):
        """What ordinary boosting makes of surrogates, and what was learned on the way.

        Where it has gone to where its surrogate knows little, the density is asked at a
        few such points, and boosting begins anew.
        """
        rng = generator(self.settings.seed, SEARCH, t, 2)
        # Surrogates of a round at most; where one knows a value no better than `doubt`
        # nats, so many points, and for every coordinate, are asked for, among so many
        # draws.
        max_fits, doubt, n_candidates = 3, 1.5, 512
        n_asked = 8 + 4 * target.dim
        for fits in range(max_fits):
            plain = known.components.base
            if plain.n_components < known.modes.n_components:
                plain = known.modes
            moments = plain.mean(), plain.covariance()
            surrogate = fit_surrogate(known.evaluations, *moments)
            with surrogate.ledger.within(target.ledger.budget.uncounted()):
                mixture = self._boosted_on(surrogate, known, t)
            n = int(np.clip(n_to_spare(target), 0, n_asked))
            if fits + 1 == max_fits or not n:
                break
            draws = mixture.sample(n_candidates, rng)
            asked = draws[least_known(surrogate, draws, n, doubt)]
            if not len(asked):
                break
            known = known.with_search(Evaluations.at(target, asked, known.scored))
        return mixture, known

    def _boosted_on(self, surrogate, known, t):
        """The mixture that boosting ends with, with orbits if these are asked for."""
        starts = known.modes.component_means()
        if len(starts) == 1:
            evaluations = known.evaluations
            starts = evaluations.points[evaluations.values.argmax()][None]
        settings = replace(
            self.settings,
            tol=0.5 * self.settings.tol,
            n_draws=256,
            n_fresh=512,
            search_modes=False,
            exact=False,
            allowed_kl=None,
        )
        engine = Boosting(
            replace(self.proposer, begin=starts, box=None), self.combination, settings
        )
        inner, info = engine.init(surrogate)
        # Six iterations on a surrogate at most.
        for _ in range(5):
            gain = info.gain.value + N_ERRORS * info.gain.se
            if info.within_tol or info.improper or gain <= settings.tol:
                break
            inner, info = engine.step(surrogate, inner)
        mixture = inner.best.mixture
        if self.orbit is not None:
            rng, least = generator(settings.seed, ORBIT, t), 0.1 * settings.tol
            order = min(most_images(self.orbit), DEAR_ORDER)
            mixture, *_ = reweighted(surrogate, mixture, order, 0.0, least, rng)
        return mixture


def _little_remains(remaining, tol):
    """That draws see little more than `tol` left, as a sentence; empty otherwise.

    Half the variance of ``ln p - ln q`` knows a small divergence from fewer draws than
    the difference of evidence and ELBO does. With two of its standard errors it is
    compared with twice `tol`: less would ask for more draws than a round has.
    """
    at_most = max(remaining.spread, remaining.value + remaining.se)
    if not at_most < 2.0 * tol:
        return ""
    return (
        f"Converged: less than about {at_most:.2g} nats are left, within twice tol, as "
        "far as draws of the posterior can see."
    )
