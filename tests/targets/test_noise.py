"""Regressions whose noise scale or dispersion is a parameter, and offsets."""

import numpy as np
import pytest
from scipy import sparse, stats

from skboost.approximation import Mixture
from skboost.families import FullGaussian
from skboost.targets import (
    DispersionPrior,
    KnownScale,
    NegativeBinomial,
    NoiseScalePrior,
    NoisyGLMTarget,
    NormalNoise,
    Poisson,
    StudentTNoise,
    as_noise_prior,
    gamma_terms,
    normal_rule,
    updated_target,
)

from .conftest import (
    check_curvature,
    check_expectation,
    check_gradients,
    check_score,
    glm,
    table,
)

T4, T1 = StudentTNoise(4.0), StudentTNoise(1.5)
NOISES = {"normal": NormalNoise(), "t4": T4, "t1.5": T1}
COUNTS = NegativeBinomial()
each_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())
each = pytest.mark.parametrize("noise", [*NOISES.values(), COUNTS], ids=[*NOISES, "nb"])


def make_data(noise, n=30, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X @ np.linspace(1.0, -1.0, d) + 0.3 + 0.5 * rng.normal(size=n)
    if noise is COUNTS:
        y = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(y))).astype(float)
    return X, y, rng.uniform(0.2, 2.0, n), 0.3 * rng.normal(size=n)


def make_target(noise, X=None):
    own, y, weight, offset = make_data(noise)
    rows = table(own if X is None else X, y, weight, offset)
    prior = DispersionPrior(0.25, 2.0) if noise is COUNTS else NoiseScalePrior(1.5, 0.2)
    return NoisyGLMTarget(rows, noise, prior, temperature=0.8)


def gaussian(dim, seed=1):
    rng = np.random.default_rng(seed)
    factor = 0.2 * rng.normal(size=(dim, 2))
    return 0.3 * rng.normal(size=dim), rng.uniform(0.01, 0.05, dim), factor


@each
def test_the_log_density_is_the_model_written_out(noise):
    X, y, weight, offset = make_data(noise)
    theta = np.array([0.4, -0.2, 0.9, 0.1, -0.7])
    eta, sigma = X @ theta[:3] + theta[3] + offset, np.exp(theta[-1])
    expected = stats.norm.logpdf(theta[:4]).sum()
    if noise is COUNTS:
        rows = stats.nbinom.logpmf(y, 1 / sigma, 1 / (1 + sigma * np.exp(eta)))
        expected += stats.norm.logpdf(theta[-1], np.log(0.25), 2.0)
    else:
        residual = stats.norm() if isinstance(noise, NormalNoise) else stats.t(noise.df)
        rows = residual.logpdf((y - eta) / sigma) - np.log(sigma)
        # 1.5 * 0.2^2 / sigma^2 is chi-squared with 1.5 degrees of freedom.
        square = stats.invgamma(0.75, scale=0.75 * 0.2**2)
        expected += square.logpdf(sigma**2) + np.log(2.0 * sigma**2)
    expected += 0.8 * weight @ rows
    found = make_target(noise).log_density(theta[None])[0]
    assert found == pytest.approx(expected, rel=1e-12)


@each
def test_score_equals_differences(noise):
    target = make_target(noise)
    theta = 0.5 * np.random.default_rng(2).normal(size=(4, target.dim))
    check_score(target, theta)


@each
def test_expectations_are_means_over_draws(noise):
    target = make_target(noise)
    check_expectation(target, *gaussian(target.dim), n=20_000)


@pytest.mark.parametrize(
    "noise",
    # Another number of degrees of freedom has the same code.
    [NormalNoise(), T4, pytest.param(T1, marks=pytest.mark.slow), COUNTS],
)
def test_slopes_of_expectations_equal_differences(noise):
    target = make_target(noise)
    mean, variance, factor = gaussian(target.dim)
    for parts in ((variance, None), (None, factor), (variance, factor)):
        check_gradients(target, mean, *parts, atol=1e-4)
    check_curvature(target, mean, factor, atol=1e-4)


