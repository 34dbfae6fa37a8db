"""Algorithm 1 over the components that a first mixture is made of, one by one.

A search may find many components at once: at every value of a scale that is learned,
around every mode, for every explanation of clusters. They do not overlap, and their
weights are the masses that they stand for, so that the divergence is a closed function
of the weights (`NodeObjective`). The linear minimisation oracle is exact there: it
takes the node with the smallest slope, the heaviest of those that have no weight.
Directions, step sizes and corrective weights are those that were chosen, and cost
arithmetic alone.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from time import perf_counter

import numpy as np

from skboost.approximation import Estimate, FreshDraws
from skboost.boosting._state import FIRST, UNKNOWN, Awaited, Info, State
from skboost.frank_wolfe import NodeObjective

# Weights so near to those by the masses are these, up to rounding of line searches.
_SAME = 1e-9


@dataclass(frozen=True)
class NodeState:
    """Everything that the next node needs.

    `whole` and `told` are the state and `Info` of the mixture of all nodes, `weights`
    (n_nodes,) those of now, and `proposed` says which nodes have been.
    """

    # Iterations done, the first component included.
    iteration: int
    whole: State
    told: Info
    # The divergence as a function of the weights.
    objective: NodeObjective
    weights: np.ndarray
    proposed: np.ndarray
    # Nats by which the ELBO is below that of weights by the masses.
    lacking: float
    # Of the best iterate so far by the exact objective.
    best_weights: np.ndarray
    best_lacking: float
    best_iteration: int
    # Whether limits were met when all had been found: they come in, for arithmetic.
    free: bool = False
    # What the step size carries from one iteration to the next.
    step_memory: float | None = None

    # Known of the whole mixture.
    modes = property(attrgetter("whole.modes"))
    iterate = property(attrgetter("whole.iterate"))
    log_evidence = property(attrgetter("whole.log_evidence"))
    orbits = None

    @classmethod
    def of(cls, whole, told, free):
        """With the heaviest node alone."""
        masses = whole.mixture.weights
        first = np.zeros(len(masses))
        first[int(masses.argmax())] = 1.0
        objective = NodeObjective(np.log(masses))
        lacking = objective.value(first)
        now, best = (first, first > 0, lacking), (first, lacking, 1)
        return cls(1, whole, told, objective, *now, *best, free)

    # Masses of the nodes, as shares of their sum.
    masses = property(attrgetter("whole.mixture.weights"))

    @property
    def mixture(self):
        """The current approximation."""
        return _mixture(self.whole, self.weights)

    @property
    def stage(self):
        """What the run keeps of this iteration."""
        return Awaited(lambda: _mixture(self.whole, self.best_weights))

    @property
    def remaining(self):
        """Of the current mixture: what all nodes leave, and what it lacks of them."""
        remaining = self.whole.remaining
        return remaining._replace(value=remaining.value + self.lacking)

    @cached_property
    def fresh(self):
        """Draws of the current mixture, among those of all nodes."""
        whole = self.whole.fresh
        if not isinstance(whole, Awaited):
            return _reweighed(whole, self.weights)
        known = {"mixture": self.mixture, "probe": whole.probe}
        return Awaited(lambda: _reweighed(whole.result, self.weights), **known)

    @cached_property
    def best(self):
        """The same of the best mixture."""
        return _reweighed(self.whole.fresh, self.best_weights)

    def next_node(self, tol):
        """The node that the oracle takes, the heaviest new one where no more than `tol`
        is lacking or promised, and the duality gap toward it."""
        slope = self.objective.slope(self.weights)
        node, level = int(slope.argmin()), float(self.weights @ slope)
        little = min(self.lacking, level - slope[node]) <= tol + _SAME
        if little and not self.proposed.all():
            # Toward it the slope itself is minus infinity.
            node = int(np.where(self.proposed, -1.0, self.masses).argmax())
        return node, level - float(slope[node])


def open_run(engine, found, spent):
    """What a run begins with: the heaviest node of what an engine found, alone.

    One component, or weights that are not those of a mixture, stay as `found`; `spent`
    says whether limits are met.
    """
    whole, told = found
    if not engine.by_nodes or told.improper or whole.mixture.n_components == 1:
        return found
    state = NodeState.of(whole, told, spent)
    info = _make_info(state, FIRST, told.seconds, UNKNOWN, UNKNOWN)
    return state, replace(info, cut_short=told.cut_short)


def advance(engine, target, state):
    """One iteration more: over nodes while there are some, then one of the engine."""
    if not isinstance(state, NodeState):
        return engine.step(target, state)
    began, tol = perf_counter(), engine.settings.tol
    (node, gap), objective = state.next_node(tol), state.objective
    came = np.arange(len(state.weights)) == node
    weights, move = engine.combination.moved(
        objective,
        state.weights,
        node,
        state.step_memory,
        state.iteration,
        lambda moved: objective.best(came | (moved > 0)),
    )
    before, state = state.lacking, _after(state, weights, node, move)
    gap, gain = Estimate(gap, 0.0), Estimate(before - state.lacking, 0.0)
    if state.lacking <= tol + _SAME and state.proposed.all():
        return _whole(engine, target, state, move, began, gain, gap)
    return state, _make_info(state, move, perf_counter() - began, gain, gap)


def _after(state, weights, node, move):
    t, proposed = state.iteration + 1, state.proposed.copy()
    proposed[node] = True
    lacking = state.objective.value(weights)
    best = state.best_weights, state.best_lacking, state.best_iteration
    # What rounding says is level counts as better.
    if lacking <= state.best_lacking + _SAME:
        best = weights, lacking, t
    now, memory = (weights, proposed, lacking), move.step_memory
    known = state.whole, state.told, state.objective
    return NodeState(t, *known, *now, *best, state.free, memory)


def _make_info(state, move, seconds, gain, gap):
    """The `Info` of an iteration over nodes, in closed form."""
    told, lacking = state.told, state.lacking
    components = state.whole.mixture.components
    heaviest, entropy = int(state.weights.argmax()), told.entropy
    if heaviest != state.masses.argmax():
        entropy = components[heaviest].entropy()
    return Info(
        iteration=state.iteration,
        move=move,
        n_components=int(np.count_nonzero(state.weights)),
        elbo=_lower(told.elbo, lacking),
        gain=gain,
        gap=gap,
        entropy=entropy,
        remaining=Awaited(lambda: state.remaining),
        within_tol=False,
        seconds=seconds,
        at_node=True,
        n_nodes=len(components),
        free=state.free,
    )


def _whole(engine, target, state, move, began, gain, gap):
    """The state and the `Info` with which the engine goes on: no node is left."""
    whole, told = state.whole, state.told
    elbo = _lower(told.elbo, state.lacking)
    if np.abs(state.weights - state.masses).max() > _SAME:
        whole, told = engine.reweighted(target, whole, told, state.weights, began)
        lost = f" Weights that are not by evidence lose {state.lacking:.2g} nats."
        little_remains = told.little_remains and told.little_remains + lost
        told = replace(told, little_remains=little_remains)
    n_before, best = state.iteration - whole.iteration, whole.best
    if state.best_iteration < state.iteration:
        best = state.best
    whole = replace(
        whole,
        step_memory=state.step_memory,
        n_before=n_before,
        best=best,
        best_iteration=state.best_iteration,
    )
    return whole, replace(
        told,
        iteration=state.iteration,
        move=move,
        elbo=elbo,
        gain=gain,
        gap=gap,
        seconds=perf_counter() - began,
        cut_short=False,
        at_node=True,
    )


def _lower(estimate, lacking):
    """An estimate that may be awaited, less so many nats."""
    return Awaited(lambda: estimate._replace(value=estimate.value - lacking))


def _mixture(whole, weights):
    mixture = whole.mixture
    return mixture.with_weights(weights).keep(weights > 0)


def _reweighed(fresh, weights):
    """Draws of components that have a weight, which count by it."""
    kept, before = weights > 0, fresh.mixture.weights
    rows, place = kept[fresh.source], np.cumsum(kept) - 1
    source, share = fresh.source[rows], weights / before
    row_weights = fresh.row_weights[rows] * share[source]
    return FreshDraws(
        fresh.mixture.with_weights(weights).keep(kept),
        fresh.theta[rows],
        row_weights / row_weights.sum(),
        place[source],
        None if fresh.log_joint is None else fresh.log_joint[rows],
        None if fresh.expected is None else fresh.expected[kept],
    )
