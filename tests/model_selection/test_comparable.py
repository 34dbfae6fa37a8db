"""Grids whose ELBOs do not speak of the same data and likelihood are refused."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    StandardScaler,
    TargetEncoder,
)

from skboost import EvidenceSearch
from skboost.model_selection._evidence import check_comparable
from skboost.strategies import GreedySearch

from ..kinds import Logistic
from .conftest import NormalMean


def boosted(**settings):
    return Logistic(**settings)


def pipeline(model=None, scale=None):
    model = NormalMean() if model is None else model
    return Pipeline([("scale", scale or StandardScaler()), ("model", model)])


class Unfitted(Exception):
    """Raised in place of a fit: the candidates were comparable."""


@pytest.fixture(autouse=True)
def never_fitted(monkeypatch):
    def fit(self, X, y=None):
        raise Unfitted

    for kind in (NormalMean, Logistic):
        monkeypatch.setattr(kind, "fit", fit)


def check(estimator, *candidates):
    """Asks whether a search compares the candidates, and fits none."""
    grid = [{name: [v] for name, v in params.items()} for params in candidates]
    X, y = np.arange(60.0).reshape(20, 3) ** 2, [0, 1] * 10
    with pytest.raises(Unfitted):
        EvidenceSearch(estimator, grid, error_score="raise").fit(X, y)


# --- temperatures


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (NormalMean(), {"temperature": [0.5, 1.0]}),
        (boosted(), {"temperature": [0.5, 1.0]}),
        (pipeline(), {"model__temperature": [0.5, 1.0]}),
        (make_pipeline(pipeline()), {"pipeline__model__temperature": [0.1, 1]}),
        # Against the estimator's own value, and inside of estimators that are swapped.
        (NormalMean(), [{"temperature": [0.5]}, {"scale": [1.0]}]),
        (pipeline(), {"model": [NormalMean(), NormalMean(temperature=0.5)]}),
    ],
    ids=["density", "classifier", "pipeline", "nested", "list", "swapped"],
)
def test_temperatures_are_not_compared(rows, estimator, grid):
    search = EvidenceSearch(estimator, grid)
    with pytest.raises(ValueError, match="must not vary .*temperature") as caught:
        search.fit(rows)
    assert "the smallest always wins" in str(caught.value)
    assert "held-out log density: GridSearchCV" in str(caught.value)


def test_one_temperature_is_searched(rows):
    grid = {"temperature": [0.5], "scale": [0.1, 1.0]}
    check(NormalMean(), *ParameterGrid(grid))
    check(NormalMean(), {"temperature": 1}, {"temperature": 1.0}, {})


def test_temperatures_of_preprocessing_are_no_powers():
    warm = FunctionTransformer(kw_args={})
    steps = [("scale", Warmed(1.0)), ("model", boosted())]
    check(Pipeline(steps), {"scale__temperature": 1.0}, {"scale__temperature": 2.0})
    check(pipeline(boosted(), warm), {"model__prior_scale": 1.0})


class Warmed(FunctionTransformer):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature


def test_class_weights_are_not_compared():
    for one, other in ((None, "balanced"), ({0: 1.0}, {0: 2.0})):
        with pytest.raises(ValueError, match="must not vary class_weight"):
            check(boosted(), {"class_weight": one}, {"class_weight": other})
    check(boosted(), {"class_weight": {0: 2.0}}, {"class_weight": {0: 2.0}})


# --- data


@pytest.mark.parametrize(
    "candidates",
    [
        [{"scale": StandardScaler()}, {"scale": "passthrough"}],
        [{"scale": StandardScaler()}, {"scale": MinMaxScaler()}],
        [{"scale__with_mean": True}, {"scale__with_mean": False}],
        [{"scale__with_mean": False}, {}],
        [{"scale": PCA(2)}, {"scale": PCA(3)}],
        [{"scale": PCA(2), "scale__n_components": 1}, {"scale": PCA(2)}],
    ],
)
def test_models_of_x_need_the_same_x(candidates):
    with pytest.raises(ValueError, match="the preprocessing of a model of X"):
        check(pipeline(), *candidates)
    # The labels stay the same, so a classifier may look at them through anything.
    check(pipeline(boosted()), *candidates)


def test_equal_preprocessing_is_no_difference():
    check(pipeline(), {"scale": StandardScaler()}, {"scale": StandardScaler()}, {})
    check(pipeline(), {"scale": PCA(2)}, {"scale": PCA(3), "scale__n_components": 2})
    same = FunctionTransformer(partial(np.multiply, 2.0))
    check(pipeline(scale=same), {"model__scale": 1.0}, {"model__scale": 2.0})


def test_preprocessing_inside_of_the_last_step():
    nested = Pipeline([("outer", StandardScaler()), ("inner", pipeline())])
    with pytest.raises(ValueError, match="the preprocessing of a model of X"):
        check(
            nested, {"inner__scale__with_std": True}, {"inner__scale": MinMaxScaler()}
        )


def test_preprocessing_that_only_some_candidates_have():
    model = NormalMean()
    scaled = [("scale", StandardScaler()), ("model", model)]
    ranged = [("scale", MinMaxScaler()), ("model", model)]
    bare = Pipeline([("model", model)])
    for base, *candidates in [
        (bare, {}, {"steps": scaled}),
        (Pipeline(scaled), {"steps": ranged}, {}),
        (Pipeline(scaled), {"steps": ranged, "scale__clip": True}, {"steps": ranged}),
        (bare, {"model": Pipeline(scaled)}, {"model": model}),
        (bare, {"model": Pipeline(scaled)}, {"model": Pipeline(ranged)}),
        (Pipeline([("model", bare)]), {"model__steps": scaled}, {}),
    ]:
        with pytest.raises(ValueError, match="the preprocessing of a model of X"):
            check(base, *candidates)
    check(bare, {"steps": scaled}, {"steps": scaled, "model__scale": 2.0})
    check(bare, {"model": Pipeline(scaled)}, {"model": Pipeline(scaled)})


class Stepped(NormalMean):
    def __init__(self, n_steps=(1, 2)):
        super().__init__()
        self.n_steps = n_steps


def test_parameters_that_end_like_steps_are_none():
    check(Pipeline([("model", Stepped())]), {"model__n_steps": 3}, {})


def test_kinds_of_models_are_not_compared():
    with pytest.raises(ValueError, match="kind of model.*classifier.*model of X"):
        check(pipeline(), {"model": NormalMean()}, {"model": boosted()})


def test_features_chosen_by_their_labels_get_a_warning():
    model = boosted(max_iter=1, search=GreedySearch(32))
    select = Pipeline([("select", SelectKBest(f_classif)), ("model", model)])
    with pytest.warns(UserWarning, match="SelectKBest may look at y") as caught:
        check(select, {"select__k": 1}, {"select__k": 2})
    assert caught[0].filename == __file__
    encode = Pipeline([("encode", TargetEncoder()), ("model", boosted())])
    with pytest.warns(UserWarning, match="TargetEncoder may look at y"):
        check(encode, {"encode__smooth": 1.0}, {"encode__smooth": 2.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(select, {"select__k": 1, "model__prior_scale": 2.0}, {"select__k": 1})
        check(pipeline(boosted()), {"scale": PCA(1)}, {"scale": "passthrough"})


def test_formulas_have_one_response_and_the_same_rows():
    grid = {"formula": ["y ~ x", "y ~ x + z"]}
    check_comparable(boosted(), list(ParameterGrid(grid)))
    for other in ({"formula": ["y ~ x", "exp(y) ~ x"]}, grid | {"missing": ["drop"]}):
        with pytest.raises(ValueError, match="must keep the left side of formula"):
            check_comparable(boosted(), list(ParameterGrid(other)))
