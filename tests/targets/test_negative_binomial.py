"""Counts with a dispersion that is a parameter: the negative binomial likelihood."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skboost.targets import DispersionPrior, NegativeBinomial, NoisyGLMTarget, Poisson
from skboost.targets._negative_binomial import gamma_terms

from .conftest import (
    check_curvature,
    check_expectation,
    check_gradients,
    check_score,
    table,
)


def make_target():
    rng = np.random.default_rng(0)
    own, weight, offset = (
        rng.normal(size=(30, 3)),
        rng.uniform(0.2, 2.0, 30),
        rng.normal(size=30),
    )
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(own[:, 0] + offset)))
    rows = table(own, y.astype(float), weight, offset)
    prior = DispersionPrior(0.25, 2.0)
    return NoisyGLMTarget(rows, NegativeBinomial(), prior, temperature=0.8)


def gaussian(dim, seed=1):
    rng = np.random.default_rng(seed)
    factor = 0.3 * rng.normal(size=(dim, 2))
    return 0.3 * rng.normal(size=dim), rng.uniform(0.01, 0.05, dim), factor


@pytest.mark.parametrize("dispersion", [1e-15, 1e-4, 0.3, 4.0, 200.0])
def test_probabilities_are_those_of_scipy(dispersion):
    y, mean = np.array([0.0, 1.0, 3.0, 40.0, 1e4]), np.array([0.1, 2.0, 90.0])[:, None]
    found = NegativeBinomial().log_probability(y, np.log(mean), np.log(dispersion))
    exact = stats.nbinom.logpmf(y, 1 / dispersion, 1 / (1 + dispersion * mean))
    if dispersion < 1e-6:
        exact = stats.poisson.logpmf(y, mean)
    assert_allclose(found, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [0.01, 1.0, 99.0, 101.0, 1e3, 1e6])
@pytest.mark.parametrize("y", [0, 1, 7, 300])
def test_differences_of_gamma_functions_are_sums(y, shape):
    j = np.arange(y)
    exact = [np.log1p(j / shape), -j / (shape + j)]
    exact += [j * (2 * shape + j) / (shape + j) ** 2]
    exact = [terms.sum() for terms in exact]
    assert_allclose(gamma_terms(y, shape), exact, rtol=1e-12, atol=1e-12)


def test_the_log_density_is_the_model_written_out():
    target = make_target()
    theta = np.array([0.4, -0.2, 0.9, 0.1, -0.7])
    table = target.rows
    mean = np.exp(table.X @ theta[:3] + theta[3] + table.offset)
    alpha = np.exp(theta[-1])
    rows = stats.nbinom.logpmf(table.y, 1 / alpha, 1 / (1 + alpha * mean))
    expected = 0.8 * table.weight @ rows + stats.norm.logpdf(theta[:4]).sum()
    expected += stats.norm.logpdf(theta[-1], np.log(0.25), 2.0)
    assert target.log_density(theta[None])[0] == pytest.approx(expected, rel=1e-12)


def test_scores_and_slopes_equal_differences():
    target = make_target()
    theta = 0.5 * np.random.default_rng(2).normal(size=(4, target.dim))
    check_score(target, theta)
    mean, variance, factor = gaussian(target.dim)
    for parts in ((variance, None), (None, factor), (variance, factor)):
        check_gradients(target, mean, *parts, atol=1e-4)
    check_curvature(target, mean, factor, atol=1e-4)


def test_expectations_are_means_over_draws():
    target = make_target()
    check_expectation(target, *gaussian(target.dim), n=20_000)


@pytest.mark.parametrize("sds", [(0.05, 0.02), (0.3, 0.5), (1.0, 1.5)])
@pytest.mark.parametrize("level", [-9.0, -0.5])
def test_expectations_agree_with_quadrature(sds, level):
    (sd, sd_level), covariance = sds, 0.5 * sds[0] * sds[1]
    likelihood, tilt = NegativeBinomial(), covariance / sds[1]

    # A trapezoid rule is exact to rounding for analytic functions of a normal variable.
    t = np.linspace(-8.0, 8.0, 401)
    share = stats.norm.pdf(t) * (t[1] - t[0])
    eta = 0.3 + tilt * t[:, None] + np.sqrt(sd**2 - tilt**2) * t
    log = likelihood.log_probability(5.0, eta, level + sd_level * t[:, None])
    exact = share @ log @ share
    moments = (np.array([each]) for each in (0.3, 5.0, sd**2, covariance))
    found = likelihood.expected_with_scale(*moments, level, sd_level**2)
    assert found.value[0] == pytest.approx(exact, abs=1e-7)


def test_a_dispersion_of_nearly_zero_is_poisson():
    likelihood, rng = NegativeBinomial(), np.random.default_rng(3)
    mean, variance, y = rng.normal(size=9), np.full(9, 0.1), rng.poisson(2.0, 9) + 0.0
    found = likelihood.expected_with_scale(mean, y, variance, np.zeros(9), -16.0, 0.04)
    exact = Poisson().expected(mean, np.sqrt(variance), y)
    for one, other in zip((found.value, found.slope, found.bend), exact, strict=True):
        assert_allclose(one, other, atol=1e-4)


def test_the_prior_is_a_density():
    prior = DispersionPrior(0.25, 2.0)
    level = np.linspace(-25.0, 25.0, 20_001)
    mass = np.trapezoid(np.exp(prior.value_and_score(level)[0]), level)
    assert mass == pytest.approx(1.0, abs=1e-8)
    draws = np.random.default_rng(5).normal(0.3, 0.7, 100_000)
    values, scores = prior.value_and_score(draws)
    value, slope, _ = prior.expected(0.3, 0.49)
    assert abs(values.mean() - value) < 5.0 * stats.sem(values)
    assert abs(scores.mean() - slope) < 5.0 * stats.sem(scores)
