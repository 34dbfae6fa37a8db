"""Every family with every covariance: a new one is tested by being registered."""

import numpy as np
import pytest
from scipy.stats import qmc

from skboost.families import FAMILIES, LowRankGaussian, StudentT, as_family

# Three ranks: below, at and (the default, ten) above the dimension of the tests.
_MORE = [StudentT("diag"), LowRankGaussian(1), LowRankGaussian(3)]
_NAMED = [as_family(name, 3) for name in FAMILIES]
# By what they print: some names stand for one and the same family.
FAMILY_OBJECTS = {repr(family): family for family in [*_NAMED, *_MORE]}
EVERY = list(FAMILY_OBJECTS.values())


@pytest.fixture(params=EVERY, ids=repr)
def family(request):
    return request.param


@pytest.fixture(params=[f for f in EVERY if f.exact_expectations], ids=repr)
def gaussian(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture
def component(rng):
    """``component(family, dim)``: parameters in general position."""

    def draw(family, dim):
        return 0.5 * rng.standard_normal(family.n_params(dim))

    return draw


def central_differences(func, x, step=1e-6):
    """Derivatives of a scalar function."""
    rows = step * np.eye(x.size)
    return np.array([func(x + h) - func(x - h) for h in rows]) / (2 * step)


@pytest.fixture
def slope():
    return central_differences


def chart_fisher_information(family, params, n, rng):
    """Fisher information in the chart at 0, and the standard error of `n` draws.

    A quarter as many quasi-random points are closer than these.
    """
    dim = family.dim_of(params)
    sobol = qmc.Sobol(family.base_dim(dim), seed=rng)
    eps = family._quantile(sobol.random(n // 4))
    one, zero = np.ones(1), np.zeros_like(params)
    scores = np.array(
        [
            family.pull_move(params, zero, family.at(params, point[None]).pull(one))
            for point in family.transport(params, eps)
        ]
    )
    products = np.einsum("ni,nj->nij", scores, scores)
    return products.mean(axis=0), products.std(axis=0) / np.sqrt(n)
