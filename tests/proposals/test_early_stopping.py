"""The residual ELBO stopped early: paths, and the values of their points."""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import boost_posterior
from skboost.approximation import Mixture, PooledDraws
from skboost.boosting import Settings
from skboost.families import Component, FullGaussian, LowRankGaussian
from skboost.objectives import (
    FixedMixture,
    JointGain,
    ResidualGain,
    SearchContext,
    joint_gains,
)
from skboost.proposals import DensityProposer, best_stop
from skboost.strategies import GreedySearch
from skboost.targets import CallableTarget

from ..boosting.conftest import FAR_MODES

FAMILY = FullGaussian()
BASE = FAMILY.matched_draws(512, 1, np.random.default_rng(5))


def component(mean, std):
    return Component(FAMILY, FAMILY.from_moments([mean], [std**2]))


@pytest.fixture
def context():
    """The mixture has one of two far modes."""
    target = CallableTarget(FAR_MODES[0], 1, FAR_MODES[1])
    mixture = Mixture.single(component(8.0, 1.0))
    base = [FAMILY.base_draws(512, 1, np.random.default_rng(0))]
    pool = PooledDraws.of(target, mixture, base, False)
    fixed = FixedMixture.of(mixture, pool)
    return SearchContext(target, mixture, fixed, pool, 1, False)


@pytest.fixture
def problem(context):
    """``problem(mean, std)``: the search from there."""

    def make(mean, std):
        return ResidualGain().problem(context, component(mean, std), 0.5, BASE)

    return make


@pytest.fixture
def gains(context):
    """``gains(members, weights)``: of the mixture, on the draws of the searches."""

    def values(members, weights):
        return joint_gains(context, members, BASE, weights)

    return values


@pytest.fixture
def stop(context):
    """``stop(problems, n_jobs)``: the best stop on their paths."""

    def best(problems, n_jobs=None):
        settings = Settings(n_jobs=n_jobs)
        return best_stop(context, ResidualGain(), problems, lambda _: BASE, settings)

    return best


@pytest.mark.parametrize("start", [(-6.0, 2.0), (0.0, 1.0), (-7.0, 0.1)])
def test_the_best_stop_is_never_worse_than_its_start(problem, gains, stop, start):
    one = problem(*start)
    shares = np.linspace(0.001, 0.999, 200)
    found = stop([one])
    at_start = gains([component(*start)], shares).max()
    reached = gains([found.component], shares).max()
    # Weights are tried on a grid, so up to its fineness.
    assert reached > at_start - 0.02 * abs(at_start) - 1e-12
    assert gains([found.component], [found.weight]).max() <= reached + 1e-12


def test_the_best_of_all_paths_wins(problem, gains, stop):
    starts = [problem(-20.0, 1.0), problem(-6.0, 2.0), problem(8.0, 1.0)]

    def gain(found):
        return gains([found.component], [found.weight]).item()

    found = stop(starts)
    assert gain(found) == max(gain(stop([one])) for one in starts)
    assert found.component.location()[0] < -5.0


def test_values_are_gains_of_the_mixture(problem, gains, stop):
    found = stop([problem(-7.0, 1.5)])
    value = gains([found.component], [found.weight]).item()
    z = np.linspace(-60, 60, 60_001)[:, None]

    def elbo(mixture):
        log_q = mixture.log_density(z)
        return np.trapezoid(np.exp(log_q) * (FAR_MODES[0](z) - log_q), z[:, 0])

    old = Mixture.single(component(8.0, 1.0))
    weights = [1 - found.weight, found.weight]
    new = old.append(found.component).with_weights(weights)
    assert_allclose(value, elbo(new) - elbo(old), atol=0.02)


def test_components_are_judged_by_what_they_are_chosen_by(context):
    joint = JointGain().judge(context, component(-8.0, 1.0), 0.3, BASE)
    early = ResidualGain().judge(context, component(-8.0, 1.0), 0.3, BASE)
    plain = ResidualGain(early_stopping=False).judge(
        context, component(-8.0, 1.0), 0.3, BASE
    )
    values = [p.value_and_gradient(p.start)[0] for p in (joint, early, plain)]
    assert values[0] == values[1] != values[2]


def test_components_of_open_rank_take_part():
    def two_bumps(theta):
        shift = 3.0 * (anp.arange(4) == 0)
        near, far = (-0.5 * anp.sum((theta - s) ** 2, axis=1) for s in (-shift, shift))
        return anp.logaddexp(near, far) - np.log(2.0) - 2.0 * np.log(2 * np.pi)

    result = boost_posterior(
        two_bumps, 4, x0=[-3.0] + [0.0] * 3, objective="relbo", corrective="none",
        family="gaussian-low-rank", search=GreedySearch(256, refine=False), max_iter=10,
        random_state=0,
    )  # fmt: skip
    theta = result.posterior.sample(20_000, random_state=99)
    kl = np.mean(result.posterior.log_density(theta) - two_bumps(theta))
    assert kl < 0.2


def test_the_start_that_leads_to_the_largest_gain_wins():
    """Modes of mass .6 and .2 are missing, and starts lead to both."""
    centres, masses = np.array([-8.0, 0.0, 8.0]), np.array([0.6, 0.2, 0.2])

    def density(theta):
        parts = anp.log(masses) - 0.5 * (theta - centres) ** 2
        return anp.log(anp.sum(anp.exp(parts), axis=1))

    target, mixture = CallableTarget(density, 1), Mixture.single(component(8.0, 1.0))
    base = [FAMILY.base_draws(512, 1, np.random.default_rng(0))]
    pool = PooledDraws.of(target, mixture, base, False)
    fixed = FixedMixture.of(mixture, pool)
    modes = tuple(component(centre, 1.0) for centre in (0.0, -8.0))
    context = SearchContext(target, mixture, fixed, pool, 1, False, modes)
    proposer = DensityProposer(FAMILY, JointGain(), np.zeros((1, 1)))
    found = proposer.propose(target, context, Settings(seed=0))
    assert_allclose(found.location(), [-8.0], atol=0.5)


def test_beside_full_components_those_of_open_rank_are_full(context):
    starts = np.array([[8.0]])
    proposer = DensityProposer(LowRankGaussian(), JointGain(), starts)
    found = proposer.propose(context.target, context, Settings(n_draws=64))
    assert type(found.family) is FullGaussian
    assert found.location() == pytest.approx([-8.0], abs=0.5)
