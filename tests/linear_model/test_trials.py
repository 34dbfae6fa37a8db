"""Binomial counts: successes among counted trials, as rows that stand many times."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_validate

from skboost import (
    BoostedBayesianLogisticRegression,
    BoostedHierarchicalLogisticRegression,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2))
TRIALS = RNG.integers(0, 9, 24)
Y = RNG.binomial(TRIALS, 1.0 / (1.0 + np.exp(-X[:, 0])))
# One row for every trial.
EACH = np.repeat(np.arange(24), TRIALS)
LABELS = np.concatenate([np.arange(n) < k for n, k in zip(TRIALS, Y, strict=True)])
LABELS = LABELS.astype(int)


def flat():
    return BoostedBayesianLogisticRegression(random_state=0)


def test_trials_are_rows_that_stand_as_often():
    model = flat().fit(X, Y, trials=TRIALS)
    expected = flat().fit(X[EACH], LABELS)
    assert model.classes_.tolist() == [0, 1]
    assert_allclose(model.coef_, expected.coef_, rtol=1e-3)
    assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-4)
    score = model.score(X, Y, trials=TRIALS)
    assert score == pytest.approx(model.score(X[EACH], LABELS))
    weight = np.linspace(0.5, 2.0, 24)
    assert_allclose(
        model.fit(X, Y, weight, TRIALS).coef_,
        expected.fit(X[EACH], LABELS, weight[EACH]).coef_,
        rtol=1e-3,
    )


@pytest.mark.slow
def test_groups_have_trials_too():
    frame = pd.DataFrame(X[:, :1], columns=["dose"])
    frame["litter"] = np.arange(24) % 6
    model = BoostedHierarchicalLogisticRegression(groups=["litter"], random_state=0)
    expected = clone(model).fit(frame.iloc[EACH], LABELS)
    model.fit(frame, Y, trials=TRIALS)
    assert_allclose(model.coef_, expected.coef_, rtol=5e-3)
    assert_allclose(
        model.group_effects_["litter"], expected.group_effects_["litter"], atol=5e-3
    )
    score = model.score(frame, Y, trials=TRIALS)
    assert score == pytest.approx(expected.score(frame.iloc[EACH], LABELS))


def test_searches_route_trials():
    with sklearn.config_context(enable_metadata_routing=True):
        model = flat().set_params(max_iter=1).set_fit_request(trials=True)
        model.set_score_request(trials=True)
        given = {"trials": TRIALS}
        found = cross_validate(model, X, Y, cv=KFold(3), params=given)
    assert np.all((found["test_score"] > 0.4) & (found["test_score"] <= 1.0))


@pytest.mark.parametrize(
    ("y", "trials", "match"),
    [
        (TRIALS + 1, TRIALS, "y must not exceed trials.* got .* in row 0"),
        (Y + 0.5, TRIALS, "y must hold whole numbers"),
        (Y, TRIALS - 9, "trials must hold whole numbers"),
        (Y, np.where(TRIALS > 5, np.nan, TRIALS), "trials must hold whole numbers"),
        (Y, TRIALS[:-1], "inconsistent numbers of samples"),
        (None, TRIALS, "trials needs X as an array"),
        (0 * Y, 0 * TRIALS, "weight"),
    ],
)
def test_other_counts_are_refused(y, trials, match):
    model = flat().fit(X, Y, trials=TRIALS)
    before = model.coef_
    with pytest.raises(ValueError, match=match):
        model.fit(X, y, trials=trials)
    assert model.coef_ is before
