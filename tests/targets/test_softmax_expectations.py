"""Expectations of the softmax against dense sums in other coordinates."""

import numpy as np
import pytest

from skboost.targets import (
    class_contrasts,
    has_product_rule,
    logistic_gaussian_expectations,
)
from skboost.targets._softmax_gaussian import (
    groups_by_rule,
    softmax_expectation,
    softmax_rows,
)
from skboost.targets._softmax_moments import softmax_gaussian_expectations


def rows(n_classes, scale, n=6, seed=0):
    """Means and covariances of a few rows."""
    rng = np.random.default_rng(seed)
    mean = 2.0 * rng.normal(size=(n, n_classes))
    root = scale * rng.normal(size=(n, n_classes, n_classes)) / np.sqrt(n_classes)
    return mean, root @ root.transpose(0, 2, 1)


def dense(mean, covariance, step):
    """The same of one row, by a trapezoid rule over differences to the last class."""
    n = len(mean)
    contrast = np.hstack([np.eye(n - 1), -np.ones((n - 1, 1))])
    root = np.linalg.cholesky(contrast @ covariance @ contrast.T)
    line = np.arange(-7.5, 7.5 + step, step)
    z = np.stack(np.meshgrid(*[line] * (n - 1)), axis=-1).reshape(-1, n - 1)
    weights = np.exp(-0.5 * (z**2).sum(axis=1))
    weights /= weights.sum()
    t = np.column_stack([z @ root.T + contrast @ mean, np.zeros(len(z))])
    log_sum = np.logaddexp.reduce(t, axis=1)
    p = np.exp(t - log_sum[:, None])
    return mean[-1] + weights @ log_sum, weights @ p, (p.T * weights) @ p


@pytest.mark.parametrize(
    ("n_classes", "scale", "step", "tol", "error"),
    [
        (3, 0.1, 0.2, 1e-10, 1e-8),
        (3, 1.0, 0.1, 1e-10, 1e-8),
        (3, 3.0, 0.03, 1e-10, 3e-8),
        (4, 1.0, 0.3, 1e-5, 3e-4),
    ],
)
def test_product_rules_agree_with_dense_sums(n_classes, scale, step, tol, error):
    mean, covariance = rows(n_classes, scale)
    found = softmax_gaussian_expectations(mean, covariance, tol)
    for i in range(len(mean)):
        expected = dense(mean[i], covariance[i], step)
        # The second derivatives have a double pole.
        for a, b, factor in zip(found, expected, (1.0, 1.0, 30.0), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=0.0, atol=factor * error)


def test_many_classes_are_near_the_mean_over_draws():
    mean, covariance = rows(6, 1.5, n=3)
    found = softmax_gaussian_expectations(mean, covariance)
    rng = np.random.default_rng(1)
    for i in range(len(mean)):
        t = rng.multivariate_normal(mean[i], covariance[i], size=100_000)
        log_sum = np.logaddexp.reduce(t, axis=1)
        p = np.exp(t - log_sum[:, None])
        assert abs(found[0][i] - log_sum.mean()) < 0.02
        np.testing.assert_allclose(found[1][i], p.mean(axis=0), atol=0.01)


@pytest.mark.parametrize("n_classes", [3, 4, 7])
def test_what_all_classes_share_goes_through(n_classes):
    mean, covariance = rows(n_classes, 1.0)
    log_sum, p, products = softmax_gaussian_expectations(mean, covariance, 1e-5)
    moved = softmax_gaussian_expectations(mean + 700.0, covariance + 25.0, 1e-5)
    for a, b in zip((log_sum + 700.0, p, products), moved, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3 if n_classes > 4 else 1e-4)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(products.sum(axis=2), p, rtol=1e-9, atol=1e-12)
    if not has_product_rule(n_classes):
        return
    contrasts = class_contrasts(n_classes)
    inner = contrasts.T @ covariance @ contrasts
    alone = softmax_expectation(mean @ contrasts, inner, 1e-5)
    np.testing.assert_allclose(alone, p, atol=1e-5)


