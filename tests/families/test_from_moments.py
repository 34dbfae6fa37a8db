"""Projection of moments onto each family, and names to family objects."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skboost.families import (
    FAMILIES,
    MAX_FULL_DIM,
    Component,
    DiagonalGaussian,
    FullGaussian,
    Gaussian,
    Laplace,
    LowRankGaussian,
    StudentT,
    VariationalFamily,
    as_family,
)


@pytest.fixture
def moments(rng):
    root = rng.standard_normal((3, 5))
    return rng.standard_normal(3), root @ root.T


def test_marginals_are_kept_and_variances_give_independent_coordinates(family, moments):
    mean, covariance = moments
    variance = np.diagonal(covariance)
    params = family.from_moments(mean, covariance)
    assert_allclose(family.mean(params), mean)
    assert_allclose(family.std(params), np.sqrt(variance), rtol=1e-8)
    params = family.from_moments(mean, variance)
    got_mean, got = family.moments(params)
    scale = np.sqrt(np.outer(variance, variance))
    assert_allclose(got_mean, mean)
    assert_allclose(got / scale, np.eye(3), atol=2e-3)


@pytest.mark.parametrize("gaussian", [FullGaussian(), LowRankGaussian(2)])
def test_rank_enough_gives_the_covariance(gaussian, moments):
    _, got = gaussian.moments(gaussian.from_moments(*moments))
    assert_allclose(got, moments[1], rtol=1e-6, atol=1e-8)


def test_round_trip(family, component):
    params = component(family, 3)
    once = family.from_moments(*family.moments(params))
    if family.low_rank:
        # A factor is determined up to rotation only, so marginals are compared.
        assert_allclose(family.std(once), family.std(params), rtol=1e-8)
    else:
        assert_allclose(once, params, atol=1e-8, rtol=0)


def test_low_rank_takes_the_leading_direction(rng):
    axis = rng.standard_normal(30)
    covariance = np.eye(30) + 4 * np.outer(axis, axis)
    family = LowRankGaussian(1)
    _, got = family.moments(family.from_moments(np.zeros(30), covariance))
    scale = np.sqrt(np.diagonal(covariance))
    full = np.linalg.eigh(covariance / np.outer(scale, scale))[1][:, -1]
    kept = np.linalg.eigh(got / np.outer(scale, scale))[1][:, -1]
    assert abs(full @ kept) > 0.999


@pytest.mark.parametrize("singular", [1.0, 1 - 1e-14])
def test_low_rank_takes_a_singular_covariance(singular):
    family = LowRankGaussian(2)
    covariance = np.full((3, 3), singular)
    np.fill_diagonal(covariance, 1.0)
    params = family.from_moments(np.zeros(3), covariance)
    assert np.isfinite(params).all()
    assert np.isfinite(family.at(params, np.ones((1, 3))).score()).all()


def test_a_factor_never_starts_at_its_saddle():
    family = LowRankGaussian(4)
    for dim in (2, 4, 50):
        _, _, factor = family.structure(
            family.from_moments(np.zeros(dim), np.ones(dim))
        )
        assert np.all(np.linalg.norm(factor, axis=0) > 1e-3)
        assert np.linalg.matrix_rank(factor) == factor.shape[1]


def test_bad_moments_are_refused():
    for family in (FullGaussian(), DiagonalGaussian(), LowRankGaussian(), Laplace()):
        with pytest.raises(ValueError, match="positive variances"):
            family.from_moments(np.zeros(2), np.array([1.0, 0.0]))
        with pytest.raises(ValueError, match="shape"):
            family.from_moments(np.zeros(2), np.ones(3))
    with pytest.raises(ValueError, match="positive definite"):
        FullGaussian().from_moments(np.zeros(2), np.ones((2, 2)) + np.eye(2) * -1e-3)


def test_a_family_is_its_class_and_its_params(family, component):
    params, theta = component(family, 3), np.ones((2, 3))
    expected = family.log_density(theta, params)
    for other in (type(family)(**family.get_params()), clone(family)):
        assert np.array_equal(other.log_density(theta, params), expected)


def test_automatic_covariance():
    for name in ("gaussian", "student_t"):
        assert as_family(name, MAX_FULL_DIM).full_covariance
        assert not as_family(name, MAX_FULL_DIM + 1).full_covariance
    large = as_family("gaussian", MAX_FULL_DIM + 1)
    assert isinstance(large, LowRankGaussian)
    assert [large.base_dim(dim) for dim in (500, 4)] == [510, 8]


def test_names_and_objects_become_families():
    for name in FAMILIES:
        family = as_family(name, 4)
        assert isinstance(family, VariationalFamily)
        assert as_family(family, 9) is family
    for unknown in ("cauchy", None, Gaussian):
        with pytest.raises(ValueError, match="family must be one of"):
            as_family(unknown, 3)


def test_a_gaussian_stands_for_the_class_of_its_covariance():
    family = Gaussian("diag")
    assert isinstance(as_family(family), DiagonalGaussian)
    # As searches over family__covariance set it.
    family.set_params(covariance="low_rank", rank=2)
    for other in (family, clone(family), pickle.loads(pickle.dumps(family))):
        assert other.get_params() == {"covariance": "low_rank", "rank": 2}
        assert as_family(other).rank == 2
        params = other.from_moments(np.zeros(3), np.ones(3))
        assert Component(other, params).family.get_params() == {"rank": 2}
        assert len(params) == other.n_params(3)
    with pytest.raises(TypeError, match="Derive one of your own from FullGaussian"):
        type("Own", (Gaussian,), {})


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (Gaussian("spherical"), "covariance must be one of"),
        (Gaussian(None), "covariance must be one of"),
        (Gaussian("low_rank", 0), "rank must be a positive integer"),
        (Gaussian("low_rank", 1.5), "rank must be a positive integer"),
        (StudentT("low_rank"), "covariance must be one of .*StudentT"),
    ],
)
def test_bad_hyperparameters_are_refused(family, message):
    with pytest.raises(ValueError, match=message):
        family.n_params(3)


def test_fewer_columns_keep_the_marginal_variances(rng):
    wide, narrow = LowRankGaussian(4), LowRankGaussian(2)
    root = rng.standard_normal((6, 9))
    params = wide.from_moments(rng.standard_normal(6), root @ root.T)
    converted = narrow.convert(params, 6)
    assert converted.shape == (narrow.n_params(6),)
    assert_allclose(narrow.mean(converted), wide.mean(params))
    assert_allclose(narrow.std(converted), wide.std(params))
