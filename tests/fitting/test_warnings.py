"""When a fit warns, and what would leave less."""

import re
import warnings
from types import SimpleNamespace

import pytest
from sklearn.exceptions import ConvergenceWarning

from skboost.families import DiagonalGaussian, FullGaussian
from skboost.fitting import warn_unfinished


def fit(ended_by="max_iter", remaining=9.0, family=FullGaussian, n_iter=3, **more):
    """What a warning asks of a fit."""
    info = SimpleNamespace(cut_short=more.get("cut_short"), improper="")
    last = SimpleNamespace(cut_short=False, improper=more.get("improper"))
    component = SimpleNamespace(family=family())
    return SimpleNamespace(
        run=SimpleNamespace(
            end=SimpleNamespace(by=ended_by, message="Ended."),
            history=[info, last],
            n_iter=n_iter,
        ),
        misses_modes=more.get("misses_modes", False),
        remaining_before_orbits=more.get("before", 9.0),
        allowed_kl=more.get("allowed_kl", 0.0),
        leaves_more_than=lambda nats: more.get("before", 9.0) > nats,
        report=SimpleNamespace(
            remaining_kl=remaining, message=more.get("message", "Ended.")
        ),
        mixture=SimpleNamespace(components=[component]),
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
        ("tol", "lower tol, or raise n_draws"),
        ("auto", "pass a smaller tol"),
        ("stuck", "raise n_draws"),
    ],
)
def test_advice_is_about_what_ended_the_run(ended_by, advice):
    known = {"n_draws", "family"}
    (message,) = said(fit(ended_by), known)
    assert f"For less, {advice}" in message and "family" not in message
    (diagonal,) = said(fit(ended_by, family=DiagonalGaussian), known)
    assert ", or use family='gaussian-full'. Ended." in diagonal
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
    (message,) = said(fit("auto", before=80.0, remaining=None), ())
    assert message.startswith("About 80 nats of KL remain before orbits, by estimate.")


@pytest.mark.parametrize(
    "wrong", [{"improper": "no mass"}, {"misses_modes": True}, {"cut_short": True}]
)
def test_what_is_wrong_is_always_said(wrong):
    assert said(fit(remaining=0.0, n_iter=1, **wrong), ()) == ["Ended."]
    # A later iteration has mended a first one that was cut short.
    assert bool(said(fit(remaining=0.0, n_iter=2, **wrong), ())) == (
        "cut_short" not in wrong
    )
