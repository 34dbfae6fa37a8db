"""Mixtures of every family, also for the tests of posteriors."""

import numpy as np
import pytest

from skboost.approximation import Mixture
from skboost.families import (
    DiagonalGaussian,
    FullGaussian,
    Laplace,
    LowRankGaussian,
    StudentT,
)

FAMILIES = {
    "full": [FullGaussian()] * 3,
    "diag": [DiagonalGaussian()] * 3,
    "low_rank": [LowRankGaussian(rank=1)] * 3,
    "laplace": [Laplace()] * 3,
    "student_t": [StudentT("full"), StudentT("diag", 30.0), StudentT("full", 8.0)],
    "mixed": [FullGaussian(), Laplace(), DiagonalGaussian(), FullGaussian()],
}


def make_mixture(families, dim, seed=0, spread=1.5):
    rng = np.random.default_rng(seed)
    components = []
    for family in families:
        a = rng.standard_normal((dim, dim))
        covariance = a @ a.T / dim + 0.2 * np.eye(dim)
        mean = spread * rng.standard_normal(dim)
        components.append((family, family.from_moments(mean, covariance)))
    return Mixture(tuple(components), rng.dirichlet(np.full(len(components), 2.0)))


@pytest.fixture(params=FAMILIES.values(), ids=FAMILIES.keys())
def families(request):
    return request.param


@pytest.fixture
def mixture(families):
    """Three or four components in three dimensions."""
    return make_mixture(families, 3)


def normals(means, stds, weights, family=None):
    """Components of a family on the line."""
    family = FullGaussian() if family is None else family
    components = tuple(
        (family, family.from_moments(np.array([m]), np.array([s**2])))
        for m, s in zip(means, stds, strict=True)
    )
    return Mixture(components, np.array(weights))


@pytest.fixture
def normal_mixture():
    return normals


@pytest.fixture
def rng():
    return np.random.default_rng(7)
