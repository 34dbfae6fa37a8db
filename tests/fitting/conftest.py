import numpy as np
import pytest

from skboost.fitting import Limits, Options, boost, make_engine
from skboost.targets import CallableTarget

PARAMS = {
    "family": "gaussian", "objective": "kl", "step_size": "line-search",
    "corrective": "fully-corrective", "refine": True, "n_draws": 64,
    "max_components": None, "tol": 0.0, "n_restarts": 1, "stopping": "gain",
}  # fmt: skip


class Problem:
    """A target, and an engine with few draws for it."""

    def __init__(self, target, start, params):
        self.target = target
        self.engine = make_engine(target, PARAMS | params, start, 0, None)

    def boost(self, max_iter, previous=None, *, observer=None, limits=None, **options):
        """The `Fit` after so many iterations."""
        limits = {"tol": 0.0} | (limits or {})
        told = Options(self.engine, Limits(max_iter, **limits), previous, **options)
        return boost(self.target, told, *filter(None, [observer]))


def a_banana():
    def log_density(theta):
        off = theta[:, 1] - theta[:, 0] ** 2
        return -0.5 * theta[:, 0] ** 2 - 2.0 * off**2

    def gradient(theta):
        off = theta[:, 1] - theta[:, 0] ** 2
        return np.stack([8.0 * theta[:, 0] * off - theta[:, 0], -4.0 * off], axis=1)

    target = CallableTarget(log_density, 2, gradient, vectorized=True)
    return Problem(target, np.zeros((1, 2)), {})


@pytest.fixture
def make_banana():
    return a_banana


@pytest.fixture
def banana():
    return a_banana()


@pytest.fixture
def peak():
    """Two exponentials back to back."""
    target = CallableTarget(
        lambda theta: np.log(2.0) - np.abs(theta[:, 0]), 1, lambda t: -np.sign(t),
        vectorized=True,
    )  # fmt: skip
    return Problem(target, np.zeros((1, 1)), {"refine": False})
