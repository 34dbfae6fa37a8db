"""First mixtures over the scales of a prior where Gaussians have to be searched.

Given the scale a regression is an ordinary one. Its best component is searched at nodes
of ln s, each from its neighbour's, and the ELBO takes the place of the log evidence.
Each kind of prior has nodes of its own, which begin with those of the kind before.
Where the log joint is not concave there may be two components for one scale: where
columns are many, coefficients explain the rows, or noise does.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from skboost._math import log_sum_exp
from skboost._random import BASE, generator
from skboost.approximation import Mixture
from skboost.families import Component, FullGaussian
from skboost.modes import climb_all
from skboost.objectives import SingleELBO
from skboost.proposals._first import enough_draws, first_component
from skboost.proposals._scale_nodes import scale_nodes
from skboost.targets import ScaleNode, updated_target

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
