"""The mixture that a run begins with where a scale is learned: one component for each.

Given the factor that `CommonScale` averages over, a regression is an ordinary one. Its
best component is found at nodes of the logarithm of the factor, each from its
neighbour's, and has the node's posterior probability as its weight: the ELBO takes the
place of the log evidence. Where the noise is to be learned, too, and
columns are many, there may be two components for one factor: coefficients explain the
rows, or noise does.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from skboost._math import log_sum_exp
from skboost._random import BASE, generator
from skboost.approximation import Mixture
from skboost.families import Component
from skboost.modes import Modes, climb_all
from skboost.objectives import SingleELBO
from skboost.proposals._density import FamilyProposer
from skboost.proposals._first import enough_draws, first_component
from skboost.proposals._gaussian import natural_gaussian

# Nodes are looked for until their density has fallen by so many nats, and those of less
# mass than this are dropped.
_DROP, _LIGHTEST = 7.0, 1e-4
# Nodes are added where less overlap of neighbours, times their mass, is lost than that.
_GAP, _MOST = 0.1, 40
# Two components nearer than this are the same, in nats.
_SAME = 0.5
# Of ln s, with further ones where that is not all; at the lowest noise explains rows.
LOWEST_NODE, _HIGHEST_NODE = -4, 2

# Relative change of the ELBO at which a node is good enough.
_TOL = 1e-4


class Node(NamedTuple):
    """The best component for one value of the factor.

    Its height is the log density of ln s there given the data, up to a constant, nats.
    """

    log_s: float
    height: float
    component: Component


@dataclass(frozen=True)
class CommonScaleProposer(FamilyProposer):
    """Begins with a component for every scale of coefficients with a `CommonScale`.

    Given the factor the posterior has the modes of an ordinary regression; the pole of
    the averaged prior at zero has hardly any mass. So no other modes are looked for.
    """

    # What is left are the bends of single components. On 60 rows of a classification
    # nine iterations gained .09 nats of .9 in 68 seconds, and skewing .34 in a fifth.
    complete = (
        "Converged: there is a component for every scale that has mass. What their "
        'shape misses, boosting gains slowly; a number for tol in place of "auto" asks '
        "for it."
    )

    def initial(self, target, settings):
        """A component at every node, weighted by the node's posterior probability."""
        chains = _Nodes(self, target, settings).found()
        nodes = [node for chain in chains for node in chain]
        widths = [_widths(chain) for chain in chains]
        log_mass = np.log(np.concatenate(widths)) + [node.height for node in nodes]
        weights = np.exp(log_mass - log_sum_exp(log_mass[None])[0])
        most = min(settings.max_components or len(nodes), len(nodes))
        least = max(_LIGHTEST, np.sort(weights)[-most])
        components = tuple(node.component for node in nodes)
        return Mixture(components, weights).keep(weights >= least), Modes()


