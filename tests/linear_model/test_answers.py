"""Answers about rows that models with groups and without have from one face."""

from inspect import getdoc, signature

import numpy as np
import pytest

import skboost
from skboost import BoostedBayesianLinearRegression

PAIRS = [
    (getattr(skboost, f"BoostedBayesian{kind}Regression"),
     getattr(skboost, f"BoostedHierarchical{kind}Regression"))
    for kind in ("Linear", "Logistic", "Ordinal", "Poisson")
]  # fmt: skip
ANSWERS = (
    "predict", "predict_interval", "predict_quantiles", "predict_proba",
    "predict_log_proba", "predict_proba_interval", "predict_uncertainty",
    "log_predictive_density",
)  # fmt: skip
X = np.random.default_rng(0).normal(size=(20, 2))


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("pair", PAIRS)
def test_keywords_of_groups_are_those_of_models_with_groups(pair, name):
    flat, grouped = (getattr(kind, name, None) for kind in pair)
    assert (flat is None) == (grouped is None)
    if flat is None:
        return
    own = signature(grouped).parameters
    more = {"population": False, "groups": "all"}
    assert more.keys() <= own.keys() - signature(flat).parameters.keys()
    assert all(own[one].kind is own[one].KEYWORD_ONLY for one in more)
    assert {one: own[one].default for one in more} == more
    assert all(f"\n{one} : " in getdoc(grouped) for one in more)
    assert "population" not in getdoc(flat) and "sparse" not in getdoc(grouped)


@pytest.mark.parametrize("pair", PAIRS)
def test_keywords_that_an_answer_does_not_have_are_refused_by_its_name(pair):
    flat, grouped = pair
    with pytest.raises(TypeError, match=r"predict\(\) has no parameter 'population'"):
        flat().predict(X, population=True)
    with pytest.raises(TypeError, match=r"'popluation'. Did you mean 'population'\?"):
        grouped().predict(X, popluation=True)


def test_missing_responses_have_no_density():
    model = BoostedBayesianLinearRegression(max_iter=1, random_state=0)
    y = X[:, 0] + X[:, 1] ** 2
    model.fit(X, y)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.log_predictive_density(X, np.where(y > 0.5, np.nan, y))
