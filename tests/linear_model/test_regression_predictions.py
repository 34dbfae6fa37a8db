"""Predictive distributions of regressions against quadrature, draws and counting."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from scipy.integrate import quad

from skboost import MixturePosterior
from skboost.approximation import Mixture
from skboost.families import FullGaussian, Laplace, StudentT
from skboost.linear_model._count_predictive import CountPredictive
from skboost.linear_model._linear import NoisePredictive, mean_square_scale
from skboost.priors import NoiseScalePrior
from skboost.strategies import GreedySearch
from skboost.targets import NormalNoise, StudentTNoise

from ..kinds import Linear, Poisson

NOISES = {
    "normal": (NormalNoise(), stats.norm()),
    "student_t": (StudentTNoise(4.0), stats.t(4.0)),
}
each_noise = pytest.mark.parametrize("noise", NOISES)
ROWS = np.random.default_rng(0).normal(size=(3, 2))
P = np.array([0.05, 0.5, 0.95])


def mixture(widths, seed=1, family=None):
    """Two correlated Gaussians of the given standard deviations."""
    family = FullGaussian() if family is None else family
    rng = np.random.default_rng(seed)
    components = []
    for shrink in (1.0, 0.6):
        root = rng.normal(size=(len(widths), len(widths)))
        covariance = root @ root.T + np.eye(len(widths))
        size = np.sqrt(np.diag(covariance))
        covariance *= np.outer(widths, widths) * shrink**2 / np.outer(size, size)
        mean = 0.5 * rng.normal(size=len(widths))
        components.append((family, family.from_moments(mean, covariance)))
    return Mixture(tuple(components), np.array([0.3, 0.7]))


def by_grid(q, row, values, n=161):
    """E values(eta, sigma) under a mixture by a fine grid in both variables."""
    u = np.linspace(-8.0, 8.0, n)
    share = stats.norm.pdf(u)
    share /= share.sum()
    total = 0.0
    for weight, component in zip(q.weights, q.components, strict=True):
        mean, covariance = component.moments()
        centre, variance = row @ mean[:-1], row @ covariance[:-1, :-1] @ row
        tilt = row @ covariance[:-1, -1] / np.sqrt(covariance[-1, -1])
        level = mean[-1] + np.sqrt(covariance[-1, -1]) * u
        eta = centre + tilt * u + np.sqrt(variance - tilt**2) * u[:, None]
        total += weight * (share @ values(eta, np.exp(level)) @ share)
    return total


@each_noise
@pytest.mark.parametrize("sd_level", [0.03, 0.2, 0.5])
def test_densities_and_quantiles_agree_with_quadrature(noise, sd_level):
    noise, exact = NOISES[noise]
    q = mixture(np.array([0.1, 0.2, 0.1, sd_level]))
    predictive = NoisePredictive(q, True, noise, None)
    y = np.array([-1.0, 0.4, 2.5])
    density = np.exp(predictive.log_density(ROWS, None, y))
    quantiles = predictive.quantiles(ROWS, None, P)
    for i, row in enumerate(np.column_stack([ROWS, np.ones(3)])):
        found = by_grid(q, row, lambda eta, s, y=y[i]: exact.pdf((y - eta) / s) / s)
        assert density[i] == pytest.approx(found, abs=1e-9)
        for x, p in zip(quantiles[i], P, strict=True):
            below = by_grid(q, row, lambda eta, s, x=x: exact.cdf((x - eta) / s))
            assert below == pytest.approx(p, abs=1e-9)


@each_noise
def test_moments_agree_with_quadrature(noise):
    noise, exact = NOISES[noise]
    q = mixture(np.array([0.1, 0.2, 0.1, 0.2]))
    mean, std = NoisePredictive(q, True, noise, None).model.mean_and_std(ROWS)
    for i, row in enumerate(np.column_stack([ROWS, np.ones(3)])):
        first = by_grid(q, row, lambda eta, s: eta + 0.0 * s)
        second = by_grid(q, row, lambda eta, s: eta**2 + s**2 * exact.var())
        assert mean[i] == pytest.approx(first, abs=1e-9)
        assert std[i] ** 2 + mean[i] ** 2 == pytest.approx(second, rel=1e-8)


@pytest.mark.parametrize("sd_level", [0.3, 0.6])
def test_the_noise_has_a_second_moment_only_where_tails_of_its_scale_allow(sd_level):
    widths = np.array([0.1, 0.2, 0.1, sd_level])
    student = mixture(widths, family=StudentT("full", df=30.0))
    predictive = NoisePredictive(student, True, NormalNoise(), None)
    assert np.isinf(predictive.model.mean_and_std(ROWS)[1]).all()
    assert np.isfinite(predictive.quantiles(ROWS, None, P)).all()
    student = mixture(widths[:3], family=StudentT("full", df=30.0))
    known = NoisePredictive(student, True, NormalNoise(), 1.0)
    assert np.isfinite(known.model.mean_and_std(ROWS)[1]).all()
    one = mixture(widths, family=Laplace()).keep(np.array([True, False]))
    (component,) = one.components
    level = stats.laplace(component.mean()[-1], component.std()[-1] / 2**0.5)
    found = mean_square_scale(one)
    ends = level.mean() - 40.0, level.mean() + 80.0
    square = quad(lambda x: np.exp(2.0 * x + level.logpdf(x)), *ends, limit=500,
                  points=[level.mean()])[0]  # fmt: skip
    assert found == pytest.approx(square, rel=1e-6)


@each_noise
@pytest.mark.parametrize("scale", [None, 0.7])
def test_families_without_quadrature_are_averages_over_draws(noise, scale):
    noise, exact = NOISES[noise]
    widths = np.full(4 if scale is None else 3, 0.3)
    q = mixture(widths, family=Laplace())
    predictive = NoisePredictive(q, True, noise, scale)
    draws = q.sample(40_000, np.random.default_rng(5))
    sigma = np.exp(draws[:, 3]) if scale is None else np.full(len(draws), scale)
    row = np.column_stack([ROWS, np.ones(3)])[0]
    z = (0.4 - draws[:, :3] @ row) / sigma
    density = exact.pdf(z) / sigma
    found = np.exp(predictive.log_density(ROWS[:1], None, np.array([0.4])))[0]
    # 1024 quasi-random draws behind it, 40,000 independent ones here.
    assert abs(found - density.mean()) < 5.0 * density.std() / np.sqrt(1024)
    ends = predictive.quantiles(ROWS[:1], None, P)[0]
    z = (ends[:, None] - draws[:, :3] @ row) / sigma
    assert_allclose(exact.cdf(z).mean(axis=1), P, atol=5.0 * 0.5 / np.sqrt(1024))


@pytest.mark.parametrize(
    ("noise", "family", "sd_level"),
    [(StudentTNoise(2.0), FullGaussian(), 0.1), (NormalNoise(), Laplace(), 2.0)],
    ids=["two degrees of freedom", "exponential tails of its scale"],
)
def test_noise_may_have_no_standard_deviation(noise, family, sd_level):
    q = mixture(np.array([0.1, 0.2, 0.1, sd_level]), family=family)
    _, std = NoisePredictive(q, True, noise, None).model.mean_and_std(ROWS)
    assert np.isinf(std).all()


def test_moments_and_quantiles_of_counts_are_those_of_the_probabilities():
    predictive = CountPredictive(mixture(np.array([0.3, 0.2, 0.4])), True)
    offset = np.array([0.0, 2.0, -1.0])
    k = np.arange(4000.0)
    mean, std = predictive.model.mean_and_std(ROWS, offset)
    ends = predictive.quantiles(ROWS, offset, P)
    for i in range(3):
        rows = np.repeat(ROWS[i : i + 1], len(k), axis=0)
        p = np.exp(predictive.log_density(rows, np.full(len(k), offset[i]), k))
        assert p.sum() == pytest.approx(1.0, abs=1e-9)
        assert p @ k == pytest.approx(mean[i], rel=1e-8)
        assert p @ k**2 - (p @ k) ** 2 == pytest.approx(std[i] ** 2, rel=1e-7)
        below = np.cumsum(p)
        for end, level in zip(ends[i], P, strict=True):
            assert end == np.searchsorted(below, level)


def test_counts_of_families_without_quadrature():
    q = mixture(np.array([0.3, 0.2, 0.4]), family=Laplace())
    predictive = CountPredictive(q, True)
    draws = q.sample(40_000, np.random.default_rng(5))
    rate = np.exp(draws @ np.append(ROWS[0], 1.0))
    (mean,), _ = predictive.model.mean_and_std(ROWS[:1], None)
    assert abs(mean - rate.mean()) < 5.0 * (rate.std() / np.sqrt(1024))
    p = stats.poisson.pmf(2, rate)
    found = np.exp(predictive.log_density(ROWS[:1], None, np.array([2.0])))[0]
    assert abs(found - p.mean()) < 5.0 * p.std() / np.sqrt(1024)
    end = predictive.quantiles(ROWS[:1], None, np.array([0.9]))[0, 0]
    assert stats.poisson.cdf(end + 1, rate).mean() > 0.88
    assert stats.poisson.cdf(end - 2, rate).mean() < 0.92


def held(kind, q, **settings):
    """An estimator that holds a given posterior; its fit is thrown away."""
    X = np.random.default_rng(2).normal(size=(30, 2))
    model = kind(max_iter=1, search=GreedySearch(32), random_state=0, **settings)
    model.fit(X, np.random.default_rng(3).poisson(2.0, 30))
    model._fit = SimpleNamespace(mixture=q, stages=(q,), posterior=MixturePosterior(q))
    return model


@each_noise
def test_intervals_and_quantiles_are_of_one_distribution(noise):
    q = mixture(np.array([0.1, 0.2, 0.1, 0.2]))
    model = held(Linear, q, noise=noise)
    ends = model.predict_interval(ROWS, level=0.9)
    assert_allclose(model.predict_quantiles(ROWS), np.insert(
        ends, 1, model.predict_quantiles(ROWS, 0.5)[:, 0], axis=1
    ))  # fmt: skip
    coef, intercept, scale = model.sample_posterior(4000, random_state=0)
    eta = coef @ ROWS.T + intercept[:, None]
    y = eta + scale[:, None] * NOISES[noise][1].rvs(eta.shape, random_state=1)
    inside = np.mean((ends[:, 0] < y) & (y < ends[:, 1]), axis=0)
    assert_allclose(inside, 0.9, atol=5.0 * 0.3 / np.sqrt(4000))
    mean, std = model.predict_latent(ROWS)
    assert_allclose(mean, model.predict(ROWS))
    assert_allclose(std, eta.std(axis=0), rtol=0.1)


def test_a_row_far_out_does_not_cost_its_neighbours_memory():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 2))
    y = X[:, 0] + 0.3 * rng.standard_normal(60)
    settings = {"noise": "student_t", "max_iter": 1, "search": GreedySearch(64)}
    model = Linear(prior_scale=1.0, random_state=0, **settings).fit(X, y)
    X[7] *= 200.0
    pieces = list(model._predictive()._parts(X, 2))
    assert [rows.start for rows, *_ in pieces[1:]] == [r.stop for r, *_ in pieces[:-1]]
    assert pieces[-1][0].stop == 60
    assert max(centres.size for _, centres, *_ in pieces if len(centres) > 1) <= 1 << 18
    alone = np.vstack([model.predict_interval(X[i : i + 1]) for i in range(5, 10)])
    np.testing.assert_allclose(model.predict_interval(X)[5:10], alone, rtol=1e-7)


def test_without_an_intercept_the_noise_is_not_taken_for_one():
    y = ROWS @ [1.0, -2.0]
    model = Linear(
        fit_intercept=False, max_iter=1, search=GreedySearch(32), random_state=0
    ).fit(ROWS, y)
    assert model.intercept_ == 0.0
    # Sparse rows get a column of ones where there is an intercept.
    for X in (ROWS, sparse.csr_matrix(ROWS)):
        assert_allclose(model.predict(X), ROWS @ model.coef_, rtol=1e-12)


def linear_truth(rng):
    """A model, data of it and its parameters, drawn from the prior."""
    theta, sigma = rng.normal(size=4), np.sqrt(6.0 * 0.25 / rng.chisquare(6.0))
    rows = rng.normal(size=(30, 3))
    y = rows @ theta[:3] + theta[3] + sigma * rng.normal(size=30)
    model = Linear(
        prior_scale=1.0, intercept_scale=1.0, noise_prior=NoiseScalePrior(6.0, 0.5),
        max_iter=3, search=GreedySearch(64),
    )  # fmt: skip
    return model, (rows, y), np.append(theta, np.log(sigma))


def poisson_truth(rng):
    theta = rng.normal(size=3) * [0.5, 0.5, 1.0]
    rows, offset = rng.normal(size=(30, 2)), rng.normal(size=30)
    y = rng.poisson(np.exp(rows @ theta[:2] + theta[2] + offset))
    model = Poisson(
        prior_scale=0.5, intercept_scale=1.0, max_iter=2, search=GreedySearch(64)
    )
    return model, (rows, y, None, offset), theta


def negative_binomial_truth(rng):
    theta = rng.normal(size=4) * [0.5, 0.5, 1.0, 2.0] + [0, 0, 0, np.log(0.25)]
    rows, alpha = rng.normal(size=(40, 2)), np.exp(theta[3])
    rate = np.exp(rows @ theta[:2] + theta[2])
    y = rng.poisson(rate * rng.gamma(1.0 / alpha, alpha, 40))
    model = Poisson(
        likelihood="negative_binomial", prior_scale=0.5, intercept_scale=1.0,
        max_iter=3, search=GreedySearch(256),
    )  # fmt: skip
    return model, (rows, y), theta


@pytest.mark.slow
@pytest.mark.parametrize(
    "drawn", [linear_truth, poisson_truth, negative_binomial_truth]
)
def test_simulation_based_calibration(drawn):
    """Talts et al. 2018: where the truth is drawn from the prior, its posterior
    probability is uniform.
    """
    rng, ranks = np.random.default_rng(0), []
    for seed in range(80):
        model, data, truth = drawn(rng)
        fitted = model.set_params(random_state=seed).fit(*data).posterior_
        ranks.append([fitted.marginal(j).cdf(x) for j, x in enumerate(truth)])
    for column in np.array(ranks).T:
        found = np.histogram(column, bins=10, range=(0.0, 1.0))[0]
        assert stats.chisquare(found).pvalue > 0.001 / len(truth)
