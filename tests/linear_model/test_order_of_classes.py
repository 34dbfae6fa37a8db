"""Ordered classes whose order is not that of sorting: columns follow ``classes_``."""

import pickle
import runpy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_predict

from skboost.inspection import (
    PredictiveCheckDisplay,
    compare,
    quantile_residuals,
    sample_predictive,
)

from ..cases import GLM, GROUPED, PLAIN, X
from ..kinds import GroupedOrdinal, Ordinal

# No turn of it is its own inverse.
ORDER = np.array(["low", "middle", "high", "top"])
RANKS = np.digitize(X[:, 0] + np.sin(np.arange(48.0)), [-1.0, 0.5, 1.5])
LABELS, COLUMNS = ORDER[RANKS], np.argsort(ORDER)
KINDS = {
    "flat": (lambda **more: Ordinal(**PLAIN | GLM | more), X),
    "groups": (
        lambda **more: GroupedOrdinal(
            **{"groups": [2], "max_iter": 1, "random_state": 0} | more
        ),
        GROUPED,
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    """What makes a model, and its rows."""
    return KINDS[request.param]


@pytest.fixture(scope="module")
def pair(kind):
    """Models of names and of ranks, and their rows."""
    new, rows = kind
    return new(categories=ORDER).fit(rows, LABELS), new().fit(rows, RANKS), rows


def same_columns(answer, of_ranks):
    assert_allclose(answer, of_ranks[:, COLUMNS], rtol=1e-9, atol=1e-14)


def test_classes_are_sorted_and_categories_ascend(pair):
    named, ranked, rows = pair
    assert_array_equal(named.classes_, np.unique(LABELS))
    assert_array_equal(named.categories_, ORDER)
    assert_array_equal(ranked.categories_, ranked.classes_)
    assert_array_equal(named.thresholds_, ranked.thresholds_)
    assert_array_equal(named.odds_ratios(), ranked.odds_ratios())
    assert_array_equal(named.predict(rows), ORDER[ranked.predict(rows)])
    with pytest.raises(ValueError, match="against 'low' here"):
        named.odds_ratios(reference="high")


def test_columns_of_answers_follow_the_classes(pair, tmp_path):
    named, ranked, rows = pair
    for method in ("predict_proba", "predict_log_proba", "predict_proba_interval"):
        same_columns(*(getattr(one, method)(rows) for one in (named, ranked)))
    proba = named.predict_proba(rows)
    if hasattr(named, "staged_predict_proba"):
        same_columns(named.decision_function(rows), ranked.decision_function(rows))
        stages = [[*one.staged_predict_proba(rows)] for one in (named, ranked)]
        for stage, of_ranks in zip(*stages, strict=True):
            same_columns(stage, of_ranks)
        assert_array_equal(stage, proba)
    for entropy, of_ranks in zip(
        named.predict_uncertainty(rows), ranked.predict_uncertainty(rows), strict=True
    ):
        assert_allclose(entropy, of_ranks, rtol=1e-9, atol=1e-12)
    named.export(tmp_path / "alone.py")
    alone = runpy.run_path(str(tmp_path / "alone.py"))
    assert_array_equal(alone["predict_proba"](rows), proba)
    assert_array_equal(alone["predict"](rows), named.predict(rows))
    again = pickle.loads(pickle.dumps(named))
    assert_array_equal(again.predict_proba(rows), proba)


def test_draws_of_answers_are_of_the_same_classes(pair):
    named, ranked, rows = pair
    table, of_ranks = (
        compare(one, rows, {0: 1.0}, random_state=0) for one in (named, ranked)
    )
    assert_array_equal(table["class"], named.classes_)
    for name in ("difference", "lower", "ratio"):
        assert_allclose(table[name], np.array(of_ranks[name])[COLUMNS], rtol=1e-9)
    drawn = sample_predictive(named, rows, 1000, random_state=0)
    shares = (drawn[..., None] == named.classes_).mean(axis=0)
    assert_allclose(shares, named.predict_proba(rows), atol=0.08)
    # Residuals are high where a class is higher than expected.
    residuals = quantile_residuals(named, rows, LABELS)
    assert_allclose(residuals, quantile_residuals(ranked, rows, RANKS), rtol=1e-6)


def test_pictures_show_classes_along_their_scale(pair):
    pytest.importorskip("matplotlib").use("Agg")
    named, _, rows = pair
    display = PredictiveCheckDisplay.from_estimator(named, rows, LABELS, level=0.99)
    assert display.labels == ORDER.tolist()
    assert_array_equal(display.observed, np.bincount(RANKS))
    assert (display.ends[:, 0] <= display.observed).all()
    assert (display.observed <= display.ends[:, 1]).all()


def test_scorers_of_probabilities_are_right(kind, pair):
    (new, rows), (named, *_) = kind, pair
    logs = named.log_predictive_density(rows, LABELS)
    score = get_scorer("neg_log_loss")(named, rows, LABELS)
    assert score == pytest.approx(logs.mean())
    scales, scoring = {"prior_scale": [0.3, 0.5]}, "neg_log_loss"
    found, expected = (
        GridSearchCV(model, scales, scoring=scoring, cv=2).fit(rows, y).cv_results_
        for model, y in ((new(categories=ORDER), LABELS), (new(), RANKS))
    )
    assert_allclose(found["mean_test_score"], expected["mean_test_score"])


def test_codes_of_ordered_classes_stand_for_the_classes(kind, pair):
    (new, rows), (named, *_) = kind, pair
    labels, codes = np.unique(LABELS, return_inverse=True)
    with pytest.warns(UserWarning, match=r"\(0 for 'high', 1 for 'low', 2 for 'mid"):
        coded = new(categories=ORDER).fit(rows, codes)
    assert_array_equal(coded.classes_, np.arange(4))
    assert_array_equal(labels[coded.categories_], ORDER)
    assert_array_equal(coded.predict_proba(rows), named.predict_proba(rows))
    assert_array_equal(labels[coded.predict(rows)], named.predict(rows))
    with pytest.raises(ValueError, match="Name all classes in categories"):
        coded.fit(rows, codes + 1)


def test_only_codes_of_strings_in_another_order_are_warned_of(kind, recwarn):
    new, rows = kind
    new(categories=np.sort(ORDER)).fit(rows, RANKS)
    for order in ([1, 2, 0, 3], np.array([1, 2, 3, 4], dtype=object)):
        y = np.array([*order])[RANKS]
        assert_array_equal(new(categories=order).fit(rows, y).categories_, order)
    assert not [one for one in recwarn if "whole numbers" in str(one.message)]
    with pytest.warns(UserWarning, match="pass the labels themselves"):
        new(categories=ORDER).fit(rows, np.minimum(RANKS, 2))


def test_meta_estimators_run(kind):
    new, rows = kind
    model = new(categories=ORDER)
    crossed = cross_val_predict(model, rows, LABELS, cv=2, method="predict_proba")
    classes = np.unique(LABELS)
    assert (classes[crossed.argmax(axis=1)] == LABELS).mean() > 0.4
    for meta in (
        CalibratedClassifierCV(model, cv=2),
        StackingClassifier([("one", model)], cv=2),
    ):
        meta.fit(rows, LABELS)
        assert_array_equal(meta.classes_, classes)
        assert meta.score(rows, LABELS) > 0.4


def test_what_goes_on_keeps_the_order():
    model = Ordinal(categories=ORDER, **PLAIN | GLM, warm_start=True).fit(X, LABELS)
    before, theta = model.predict_proba(X), model.posterior_.sample(3, random_state=0)
    log_joint = model.make_log_joint(X, LABELS)(theta)
    model.set_params(max_iter=3).fit(X, LABELS)
    assert_array_equal(model.categories_, ORDER)
    assert_array_equal(model.classes_, np.unique(LABELS))
    assert_allclose(model.predict_proba(X), before, atol=0.1)
    model.set_params(categories="auto")
    assert_array_equal(model.make_log_joint(X, LABELS)(theta), log_joint)


def test_the_second_of_two_classes_may_be_the_lower(kind):
    new, rows = kind
    high = RANKS > 1
    named = new(categories=["yes", "no"]).fit(rows, np.where(high, "no", "yes"))
    ranked, lower = new().fit(rows, high), (~high).astype(int)
    assert named.classes_.tolist() == ["no", "yes"]
    assert_allclose(
        named.predict_proba(rows), ranked.predict_proba(rows)[:, ::-1], atol=1e-14
    )
    ends = ranked.predict_proba_interval(rows)
    assert_allclose(named.predict_proba_interval(rows), 1.0 - ends[:, ::-1], atol=1e-12)
    if hasattr(named, "decision_function"):
        assert_allclose(
            named.decision_function(rows), -ranked.decision_function(rows), rtol=1e-9
        )
        return
    counted = named.log_predictive_density(rows, lower, trials=1)
    labels = named.log_predictive_density(rows, named.classes_[lower])
    assert_allclose(counted, labels)
