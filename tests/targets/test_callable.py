"""Targets from any Python function: gradients, batches, and errors with the point."""

import math
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.targets import CallableTarget, ComposedTarget, LogDensityError

DIMS = [1, 2, 3, 4]


def batch_density(theta):
    return -0.5 * anp.sum(theta**2, axis=1) - anp.log1p(anp.exp(theta[:, 0]))


def point_density(theta):
    return -0.5 * anp.sum(theta**2) - anp.log1p(anp.exp(theta[0]))


def either_density(theta):
    """Sums over the last axis: right for a point and for a batch."""
    return -0.5 * anp.sum(theta**2, axis=-1)


def plain_density(theta):
    """Nothing that autograd could follow."""
    return float(sum(-0.5 * math.pow(t, 2) for t in theta.tolist()))


def plain_gradient(theta):
    return -theta


def batch_gradient(theta):
    slope = -theta.copy()
    slope[:, 0] -= 1.0 / (1.0 + np.exp(-theta[:, 0]))
    return slope


def point_gradient(theta):
    return batch_gradient(theta[None])[0]


@pytest.fixture
def theta():
    return np.random.default_rng(0).standard_normal((37, 3))


# --- batch or point


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(
    ("density", "vectorized"),
    [
        (batch_density, True),
        (point_density, False),
        (either_density, True),
        (plain_density, False),
        (lambda t: -0.5 * t[0] ** 2, False),
        (lambda t: -0.5 * anp.sum(t**2, axis=0), False),
        (lambda t: anp.reshape(-0.5 * anp.sum(t**2), (1,)), False),
        (lambda t: -0.5 * anp.sum(t**2, axis=1, keepdims=True), False),
        (lambda t: -0.5 * anp.sum(t**2, axis=1) - anp.mean(t), False),
        (lambda t: -0.5 * anp.dot(t, t), False),
        (lambda t: 3.0, False),
        (lambda t: np.full(len(t), 3.0), True),
    ],
)
def test_batches_are_told_from_points(density, vectorized, dim):
    assert CallableTarget(density, dim).vectorized is vectorized


@pytest.mark.parametrize("dim", DIMS)
def test_the_batch_of_the_trial_is_never_square(dim):
    shapes = []

    def density(theta):
        shapes.append(theta.shape)
        return -0.5 * anp.sum(theta**2, axis=1)

    CallableTarget(density, dim)
    n, d = shapes[0]
    assert d == dim
    assert n not in (1, dim)


def test_a_given_answer_is_not_tried_out():
    def density(theta):
        raise AssertionError("called")

    assert CallableTarget(density, 2, vectorized=True).vectorized
    assert not CallableTarget(density, 2, vectorized=False).vectorized


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyError, OverflowError])
def test_any_failure_of_a_batch_means_points(error):
    def density(theta):
        if theta.ndim == 2:
            raise error("no batches here")
        return -0.5 * anp.sum(theta**2)

    target = CallableTarget(density, 2)
    assert not target.vectorized
    assert_allclose(target.log_density(np.ones((4, 2))), -1.0)


def test_an_interrupt_is_not_taken_for_an_answer():
    def density(theta):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CallableTarget(density, 2)


# --- values and scores


@pytest.mark.parametrize(
    ("density", "gradient"),
    [
        (batch_density, None),
        (point_density, None),
        (batch_density, batch_gradient),
        (point_density, point_gradient),
    ],
    ids=["batch", "point", "batch, gradient given", "point, gradient given"],
)
def test_values_and_scores(density, gradient, theta):
    target = CallableTarget(density, 3, gradient)
    value, score = target.value_and_score(theta)
    assert_allclose(value, batch_density(theta))
    assert_allclose(score, batch_gradient(theta))
    assert_allclose(target.log_density(theta), value)


def test_a_function_that_autograd_can_not_follow_needs_its_gradient(theta):
    with pytest.raises(LogDensityError, match="autograd.numpy, or pass gradient="):
        CallableTarget(plain_density, 3).value_and_score(theta)
    value, score = CallableTarget(plain_density, 3, plain_gradient).value_and_score(
        theta
    )
    assert_allclose(value, -0.5 * (theta**2).sum(axis=1))
    assert_allclose(score, -theta)


def test_draws_are_left_alone(theta):
    before = theta.copy()
    CallableTarget(batch_density, 3).value_and_score(theta)
    assert np.array_equal(theta, before)


def test_evaluations_are_counted(theta):
    target = CallableTarget(point_density, 3)
    target.log_density(theta)
    target.value_and_score(theta[:5])
    assert target.n_evaluations == len(theta) + 5


@pytest.mark.parametrize("density", [batch_density, point_density])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 2049])
def test_chunks_come_back_in_order(density, n):
    draws = np.random.default_rng(1).standard_normal((n, 2))
    value, score = CallableTarget(density, 2).value_and_score(draws)
    assert_allclose(value, batch_density(draws))
    assert_allclose(score, batch_gradient(draws))


@pytest.mark.parametrize("batches", [True, False])
def test_parallel_evaluation_gives_the_same_bits(batches):
    # Defined here: worker processes can not import a test module.
    def density(theta):
        first = theta[:, 0] if batches else theta[0]
        return -0.5 * anp.sum(theta**2, axis=-1) - anp.log1p(anp.exp(first))

    n = 5000 if batches else 100
    draws = np.random.default_rng(1).standard_normal((n, 2))
    one = CallableTarget(density, 2, n_jobs=1).value_and_score(draws)
    two = CallableTarget(density, 2, n_jobs=2).value_and_score(draws)
    assert all(map(np.array_equal, one, two))


