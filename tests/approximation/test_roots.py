"""Combinations of square roots of densities and their squares."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.approximation import Roots
from skboost.families import DiagonalGaussian, FullGaussian, LowRankGaussian
from skboost.frank_wolfe import best_coefficients

FAMILIES = [
    DiagonalGaussian(),
    FullGaussian(),
    LowRankGaussian(rank=1),
]


def roots_of(family, rng, dim=2, n=3):
    moments = rng.normal(size=(n, dim)), np.exp(rng.normal(size=(n, dim)))
    params = [family.from_moments(*each) for each in zip(*moments, strict=True)]
    return Roots.of(family, np.array(params), rng.random(n))


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_the_mixture_is_the_square_of_the_combination(family, rng):
    roots = roots_of(family, rng)
    assert_allclose(roots.coefficients @ roots.gram @ roots.coefficients, 1.0)
    assert_allclose(roots.shares.sum(), 1.0)
    theta, step = 2.0 * rng.normal(size=(50, 2)), 1e-6
    by_hand = sum(
        c * np.exp(0.5 * family.log_density(theta, p))
        for c, p in zip(roots.coefficients, roots.params, strict=True)
    )
    score, log_root = roots.score_and_log_root(theta)
    for found in (log_root, roots.log_root(theta)):
        assert_allclose(found, np.log(by_hand), rtol=1e-10, atol=1e-10)
    squared = roots.mixture().log_density(theta)
    assert_allclose(squared, 2.0 * np.log(by_hand), atol=1e-8, rtol=0)
    for j, shift in enumerate(step * np.eye(2)):
        slope = roots.log_root(theta + shift) - roots.log_root(theta - shift)
        assert_allclose(score[:, j], slope / (2 * step), atol=1e-7)


def test_roots_that_are_kept_have_norm_one(rng):
    kept = roots_of(FullGaussian(), rng).keep(np.array([True, False, True]))
    assert kept.n_components == 2
    assert_allclose(kept.shares.sum(), 1.0)


def test_best_coefficients_beat_every_other_combination(rng):
    for _ in range(20):
        factor = rng.random((5, 4))
        gram = factor.T @ factor
        scale = np.sqrt(np.diag(gram))
        gram = gram / np.outer(scale, scale)
        overlaps = rng.normal(size=4)
        overlaps[0] = abs(overlaps[0])
        found = best_coefficients(gram, overlaps)
        assert (found >= 0).all()
        assert_allclose(found @ gram @ found, 1.0)
        others = rng.random((500, 4)) * (rng.random((500, 4)) < 0.6)
        others = others[others.sum(axis=1) > 0]
        others /= np.sqrt(np.einsum("ni,ij,nj->n", others, gram, others))[:, None]
        assert (others @ overlaps).max() <= found @ overlaps + 1e-10


def test_the_scale_of_the_target_cancels(rng):
    gram = np.array([[1.0, 0.3], [0.3, 1.0]])
    overlaps = np.array([0.7, 0.2])
    assert_allclose(
        best_coefficients(gram, 1e-30 * overlaps), best_coefficients(gram, overlaps)
    )


def test_geodesic_step_is_equation_four():
    between = np.array([[1.0, 0.25], [0.25, 1.0]])
    old, new = best_coefficients(between, np.array([0.8, 0.6]))
    # The best point on the great circle, in closed form.
    ratio = (0.6 - 0.8 * 0.25) / (0.8 - 0.6 * 0.25)
    assert_allclose(new / old, ratio)
    assert_allclose(old**2 + 2 * 0.25 * old * new + new**2, 1.0)
    assert best_coefficients(between, np.array([0.8, 0.1])).tolist() == [1.0, 0.0]