def test_points_are_the_softmax_itself():
    mean, _ = rows(3, 1.0)
    mean *= 400.0
    log_sum, p, _ = softmax_gaussian_expectations(mean, np.zeros((6, 3, 3)))
    np.testing.assert_allclose(log_sum, np.logaddexp.reduce(mean, axis=1))
    np.testing.assert_allclose(p, np.exp(mean - log_sum[:, None]), atol=1e-15)


def over_all_axes(mean, covariance, tol):
    """The same by a product rule over all K - 1 dimensions."""
    contrasts = class_contrasts(mean.shape[1])
    inner = contrasts.T @ covariance @ contrasts
    log_sum, products = np.empty(len(mean)), np.empty(covariance.shape)
    for some, p, total, level, weights in softmax_rows(
        mean, inner, tol, groups_by_rule
    ):
        p /= total[:, None]
        products[some] = (p * weights) @ p.transpose(0, 2, 1)
        log_sum[some] = (np.log(total) + level) @ weights
    return log_sum, products


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("scale", [0.05, 0.4])
def test_one_dimension_less_is_the_same(n_classes, scale):
    mean, covariance = rows(n_classes, scale, n=5)
    log_sum, _, products = softmax_gaussian_expectations(mean, covariance, 1e-13)
    expected, expected_products = over_all_axes(mean, covariance, 1e-13)
    np.testing.assert_allclose(log_sum, expected, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(products, expected_products, rtol=0.0, atol=1e-10)


@pytest.mark.slow
def test_wide_rows_are_the_same_as_under_a_dense_sum():
    mean, covariance = rows(3, 6.0, n=2)
    found = softmax_gaussian_expectations(4.0 * mean, covariance)
    for i in range(len(mean)):
        expected = dense(4.0 * mean[i], covariance[i], 0.012)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a[i], b, rtol=0.0, atol=1e-7)


def test_a_direction_without_variance_is_left_out():
    mean, _ = rows(3, 1.0, n=2)
    # Two classes move together: their difference is a point.
    root = np.array([[1.0, 0.5], [1.0, 0.5], [-2.0, 1.0]])
    covariance = np.tile(root @ root.T, (2, 1, 1))
    log_sum, p, _ = softmax_gaussian_expectations(mean, covariance)
    both = np.logaddexp(mean[:, 0], mean[:, 1])
    softplus, sigmoid, _ = logistic_gaussian_expectations(
        mean[:, 2] - both, np.full(2, np.hypot(3.0, 0.5))
    )
    np.testing.assert_allclose(log_sum, both + softplus, atol=1e-9)
    np.testing.assert_allclose(p[:, 2], sigmoid, atol=1e-9)


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("width", [0.5, 1.5, 3.0])
def test_probabilities_are_as_near_as_they_say(n_classes, width):
    rng, n, k = np.random.default_rng(1), 200 if n_classes < 4 else 40, n_classes - 1
    mean = width * rng.choice([0.3, 1.0, 3.0], (n, 1)) * rng.standard_normal((n, k))
    root = rng.standard_normal((n, k, k))
    covariance = root @ root.transpose(0, 2, 1)
    largest = np.linalg.eigvalsh(covariance)[:, -1]
    covariance *= (width**2 / largest)[:, None, None]
    exact = softmax_expectation(mean, covariance, 1e-8, np.float64)
    found = softmax_expectation(mean, covariance)
    np.testing.assert_allclose(found, exact, rtol=0.0, atol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)


def test_rows_far_out_are_computed_node_by_node():
    """Products of exponentials would leave the range of single precision there."""
    mean = np.array([[0.3, -0.2], [90.0, -40.0], [0.1, 0.4]])
    covariance = np.array([0.5, 30.0, 2.0])[:, None, None] * np.eye(2)
    together = softmax_expectation(mean, covariance)
    alone = [softmax_expectation(mean[[i]], covariance[[i]])[0] for i in range(3)]
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-7)
    exact = softmax_expectation(mean, covariance, 1e-8, np.float64)
    np.testing.assert_allclose(together, exact, rtol=0.0, atol=1e-4)
