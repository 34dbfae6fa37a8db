"""Prepare, boost, correct, report: in that order, and again where a run goes on."""

from dataclasses import replace

import numpy as np
import pytest

from skboost import _stages
from skboost._base import make_engine
from skboost._callbacks import Limits
from skboost._stages import boosted, with_corrections
from skboost.approximation import Mixture
from skboost.calibration import Calibration
from skboost.targets import CallableTarget

SETTINGS = {
    "family": "gaussian", "objective": "kl", "step_size": "line-search",
    "corrective": "fully-corrective", "refine": True, "n_draws": 64,
    "max_components": None, "tol": 0.0,
}  # fmt: skip
STAGES = {
    "prepare": None,
    "correct": (None, None),
    "report": lambda *reported: reported,
}


def banana(theta):
    return -0.5 * theta[:, 0] ** 2 - 2.0 * (theta[:, 1] - theta[:, 0] ** 2) ** 2


def slope(theta):
    off = theta[:, 1] - theta[:, 0] ** 2
    return np.stack([8.0 * theta[:, 0] * off - theta[:, 0], -4.0 * off], axis=1)


@pytest.fixture(scope="module")
def on_target():
    """An engine and its target."""
    target = CallableTarget(banana, 2, slope, vectorized=True)
    return make_engine(target, SETTINGS, np.zeros((1, 2)), 0, None), target


@pytest.fixture(scope="module")
def warped(on_target):
    """Engine, target, run and mixture after one iteration behind a warp."""
    return boosted(*on_target, Limits(1, tol=0.0), **STAGES | {"prepare": "auto"})


def test_a_run_that_goes_on_has_the_map_that_was_found(on_target, warped, monkeypatch):
    _, target, short, _ = warped
    assert short.prepared.accepted and target.dim == 2
    monkeypatch.setattr(_stages, "find_warp", None)
    limits = Limits(2, tol=0.0)
    stages = STAGES | {"prepare": "auto", "previous": short}
    *_, done, _ = boosted(*on_target, limits, **stages)
    assert done.prepared is short.prepared
    assert done.history[0] == short.history[0] and done.n_iter == 2


def test_a_warm_start_compares_draws_in_the_coordinates_of_its_run(on_target, warped):
    short = replace(warped[2], prepared=None)
    with pytest.raises(ValueError, match="same data and the same model"):
        boosted(*on_target, Limits(2, tol=0.0), **STAGES, previous=short)


def test_skewing_follows_the_calibration_and_both_are_declined_together(
    warped, monkeypatch
):
    *behind, done, _ = warped
    family, params = done.stages[-1].components[0]
    wide, known = family.widen(params.copy(), 2.0), Calibration("affine", step=1.0)
    other = Mixture.single((family, wide))
    monkeypatch.setattr(_stages, "calibrate", lambda *args, **more: (other, known))
    corrected = with_corrections(*behind, done, "auto", "auto")
    assert corrected.calibration is known and corrected.skewing.n_pairs > 0
    assert np.array_equal(corrected.mixture.components[0].params, wide)
    last = replace(done.history[-1], improper="Stopped: no mass.")
    improper = replace(done, history=(last,))
    declined = with_corrections(*behind, improper, "auto", "auto")
    assert "improper" in declined.calibration.reason
    assert "improper" in declined.skewing.reason
    assert with_corrections(*behind, improper, None, None).skewing is None
