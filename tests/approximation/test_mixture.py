import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from skboost.approximation import Mixture
from skboost.families import DiagonalGaussian, FullGaussian, Laplace


def test_log_density_agrees_with_the_families(mixture, rng):
    theta = 2.0 * rng.standard_normal((50, 3))
    parts = [component.log_density(theta) for component in mixture.components]
    columns = np.column_stack(parts)
    np.testing.assert_allclose(mixture.log_components(theta), columns, rtol=1e-10)
    share = mixture.responsibilities(theta)
    np.testing.assert_allclose(share.sum(axis=1), 1.0, rtol=1e-12)
    expected = logsumexp(columns, b=mixture.weights, axis=1)
    np.testing.assert_allclose(mixture.log_density(theta), expected, rtol=1e-10)


def test_full_gaussians_agree_with_scipy_far_from_the_origin(rng):
    family, offset = FullGaussian(), 1e6
    means = offset + rng.standard_normal((4, 5))
    covariance = np.cov(rng.standard_normal((5, 30)))
    params = [family.from_moments(m, covariance) for m in means]
    mixture = Mixture(tuple((family, p) for p in params), np.full(4, 0.25))
    theta = offset + rng.standard_normal((20, 5))
    expected = [stats.multivariate_normal(m, covariance).logpdf(theta) for m in means]
    found = mixture.log_components(theta)
    np.testing.assert_allclose(found, np.transpose(expected), rtol=1e-6)


def test_score_equals_finite_differences(mixture, rng):
    theta = rng.standard_normal((6, 3))
    score, log_density = mixture.score_and_log_density(theta)
    np.testing.assert_allclose(log_density, mixture.log_density(theta), rtol=1e-12)
    far = mixture.score_and_log_density(np.full((2, 3), 1e150))
    assert not any(np.isnan(part).any() for part in far)
    for i, step in enumerate(1e-5 * np.eye(3)):
        slope = mixture.log_density(theta + step) - mixture.log_density(theta - step)
        np.testing.assert_allclose(score[:, i], slope / 2e-5, rtol=1e-5, atol=1e-6)


def test_blocks_of_rows_do_not_show(rng):
    family = FullGaussian()
    means = rng.standard_normal((5, 40))
    components = tuple((family, family.from_moments(m, np.ones(40))) for m in means)
    mixture = Mixture(components, np.full(5, 0.2))
    theta = rng.standard_normal((1000, 40))
    assert len(mixture._blocks(1000)) > 1
    score, log_density = mixture.score_and_log_density(theta)
    few_score, few = mixture.score_and_log_density(theta[-3:])
    np.testing.assert_allclose(log_density[-3:], few, rtol=1e-12)
    np.testing.assert_allclose(score[-3:], few_score, rtol=1e-10, atol=1e-12)


