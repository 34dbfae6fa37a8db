"""The surrogate of a dear density, and a Gaussian from few evaluations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime

from skboost.approximation import Mixture
from skboost.boosting import fit_surrogate, judged_draws, least_known
from skboost.boosting._rounds import first_round, with_other_modes
from skboost.families import DiagonalGaussian
from skboost.modes import Evaluations, laplace
from skboost.targets import Budget, CallableTarget


def skewed(theta):
    """Log-gamma variables in correlated coordinates."""
    z = theta @ np.array([[1.0, 0.5], [0.0, 2.0]])
    return (2.0 * z - np.exp(z)).sum(axis=1)


def gradient(theta):
    mixing = np.array([[1.0, 0.5], [0.0, 2.0]])
    return (2.0 - np.exp(theta @ mixing)) @ mixing.T


TARGET = CallableTarget(skewed, 2, gradient, vectorized=True)


def known(n, scored=True, seed=0):
    points = np.random.default_rng(seed).normal(0.5, 1.5, (n, 2))
    return Evaluations.at(TARGET, points, scored)


@pytest.mark.parametrize("far", [0.5, 30.0])
def test_the_gradient_of_a_surrogate_is_its_slope(far):
    # Within the ball and beyond it.
    surrogate = fit_surrogate(known(60), np.zeros(2), np.diag([1.0, 0.5]))
    for theta in np.random.default_rng(1).normal(0, far, (5, 2)):
        _, score = surrogate.value_and_score(theta[None])
        slope = approx_fprime(theta, lambda x: surrogate.log_density(x)[0], 1e-6)
        assert_allclose(score[0], slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scored", [True, False])
def test_a_surrogate_predicts_values_that_matter(scored):
    surrogate = fit_surrogate(known(150, scored), np.zeros(2), np.eye(2))
    new = known(200, seed=2)
    high = new.values > new.values.max() - 3.0
    error = surrogate.log_density(new.points[high]) - new.values[high]
    assert np.std(error) < 0.1


def test_a_surrogate_falls_away_whatever_was_fitted():
    evaluations = known(40)
    # A density that rises outwards: its trend has no maximum.
    rising = evaluations._replace(
        values=-evaluations.values, scores=-evaluations.scores
    )
    surrogate = fit_surrogate(rising, np.zeros(2), np.eye(2))
    away = np.array([[1e3, 0.0], [0.0, -1e3], [1e4, 1e4]])
    assert (surrogate.log_density(away) < -1e5).all()


@pytest.mark.parametrize("far", [1e5, 1e7])
def test_values_that_no_process_describes_are_an_error(far):
    """Points that matter are so far apart that their distances have no digits."""
    target = CallableTarget(lambda theta: np.cos(theta[:, 0]), 2, vectorized=True)
    points = np.random.default_rng(0).normal(size=(200, 2))
    points[::2] += far
    evaluations = Evaluations.at(target, points, False)
    with pytest.raises(ValueError, match="Pass surrogate=None"):
        fit_surrogate(evaluations, np.zeros(2), np.eye(2))


def test_points_of_zero_density_are_very_low():
    evaluations = known(80)
    outside = evaluations.points[:, 0] > 1.0
    values = np.where(outside, -np.inf, evaluations.values)
    surrogate = fit_surrogate(
        evaluations._replace(values=values), np.zeros(2), np.eye(2)
    )
    inside, beyond = surrogate.log_density(np.array([[0.0, 0.0], [2.0, 0.0]]))
    assert np.isfinite(beyond)
    assert beyond < inside - 10.0


@pytest.mark.parametrize("scored", [True, False])
def test_laplace_of_a_normal_density_is_that_density(scored):
    factor = np.array([[10.0, 0.0, 0.0], [0.5, 0.1, 0.0], [3.0, 0.01, 1.0]])
    precision = np.linalg.inv(factor @ factor.T)
    mean = np.array([30.0, -1.0, 0.0])
    target = CallableTarget(
        lambda x: -0.5 * np.einsum("ni,ij,nj->n", x - mean, precision, x - mean),
        3,
        lambda x: -(x - mean) @ precision,
        vectorized=True,
    )
    found = laplace(target, mean + [5.0, 0.2, 1.0], scored)
    away = np.linalg.solve(factor, found.mean - mean)
    assert np.abs(away).max() < 0.1
    inner = np.linalg.solve(factor, np.linalg.solve(factor, found.covariance).T)
    assert_allclose(inner, np.eye(3), atol=0.1)
    assert len(found.evaluations.values) < (150 if scored else 600)


def test_a_flat_tail_makes_a_direction_wider_but_not_without_end():
    def log_density(x):
        # Gaussian on the right, flat for long on the left.
        return np.where(x > 0, -0.5 * x**2, -0.01 * np.abs(x))[:, 0]

    target = CallableTarget(log_density, 1, vectorized=True)
    found = laplace(target, np.ones(1), scored=False)
    assert found.mean[0] < 0.0
    assert 0.5 < np.sqrt(found.covariance[0, 0]) < 200.0


@pytest.mark.parametrize(("most", "n_modes"), [(4, 1), (np.inf, 2)])
def test_a_climb_that_a_limit_cut_short_leads_to_no_mode(most, n_modes):
    """Its seconds are evaluations."""
    means = np.array([[0.0, 0.0], [9.0, 2.0]])

    def two(theta):
        squares = ((theta[:, None] - means) ** 2).sum(axis=2)
        return np.logaddexp(*(-0.5 * squares).T)

    target = CallableTarget(two, 2, vectorized=True)
    target.unit = np.ones(2)
    known, wide = first_round(target, means[:1]), np.full(2, 4.0)
    points = np.array([[8.0, 1.0], [0.5, 0.5]])
    pairs = [(Mixture.single((DiagonalGaussian(), np.append(means[1], wide))), 2)]
    known = known.with_draws(Evaluations.at(target, points, False), pairs)
    clock = lambda: float(target.n_evaluations)  # noqa: E731
    with target.ledger.within(Budget(most, clock=clock), raises=False):
        found = with_other_modes(target, known, 0).modes
    assert found.n_components == n_modes


def test_points_far_from_what_is_known_are_asked_for_first():
    evaluations = known(60)
    surrogate = fit_surrogate(evaluations, np.zeros(2), np.eye(2))
    far = np.array([[9.0, 9.0], [-9.0, 9.0]])
    high = evaluations.points[evaluations.values > evaluations.values.max() - 3.0]
    asked = least_known(surrogate, np.concatenate([far, far, high]), 4, 0.1)
    # One of either pair: the other is then known, as are high points.
    assert sorted(asked % 2) == [0, 1]
    assert (asked < 4).all()


def test_wider_draws_are_weighted_as_draws_of_the_mixture():
    normal = CallableTarget(lambda t: -0.5 * (t**2).sum(axis=1), 3, vectorized=True)
    mixture = Mixture.single((DiagonalGaussian(), np.repeat([0.0, np.log(0.8)], 3)))
    rng = np.random.default_rng(0)
    fresh, found, pairs = judged_draws(normal, mixture, 4000, True, rng)
    assert len(found.points) == sum(n for _, n in pairs) == 4000
    # Of the unnormalised density: three halves of 1 + ln(2 pi s^2) - s^2.
    exact = 1.5 * (1.0 + np.log(2.0 * np.pi * 0.64) - 0.64)
    elbo = fresh.elbo()
    assert elbo.se < 0.02 and abs(elbo.value - exact) < 4.0 * elbo.se


def test_the_first_gaussian_leans_to_the_side_that_falls_slowly():
    """A log-gamma density, whose mean is to the left of its mode at zero."""
    density = lambda x: np.sum(x - np.exp(x), axis=1)  # noqa: E731
    target = CallableTarget(density, 2, vectorized=True)
    near = laplace(target, np.full(2, 0.3), False)
    assert (near.mean < -0.1).all() and (near.mean > -0.8).all()
