"""Boosting with few evaluations: on a surrogate that is refined where it is wrong.

An iteration of this engine is a round: a surrogate is fitted to all that is known of
the target, ordinary boosting runs on it, and what it finds is judged by fresh draws at
which the *target* is evaluated. These are known in the next round. Nothing that is
reported depends on how good a surrogate is.
"""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import NamedTuple

import numpy as np

from skboost._budget import BudgetSpent, End
from skboost._math import N_ERRORS
from skboost._random import FRESH, SEARCH, SKEW, generator
from skboost._settings import Settings
from skboost.approximation import Estimate, FreshDraws, Mixture, RemainingKL
from skboost.boosting._combination import Combination
from skboost.boosting._engine import Boosting, recomputed
from skboost.boosting._state import UNKNOWN, Info, Move
from skboost.calibration import skew
from skboost.modes import Modes
from skboost.proposals import Proposer, usable_starts
from skboost.surrogates import (
    Evaluations,
    fit_surrogate,
    judged_draws,
    laplace,
    least_known,
    remaining_of,
    widened,
)
from skboost.targets import LogDensityError

# Widths of wider draws that the first surrogate also knows, in units of the first
# Gaussian.
_WIDTHS = 1.5, 2.5
# Coordinates beyond which there are no more draws, of those that judge or wider ones.
_COUNTED = 6
# The smallest number of draws that are worth a judgement.
_FEWEST = 32
# Rounds in a row that may gain nothing where draws see that much is left, and what that
# is, in units of `tol`.
_PATIENCE, _MUCH = 3, 4.0


class Round(NamedTuple):
    """What a round leaves: a mixture, and all that is known of the target.

    Evaluations were made on the way to the mode, and at draws, of `pairs` of a mixture
    and how often it was drawn from. `modes` are Gaussians near the modes that are
    known.
    """

    components: Mixture
    searched: Evaluations
    drawn: Evaluations
    pairs: tuple
    modes: Mixture

    @property
    def scored(self):
        """Whether the target gives gradients."""
        return bool(np.isfinite(self.searched.scores).any())

    @property
    def known(self):
        """All evaluations."""
        return self.searched.and_more(self.drawn)

    def and_more(self, evaluations, pairs):
        """The same with further draws."""
        return self._replace(
            drawn=self.drawn.and_more(evaluations), pairs=(*self.pairs, *pairs)
        )


@dataclass(frozen=True)
class SurrogateState:
    """Everything that the next round needs."""

    # Rounds done, the first Gaussian included.
    iteration: int
    round: Round
    # Draws of the mixture that is kept, at which the target was evaluated.
    fresh: FreshDraws
    # The round that it comes from.
    best_iteration: int
    remaining: RemainingKL
    # Rounds in a row whose mixture was dropped.
    n_dropped: int = 0
    modes: Modes = Modes()

    @property
    def best(self):
        """What is reported."""
        return self.fresh

    @property
    def mixture(self):
        """The current approximation."""
        return self.fresh.mixture

    stage = mixture


