"""Ctrl-C: what was done is kept, and the interruption goes on to whoever called.

Of estimators tests/test_contract.py and tests/svi/test_contract.py tell.
"""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from functools import partial

import autograd.numpy as anp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skboost import EvidenceSearch, SVIGaussianMixture, boost_posterior
from skboost.boosting import Awaited
from skboost.exceptions import FitInterrupted
from skboost.frank_wolfe import Predefined
from skboost.strategies import GreedySearch
from skboost.svi import NaturalGradient
from skboost.targets import CallableTarget

from .conftest import interrupted
from .kinds import Logistic

pytestmark = pytest.mark.filterwarnings(
    "ignore::skboost.exceptions.FailedEvaluationWarning"
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2)) + 3.0 * (np.arange(60) % 2)[:, None]
Y = (X[:, 0] + RNG.standard_normal(60) > 1.0).astype(int)

# Steps of a given size go on to the last iteration, and cost little.
LOGISTIC = Logistic(
    step_size=0.3, corrective="none", search=GreedySearch(32, refine=False), tol=0.0,
    max_iter=4, random_state=0,
)  # fmt: skip


# --- runs beside each other


def test_threads_pass_an_interruption_on_and_stop(monkeypatch):
    steps = Counter()
    step = NaturalGradient.step

    def counted(self, state, budget):
        steps["all"] += 1
        return step(self, state, budget)

    monkeypatch.setattr(NaturalGradient, "step", counted)
    model = SVIGaussianMixture(
        3, n_init=2, n_jobs=2, batch_size=20, max_iter=100_000, random_state=0
    )
    kept = interrupted(model, {"X": X}, 5)
    assert kept.message_.startswith("Interrupted after iteration")
    assert np.isfinite(kept.predict_proba(X)).all()
    deadline = time.monotonic() + 20.0
    before = None
    while steps["all"] != before and time.monotonic() < deadline:
        before = steps["all"]
        time.sleep(0.2)
    assert steps["all"] == before


# --- boost_posterior


def two_bumps(theta):
    return anp.logaddexp(-2.0 * (theta[:, 0] + 2.0) ** 2, -((theta[:, 0] - 2.0) ** 2))


class Density:
    """`two_bumps` that counts its calls, and raises at one of them."""

    def __init__(self, at=None):
        self.at, self.calls = at, 0

    def __call__(self, theta):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return two_bumps(theta)


SETTINGS = {"dim": 1, "tol": 0.0, "max_iter": 4, "random_state": 0}
SETTINGS["search"] = GreedySearch(64)


def interrupt_at(iteration, then=lambda: None):
    def callback(record):
        if record["iteration"] == iteration:
            then()
            raise KeyboardInterrupt

    return callback


def test_a_result_comes_with_the_interruption():
    density, seen = Density(), []
    whole = boost_posterior(two_bumps, **SETTINGS)
    with pytest.raises(FitInterrupted, match="Interrupted after iteration 2") as caught:
        boost_posterior(
            density,
            callback=interrupt_at(2, lambda: seen.append(density.calls)),
            **SETTINGS,
        )
    result = caught.value.result
    assert type(caught.value.__cause__) is KeyboardInterrupt
    # Not one evaluation more.
    assert seen == [density.calls]
    assert result.n_iter == 2 == len(result.history) == len(result.stages)
    assert not result.converged
    points = np.linspace(-4.0, 4.0, 9)[:, None]
    assert np.array_equal(
        result.posterior.log_density(points), whole.stages[1].log_density(points)
    )
    assert result.elbo == whole.history[1]["elbo"]
    assert result.remaining_kl == whole.history[1]["remaining_kl"]
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.result.elbo == result.elbo
    assert str(again) == str(caught.value)


@pytest.mark.parametrize("constraints", [None, "positive"])
def test_the_final_report_can_be_interrupted(constraints):
    def density(theta):
        if after_the_last:
            raise KeyboardInterrupt
        return -anp.sum((theta - 3.0) ** 2, axis=-1)

    after_the_last = []
    with pytest.raises(FitInterrupted) as caught:
        boost_posterior(
            density,
            **SETTINGS | {"max_iter": 2},
            constraints=constraints,
            callback=lambda record: (
                record["iteration"] == 2 and after_the_last.append(True)
            ),
        )
    assert caught.value.result.n_iter == 2
    assert caught.value.result.posterior.mean()[0] == pytest.approx(3.0, abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["kl", "hellinger"])
