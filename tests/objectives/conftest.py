"""Small targets, mixtures and pools for the problems over densities."""

import numpy as np
import pytest

from skboost.approximation import Mixture, PooledDraws
from skboost.families import Component
from skboost.targets import GLMTarget, Logistic, Table, Target

from ..families.conftest import FAMILY_OBJECTS, slope  # noqa: F401  (a fixture)


class Skewed(Target):
    """A smooth density without symmetry: nothing about it is known in closed form."""

    def __init__(self, dim):
        self.dim = dim

    def value_and_score(self, theta):
        value = -0.5 * (theta**2).sum(axis=1) - np.logaddexp(0.0, 3.0 * theta).sum(
            axis=1
        )
        return value, -theta - 3.0 / (1.0 + np.exp(-3.0 * theta))


def logistic_target(dim):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((12, dim)), rng.integers(0, 2, 12)
    return GLMTarget(Table(X, y), Logistic(), fit_intercept=False)


TARGETS = {"exact": logistic_target, "Monte Carlo": Skewed}


def _cases():
    for family_name, family in FAMILY_OBJECTS.items():
        if "rank=3" in family_name:  # as many as there are dimensions
            continue
        for target_name, make in TARGETS.items():
            exact = target_name == "exact"
            if exact and not family.exact_expectations:
                continue
            yield pytest.param((family, make, exact), id=f"{family_name}-{target_name}")


@pytest.fixture(params=_cases())
def case(request):
    """A family, ``target(dim)``, and whether its expectations are exact."""
    return request.param


@pytest.fixture
def components():
    """``components(family, dim, n, seed)``: n of them, in general position."""

    def draw(family, dim, n, seed=0):
        rng = np.random.default_rng(seed)
        size = family.n_params(dim)
        return [Component(family, 0.4 * rng.standard_normal(size)) for _ in range(n)]

    return draw


@pytest.fixture
def pooled():
    """``pooled(target, components, weights, exact)``: a mixture and its pool."""

    def make(target, components, weights, exact, n=64, seed=0):
        rng = np.random.default_rng(seed)
        mixture = Mixture(tuple(components), np.asarray(weights))
        base = [component.base_draws(n, rng) for component in components]
        return mixture, PooledDraws.of(target, mixture, base, exact)

    return make