@dataclass(frozen=True)
class SurrogateBoosting:
    """Boosting on surrogates of a target that is dear; see the module.

    It has the methods of `Boosting` that a run calls. The starts of the proposer are
    where the mode is looked for. Where it `skews`, components get skewing weights by
    the surrogate: they make a density whatever they are made of.
    """

    proposer: Proposer
    combination: Combination
    settings: Settings
    skews: bool = False

    # What is reported is what the draws say by which the best round was judged.
    draws_anew = False

    @classmethod
    def of(cls, engine, skews=False):
        """The engine that does with few evaluations what another does with many."""
        # What remains is judged by the draws that there are.
        settings = replace(engine.settings, allowed_kl=None, skews=False, exact=False)
        return cls(engine.proposer, engine.combination, settings, skews)

    @property
    def kind(self):
        """What is combined, and components of which family: two names."""
        return self._plain.kind

    def facts(self, spent=None):
        """What stopping has to know; `spent` is the `End` of limits that were met."""
        return self._plain.facts(spent)

    @property
    def _plain(self):
        """Boosting without a surrogate."""
        return Boosting(self.proposer, self.combination, self.settings)

    # --- rounds

    def init(self, target):
        """A Gaussian near every mode that is known, judged."""
        began, ledger = perf_counter(), target.ledger
        with ledger.within(ledger.budget, raises=False):
            known = self._with_wide_draws(target, self._first_round(target))
            known = self._with_other_modes(target, known)
            fresh, known = self._judged(target, known.modes, known, 0)
            self.proposer.check_reached(target, fresh)
        known = known._replace(components=known.modes)
        remaining = remaining_of(fresh, known.drawn, known.pairs)
        state = SurrogateState(1, known, fresh, 1, remaining)
        move = Move("first", "first", 1.0)
        return state, self._info(state, move, known.modes, began, UNKNOWN)

    def step(self, target, state):
        """One round; `BudgetSpent` where what is left does not pay for a judgement."""
        began, t, budget = perf_counter(), state.iteration, target.ledger.budget
        if budget.n_left < _FEWEST:
            most = budget.whole.max_evaluations
            message = (
                f"Stopped at max_evaluations={most:g}: what was left does not pay for "
                "another round."
            )
            raise BudgetSpent(End("max_evaluations", message))
        mixture, known = self._boosted(target, state.round, t)
        fresh, known = self._judged(target, mixture, known, t)
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

    def recomputed(self, target, state):
        """Values that a state holds, and what the target gives for them now."""
        return recomputed(target, state.fresh)

    def _info(self, state, move, mixture, began, gain):
        tol, remaining = self.settings.tol, state.remaining
        component = mixture.components[int(mixture.weights.argmax())]
        n_components = state.round.components.n_components
        seconds = perf_counter() - began
        info = Info.of(
            state, n_components, move, component, tol, seconds, gain, UNKNOWN
        )
        much_remains = not remaining.value <= _MUCH * tol
        return replace(
            info,
            little_remains=_little_remains(remaining, tol),
            inconclusive=much_remains,
            # A surrogate that was wrong is better once it knows where.
            tries_again=much_remains and 0 < state.n_dropped < _PATIENCE,
        )

    def _first_round(self, target):
        """A Gaussian near the mode that the best start leads to, and no draws yet."""
        starts = self.proposer.starts
        values = target.log_density(starts)
        if not np.isfinite(values).any():
            # Says why.
            usable_starts(target, starts)
        start = starts[int(values.argmax())]
        found = laplace(target, start, has_gradient(target, start))
        mixture, none = Mixture.single(found.component), np.empty((0, target.dim))
        drawn = Evaluations(none, np.empty(0), none)
        return Round(mixture, found.evaluations, drawn, (), mixture)

    def _with_wide_draws(self, target, known):
        """With draws of wider copies, where a judgement can be paid for after them."""
        # So many, and for every coordinate.
        wanted = 32 + 16 * min(target.dim, _COUNTED)
        left = target.ledger.budget.n_left - _n_judge(target)
        each = int(np.clip(left, 0, wanted)) // len(_WIDTHS)
        if not each:
            return known
        rng = generator(self.settings.seed, SEARCH, 0)
        pairs = [(widened(known.modes, width), each) for width in _WIDTHS]
        points = np.concatenate([wide.sample(n, rng) for wide, n in pairs])
        found = Evaluations.at(target, points, known.scored)
        return known.and_more(found, pairs)

    def _with_other_modes(self, target, known):
        """With Gaussians at modes that draws hint at, and draws of these.

        Where the density is far above what is explained, the highest point is climbed
        from.
        """
        # How many modes are looked for, and nats by which a density is above what a
        # mixture explains where a climb looks for one more.
        max_modes, least_surprise = 4, 3.0
        n_judge, budget = _n_judge(target), target.ledger.budget
        rng = generator(self.settings.seed, SEARCH, 1)
        while known.modes.n_components < max_modes and budget.n_left > n_judge:
            # At the highest point by definition, as by Laplace's method.
            excess = known.known.values - known.modes.log_density(known.known.points)
            log_evidence = excess[known.known.values.argmax()]
            excess = excess[len(known.searched.values) :]
            surprise = excess - log_evidence > least_surprise
            if not surprise.any():
                break
            values = np.where(surprise, known.drawn.values, -np.inf)
            start = known.drawn.points[values.argmax()]
            found = laplace(target, start, known.scored)
            known = known._replace(searched=known.searched.and_more(found.evaluations))
            if not _is_new(found, known.modes):
                break
            modes = _with_mode(known.modes, found, log_evidence)
            wide = widened(Mixture(modes.components[-1:], np.ones(1)), _WIDTHS[0])
            n = n_judge // 2
            drawn = Evaluations.at(target, wide.sample(n, rng), known.scored)
            known = known._replace(modes=modes).and_more(drawn, [(wide, n)])
        return known

    def _judged(self, target, mixture, known, t):
        """Draws that nothing was fitted to, and what is known with them."""
        rng = generator(self.settings.seed, FRESH, t)
        n = int(np.clip(target.ledger.budget.n_left, _FEWEST, _n_judge(target)))
        fresh, *more = judged_draws(target, mixture, n, known.scored, rng)
        return fresh, known.and_more(*more)

    def doubts(self, info):
        """Whether a small gain proves little: more seems to be left."""
        return not info.remaining.value <= 4.0 * self.settings.tol

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
            surrogate = fit_surrogate(known.known, *moments)
            with surrogate.ledger.within(target.ledger.budget.uncounted()):
                mixture = self._boosted_on(surrogate, known, t)
            left = target.ledger.budget.n_left - _n_judge(target)
            n = int(np.clip(left, 0, n_asked))
            if fits + 1 == max_fits or not n:
                break
            draws = mixture.sample(n_candidates, rng)
            asked = draws[least_known(surrogate, draws, n, doubt)]
            if not len(asked):
                break
            found = Evaluations.at(target, asked, known.scored)
            known = known._replace(searched=known.searched.and_more(found))
        return mixture, known

    def _boosted_on(self, surrogate, known, t):
        """The mixture, skewed where that is asked for, that boosting ends with."""
        starts = known.modes.component_means()
        if len(starts) == 1:
            starts = known.known.points[known.known.values.argmax()][None]
        settings = replace(
            self.settings,
            tol=0.5 * self.settings.tol,
            n_draws=256,
            n_fresh=512,
            draw_growth=1,
            search_modes=False,
            exact=False,
            allowed_kl=None,
        )
        engine = Boosting(
            replace(self.proposer, starts=starts, box=None), self.combination, settings
        )
        inner, info = engine.init(surrogate)
        # Six iterations on a surrogate at most.
        for _ in range(5):
            gain = info.gain.value + N_ERRORS * info.gain.se
            if info.within_tol or info.improper or gain <= settings.tol:
                break
            inner, info = engine.step(surrogate, inner)
        mixture = inner.best.mixture
        if self.skews:
            rng = generator(settings.seed, SKEW, t)
            mixture, *_ = skew(surrogate, mixture, 0.1 * settings.tol, rng)
        return mixture


