"""When a fit warns, and what would leave less."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from skboost.exceptions import OverdispersionWarning
from skboost.families import DiagonalGaussian, FullGaussian
from skboost.fitting import warn_unfinished, warn_where_called
from skboost.targets import GLMTarget, Logistic, Table

from .conftest import Problem


def fit(ended_by="max_iter", remaining=9.0, family=FullGaussian, n_iter=3, **more):
    """What a warning asks of a fit."""
    info = SimpleNamespace(cut_short=more.get("cut_short"), improper="")
    last = SimpleNamespace(
        cut_short=False,
        improper=more.get("improper"),
        known_left=more.get("known_left"),
    )
    component = SimpleNamespace(family=family())
    return SimpleNamespace(
        run=SimpleNamespace(
            end=SimpleNamespace(by=ended_by, message="Ended."),
            history=[info, last],
            n_iter=n_iter,
            state=SimpleNamespace(iteration=n_iter),
        ),
        misses_modes=more.get("misses_modes", False),
        remaining_before_orbits=more.get("before", 9.0),
        allowed_kl=more.get("allowed_kl", 0.0),
        leaves_more_than=lambda nats: more.get("before", 9.0) > nats,
        report=SimpleNamespace(
            remaining_kl=remaining, message=more.get("message", "Ended.")
        ),
        mixture=SimpleNamespace(components=[component], dim=more.get("dim", 3)),
    )


def said(*asked):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_unfinished(*asked)
    assert all(one.category is ConvergenceWarning for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    ("ended_by", "advice"),
    [
        ("max_iter", "raise max_iter"),
        ("max_time", "raise max_time"),
        ("max_evaluations", "raise max_evaluations"),
        ("tol", "lower tol, or raise n_draws of search"),
        ("auto", "pass a smaller tol"),
        ("stuck", "raise n_draws of search"),
    ],
)
def test_advice_is_about_what_ended_the_run(ended_by, advice):
    known = {"search", "family"}
    (message,) = said(fit(ended_by), known)
    assert f"For less, {advice}" in message and "family" not in message
    (diagonal,) = said(fit(ended_by, family=DiagonalGaussian), known)
    assert "For less, use family='gaussian-full', " in diagonal
    # Hierarchical regressions have neither parameter.
    (without,) = said(fit(ended_by, family=DiagonalGaussian), ())
    assert not known & set(re.split(r"\W+", without))


def test_stopping_early_is_normal_where_little_remains():
    assert not said(fit(remaining=0.4), ())
    assert not said(fit(before=0.4), ())
    assert said(fit(remaining=0.6), ())
    # One that was asked for what tol="auto" allows has nothing to be warned of.
    assert not said(fit("auto", remaining=1.9, allowed_kl=2.0), ())
    assert said(fit("auto", remaining=2.1, allowed_kl=2.0), ())
    assert said(fit(remaining=1.9, allowed_kl=2.0), ())


@pytest.mark.parametrize("wrong", [{}, {"improper": "no mass"}])
def test_no_warning_says_that_all_is_well(wrong):
    (message,) = said(fit("tol", message="Converged: a gain of .1.", **wrong), ())
    assert "Converged" not in message and "The search ended: a gain" in message


def test_where_orbits_could_not_help_no_report_is_computed():
    # Nor where a closed form says so, which asks for no draws either.
    for nats, more in (
        (80, {"before": 80.0}),
        (20, {"before": 20.0, "dim": 301}),
        (80, {"before": None, "known_left": 80.0}),
        (20, {"before": None, "known_left": 20.0, "dim": 301}),
    ):
        (message,) = said(fit("auto", remaining=None, **more), ())
        assert message.startswith(f"About {nats} nats of KL remain before orbits")
    assert not said(fit("auto", before=None, remaining=None, known_left=3.0), ())
    assert said(fit("auto", before=9.0, remaining=9.0, known_left=20.0), ())


@pytest.mark.parametrize(
    "wrong", [{"improper": "no mass"}, {"misses_modes": True}, {"cut_short": True}]
)
def test_what_is_wrong_is_always_said(wrong):
    assert said(fit(remaining=0.0, n_iter=1, **wrong), ()) == ["Ended."]
    # A later iteration has mended a first one that was cut short.
    assert bool(said(fit(remaining=0.0, n_iter=2, **wrong), ())) == (
        "cut_short" not in wrong
    )


class Worried(RegressorMixin, BaseEstimator):
    """A regressor that warns in every fit, in other words each time."""

    def __init__(self, worry=1, category=ConvergenceWarning):
        self.worry = worry
        self.category = category

    def fit(self, X, y):
        warn_where_called(f"{self.worry} nats, mean {np.mean(X):.9g}", self.category)
        return self

    def predict(self, X):
        return np.full(len(X), float(self.worry))


ROWS = np.random.default_rng(0).normal(size=(30, 1)), np.zeros(30)


def caught(action):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        action()
    return [str(one.message) for one in found]


def test_a_search_warns_once_for_each_candidate_by_name():
    search = GridSearchCV(Worried(), {"worry": [2, 3]}, cv=3, refit=False)
    named = ["With worry=2: 2 nats", "With worry=3: 3 nats"]
    assert [message[:20] for message in caught(lambda: search.fit(*ROWS))] == named
    # In threads and processes, too. Another search has warnings of its own.
    with parallel_config("threading"):
        messages = caught(lambda: search.set_params(n_jobs=2).fit(*ROWS))
    assert sorted(message[:20] for message in messages) == named


def test_what_is_known_of_the_rows_is_said_by_the_fit_to_all_of_them():
    search = GridSearchCV(Worried(category=OverdispersionWarning), {"worry": [2, 3]})
    (message,) = caught(lambda: search.fit(*ROWS))
    assert message == f"2 nats, mean {np.mean(ROWS[0]):.9g}"
    assert len(caught(lambda: search.set_params(refit=False).fit(*ROWS))) == 2


@pytest.mark.parametrize("validated", [cross_val_score, cross_val_predict])
def test_a_cross_validation_warns_once(validated):
    assert len(caught(lambda: validated(Worried(), *ROWS))) == 1
    # So does the next one; a fit outside of any warns every time.
    assert len(caught(lambda: validated(Worried(), *ROWS))) == 1
    assert len(caught(lambda: [Worried().fit(*ROWS) for _ in range(2)])) == 2


def test_few_draws_with_images_say_what_orbits_leave_where_no_mode_can_hide():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    table = Table(X, (X[:, 0] + rng.logistic(size=20) > 0.0) + 0.0)
    target = GLMTarget(table, Logistic(), scale=np.full(3, 5.0))
    fit = Problem(target, np.zeros((1, 3)), {}).boost(1, orbit="auto")
    nats = 0.5 * fit.remaining_before_orbits
    assert not fit.leaves_more_than(nats)
    # No report was needed for that, and one agrees.
    assert "report" not in vars(fit)
    assert fit.report.remaining_kl < nats
