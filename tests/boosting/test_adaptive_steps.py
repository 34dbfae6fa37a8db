"""Adaptive steps where a component matters: the run does not end at the first one."""

import autograd.numpy as anp
import numpy as np
import pytest
from scipy.special import erf

from skboost import boost_posterior
from skboost.strategies import AdaptiveBacktracking

SAFEGUARDED = {
    "curvature": AdaptiveBacktracking(),
    "lipschitz": AdaptiveBacktracking(form="lipschitz"),
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


# Normalised log density, start, and the divergence that is asked of the fit, in nats.
TARGETS = {
    "two bumps": (two_bumps, [-4.0], 0.05),
    "ring": (ring, [3.0, 0.0], 0.1),
}


def divergence(name, rule, corrective):
    log_density, start, _ = TARGETS[name]
    result = boost_posterior(
        log_density,
        len(start),
        x0=start,
        step_size=rule,
        corrective=corrective,
        refine=False,
        max_iter=15,
        random_state=0,
    )
    theta = result.posterior.sample(20_000, random_state=1)
    return np.mean(result.posterior.log_density(theta) - log_density(theta))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("corrective", ["none", "away", "pairwise", "fully-corrective"])
@pytest.mark.parametrize("form", SAFEGUARDED)
@pytest.mark.parametrize("target", TARGETS)
def test_the_mass_that_the_first_component_misses_is_found(target, form, corrective):
    assert divergence(target, SAFEGUARDED[form], corrective) < TARGETS[target][2]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("corrective", ["none", "away", "pairwise"])
def test_without_the_safeguard_enough_increases_freeze_the_run(corrective):
    rule = AdaptiveBacktracking(safeguard=False)
    assert divergence("two bumps", rule, corrective) == pytest.approx(
        np.log(2), abs=0.01
    )
