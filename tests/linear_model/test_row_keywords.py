"""Keywords of rows: trials of binomial counts, offsets of linear predictors."""

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


def test_one_number_of_trials_for_all_rows_and_proportions():
    model = flat().set_params(prior_scale=1.0, max_iter=1)
    expected = model.fit(X, np.full(24, 3), trials=np.full(24, 30)).elbo_
    assert model.fit(X, np.full(24, 0.1) * 30, trials=30).elbo_ == expected


def test_batches_of_trials_and_their_joint_density():
    model = flat().set_params(prior_scale=1.0, max_iter=1).fit(X, Y, trials=TRIALS)
    theta = model.posterior_.sample(5, 0)
    by_row = model.make_log_joint(X[EACH], LABELS)(theta)
    assert_allclose(model.make_log_joint(X, Y, trials=TRIALS)(theta), by_row)
    updated = clone(model)
    for some in (slice(12), slice(12, None)):
        updated.partial_fit(X[some], Y[some], trials=TRIALS[some])
    assert_allclose(updated.coef_, model.coef_, atol=0.1)


def test_trials_are_a_column_of_a_formula():
    frame = pd.DataFrame({"dose": X[:, 0], "litter": np.arange(24) % 4})
    parameters = {"random_state": 0, "max_iter": 1}
    plain = BoostedHierarchicalLogisticRegression(groups=["litter"], **parameters)
    plain.fit(frame, Y, trials=TRIALS)
    frame["died"], frame["n"] = Y, TRIALS
    model = BoostedHierarchicalLogisticRegression.from_formula(
        "died ~ dose + (1 | litter)", frame, trials="n", **parameters
    )
    assert_allclose(model.coef_, plain.coef_)
    assert model.score(frame, Y, trials="n") == model.score(frame, Y, trials=TRIALS)
    with pytest.raises(ValueError, match="trials must be .* got 'm', which is none"):
        model.fit(frame, trials="m")
