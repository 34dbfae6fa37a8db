"""Targets from any Python function: gradients, batches, and errors with the point."""

import math
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from autograd.scipy.special import logsumexp as log_of_sum
from numpy.testing import assert_allclose, assert_array_equal

from skboost.approximation import Mixture
from skboost.families import Component, DiagonalGaussian
from skboost.targets import (
    CallableTarget,
    ComposedTarget,
    FailedEvaluationError,
    LogDensityError,
    OverwrittenArgumentError,
)

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
        (lambda t: -0.5 * anp.sum(t**2, axis=1) - anp.mean(t), False),
        (lambda t: -0.5 * anp.dot(t, t), False),
        (lambda t: 3.0, False),
        (lambda t: np.full(len(t), 3.0), True),
    ],
)
def test_batches_are_told_from_points(density, vectorized):
    for dim in DIMS:
        assert CallableTarget(density, dim).vectorized is vectorized


def test_the_batch_of_the_trial_is_never_square():
    shapes = []

    def density(theta):
        shapes.append(theta.shape)
        return -0.5 * anp.sum(theta**2, axis=1)

    for dim in DIMS:
        shapes.clear()
        CallableTarget(density, dim)
        n, d = shapes[0]
        assert d == dim and n not in (1, dim)


def test_any_failure_of_a_batch_means_points():
    error = KeyError

    def density(theta):
        if theta.ndim == 2:
            raise error("no batches here")
        return -0.5 * anp.sum(theta**2)

    target = CallableTarget(density, 2)
    assert not target.vectorized
    assert_allclose(target.log_density(np.ones((4, 2))), -1.0)
    # An interruption is no failure.
    error = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        CallableTarget(density, 2)


# --- values and scores


@pytest.mark.parametrize(
    ("density", "gradient", "n"),
    [
        (batch_density, None, 2049),
        (point_density, None, 17),
        (batch_density, batch_gradient, 1),
        (point_density, point_gradient, 8),
    ],
    ids=["batch", "point", "batch, gradient given", "point, gradient given"],
)
def test_values_and_scores(density, gradient, n):
    """Chunks come back in order."""
    theta = np.random.default_rng(0).standard_normal((n, 3))
    target, before = CallableTarget(density, 3, gradient), theta.copy()
    value, score = target.value_and_score(theta)
    assert_allclose(value, batch_density(theta))
    assert_allclose(score, batch_gradient(theta))
    assert_allclose(target.log_density(theta[:5]), value[:5])
    assert target.n_evaluations == len(theta) + len(theta[:5])
    assert np.array_equal(theta, before)


def test_a_function_that_autograd_can_not_follow_needs_its_gradient(theta):
    with pytest.raises(LogDensityError, match="autograd.numpy, or pass gradient="):
        CallableTarget(plain_density, 3).value_and_score(theta, strict=True)
    target = CallableTarget(plain_density, 3, plain_gradient)
    value, score = target.value_and_score(theta)
    assert_allclose(value, -0.5 * (theta**2).sum(axis=1))
    assert_allclose(score, -theta)


@pytest.mark.slow
def test_processes_give_the_same_bits_and_the_same_failures():
    # Defined here: worker processes can not import a test module. Exceptions of one's
    # own need not survive a pickle.
    class Odd(Exception):
        def __init__(self, one, two):
            super().__init__("odd")

    def of_batches(theta):
        return -0.5 * anp.sum(theta**2, axis=1) - anp.log1p(anp.exp(theta[:, 0]))

    def of_points(theta):
        if theta[0] > 1.0:
            raise Odd(1, 2)
        return -0.5 * anp.sum(theta**2)

    draws, found = np.random.default_rng(1).standard_normal((5000, 2)), []
    for n_jobs in (1, 2):
        batches = CallableTarget(of_batches, 2, n_jobs=n_jobs)
        points = CallableTarget(of_points, 2, vectorized=False, n_jobs=n_jobs)
        values = points.value_and_score(draws[:60])
        failures = [points.n_failures, points.first_failure]
        found.append([*batches.value_and_score(draws), *values, *failures])
        with pytest.raises(FailedEvaluationError, match="Odd"):
            points.log_density(draws[:60], strict=True)
    assert all(map(np.array_equal, *found))
    assert failures[0] == (draws[:60, 0] > 1.0).sum() > 0


# --- densities that are zero somewhere


def half_line(theta):
    return anp.where(theta[:, 0] > 0, -theta[:, 0], -anp.inf)


