"""A gradient that its function's differences refute, and those that they do not."""

import warnings

import autograd.numpy as anp
import numpy as np
import pytest

from skboost import boost_posterior
from skboost.approximation import warn_of_wrong_gradient
from skboost.targets import CallableTarget

POINTS = np.random.default_rng(1).normal(size=(3, 2))


def square(theta):
    return -0.5 * np.sum(theta**2, axis=-1)


def checked(log_density, gradient=None, points=POINTS, **settings):
    target = CallableTarget(log_density, points.shape[1], gradient, **settings)
    warn_of_wrong_gradient(target, points, stacklevel=1)


@pytest.mark.parametrize(
    "gradient",
    [lambda t: t, lambda t: -2.0 * t, lambda t: 0.0 * t],
    ids=["sign", "factor", "zero"],
)
def test_a_wrong_gradient_is_told_both_slopes(gradient):
    with pytest.warns(UserWarning, match="sign and the factors of gradient="):
        checked(square, gradient)


def test_a_density_that_leaves_autograd_is_told_so():
    def constant(theta):
        return square(np.array(getattr(theta, "_value", theta)))

    with pytest.warns(UserWarning, match="gradient says 0.*autograd.numpy"):
        checked(constant)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_right_gradients_are_left_alone(scale, offset):
    def quartic(theta):
        z = theta / scale
        return offset - anp.sum(z**4 + anp.sqrt(1.0 + z**2), axis=-1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked(quartic, points=scale * POINTS)
        checked(quartic)


@pytest.mark.parametrize(
    ("log_density", "gradient", "points"),
    [
        (lambda t: square(t) + 1e-6 * np.sin(1e9 * t[..., 0]), lambda t: -t, POINTS),
        (lambda t: -anp.sum(anp.abs(t), axis=-1), None, 0.0 * POINTS),
        (lambda t: 0.0 * anp.sum(t, axis=-1), None, POINTS),
        (lambda t: np.full(t.shape[:-1], -np.inf), lambda t: t, POINTS),
    ],
    ids=["noise of a solver", "kink", "flat", "no density"],
)
def test_what_differences_do_not_refute_is_left_alone(log_density, gradient, points):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked(log_density, gradient, points)


def test_the_user_of_a_posterior_is_warned_with_points_on_ones_own_scale():
    def log_density(theta):
        assert np.all((theta > 5.0) & (theta < 6.0))
        return np.sum(np.log(theta - 5.0), axis=-1)

    shown = r"not its slope.*theta=\[5\.[0-9 ]+5\.[0-9]+\]"
    with pytest.warns(UserWarning, match=shown) as caught:
        given = {"gradient": lambda t: -1.0 / (t - 5.0), "constraints": (5.0, 6.0)}
        boost_posterior(log_density, 2, max_iter=1, random_state=0, **given)
    ours = [w for w in caught if "not its slope" in str(w.message)]
    assert len(ours) == 1 and ours[0].filename == __file__
