"""The residual ELBO stopped early: paths, their values, and what becomes of runs."""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import boost_posterior
from skboost.boosting._early_stopping import STOPS, best_stop, points_at_stops
from skboost.boosting._greedy import start_values
from skboost.families import Gaussian
from skboost.objectives import JointGain, Residual, ResidualGain, Rest
from skboost.posterior import Mixture, PooledDraws
from skboost.strategies import ResidualGain as PublicResidualGain
from skboost.targets import CallableTarget

FAMILY = Gaussian("full")
BASE = FAMILY.matched_draws(512, 1, np.random.default_rng(5))
CORRECTIVE = ["none", "away", "pairwise", "fully-corrective"]


def component(mean, std):
    return FAMILY, FAMILY.from_moments(np.array([mean]), np.array([std**2]))


@pytest.fixture
def residual(densities):
    """The mixture has one of two far modes."""
    target = CallableTarget(densities["far modes"], 1)
    mixture = Mixture.single(*component(8.0, 1.0))
    base = [FAMILY.base_draws(512, 1, np.random.default_rng(0))]
    pool = PooledDraws.of(target, mixture, base, False)
    return Residual(target, Rest.of(mixture, pool), 1, False)


@pytest.fixture
def problem(residual):
    """``problem(mean, std)``: the search from there."""

    def make(mean, std):
        return ResidualGain().problem(residual, component(mean, std), 0.5, BASE)

    return make


@pytest.fixture
def gains(residual):
    def values(family, members, weights):
        return start_values(residual, family, members, BASE, weights)

    return values


def test_the_path_begins_at_the_start_and_climbs(problem):
    one = problem(-6.0, 2.0)
    path = points_at_stops(one)
    assert np.array_equal(path[0], one.start)
    assert 3 <= len(path) <= len(STOPS)
    values = [one.value_and_gradient(x)[0] for x in path]
    assert (np.diff(values) > 0).all()


def test_a_path_stops_where_the_unstopped_solver_would_pass(problem):
    # The same solver: the second stop is one iteration on its way.
    one = problem(-6.0, 2.0)
    path = points_at_stops(one)
    once = problem(-6.0, 2.0)
    moved = np.abs(path[1] - once.start).max()
    assert moved > 0
    assert np.abs(path[-1] - once.start).max() > moved


@pytest.mark.parametrize("start", [(-6.0, 2.0), (-8.0, 1.0), (0.0, 1.0), (-7.0, 0.1)])
def test_the_best_stop_is_never_worse_than_its_start(problem, gains, start):
    one = problem(*start)
    shares = np.linspace(0.001, 0.999, 400)
    found = best_stop(ResidualGain(), [one], gains)
    at_start = gains(FAMILY, [component(*start)[1]], shares).max()
    reached = gains(FAMILY, [found.params], shares).max()
    # Weights are tried on a grid, so up to its fineness.
    assert reached > at_start - 0.02 * abs(at_start) - 1e-12
    assert found.value <= reached + 1e-12


def test_the_best_of_all_paths_wins(problem, gains):
    starts = [problem(-20.0, 1.0), problem(-6.0, 2.0), problem(8.0, 1.0)]
    each = [best_stop(ResidualGain(), [one], gains).value for one in starts]
    found = best_stop(ResidualGain(), starts, gains)
    assert found.value == max(each)
    assert FAMILY.location(found.params)[0] < -5.0


def test_values_are_gains_of_the_mixture(problem, gains, densities):
    found = best_stop(ResidualGain(), [problem(-7.0, 1.5)], gains)
    z = np.linspace(-60, 60, 60_001)[:, None]

    def elbo(mixture):
        log_q = mixture.log_density(z)
        return np.trapezoid(
            np.exp(log_q) * (densities["far modes"](z) - log_q), z[:, 0]
        )

    old = Mixture.single(*component(8.0, 1.0))
    new = old.append(FAMILY, found.params).with_weights([1 - found.share, found.share])
    assert_allclose(found.value, elbo(new) - elbo(old), atol=0.02)


