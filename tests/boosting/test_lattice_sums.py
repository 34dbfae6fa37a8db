"""Sums over a lattice, and mixtures fitted to them, beside closed forms."""

from itertools import pairwise

import autograd.numpy as anp
import numpy as np
import pytest
from scipy.special import gammaln, polygamma, psi

from skboost.boosting import Lattice
from skboost.modes import laplace
from skboost.targets import Budget, CallableTarget

LOG_2PI = np.log(2.0 * np.pi)
MOST = 5000


def lattice_of(log_density, dim, most=MOST):
    target = CallableTarget(log_density, dim)
    near = laplace(target, np.zeros(dim), True, np.ones(dim))
    return Lattice.around(target, near, most)


def moments(lattice):
    """Mean and covariance by the Gaussian that a lattice begins with."""
    mixture = lattice.judged(lattice.gaussian()).mixture
    return mixture.mean(), mixture.covariance()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_gaussian_is_known_at_once(dim):
    mixing = np.eye(dim) + 0.5 * np.tri(dim, k=-1)
    mean = np.arange(1.0, dim + 1.0)

    def log_density(theta):
        white = (theta - mean) @ np.linalg.inv(mixing).T
        return 3.0 - 0.5 * anp.sum(white**2, axis=1)

    lattice = lattice_of(log_density, dim)
    truth = 3.0 + 0.5 * dim * LOG_2PI
    value, error = lattice.log_evidence
    assert abs(value - truth) < 1e-3
    assert abs(value - truth) <= error < 2e-3
    found = moments(lattice)
    np.testing.assert_allclose(found[0], mean, atol=2e-3)
    np.testing.assert_allclose(found[1], mixing @ mixing.T, atol=5e-3)
    sums = lattice.judged(lattice.gaussian())
    assert sums.remaining().value < 1e-3
    assert sums.elbo().value == pytest.approx(truth, abs=1e-3)


def log_gamma(theta):
    """Logarithms of a gamma variable of shape 2 and one of shape 8, turned."""
    a = theta[:, 0] + 0.6 * theta[:, 1]
    b = theta[:, 1]
    return 2.0 * a - anp.exp(a) + 8.0 * b - 8.0 * anp.exp(b)


def test_a_skewed_density_has_its_moments_and_more_components_leave_less():
    lattice = lattice_of(log_gamma, 2)
    truth = gammaln(2.0) + gammaln(8.0) - 8.0 * np.log(8.0)
    assert abs(lattice.log_evidence.value - truth) <= lattice.log_evidence.se < 0.02
    means = np.array([psi(2.0), psi(8.0) - np.log(8.0)])
    variances = polygamma(1, [2.0, 8.0])
    back = np.array([[1.0, -0.6], [0.0, 1.0]])
    found, left = lattice.gaussian(), []
    for _ in range(5):
        sums = lattice.judged(found)
        mixture = sums.mixture
        # However many components there are.
        np.testing.assert_allclose(mixture.mean(), back @ means, atol=5e-3)
        np.testing.assert_allclose(
            mixture.covariance(), back @ np.diag(variances) @ back.T, rtol=0.02
        )
        left.append(sums.remaining().value)
        found = lattice.split(found)
    assert all(after < before for before, after in pairwise(left))
    assert left[0] > 0.05
    assert left[-1] < 0.005


def test_a_lattice_reaches_a_second_mode_behind_a_valley():
    """Seven nats below the higher of the two, which has a fifth of the mass."""

    def two(theta):
        narrow = -0.5 * anp.sum((theta / 0.3) ** 2, axis=1)
        wide = -0.5 * anp.sum((theta - np.array([5.0, 0.0])) ** 2, axis=1)
        return anp.logaddexp(np.log(0.2 / 0.09) + narrow, np.log(0.8) + wide) - LOG_2PI

    lattice = lattice_of(two, 2)
    assert abs(lattice.log_evidence.value) < 0.01
    assert moments(lattice)[0][0] == pytest.approx(4.0, abs=0.05)


def test_a_density_that_is_zero_somewhere_has_its_mass_elsewhere():
    def positive(theta):
        inside = anp.where(theta[:, 0] > -1.2, 0.0, -np.inf)
        return inside - 0.5 * anp.sum(theta**2, axis=1)

    lattice = lattice_of(positive, 2)
    # An edge is known to half a step alone, and the error says so.
    value, error = lattice.log_evidence
    assert abs(value - LOG_2PI - np.log(0.884930)) < max(error, 0.1)
    sums = lattice.judged(lattice.gaussian())
    assert np.isfinite(sums.elbo().value)
    assert 0.0 < sums.outside < 0.2
    assert sums.remaining().outside == sums.outside


def test_what_is_too_long_or_takes_too_long_has_no_lattice():
    assert lattice_of(lambda theta: -0.01 * anp.abs(theta[:, 0]) ** 0.5, 1) is None
    assert lattice_of(lambda theta: -2.0 * anp.log1p(theta[:, 0] ** 2), 1, 60) is None
    assert lattice_of(lambda theta: -0.5 * anp.sum(theta**2, axis=1), 3, 100) is None
    target = CallableTarget(lambda theta: -0.5 * anp.sum(theta**2, axis=1), 2)
    near = laplace(target, np.zeros(2), True, np.ones(2))
    with target.ledger.within(Budget(1e-9), raises=False) as budget:
        assert Lattice.around(target, near, MOST) is None
        assert budget.has_cut
