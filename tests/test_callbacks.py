"""The run loop, and the callbacks that listen to it."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.callback import ScoringMonitor
from sklearn.model_selection import GridSearchCV

from skboost import BoostedBayesianLogisticRegression, BoostedBayesianPoissonRegression
from skboost._callbacks import Limits, run
from skboost._settings import Settings
from skboost.approximation import Estimate
from skboost.boosting import Boosting, Simplex
from skboost.callbacks import ELBOMonitor
from skboost.families import Gaussian
from skboost.objectives import JointGain
from skboost.proposals import DensityProposer
from skboost.targets import CallableTarget

from .conftest import Listener

X = np.linspace(-0.5, 0.5, 20)[:, None]
Y = (X[:, 0] > 0).astype(int)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Steps that do not minimise go on to the last iteration, and cost little.
SETTINGS = {
    "step_size": "predefined",
    "corrective": "none",
    "refine": False,
    "fit_intercept": False,
    "tol": 0.0,
    "max_iter": 4,
    "n_draws": 32,
    "skew": None,
    "random_state": 0,
}


def model(**settings):
    return BoostedBayesianLogisticRegression(**SETTINGS | settings)


POISSON = BoostedBayesianPoissonRegression(max_iter=1, n_draws=32, random_state=0)


class Recorder:
    """Every hook that is called, in order."""

    def __init__(self, stop_at=None, error_at=None):
        self.calls, self.fitted = [], []
        self.stop_at, self.error_at = stop_at, error_at

    def setup(self, estimator, context):
        self.calls.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.calls.append(f"end {context.task_name}")
        self.fitted.append(fitted_estimator)
        n = self.calls.count("end iteration")
        if self.error_at is not None and n >= self.error_at:
            raise RuntimeError
        return self.stop_at is not None and n >= self.stop_at

    def teardown(self, estimator, context):
        self.calls.append("teardown")


# --- the protocol


@pytest.fixture(scope="module")
def plain():
    return model().fit(X, Y)


def test_callbacks_hear_of_every_iteration_and_change_nothing(plain):
    recorder, scoring = Recorder(), ScoringMonitor(scoring="neg_log_loss")
    fitted = model().set_callbacks(ELBOMonitor(), scoring, recorder).fit(X, Y)
    iterations = ["begin iteration", "end iteration"] * 4
    assert recorder.calls == [
        "setup", "begin fit", *iterations, "end fit", "teardown",
    ]  # fmt: skip
    assert np.array_equal(plain.predict_proba(X), fitted.predict_proba(X))
    assert plain.elbo_ == fitted.elbo_
    # They are given an estimator that predicts.
    assert [e.n_iter_ for e in recorder.fitted] == [1, 2, 3, 4, 4]
    stages = list(fitted.staged_predict_proba(X))
    for stage, seen in zip(stages, recorder.fitted, strict=False):
        assert_allclose(seen.predict_proba(X), stage)


def test_a_callback_stops_the_fit():
    fitted = model().set_callbacks(Recorder(stop_at=1)).fit(X, Y)
    assert fitted.n_iter_ == 1
    assert not fitted.converged_
    assert fitted.message_.startswith("Stopped by a callback.")
    assert np.isfinite(fitted.predict_proba(X)).all()


def test_an_error_in_a_callback_leaves_the_old_fit_or_none():
    estimator = model(max_iter=2).set_callbacks(Recorder(error_at=1))
    with pytest.raises(RuntimeError):
        estimator.fit(X, Y)
    assert not [name for name in vars(estimator) if name.endswith("_")]
    assert not hasattr(estimator, "_run")
    estimator.set_callbacks().fit(X, Y)
    before, attributes = estimator.predict_proba(X), set(vars(estimator))
    recorder = Recorder(error_at=2)
    estimator.set_params(max_iter=4, prior_scale=9.0).set_callbacks(recorder)
    with pytest.raises(RuntimeError):
        estimator.fit(X[5:15], Y[5:15])
    assert recorder.calls[-1] == "teardown"
    assert np.array_equal(estimator.predict_proba(X), before)
    assert set(vars(estimator)) - attributes <= {"_skl_callbacks"}
    # And nothing of the failed run gets in the way of the next.
    estimator.set_callbacks().fit(X, Y)
    assert estimator.n_iter_ > 0


@pytest.mark.parametrize("model", [model(), POISSON])
def test_callbacks_get_what_the_user_passed(model):
    weight, seen = np.ones(len(Y)), []
    more = {"sample_weight": weight}
    if model is POISSON:
        more["offset"] = np.zeros(len(Y))

    class Hears(Listener):
        def on_fit_task_begin(self, estimator, context, *, metadata=None):
            same = all(metadata[key] is value for key, value in more.items())
            seen.append((context.task_name, same))

        def on_fit_task_end(self, estimator, context, *, metadata=None):
            self.on_fit_task_begin(estimator, context, metadata=metadata)

    model.set_params(max_iter=1).set_callbacks(Hears()).fit(X, Y, **more)
    tasks = ["fit", "iteration", "iteration", "fit"]
    assert seen == [(task, True) for task in tasks]


# --- ELBOMonitor


def test_the_monitor_records_the_history_and_waits_for_its_patience():
    monitor = ELBOMonitor(patience=2, tol=-np.inf)
    fitted = model(max_iter=3).set_callbacks(monitor).fit(X, Y)
    assert [r["iteration"] for r in monitor.records] == [1, 2, 3]
    for record, expected in zip(monitor.records, fitted.history_, strict=True):
        np.testing.assert_equal(record, expected)
    monitor = ELBOMonitor(patience=2, tol=1e6)
    fitted = model(max_iter=9).set_callbacks(monitor).fit(X, Y)
    assert fitted.n_iter_ == 3
    assert fitted.message_.startswith("Stopped by a callback.")
    for patience in (0, -1, 1.5):
        with pytest.raises(ValueError, match="patience"):
            ELBOMonitor(patience=patience)


def test_the_monitor_counts_the_iterations_of_a_warm_start():
    # It goes through a search.
    monitor = ELBOMonitor(patience=2, tol=1e6)
    inner = model(max_iter=1).set_callbacks(monitor)
    GridSearchCV(inner, {"prior_scale": [1.0]}, cv=2).fit(X, Y)
    assert [r["iteration"] for r in monitor.records] == [1]
    estimator = model(max_iter=3, warm_start=True).set_callbacks(monitor).fit(X, Y)
    # What it heard of an earlier fit is forgotten.
    assert [r["iteration"] for r in monitor.records] == [1, 2, 3]
    estimator.set_params(max_iter=9).fit(X, Y)
    assert [r["iteration"] for r in monitor.records] == [4, 5]


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
    assert not engine.doubts(small)
    reason = Limits(9, "gain", tol=0.1).reached(engine, (*before, small))
    assert (reason is not None) == ends
