"""What one iteration may do, in the order in which it is tried."""

from typing import NamedTuple

from skboost._math import N_ERRORS
from skboost._settings import GAIN_DECAY, MAX_CANDIDATES
from skboost.approximation import Estimate, FreshDraws
from skboost.boosting._state import UNKNOWN, Move
from skboost.families import Component
from skboost.objectives import SearchContext


class Trial(NamedTuple):
    """What a step would lead to, and what fresh draws say of it."""

    component: Component
    gap: Estimate
    move: Move
    iterate: object
    fresh: FreshDraws
    gain: Estimate


class Widths:
    """All components at several widths, after the first iteration and where that gains
    most of what is left."""

    @staticmethod
    def applies(engine, state):
        return state.iteration == 1 and _much_remains(engine, state)

    @staticmethod
    def trial(engine, target, state, settings):
        iterate = engine.combination.at_widths(target, state, settings)
        if iterate is None:
            return None
        # What widths gain says nothing of bends.
        move = Move("widths", "widths", 1.0, says_next=False)
        parts = iterate.mixture.components[-1], UNKNOWN, move
        trial = engine.judge(target, state, *parts, iterate, settings)
        gain, left = trial.gain, state.remaining.value
        # Whatever follows costs up to six times as much.
        return trial if gain.value - N_ERRORS * gain.se > GAIN_DECAY * left else None


class Split:
    """The worst component in two halves, and all components moved together."""

    @staticmethod
    def applies(engine, state):
        return _much_remains(engine, state)

    @staticmethod
    def trial(engine, target, state, settings):
        halves = engine.combination.split(target, state, settings)
        component = halves.mixture.components[-1]
        gap = engine.combination.gap(target, state, component, settings)
        move = Move("split", "split", float(halves.mixture.weights[-1]))
        return engine.judge(target, state, component, gap, move, halves, settings)


class Search:
    """Lines 3 to 6 of Algorithm 1, and all components moved together."""

    @staticmethod
    def applies(engine, state):
        return True

    @staticmethod
    def trial(engine, target, state, settings):
        combination = engine.combination
        # Line 3: the linear minimisation oracle.
        context = _context(engine, target, state)
        component = engine.proposer.propose(target, context, settings)
        gap = combination.gap(target, state, component, settings)
        # Lines 4 to 6: direction, step size and weights.
        iterate, move = combination.append(target, state, component, settings)
        parts = target, state, component, gap, move
        if settings.refine and move.gamma > 0:
            refined = combination.refine(target, iterate, state, settings)
            trial = engine.judge(*parts, refined, settings)
            # Refinement can fit its draws so well that the plain step is better.
            if trial.gain.value > combination.least_gain(settings):
                return trial
        return engine.judge(*parts, iterate, settings)


def try_moves(engine, target, state, settings):
    """The `Trial` that gains most of those moves that are tried.

    What brought the last component comes first; where a move gains more than `tol` no
    other is tried.
    """
    order = [Widths, Search, Split]
    # A split may take the place of a search, which costs more.
    splits = engine.combination.splits_first and engine.judges_gains
    if splits and state.split_first and not state.modes.several:
        order = [Widths, Split, Search]
    best = None
    for move in order:
        if not move.applies(engine, state):
            continue
        trial = move.trial(engine, target, state, settings)
        if trial is not None and (best is None or trial.gain.value > best.gain.value):
            best = trial
        if best is not None and best.gain.value > settings.tol:
            break
    return best


def _much_remains(engine, state):
    """Whether more than `tol` remains, beyond a standard error."""
    settings, remaining = engine.settings, state.remaining
    allowed = settings.split and settings.refine and engine.combination.splits
    return allowed and remaining.value - remaining.se > settings.tol


def _context(engine, target, state):
    """What a search for a component knows."""
    located = state.modes.heaviest(MAX_CANDIDATES)
    return SearchContext(
        target=target,
        mixture=state.mixture,
        fixed=state.iterate.fixed,
        pool=state.iterate.pool,
        iteration=state.iteration,
        exact=engine.settings.exact,
        mode_candidates=engine.combination.candidates(state, located),
    )