def test_sample_has_the_moments(mixture, rng):
    n = 20_000
    draws = mixture.sample(n, rng)
    assert draws.shape == (n, 3)
    se = mixture.std() / np.sqrt(n)
    assert np.all(np.abs(draws.mean(axis=0) - mixture.mean()) < 4 * se)
    centred = draws - mixture.mean()
    products = centred[:, :, None] * centred[:, None, :]
    se = products.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(products.mean(axis=0) - mixture.covariance()) < 4.5 * se)
    variances = np.diag(mixture.covariance())
    np.testing.assert_allclose(mixture.std() ** 2, variances, rtol=1e-12)
    one, two = (mixture.sample(100, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_sample_order_is_random(normal_mixture, rng):
    draws = normal_mixture([-50, 50], [1, 1], [0.5, 0.5]).sample(400, rng)[:, 0]
    half = np.mean(draws[:200] > 0)
    assert abs(half - 0.5) < 4 * 0.5 / np.sqrt(200)


def test_stratified_draws_are_unbiased(mixture, rng):
    theta, row_weights, source = mixture.stratified_draws(4000, rng)
    by_source = np.bincount(source, row_weights)
    np.testing.assert_allclose(by_source, mixture.weights, rtol=1e-12)
    se = np.sqrt(row_weights**2 @ (theta - mixture.mean()) ** 2)
    assert np.all(np.abs(row_weights @ theta - mixture.mean()) < 4 * se)


@pytest.mark.parametrize("at_once", [False, True])
def test_every_stratum_has_a_few_draws_and_an_empty_one_none(
    normal_mixture, rng, at_once
):
    mixture = normal_mixture([0, 50, 90], [1, 1, 1], [1 - 1e-6, 1e-6, 0.0])
    theta, row_weights, source = mixture.stratified_draws(100, rng, at_once)
    np.testing.assert_array_equal(theta[:, 0] > 25.0, source == 1)
    np.testing.assert_array_equal(np.bincount(source, minlength=3), [100, 8, 0])
    assert row_weights.sum() == pytest.approx(1.0)


def test_append_is_at_weight_zero_and_changes_nothing(mixture, rng):
    family = Laplace()
    longer = mixture.append((family, family.from_moments(np.ones(3), np.ones(3))))
    theta = rng.standard_normal((10, 3))
    assert longer.n_components == mixture.n_components + 1
    assert longer.weights[-1] == 0.0
    np.testing.assert_allclose(longer.log_density(theta), mixture.log_density(theta))
    assert longer.drop_zero_weights().n_components == mixture.n_components
    assert mixture.drop_zero_weights() is mixture


def test_other_weights_leave_the_components(mixture, rng):
    theta = rng.standard_normal((10, 3))
    table = mixture.log_components(theta)
    weights = rng.dirichlet(np.ones(mixture.n_components))
    other = mixture.with_weights(weights)
    np.testing.assert_array_equal(other.log_components(theta), table)
    np.testing.assert_allclose(
        other.log_density(theta), logsumexp(table, b=weights, axis=1), rtol=1e-10
    )


def test_keep_and_replace(mixture):
    mask = np.arange(mixture.n_components) != 1
    kept = mixture.keep(mask)
    assert kept.weights.sum() == pytest.approx(1.0)
    assert kept.n_components == mixture.n_components - 1
    family, params = Laplace(), Laplace().from_moments(np.zeros(3), np.ones(3))
    other = mixture.replace(1, (family, params))
    assert other.components[1].family is family
    np.testing.assert_array_equal(other.weights, mixture.weights)
    assert mixture.components[1].family is not family


def test_nothing_can_be_changed_also_not_from_a_pickle(mixture, rng):
    theta = rng.standard_normal((5, 3))
    again = pickle.loads(pickle.dumps(mixture))
    np.testing.assert_array_equal(again.log_density(theta), mixture.log_density(theta))
    for each in (mixture, again):
        with pytest.raises(FrozenInstanceError):
            each.weights = np.ones(each.n_components)
        assert not each.weights.flags.writeable
        assert not each.components[0].params.flags.writeable
    params, weights = np.zeros(4), np.ones(1)
    mixture = Mixture(((DiagonalGaussian(), params),), weights)
    params[0] = weights[0] = 7.0
    np.testing.assert_array_equal(mixture.mean(), [0.0, 0.0])
    np.testing.assert_array_equal(mixture.weights, [1.0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.6], "sum to one"),
        ([1.5, -0.5], "non-negative"),
        ([np.nan, 1.0], "finite"),
        ([1.0], "shape"),
    ],
)
def test_weights_off_the_simplex_are_refused(normal_mixture, weights, message):
    with pytest.raises(ValueError, match=message):
        normal_mixture([0, 1], [1, 1], weights)


def test_components_must_fit_together():
    family = DiagonalGaussian()
    with pytest.raises(ValueError, match="one dimension"):
        Mixture(((family, np.zeros(2)), (family, np.zeros(4))), np.full(2, 0.5))
    with pytest.raises(ValueError, match="at least one"):
        Mixture((), np.ones(0))


@pytest.mark.parametrize("shape", [(3,), (5, 2), (1, 5, 3)])
def test_points_of_the_wrong_shape_are_refused(mixture, shape):
    for method in (mixture.log_density, mixture.score_and_log_density):
        with pytest.raises(ValueError, match="theta must have shape"):
            method(np.zeros(shape))


def test_equal_mixtures_have_the_same_components_and_weights():
    family = FullGaussian()
    one, two = (family, np.array([0.0, 0.0])), (family, np.array([1.0, 0.0]))
    mixture = Mixture((one, two), np.array([0.3, 0.7]))
    appended = mixture.append((family, np.array([5.0, 0.0])))
    assert mixture.equals(appended.drop_zero_weights())
    assert not mixture.equals(appended)
    assert not mixture.equals(mixture.with_weights([0.7, 0.3]))
    assert not mixture.equals(mixture.replace(1, (family, np.array([1.0, 0.1]))))
    assert not mixture.equals(mixture.replace(1, (FullGaussian(), two[1])))
