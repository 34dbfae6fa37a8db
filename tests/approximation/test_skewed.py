"""Skewing weights: exact densities, draws, moments and marginals, by brute force."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.approximation import Mixture
from skboost.calibration import remaining_after_skewing, skew
from skboost.families import FullGaussian, Laplace, StudentT
from skboost.posterior import MixturePosterior, as_posterior
from skboost.targets import Target
from skboost.transforms import Constraints

GRID = np.linspace(-14.0, 8.0, 40_001)
STEP = GRID[1] - GRID[0]
PLANE = np.stack(np.meshgrid(*2 * [np.linspace(-9.0, 7.0, 321)]), -1).reshape(-1, 2)
CELL = (16.0 / 320) ** 2


class LogGamma(Target):
    """Logarithms of gamma variables with shape 2.5, tied by their difference."""

    def __init__(self, dim):
        self.dim = dim

    def log_density(self, theta, strict=False):
        tie = -0.5 * np.diff(theta, axis=1).ravel() ** 2 if self.dim > 1 else 0.0
        return (2.5 * theta - np.exp(theta)).sum(axis=1) + tie


def member(family, dim, mean, variance):
    covariance = variance * np.ones(dim)
    if family.full_covariance:
        covariance = variance * (0.8 * np.eye(dim) + 0.2)
    return family, family.from_moments(np.full(dim, mean), covariance)


FULL = FullGaussian()
MIXTURES = {
    "one": lambda dim: Mixture.single(member(FULL, dim, 0.75, 0.45)),
    "two": lambda dim: Mixture(
        (member(FULL, dim, 0.2, 0.6), member(FULL, dim, 1.0, 0.3)), np.array([0.4, 0.6])
    ),
    "student_t": lambda dim: Mixture.single(member(StudentT("full"), dim, 0.75, 0.4)),
    "laplace": lambda dim: Mixture.single(member(Laplace(), dim, 0.7, 0.2)),
}


def kl(target, log_q, points, cell):
    log_p = target.log_density(points)
    log_p = log_p - np.log(np.exp(log_p).sum() * cell)
    q = np.exp(log_q)
    return float((np.where(q > 0, q * (log_q - log_p), 0.0)).sum() * cell)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("name", ["one", "two"])
def test_the_gain_is_the_bound_and_nothing_is_lost(name, dim):
    points, cell = (GRID[:, None], STEP) if dim == 1 else (PLANE, CELL)
    target, mixture = LogGamma(dim), MIXTURES[name](dim)
    skewed, report, left = skew(target, mixture, 0.0, np.random.default_rng(0))
    before = kl(target, mixture.log_density(points), points, cell)
    after = kl(target, skewed.log_density(points), points, cell)
    bound = before - report.gain
    assert after < bound + 3.0 * report.gain_se < before
    if name == "one":
        assert abs(after - bound) < 3.0 * report.gain_se
        assert abs(left.value - after) < 4.0 * left.se


@pytest.mark.parametrize("name", MIXTURES)
def test_it_is_a_density_with_these_moments_draws_and_marginals(name):
    mixture = MIXTURES[name](1)
    skewed, report, _ = skew(LogGamma(1), mixture, 0.0, np.random.default_rng(0))
    assert report.applied
    q = np.exp(skewed.log_density(GRID[:, None]))
    assert q.sum() * STEP == pytest.approx(1.0, abs=1e-3)
    mean = (q * GRID).sum() * STEP
    spread = np.sqrt((q * (GRID - mean) ** 2).sum() * STEP)
    # Of 4,096 draws.
    assert abs(skewed.mean()[0] - mean) < 4.0 * spread / 64.0
    assert skewed.std()[0] == pytest.approx(spread, rel=0.02)
    assert skewed.covariance()[0, 0] == pytest.approx(skewed.std()[0] ** 2)
    # Even functions about a centre keep their expectations.
    if mixture.n_components == 1:
        even = np.abs(GRID - mixture.component_locations()[0])
        p = np.exp(mixture.log_density(GRID[:, None]))
        assert (q * even).sum() * STEP == pytest.approx((p * even).sum() * STEP, 1e-3)
    exact = np.cumsum(q) * STEP
    draws = np.sort(skewed.sample(20_000, np.random.default_rng(1)).ravel())
    found = np.interp(draws, GRID, exact)
    # Kolmogorov's bound at one in ten thousand.
    assert np.abs(found - (np.arange(20_000) + 0.5) / 20_000).max() < 2.2 / np.sqrt(2e4)
    marginal = MixturePosterior(skewed).marginal(0)
    pdf, cdf = marginal.pdf(GRID), marginal.cdf(GRID)
    assert np.abs(pdf - q).max() < 0.03 * q.max()
    assert np.abs(cdf - exact).max() < 0.01
    assert (np.diff(cdf) > -1e-12).all()
    assert_allclose(np.gradient(cdf, STEP)[1:-1], pdf[1:-1], atol=1e-2)
    levels = np.array([0.05, 0.5, 0.95])
    assert_allclose(marginal.cdf(marginal.quantile(levels)), levels, atol=1e-6)


def test_second_moments_of_four_images():
    """Blocks change their signs on their own, and so what is between them moves."""
    target, mixture = LogGamma(2), MIXTURES["one"](2)
    skewed, *_ = skew(target, mixture, 0.0, np.random.default_rng(0))
    q = np.exp(skewed.log_density(PLANE)) * CELL
    assert q.sum() == pytest.approx(1.0, abs=1e-3)
    apart = PLANE - q @ PLANE
    assert_allclose(skewed.covariance(), (q[:, None] * apart).T @ apart, atol=0.02)
    assert_allclose(skewed.std() ** 2, np.diag(skewed.covariance()))
    second = q[np.abs(PLANE[:, 1] - 1.0) < 1e-9].sum() / 0.05
    assert MixturePosterior(skewed).marginal(1).pdf(1.0) == pytest.approx(second, 0.03)
    f = target.log_density(PLANE) - mixture.log_density(PLANE)
    other = 2.0 * mixture.mean() - PLANE
    odd = 0.5 * (f - target.log_density(other) + mixture.log_density(other))
    gained = np.logaddexp(odd, -odd) - np.log(2.0)
    by_reflection = np.exp(mixture.log_density(PLANE)) @ gained * CELL
    before, after = (
        kl(target, m.log_density(PLANE), PLANE, CELL) for m in (mixture, skewed)
    )
    assert after < before - by_reflection


def test_marginals_of_transformed_coordinates():
    mixture = MIXTURES["one"](1)
    skewed, _, _ = skew(LogGamma(1), mixture, 0.0, np.random.default_rng(0))
    posterior = as_posterior(skewed, None, Constraints("positive", 1))
    # A gamma variable.
    assert posterior.mean()[0] == pytest.approx(2.5, rel=0.02)
    assert posterior.std()[0] == pytest.approx(np.sqrt(2.5), rel=0.1)
    draws = posterior.sample(50_000, random_state=0)
    assert draws.mean() == pytest.approx(2.5, rel=0.02)


def test_pickles_hold_no_target_and_still_draw():
    mixture = MIXTURES["one"](2)
    skewed, _, _ = skew(LogGamma(2), mixture, 0.0, np.random.default_rng(0))
    posterior = MixturePosterior(skewed)
    copy = pickle.loads(pickle.dumps(posterior))
    draws = copy.sample(20_000, random_state=0)
    assert np.abs(draws.mean(axis=0) - posterior.mean()).max() < 0.03
    assert len(np.unique(draws[:, 0])) == len(draws)
    with pytest.raises(ValueError, match=r"with_log_joint\(estimator.make_log_joint"):
        copy.log_density(draws[:3])
    again = copy.with_log_joint(LogGamma(2).log_density)
    assert_allclose(again.log_density(draws[:9]), posterior.log_density(draws[:9]))


def test_files_keep_the_weights(tmp_path):
    skewed, _, _ = skew(LogGamma(1), MIXTURES["two"](1), 0.0, np.random.default_rng(0))
    posterior = MixturePosterior(skewed, ["a"])
    posterior.save(tmp_path / "skewed.npz")
    read = MixturePosterior.load(tmp_path / "skewed.npz")
    assert_allclose(read.mean(), posterior.mean())
    assert_allclose(read.interval(), posterior.interval())
    evidence = read.evidence(LogGamma(1), n=2000, random_state=0)
    before = MixturePosterior(skewed.plain).evidence(LogGamma(1), 2000, random_state=0)
    assert evidence.elbo > before.elbo


def test_what_is_symmetric_is_declined():
    class Normal(Target):
        dim = 1

        def log_density(self, theta, strict=False):
            return -0.5 * (theta[:, 0] - 1.0) ** 2

    mixture = Mixture.single(member(FULL, 1, 1.0, 1.3))
    same, report, _ = skew(Normal(), mixture, 1e-3, np.random.default_rng(0))
    assert same is mixture and not report.applied
    assert "gains no more than" in report.reason
    left = remaining_after_skewing(Normal(), mixture, np.random.default_rng(0))
    # KL of N(1, 1.3) to N(1, 1).
    assert left.value == pytest.approx(0.5 * (0.3 - np.log(1.3)), abs=3 * left.se)


def test_a_density_that_ends_is_declined():
    class Half(LogGamma):
        def log_density(self, theta, strict=False):
            return np.where(theta[:, 0] < 0.0, -np.inf, super().log_density(theta))

    mixture = MIXTURES["one"](1)
    same, report, _ = skew(Half(1), mixture, 1e-3, np.random.default_rng(0))
    assert same is mixture and "zero at draws" in report.reason