def test_the_search_is_the_same_for_every_number_of_threads(problem, gains):
    starts = [problem(-20.0, 1.0), problem(-6.0, 2.0), problem(8.0, 1.0)]
    one, two = (best_stop(ResidualGain(), starts, gains, n) for n in (None, 2))
    assert np.array_equal(one.params, two.params)


def test_components_are_judged_by_what_they_are_chosen_by(residual):
    joint = JointGain().judge(residual, component(-8.0, 1.0), 0.3, BASE)
    early = ResidualGain().judge(residual, component(-8.0, 1.0), 0.3, BASE)
    plain = ResidualGain(early_stopping=False).judge(
        residual, component(-8.0, 1.0), 0.3, BASE
    )
    values = [p.value_and_gradient(p.start)[0] for p in (joint, early, plain)]
    assert values[0] == values[1] != values[2]


# --- whole runs


def far_bump(theta):
    z = 2.0 * (theta[:, 0, None] - np.array([-4.0, 4.0]))
    return anp.log(anp.sum(anp.exp(-0.5 * z**2), axis=1)) - 0.5 * np.log(2 * np.pi)


def ring(theta):
    radius = anp.sqrt(anp.sum(theta**2, axis=1) + 1e-12)
    return -2.0 * (radius - 3.0) ** 2 - LOG_RING


_RADIUS = np.linspace(0.0, 12.0, 100_001)
LOG_RING = np.log(
    np.trapezoid(2 * np.pi * _RADIUS * np.exp(-2.0 * (_RADIUS - 3) ** 2), _RADIUS)
)


def relbo_run(log_density, start, corrective, seed, **settings):
    return boost_posterior(
        log_density,
        len(start),
        x0=start,
        refine=False,
        corrective=corrective,
        max_iter=15,
        n_draws=256,
        random_state=seed,
        **{"objective": "relbo"} | settings,
    )


def kl(log_density, posterior):
    theta = posterior.sample(20_000, random_state=99)
    return np.mean(posterior.log_density(theta) - log_density(theta))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("corrective", CORRECTIVE)
@pytest.mark.parametrize(
    ("log_density", "start", "most"),
    [(far_bump, [-4.0], 0.1), (ring, [3.0, 0.0], 0.4)],
    ids=["far bump", "ring"],
)
def test_a_missing_part_is_found(log_density, start, most, corrective, seed, recwarn):
    result = relbo_run(log_density, start, corrective, seed)
    assert kl(log_density, result.posterior) < most
    assert kl(log_density, result.stages[0]) > 0.6
    assert not [w for w in recwarn if "degenerated" in str(w.message)]


def test_the_unstopped_solver_finds_neither():
    with pytest.warns(UserWarning, match="degenerated"):
        result = relbo_run(
            ring, [3.0, 0.0], "none", 0, objective=ResidualGain(early_stopping=False)
        )
    assert result.posterior.n_components == 1


def test_the_name_is_the_default_instance():
    assert PublicResidualGain is ResidualGain
    by_name = relbo_run(far_bump, [-4.0], "none", 1, entropy_weight=1.0)
    by_instance = relbo_run(far_bump, [-4.0], "none", 1, objective=ResidualGain(1.0))
    assert by_name.elbo == by_instance.elbo


def test_components_of_open_rank_take_part():
    def two_bumps(theta):
        shift = 3.0 * (anp.arange(6) == 0)
        near, far = (-0.5 * anp.sum((theta - s) ** 2, axis=1) for s in (-shift, shift))
        return anp.logaddexp(near, far) - np.log(2.0) - 3.0 * np.log(2 * np.pi)

    result = relbo_run(
        two_bumps, [-3.0] + [0.0] * 5, "none", 0, component_covariance="low_rank"
    )
    assert kl(two_bumps, result.posterior) < 0.2
