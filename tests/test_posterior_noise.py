"""Densities whose values are rounding noise far out, where their gradients are fine."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import elementwise_grad
from autograd.scipy.special import gammaln
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from skboost import boost_posterior
from skboost.approximation import noise_at, without_noise
from skboost.families import Component, FullGaussian
from skboost.targets import CallableTarget

COUNTS = np.array([[8, 3, 1], [5, 6, 2], [9, 0, 0], [2, 5, 4], [7, 4, 3]])
SIMPLEX = {"constraints": {(0, 1, 2): "simplex", 3: "positive"}}


def textbook(theta):
    """Dirichlet-multinomial with unknown shares and concentration, whose gammaln
    cancel."""
    shares, c = theta[:, :3], theta[:, 3]
    value = gammaln(3.0) + np.log(2 / (np.pi * 10)) - anp.log1p((c / 10) ** 2)
    a = shares * c[:, None]
    for row in COUNTS:
        value = value + gammaln(c) - gammaln(c + row.sum())
        value = value + anp.sum(gammaln(a + row) - gammaln(a), axis=1)
    return value


@pytest.mark.parametrize(
    "settings",
    [
        {"random_state": 0},
        {"random_state": 1},
        {"random_state": 8, "x0": [0.5, 0.3, 0.2, 10.0]},
        {"random_state": 0, "init": "single"},
    ],
)
def test_noise_far_out_is_no_mode_and_no_evidence(settings):
    result = boost_posterior(textbook, 4, **SIMPLEX, **settings)
    # Both by quadrature.
    assert abs(result.log_evidence + 61.613) < 0.02
    assert abs(result.posterior.marginal(3).quantile(0.5) - 10.75) < 0.3


def shares_known(theta):
    """The same with one unknown, the logarithm of the concentration."""
    shares = np.array([[0.5, 0.3, 0.2]])
    return textbook(anp.concatenate([shares + 0 * theta, anp.exp(theta)], axis=1))


def gaussian(mean, covariance):
    family = FullGaussian()
    return Component(family, family.from_moments(mean, covariance))


SLOPE = elementwise_grad(shares_known)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"gradient": SLOPE},
        {"value_and_gradient": lambda t: (shares_known(t), SLOPE(t))},
        {"objective": "hellinger"},
        {"warp": "auto"},
    ],
)
def test_noise_where_a_run_begins_is_named(settings):
    named = r"not smooth near theta=\[.*gradient promises .* nats.*change by.*cancel"
    with pytest.warns(ConvergenceWarning, match=named):
        more = {"max_iter": 2, "random_state": 0, "x0": [39.0], **settings}
        result = boost_posterior(shares_known, 1, **more)
    assert not result.converged and result.remaining_kl_interval[1] == np.inf


@pytest.mark.parametrize(
    "log_density",
    [
        lambda t: -anp.sum(anp.abs(t), axis=1),
        lambda t: -0.5 * anp.sum(t**2, axis=1) - 20.0 * (t[:, 0] > 0.3),
        lambda t: anp.where(t[:, 0] > 0, -(anp.sum(t, axis=1) ** 2), -np.inf),
        lambda t: -0.5 * anp.sum(t**2, axis=1) + 1e-3 * (anp.floor(1e6 * t[:, 0]) % 7),
        lambda t: 1e9 - 0.5 * anp.sum(t**2, axis=1),
        lambda t: 0.0 * anp.sum(t, axis=1),
        lambda t: -2.0 * anp.log1p(anp.sum((1e8 * t) ** 2, axis=1)),
    ],
    ids=["kinks", "jump", "edge", "little noise", "offset", "flat", "tail"],
)
def test_kinks_jumps_and_little_noise_are_left_alone(log_density):
    target, rng = CallableTarget(log_density, 2), np.random.default_rng(0)
    for _ in range(50):
        points = rng.standard_normal((4, 2))
        assert noise_at(target, points, gaussian(np.zeros(2), np.eye(2))) is None


def test_only_draws_of_noise_are_taken_off_a_sum():
    target = CallableTarget(shares_known, 1)
    normal = gaussian(np.array([2.4]), np.array([[0.7]]))
    # Rounding is far above the mode at several of these.
    far = np.linspace(36.0, 40.0, 40)[:, None]
    theta = np.concatenate([normal.sample(60, np.random.default_rng(0)), far])
    log_p, log_q = target.log_density(theta), np.full(len(theta), -3.0)
    assert log_p[60:].max() > log_p[:60].max() + 100.0
    found = without_noise(target, theta, log_p, log_q, normal)
    assert_array_equal(found[:60], log_p[:60])
    assert found[60:].max() < log_p[:60].max()
    # A heavy draw of a heavy tail has its weight.
    tail = CallableTarget(lambda t: -anp.log1p(t[:, 0] ** 2), 1)
    log_p, log_q = tail.log_density(theta), normal.log_density(theta)
    assert_array_equal(without_noise(tail, theta, log_p, log_q, normal), log_p)
