"""Prepare, boost, correct, report: in that order, and again where a run goes on."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import skboost
from skboost.fitting import BoostedEstimator, Observer, _run
from skboost.priors import HalfTPrior
from skboost.strategies import GreedySearch, StochasticSearch
from skboost.targets import LogDensityError

from ..kinds import GroupedLinear, Linear, Logistic

BOOSTED = [
    one
    for one in (getattr(skboost, name) for name in skboost.__all__)
    if isinstance(one, type) and issubclass(one, BoostedEstimator)
]


class TestRuns:
    def test_a_run_that_is_over_stays_over(self, peak):
        done = peak.boost(2).run
        again = peak.boost(2, done).run
        assert again.state is done.state
        assert "max_iter=2" in again.message

    @pytest.mark.parametrize("stopping", ["gain", "gap"])
    def test_a_wide_tolerance_ends_the_run_after_the_first_search(self, peak, stopping):
        fit = peak.boost(9, limits={"stopping": stopping, "tol": 1e6})
        assert fit.run.converged and fit.n_iter == 2
        assert stopping in fit.run.message

    def test_a_run_of_another_density_is_refused(self, peak, banana):
        done = banana.boost(1).run
        shifted = replace(done.state.fresh, log_joint=done.state.fresh.log_joint + 1.0)
        other = replace(done, state=replace(done.state, fresh=shifted))
        with pytest.raises(ValueError, match="same data and the same model"):
            banana.boost(2, other)


class TestObservers:
    def test_one_hears_of_every_iteration_and_may_end_the_run(self, peak):
        class Second(Observer):
            calls = []

            def begin(self):
                self.calls.append("begin")

            def end(self, problem, run):
                self.calls.append(run.n_iter)
                return run.n_iter == 2

        fit = peak.boost(9, observer=Second())
        assert Second.calls == ["begin", 1, "begin", 2]
        assert fit.run.end.by == "callback" and not fit.converged


class TestReport:
    def test_it_is_made_once_and_when_it_is_asked_for(self, banana):
        fit = banana.boost(2, orbit="auto")
        after_fit = banana.target.n_evaluations
        assert fit.mixture.n_components >= 1 and fit.converged in (True, False)
        assert banana.target.n_evaluations == after_fit
        report = fit.report
        asked = banana.target.n_evaluations
        assert asked > after_fit
        assert fit.report is report and fit.posterior is fit.posterior
        assert banana.target.n_evaluations == asked

    def test_a_copy_without_its_run_has_it(self, banana):
        fit = banana.boost(2, orbit="auto")
        copied = fit.without_run()
        assert copied.run is None and copied.report == fit.report
        assert fit.run is not None


class TestPreparing:
    def test_a_run_that_goes_on_has_the_map_that_was_found(self, banana, monkeypatch):
        short = banana.boost(1, warp="auto").run
        assert short.prepared.accepted
        monkeypatch.setattr(_run, "find_warp", None)
        done = banana.boost(2, short, warp="auto").run
        assert done.prepared is short.prepared
        assert done.history[0] == short.history[0] and done.n_iter == 2
        # Draws are compared in the coordinates of its run.
        monkeypatch.undo()
        with pytest.raises(ValueError, match="same data and the same model"):
            banana.boost(2, replace(short, prepared=None))

    def test_a_warp_behind_which_the_density_fails_is_declined(
        self, banana, monkeypatch
    ):
        def fails(problem):
            raise LogDensityError("not a number")

        monkeypatch.setattr(_run, "_first_behind", fails)
        fit, plain = (banana.boost(2, warp=warp) for warp in ("auto", None))
        assert fit.warp.reason == "Declined: the density fails at draws behind it."
        assert fit.report.elbo == plain.report.elbo


class TestCorrections:
    def test_orbits_of_what_is_improper_are_declined(self, banana):
        done = banana.boost(1).run
        last = replace(done.history[-1], improper="Stopped: no mass.")
        improper = replace(done, history=(last,))
        fit = banana.boost(1, improper, orbit="auto")
        assert "improper" in fit.corrected.orbiting.reason
        assert banana.boost(1, improper).corrected.orbiting is None


def test_estimators_show_their_progress(capsys):
    X = np.random.default_rng(0).standard_normal((30, 2))
    model = Logistic(max_iter=2, tol=0.0, verbose=1)
    model.set_params(prior_scale=1.0, search=GreedySearch(32))
    model.fit(X, X[:, 0] > 0)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == model.n_iter_ + 1 and told[-1] in model.message_
    assert f"{model.elbo_path_[0]:.6g}" in told[0]


def test_the_log_says_how_a_run_begins(caplog):
    rng = np.random.default_rng(0)
    X, group = rng.standard_normal((24, 2)), np.arange(24) % 4
    y = X[:, 0] + group + rng.standard_normal(24)
    settings = {"prior_scale": "learn", "random_state": 0}
    grouped = np.column_stack([X, group])
    expected = {
        "components at every scale by sums over rows": (
            Linear(**settings).fit, X, y,
        ),
        "components at every scale by a quadratic around the mode or expectation "
        "propagation": (
            Logistic(**settings).fit, X, y > 1.5,
        ),
        "one component by a quadratic around the mode or expectation propagation": (
            Logistic(prior_scale=1.0).fit, X, y > 1.5,
        ),
        "integrated out in closed form, with coefficients": (
            GroupedLinear(groups=[2]).fit, grouped, y,
        ),
    }  # fmt: skip
    for words, (fit, *data) in expected.items():
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger="skboost"):
            fit(*data)
        assert words in caplog.records[0].getMessage()


class Unread:
    """Rows that nobody may look at."""

    def __getattribute__(self, name):
        raise AssertionError(f"the rows were asked for {name}")


SEARCH = StochasticSearch(n_steps=5)
CONTRADICTIONS = [
    ({"objective": "hellinger", "step_size": "predefined"}, "objective.*step_size"),
    ({"objective": "hellinger", "corrective": "away"}, "objective.*corrective"),
    (
        {"objective": "hellinger", "search": GreedySearch(stopping="gap")},
        "objective.*stopping",
    ),
    ({"objective": "hellinger", "family": "laplace"}, "objective.*family"),
    ({"search": SEARCH, "prior_scale": "learn"}, "search.*prior_scale"),
    ({"search": SEARCH, "prior_scale": HalfTPrior()}, "search.*prior_scale"),
    (
        {"search": StochasticSearch(residual="elementwise"), "prior_scale": 1.0},
        "residual='elementwise'.*family",
    ),
    (
        {
            "search": StochasticSearch(residual="elementwise"),
            "prior_scale": 1.0,
            "family": "gaussian-diag",
            "objective": "hellinger",
        },
        "elementwise.*objective",
    ),
    ({"proposal": "coordinate_ascent", "search": SEARCH}, "search.*proposal"),
]


@pytest.mark.parametrize("kind", BOOSTED)
def test_contradictions_are_refused_by_name_before_rows_are_read(kind):
    known, model = kind().get_params(), kind()
    if "groups" in known:
        model.set_params(groups=[0])
    for settings, words in CONTRADICTIONS:
        regression = "proposal" in settings or "objective" in known
        if set(settings) <= set(known) and regression:
            asked = clone(model).set_params(**settings)
            with pytest.raises(ValueError, match=words):
                asked.fit(Unread(), Unread())
