"""Targets whose answers are known, and engines on them."""

from typing import NamedTuple

import numpy as np
import pytest

from skboost import boost_posterior
from skboost.boosting import COMBINATIONS, Boosting, Settings
from skboost.families import as_family
from skboost.fitting import Options, boost
from skboost.objectives import as_objective
from skboost.proposals import DensityProposer
from skboost.targets import CallableTarget


def normal_mixture(means, stds, weights):
    """Normalised log density in one dimension, vectorised."""
    means, stds = np.array(means), np.array(stds)
    log_weights = np.log(weights) - np.log(stds) - 0.5 * np.log(2 * np.pi)

    def parts(theta):
        return log_weights - 0.5 * ((theta - means) / stds) ** 2

    def log_density(theta):
        return np.logaddexp.reduce(parts(theta), axis=1)

    def gradient(theta):
        shares = np.exp(parts(theta) - log_density(theta)[:, None])
        return np.sum(shares * (means - theta) / stds**2, axis=1, keepdims=True)

    return log_density, gradient


# Locatello et al. 2018, section 5.1, and Campbell and Li 2019, Figure 1b.
TWO_MODES = normal_mixture([-1.0, 1.0], [0.5, 0.5], [0.4, 0.6])
FIGURE_1B = normal_mixture([0.0, 25.0], [1.0, 5.0**0.5], [0.5, 0.5])
FAR_MODES = normal_mixture([-8.0, 8.0], [1.0, 1.0], [0.3, 0.7])


def cauchy(theta):
    return -np.log1p(theta[:, 0] ** 2) - np.log(np.pi)


# Log densities with their gradients: autograd is tested with the targets.
KNOWN = {
    "two modes": TWO_MODES,
    "figure 1b": FIGURE_1B,
    "far modes": FAR_MODES,
    "cauchy": (cauchy, lambda theta: -2.0 * theta / (1.0 + theta**2)),
    "normal": (lambda theta: -0.5 * np.sum(theta**2, axis=1), np.negative),
}
DENSITIES = {name: log_density for name, (log_density, _) in KNOWN.items()}


@pytest.fixture
def densities():
    return DENSITIES


@pytest.fixture
def boosted():
    """``boosted(name, **settings)``: the result of a run on a known density."""

    def run(name, **settings):
        log_density, gradient = KNOWN[name]
        return boost_posterior(log_density, 1, gradient=gradient, **settings)

    return run


class OnTarget(NamedTuple):
    """An engine and the target that its methods are given."""

    engine: Boosting
    target: CallableTarget

    @property
    def combination(self):
        return self.engine.combination

    @property
    def settings(self):
        return self.engine.settings

    def init(self):
        return self.engine.init(self.target)

    def step(self, state):
        return self.engine.step(self.target, state)

    def last_look(self, state):
        return self.engine.last_look(self.target, state)

    def split(self, state):
        return self.combination.split(self.target, state, self.settings)

    def run(self, limits, previous=None):
        return boost(self.target, Options(self.engine, limits, previous)).run


def make_boosting(density, dim=1, **chosen):
    """An engine with small settings, and its target."""
    values = {
        "family": "gaussian",
        "objective": "kl",
        "step_size": "line-search",
        "corrective": "fully-corrective",
        "starts": np.zeros((1, dim)),
        "n_draws": 128,
        "n_fresh": 512,
        # The search for other modes takes half of the time of a step.
        "search_modes": False,
    } | chosen
    pair = density if isinstance(density, tuple) else (density, None)
    log_density, gradient = KNOWN.get(density, pair)
    target = CallableTarget(log_density, dim, gradient)
    objective = as_objective(values.pop("objective"))
    family = as_family(values.pop("family"), dim)
    starts = values.pop("starts")
    combination = COMBINATIONS[objective.combination].of(
        values.pop("step_size"), values.pop("corrective")
    )
    settings = Settings(**values)
    family = objective.component_family(family)
    proposer = DensityProposer(family, objective, starts)
    return OnTarget(Boosting(proposer, combination, settings), target)


@pytest.fixture
def engine():
    """``engine(name or density, dim=1, **settings)``: an engine with small settings."""
    return make_boosting


@pytest.fixture
def reverse_kl():
    """``reverse_kl(density, posterior)`` in one dimension, by quadrature."""

    def divergence(density, posterior, reach=12.0):
        components = posterior.mixture.components
        ends = [
            (component.mean() + sign * reach * component.std())[0]
            for component in components
            for sign in (-1, 1)
        ]
        # Dense everywhere, and densest where a component is narrow.
        widest = np.linspace(min(ends), max(ends), 20_001)
        near = [c.mean() + c.std() * np.linspace(-9, 9, 1001) for c in components]
        z = np.unique(np.concatenate([widest, *near]))[:, None]
        log_q = posterior.log_density(z)
        return np.trapezoid(np.exp(log_q) * (log_q - DENSITIES[density](z)), z[:, 0])

    return divergence