class _Nodes:
    """Nodes that are placed where the posterior of the factor is."""

    def __init__(self, proposer, target, settings):
        self.target, self.family = target, proposer.family
        self.starts, self.settings = proposer.starts, settings
        self.prior = target.scale_prior
        self.highest = -np.inf

    def found(self):
        """Chains of nodes in the order of their factors, one or two.

        The first is followed from small factors to large ones, and begins where noise
        explains the rows; the second from a mode, where coefficients may explain them.
        """
        nodes, last = [], None
        for step in range(LOWEST_NODE, _HIGHEST_NODE + 1):
            last = self._node(np.log(self.prior.factor.scale) + step, last)
            nodes.append(last)
        for end, step in ((-1, 1.0), (0, -1.0)):
            while self._goes_on(nodes[end], step):
                node = self._node(nodes[end].log_s + step, nodes[end])
                nodes.insert(len(nodes) if end else 0, node)
        nodes = self._filled(nodes)
        if self.target.at_common_scale(1.0).log_concave:
            return [nodes]
        return [nodes, *self._second(nodes)]

    def _second(self, nodes):
        """The chain that a climb leads to, if it is another one."""
        k = max(k for k, node in enumerate(nodes) if self._matters(node))
        last = nodes[k]
        mean, width = last.component.location(), last.component.scale()
        target = self.target.at_common_scale(np.exp(last.log_s))
        mode = climb_all(target, mean[None], width).points[0]
        first = self._node(last.log_s, None, (mode, 0.1 * width))
        if self._distance(first, last) < _SAME:
            return []
        below = self._beside(nodes[:k][::-1], first)[::-1]
        chain = [*below, first, *self._beside(nodes[k + 1 :], first)]
        if len(chain) == 1 or not any(map(self._matters, chain)):
            return []
        return [self._filled(chain)]

    def _beside(self, nodes, near):
        """Nodes for the factors of others, until these are met or little is left."""
        chain = [near]
        for node in nodes:
            near = self._node(node.log_s, near)
            highest = max(one.height for one in chain)
            if near.height < highest - _DROP or self._distance(near, node) < _SAME:
                break
            chain.append(near)
        return chain[1:]

    def _matters(self, node):
        return node.height > self.highest - _DROP

    def _goes_on(self, node, step):
        """Whether the posterior may go on beyond the last node."""
        low, high = self.prior.log_s[[0, -1]]
        inside = low < node.log_s + step < high
        return inside and self._matters(node)

    def _filled(self, nodes):
        """A chain with further nodes where too much is lost between two."""
        while len(nodes) < _MOST:
            pairs = list(zip(nodes[:-1], nodes[1:], strict=True))
            gaps = np.flatnonzero(self._lost(nodes) > _GAP)
            if not gaps.size:
                break
            for k in gaps[: _MOST - len(nodes)]:
                a, b = pairs[k]
                nodes.append(self._node(0.5 * (a.log_s + b.log_s), a))
            nodes.sort(key=lambda node: node.log_s)
        return nodes

    def _lost(self, nodes):
        """About how many nats the gap between every two neighbours costs."""
        log_s = np.array([node.log_s for node in nodes])
        mass = np.exp(np.array([node.height for node in nodes]) - self.highest)
        between = 0.5 * np.diff(log_s) * (mass[1:] + mass[:-1])
        pairs = zip(nodes[:-1], nodes[1:], strict=True)
        return between / between.sum() * [self._distance(*pair) for pair in pairs]

    @staticmethod
    def _distance(a, b):
        """Minus the log affinity of two components, where that is cheap to know."""
        family = a.component.family
        if not (family.root_products and family.full_covariance):
            return b.log_s - a.log_s
        rows = (node.component.params[None] for node in (a, b))
        return -family.log_affinity(*rows)[0][0]

    def _node(self, log_s, near, guess=None):
        """The node to which a neighbour, a guess or the start leads."""
        target = self.target.at_common_scale(np.exp(log_s))
        exact = target.exact_gaussian and self.family.exact_expectations
        settings = replace(self.settings, exact=exact)
        component = self._component(target, near, guess, settings)
        base = None
        if not exact:
            n = enough_draws(component.family, target.dim, settings)
            base = component.matched_draws(n, generator(settings.seed, 0, BASE))
        elbo = SingleELBO(target, component, base, exact).elbo(component)
        log_prior, _ = self.prior.factor.value_and_score(log_s)
        self.highest = max(self.highest, elbo + log_prior)
        return Node(log_s, elbo + log_prior, component)

    def _component(self, target, near, guess, settings):
        """The best component of a target, from a neighbour's or a guess."""
        family, starts = self.family, self.starts
        if guess is not None:
            starts, target.first_guess = guess[0][None], guess
        if near is not None:
            mean = near.component.location()
            starts = mean[None]
            target.first_guess = mean, 0.1 * near.component.scale()
        natural = family.exact_expectations and family.full_covariance
        if not (natural and target.knows_curvature):
            return first_component(target, family, starts, settings)
        start = target.first_guess
        if near is not None:
            start = mean, near.component.structure()[2]
        curvature, budget = target.expected_curvature, target.ledger.budget
        found = natural_gaussian(curvature, target.dim, budget, _TOL, start)
        return Component(family, family.from_moments(*found))


def _widths(nodes):
    """Of the intervals of ln s that nodes stand for."""
    log_s = np.array([node.log_s for node in nodes])
    edges = np.concatenate([log_s[:1], 0.5 * (log_s[1:] + log_s[:-1]), log_s[-1:]])
    return np.diff(edges)