def _n_judge(target):
    """Fresh draws that judge a round: so many, and for every coordinate."""
    return 60 + 25 * min(target.dim, _COUNTED)


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
        f"Converged: at most {at_most:.2g} nats are left, within twice tol, as far as "
        "draws of the posterior can see."
    )


def _is_new(found, modes):
    """Whether a Gaussian is far from all others, in units of either."""
    apart = 3.0  # standard deviations
    factors = [np.linalg.cholesky(each.moments()[1]) for each in modes.components]
    away = found.mean - modes.component_means()
    own = np.linalg.cholesky(found.covariance)
    return all(
        np.linalg.norm(np.linalg.solve(factor, step)) > apart
        for step, other in zip(away, factors, strict=True)
        for factor in (own, other)
    )


def _with_mode(modes, found, log_evidence):
    """One more Gaussian, weighted by its mass beside that of the others."""
    component = found.component
    height = found.evaluations.values.max() - component.log_peak()
    mass = np.exp(min(height - log_evidence, 300.0))
    weights = np.append(modes.weights, mass) / (1.0 + mass)
    return Mixture((*modes.components, component), weights)


def has_gradient(target, point):
    """Whether a target that is positive at a point gives its gradient there."""
    try:
        value, score = target.value_and_score(point[None], strict=True)
    except LogDensityError:
        return False
    return bool(np.isfinite(value).all() and np.isfinite(score).all())