@pytest.mark.parametrize(
    ("noise", "level", "sd", "sd_level"),
    [
        (T4, -0.2, 0.05, 0.02),
        (T1, -0.2, 1.0, 0.3),
        *((COUNTS, -9.0, *sds) for sds in [(0.05, 0.02), (1.0, 1.5)]),
        *((COUNTS, -0.5, *sds) for sds in [(0.3, 0.5), (1.0, 1.5)]),
    ],
)
def test_the_product_rule_agrees_with_dense_sums(noise, level, sd, sd_level):
    y, covariance = 5.0 if noise is COUNTS else 1.7, 0.5 * sd * sd_level
    tilt = covariance / sd_level
    # A trapezoid rule is exact to rounding for analytic functions of a normal variable.
    t = np.linspace(-8.0, 8.0, 801)
    share = stats.norm.pdf(t) * (t[1] - t[0])
    levels = level + sd_level * t[:, None]
    eta = 0.3 + tilt * t[:, None] + np.sqrt(sd**2 - tilt**2) * t
    if noise is COUNTS:
        log = noise.log_probability(y, eta, levels)
    else:
        log = noise.log_density((y - eta) * np.exp(-levels)) - levels
    moments = (np.array([each]) for each in (0.3, y, sd**2, covariance))
    found = noise.expected_with_scale(*moments, level, sd_level**2)
    tolerance = 1e-7 if noise is COUNTS else 1e-8
    assert found.value[0] == pytest.approx(share @ log @ share, abs=tolerance)


def test_probabilities_of_four_degrees_of_freedom_hold_in_both_tails():
    z = np.append(np.linspace(-9.0, 9.0, 41), [-1e70, -1e5, 1e5, 1e300])
    np.testing.assert_allclose(T4.cdf(z), stats.t.cdf(z, 4.0), rtol=1e-13)


def test_normal_noise_agrees_with_the_product_rule():
    class Plain(NormalNoise):
        expected_with_scale = StudentTNoise.expected_with_scale

    rng = np.random.default_rng(4)
    rows = *rng.normal(size=(2, 9)), np.full(9, 0.2), 0.1 * rng.uniform(-1, 1, 9)
    pair = (
        noise.expected_with_scale(*rows, -0.3, 0.1)
        for noise in (Plain(), NormalNoise())
    )
    for a, b in zip(*pair, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


@each_noise
def test_a_known_scale_is_one_predictor(noise):
    X, y, weight, offset = make_data(noise)
    free = make_target(noise)
    known = glm(X, y, KnownScale(noise, 0.6), weight, offset, temperature=0.8)
    theta = np.array([[0.4, -0.2, 0.9, 0.1]])
    level = np.full((1, 1), np.log(0.6))
    value, score = known.value_and_score(theta)
    more, slope = free.value_and_score(np.hstack([theta, level]))
    prior = NoiseScalePrior(1.5, 0.2).value_and_score(level[:, 0])[0]
    np.testing.assert_allclose(value, more - prior, rtol=1e-12)
    np.testing.assert_allclose(score, slope[:, :-1], rtol=1e-10)


def test_sparse_rows_are_the_same_rows():
    X = make_data(T4)[0] * (np.arange(90).reshape(30, 3) % 2)
    dense, thin = make_target(T4, X=X), make_target(T4, X=sparse.csr_matrix(X))
    mean, variance, factor = gaussian(dense.dim)
    for a, b in zip(
        dense.expected_log_density(mean, variance, factor),
        thin.expected_log_density(mean, variance, factor),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-11)


@pytest.mark.parametrize(
    ("prior", "ends"),
    [
        (NoiseScalePrior(1.5, 0.2), (-6.0, 30.0)),
        (DispersionPrior(0.25, 2.0), (-25, 25)),
    ],
)
def test_the_prior_of_the_noise_scale_is_a_density(prior, ends):
    level = np.linspace(*ends, 50_001)
    mass = np.trapezoid(np.exp(prior.value_and_score(level)[0]), level)
    assert mass == pytest.approx(1.0, abs=1e-8)
    nodes, weights = normal_rule(1.0)
    averages = np.array(prior.value_and_score(-0.4 + 0.3 * nodes)) @ weights
    assert averages == pytest.approx(prior.expected(-0.4, 0.09)[:2], rel=1e-8)


def test_the_usual_prior_of_the_noise_scale_is_in_the_unit_of_the_responses():
    assert as_noise_prior("auto", 50.0).scale == pytest.approx(0.5)
    assert as_noise_prior(NoiseScalePrior(4.0, 3.0), 50.0).scale == 3.0


# --- counts


@pytest.mark.parametrize("dispersion", [1e-15, 0.3, 200.0])
def test_probabilities_are_those_of_scipy(dispersion):
    y, mean = np.array([0.0, 1.0, 3.0, 40.0, 1e4]), np.array([0.1, 2.0, 90.0])[:, None]
    found = COUNTS.log_probability(y, np.log(mean), np.log(dispersion))
    exact = stats.nbinom.logpmf(y, 1 / dispersion, 1 / (1 + dispersion * mean))
    if dispersion < 1e-6:
        exact = stats.poisson.logpmf(y, mean)
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [0.01, 99.0, 101.0, 1e6])
def test_differences_of_gamma_functions_are_sums(shape):
    for y in (0, 1, 7, 300):
        j = np.arange(y)
        exact = [np.log1p(j / shape), -j / (shape + j)]
        exact += [j * (2 * shape + j) / (shape + j) ** 2]
        exact = [terms.sum() for terms in exact]
        found = gamma_terms(y, shape)
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)


