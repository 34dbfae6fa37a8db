"""Squared Hellinger distances to the target, against the closed form for Gaussians."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skboost.approximation import FreshDraws, Mixture, hellinger_gain, squared_hellinger
from skboost.families import Gaussian
from skboost.targets import Target

N_SE = 4


class Shifted(Target):
    """N(0.4, 1) in one dimension times e^2."""

    dim = 1

    def log_density(self, theta):
        return stats.norm(0.4, 1.0).logpdf(theta[:, 0]) + 2.0


def normal(mean, std):
    family = Gaussian("full")
    return Mixture.single(
        family, family.from_moments(np.array([mean]), np.array([std**2]))
    )


def exact(mean, std):
    """Squared distance of N(mean, std^2) to N(0.4, 1)."""
    total = std**2 + 1.0
    overlap = np.sqrt(2.0 * std / total) * np.exp(-((mean - 0.4) ** 2) / (4.0 * total))
    return 1.0 - overlap


def fresh(mean, std, seed=0, n=4096):
    rng = np.random.default_rng(seed)
    return FreshDraws.of(Shifted(), normal(mean, std), n, rng, exact=False)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.5), (1.4, 1.2), (0.4, 1.0)])
def test_the_distance_to_a_gaussian_is_known(mean, std):
    draws = fresh(mean, std)
    found = squared_hellinger(draws.log_ratio, draws.row_weights)
    assert 0.0 <= found.value <= 1.0
    assert abs(found.value - exact(mean, std)) < N_SE * found.se + 1e-12
    assert found.se < 0.1 * exact(mean, std) + 1e-12


def test_weights_of_draws_equal_repetition():
    log_ratio, times = np.array([-1.0, 0.3, 2.0, -0.4]), np.array([3, 1, 2, 4])
    found = squared_hellinger(log_ratio, times / times.sum())
    repeated = squared_hellinger(np.repeat(log_ratio, times))
    assert_allclose(found.value, repeated.value, rtol=1e-12)
    alike = squared_hellinger(log_ratio, np.full(4, 0.25))
    assert_allclose(alike.value, squared_hellinger(log_ratio).value, rtol=1e-12)
    # With one weight for all, the errors differ by the divisor n - 1 for n.
    assert_allclose(alike.se, squared_hellinger(log_ratio).se * np.sqrt(0.75))


def test_a_normaliser_changes_nothing():
    log_ratio = np.random.default_rng(0).standard_normal(50)
    assert_allclose(squared_hellinger(log_ratio + 700.0), squared_hellinger(log_ratio))


@pytest.mark.parametrize("seed", range(4))
def test_the_gain_is_the_difference_of_the_distances(seed):
    gain = hellinger_gain(fresh(0.0, 1.5, seed), fresh(0.3, 1.1, seed + 10))
    truth = exact(0.0, 1.5) - exact(0.3, 1.1)
    assert abs(gain.value - truth) < N_SE * gain.se
    assert gain.se < 0.2 * truth
