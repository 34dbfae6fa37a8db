"""A target of constrained parameters, in unconstrained coordinates."""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad

from skboost.targets import (
    CallableTarget,
    FailedEvaluationError,
    TransformedTarget,
)
from skboost.transforms import Constraints

from .conftest import check_score

CONSTRAINTS = Constraints({0: "positive", (1, 2, 3): "simplex", 4: (-1, 2)}, 6)


def log_density(theta):
    logs = anp.sum(anp.log(theta[:, :4]), axis=1)
    return 2.0 * logs - theta[:, 0] - 0.5 * anp.sum(theta[:, 4:] ** 2, axis=1)


@pytest.fixture
def target():
    probe = CONSTRAINTS.forward(np.zeros((4, 5)))
    return TransformedTarget(CallableTarget(log_density, 6, probe=probe), CONSTRAINTS)


def test_value_is_the_density_and_the_jacobian(target):
    z = np.random.default_rng(0).standard_normal((20, 5))
    expected = log_density(CONSTRAINTS.forward(z)) + CONSTRAINTS.log_jacobian(z)
    assert target.dim == 5
    assert_allclose(target.log_density(z), expected)
    assert target.n_evaluations == 20
    assert_allclose(target.value_and_score(z)[0], expected)
    assert target.n_evaluations == 40


def test_scores_are_those_of_differences(target):
    z = np.random.default_rng(1).standard_normal((6, 5))
    check_score(target, z, rtol=1e-7, atol=1e-7)


def test_the_normaliser_stays():
    posterior = stats.gamma(2.5, scale=0.3)
    target = TransformedTarget(
        CallableTarget(lambda t: posterior.logpdf(t[:, 0]), 1, gradient=np.zeros_like),
        Constraints("positive", 1),
    )
    mass = quad(lambda z: np.exp(target.log_density([[z]])[0]), -20, 6, limit=200)[0]
    assert mass == pytest.approx(1.0, abs=1e-8)


def test_far_out_values_and_scores_are_numbers(target):
    z = np.random.default_rng(2).choice([-650.0, -60.0, 0.0, 60.0, 650.0], (200, 5))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        value, score = target.value_and_score(z[np.abs(z[:, 4]) < 60])
    assert not np.isnan(value).any()
    assert np.isfinite(score).all()


def test_a_density_of_zero_has_no_score():
    def half(theta):
        return anp.where(theta[:, 0] > 1.0, -theta[:, 0], -anp.inf)

    target = TransformedTarget(CallableTarget(half, 1), Constraints("positive", 1))
    value, score = target.value_and_score(np.array([[-1.0], [1.0]]))
    assert value[0] == -np.inf
    assert score[0] == 0.0
    assert_allclose(score[1], 1.0 - np.exp(1.0))


def test_failures_are_those_of_the_users_function():
    def fails(theta):
        raise ArithmeticError("here")

    target = CallableTarget(fails, 1, vectorized=True)
    view = TransformedTarget(target, Constraints("positive", 1))
    value, _ = view.value_and_score(np.array([[0.3]]))
    assert np.isneginf([value, view.log_density(np.array([[0.3]]))]).all()
    assert view.n_failures == target.n_failures == 2
    assert "here" in view.first_failure
    with pytest.raises(FailedEvaluationError, match="here"):
        view.log_density(np.array([[0.3]]), strict=True)