@pytest.mark.parametrize("failures", ["raise", "zero"])
def test_no_call_of_the_density_swallows_an_interruption(failures, objective):
    settings = SETTINGS | {"max_iter": 2, "failures": failures, "objective": objective}
    counted = Density()
    boost_posterior(counted, **settings)
    first, later = 0, 0
    # Every place a density is called from: probing of its shape, climbs, draws.
    for at in np.unique(np.linspace(1, counted.calls, 40).astype(int)):
        density = Density(at)
        with pytest.raises(KeyboardInterrupt) as caught:
            boost_posterior(density, **settings)
        assert density.calls == at
        if isinstance(caught.value, FitInterrupted):
            later += 1
            assert caught.value.result.n_failures == 0
        else:
            first += 1
            assert type(caught.value) is KeyboardInterrupt
    assert first
    assert later


@pytest.mark.parametrize("failures", ["raise", "zero"])
@pytest.mark.parametrize("vectorized", [True, False])
def test_targets_do_not_take_an_interruption_for_a_failure(failures, vectorized):
    def density(theta):
        if np.ravel(theta)[0] > 5.0:
            raise KeyboardInterrupt
        return -anp.sum(theta**2, axis=-1)

    target = CallableTarget(density, 2, vectorized=vectorized, failures=failures)
    for strict in (False, True):
        for method in (target.log_density, target.value_and_score):
            with pytest.raises(KeyboardInterrupt):
                method(np.full((3, 2), 9.0), strict)
    assert target.n_failures == 0


# --- searches


class Interrupting(Predefined):
    """A step size that is interrupted from a number of calls on."""

    calls = Counter()

    def choose(self, *arguments):
        Interrupting.calls["all"] += 1
        if Interrupting.calls["all"] == 2:
            raise KeyboardInterrupt
        return super().choose(*arguments)


@pytest.mark.parametrize(
    "search",
    [
        lambda model, grid: GridSearchCV(model, grid, cv=2, error_score=0.0),
        EvidenceSearch,
    ],
    ids=["GridSearchCV", "EvidenceSearch"],
)
def test_a_search_stops(search):
    Interrupting.calls.clear()
    model = clone(LOGISTIC).set_params(step_size=Interrupting())
    with pytest.raises(KeyboardInterrupt):
        search(model, {"prior_scale": [0.1, 1.0, 10.0]}).fit(X, Y)
    # No fit began after the one that was interrupted.
    assert Interrupting.calls["all"] == 2


SIGINT_SCRIPT = """
    import numpy as np
    from skboost import BoostedBayesianLogisticRegression
    from skboost.strategies import GreedySearch

    class Tell:
        def setup(self, estimator, context): pass
        def teardown(self, estimator, context): pass
        def on_fit_task_begin(self, estimator, context): pass
        def on_fit_task_end(self, estimator, context, *, fitted_estimator):
            if fitted_estimator is not None and fitted_estimator.n_iter_ == 2:
                print("two", flush=True)

    X = np.linspace(-1.0, 1.0, 20)[:, None]
    model = BoostedBayesianLogisticRegression(
        step_size="predefined", corrective="none", tol=0.0, max_iter=100_000,
        search=GreedySearch(32, refine=False, max_components=5),
        random_state=0, n_jobs={n_jobs},
    )
    try:
        model.set_callbacks(Tell()).fit(X, (X[:, 0] > 0.1).astype(int))
    except KeyboardInterrupt:
        print(model.n_iter_, np.isfinite(model.predict_proba(X)).all(), model.message_)
        raise
"""


def test_a_result_that_waits_is_computed_after_an_interruption():
    answers = iter([KeyboardInterrupt, None])

    def compute():
        error = next(answers)
        if error is not None:
            raise error
        return 3

    awaited = Awaited(compute)
    with pytest.raises(KeyboardInterrupt):
        _ = awaited.result
    assert awaited.result == 3


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c(n_jobs):
    script = textwrap.dedent(SIGINT_SCRIPT.format(n_jobs=n_jobs))
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell in the background ignores interruptions, and so would the process.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout.readline() == "two\n"
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert out, err
    n_iter, finite, *message = out.split()
    assert int(n_iter) >= 2
    assert finite == "True"
    assert " ".join(message).startswith(f"Interrupted after iteration {n_iter}."), err
    # As the shell expects it of a program that was interrupted.
    assert process.returncode == -signal.SIGINT
