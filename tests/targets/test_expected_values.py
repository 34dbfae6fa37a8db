"""Expectations under several Gaussians at once, some of them multiples of others."""

import numpy as np
import pytest

from skboost.approximation import Mixture
from skboost.families import Gaussian
from skboost.targets import (
    Logistic,
    Multinomial,
    NoiseScalePrior,
    NoisyGLMTarget,
    NormalNoise,
    Poisson,
    updated_target,
)

from .conftest import glm, table

LIKELIHOODS = {
    "logistic": Logistic(),
    "multinomial": Multinomial(3),
    "four": Multinomial(4),
    "poisson": Poisson(),
}


def make_target(kind):
    rng = np.random.default_rng(0)
    if kind == "noise":
        rows = table(rng.normal(size=(40, 3)), rng.normal(size=40))
        return NoisyGLMTarget(rows, NormalNoise(), NoiseScalePrior(1.0, 0.5))
    X, weight = rng.normal(size=(40, 3)), rng.uniform(0.2, 2.0, 40)
    y = rng.integers(0, {"four": 4, "multinomial": 3}.get(kind, 2), 40)
    offset = rng.normal(size=40)
    return glm(X, y, LIKELIHOODS[kind], weight, offset, temperature=0.8)


def gaussian(dim, seed=1):
    """A mean and a Cholesky factor."""
    rng = np.random.default_rng(seed)
    factor = np.tril(0.2 * rng.normal(size=(dim, dim)), -1)
    return 0.3 * rng.normal(size=dim), factor + np.diag(rng.uniform(0.3, 0.6, dim))


def structures(dim):
    """Gaussians of every kind, some of them multiples of each other."""
    mean, factor = gaussian(dim)
    variance = np.linspace(0.1, 0.5, dim)
    return [
        (mean, None, factor),
        (mean + 0.3, None, 2.5 * factor),
        (mean, None, factor[:, :2]),
        (-mean, variance, None),
        (mean, variance, factor[:, :1]),
        (0.5 * mean, None, -0.1 * factor),
        (mean, None, gaussian(dim, seed=5)[1]),
        (mean, None, np.zeros((dim, dim))),
        (mean,),
    ]


@pytest.mark.parametrize("kind", [*LIKELIHOODS, "noise"])
def test_values_are_those_of_one_at_a_time(kind):
    target = make_target(kind)
    given = structures(target.dim)
    expected = [target.expected_log_density(*s)[0] for s in given]
    found = target.expected_values(given)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    # As the prior of more data.
    family = Gaussian("full")
    params = family.from_moments(np.full(target.dim, 0.2), np.eye(target.dim))
    updated = updated_target(target, Mixture.single(family, params), 0.7)
    expected = [updated.expected_log_density(*s)[0] for s in given]
    np.testing.assert_allclose(updated.expected_values(given), expected, rtol=1e-10)
