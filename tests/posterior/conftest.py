"""Posteriors of the mixtures that the tests of approximations make."""

import pytest

from skboost.posterior import MixturePosterior

from ..approximation.conftest import (  # noqa: F401  (fixtures of these tests as well)
    FAMILIES,
    make_mixture,
    mixture,
    normal_mixture,
)


@pytest.fixture(params=["mixed", "student_t"], scope="session")
def families(request):
    """Every family is tested by itself; these have kinks, and moments that are none."""
    return FAMILIES[request.param]


@pytest.fixture
def posterior(mixture):  # noqa: F811  (the fixture by that name)
    return MixturePosterior(mixture, names=["a", "b", "c"])
