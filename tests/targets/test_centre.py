"""Maps to parameters about the centre of the columns are those of one matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skboost.targets import Centre

MEANS = np.array([2.0, -3.0])


@pytest.fixture(params=[1, 2])
def case(request):
    """A centre, the matrix of `about`, and draws; the last parameter is a further one.

    The intercept at the centre is that at zero plus the means times the coefficients.
    """
    n = request.param
    matrix = np.eye(3 * n + 1)
    for output in range(n):
        matrix[3 * output + 2, 3 * output : 3 * output + 2] = MEANS
    draws = np.random.default_rng(0).normal(size=(4, 3 * n + 1))
    return Centre(MEANS, n), matrix, draws


def test_parameters_and_slopes(case):
    centre, matrix, draws = case
    inverse = np.linalg.inv(matrix)
    assert_allclose(centre.about(draws), draws @ matrix.T)
    assert_allclose(centre.back(draws), draws @ inverse.T)
    # By the chain rule.
    assert_allclose(centre.pulled(draws), draws @ matrix)
    assert_allclose(centre.pushed(draws), draws @ inverse)


def test_variances_and_curvatures(case):
    centre, matrix, draws = case
    inverse, positive = np.linalg.inv(matrix), draws**2
    assert_allclose(centre.variances(positive), positive @ (matrix**2).T)
    assert_allclose(centre.pulled_variances(draws), draws @ matrix**2)
    diagonal = matrix.T @ np.diag(positive[0]) @ matrix
    assert_allclose(centre.curvature(positive[0]), diagonal)
    covariances = np.stack([np.cov(draws.T), np.diag(positive[1])])
    wanted = inverse @ covariances @ inverse.T
    assert_allclose(centre.covariances_back(covariances), wanted)
    means, found = centre.gaussians_back(draws[:2], covariances)
    assert_allclose(means, draws[:2] @ inverse.T)
    assert_allclose(found, wanted)
    # Of independent parameters the variances are those of the covariances.
    means, found = centre.gaussians_back(draws, positive)
    assert_allclose(means, draws @ inverse.T)
    for variances, one in zip(found, positive, strict=True):
        assert_allclose(variances, np.diag(inverse @ np.diag(one) @ inverse.T))


def test_without_an_intercept_nothing_moves():
    centre, draws = Centre(), np.random.default_rng(0).normal(size=(4, 3))
    names = "about", "back", "pulled", "pushed", "variances", "pulled_variances"
    for name in names:
        assert_array_equal(getattr(centre, name)(draws), draws)
    assert_array_equal(centre.curvature(draws[0]), np.diag(draws[0]))
    assert_array_equal(centre.covariances_back(np.eye(3)), np.eye(3))
