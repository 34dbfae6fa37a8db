"""Dirichlet and Wishart factors against SciPy."""

import numpy as np
import pytest
from scipy import stats

from skboost.conjugate.gaussian_mixture._weights import DirichletWeights
from skboost.conjugate.gaussian_mixture._wishart import Wishart


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def random_rate(rng, p):
    root = rng.normal(size=(p, p))
    return root @ root.T + np.eye(p)


@pytest.mark.parametrize("p", [1, 2, 4])
def test_wishart_agrees_with_scipy(rng, p):
    rates = np.stack([random_rate(rng, p) for _ in range(2)])
    dofs = np.array([p + 0.3, p + 5.0])
    ours = Wishart(dofs, rates)
    theirs = [
        stats.wishart(df, np.linalg.inv(r)) for df, r in zip(dofs, rates, strict=True)
    ]
    draws = ours.sample(5, rng)
    expected = [
        sum(float(np.squeeze(t.logpdf(d[k]))) for k, t in enumerate(theirs))
        for d in draws
    ]
    np.testing.assert_allclose(ours.log_density(draws), expected, rtol=1e-9)
    np.testing.assert_allclose(ours.entropy(), [t.entropy() for t in theirs], rtol=1e-9)
    np.testing.assert_allclose(
        ours.mean, np.reshape([t.mean() for t in theirs], ours.mean.shape)
    )


def test_wishart_in_one_dimension_is_gamma():
    gamma = stats.gamma(1.7, scale=1 / 2.5)
    ours = Wishart(np.array([3.4]), np.array([[[5.0]]]))
    np.testing.assert_allclose(ours.entropy(), gamma.entropy())
    np.testing.assert_allclose(ours.expected_log_det, gamma.expect(np.log), rtol=1e-7)


@pytest.mark.parametrize("p", [1, 3])
def test_wishart_draws_have_its_moments(rng, p):
    clusters = Wishart(np.array(p + 2.5), random_rate(rng, p))
    draws = clusters.sample(20_000, rng)
    se = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - clusters.mean) < 5 * se)
    log_det = np.linalg.slogdet(draws)[1]
    error = abs(log_det.mean() - clusters.expected_log_det)
    assert error < 5 * log_det.std() / np.sqrt(len(draws))


@pytest.mark.parametrize("p", [1, 2, 10, 40])
@pytest.mark.parametrize("excess", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("spread", [0, 3, 6])
def test_draws_that_are_nearly_singular_have_densities(rng, p, excess, spread):
    """An empty cluster has the prior's degrees of freedom, which can be that few."""
    turn = np.linalg.qr(rng.normal(size=(p, p)))[0]
    rate = (turn * 10.0 ** np.linspace(-spread, spread, p)) @ turn.T
    clusters = Wishart(np.array([p - 1.0 + excess]), ((rate + rate.T) / 2.0)[None])
    assert np.isfinite(clusters.log_density(clusters.sample(2000, rng))).all()


def test_wishart_kl_is_the_expected_log_ratio(rng):
    one = Wishart(np.array([4.5]), random_rate(rng, 3)[None])
    two = Wishart(np.array([7.0]), random_rate(rng, 3)[None])
    draws = one.sample(20_000, rng)
    ratio = one.log_density(draws) - two.log_density(draws)
    assert abs(one.kl(two) - ratio.mean()) < 5 * ratio.std() / np.sqrt(len(ratio))
    assert one.kl(one) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("alpha", [[0.5, 2.0, 3.0], [0.05, 0.05, 4.0]])
def test_dirichlet_agrees_with_scipy(rng, alpha):
    alpha = np.array(alpha)
    factor, theirs = DirichletWeights(np.ones(3)), stats.dirichlet(alpha)
    draws = factor.sample({"alpha": alpha}, 20_000, rng)
    pi = draws["weights"]
    np.testing.assert_allclose(pi.sum(axis=1), 1.0)
    inside = np.flatnonzero(pi.min(axis=1) > 1e-10)[:20]
    np.testing.assert_allclose(
        factor.log_density({"alpha": alpha}, {"weights": pi[inside]}),
        [theirs.logpdf(row / row.sum()) for row in pi[inside]],
        rtol=1e-8,
    )
    assert factor.entropy({"alpha": alpha}) == pytest.approx(theirs.entropy())
    mean, covariance = factor.moments({"alpha": alpha})["weights"]
    np.testing.assert_allclose(mean, theirs.mean())
    np.testing.assert_allclose(np.diag(covariance), theirs.var())
    np.testing.assert_allclose(covariance.sum(axis=1), 0.0, atol=1e-15, rtol=0)
    se = pi.std(axis=0) / np.sqrt(len(pi))
    assert np.all(np.abs(pi.mean(axis=0) - theirs.mean()) < 5 * se)
    log_pi = np.log(pi)
    se = log_pi.std(axis=0) / np.sqrt(len(pi))
    error = log_pi.mean(axis=0) - factor.expected_log({"alpha": alpha})
    assert np.all(np.abs(error) < 5 * se)


def test_dirichlet_kl_is_the_expected_log_ratio(rng):
    alpha = np.array([3.0, 0.7, 1.5])
    factor = DirichletWeights(np.full(3, 0.5))
    draws = factor.sample({"alpha": alpha}, 20_000, rng)
    ratio = factor.log_density({"alpha": alpha}, draws) - factor.log_density(
        factor.prior, draws
    )
    error = abs(factor.kl({"alpha": alpha}) - ratio.mean())
    assert error < 5 * ratio.std() / np.sqrt(len(ratio))
