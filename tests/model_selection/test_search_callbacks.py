"""Callbacks of a search and of the models that it fits."""

import pytest
from sklearn.base import clone
from sklearn.callback import AutoPropagatedCallback
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLogisticRegression, EvidenceSearch
from skboost.callbacks import ELBOMonitor

from .conftest import NormalMean

MODEL = BoostedBayesianLogisticRegression(max_iter=1, n_draws=64)
SEARCH = EvidenceSearch(
    MODEL, {"prior_scale": [0.5, 2.0]}, n_repeats=1, error_score="raise"
)


class Log(AutoPropagatedCallback):
    """Names of all tasks that ended."""

    max_propagation_depth = None

    def __init__(self):
        self.tasks = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.tasks.append((context.task_name, context.source_task_name))


def test_callbacks_see_every_fit(rows):
    search = EvidenceSearch(NormalMean(), {"scale": [0.1, 1.0]}, n_repeats=2)
    log = Log()
    with pytest.warns(UserWarning, match="does not support callbacks"):
        search.set_callbacks(log).fit(rows)
    names = [name for name, _ in log.tasks]
    assert names == ["candidate fit"] * 4 + ["refit", "fit"]


def test_callbacks_reach_the_iterations():
    X = [[0.0], [1.0], [2.0], [3.0]] * 5
    y = [0, 1, 0, 1] * 5
    log = Log()
    search = clone(SEARCH).set_params(param_grid={"prior_scale": [1.0]})
    search.set_callbacks(log).fit(X, y)
    assert log.tasks.count(("iteration", None)) == 2
    assert ("fit", "candidate fit") in log.tasks
    assert ("fit", "refit") in log.tasks


def test_callbacks_of_the_estimator_stay_its_own():
    monitor = ELBOMonitor()
    model = clone(MODEL).set_callbacks(monitor)
    pipeline = make_pipeline(StandardScaler(), model)
    search = EvidenceSearch(pipeline, {}, n_repeats=1)
    search.fit([[0.0], [1.0], [2.0], [3.0]] * 5, [0, 1, 0, 1] * 5)
    assert hasattr(search, "best_estimator_")
