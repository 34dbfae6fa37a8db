"""SVA, SVB and NGVI step by step, with gradients by differences of quadratures.

The formulas are those of Alquier 2019 (section on online variational inference),
written down once more without the package's own forms.
"""

from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from numpy.testing import assert_allclose

from skboost.online import (
    NGVI,
    SVA,
    SVB,
    DiagonalStream,
    FullStream,
    LogisticLoss,
    Rule,
)

SCALE = np.array([1.0, 0.5, 2.0])
TABLE = np.array(
    [
        # x1, x2, x3, y
        [1.0, -0.5, 0.3, 1.0],
        [0.2, 1.5, -1.0, 0.0],
        [-0.7, 0.0, 0.8, 1.0],
        [0.0, 0.4, 1.1, 1.0],
        [2.0, -1.0, 0.0, 0.0],
        [-0.3, 0.9, -0.6, 1.0],
    ]
)
X, Y = TABLE[:, :3], TABLE[:, 3]
NODES, WEIGHTS = hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def expected_loss(mean, root, x, y):
    """E[-ln p(y | x)] under N(mean, root root^T)."""
    t = x @ mean + np.linalg.norm(x @ root) * NODES
    return WEIGHTS @ (np.logaddexp(0.0, t) - y * t)


def differences(function, at, step=1e-5):
    """Gradient by central differences."""
    found = np.empty(at.size)
    for j in range(at.size):
        ends = []
        for sign in (1.0, -1.0):
            moved = at.astype(float).ravel()
            moved[j] += sign * step
            ends.append(function(moved.reshape(at.shape)))
        found[j] = (ends[0] - ends[1]) / (2.0 * step)
    return found.reshape(at.shape)


def gradients(m, sigma, x, y):
    """In the means and in the standard deviations."""
    by_m = differences(lambda at: expected_loss(at, np.diag(sigma), x, y), m)
    by_sigma = differences(lambda at: expected_loss(m, np.diag(at), x, y), sigma)
    return by_m, by_sigma


def h(x):
    return np.sqrt(1.0 + x**2) - x


def sva(a):
    m, sigma, total = np.zeros(3), SCALE, np.zeros(3)
    for x, y in zip(X, Y, strict=True):
        by_m, by_sigma = gradients(m, sigma, x, y)
        m, total = m - a * SCALE**2 * by_m, total + by_sigma
        sigma = SCALE * h(0.5 * a * SCALE * total)
        yield m, sigma


def svb(a):
    m, sigma = np.zeros(3), SCALE
    for x, y in zip(X, Y, strict=True):
        by_m, by_sigma = gradients(m, sigma, x, y)
        m, sigma = m - a * sigma**2 * by_m, sigma * h(0.5 * a * sigma * by_sigma)
        yield m, sigma


def ngvi(a, beta=0.8):
    m, sigma = np.zeros(3), SCALE
    # A rate without a bound keeps all that it has learned.
    rho, size = beta / (a + beta), beta / (1.0 + beta / a)
    prior = np.array([0.0 * SCALE, -0.5 / SCALE**2])
    for x, y in zip(X, Y, strict=True):
        by_m, by_sigma = gradients(m, sigma, x, y)
        by_variance = by_sigma / (2.0 * sigma)
        # In the expectation parameters E[theta], E[theta^2].
        gradient = np.array([by_m - 2.0 * m * by_variance, by_variance])
        natural = np.array([m / sigma**2, -0.5 / sigma**2])
        natural = (1.0 - rho) * natural + rho * prior - size * gradient
        sigma = np.sqrt(-0.5 / natural[1])
        m = natural[0] * sigma**2
        yield m, sigma


REFERENCES = {"sva": (SVA, sva), "svb": (SVB, svb), "ngvi": (NGVI, ngvi)}


@pytest.mark.parametrize(
    ("name", "a"), [*product(REFERENCES, [0.3, 2.0]), ("ngvi", np.inf)]
)
def test_every_step_is_the_published_one(name, a):
    method, reference = REFERENCES[name]
    stream = DiagonalStream.begin(Rule(method(), LogisticLoss(), a, 0.8), SCALE)
    for i, (m, sigma) in enumerate(reference(a)):
        stream, eta = stream.absorb(X[i : i + 1], Y[i : i + 1], np.ones(1))
        assert_allclose(stream.mean, m, atol=1e-8, rtol=0)
        assert_allclose(np.sqrt(stream.covariance), sigma, atol=1e-8, rtol=0)


@pytest.mark.parametrize("a", [2.0, np.inf])
def test_ngvi_with_a_full_covariance(a, beta=0.8):
    stream = FullStream.begin(Rule(NGVI(), LogisticLoss(), a, beta), SCALE)
    rho, size = beta / (a + beta), beta / (1.0 + beta / a)
    m, S = np.zeros(3), np.diag(SCALE**2)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        root = np.linalg.cholesky(S)
        row = {"x": x, "y": y}
        by_m = differences(partial(expected_loss, root=root, **row), m)
        by_root = differences(partial(expected_loss, m, **row), root)
        by_S = 0.5 * by_root @ np.linalg.inv(root)
        first = np.linalg.solve(S, m) * (1.0 - rho) - size * (by_m - 2.0 * by_S @ m)
        precision = (1.0 - rho) * np.linalg.inv(S) + rho * np.diag(SCALE**-2.0)
        S = np.linalg.inv(precision + 2.0 * size * by_S)
        m = S @ first
        stream, _ = stream.absorb(X[i : i + 1], Y[i : i + 1], np.ones(1))
        assert_allclose(stream.mean, m, atol=1e-8, rtol=0)
        assert_allclose(stream.covariance, S, atol=1e-8, rtol=0)
