"""First mixtures over a scale that is learned: one oracle, and its ways to fit nodes.

A node is a value of the scale, and of what else tells components apart, such as the
kind of prior. Every way fits the components of all nodes, weighted by evidence.

Where Gaussians have to be searched, the best component is searched at nodes of ln s,
each from its neighbour's, and the ELBO takes the place of the log evidence. Each kind
of prior has nodes of its own, which begin with those of the kind before. Where the log
joint is not concave there may be two components for one scale: where columns are many,
coefficients explain the rows, or noise does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from skboost._math import log_sum_exp
from skboost._random import BASE, generator
from skboost.approximation import Mixture
from skboost.families import MAX_FULL_DIM, Component, FullGaussian
from skboost.modes import Modes, climb_all
from skboost.objectives import SingleELBO
from skboost.proposals._density import FamilyProposer
from skboost.proposals._first import enough_draws, first_component
from skboost.proposals._normal_noise import has_normal_noise, normal_noise_nodes
from skboost.proposals._propagated import mixture_of, propagated_nodes, propagates
from skboost.proposals._quadratic import (
    is_plain,
    may_be_quadratic,
    quadratic_nodes,
    shift_at,
)
from skboost.proposals._scale_nodes import scale_nodes
from skboost.targets import OrdinalTarget, Poisson, ScaleNode, updated_target

# Two components that are nearer than this are the same, nats.
_SAME = 0.5
# Nats below the highest down to which a scale matters, and the probability of a
# component below which it is left out.
_DROP, _LIGHTEST = 7.0, 1e-3


def target_given(target, node):
    """The log joint density of a target at a `ScaleNode`."""
    given = target.at_node(node)
    if node.kind == 0:
        return given
    covariance = target.scale_prior.covariance_given(target.scale, node)
    covariance = target.centring.covariances_back(covariance)
    params = FullGaussian().from_moments(np.zeros(target.dim), covariance)
    prior = Mixture.single(Component(FullGaussian(), params))
    given = updated_target(given, prior)
    given.centring = target.centring
    return given


def searched_nodes(proposer, target, settings):
    """The best components at every scale, weighted by their ELBO; see `Way`."""
    # What the target guesses first comes with them.
    proposer.starts  # noqa: B018
    parts = [None]
    for kind in range(len(target.scale_prior.roots)):
        if parts[1:] and target.ledger.budget.cuts():
            break
        searches = _Searches(proposer, target, settings, kind)
        parts.append(searches.over_scales(parts[-1]))
    components, weights, nodes = [], [], []
    shares = softmax([part.log_evidence for part in parts[1:]])
    for kind, found in enumerate(parts[1:]):
        for log_s, weight, part in zip(*found[:2], found.gaussians, strict=True):
            components += part.components
            weights += list(shares[kind] * weight * part.weights)
            node = ScaleNode(float(log_s), kind, bounded=True)
            nodes += [node] * part.n_components
    weights = np.array(weights)
    weights[weights < _LIGHTEST] = 0.0
    return components, weights, nodes


@dataclass(frozen=True)
class _Found:
    """Mixtures at values of ln s, components to start from near them, and evidence."""

    mixtures: np.ndarray
    starts: np.ndarray
    log_evidence: np.ndarray

    # ELBOs are lower bounds.
    bounded = True

    def of(self, which):
        """The same for some of the values."""
        return _Found(*(values[which] for values in vars(self).values()))


@dataclass(frozen=True)
class _Searches:
    """What `scale_nodes` asks of rows, by searches."""

    proposer: object
    target: object
    settings: object
    # Of the prior; see `ScaleNode`.
    kind: int = 0

    def over_scales(self, near):
        """`ScaleNodes` of one kind, from those of another, or None."""
        factor = self.target.scale_prior.factor
        return scale_nodes(
            self,
            lambda log_s: log_s,
            lambda log_s: factor.value_and_score(log_s)[0],
            np.log(factor.scale),
            near,
        )

    def initial(self, n):
        """Where nothing is known."""
        return _Found(*np.full((2, n), None), np.full(n, -np.inf))

    def fitted(self, log_s, near, tol=1e-4):
        """`_Found` at values of ln s; where nothing is near, each from the last."""
        found, height, last = np.full((2, len(log_s)), None), np.empty(len(log_s)), None
        for k, (value, starts) in enumerate(zip(log_s, near.starts, strict=True)):
            if last and self.target.ledger.budget.cuts():
                # Scales that limits leave no time for have no weight.
                evidence = -np.inf
            else:
                parts = value, starts or last or (None,), tol
                mixture, evidence = self._mixture(*parts)
            height[k] = np.nan_to_num(evidence, nan=-1e300, neginf=-1e300)
            found[0, k], found[1, k] = mixture, mixture.components
            last = mixture.components
        if near.starts[0] is None:
            further = self._second(log_s, found[0], height)
            found[1] = [starts + further for starts in found[1]]
        done = _Found(*found, height)
        return done, done

    def given_sites(self, predictors, found):
        """Mixtures at values of ln s."""
        return found.mixtures

    def _second(self, log_s, mixtures, height):
        """What a climb at the largest scale of all that matter leads to, if another."""
        if self.target.at_common_scale(1.0).log_concave:
            return ()
        k = np.flatnonzero(height >= height.max() - _DROP)[-1]
        (first,) = mixtures[k].components
        target, width = self._at(log_s[k]), first.scale()
        mode = climb_all(target, first.location()[None], width).points[0]
        found, _ = self._component(target, (mode, 0.1 * width), 1e-2)
        return () if _distance(first, found) < _SAME else (found,)

    def _at(self, log_s):
        return target_given(self.target, ScaleNode(log_s, self.kind))

    def _mixture(self, log_s, starts, tol):
        """The components that starts lead to, and the logarithm of their evidence."""
        target, components, logs = self._at(log_s), [], []
        for start in starts:
            found, elbo = self._component(target, start and _place(start), tol)
            if all(_distance(one, found) > _SAME for one in components):
                components.append(found)
                logs.append(elbo)
        total = log_sum_exp(np.array([logs]))[0]
        return Mixture(tuple(components), np.exp(np.array(logs) - total)), total

    def _component(self, target, start, tol):
        """The best component of a target from a place, and its ELBO.

        It is good enough where the ELBO changes by `tol` hundredths of its size.
        """
        family, starts = self.proposer.family, self.proposer.starts
        if start is not None:
            starts, target.first_guess = start[0][None], start
        exact = target.exact_gaussian and family.exact_expectations
        settings = replace(self.settings, exact=exact)
        component = first_component(target, family, starts, settings, 1e-2 * tol)
        base = None
        if not exact:
            n = enough_draws(component.family, target.dim, settings)
            base = component.matched_draws(n, generator(settings.seed, 0, BASE))
        return component, SingleELBO(target, component, base, exact).elbo(component)


def _place(component):
    """Mean of a component and a root of its covariance, or something narrow."""
    full = component.family.full_covariance and component.family.exact_expectations
    width = component.structure()[2] if full else 0.1 * component.scale()
    return component.location(), width


def _distance(a, b):
    """Minus the log affinity of two components, where that is cheap to know."""
    if not (a.family.root_products and a.family.full_covariance):
        return 0.0
    return -a.family.log_affinity(a.params[None], b.params[None])[0][0]


# Nats before orbits by a closed form up to which no draws are asked whether much
# remains, and nothing warns: with orbits .4 were left at most.
LITTLE_LEFT = 4.0
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
    Way("a quadratic around the mode", may_be_quadratic, _around_mode, looks=True),
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
        if not is_plain(target, component):
            return None
        nats, told = shift_at(target, component)
        if told:
            return float(nats) if nats <= LITTLE_LEFT else None
        if node.log_evidence is None:
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
