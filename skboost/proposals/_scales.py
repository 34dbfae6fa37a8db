"""First mixtures over a scale that is learned: one oracle, and its ways to fit nodes.

A node is a value of the scale, and of what else tells components apart, such as the
kind of prior. Every way fits the components of all nodes, weighted by evidence.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple

import numpy as np

from skboost.approximation import Mixture
from skboost.families import MAX_FULL_DIM, FullGaussian
from skboost.modes import Modes
from skboost.proposals._density import FamilyProposer
from skboost.proposals._normal_noise import has_normal_noise, normal_noise_nodes
from skboost.proposals._propagated import mixture_of, propagated_nodes, propagates
from skboost.proposals._quadratic import quadratic_nodes, shift_at
from skboost.proposals._searched_scales import searched_nodes, target_given
from skboost.targets import ColumnScale, GLMTarget, OrdinalTarget, Poisson

# Half the squared shift of the mean, in standard deviations, up to which no draws are
# asked whether much remains: with orbits, .2 nats were left at most, and warnings are
# about more.
_LITTLE = 5.0
# Nodes where all are moved together from the beginning: square roots have a product for
# every two of them.
_MOST_AT_ONCE = 8
# Of the probability of scales, above which a message says that evidence is a bound.
_MENTIONED = 2e-3


class Way(NamedTuple):
    """How the components of all nodes are fitted.

    ``needs(target, family)`` says where it can be; ``fitted(proposer, target,
    settings)`` gives the components, their weights and the `ScaleNode` of each, or None
    where numbers overflow and the next way has to do.
    """

    name: str
    needs: Callable
    fitted: Callable
    # Whether components have the posterior's moments; and whether only a look at the
    # rows says that it will do.
    exact: bool = False
    looks: bool = False


def _has_quadratic(target, family):
    """Whether the log likelihood of rows is a quadratic where these are many."""
    # Components of other families are made of full ones, as in `propagates`.
    full = type(target) is GLMTarget or (
        family.exact_expectations and family.full_covariance
    )
    small = target.dim <= MAX_FULL_DIM and target.likelihood.n_outputs == 1
    plain = type(target) in (GLMTarget, OrdinalTarget)
    return plain and full and small and not isinstance(target.scale_prior, ColumnScale)


def _around_mode(proposer, target, settings):
    """Components of a quadratic at every scale; None where it is not close."""
    start = None
    if isinstance(target, OrdinalTarget):
        start = target.centring.about(proposer.starts[0])
    parts = quadratic_nodes(target, start)
    return None if parts is None else mixture_of(parts, target, proposer.family)


# The first whose needs are met is taken.
WAYS = (
    Way("sums over rows", has_normal_noise, normal_noise_nodes, exact=True),
    Way("a quadratic around the mode", _has_quadratic, _around_mode, looks=True),
    Way(
        "expectation propagation",
        lambda target, family: propagates(target, family) and not _counts(target),
        propagated_nodes,
    ),
    Way("variational fits in closed form", propagates, propagated_nodes),
    Way("a search", lambda target, family: True, searched_nodes),
)


def _counts(target):
    return isinstance(target.likelihood, Poisson)


@dataclass(frozen=True)
class ScaleProposer(FamilyProposer):
    """Begins with components for every scale, weighted by the evidence of the scale."""

    @staticmethod
    def serves(target, family):
        """See `Proposer`."""
        return target.scale_prior is not None

    @staticmethod
    def ways(target, family):
        """The `Way` that is taken, and those that are where it fails."""
        return [way for way in WAYS if way.needs(target, family)]

    def way(self, target):
        """See `Proposer`."""
        first, *others = self.ways(target, self.family)
        name = f"{first.name} or {others[0].name}" if first.looks else first.name
        return f"components at every scale by {name}"

    def initial(self, target, settings):
        """The mixture over the heaviest scales, each of which has one mode."""
        most = min(settings.max_components or _MOST_AT_ONCE, _MOST_AT_ONCE)
        settings = replace(settings, max_components=most)
        return self.at_scales(target, settings)[0], Modes()

    def at_scales(self, target, settings):
        """The mixture, and the `ScaleNode` of every component."""
        for way in self.ways(target, self.family):
            found = way.fitted(self, target, settings)
            if found is not None:
                break
        components, weights, nodes = found
        most = min(settings.max_components or len(nodes), np.count_nonzero(weights))
        kept = weights >= np.sort(weights)[-most]
        mixture = Mixture(tuple(components), weights / weights.sum()).keep(kept)
        return mixture, list(compress(nodes, kept))

    def known_left(self, target, nodes, mixture):
        """Nats before orbits of the heaviest component by a closed form, or None.

        By `shift_at`; of several classes, and of predictors so wide that it tells
        nothing, by how much its evidence and its ELBO differ.
        """
        if self.ways(target, self.family)[0].exact:
            return 0.0
        heaviest = int(mixture.weights.argmax())
        component, node = mixture.components[heaviest], nodes[heaviest]
        if type(target) is not GLMTarget or target.likelihood.n_outputs == 1:
            nats, told = shift_at(target, component)
            if told or nats == np.inf:
                return float(nats) if nats <= _LITTLE else None
        full = isinstance(component.family, FullGaussian)
        if node.log_evidence is None or not full:
            return None
        given, (mean, _, factor) = target_given(target, node), component.structure()
        elbo = given.expected_log_density(mean, factor=factor)[0]
        return abs(node.log_evidence - elbo - component.entropy())

    def complete_with(self, target, nodes, mixture):
        """That there is a component for every scale, and what is known of it."""
        bounded = np.array([node.bounded for node in nodes]) @ mixture.weights
        family = mixture.components[0].family
        marginal = family.low_rank and propagates(target, family)
        told = [
            "Converged: there is a component for every scale that has mass, weighted "
            "by its evidence.",
            f"For {bounded:.0%} of the probability of scales the component is the "
            "variational one, and its lower bound stands for the evidence."
            if bounded > _MENTIONED
            else "",
            "Of so many parameters components have the variances, and no correlations."
            if marginal and target.dim > MAX_FULL_DIM
            else "",
            'A number for tol in place of "auto" asks for more components where their '
            "shape misses something.",
        ]
        return " ".join(filter(None, told))
