"""Posteriors of the mixtures that ``tests/mixtures`` makes."""

import pytest

from skboost.posterior import MixturePosterior

from ..approximation.conftest import (  # noqa: F401  (fixtures of these tests as well)
    FAMILIES,
    families,
    make_mixture,
    mixture,
    normal_mixture,
)


@pytest.fixture
def posterior(mixture):  # noqa: F811  (the fixture by that name)
    return MixturePosterior(mixture, names=["a", "b", "c"])
