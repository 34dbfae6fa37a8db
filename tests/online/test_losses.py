"""Derivatives of expected losses against quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from skboost.online import GaussianLoss, LogisticLoss

MEANS = [-700.0, -30.0, -3.0, -0.2, 0.0, 0.7, 12.0, 500.0]
STDS = [0.0, 1e-7, 0.01, 0.2, 0.9, 2.7, 3.5, 5.0, 40.0]


def by_quadrature(mean, sd):
    """E sigmoid(t) and E sigmoid'(t) by a fine trapezoid rule."""
    z = np.linspace(-12.0, 12.0, 400_001)
    weights = np.exp(-0.5 * z**2)
    p = expit(mean + sd * z)
    return np.array([weights @ p, weights @ (p * (1.0 - p))]) / weights.sum()


@pytest.mark.parametrize("sd", STDS)
def test_one_row_of_the_logistic_loss_agrees_with_quadrature(sd):
    for mean in MEANS:
        sigmoid, slope = by_quadrature(mean, sd)
        found = LogisticLoss.one(mean, sd, 1.0, 1.0)
        assert_allclose(found, (sigmoid - 1.0, slope), atol=1e-10, rtol=0)


@pytest.mark.parametrize("loss", [LogisticLoss(), GaussianLoss(0.7)])
def test_many_rows_are_each_row(loss):
    mean, sd = (grid.ravel() for grid in np.meshgrid(MEANS, STDS))
    many = loss.many(mean, sd, np.ones_like(mean))
    one = [loss.one(m, s, 1.0, loss.noise_scale) for m, s in zip(mean, sd, strict=True)]
    assert_allclose(np.transpose(many), one, atol=1e-12, rtol=1e-13)


@pytest.mark.parametrize("loss", [LogisticLoss(), GaussianLoss(0.7)])
def test_derivatives_without_spread_are_those_of_the_loss(loss):
    eta, step = np.linspace(-3.0, 3.0, 9), 1e-5
    slope, _ = loss.many(eta, np.zeros(9), np.ones(9))
    up, down = loss.at(eta + step, 1.0), loss.at(eta - step, 1.0)
    assert_allclose(slope, (up - down) / (2 * step), atol=1e-8, rtol=0)
