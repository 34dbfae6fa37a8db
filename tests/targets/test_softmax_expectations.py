"""Expectations of the softmax against dense sums in other coordinates."""

from functools import partial

import numpy as np
import pytest

from skboost.targets import (
    class_contrasts,
    contrast_roots,
    logistic_gaussian_expectations,
    nodes_of_mixture,
    softmax_expectation,
    softmax_gaussian_expectations,
    softmax_nodes,
)

# What a search has for its narrowest rows, eight times for what judges it.
expectations = partial(softmax_gaussian_expectations, n_nodes=8 * 64)


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
    ("n_classes", "scale", "step", "error"),
    [
        (3, 0.1, 0.2, 1e-6),
        (3, 1.0, 0.1, 1e-3),
        (3, 6.0, 0.04, 4e-3),
        (4, 0.1, 0.3, 3e-6),
        (4, 1.0, 0.3, 1e-3),
    ],
)
def test_averages_over_nodes_agree_with_dense_sums(n_classes, scale, step, error):
    mean, covariance = rows(n_classes, scale, n=3)
    found = expectations(mean, covariance)
    for i in range(len(mean)):
        expected = dense(mean[i], covariance[i], step)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a[i], b, rtol=0.0, atol=error)


@pytest.mark.parametrize("n_classes", [3, 6])
def test_more_nodes_have_smaller_errors(n_classes):
    mean, covariance = rows(n_classes, 1.5, n=40)
    few, more, most = (
        softmax_gaussian_expectations(mean, covariance, n)[0]
        for n in (64, 512, 1 << 13)
    )
    error, smaller = np.abs(few - most).mean(), np.abs(more - most).mean()
    assert smaller < 0.4 * error
    assert error < 3e-3


@pytest.mark.parametrize("n_classes", [3, 7])
def test_what_all_classes_share_goes_through(n_classes):
    mean, covariance = rows(n_classes, 1.0)
    log_sum, p, products = expectations(mean, covariance)
    moved = expectations(mean + 700.0, covariance + 25.0)
    for a, b in zip((log_sum + 700.0, p, products), moved, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(products.sum(axis=2), p, rtol=1e-9, atol=1e-12)
    contrasts = class_contrasts(n_classes)
    inner = contrasts.T @ covariance @ contrasts
    nodes = softmax_nodes(n_classes - 1, 1024)
    alone = softmax_expectation(mean @ contrasts, inner, nodes)
    np.testing.assert_allclose(alone, p, atol=2e-3)


def test_points_are_the_softmax_itself():
    mean, _ = rows(3, 1.0)
    mean *= 400.0
    log_sum, p, _ = expectations(mean, np.zeros((6, 3, 3)))
    np.testing.assert_allclose(log_sum, np.logaddexp.reduce(mean, axis=1))
    np.testing.assert_allclose(p, np.exp(mean - log_sum[:, None]), atol=1e-15)


def test_a_direction_without_variance_is_left_out():
    mean, _ = rows(3, 1.0, n=2)
    # Two classes move together: their difference is a point.
    root = np.array([[1.0, 0.5], [1.0, 0.5], [-2.0, 1.0]])
    covariance = np.tile(root @ root.T, (2, 1, 1))
    log_sum, p, _ = expectations(mean, covariance)
    both = np.logaddexp(mean[:, 0], mean[:, 1])
    softplus, sigmoid, _ = logistic_gaussian_expectations(
        mean[:, 2] - both, np.full(2, np.hypot(3.0, 0.5))
    )
    np.testing.assert_allclose(log_sum, both + softplus, atol=1e-3)
    np.testing.assert_allclose(p[:, 2], sigmoid, atol=1e-3)


@pytest.mark.parametrize("n_classes", [3, 5, 100])
def test_nodes_have_the_moments_of_a_normal(n_classes):
    nodes = softmax_nodes(n_classes - 1, 256)
    n_axes, n = nodes.shape
    assert n_axes == n_classes - 1
    np.testing.assert_allclose(nodes.sum(axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(nodes @ nodes.T / n, np.eye(n_axes), atol=1e-9)


def test_contrasts_are_the_same_on_every_machine():
    first, second = [1.0, -1.0, 0.0], [1.0, 1.0, -2.0]
    expected = np.column_stack([first / np.sqrt(2.0), second / np.sqrt(6.0)])
    np.testing.assert_allclose(class_contrasts(3), expected, rtol=1e-15)


@pytest.mark.parametrize("n_classes", [3, 6])
def test_roots_have_the_covariance_of_the_centred_predictors(n_classes):
    _, covariance = rows(n_classes, 1.0)
    contrasts = class_contrasts(n_classes)
    roots = contrast_roots(contrasts.T @ covariance @ contrasts)
    centred = np.eye(n_classes) - 1.0 / n_classes
    expected = centred @ covariance @ centred
    np.testing.assert_allclose(roots @ roots.transpose(0, 2, 1), expected, atol=1e-9)


@pytest.mark.parametrize(("n_classes", "width"), [(3, 0.5), (4, 1.5)])
def test_probabilities_are_as_near_as_they_say(n_classes, width):
    rng, n, k = np.random.default_rng(1), 60, n_classes - 1
    mean = width * rng.choice([0.3, 1.0, 3.0], (n, 1)) * rng.standard_normal((n, k))
    root = rng.standard_normal((n, k, k))
    covariance = root @ root.transpose(0, 2, 1)
    largest = np.linalg.eigvalsh(covariance)[:, -1]
    covariance *= (width**2 / largest)[:, None, None]
    exact = softmax_expectation(mean, covariance, softmax_nodes(k, 1 << 15))
    found = softmax_expectation(mean, covariance, softmax_nodes(k, 1024))
    error = np.abs(found - exact)
    assert error.max() < 3e-3
    assert error.mean() < 3e-4
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)


def test_components_share_nodes_without_larger_errors():
    rng, k, weights = np.random.default_rng(3), 3, np.geomspace(1.0, 0.01, 8)
    weights = weights / weights.sum()
    root = rng.standard_normal((30, k, k))
    means = np.linspace(0.5, 2.0, 8)[:, None, None] * rng.standard_normal((30, k))
    covariances = [s * root @ root.transpose(0, 2, 1) for s in np.geomspace(0.2, 20, 8)]

    def averaged(nodes):
        parts = zip(weights, means, covariances, nodes, strict=True)
        return sum(w * softmax_expectation(*moments) for w, *moments in parts)

    nodes = nodes_of_mixture(weights, k, 2048)
    assert 1500 < sum(one.shape[1] for one in nodes) < 3000
    # No point serves twice.
    assert len(np.unique(np.concatenate(nodes, axis=1)[0].round(9))) > 1500
    exact = averaged([softmax_nodes(k, 1 << 15)] * 8)
    error = np.abs(averaged(nodes) - exact).mean()
    assert error < 5e-4
    # As many nodes, the same and as many for all.
    assert error < np.abs(averaged([softmax_nodes(k, 256)] * 8) - exact).mean()


def test_rows_far_out_do_not_overflow():
    mean = np.array([[0.3, -0.2], [900.0, -400.0], [0.1, 0.4]])
    covariance = np.array([0.5, 3e4, 2.0])[:, None, None] * np.eye(2)
    nodes = softmax_nodes(2, 1024)
    together = softmax_expectation(mean, covariance, nodes)
    alone = [softmax_expectation(mean[[i]], covariance[[i]], nodes)[0] for i in (0, 2)]
    np.testing.assert_allclose(together[[0, 2]], alone, rtol=1e-12)
    np.testing.assert_allclose(together.sum(axis=1), 1.0, rtol=1e-12)
