"""Low-rank components: what they find, how their rank grows, and what that costs."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import boost_posterior
from skboost._solver import ascend
from skboost.approximation import Mixture
from skboost.boosting import Settings
from skboost.families import (
    Component,
    DiagonalGaussian,
    FullGaussian,
    Gaussian,
    LowRankGaussian,
    StudentT,
)
from skboost.modes import diagonal_curvature, inverse_curvature, wide_directions
from skboost.objectives import Candidate
from skboost.proposals import fit_low_rank, widest
from skboost.proposals._gaussian import add_columns_to_candidate
from skboost.strategies import GreedySearch
from skboost.targets import Budget, CallableTarget


@pytest.mark.parametrize("limit", [0, 1])
def test_without_a_budget_the_diagonal_gaussian_has_a_column_of_zeros(limit):
    family = DiagonalGaussian()
    start = Component(family, family.from_moments([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
    target = CallableTarget(lambda t: -0.5 * np.sum(t**2, axis=1), 3, lambda t: -t)
    with target.ledger.within(Budget(max_evaluations=limit, ledger=target.ledger)):
        value, found = fit_low_rank(target, start, None, Settings())
    assert value == -np.inf and found.family.rank == 1
    assert_allclose(found.moments()[0], [1.0, 2.0, 3.0])
    assert_allclose(found.moments()[1], np.diag([4.0, 5.0, 6.0]))


class Spiked:
    """A Gaussian with a few strong directions among unequal scales."""

    def __init__(self, dim, n_strong=5, variance=100.0, seed=0, shift=0.0):
        rng = np.random.default_rng(seed)
        self.dim = dim
        self.scale = np.exp(0.5 * rng.standard_normal(dim))
        self.mean = rng.standard_normal(dim) + shift * self.scale
        axes = np.linalg.qr(rng.standard_normal((dim, n_strong)))[0]
        self.factor = self.scale[:, None] * axes * np.sqrt(variance - 1.0)
        normal = LowRankGaussian.from_structure(self.mean, self.scale**2, self.factor)
        self.log_density = normal.log_density
        self.gradient = lambda theta: normal.at(theta).score()

    @property
    def covariance(self):
        return np.diag(self.scale**2) + self.factor @ self.factor.T

    @property
    def diagonal(self):
        family = DiagonalGaussian()
        return Component(family, family.from_moments(self.mean, self.scale**2))

    @property
    def target(self):
        return CallableTarget(self.log_density, self.dim, self.gradient, True)

    def boosted(self, **settings):
        settings = {"random_state": 0, "family": "gaussian-low-rank"} | settings
        settings |= {"gradient": self.gradient, "vectorized": True}
        return boost_posterior(self.log_density, self.dim, **settings)

    def kl_of(self, posterior):
        """KL(q || p) of the only component, by dense algebra."""
        (component,) = posterior.mixture.components
        return self.kl(component)

    def kl(self, component):
        mean, covariance = component.moments()
        shift = self.mean - mean
        ratio = np.linalg.solve(self.covariance, covariance)
        quadratic = shift @ np.linalg.solve(self.covariance, shift)
        log_det = np.linalg.slogdet(ratio)[1]
        return 0.5 * (np.trace(ratio) - self.dim + quadratic - log_det)


# --- the pieces, against dense algebra


def test_a_candidate_that_lacks_no_column_is_not_searched_again():
    family = LowRankGaussian(rank=1)
    params = family.from_structure(np.zeros(3), np.ones(3), np.zeros((3, 1))).params
    found = Candidate(Component(family, params), 0.5)
    target = CallableTarget(lambda t: -0.5 * np.sum(t**2, axis=1), 3, lambda t: -t)
    context, rng = SimpleNamespace(target=target), np.random.default_rng(0)
    # Without an objective nothing could be searched.
    same = add_columns_to_candidate(context, None, found, Settings(), rng)
    assert same is found


@pytest.mark.parametrize("covariance", ["diag", "low_rank", "full"])
def test_whitening_is_a_root_of_the_covariance(covariance, rng):
    family = Gaussian(covariance)
    component = Component(family, rng.standard_normal(family.n_params(7)))
    whitening = component.whitening()
    root = whitening.lift(np.eye(7))
    assert_allclose(root.T @ root, component.moments()[1], rtol=1e-10, atol=1e-12)
    rows, other = rng.standard_normal((2, 3, 7))
    assert_allclose(whitening.whiten(whitening.lift(rows)), rows, rtol=1e-8)
    # Gradients go the other way: an adjoint.
    assert_allclose(whitening.pull(rows) @ other.T, rows @ whitening.lift(other).T)


def test_whitening_of_a_family_without_variances():
    family = StudentT("diag", df=1.0)
    params = family.from_moments(np.zeros(2), np.array([4.0, 9.0]))
    assert_allclose(Component(family, params).whitening().lift(np.ones(2)), [2.0, 3.0])


def test_a_flat_direction_gets_no_width_beyond_what_has_a_cholesky_factor():
    precision = np.array([1e10, 1e-6])
    target = CallableTarget(
        lambda theta: -0.5 * np.sum(precision * theta**2, axis=1),
        2,
        lambda theta: -precision * theta,
        True,
    )
    found = inverse_curvature(target, np.zeros(2), FullGaussian())
    assert_allclose(np.diag(found), [1e-10, 100.0], rtol=1e-6)


def test_diagonal_curvature_of_coupled_coordinates(rng):
    gaussian = Spiked(150)
    found = diagonal_curvature(gaussian.target, gaussian.mean, rng)
    exact = np.diagonal(np.linalg.inv(gaussian.covariance))
    assert 0.5 < np.median(found / exact) < 2.0


def test_wide_directions_are_the_smallest_eigenvalues(rng):
    gaussian = Spiked(120, n_strong=4)
    family = DiagonalGaussian()
    params = family.from_moments(gaussian.mean, gaussian.scale**2)
    whitening = Component(family, params).whitening()
    points = gaussian.mean + 0.1 * rng.standard_normal((3, 120))
    values, directions = wide_directions(gaussian.target, whitening, points, 4, rng)
    whitened = gaussian.covariance / np.outer(gaussian.scale, gaussian.scale)
    assert_allclose(values, 0.01, rtol=1e-6)
    assert_allclose(directions @ directions.T, np.eye(4), atol=1e-10, rtol=0)
    # Their variances under the target are those of the strong directions.
    variances = directions @ whitened @ directions.T
    assert_allclose(variances, 100.0 * np.eye(4), atol=1e-4)


@pytest.mark.parametrize("rank", [2, 7])
def test_other_ranks_keep_marginal_variances(rank, rng):
    params = rng.standard_normal(LowRankGaussian(4).n_params(30))
    family = LowRankGaussian(rank)
    found = family.convert(params, 30)
    mean, covariance = LowRankGaussian(4).moments(params)
    mean_found, covariance_found = family.moments(found)
    assert_allclose(mean_found, mean)
    assert_allclose(np.diagonal(covariance_found), np.diagonal(covariance))
    if rank > 4:
        assert_allclose(covariance_found, covariance, atol=1e-12, rtol=0)


def test_the_widest_rank_is_that_of_the_components():
    one, other = LowRankGaussian(2), LowRankGaussian(3)
    components = [(family, np.zeros(family.n_params(9))) for family in (one, other)]
    mixture = Mixture(tuple(components), np.array([0.5, 0.5]))
    assert widest(LowRankGaussian(), mixture).rank == 3
    assert widest(LowRankGaussian(1), mixture).rank == 1
    assert LowRankGaussian().with_rank().rank == 10
    full = FullGaussian()
    assert full.with_rank() is full


# --- growth


@pytest.mark.parametrize("n_strong", [1, 12])
def test_the_rank_is_what_the_target_asks_for(n_strong):
    gaussian = Spiked(100, n_strong)
    _, found = fit_low_rank(gaussian.target, gaussian.diagonal, None, Settings())
    assert found.family.rank == n_strong
    assert gaussian.kl(found) < 1e-2


def test_columns_that_lose_on_other_draws_are_left_out(monkeypatch):
    gaussian, found = Spiked(60, n_strong=3), []

    def flattered(problem, **settings):
        x, value = ascend(problem, **settings)
        found.append(problem.unpack(x).params)
        # Later searches end far off, and boast.
        return (x, value) if len(found) == 1 else (x + 3.0, value + 100.0)

    monkeypatch.setattr("skboost.proposals._gaussian.ascend", flattered)
    _, best = fit_low_rank(gaussian.target, gaussian.diagonal, None, Settings())
    assert len(found) > 1
    assert np.array_equal(best.params, found[0])


def test_a_given_rank_stays():
    gaussian = Spiked(16, n_strong=5)
    result = gaussian.boosted(
        family=Gaussian("low_rank", 3), max_iter=2, search=GreedySearch(64)
    )
    ranks = {each.family.rank for each in result.posterior.mixture.components}
    assert ranks == {3}


def test_a_low_rank_gaussian_is_found_exactly():
    # With draws for all second moments the search itself has no noise.
    gaussian = Spiked(40, n_strong=3)
    result = gaussian.boosted(max_iter=1, tol=1e-6)
    assert gaussian.kl_of(result.posterior) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "seed"), [(500, 1), (2000, 0)])
def test_five_strong_directions_among_many(dim, seed):
    gaussian = Spiked(dim, seed=seed)
    result = gaussian.boosted(max_iter=1, family="gaussian", random_state=seed)
    assert result.posterior.mixture.components[0].family.rank == 5
    assert result.elbo > -1e-2
    kl = gaussian.kl_of(result.posterior)
    assert kl < 1e-2
    # The report is honest about it.
    assert abs(result.elbo + kl) < 5.0 * result.elbo_se


@pytest.mark.slow
def test_components_at_two_modes_have_their_own_ranks():
    one = Spiked(100, 1, variance=1.0 + 1e-6, shift=-2.0, seed=1)
    other = Spiked(100, 5, shift=2.0, seed=2)

    def logs(theta):
        return one.log_density(theta), other.log_density(theta)

    def gradient(theta):
        here, there = logs(theta)
        share = np.exp(here - np.logaddexp(here, there))[:, None]
        return share * one.gradient(theta) + (1.0 - share) * other.gradient(theta)

    result = boost_posterior(
        lambda theta: np.logaddexp(*logs(theta)) - np.log(2.0), 100, gradient=gradient,
        vectorized=True, x0=np.array([one.mean, other.mean]), max_iter=2,
        family="gaussian-low-rank", random_state=0,
    )  # fmt: skip
    ranks = sorted(each.family.rank for each in result.posterior.mixture.components)
    assert ranks == [1, 5]
    # A missing direction would cost 1.8 nats, a missing mode 0.7.
    assert result.elbo > -0.05


# --- cost


def cost(dim, max_iter):
    """Peak bytes and evaluations."""
    gaussian = Spiked(dim)
    tracemalloc.start()
    result = gaussian.boosted(max_iter=max_iter, search=GreedySearch(64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, result.n_evaluations


@pytest.mark.slow
def test_the_first_component_takes_less_than_one_dense_matrix():
    peak, _ = cost(3000, max_iter=1)
    assert peak < 8 * 3000**2


@pytest.mark.slow
def test_a_search_for_another_costs_in_proportion_to_the_dimension():
    (small, few), (large, many) = cost(500, max_iter=2), cost(2000, max_iter=2)
    # One dense matrix would make it 4.8.
    assert large < 4.3 * small
    assert many < 2.0 * few
