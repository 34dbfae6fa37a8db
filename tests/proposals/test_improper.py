"""Signs that a density can not be normalised: each by a density that is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.approximation import Mixture
from skboost.families import DiagonalGaussian
from skboost.proposals._density import (
    collapse_to_pole,
    drift_to_infinity,
    log_mass_near,
)
from skboost.targets import CallableTarget

FAMILY = DiagonalGaussian()


def normal(mean, std):
    return Mixture.single((FAMILY, FAMILY.from_moments(mean, np.square(std))))


def power_of_distance(power):
    """A log density that is -inf times `power` at infinity, or has a pole at zero."""
    return CallableTarget(
        lambda t: -power * np.log(np.abs(t)).sum(axis=1), 2, lambda t: -power / t
    )


def drift(target, std, start, mean=0.0):
    mixture, starts = normal([mean, 0.0], [std, 1.0]), np.array([[start, 0.0]])
    return drift_to_infinity(target, mixture, starts, np.random.default_rng(0))


def test_a_flat_direction_is_named_where_a_mixture_has_grown_along_it():
    flat = CallableTarget(
        lambda t: -0.5 * t[:, 1] ** 2, 2, lambda t: np.stack([0 * t[:, 0], -t[:, 1]], 1)
    )
    found = drift(flat, 1e7, 1.0)
    assert "seems to be improper" in found and "e+07 along theta[0]" in found
    # Or has moved; and not where starts are of that size, or it is a million wide.
    assert drift(flat, 1.0, 1.0, mean=1e7)
    assert not drift(flat, 1e7, 1e3) and not drift(flat, 9e5, 1.0)


@pytest.mark.parametrize("std", [3e6, 1e9])
def test_a_wide_density_that_holds_its_draws_together_is_proper(std):
    variance = np.array([std**2, 1.0])
    target = CallableTarget(
        lambda t: -0.5 * (t**2 / variance).sum(axis=1), 2, lambda t: -t / variance
    )
    assert drift(target, std, 1.0) == ""
    # One that falls as slowly as 1 / x is not.
    assert "improper" in drift(power_of_distance(0.2), std, 1.0)


@pytest.mark.parametrize(("std", "refused"), [(1e-6, True), (0.01, False)])
def test_a_component_that_has_shrunk_onto_a_pole_is_refused(std, refused):
    parts = [
        (FAMILY, FAMILY.from_moments(np.zeros(2), np.full(2, v))) for v in (1.0, std**2)
    ]
    narrow, rng = Mixture(tuple(parts), np.full(2, 0.5)), np.random.default_rng(0)
    found = collapse_to_pole(power_of_distance(1.5), narrow, rng)
    assert ("shrunk onto" in found) == refused
    round_top = CallableTarget(lambda t: -0.5 * (t**2).sum(axis=1), 2, lambda t: -t)
    assert collapse_to_pole(round_top, narrow, rng) == ""


@pytest.mark.parametrize("std", [0.01, 0.1, 100.0])
def test_mass_near_a_point_is_that_of_laplace_within_reach(std):
    target = CallableTarget(
        lambda t: 3.0 - 0.5 * ((t / std) ** 2).sum(axis=1), 2, lambda t: -t / std**2
    )
    found = log_mass_near(target, np.zeros(2), np.full(2, 0.5))
    assert_allclose(found, 3.0 + 2.0 * min(np.log(std / 0.5), 0.0), atol=1e-6)
