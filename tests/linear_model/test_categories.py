"""Strings and categories: features of hierarchical models, errors elsewhere."""

import pickle
import runpy
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GroupKFold, cross_val_score

from skboost import BoostedGaussianMixture
from skboost.linear_model import _groups

from ..kinds import GroupedLinear, Linear, Logistic, OnlineLinear

ORDER = ["none", "low", "high"]


def frame():
    rng = np.random.default_rng(0)
    ward, sex = np.repeat(np.arange(6), 10), rng.integers(0, 2, 60)
    dose, smokes, age = (
        rng.integers(1, 3, 60),
        rng.random(60) < 0.4,
        rng.normal(size=60),
    )
    y = age + 2.0 * sex + dose + rng.normal(size=6)[ward] + 0.3 * rng.normal(size=60)
    columns = {
        "age": age,
        "ward": ward,
        "sex": np.array(["female", "male"])[sex],
        "dose": pd.Categorical(np.array(ORDER)[dose], ORDER, ordered=True),
        "smokes": smokes,
    }
    return pd.DataFrame(columns), y


def regression(**params):
    params = {"groups": ["ward"], "max_iter": 1, "random_state": 0} | params
    return GroupedLinear(**params)


@pytest.fixture(scope="module")
def model():
    return regression(slopes={"ward": ["sex"]}).fit(*frame())


def test_labels_have_coefficients_with_names_as_if_encoded(model):
    X, y = frame()
    names = ["age", "sex_male", "dose_high", "smokes"]
    assert list(model.summary().coefficients.index) == [*names, "intercept"]
    assert "sd(ward: sex_male)" in model.posterior_.names
    encoded = X.assign(sex=X.sex == "male", dose=X.dose == "high").astype(float)
    same = regression(slopes={"ward": ["sex"]}).fit(encoded, y)
    assert_allclose(model.coef_, same.coef_)
    assert_allclose(model.predict(X), same.predict(encoded))
    assert list(model.feature_names_in_) == list(X.columns)


def test_new_rows_are_read_by_their_labels(model):
    X, _ = frame()
    known = model.predict(X)
    assert_array_equal(model.predict(X[::-1]), known[::-1])
    plain = X.assign(dose=X.dose.astype(str), ward=X.ward.astype("category"))
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(plain), known)
    of_all = model.predict(X, population=True)
    without = model.predict(X.drop(columns="ward"), population=True)
    assert_array_equal(without, of_all)


def test_other_containers_are_the_same(model):
    X, y = frame()
    pl = pytest.importorskip("polars")
    dose = pl.Series(X.dose.tolist(), dtype=pl.Enum(ORDER))
    polars = pl.DataFrame({name: X[name].tolist() for name in X} | {"dose": dose})
    assert_array_equal(model.predict(polars), model.predict(X))
    fitted = regression(slopes={"ward": ["sex"]}).fit(polars, y)
    assert_allclose(fitted.coef_, model.coef_)
    rows = X.assign(dose=X.dose.astype(str)).to_numpy(dtype=object)
    names = regression(groups=[1]).fit(rows.tolist(), y).posterior_.names
    assert names[:4] == ("x0", "x2_male", "x3_low", "x4")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sex": "other"}, "'sex': 'female', 'male'; got 'other'"),
        ({"sex": None}, "a label in every row of the column 'sex'"),
        ({"age": "1.5"}, "numbers in column 'age': fit had numbers"),
    ],
)
def test_what_the_fit_has_not_seen_is_named(model, change, message):
    X, _ = frame()
    with pytest.raises(ValueError, match=message):
        model.predict(X.assign(**change))


def test_groups_that_are_held_out_are_no_cause_for_warnings():
    X, y = frame()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*groups in 'ward'")
        scores = cross_val_score(
            regression(), X, y, groups=X.ward, cv=GroupKFold(2), error_score="raise"
        )
    assert np.isfinite(scores).all()


def test_labels_that_can_not_be_features_are_refused():
    X, y = frame()
    with pytest.raises(ValueError, match="'sex', and rows that share them; got 60"):
        regression().fit(X.assign(sex=[str(i) for i in range(60)]), y)
    with pytest.raises(ValueError, match="array of objects where column 'x0'"):
        regression(groups=[1]).fit(X.to_numpy(dtype=str), y)


def test_files_read_labels_as_the_model_does(model, tmp_path):
    X, y = frame()
    model.export(tmp_path / "model.py")
    file = runpy.run_path(tmp_path / "model.py")
    rows = X.assign(dose=X.dose.astype(str))
    for given in (X, rows, rows.to_numpy(dtype=object)):
        assert_array_equal(file["predict"](given), model.predict(X))
    with pytest.raises(ValueError, match="the category 'other'"):
        file["predict"](X.assign(sex="other"))
    # Whole numbers as labels, of which floats are none others.
    numbered = X.assign(dose=X.dose.cat.codes.astype("category"))
    counted = regression().fit(numbered, y)
    counted.export(tmp_path / "counted.py")
    file = runpy.run_path(tmp_path / "counted.py")
    floats = numbered.assign(dose=numbered.dose.astype(float))
    assert_array_equal(file["predict"](floats), counted.predict(numbered))


@pytest.mark.parametrize(
    "estimator",
    [
        Linear(max_iter=1),
        Logistic(max_iter=1),
        BoostedGaussianMixture(max_iter=1),
        OnlineLinear(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_models_of_numbers_refuse_labels_by_name(estimator):
    X = pd.DataFrame({"age": [1.0, 2.0, 4.0], "sex": ["1", "2", "1"]})
    y = np.array([0, 1, 0])
    message = r"categories in {}\. Encode .*OneHotEncoder\(drop='first'\), \[{}\]"
    by_type = X.assign(sex=X.sex.astype(int).astype("category"))
    for columns in (X, by_type):
        with pytest.raises(ValueError, match=message.format("'sex'", "'sex'")):
            estimator.fit(columns, y)
    for rows in (X.to_numpy(dtype=object), X.to_numpy(dtype=object).tolist()):
        with pytest.raises(ValueError, match=message.format(1, 1)):
            estimator.fit(rows, y)


def test_every_column_of_labels_is_read_once(monkeypatch):
    rng, read = np.random.default_rng(0), []
    X = pd.DataFrame({"x": rng.normal(size=24), "kind": list("abc") * 8})
    X["ward"], y = np.repeat(list("pqrstu"), 4), rng.normal(size=24)
    looked = _groups.missing_in
    monkeypatch.setattr(_groups, "missing_in", lambda v: read.append(v) or looked(v))
    model = GroupedLinear(
        groups=["ward"], slopes={"ward": ["x"]}, max_iter=1, random_state=0
    )
    for call in (lambda: model.fit(X, y), lambda: model.predict(X)):
        read.clear()
        call()
        assert sorted(len(set(values)) for values in read) == [3, 6]
