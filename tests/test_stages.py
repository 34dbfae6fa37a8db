"""Preparations and corrections: applied in order, and again where a run goes on."""

from dataclasses import replace

import numpy as np
import pytest

from skboost._base import make_engine
from skboost._callbacks import Limits, Prepared
from skboost._stages import Corrected, Stages, behind, boosted
from skboost.targets import CallableTarget
from skboost.transforms import Warp

SETTINGS = {
    "family": "gaussian", "objective": "kl", "step_size": "line-search",
    "corrective": "fully-corrective", "refine": True, "n_draws": 64,
    "max_components": None, "tol": 0.0,
}  # fmt: skip


class Shift:
    """A map that moves the coordinate by a number, found only once."""

    def __init__(self, by):
        self.by, self.found = by, 0

    def prepare(self, prepared):
        self.found += 1
        engine = self.again(prepared.engine, self.by)
        return Prepared(engine, prepared.opening, (*prepared.reports, self.by))

    def again(self, engine, by):
        one, none = np.ones(1), np.zeros((1, 1))
        return behind(engine, Warp([by], [[1.0]], one, one, none, none))


def widened(engine, done, corrected):
    mixture = corrected.mixture
    parts = [(f, f.widen(np.array(p), 2.0)) for f, p in mixture.components]
    return Corrected(type(mixture)(tuple(parts), mixture.weights))


@pytest.fixture
def engine():
    target = CallableTarget(
        lambda t: -0.5 * (t[:, 0] - 5.0) ** 2, 1, lambda t: 5.0 - t, vectorized=True
    )
    return make_engine(target, SETTINGS, np.zeros((1, 1)), 0, None)


def test_stages_follow_each_other_and_a_run_that_goes_on_has_their_maps(engine):
    shifts = Shift(2.0), Shift(4.0)
    corrections = widened, widened
    stages = Stages(shifts, corrections, lambda *reported: reported)
    _, short, _ = boosted(engine, Limits(1, tol=0.0), stages)
    last, done, corrected = boosted(engine, Limits(2, tol=0.0), stages, short)
    assert done.prepared == short.prepared == (2.0, 4.0)
    assert [shift.found for shift in shifts] == [1, 1]
    assert done.history[0] == short.history[0] and last.target.dim == 1
    before = done.stages[-1]
    np.testing.assert_allclose(before.mean(), -1.0, atol=0.05)
    np.testing.assert_allclose(corrected.mixture.std(), 4.0 * before.std(), rtol=1e-5)


def test_a_warm_start_compares_draws_in_the_coordinates_of_its_run(engine):
    stages = Stages((Shift(2.0),), (), lambda engine, done, corrected: done)
    short = boosted(engine, Limits(1, tol=0.0), stages)
    other = Stages((), (), lambda engine, done, corrected: done)
    with pytest.raises(ValueError, match="same data and the same model"):
        boosted(engine, Limits(2, tol=0.0), other, replace(short, prepared=()))
