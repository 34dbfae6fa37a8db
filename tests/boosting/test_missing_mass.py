"""The mass that the first component misses is found; a run does not end there."""

import autograd.numpy as anp
import numpy as np
import pytest
from scipy.special import erf

from skboost import boost_posterior
from skboost.strategies import AdaptiveBacktracking, GreedySearch, ResidualGain

CORRECTIVE = ["none", "away", "pairwise", "fully-corrective"]
# What is asked for, and the divergence in nats that it may leave of each target.
SETTINGS = {
    "curvature": ({"step_size": AdaptiveBacktracking()}, (0.05, 0.1)),
    "lipschitz": ({"step_size": AdaptiveBacktracking(form="lipschitz")}, (0.05, 0.1)),
    "relbo": (
        {"objective": "relbo", "search": GreedySearch(256, refine=False)},
        (0.1, 0.4),
    ),
}


def two_bumps(theta):
    lowest = -2.0 * (theta[:, 0] - np.array([[-4.0], [4.0]])) ** 2
    return anp.logaddexp(*lowest) - np.log(2) - np.log(0.5 * np.sqrt(2 * np.pi))


def ring(theta):
    r = anp.sqrt(anp.sum(theta**2, axis=1) + 1e-300)
    integral = 0.25 * np.exp(-18.0) + 1.5 * np.sqrt(np.pi / 2) * (
        1.0 + erf(6.0 / np.sqrt(2))
    )
    return -2.0 * (r - 3.0) ** 2 - np.log(2 * np.pi * integral)


# Normalised log densities, each with a start.
TARGETS = {"two bumps": (two_bumps, [-4.0]), "ring": (ring, [3.0, 0.0])}


def boost(target, **settings):
    log_density, start = TARGETS[target]
    settings = {"search": GreedySearch(refine=False), "max_iter": 15} | settings
    return boost_posterior(
        log_density, len(start), x0=start, random_state=0, **settings
    )


def kl(log_density, posterior):
    theta = posterior.sample(20_000, random_state=1)
    return np.mean(posterior.log_density(theta) - log_density(theta))


# Every setting with two of the ways, and with either target.
PAIRS = [(n, CORRECTIVE[i + k]) for i, n in enumerate(SETTINGS) for k in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "corrective"), PAIRS)
def test_the_mass_that_the_first_component_misses_is_found(name, corrective, recwarn):
    odd = [*SETTINGS].index(name) + CORRECTIVE.index(corrective)
    target = [*TARGETS][odd % 2]
    settings, most = SETTINGS[name]
    result = boost(target, corrective=corrective, **settings)
    log_density, _ = TARGETS[target]
    assert kl(log_density, result.posterior) < most[list(TARGETS).index(target)]
    assert not [w for w in recwarn if "degenerated" in str(w.message)]


def test_the_unstopped_residual_objective_does_not_find_it():
    objective = ResidualGain(early_stopping=False)
    with pytest.warns(UserWarning, match="degenerated"):
        few = GreedySearch(64, refine=False, max_components=1)
        few = {"search": few, "max_iter": 2, "orbit": None}
        result = boost("ring", corrective="none", objective=objective, **few)
    assert result.posterior.n_components == 1