# --- densities that are zero somewhere


def half_line(theta):
    return anp.where(theta[:, 0] > 0, -theta[:, 0], -anp.inf)


def half_line_of_a_point(theta):
    return -theta[0] if theta[0] > 0 else -np.inf


@pytest.mark.parametrize("density", [half_line, half_line_of_a_point])
def test_zero_densities_are_legal_and_quiet(density):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, score = CallableTarget(density, 1).value_and_score(
            np.array([[2.0], [-1.0]])
        )
    assert_allclose(value, [-2.0, -np.inf])
    assert_allclose(score, [[-1.0], [0.0]])


def test_a_constant_is_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, score = CallableTarget(lambda t: 3.0, 2).value_and_score(np.ones((2, 2)))
    assert_allclose(value, 3.0)
    assert_allclose(score, 0.0)


def test_warnings_of_the_function_itself_are_kept():
    def density(theta):
        warnings.warn("my own", UserWarning, stacklevel=1)
        return -0.5 * anp.sum(theta**2, axis=1)

    target = CallableTarget(density, 2, vectorized=True)
    with pytest.warns(UserWarning, match="my own"):
        target.log_density(np.ones((2, 2)))


# --- errors, each with the point


def fails_beyond(limit, value):
    """A point density that misbehaves to the right of a limit."""

    def density(theta):
        if theta[0] > limit:
            return value(theta) if callable(value) else value
        return -0.5 * anp.sum(theta**2)

    return density


POINTS = np.array([[0.0, 0.5], [7.25, 0.5], [8.0, 0.5]])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.nan, "below \\+inf"),
        (np.inf, "below \\+inf"),
        (lambda t: np.zeros(2), "one number"),
        (lambda t: None, "log_density"),
        (lambda t: 1 / 0, "ZeroDivisionError"),
        (lambda t: {}["gone"], "KeyError"),
    ],
    ids=["NaN", "inf", "shape", "None", "ZeroDivisionError", "KeyError"],
)
def test_errors_of_a_point_density_show_the_point(value, words):
    target = CallableTarget(fails_beyond(5.0, value), 2)
    for method in (target.log_density, target.value_and_score):
        with pytest.raises(LogDensityError, match=words) as caught:
            method(POINTS)
        assert "7.25" in str(caught.value)
        assert "8.0" not in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_errors_of_a_batch_density_show_the_point(bad):
    target = CallableTarget(
        lambda t: anp.where(t[:, 0] > 5, bad, -0.5 * anp.sum(t**2, axis=1)), 2
    )
    assert target.vectorized
    for method in (target.log_density, target.value_and_score):
        with pytest.raises(LogDensityError, match="7.25"):
            method(POINTS)


def test_a_batch_of_another_shape_is_refused():
    target = CallableTarget(lambda t: -0.5 * anp.sum(t**2), 2, vectorized=True)
    with pytest.raises(LogDensityError, match="vectorized=False"):
        target.log_density(POINTS)
    with pytest.raises(LogDensityError, match="vectorized=False"):
        target.value_and_score(POINTS)


@pytest.mark.parametrize(
    ("gradient", "words"),
    [
        (lambda t: np.zeros((len(t), 3)), "gradient must return shape"),
        (lambda t: np.full(t.shape, np.nan), "gradient of log_density must be finite"),
        (lambda t: 1 / 0, "gradient failed with ZeroDivisionError"),
    ],
    ids=["shape", "NaN", "exception"],
)
def test_errors_of_a_given_gradient(gradient, words):
    target = CallableTarget(either_density, 2, gradient)
    with pytest.raises(LogDensityError, match=words):
        target.value_and_score(POINTS)


def test_a_derivative_that_is_not_there_is_an_error():
    target = CallableTarget(lambda t: -anp.sqrt(anp.sum(t**2, axis=1)), 2)
    with pytest.raises(LogDensityError, match="derivative"):
        target.value_and_score(np.zeros((3, 2)))


def test_a_function_that_never_works_says_why():
    def density(theta):
        return theta.does_not_exist

    target = CallableTarget(density, 2)
    with pytest.raises(LogDensityError, match="does_not_exist") as caught:
        target.log_density(POINTS)
    assert isinstance(caught.value.__cause__, AttributeError)


# --- likelihood and prior


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_only_the_likelihood_is_tempered(temperature, theta):
    likelihood = CallableTarget(batch_density, 3)
    prior = CallableTarget(either_density, 3)
    value, score = ComposedTarget(likelihood, prior, temperature).value_and_score(theta)
    assert_allclose(value, temperature * batch_density(theta) + either_density(theta))
    assert_allclose(score, temperature * batch_gradient(theta) - theta)


def test_evaluations_of_the_likelihood_are_counted(theta):
    target = ComposedTarget(
        CallableTarget(batch_density, 3), CallableTarget(either_density, 3)
    )
    assert_allclose(target.log_density(theta), target.value_and_score(theta)[0])
    assert target.n_evaluations == 2 * len(theta)
    assert target.dim == 3
