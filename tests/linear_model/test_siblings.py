"""What one model answers its siblings answer, too."""

import warnings
from inspect import getdoc, signature

import numpy as np
import pytest
from numpy.testing import assert_allclose

from .. import kinds
from ..cases import GROUPED, LINEAR, OTHERS, X, fitted

CASES = LINEAR | OTHERS


PAIRS = [*zip(kinds.FLAT, kinds.GROUPED, strict=True)]
ANSWERS = (
    "predict", "predict_interval", "predict_quantiles", "predict_proba",
    "predict_log_proba", "predict_proba_interval", "predict_uncertainty",
    "log_predictive_density",
)  # fmt: skip


@pytest.mark.parametrize(("flat", "grouped"), PAIRS)
def test_models_with_groups_have_the_keywords_of_groups_and_others_have_not(
    flat, grouped
):
    more = {"population": False, "groups": "all"}
    for name in ANSWERS:
        assert hasattr(flat, name) == hasattr(grouped, name)
        if not hasattr(flat, name):
            continue
        without, answer = getattr(flat, name), getattr(grouped, name)
        own = signature(answer).parameters
        assert more.keys() <= own.keys() - signature(without).parameters.keys()
        assert all(own[one].kind is own[one].KEYWORD_ONLY for one in more)
        assert {one: own[one].default for one in more} == more
        assert all(f"\n{one} : " in getdoc(answer) for one in more)
        assert "population" not in getdoc(without) and "sparse" not in getdoc(answer)
    with pytest.raises(TypeError, match=r"predict\(\) has no parameter 'population'"):
        flat().predict(X, population=True)
    with pytest.raises(TypeError, match=r"'popluation'. Did you mean 'population'\?"):
        grouped().predict(X, popluation=True)


def test_missing_responses_have_no_density():
    model, case = fitted("normal"), CASES["normal"]
    with pytest.raises(ValueError, match="y contains NaN"):
        model.log_predictive_density(X, np.where(case.y > 0.5, np.nan, case.y))


classifiers = pytest.mark.parametrize(
    "name",
    [
        name
        for name, case in CASES.items()
        if hasattr(case.estimator, "predict_proba") and case.y is not None
    ],
)


@classifiers
def test_logarithms_and_entropies_are_those_of_probabilities(name):
    model, case = fitted(name), CASES[name]
    proba = model.predict_proba(case.X)
    with np.errstate(divide="ignore"):
        assert_allclose(model.predict_log_proba(case.X), np.log(proba), atol=1e-6)
    total, aleatoric, epistemic = model.predict_uncertainty(case.X)
    assert_allclose(total, -(proba * np.log(proba)).sum(axis=1), rtol=1e-6)
    assert_allclose(aleatoric + epistemic, total, atol=2e-3)
    assert (epistemic >= 0.0).all() and epistemic.max() > 1e-4


def test_entropies_with_groups_are_averages_over_draws():
    model, rows = fitted("groups, classes"), GROUPED[:5]
    _, aleatoric, _ = model.predict_uncertainty(rows)
    coef, intercept, _, effects = model.sample_posterior(1024, random_state=0)
    (effects,) = effects.values()
    groups = rows[:, 2].astype(int)
    eta = rows[:, :2] @ coef.T + intercept + effects[:, groups, 0].T
    p = 1.0 / (1.0 + np.exp(-eta))
    entropy = -(p * np.log(p) + (1.0 - p) * np.log1p(-p)).mean(axis=1)
    assert_allclose(aleatoric, entropy, atol=0.01)
    known, new = (
        model.predict_uncertainty(rows, population=p)[2] for p in (False, True)
    )
    assert new.mean() > known.mean()


@classifiers
def test_missing_labels_are_refused(name):
    case, y = CASES[name], CASES[name].y.astype(object)
    for y[3] in (None, np.nan):
        with pytest.raises(ValueError, match="a label in every row; got|NaN"):
            case.new().fit(**case.data() | {"y": y})
    model, numbers = fitted(name), np.where(np.arange(len(y)) == 3, np.nan, 1.0)
    for labels in (y, numbers):
        with warnings.catch_warnings(), pytest.raises(ValueError, match="in row 3"):
            warnings.simplefilter("error", RuntimeWarning)
            model.score(case.X, labels)