@pytest.mark.parametrize(
    ("density", "values", "slopes"),
    [
        (half_line, [-2.0, -np.inf], [-1.0, 0.0]),
        (lambda t: -t[0] if t[0] > 0 else -np.inf, [-2.0, -np.inf], [-1.0, 0.0]),
        (lambda t: 3.0, [3.0, 3.0], [0.0, 0.0]),
    ],
    ids=["batch", "point", "constant"],
)
def test_zero_densities_and_constants_are_legal_and_quiet(density, values, slopes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, score = CallableTarget(density, 1).value_and_score(
            np.array([[2.0], [-1.0]])
        )
    assert_allclose(value, values)
    assert_allclose(score[:, 0], slopes)


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


def batch_beyond(limit, value):
    """The same for a batch."""
    return lambda t: anp.where(t[:, 0] > limit, value, -0.5 * anp.sum(t**2, axis=1))


@pytest.mark.parametrize(
    ("density", "words"),
    [
        (fails_beyond(5.0, np.nan), "below \\+inf"),
        (fails_beyond(5.0, lambda t: np.zeros(2)), "one number"),
        (fails_beyond(5.0, lambda t: None), "log_density"),
        (fails_beyond(5.0, lambda t: 1 / 0), "ZeroDivisionError"),
        (fails_beyond(5.0, lambda t: {}["gone"]), "KeyError"),
        (batch_beyond(5.0, np.inf), "below \\+inf"),
    ],
)
def test_errors_show_the_first_point(density, words):
    target = CallableTarget(density, 2)
    for method in (target.log_density, target.value_and_score):
        with pytest.raises(LogDensityError, match=words) as caught:
            method(POINTS, strict=True)
        assert "7.25" in str(caught.value)
        assert "8.0" not in str(caught.value)


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
        target.value_and_score(POINTS, strict=True)


@pytest.mark.parametrize(
    ("density", "why"),
    [
        (lambda t: anp.squeeze(-(t[:, 0] ** 2)), "gave other values than for its rows"),
        (lambda t: -(t[:, 2] ** 2), "index 2 is out of bounds for axis 1 with size 2"),
    ],
)
def test_an_error_says_why_no_batch_was_passed(density, why):
    target = CallableTarget(density, 2)
    for method in (target.log_density, target.value_and_score):
        with pytest.raises(LogDensityError, match=f"of one point, because .*{why}"):
            method(np.ones((4, 2)), strict=True)


@pytest.mark.parametrize(
    ("density", "gradient", "shape"),
    [
        (batch_density, lambda t: np.array([-t[0], -t[1]]), r"\(1, 2\)"),
        (point_density, lambda t: np.column_stack([-t[:, 0], -t[:, 1]]), r"\(2,\)"),
    ],
)
def test_a_gradient_of_another_form_is_told_what_it_is_passed(density, gradient, shape):
    target = CallableTarget(density, 2, gradient)
    with pytest.raises(LogDensityError, match=f"gradient failed.*is: shape {shape}"):
        target.value_and_score(np.ones((1, 2)), strict=True)


def test_a_function_of_one_point_fails_without_a_word_on_batches(theta):
    def density(theta):
        if theta[0] > 1.0:
            raise ZeroDivisionError
        return -0.5 * anp.dot(theta, theta)

    with pytest.raises(FailedEvaluationError) as error:
        CallableTarget(density, 3).log_density(theta, strict=True)
    assert "of one point" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "vectorized", "words"),
    [
        (lambda t: anp.sum(t**2, axis=1) + 1j, True, "complex"),
        (lambda t: "seven", None, "str"),
        (lambda t: 10**400, None, "int"),
        (lambda t: None, True, "None at"),
        (lambda t: None, False, "None at"),
    ],
)
def test_what_is_no_number_is_named(value, vectorized, words, theta):
    target = CallableTarget(value, 3, vectorized=vectorized)
    for ask in (target.log_density, target.value_and_score):
        with pytest.raises(LogDensityError, match=f"must return numbers; got {words}"):
            ask(theta)


# --- one row of a batch


def batch_that_raises(bad, calls=None):
    """A batch density that raises if any first coordinate is among `bad`."""

    def density(theta):
        if calls is not None:
            calls.append(len(theta))
        if np.isin(getattr(theta, "_value", theta)[:, 0], bad).any():
            raise ZeroDivisionError("not here")
        return -0.5 * anp.sum(theta**2, axis=1)

    return density


@pytest.mark.parametrize("gradient", [None, plain_gradient])
def test_a_batch_that_raises_names_the_row(gradient, theta):
    bad = theta[[17, 30], 0]
    target = CallableTarget(batch_that_raises(bad), 3, gradient, vectorized=True)
    for method in (target.log_density, target.value_and_score):
        with pytest.raises(FailedEvaluationError, match="not here") as caught:
            method(theta, strict=True)
        assert str(theta[17]) in str(caught.value)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("rows", [[36], [3, 4, 5, 20], [*range(37)]], ids=str)
def test_the_other_rows_of_a_batch_that_raises_keep_their_values(rows, theta):
    calls = []
    density = batch_that_raises(theta[rows, 0], calls)
    target = CallableTarget(density, 3, vectorized=True, failures="zero")
    value, score = target.value_and_score(theta)
    good = np.setdiff1d(np.arange(37), rows)
    assert_allclose(value[good], -0.5 * (theta[good] ** 2).sum(axis=1))
    assert_allclose(score[good], -theta[good])
    assert np.isneginf(value[rows]).all()
    assert not score[rows].any()
    assert target.n_failures == len(rows)
    assert str(theta[rows[0]]) in target.first_failure
    # Looking for them is no evaluation of another draw, and one row is found by
    # halving, not by trying all.
    assert target.n_evaluations == 37
    assert len(rows) > 1 or len(calls) <= 1 + 2 * np.ceil(np.log2(37))