def test_a_dispersion_of_nearly_zero_is_poisson():
    rng = np.random.default_rng(3)
    mean, variance, y = rng.normal(size=9), np.full(9, 0.1), rng.poisson(2.0, 9) + 0.0
    found = COUNTS.expected_with_scale(mean, y, variance, np.zeros(9), -16.0, 0.04)
    exact = Poisson().expected(mean, np.sqrt(variance), y)
    found = found.value, found.slope, found.bend
    np.testing.assert_allclose(found, exact, atol=1e-4)


@pytest.mark.parametrize("width", [0.0, 0.2, 1.0, 8.0])
def test_the_fixed_rule_for_a_normal_variable(width):
    nodes, weights = normal_rule(width)
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    if width:
        # E 1 / (1 + w^2 t^2), which has its poles at distance 1 / w.
        grid = np.linspace(-12.0, 12.0, 40_001)
        exact = np.trapezoid(stats.norm.pdf(grid) / (1 + (width * grid) ** 2), grid)
        assert weights @ (1 / (1 + (width * nodes) ** 2)) == pytest.approx(exact, 1e-8)


# --- a Gaussian as prior of more data


def test_one_gaussian_as_prior_is_exact():
    family = FullGaussian()
    target = make_target(T4)
    root = 0.3 * np.random.default_rng(8).normal(size=(target.dim, target.dim))
    prior = Mixture.single(
        (
            family,
            family.from_moments(np.full(target.dim, 0.2), root @ root.T + np.eye(5)),
        )
    )
    composed = updated_target(target, prior, 0.7)
    assert composed.exact_gaussian
    mean, variance, factor = gaussian(target.dim)
    check_expectation(composed, mean, variance, factor, n=20_000)
    check_gradients(composed, mean, variance, factor, atol=1e-4)
    check_curvature(composed, mean, factor, atol=1e-4)


def test_several_components_as_prior_are_met_by_draws():
    family, target = FullGaussian(), make_target(NormalNoise())
    params = family.from_moments(np.zeros(5), np.eye(5))
    two = Mixture(((family, params), (family, params)), np.array([0.5, 0.5]))
    assert not updated_target(target, two).exact_gaussian


# --- offsets


def test_an_offset_is_a_coefficient_of_one():
    X, _, weight, offset = make_data(T4)
    y = np.random.default_rng(5).poisson(1.0, len(X))
    target = glm(X, y, Poisson(), weight, offset)
    wide = glm(np.column_stack([offset, X]), y, Poisson(), weight)
    theta = 0.3 * np.random.default_rng(6).normal(size=(3, 4))
    more = np.column_stack([np.ones(3), theta])
    constant = stats.norm.logpdf(1.0)
    value, score = target.value_and_score(theta)
    same, slope = wide.value_and_score(more)
    np.testing.assert_allclose(value, same - constant, rtol=1e-12)
    np.testing.assert_allclose(score, slope[:, 1:], rtol=1e-10, atol=1e-12)
    mean, variance, factor = gaussian(4)
    found = target.expected_log_density(mean, variance, factor)[0]
    wide_found = wide.expected_log_density(
        np.append(1.0, mean), np.append(0.0, variance), np.vstack([np.zeros(2), factor])
    )[0]
    assert found == pytest.approx(wide_found - constant, rel=1e-12)


def test_rates_beyond_floating_point_are_walls_not_errors():
    X, *_ = make_data(T4)
    target = glm(X, np.ones(30), Poisson())
    with np.errstate(all="raise"):
        value, score = target.value_and_score(np.full((1, 4), 1e5))
        far = target.expected_log_density(np.full(4, 1e4), np.full(4, 1e6), None)
    assert np.isfinite(value).all() and np.isfinite(score).all()
    assert value < -1e100 and np.isfinite(far[0])


def test_poisson_expectations_are_integrals():
    mean, sd = np.array([-1.0, 0.3, 2.0]), np.array([0.2, 0.9, 0.5])
    y = np.array([0.0, 3.0, 9.0])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    eta = mean[:, None] + sd[:, None] * nodes
    log_p = stats.poisson.logpmf(y[:, None], np.exp(eta))
    expected = log_p @ weights / np.sqrt(2.0 * np.pi)
    np.testing.assert_allclose(Poisson().expected(mean, sd, y)[0], expected, rtol=1e-9)
