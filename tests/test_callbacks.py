"""The run loop, and the callbacks that listen to it."""

from dataclasses import replace

import numpy as np
import pytest

from skboost._callbacks import Limits, run
from skboost.approximation import Estimate
from skboost.boosting import Boosting, Settings, Simplex
from skboost.families import Gaussian
from skboost.objectives import JointGain
from skboost.proposals import DensityProposer
from skboost.targets import CallableTarget

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Steps that do not minimise go on to the last iteration, and cost little.


# --- the protocol


# --- ELBOMonitor


# --- the loop


@pytest.fixture
def engine():
    settings = Settings(n_draws=64, n_restarts=1, n_fresh=256, tol=0.0, refine=False)
    return Boosting(
        DensityProposer(Gaussian("full"), JointGain(), np.zeros((1, 1))),
        Simplex.of("line-search", "fully-corrective"),
        settings,
    )


@pytest.fixture
def iterated(engine):
    """``iterated(limits, previous=None)``: a run of the engine on one target."""
    target = CallableTarget(lambda t: np.log(2.0) - np.abs(t[:, 0]), 1, vectorized=True,
                            gradient=lambda t: -np.sign(t))  # fmt: skip

    def run_on_target(limits, previous=None):
        return run(engine, limits, previous, target=target)

    return run_on_target


def test_a_longer_run_starts_from_a_shorter_one(iterated):
    short = iterated(Limits(2, tol=0.0))
    long = iterated(Limits(4, tol=0.0))
    continued = iterated(Limits(4, tol=0.0), short)
    assert continued.n_iter == long.n_iter == 4
    assert np.array_equal(continued.state.mixture.weights, long.state.mixture.weights)
    assert continued.stages[:2] == short.stages
    assert short.n_iter == 2


def test_a_run_that_is_over_stays_over(iterated):
    done = iterated(Limits(2, tol=0.0))
    again = iterated(Limits(2, tol=0.0), done)
    assert again.state is done.state
    assert "max_iter=2" in again.message


@pytest.mark.parametrize("stopping", ["gain", "gap"])
def test_a_wide_tolerance_ends_the_run_after_the_first_search(iterated, stopping):
    done = iterated(Limits(9, stopping, tol=1e6))
    assert done.converged
    assert done.n_iter == 2
    assert stopping in done.message


def test_a_negative_gap_ends_no_run(engine, iterated):
    done = iterated(Limits(2, "gap", tol=1e6))
    *before, last = done.history
    worse = last.gap._replace(candidate=Estimate(-0.084, 0.01))
    limits = Limits(9, "gap", tol=1e6)
    assert limits.reached(engine, (*before, last)) is not None
    assert limits.reached(engine, (*before, replace(last, gap=worse))) is None
    # Within two standard errors of zero it may be an optimum.
    noisy = last.gap._replace(candidate=Estimate(-0.084, 0.05))
    assert limits.reached(engine, (*before, replace(last, gap=noisy))) is not None
    # But not where the noise is larger than what is asked for.
    exact = last.gap._replace(value=0.0, se=0.0, candidate=Estimate(-0.01, 0.5))
    strict = Limits(9, "gap", tol=0.1)
    assert strict.reached(engine, (*before, replace(last, gap=exact))) is None
    # What ends a run by its gain does not ask for the gap.
    by_gain = Limits(9, "gain", tol=1e6)
    assert by_gain.reached(engine, (*before, replace(last, gap=worse))) is not None


@pytest.mark.parametrize(("se", "ends"), [(0.02, True), (0.2, False)])
def test_a_small_gain_ends_a_run_unless_it_may_be_noise(engine, iterated, se, ends):
    *before, last = iterated(Limits(2, tol=0.0)).history
    small = replace(last, gain=Estimate(0.05, se))
    assert not small.inconclusive
    reason = Limits(9, "gain", tol=0.1).reached(engine, (*before, small))
    assert (reason is not None) == ends