def test_a_batch_that_fails_as_a_whole_is_said_to():
    def density(theta):
        if len(theta) > 1:
            raise MemoryError("too many")
        return -0.5 * anp.sum(theta**2, axis=1)

    target = CallableTarget(density, 2, vectorized=True)
    for strict in (False, True):
        with pytest.raises(LogDensityError, match="no smaller part.*vectorized=False"):
            target.log_density(POINTS[:2], strict)


# --- searches


def sometimes(theta):
    """Raises, NaN, +inf, and a gradient that is none, by the unit interval it is in."""
    kind = int(np.floor(float(getattr(theta[0], "_value", theta[0]))))
    if kind == 1:
        raise ArithmeticError("one")
    wrong = {2: np.nan, 3: np.inf, 4: -np.inf}
    return wrong[kind] if kind in wrong else -0.5 * anp.sum(theta**2)


AXIS = np.column_stack([[0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 1.2], np.zeros(7)])


def test_searches_see_zero_densities_where_it_fails():
    target = CallableTarget(sometimes, 2)
    with pytest.raises(FailedEvaluationError, match="1.5"):
        target.log_density(AXIS, strict=True)
    for value in (target.log_density(AXIS), target.value_and_score(AXIS)[0]):
        inf = -np.inf
        assert_allclose(value, [-0.125, inf, inf, inf, inf, -15.125, inf])
    # -inf is no failure.
    assert target.n_failures == 8
    assert "ArithmeticError('one')" in target.first_failure
    assert "1.5" in target.first_failure
    with pytest.raises(FailedEvaluationError):
        target.log_density(AXIS, strict=True)


def test_a_gradient_that_is_no_number_is_a_failure_of_searches():
    target = CallableTarget(lambda t: -anp.sqrt(anp.sum(t**2, axis=1)), 2)
    with pytest.raises(LogDensityError, match="derivative"):
        target.value_and_score(np.zeros((3, 2)), strict=True)
    target = CallableTarget(lambda t: -anp.sqrt(anp.sum(t**2, axis=1)), 2)
    value, score = target.value_and_score(np.array([[0.0, 0.0], [3.0, 4.0]]))
    assert_allclose(value, [-np.inf, -5.0])
    assert_allclose(score, [[0.0, 0.0], [-0.6, -0.8]])
    assert target.n_failures == 1
    assert "gradient" in target.first_failure


# --- likelihood and prior


def test_the_likelihood_alone_is_tempered_and_counted(theta):
    likelihood, temperature = CallableTarget(batch_density, 3), 0.3
    family = DiagonalGaussian()
    prior = Mixture.single(Component(family, family.from_moments(*np.ones((2, 3)))))
    target = ComposedTarget(likelihood, prior, temperature)
    value, score = target.value_and_score(theta)
    log_prior = prior.log_density(theta)
    assert_allclose(value, temperature * batch_density(theta) + log_prior)
    assert_allclose(score, temperature * batch_gradient(theta) + 1.0 - theta)
    assert_allclose(target.log_density(theta), value)
    assert target.n_evaluations == 2 * len(theta)
    assert target.dim == 3


# --- causes come first


@pytest.mark.parametrize("dim", [1, 3])
def test_a_column_is_called_a_column(dim):
    with pytest.raises(LogDensityError, match="got a column, shape") as caught:
        CallableTarget(lambda t: -0.5 * anp.sum(t**2, axis=1, keepdims=True), dim)
    assert str(caught.value).startswith("log_density must return one number for each")
    assert "autograd" not in str(caught.value)
    # Of one coordinate it may be a point.
    assert not CallableTarget(lambda t: -0.5 * t**2, 1).vectorized


POINTS_OF_3 = np.ones((4, 3))


def doubled(theta):
    theta *= 2.0
    return -0.5 * np.sum(theta**2, axis=-1)


def doubled_point(theta):
    assert theta.ndim == 1
    return doubled(theta)


def doubled_slope(theta):
    theta *= -1.0
    return theta


@pytest.mark.parametrize(
    ("density", "gradient", "vectorized"),
    [
        (doubled, plain_gradient, None),
        (batch_density, doubled_slope, True),
        (doubled_point, plain_gradient, False),
    ],
)
def test_functions_that_overwrite_their_argument_are_told_so(
    density, gradient, vectorized
):
    with pytest.raises(OverwrittenArgumentError, match="leave its argument as it is"):
        target = CallableTarget(density, 3, gradient, vectorized)
        target.value_and_score(POINTS_OF_3)


@pytest.mark.slow
def test_functions_that_lose_their_gradient_in_other_processes_stay_here():
    points = np.random.default_rng(0).normal(size=(5000, 2))

    def log_density(theta):  # a primitive under a name of its own
        return log_of_sum(theta, axis=1)

    one, two = (CallableTarget(log_density, dim=2, n_jobs=n) for n in (1, 2))
    for found, expected in zip(
        two.value_and_score(points), one.value_and_score(points), strict=True
    ):
        assert_array_equal(found, expected)
    assert two.n_failures == 0
